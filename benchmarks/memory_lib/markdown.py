# SPDX-License-Identifier: BSD-3-Clause
"""The results as Markdown: all that was measured, and a summary."""

from __future__ import annotations

from apps_lib.transports import TRANSPORTS
from compare_lib.judge import Verdict
from compare_lib.markdown import row, target_table
from compare_lib.marked import Marks, images
from compare_lib.report import counts_text

from .model import Model
from .points import Point
from .report import PREDICTED_RANKS, bytes_text, error_text, ranks_text

MARKS = Marks("memory")


def table(points: list[Point], models: dict[str, Model]) -> list[str]:
    """A column for each transport: what was measured, and what the model says."""
    names = list(dict.fromkeys(p.transport for p in points))
    totals = {(p.transport, p.ranks): bytes_text(p.total) for p in points}
    rows = [["ranks", *(TRANSPORTS[name].title for name in names)],
            ["---:"] * (len(names) + 1)]
    for ranks in sorted({p.ranks for p in points}):
        rows.append([str(ranks), *(totals.get((name, ranks), "–") for name in names)])
    found = [models.get(name) for name in names]
    rows.append(["for each peer", *(bytes_text(m.line.slope) if m else "–" for m in found)])
    for ranks in PREDICTED_RANKS:
        rows.append([f"predicted, {ranks_text(ranks)}",
                     *(bytes_text(m.line.at(ranks - 1)) if m else "–" for m in found)])
    rows.append(["error at the largest point", *(error_text(m) if m else "–" for m in found)])
    return [row(cells) for cells in rows]


def document(points: list[Point], models: dict[str, Model], verdicts: list[Verdict],
             about: str) -> str:
    lines = [about, "", *table(points, models)]
    if any(v.value for v in verdicts):
        lines += ["", "Targets:", "", *target_table(verdicts)]
    return "\n".join(lines) + "\n"


def summary(points: list[Point], models: dict[str, Model], verdicts: list[Verdict], about: str,
            plots: list[str]) -> str:
    return "\n".join([about, "", *table(points, models), "", f"Of the {counts_text(verdicts)}.",
                      *images(plots)]) + "\n"
