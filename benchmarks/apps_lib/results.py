# SPDX-License-Identifier: BSD-3-Clause
"""The figures of a run, by round and turn, and the CSV files made of them."""

from __future__ import annotations

import csv
import os
import statistics

from compare_lib.stats import Rounds, Summary

from .cases import Case
from .figures import Figure
from .transports import AGAINST, RD, TRANSPORTS

HEAD = ["application", "class", "ranks", "purpose", "quantity", "unit", "transport"]


def head_of(figure: Figure, transport: str) -> list:
    """In the units of the tables."""
    case = figure.case
    return [case.application, case.class_, case.ranks, case.purpose, figure.quantity,
            figure.about.unit, transport]


class Results(Rounds):
    def __init__(self):
        super().__init__()
        # Transport -> why it could not be run over at all.
        self.absent: dict[str, str] = {}
        # Case -> why there is no program for it.
        self.lacking: dict[Case, str] = {}
        # (case, transport) of a run that failed or was not verified -> why.
        self.failed: dict[tuple[Case, str], str] = {}

    def add(self, case: Case, transport: str, when: tuple[int, int],
            values: dict[str, float]) -> None:
        """`when`: round, and turn within it."""
        for quantity, value in values.items():
            self.put(Figure(quantity, case), transport, when, value)

    def cases(self) -> list[Case]:
        """Of all that ran or failed, in the order of their first appearance."""
        ran = dict.fromkeys(figure.case for figure, _ in self._values)
        ran.update(dict.fromkeys(case for case, _ in self.failed))
        return list(ran)

    def transports(self, cases: list[Case]) -> list[str]:
        """Those that ran any of the cases, or failed to."""
        having = {transport for figure, transport in self._values if figure.case in cases}
        having |= {transport for case, transport in self.failed if case in cases}
        return [name for name in TRANSPORTS if name in having]

    def of(self, quantity: str, case: Case, transport: str) -> Summary | None:
        return self.summary(Figure(quantity, case), transport)

    def over(self, figure: Figure, transport: str, other: str) -> Summary | None:
        """transport ÷ other, of the ratios within each turn. None when either ever failed."""
        if any((figure.case, name) in self.failed for name in (transport, other)):
            return None
        return self.ratio((figure, transport), (figure, other))

    def rd_over(self, quantity: str, case: Case, other: str) -> Summary | None:
        return self.over(Figure(quantity, case), RD, other)

    # ---- files ----------------------------------------------------------------------------------

    def write_rounds(self, path: str) -> None:
        with open(path, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow([*HEAD, "round", "turn", "value"])
            for (figure, transport), values in self._values.items():
                for when, value in sorted(values.items()):
                    out.writerow([*head_of(figure, transport), *when,
                                  f"{value / figure.about.scale:g}"])

    def write_summary(self, folder: str) -> None:
        with open(os.path.join(folder, "summary.csv"), "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow([*HEAD, "values", "median", "low", "high", "spread"]
                         + [f"ratio_to_{name}" for name in AGAINST])
            for figure, transport in self._values:
                s, scale = self.summary(figure, transport), figure.about.scale
                by = [self.over(figure, transport, a) for a in AGAINST]
                out.writerow([*head_of(figure, transport), s.count, f"{s.median / scale:g}",
                              f"{s.low / scale:g}", f"{s.high / scale:g}", f"{s.spread:.4f}"]
                             + [f"{r.median:.4f}" if r else "" for r in by])

    def write_failures(self, folder: str) -> None:
        with open(os.path.join(folder, "failures.csv"), "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["application", "class", "ranks", "transport", "why"])
            for (case, transport), why in self.failed.items():
                out.writerow([case.application, case.class_, case.ranks, transport, why])


def middle(summaries: list[Summary]) -> Summary | None:
    """Median and extremes of their medians."""
    values = [s.median for s in summaries]
    return Summary(statistics.median(values), min(values), max(values), len(values)) \
        if values else None
