# SPDX-License-Identifier: BSD-3-Clause
"""How written results came about: the command, the version measured, the day."""

from __future__ import annotations

import datetime
import os
import re
import shlex

from . import jobs
from .command_line import TOP

# Where things lie, and what is written beside the figures: nothing that changes a figure.
UNTOLD_FLAGS = ("--readme",)
UNTOLD_VALUES = ("--output", "--component", "--bindir")
# With these the programs measured may be of any version.
OTHER_BUILD = ("--component", "--bindir", "--tools")
# What such commands write themselves: it makes no other version.
RESULTS = ("README.md", "benchmarks/RESULTS.md", "benchmarks/plots")


def command_text(program: str, words: list[str]) -> str:
    """The command line as it was given, without what does not matter to a reader."""
    told, value_follows = [program], False
    for word in words:
        if value_follows:
            value_follows = False
        elif word in UNTOLD_VALUES:
            value_follows = True
        elif word.partition("=")[0] not in (*UNTOLD_FLAGS, *UNTOLD_VALUES):
            told.append(word)
    return shlex.join(told)


def package_version(top: str) -> str:
    with open(os.path.join(top, "configure.ac"), encoding="utf-8") as file:
        found = re.search(r"AC_INIT\(\[\w+\], \[([^\]]+)\]", file.read())
    return found.group(1) if found else "unknown"


def version_text(top: str = TOP) -> str:
    """Of the checkout; what was unpacked from a release may lie in a checkout of something else."""
    if not os.path.exists(os.path.join(top, ".git")):
        return package_version(top)
    described = jobs.run_quietly(["git", "-C", top, "describe", "--always"])
    if not described:
        return package_version(top)
    changed = jobs.run_quietly(["git", "-C", top, "status", "--porcelain", "--untracked-files=no",
                                "--", ".", *(f":!{path}" for path in RESULTS)])
    return described.strip() + ("-dirty" if changed else "")


def of_version(words: list[str]) -> str:
    given = {word.partition("=")[0] for word in words}
    if given.intersection(OTHER_BUILD) or "DIWARP_BUILD" in os.environ:
        return f"of another build than that of version {version_text()}"
    return f"of version {version_text()}"


def made_by(program: str, words: list[str]) -> str:
    day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return f"Made by `{command_text(program, words)}` {of_version(words)} on {day} (UTC)"
