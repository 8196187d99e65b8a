# SPDX-License-Identifier: BSD-3-Clause
"""Curves over the message size, with low and high of the rounds, drawn by gnuplot."""

from __future__ import annotations

import os

from compare_lib.plots import HEAD, run_scripts

from .report import Report
from .series import LAST, LATENCY, LOSS, LOST, RAW, VALID, WHOLE
from .series import Figure, Series, quantities

STYLES = {WHOLE: "", VALID: "dashtype 2", LAST: "dashtype 3", LATENCY: ""}
PLAIN = ("latency", "bandwidth")
Curve = "tuple[str, Series, str, float | None]"  # (title, series, quantity, loss)


def stem_of(series: Series) -> str:
    return "loss-" + "".join(c if c.isalnum() else "-" for c in series.name.lower())


def write_curve(report: Report, path: str, curve: Curve) -> bool:
    """False: there is no point of it."""
    _, series, quantity, loss = curve
    lines = []
    for size in sorted(report.sizes):
        summary = report.results.summary(Figure(quantity, size, loss), series.name)
        if summary and summary.median > 0:
            lines.append(f"{size} {summary.median:g} {summary.low:g} {summary.high:g}\n")
    if lines:
        with open(path, "w", encoding="ascii") as file:
            file.writelines(lines)
    return bool(lines)


def write_script(report: Report, folder: str, stem: str, title: str, axis: str,
                 curves: list[Curve]) -> bool:
    """False: there is nothing to draw."""
    parts = []
    for i, curve in enumerate(curves):
        name, series, quantity, loss = curve
        data = f"{stem}-{i}.dat"
        if not write_curve(report, os.path.join(folder, data), curve):
            continue
        dashes = "dashtype 4" if series.group == RAW else STYLES[quantity]
        color = 1 + (i if loss is None else report.losses.index(loss))
        parts.append(f'"{data}" with yerrorlines pt {5 + i % 10} ps 0.6 lc {color} {dashes} '
                     f'title "{name}"')
    if not parts:
        return False
    with open(os.path.join(folder, f"{stem}.gp"), "w", encoding="utf-8") as file:
        file.write(f'{HEAD}set output "{stem}.png"\nset title "{title}"\nset ylabel "{axis}"\n'
                   "set logscale y 10\nplot " + ", \\\n     ".join(parts) + "\n")
    return True


def draw(report: Report, where: str, folder: str) -> tuple[list[str], str]:
    """(paths of the PNG files, why there are none)."""
    os.makedirs(folder, exist_ok=True)
    plain = [s for s in report.series if s.group != LOSS]
    wanted = [(stem, f"{title}, {where}", axis, [(s.name, s, quantity, None) for s in plain])
              for stem, title, axis, quantity in
              ((PLAIN[0], "Half round trip (Read, RD Write-Record: whole)", "µs", LATENCY),
               (PLAIN[1], "Bandwidth in one direction", "MB/s", WHOLE))]
    for series in report.series:
        if series.group == LOSS:
            curves = [(f"{loss:g} % lost, {quantity}", series, quantity, loss)
                      for loss in report.losses for quantity in quantities(series)
                      if quantity != LOST]
            wanted.append((stem_of(series), f"{series.name} segments, packets lost", "MB/s",
                           curves))
    return run_scripts(folder, [row[0] for row in wanted if write_script(report, folder, *row)])


def is_ours(name: str) -> bool:
    """Of files of an earlier run: whether they are plots of this program."""
    return name.startswith((*PLAIN, "loss-", "group-")) and name.endswith((".png", ".gp", ".dat"))
