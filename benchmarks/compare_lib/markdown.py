# SPDX-License-Identifier: BSD-3-Clause
"""The results as Markdown: all that was measured, and a summary."""

from __future__ import annotations

from . import report
from .figures import Figure
from .judge import MET, Verdict
from .marked import Marks, images
from .measures import EAGER_MESSAGES, GROUPS, KIB, LIMITED_BUFFERS, LINK_SCENES, LONG_RECEIVES
from .measures import LOSS_SCENES, MIB, OVERLAP_SCENES, PLACES, PROGRAM_MEMORY, SWEEP, SWEEPS
from .measures import USUAL_RECEIVES, WHOLE_BUFFER, buffer_scene, shared_cores_scene
from .report import RAW_HEAD, absent_lines, counts_text, kept_text, number, ratio_cell, raw_cells
from .results import Results
from .transports import CONNECTED, DIWARP, DIWARP_SHARED, OFI_RXD, OFI_TCP, RAW_SEALED, RAW_TCP
from .transports import RAW_UDP, TCP, TCP_SHARED, TCPS, TRANSPORTS, UCX

MARKS = Marks("compare")

COLUMNS = (RAW_UDP, RAW_SEALED, RAW_TCP, *TCPS, TCP_SHARED, UCX, OFI_TCP, OFI_RXD, *CONNECTED,
           DIWARP, DIWARP_SHARED)
COLLECTIVES = (("allreduce", 8), ("alltoall", 4 * KIB), ("bcast", MIB))
# Group -> rows of its table. The CSV files have all figures.
ROWS = {
    **{group: tuple(Figure(quantity, size, f"MTU {mtu}")
                    for quantity in ("latency", "stream") for size in SWEEP)
       for group, mtu in SWEEPS.items()},
    "tails": tuple(Figure(quantity, 8, "MTU 1500") for quantity in ("p50", "p99", "p999")),
    "loss": tuple(Figure("stream", MIB, scene) for scene in LOSS_SCENES.values()),
    "link": tuple(Figure("hidden", 4 * MIB, scene) for scene in LINK_SCENES),
    "shared": (*(Figure(what, size, "MTU 1500") for what, size in COLLECTIVES),
               *(Figure("latency", size, "within a host") for size in (8, MIB))),
    "pt2pt": (
        *(Figure("latency", size) for size in (8, KIB, 8 * KIB, 64 * KIB)),
        *(Figure(quantity, size)
          for quantity in ("stream", "stream_bi") for size in (MIB, 4 * MIB)),
        *(Figure(quantity, MIB, PROGRAM_MEMORY) for quantity in ("stream", "stream_bi")),
        Figure("rate", 8),
        *(Figure("cpu", size) for size in (MIB, 4 * MIB)),
    ),
    "pairs": tuple(Figure(quantity, size, scene) for scene in ("2 pairs", "4 pairs")
                   for quantity, size in (("rate", 8), ("stream", MIB))),
    "onesided": (
        *(Figure(f"{what}_latency", 8) for what in ("put", "get", "accumulate")),
        *(Figure(f"{what}_stream", MIB) for what in ("put", "get")),
        Figure("accumulate_stream", 64 * KIB),
    ),
    "collectives": (*(Figure(what, size) for what, size in COLLECTIVES),
                    *(Figure("alltoall", size) for size in (256 * KIB, MIB))),
    "overlap": tuple(Figure("hidden", 4 * MIB, scene) for scene in OVERLAP_SCENES),
    "rcvbuf": tuple(Figure("stream", size, scene)
                    for scene in (WHOLE_BUFFER, *map(buffer_scene, LIMITED_BUFFERS))
                    for size in (MIB, 4 * MIB)),
    "incast": tuple(figure for scene in ("", EAGER_MESSAGES)
                    for figure in (Figure("incast", 1, scene),
                                   *(Figure(quantity, 15, under)
                                     for under in (scene, shared_cores_scene(scene))
                                     for quantity in ("incast", "jain")))),
    "rc": (
        *(Figure("latency", size, USUAL_RECEIVES)
          for size in (8, 4 * KIB, 16 * KIB, 64 * KIB, MIB)),
        *(Figure("stream", size, USUAL_RECEIVES) for size in (8 * KIB, 64 * KIB, MIB)),
        Figure("rate", 8, USUAL_RECEIVES),
        *(Figure("latency", size, LONG_RECEIVES) for size in (16 * KIB, 64 * KIB)),
        Figure("stream", 64 * KIB, LONG_RECEIVES),
    ),
}
# What is seen first.
SUMMARY = (
    *(Figure("latency", size, "MTU 1500") for size in (8, KIB, 8 * KIB, 64 * KIB, MIB)),
    *ROWS["tails"],
    *(Figure("stream", size, "MTU 1500") for size in (8, KIB, 8 * KIB, 64 * KIB, MIB, 4 * MIB)),
    *(Figure(quantity, size, "MTU 9000")
      for quantity in ("latency", "stream") for size in (8 * KIB, 64 * KIB, MIB)),
    *ROWS["loss"],
    Figure("hidden", 4 * MIB, LINK_SCENES[-1]),
    *(Figure("latency", size) for size in (8, 8 * KIB, 64 * KIB)),
    *(Figure(quantity, MIB) for quantity in ("stream", "stream_bi")),
    Figure("rate", 8),
    Figure("put_latency", 8), Figure("put_stream", MIB), Figure("get_stream", MIB),
    *ROWS["collectives"],
    Figure("incast", 15, EAGER_MESSAGES),
)
SUMMARY_COLUMNS = (RAW_UDP, RAW_SEALED, RAW_TCP, *TCPS, UCX, DIWARP)
SUMMARY_RATIOS = ((DIWARP, TCP), (DIWARP, UCX), (DIWARP, RAW_UDP))


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def figure_table(results: Results, group: str) -> list[str]:
    """Rows and columns that have figures; none when there are none."""
    shown = [figure for figure in ROWS[group] if results.transports([figure])]
    measured = results.transports(shown)
    if not shown:
        return []
    head, *rows = report.figure_rows(results, group, shown, [t for t in COLUMNS if t in measured])
    return [row(head), row(["---"] + ["---:"] * (len(head) - 1)), *map(row, rows)]


