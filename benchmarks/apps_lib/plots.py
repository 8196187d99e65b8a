# SPDX-License-Identifier: BSD-3-Clause
"""Bar charts, drawn by gnuplot: PNG files, with script and data beside."""

from __future__ import annotations

import os

from compare_lib.plots import COLORS, run_scripts
from compare_lib.transports import DIWARP, TCP, UCX

from .cases import MEMORY as FOR_MEMORY, Case
from .figures import COMMUNICATION, MEMORY, QUANTITIES, RUNTIME
from .programs import APPLICATIONS
from .report import by_application, compared, saving
from .results import Results
from .transports import RC, RC_SRQ, RD, SHARED, TRANSPORTS

FILL = {RD: COLORS[DIWARP], RC: "#ff7f0e", RC_SRQ: "#bcbd22", TCP: COLORS[TCP], UCX: COLORS[UCX],
        SHARED: "#7f7f7f"}
MISSING = "-"

HEAD = """set terminal pngcairo size {width},480 font ",11"
set bmargin 5
set datafile missing "-"
set style data histograms
set style fill solid 0.85 border -1
set boxwidth 0.9
set grid ytics
set key outside right top
"""
# Pixels: at least, of the axis and the key, of a group of bars with its label.
LEAST_WIDTH, FRAME_WIDTH, GROUP_WIDTH = 1000, 300, 80
# file name, quantity, title
SAVINGS = (
    ("apps-runtime", RUNTIME, "Runtime saved by RD"),
    ("apps-communication", COMMUNICATION, "Communication time saved by RD"),
)
MEMORY_STEM = "apps-memory-"


def names() -> list[str]:
    """Of all files that are ever written."""
    stems = [row[0] for row in SAVINGS] + [f"{MEMORY_STEM}{name}" for name in APPLICATIONS]
    return [stem + ending for stem in stems for ending in (".png", ".gp", ".dat")]


def label(case: Case) -> str:
    return f'"{APPLICATIONS[case.application].title}\\n{case.class_}\\n{case.ranks} ranks"'


def write_data(folder: str, stem: str, rows: list[list[str]]) -> None:
    with open(os.path.join(folder, f"{stem}.dat"), "w", encoding="utf-8") as file:
        file.writelines(" ".join(row) + "\n" for row in rows)


def write_script(folder: str, stem: str, groups: int, settings: list[str],
                 curves: list[str]) -> None:
    width = max(LEAST_WIDTH, FRAME_WIDTH + GROUP_WIDTH * groups)
    with open(os.path.join(folder, f"{stem}.gp"), "w", encoding="utf-8") as file:
        file.write(HEAD.format(width=width) + "\n".join([f'set output "{stem}.png"', *settings])
                   + "\nplot " + ", \\\n     ".join(curves) + "\n")


def shown_cases(results: Results) -> list[Case]:
    """Those that are judged by time; without any, all that are for time."""
    timed = [case for case in results.cases() if case.purpose != FOR_MEMORY]
    return by_application([case for case in timed if case.judged_by_time] or timed)


def write_savings(results: Results, folder: str, stem: str, quantity: str, title: str) -> bool:
    """Per cent saved, of each transport, with high and low of the turns. False: nothing to draw."""
    cases = shown_cases(results)
    others = compared(results.transports(cases))
    rows = []
    for case in cases:
        ratios = [results.rd_over(quantity, case, other) for other in others]
        if any(ratios):
            row = [label(case)]
            for ratio in ratios:
                s = saving(ratio) if ratio else None
                row += [f"{v:.2f}" for v in (s.median, s.low, s.high)] if s else [MISSING] * 3
            rows.append(row)
    if not rows:
        return False
    write_data(folder, stem, rows)
    curves = []
    for i, other in enumerate(others):
        first = 2 + 3 * i
        labels = ":xtic(1)" if i == 0 else ""
        curves.append(f'"{stem}.dat" using {first}:{first + 1}:{first + 2}{labels} '
                      f'lc rgb "{FILL[other]}" title "against {TRANSPORTS[other].title}"')
    write_script(folder, stem, len(rows),
                 [f'set title "{title}"', 'set ylabel "%"', "set xzeroaxis lt -1",
                  "set style histogram errorbars gap 1.5 lw 1"], curves)
    return True


def memory_series(results: Results, application: str) -> list[Case]:
    """By ranks."""
    cases = [case for case in results.cases()
             if case.application == application and case.purpose == FOR_MEMORY]
    return sorted(cases, key=lambda case: case.ranks)


def write_memory(results: Results, folder: str, application: str) -> str:
    """Memory of a process against the number of processes; the name of the chart, or ""."""
    cases = memory_series(results, application)
    transports = [name for name in results.transports(cases)
                  if any(results.of(MEMORY, case, name) for case in cases)]
    if not transports:
        return ""
    stem = f"{MEMORY_STEM}{application}"
    scale, rows = QUANTITIES[MEMORY].scale, []
    for case in cases:
        values = [None if (case, name) in results.failed else results.of(MEMORY, case, name)
                  for name in transports]
        rows.append([str(case.ranks)]
                    + [f"{v.median / scale:.3f}" if v else MISSING for v in values])
    write_data(folder, stem, rows)
    curves = [f'"{stem}.dat" using {2 + i}{":xtic(1)" if i == 0 else ""} '
              f'lc rgb "{FILL[name]}" title "{TRANSPORTS[name].title}"'
              for i, name in enumerate(transports)]
    title = f"{APPLICATIONS[application].title} {cases[0].class_}: memory of a process"
    write_script(folder, stem, len(rows),
                 [f'set title "{title}"', f'set ylabel "{QUANTITIES[MEMORY].unit}"',
                  'set xlabel "processes"', "set yrange [0:*]",
                  "set style histogram clustered gap 1.5"], curves)
    return stem


def draw(results: Results, folder: str) -> tuple[list[str], str]:
    """(paths of the PNG files, why there are none)."""
    os.makedirs(folder, exist_ok=True)
    stems = [row[0] for row in SAVINGS if write_savings(results, folder, *row)]
    stems += [stem for stem in (write_memory(results, folder, name) for name in APPLICATIONS)
              if stem]
    return run_scripts(folder, stems) if stems else ([], "nothing to compare")
