# SPDX-License-Identifier: BSD-3-Clause
"""The figures of a run, by round, and the CSV files made of them."""

from __future__ import annotations

import csv
import os

from .figures import QUANTITIES, Figure
from .stats import Rounds
from .transports import TCP, TCPS, TRANSPORTS


class Results(Rounds):
    """Figures come by group; in it by scene, in the order of their first appearance, then in that
    of QUANTITIES, then by size."""

    def __init__(self):
        super().__init__()
        self._groups: dict[Figure, str] = {}
        # Group -> why all or part of it could not be measured.
        self.skipped: dict[str, str] = {}
        # Transport -> why it could not be measured at all.
        self.absent: dict[str, str] = {}
        # (group, transport) of runs that failed.
        self.failed: set[tuple[str, str]] = set()

    def add(self, group: str, figure: Figure, transport: str, round_: int, value: float) -> None:
        self._groups.setdefault(figure, group)
        self.put(figure, transport, round_, value)

    def add_each(self, group: str, figure: Figure, transport: str, round_: int,
                 values: tuple[float, ...]) -> None:
        """The samples of a round, in turns with those of others."""
        self._groups.setdefault(figure, group)
        for i, value in enumerate(values, 1):
            self.put(figure, transport, (round_, i), value)

    def rounds_of(self, figure: Figure, transport: str) -> dict:
        """TCP is the one with the better median."""
        if transport == TCP:
            medians = {name: self.summary(figure, name).median
                       for name in TCPS if super(Results, self).rounds_of(figure, name)}
            best = max if figure.about.more else min
            transport = best(medians, key=medians.get, default=TCP)
        return super().rounds_of(figure, transport)

    def groups(self) -> list[str]:
        return list(dict.fromkeys(self._groups.values()))

    def figures(self, group: str) -> list[Figure]:
        figures = [figure for figure, of in self._groups.items() if of == group]
        scenes = list(dict.fromkeys(figure.scene for figure in figures))
        quantities = list(QUANTITIES)
        return sorted(figures, key=lambda f: (scenes.index(f.scene),
                                              quantities.index(f.quantity), f.size))

    def transports(self, figures: list[Figure]) -> list[str]:
        """Those that have any of the figures, in the order of the table of transports."""
        wanted = set(figures)
        having = {transport for figure, transport in self._values if figure in wanted}
        return [name for name in TRANSPORTS if name in having]

    # ---- files ----------------------------------------------------------------------------------

    def write_rounds(self, folder: str) -> None:
        with open(os.path.join(folder, "rounds.csv"), "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["group", "quantity", "size", "scene", "unit", "transport", "round",
                          "sample", "value"])
            for (figure, transport), values in self._values.items():
                head = [self._groups[figure], figure.quantity, figure.size, figure.scene,
                        figure.about.unit, transport]
                for round_, value in values.items():
                    number, sample = round_ if isinstance(round_, tuple) else (round_, "")
                    out.writerow([*head, number, sample, f"{value:g}"])

    def write_summary(self, folder: str, against: tuple[str, ...]) -> None:
        """`against`: transports that each row is also divided by."""
        with open(os.path.join(folder, "summary.csv"), "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["group", "quantity", "size", "scene", "unit", "transport", "values",
                          "median", "low", "high", "spread"] + [f"ratio_to_{a}" for a in against])
            for figure, transport in self._values:
                s = self.summary(figure, transport)
                by = [self.ratio((figure, transport), (figure, a)) for a in against]
                out.writerow([self._groups[figure], figure.quantity, figure.size, figure.scene,
                              figure.about.unit, transport, s.count, f"{s.median:g}", f"{s.low:g}",
                              f"{s.high:g}", f"{s.spread:.4f}"]
                             + [f"{r.median:.4f}" if r else "" for r in by])