def figure_tables(results: Results) -> list[str]:
    """One table a group, under what the group is."""
    lines = []
    for group in ROWS:
        table, text = figure_table(results, group), GROUPS[group]
        if table:
            lines += [f"{text[0].upper()}{text[1:]}:", "", *table, ""]
    return lines + [line for text in absent_lines(results) for line in (text, "")]


def target_table(verdicts: list[Verdict]) -> list[str]:
    judged = [v for v in verdicts if v.value]
    raw = raw_cells(judged)
    head = ["target", "limit", "measured", "low – high"] + ([RAW_HEAD] if any(raw) else [])
    lines = [row([*head, ""]), row(["---"] + ["---:"] * (len(head) - 1) + ["---"])]
    for v, cells in zip(judged, raw):
        limit = f"{v.target.operator} {v.target.limit:g}"
        extent = f"{number(v.value.low)} – {number(v.value.high)}"
        word = v.verdict if v.verdict == MET else f"**{v.verdict}**"
        lines.append(row([v.target.title, limit, number(v.value.median), extent, *cells, word]))
    return lines


def document(results: Results, verdicts: list[Verdict], about: str, plots: list[str]) -> str:
    lines = [about, "", *figure_tables(results)]
    if any(v.value for v in verdicts):
        lines += ["Targets (ratios of diwarp's figure; where another transport is the measure, "
                  "beside it those of raw UDP's figure, between hosts sealed, on one host of one "
                  "hot buffer):", "",
                  *target_table(verdicts)]
    return "\n".join([*lines, *images(plots)]) + "\n"


def median_cell(results: Results, figure: Figure, transport: str) -> str:
    summary = results.summary(figure, transport)
    return figure.text(summary.median) + kept_text(results, figure, transport) if summary else "-"


def summary_table(results: Results) -> list[str]:
    """Medians and ratios of what there is."""
    figures = [figure for figure in SUMMARY if results.transports([figure])]
    head = ["", *(TRANSPORTS[t].title for t in SUMMARY_COLUMNS),
            *(f"÷ {TRANSPORTS[under].title}" for _, under in SUMMARY_RATIOS)]
    lines = [row(head), row(["---"] + ["---:"] * (len(head) - 1))]
    for figure in figures:
        lines.append(row([figure.title_and_unit]
                         + [median_cell(results, figure, t) for t in SUMMARY_COLUMNS]
                         + [ratio_cell(results, figure, pair) for pair in SUMMARY_RATIOS]))
    return lines


def counts(verdicts: list[Verdict]) -> list[str]:
    """A line for each place that has targets."""
    return [f"{place.replace('-', ' ').capitalize()}, {counts_text(there)}."
            for place, groups in PLACES.items()
            if (there := [v for v in verdicts if v.target.group in groups])]


def summary(results: Results, verdicts: list[Verdict], about: str, plots: list[str]) -> str:
    return "\n".join([about, "", *summary_table(results), "", *absent_lines(results),
                      *counts(verdicts), *images(plots)]) + "\n"
