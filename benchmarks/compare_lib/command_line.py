# SPDX-License-Identifier: BSD-3-Clause
"""What the command lines of compare and apps have in common."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import sys
from typing import Callable, Iterable, Iterator

from . import jobs
from .jobs import STOP_SIGNALS
from .stats import Rounds
from .transports import Launcher, default_congestion_control

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
README = os.path.join(TOP, "README.md")
RESULTS = os.path.join(TOP, "benchmarks", "RESULTS.md")
COMPONENT_FILE = "mca_btl_diwarp.so"
# In the output folder of compare and of apps.
RESULT_FILES = ("rounds.csv", "summary.csv", "failures.csv", "targets.csv")
# Load per core from which other work is felt.
BUSY_SHARE = 0.25

EXIT_TEXT = """exit status: 0 all ran (with --judge: and no target was missed); 1 a run failed, or a
target was missed; 2 wrong use, something needed is not there, or nothing could be judged.
DIWARP_BUILD (build folder), MPIRUN and OMPI_INFO (commands) may be set in the environment."""


def die(text: str) -> None:
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr)
    sys.exit(2)


# ---- values of options --------------------------------------------------------------------------


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of 1 or more")
    return int(text)


def names_of(known) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        if not names:
            raise argparse.ArgumentTypeError(f"no name in '{text}'; there are {', '.join(known)}")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no '{name}'; there are {', '.join(known)}")
        return names

    return parse


def folder(text: str) -> str:
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"no such folder: {text}")
    return os.path.abspath(text)


# ---- files and folders --------------------------------------------------------------------------


def build_folder() -> str:
    return os.environ.get("DIWARP_BUILD") or os.path.join(TOP, "build")


def output_folder(path: str | None, name: str) -> str:
    """`path`, or NAME in the build folder or here; made when it is not there."""
    if not path:
        build = build_folder()
        usable = os.path.isdir(build) and os.access(build, os.W_OK)
        path = os.path.join(build if usable else ".", name)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        die(f"cannot make the folder {path}: {error.strerror}")
    if not os.access(path, os.W_OK):
        die(f"cannot write into the folder {path}")
    return os.path.abspath(path)


def remove_older(folder: str, names: Iterable[str]) -> None:
    """What an earlier run left under these names in the folder does not stay beside new results.
    Should it not let itself be removed, the results are written all the same."""
    for name in names:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(folder, name))


@contextlib.contextmanager
def kept_when_stopped(results: Rounds, write: Callable[[], None]) -> Iterator[None]:
    """Writes when the run ends, and when it is stopped, unless it had measured nothing by then."""
    try:
        yield
    except BaseException:
        if results.anything:
            write()
        raise
    write()


def check_writable(path: str | None) -> None:
    """Of a file that is written at the end: better told before the first run than after it."""
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8"):
            pass
    except OSError as error:
        die(f"cannot write {path}: {error.strerror}")


def without(signs: str, path: str) -> str:
    """The path; dies when one of `signs` in it would cut it in two where it is to be used."""
    for sign in signs:
        if sign in path:
            die(f"a '{sign}' cannot be in the path {path}: it is used in a list")
    return path


def preloadable(path: str) -> str:
    """LD_PRELOAD is a list."""
    return without(" :", path)


def component_folder(asked: str | None) -> str:
    """Of diwarp's component: what was asked for, or the build's; "" when neither is there."""
    built = os.path.join(build_folder(), "component")
    if asked:
        if not os.path.exists(os.path.join(asked, COMPONENT_FILE)):
            die(f"no {COMPONENT_FILE} in {asked}")
        return without(":", asked)
    if not os.path.exists(os.path.join(built, COMPONENT_FILE)):
        return ""
    return without(":", os.path.abspath(built))


# ---- the machine --------------------------------------------------------------------------------


def machine_text(launcher: Launcher) -> str:
    version = (jobs.run_quietly([launcher.mpirun, "--version"]) or "Open MPI").splitlines()[0]
    version = version.replace("mpirun (", "").replace(")", "")
    system, release = platform.system(), ".".join(platform.release().split(".")[:2])
    return (f"{launcher.cores} core{'s' * (launcher.cores != 1)}, {system} {release}, {version}, "
            f"TCP by default over {default_congestion_control() or '?'}")


# What of the user's environment changes what is run.
SETTINGS = ("OMPI_MCA_btl_", "OMPI_MCA_pml", "OMPI_MCA_osc", "OMPI_MCA_coll", "UCX_", "FI_")


def warn_of_settings() -> None:
    found = sorted(name for name in os.environ if name.startswith(SETTINGS))
    if found:
        print(f"set in the environment, and so for all runs: {', '.join(found)}")


def warn_of_machine(launcher: Launcher) -> None:
    warn_of_settings()
    if launcher.cores < 2:
        print("less than 2 cores: no figure is worth much")
    if os.getloadavg()[0] > BUSY_SHARE * launcher.cores:
        print(f"the machine is busy (load {os.getloadavg()[0]:.1f}): expect a large spread")


# ---- signals ------------------------------------------------------------------------------------


def stop(number: int, _frame) -> None:
    """Ends by an exception, so that everything started is ended and removed; a second signal does
    not disturb that."""
    for other in STOP_SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def run_to_the_end(work: Callable[[], int]) -> int:
    """The exit status of `work`, with signals and a reader that goes away taken care of."""
    for number in STOP_SIGNALS:
        signal.signal(number, stop)
    try:
        return work()
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
