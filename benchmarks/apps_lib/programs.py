# SPDX-License-Identifier: BSD-3-Clause
"""The applications, where their programs are and how they are called."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import readings

CLASSES = ("S", "W", "A", "B")
NPB, SMG = "NPB", "SMG2000"
# SMG2000 has no classes: points of one process in each direction.
SMG_POINTS = {"S": 10, "W": 20, "A": 40, "B": 60}


@dataclass(frozen=True)
class Application:
    """`program` is our own. `nasa` is the name of NASA's, in whose place the user may have it; ""
    when NPB has none."""

    name: str
    title: str
    program: str
    kind: str = NPB
    nasa: str = ""


APPLICATIONS = {
    a.name: a
    for a in (
        Application("cg", "CG", "npb_cg", nasa="cg"),
        Application("mg", "MG", "npb_mg", nasa="mg"),
        Application("lu", "LU", "npb_lu", nasa="lu"),
        Application("radix", "Radix", "radix"),
        Application("smg2000", "SMG2000", "smg2000", SMG),
    )
}


def process_grid(ranks: int) -> list[int]:
    """Three factors of it, as even as they can be, the largest first: 4 gives [2, 2, 1]."""
    factors, grid = [], [1, 1, 1]
    factor = 2
    while ranks > 1:
        while ranks % factor == 0:
            factors.append(factor)
            ranks //= factor
        factor += 1
    for factor in reversed(factors):
        grid[grid.index(min(grid))] *= factor
    return sorted(grid, reverse=True)


def is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


@dataclass(frozen=True)
class Programs:
    """`folders`: where our own are. `npb` is a folder of NASA's programs and `smg2000` the path of
    another SMG2000, which are taken instead; "" when not given."""

    folders: tuple[str, ...]
    npb: str = ""
    smg2000: str = ""

    def names(self, app: Application, class_: str, ranks: int) -> list[str]:
        """Paths the program may have, best first."""
        if self.npb and app.nasa:
            names = [f"{app.nasa}.{class_}.x", f"{app.nasa}.{class_}.{ranks}"]
            return [os.path.join(self.npb, sub, name) for sub in ("", "bin") for name in names]
        if self.smg2000 and app.kind == SMG:
            return [self.smg2000]
        return [os.path.join(folder, app.program) for folder in self.folders]

    def command(self, app: Application, class_: str, ranks: int) -> list[str] | None:
        """The program with its arguments; None when it is not there."""
        path = next(filter(is_executable, self.names(app, class_, ranks)), None)
        if not path:
            return None
        if app.kind == SMG:
            grid = [str(count) for count in process_grid(ranks)]
            return [path, "-n", *[str(SMG_POINTS[class_])] * 3, "-P", *grid]
        return [path] if self.npb and app.nasa else [path, class_]

    def lack(self, app: Application, class_: str, ranks: int) -> str:
        """What to say when there is no program."""
        names = self.names(app, class_, ranks)
        if self.npb and app.nasa:
            return f"no {' or '.join(map(os.path.basename, names[:2]))} in {self.npb}"
        if self.smg2000 and app.kind == SMG:
            return f"no program {self.smg2000}"
        return f"{app.program} is not built"


def outcome(app: Application, text: str, class_: str, ranks: int) -> readings.Outcome:
    """What the program said. Raises readings.Unusable when it is not a verified run of that."""
    if app.kind == SMG:
        return readings.smg_outcome(text, ranks)
    return readings.npb_outcome(text, app.title, class_, ranks)
