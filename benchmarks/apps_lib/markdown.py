# SPDX-License-Identifier: BSD-3-Clause
"""The results as Markdown: all that was measured, and a summary."""

from __future__ import annotations

from compare_lib.judge import Verdict
from compare_lib.markdown import row, target_table
from compare_lib.marked import Marks, images
from compare_lib.report import counts_text

from .figures import QUANTITIES
from .report import FAILED, NOTHING, compared, quantity_table, saving_text, sections
from .results import Results
from .transports import TRANSPORTS

MARKS = Marks("apps")


def cell(text: str) -> str:
    return f"**{text}**" if text == FAILED else text


def document(results: Results, verdicts: list[Verdict], about: str) -> str:
    lines = [about, ""]
    for quantity, text, cases in sections(results):
        head, *rows = quantity_table(results, quantity, cases)
        lines += [f"{text[0].upper()}{text[1:]}:", "", row(head),
                  row(["---"] + ["---:"] * (len(head) - 1))]
        lines += [row([cell(text) for text in cells]) for cells in rows] + [""]
    if any(v.value for v in verdicts):
        lines += ["Targets:", "", *target_table(verdicts)]
    return "\n".join(lines) + "\n"


def summary_table(results: Results) -> list[str]:
    """What RD saves: a row a case, a column for each quantity and other transport."""
    columns, cases = [], []
    for quantity, _, of in sections(results):
        cases += [case for case in of if case not in cases]
        for other in compared(results.transports(of)):
            if any(saving_text(results, quantity, case, other) != NOTHING for case in of) \
                    and (quantity, other) not in columns:
                columns.append((quantity, other))
    head = ["RD saves", *(f"{QUANTITIES[quantity].title}, of {TRANSPORTS[other].title}"
                          for quantity, other in columns)]
    return [row(head), row(["---"] + ["---:"] * len(columns)),
            *(row([case.title, *(saving_text(results, quantity, case, other)
                                 for quantity, other in columns)]) for case in cases)]


def summary(results: Results, verdicts: list[Verdict], about: str, plots: list[str]) -> str:
    return "\n".join([about, "", *summary_table(results), "", f"Of the {counts_text(verdicts)}.",
                      *images(plots)]) + "\n"
