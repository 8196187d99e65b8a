# SPDX-License-Identifier: BSD-3-Clause
"""The results as Markdown, between two marks of README.md."""

from __future__ import annotations

import os

from compare_lib.judge import Verdict
from compare_lib.markdown import row, target_table

from .report import FAILED, quantity_table, sections
from .results import Results

MARKS = ("<!-- apps:begin -->", "<!-- apps:end -->")


def cell(text: str) -> str:
    return f"**{text}**" if text == FAILED else text


def document(results: Results, verdicts: list[Verdict], about: str, plots: list[str]) -> str:
    lines = [about, ""]
    for quantity, text, cases in sections(results):
        head, *rows = quantity_table(results, quantity, cases)
        lines += [f"{text[0].upper()}{text[1:]}:", "", row(head),
                  row(["---"] + ["---:"] * (len(head) - 1))]
        lines += [row([cell(text) for text in cells]) for cells in rows] + [""]
    if any(v.value for v in verdicts):
        lines += ["Targets:", "", *target_table(verdicts)]
    if plots:
        lines += ["", *(f"![{os.path.splitext(os.path.basename(p))[0]}]({p})" for p in plots)]
    return "\n".join(lines) + "\n"
