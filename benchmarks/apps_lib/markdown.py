# SPDX-License-Identifier: BSD-3-Clause
"""The results as Markdown: all that was measured, and a summary."""

from __future__ import annotations

from compare_lib.judge import Verdict
from compare_lib.markdown import row, target_table
from compare_lib.marked import Marks, images
from compare_lib.report import counts_text
from compare_lib.transports import TCP

from .cases import MEMORY as FOR_MEMORY, Case
from .figures import COMMUNICATION, MEMORY, QUANTITIES, RUNTIME
from .report import FAILED, NOTHING, quantity_table, saving_text, sections
from .results import Results
from .transports import RC, TRANSPORTS

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


# What is seen first: of what RD saves how much.
SUMMARY = tuple((quantity, other) for quantity in (RUNTIME, COMMUNICATION, MEMORY)
                for other in (RC, TCP))


def summary_row(results: Results, case: Case, columns: list[tuple[str, str]]) -> list[str]:
    """Of a case for memory only that counts: the most there was."""
    of_memory = case.purpose == FOR_MEMORY
    return [case.title + (", at most" if of_memory else ""),
            *(NOTHING if of_memory and quantity != MEMORY
              else saving_text(results, quantity, case, other) for quantity, other in columns)]


def summary_table(results: Results) -> list[str]:
    """What RD saves: a row a case, those that tell anything."""
    cases = list(dict.fromkeys(case for _, _, of in sections(results) for case in of))
    columns = [(quantity, other) for quantity, other in SUMMARY
               if any(saving_text(results, quantity, case, other) != NOTHING for case in cases)]
    head = ["RD saves", *(f"{QUANTITIES[quantity].title}, of {TRANSPORTS[other].title}"
                          for quantity, other in columns)]
    return [row(head), row(["---"] + ["---:"] * len(columns)),
            *(row(summary_row(results, case, columns)) for case in cases)]


def summary(results: Results, verdicts: list[Verdict], about: str, plots: list[str]) -> str:
    return "\n".join([about, "", *summary_table(results), "", f"Of the {counts_text(verdicts)}.",
                      *images(plots)]) + "\n"
