# SPDX-License-Identifier: BSD-3-Clause
"""Tables, and CSV files, of all figures; what could not be measured has a note that says why."""

from __future__ import annotations

import csv
import os

from compare_lib.report import table
from compare_lib.stats import Rounds

from .series import COMPARED, LAST, LATENCY, LOSS, LOST, NATIVE, OF, RAW, VALID, WHOLE
from .series import Figure, Series, quantities

TITLES = {
    LATENCY: "half round trip, µs (with *: request to completion, a whole round trip)",
    WHOLE: "whole messages, MB/s",
    VALID: "valid bytes of records, or of reads, MB/s",
    LAST: "valid bytes of records whose last segment came, MB/s",
    LOST: "messages that did not come whole, %",
}
CSV_FILES = ("rounds.csv", "summary.csv")
NOT_RUN = "was not run"
LARGE_TEXT = """64 KiB datagrams: diwarp itself sends none beyond its interface's MTU, and all with
DF; here the interfaces have an MTU of 65535, and a router clears DF and breaks datagrams up for an
MTU of 1500."""


def write_tables(folder: str, names: tuple[str, str], head: list[str],
                 tables: tuple[list, list]) -> None:
    """The rounds, and the summary, of what `head` tells apart."""
    columns = (["round", "value"], ["median", "low", "high", "count", "why_not"])
    for name, more, rows in zip(names, columns, tables):
        with open(os.path.join(folder, name), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(head + more)
            writer.writerows(rows)


class Notes:
    """Reasons, numbered as they are first used in a table."""

    def __init__(self):
        self.reasons: list[str] = []

    def mark(self, reason: str) -> str:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"- [{self.reasons.index(reason) + 1}]"

    def lines(self) -> list[str]:
        return [f"[{i + 1}] not measured: {reason}" for i, reason in enumerate(self.reasons)]


def size_text(size: int) -> str:
    for unit, of in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= of and size % of == 0:
            return f"{size // of} {unit}"
    return f"{size} B"


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


class Report:
    def __init__(self, results: Rounds, lacks: dict[tuple[Figure, str], str],
                 series: list[Series], sizes: list[int], losses: list[float]):
        self.results = results
        self.lacks = lacks
        self.series = series
        self.sizes = sizes
        self.losses = losses

    def why(self, figure: Figure, series: Series) -> str:
        """Why there is no such figure."""
        return self.lacks.get((figure, series.name), NOT_RUN)

    def cell(self, figure: Figure, series: Series, notes: Notes) -> str:
        summary = self.results.summary(figure, series.name)
        if not summary:
            return notes.mark(self.why(figure, series))
        spread = f" ({100 * summary.spread:.0f} %)" if summary.count > 1 else ""
        return number(summary.median) + spread

    # ---- tables ---------------------------------------------------------------------------------

    def table_of(self, title: str, columns: list[tuple[str, Series, str, float | None]]) -> str:
        """Columns: (header, series, quantity, loss)."""
        notes = Notes()
        rows = [["bytes", *(header for header, *_ in columns)]]
        for size in self.sizes:
            rows.append([size_text(size), *(self.cell(Figure(quantity, size, loss), series, notes)
                                            for _, series, quantity, loss in columns)])
        return "\n".join([f"{title}:", table(rows), *notes.lines()])

    def plain_tables(self) -> list[str]:
        """Of the first part: diwarp's own API, then libibverbs over it and the raw sockets."""
        tables = []
        for quantity in (LATENCY, WHOLE):
            for groups, where in (((NATIVE,), "diwarp's API"),
                                  ((OF, RAW), "libibverbs over the front, raw sockets")):
                columns = [(s.name + "*" * (quantity == LATENCY and s.one_sided), s, quantity, None)
                           for s in self.series if s.group in groups]
                if columns:
                    tables.append(self.table_of(f"{where}: {TITLES[quantity]}", columns))
        return tables

    def loss_tables(self) -> list[str]:
        """A table for each series and quantity: sizes by losses."""
        return [self.table_of(f"{series.name} segments, packets lost: {TITLES[quantity]}",
                              [(f"{loss:g} %", series, quantity, loss) for loss in self.losses])
                for series in self.series if series.group == LOSS
                for quantity in quantities(series)]

    def comparison(self) -> list[str]:
        """Ratios taken within each round; none of what was not measured."""
        rows = [["", "ratio", "wanted"]]
        for name, other, figure, wanted in COMPARED:
            ratio = self.results.ratio((figure, name), (figure, other))
            if ratio:
                of_time = figure.quantity == LATENCY
                what = "half round trip" if of_time else "bandwidth"
                rows.append([f"{name} ÷ {other}, {size_text(figure.bytes)}, {what}",
                             f"{number(ratio.median)} ({number(ratio.low)} to {number(ratio.high)})",
                             f"{'at most' if of_time else 'at least'} {wanted:g}"])
        return [table(rows)] if len(rows) > 1 else []

    def text(self) -> str:
        large = [LARGE_TEXT] if any(series.large for series in self.series) else []
        return "\n\n".join(self.comparison() + self.plain_tables() + self.loss_tables() + large)

    # ---- files ----------------------------------------------------------------------------------

    def all_figures(self) -> list[tuple[Series, Figure]]:
        return [(series, Figure(quantity, size, loss)) for series in self.series
                for quantity in quantities(series) for size in self.sizes
                for loss in (self.losses if series.group == LOSS else [None])]

    def write_csv(self, folder: str) -> None:
        head = ["group", "series", "quantity", "bytes", "loss_percent"]
        rounds, summary = [], []
        for series, figure in self.all_figures():
            key = [series.group, series.name, figure.quantity, figure.bytes,
                   "" if figure.loss is None else f"{figure.loss:g}"]
            values = self.results.rounds_of(figure, series.name)
            rounds += [[*key, round_, f"{value:.6g}"] for round_, value in sorted(values.items())]
            of = self.results.summary(figure, series.name)
            summary.append([*key, *(f"{v:.6g}" for v in (of.median, of.low, of.high)), of.count, ""]
                           if of else [*key, "", "", "", 0, self.why(figure, series)])
        write_tables(folder, CSV_FILES, head, (rounds, summary))
