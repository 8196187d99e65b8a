# SPDX-License-Identifier: BSD-3-Clause
"""The results as Markdown, between two marks of a file that has them."""

from __future__ import annotations

import os

from .figures import Figure
from .judge import MET, Verdict
from .measures import KIB, MIB
from .report import RAW_HEAD, number, raw_cells
from .results import Results
from .transports import DIWARP, OFI_TCP, RAW_UDP, TCP, TRANSPORTS, UCX

BEGIN, END = "<!-- compare:begin -->", "<!-- compare:end -->"
MARKS = (BEGIN, END)

COLUMNS = (RAW_UDP, TCP, UCX, OFI_TCP, DIWARP)
AGAINST = (TCP, RAW_UDP)
ROWS = (
    Figure("latency", 8),
    Figure("latency", KIB),
    Figure("latency", 8 * KIB),
    Figure("latency", 64 * KIB),
    Figure("stream", MIB),
    Figure("stream", 4 * MIB),
    Figure("stream_bi", MIB),
    Figure("rate", 8),
    Figure("cpu", MIB),
    Figure("put_latency", 8),
    Figure("get_latency", 8),
    Figure("put_stream", MIB),
    Figure("get_stream", MIB),
    Figure("allreduce", 8),
    Figure("alltoall", 4 * KIB),
    Figure("bcast", MIB),
    Figure("latency", 8, "MTU 1500"),
    Figure("stream", MIB, "MTU 1500"),
    Figure("latency", 8, "MTU 9000"),
    Figure("stream", MIB, "MTU 9000"),
    Figure("stream", MIB, "MTU 1500, 1 % lost"),
    Figure("incast", 15),
)


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def figure_table(results: Results) -> list[str]:
    columns = [t for t in COLUMNS if t in results.transports(list(ROWS))]
    against = [t for t in AGAINST if t in columns and DIWARP in columns]
    head = [""] + [TRANSPORTS[t].title for t in columns]
    head += [f"diwarp ÷ {TRANSPORTS[t].title}" for t in against]
    lines = [row(head), row(["---"] + ["---:"] * (len(head) - 1))]
    for figure in ROWS:
        values = [results.summary(figure, t) for t in columns]
        if not any(values):
            continue
        ratios = [results.ratio((figure, DIWARP), (figure, t)) for t in against]
        lines.append(row([figure.title_and_unit]
                         + [figure.text(v.median) if v else "–" for v in values]
                         + [f"{r.median:.2f}" if r else "–" for r in ratios]))
    return lines


def target_table(verdicts: list[Verdict]) -> list[str]:
    judged = [v for v in verdicts if v.value]
    raw = raw_cells(judged)
    head = ["target", "limit", "measured", "over the rounds"] + ([RAW_HEAD] if any(raw) else [])
    lines = [row([*head, ""]), row(["---"] + ["---:"] * (len(head) - 1) + ["---"])]
    for v, cells in zip(judged, raw):
        limit = f"{v.target.operator} {v.target.limit:g}"
        extent = f"{number(v.value.low)} – {number(v.value.high)}"
        word = v.verdict if v.verdict == MET else f"**{v.verdict}**"
        lines.append(row([v.target.title, limit, number(v.value.median), extent, *cells, word]))
    return lines


def document(results: Results, verdicts: list[Verdict], about: str, plots: list[str]) -> str:
    lines = [about, "", *figure_table(results), ""]
    lines += ["Targets (ratios of diwarp's figure, taken within a round; where another transport is "
              "the measure, beside it those of raw UDP's figure, which is of one hot buffer):", "",
              *target_table(verdicts)]
    if plots:
        lines += ["", *(f"![{os.path.splitext(os.path.basename(p))[0]}]({p})" for p in plots)]
    return "\n".join(lines) + "\n"


def put_between_marks(text: str, inner: str, marks: tuple[str, str]) -> str | None:
    """`text` with what is between the marks replaced; None when it has no marks."""
    begin, end = text.find(marks[0]), text.find(marks[1])
    if begin < 0 or end < begin:
        return None
    return f"{text[:begin + len(marks[0])]}\n{inner}{text[end:]}"


def has_marks(path: str, marks: tuple[str, str] = MARKS) -> bool:
    with open(path, encoding="utf-8") as file:
        return put_between_marks(file.read(), "", marks) is not None


def write(path: str, inner: str, marks_needed: bool, marks: tuple[str, str] = MARKS) -> bool:
    """Rewrites the file between its marks, or all of it when it has none and need not. False: the
    marks are needed and not there."""
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
    new = put_between_marks(text, inner, marks)
    if new is None:
        if marks_needed:
            return False
        new = inner
    with open(path, "w", encoding="utf-8") as file:
        file.write(new)
    return True
