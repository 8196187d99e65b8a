# SPDX-License-Identifier: BSD-3-Clause
"""The tables on the terminal."""

from __future__ import annotations

from dataclasses import replace

from .figures import Figure
from .judge import MET, MISSED, NOT_JUDGED, Verdict
from .measures import GROUPS, LOSS_SCENES
from .results import Results
from .stats import Summary
from .transports import DIWARP, DIWARP_SHARED, RAW_UDP, RC, RC_SRQ, TCP, TCP_CUBIC, TCP_SHARED
from .transports import TCPS, TRANSPORTS, UCX

# What is divided by what in the tables: pairs of transports; and in those of some groups.
RATIOS = ((DIWARP, TCP), (DIWARP, UCX), (DIWARP, RAW_UDP))
RATIOS_OF_GROUP = {"rc": ((RC, TCP), (RC_SRQ, TCP), (RC, DIWARP)),
                   "shared": ((DIWARP_SHARED, TCP_SHARED), (DIWARP, TCP_CUBIC))}


def spread_text(figure: Figure, summary: Summary) -> str:
    """Of shares and indices: the extremes, since a share may be near 0."""
    if summary.count < 2:
        return ""
    if not figure.about.unit:
        return f" ({figure.text(summary.low)}..{figure.text(summary.high)})"
    return f" ({100 * summary.spread:.0f} %)"


def kept_text(results: Results, figure: Figure, transport: str) -> str:
    """Of a rate with loss: its share of the one without, in the same set-up."""
    none_lost = replace(figure, scene=LOSS_SCENES[0])
    if figure == none_lost or figure.scene not in LOSS_SCENES.values() or not figure.about.more:
        return ""
    kept = results.ratio((figure, transport), (none_lost, transport))
    return f" [{100 * kept.median:.{int(kept.median < 0.1)}f} %]" if kept else ""


def cell(results: Results, figure: Figure, transport: str) -> str:
    summary = results.summary(figure, transport)
    if not summary:
        return "-"
    return (figure.text(summary.median) + kept_text(results, figure, transport)
            + spread_text(figure, summary))


def ratio_of(results: Results, figure: Figure, pair: tuple[str, str]) -> Summary | None:
    """None of shares and indices."""
    over, under = pair
    return results.ratio((figure, over), (figure, under)) if figure.about.unit else None


def ratio_cell(results: Results, figure: Figure, pair: tuple[str, str]) -> str:
    ratio = ratio_of(results, figure, pair)
    return f"{ratio.median:.2f}" if ratio else "-" if figure.about.unit else ""


def figure_rows(results: Results, group: str, figures: list[Figure],
                transports: list[str]) -> list[list[str]]:
    """With a header; ratios of pairs that have any."""
    pairs = [pair for pair in RATIOS_OF_GROUP.get(group, RATIOS)
             if any(ratio_of(results, figure, pair) for figure in figures)]
    rows = [[""] + [TRANSPORTS[t].title for t in transports]
            + [f"{TRANSPORTS[over].title} ÷ {TRANSPORTS[under].title}" for over, under in pairs]]
    for figure in figures:
        rows.append([figure.title_and_unit] + [cell(results, figure, t) for t in transports]
                    + [ratio_cell(results, figure, pair) for pair in pairs])
    return rows


def table(rows: list[list[str]]) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def group_table(results: Results, group: str) -> str:
    figures = results.figures(group)
    rows = figure_rows(results, group, figures, results.transports(figures))
    return f"{group}: {GROUPS[group]}\n{table(rows)}"


def figure_tables(results: Results) -> str:
    """One table a group."""
    return "\n\n".join([*(group_table(results, g) for g in results.groups()),
                        *absent_lines(results)])


def absent_lines(results: Results) -> list[str]:
    """Why a congestion control is in no table."""
    return [f"{TRANSPORTS[name].title}: {results.absent[name].splitlines()[0]}"
            for name in TCPS if name in results.absent]


def number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


RAW_HEAD = "raw UDP's"


def raw_cells(verdicts: list[Verdict]) -> list[list[str]]:
    """For each verdict the cells of the column RAW_HEAD: one, or none when no verdict has any."""
    if not any(v.raw for v in verdicts):
        return [[] for _ in verdicts]
    return [[number(v.raw.median) if v.raw else ""] for v in verdicts]


def verdict_row(v: Verdict, raw: list[str]) -> list[str]:
    t = v.target
    aim = "" if t.aim is None else f"{t.operator} {t.aim:g}"
    if v.value is None:
        return [t.title, "-", "", f"{t.operator} {t.limit:g}", aim, "", *raw, v.verdict]
    extent = f"{number(v.value.low)}..{number(v.value.high)}" if v.value.count > 1 else ""
    word = v.verdict + (", aim reached" if v.aim_reached else "")
    return [t.title, number(v.value.median), extent, f"{t.operator} {t.limit:g}", aim,
            f"{100 * v.margin:+.0f} %", *raw, word]


def counts_text(verdicts: list[Verdict]) -> str:
    count = {w: sum(v.verdict == w for v in verdicts) for w in (MET, MISSED, NOT_JUDGED)}
    beyond = sum(v.beyond_raw for v in verdicts)
    of_them = f" ({beyond} that raw UDP, between hosts sealed, itself misses)" if beyond else ""
    return (f"targets: {count[MET]} met, {count[MISSED]} missed{of_them}, "
            f"{count[NOT_JUDGED]} not judged")


def verdict_table(verdicts: list[Verdict]) -> str:
    raw = raw_cells(verdicts)
    head = [RAW_HEAD] if any(raw) else []
    rows = [["target", "measured", "low..high", "limit", "aim", "margin", *head, "verdict"]]
    rows += [verdict_row(v, cells) for v, cells in zip(verdicts, raw)]
    lines = [table(rows)]
    lines += [f"not judged: {v.target.title}: {v.why}" for v in verdicts
              if v.verdict == NOT_JUDGED]
    lines += [f"missed: {v.target.title}: {v.why}" for v in verdicts if v.why and
              v.verdict == MISSED]
    lines.append(counts_text(verdicts))
    return "\n".join(lines)
