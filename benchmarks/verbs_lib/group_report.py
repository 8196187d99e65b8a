# SPDX-License-Identifier: BSD-3-Clause
"""Tables, CSV files and plots of groups."""

from __future__ import annotations

import os

from compare_lib.plots import HEAD, run_scripts
from compare_lib.report import table
from compare_lib.stats import Summary

from .group import AGGREGATE, FASTEST, LOST, SLOWEST, VALID, VERBS, WAYS
from .group import GroupSession, quantities, unicast_of
from .report import NOT_RUN, Notes, number, size_text, write_tables

CSV_FILES = ("group-rounds.csv", "group-summary.csv")
HEADERS = {AGGREGATE: "all, MB/s", VALID: "valid, MB/s", SLOWEST: "slowest one",
           FASTEST: "fastest one", LOST: "not whole, %"}
# Of AGGREGATE, within each round; in the summary a quantity of its own.
RATIO = "over_unicast"


class GroupReport:
    def __init__(self, session: GroupSession):
        self.results = session.results
        self.lacks = session.lacks
        self.plan = session.plan

    def ratio(self, key: tuple, way: str) -> Summary | None:
        """To unicast; None for that itself."""
        base = unicast_of(way)
        return self.results.ratio((key, way), (key, base)) if way != base else None

    def cell(self, key: tuple, way: str, notes: Notes) -> str:
        return shown(self.results.summary(key, way)) or notes.mark(
            self.lacks.get((key, way), NOT_RUN))

    def table_of(self, verb: str, size: int) -> str:
        notes = Notes()
        columns = quantities(verb)
        rows = [["to", "receivers", *(HEADERS[q] for q in columns), "÷ unicast"]]
        for receivers in self.plan.receivers:
            for way in WAYS:
                cells = [self.cell((verb, receivers, size, q), way, notes) for q in columns]
                ratio = self.ratio((verb, receivers, size, AGGREGATE), way)
                rows.append([way, str(receivers), *cells, shown(ratio)])
        return "\n".join([f"groups, {VERBS[verb]} of {size_text(size)}:", table(rows),
                          *notes.lines()])

    def text(self) -> str:
        return "\n\n".join(self.table_of(verb, size) for verb in VERBS for size in self.plan.sizes)

    # ---- files ----------------------------------------------------------------------------------

    def write_csv(self, folder: str) -> None:
        head = ["series", "to", "receivers", "bytes", "quantity"]
        rounds, summary = [], []
        for row in self.plan.rows:
            for size in self.plan.sizes:
                for quantity in quantities(row.verb):
                    key = (row.verb, row.receivers, size, quantity)
                    begin = [VERBS[row.verb], row.way, row.receivers, size, quantity]
                    values = self.results.rounds_of(key, row.way)
                    rounds += [[*begin, r, f"{value:.6g}"] for r, value in sorted(values.items())]
                    summary.append([*begin, *of(self.results.summary(key, row.way)),
                                    "" if values else self.lacks.get((key, row.way), NOT_RUN)])
                ratio = self.ratio((row.verb, row.receivers, size, AGGREGATE), row.way)
                if ratio:
                    summary.append([VERBS[row.verb], row.way, row.receivers, size, RATIO,
                                    *of(ratio), ""])
        write_tables(folder, CSV_FILES, head, (rounds, summary))

    # ---- plots: all receivers' bandwidth over their number --------------------------------------

    def write_script(self, folder: str, stem: str, verb: str, size: int) -> bool:
        """False: there is nothing to draw."""
        parts = []
        for i, way in enumerate(WAYS):
            points = [(n, self.results.summary((verb, n, size, AGGREGATE), way))
                      for n in self.plan.receivers]
            lines = [f"{n} {s.median:g} {s.low:g} {s.high:g}\n" for n, s in points if s]
            if lines:
                with open(os.path.join(folder, f"{stem}-{i}.dat"), "w", encoding="ascii") as file:
                    file.writelines(lines)
                parts.append(f'"{stem}-{i}.dat" with yerrorlines pt {5 + i} lc {1 + i} '
                             f'title "{way}"')
        if not parts:
            return False
        with open(os.path.join(folder, f"{stem}.gp"), "w", encoding="utf-8") as file:
            file.write(f'{HEAD}unset logscale\nset xrange [0:{max(self.plan.receivers) + 1}]\n'
                       f'set yrange [0:*]\nset xtics 1 norotate\nset xlabel "receivers"\n'
                       f'set ylabel "MB/s, all receivers"\nset output "{stem}.png"\n'
                       f'set title "{VERBS[verb]} of {size_text(size)}"\n'
                       "plot " + ", \\\n     ".join(parts) + "\n")
        return True

    def draw(self, folder: str) -> tuple[list[str], str]:
        """(paths of the PNG files, why there are none)."""
        os.makedirs(folder, exist_ok=True)
        wanted = [(f"group-{verb}-{size}", verb, size)
                  for verb in VERBS for size in self.plan.sizes]
        return run_scripts(folder, [row[0] for row in wanted if self.write_script(folder, *row)])


def shown(summary: Summary | None) -> str:
    if not summary:
        return ""
    spread = f" ({100 * summary.spread:.0f} %)" if summary.count > 1 and summary.median else ""
    return number(summary.median) + spread


def of(summary: Summary | None) -> list[str | int]:
    """The cells of a summary."""
    if not summary:
        return ["", "", "", 0]
    return [*(f"{v:.6g}" for v in (summary.median, summary.low, summary.high)), summary.count]
