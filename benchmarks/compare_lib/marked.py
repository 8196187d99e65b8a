# SPDX-License-Identifier: BSD-3-Clause
"""Text between two marks of a file; and what --readme renews: a summary with plots in README.md,
all figures in benchmarks/RESULTS.md."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Callable

from .command_line import README, RESULTS, TOP, check_writable, die

PLOTS = os.path.join("benchmarks", "plots")


@dataclass(frozen=True)
class Marks:
    """Around what a program writes into a file that people write, too."""

    program: str

    @property
    def begin(self) -> str:
        return f"<!-- {self.program}:begin -->"

    @property
    def end(self) -> str:
        return f"<!-- {self.program}:end -->"

    def __str__(self) -> str:
        return f"{self.begin} and {self.end}"


def put_between(text: str, inner: str, marks: Marks) -> str | None:
    """`text` with what is between the marks replaced; None when it has no marks."""
    begin, end = text.find(marks.begin), text.find(marks.end)
    if begin < 0 or end < begin:
        return None
    return f"{text[:begin + len(marks.begin)]}\n{inner}{text[end:]}"


def has_marks(path: str, marks: Marks) -> bool:
    with open(path, encoding="utf-8") as file:
        return put_between(file.read(), "", marks) is not None


def write(path: str, inner: str, marks: Marks) -> None:
    """Rewrites the file between its marks, or all of it when it has none."""
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
    new = put_between(text, inner, marks)
    with open(path, "w", encoding="utf-8") as file:
        file.write(inner if new is None else new)


def images(paths: list[str]) -> list[str]:
    """Lines that show them, after a blank one; none of none."""
    lines = [f"![{os.path.splitext(os.path.basename(path))[0]}]({path})" for path in paths]
    return ["", *lines] if lines else []


def check(marks: Marks, *paths: str) -> None:
    """Before the first run rather than after it: the files can be renewed."""
    for path in paths or (README, RESULTS):
        check_writable(path)
        if not has_marks(path, marks):
            die(f"{os.path.relpath(path, TOP)} has no lines {marks}")


def renew(marks: Marks, summary: Callable[[list[str]], str], whole: str, drawn: list[str]) -> None:
    """`summary` makes README.md's text, given the paths of the plots as seen from there; `whole`
    is that of RESULTS.md."""
    os.makedirs(os.path.join(TOP, PLOTS), exist_ok=True)
    for path in drawn:
        shutil.copy(path, os.path.join(TOP, PLOTS))
    write(README, summary([f"{PLOTS}/{os.path.basename(path)}" for path in drawn]), marks)
    write(RESULTS, whole, marks)
    print("written: README.md, benchmarks/RESULTS.md")
