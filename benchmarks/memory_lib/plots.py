# SPDX-License-Identifier: BSD-3-Clause
"""Memory over the number of ranks, both axes logarithmic: points, and the fitted lines."""

from __future__ import annotations

import os

from apps_lib.plots import FILL
from apps_lib.transports import TRANSPORTS
from compare_lib.plots import run_scripts

from .model import Model
from .points import Point
from .report import PREDICTED_RANKS

STEM = "memory"
HEAD = """set terminal pngcairo size 1000,560 font ",11"
set output "{stem}.png"
set title "{title}"
set logscale x 2
set logscale y 10
set xrange [1.8:{most}]
set xtics ("2" 2, "8" 8, "32" 32, "128" 128, "1 Ki" 1024, "16 Ki" 16384, "128 Ki" 131072, \
"1 Mi" 1048576)
set format y "%.0s %cB"
set xlabel "ranks"
set ylabel "memory of a process, user and kernel"
set grid
set key outside right top
"""


def names() -> list[str]:
    """Of all files that are ever written."""
    return [STEM + ending for ending in (".png", ".gp", *(f"-{name}.dat" for name in TRANSPORTS))]


def curves_of(points: list[Point], models: dict[str, Model], folder: str) -> list[str]:
    """gnuplot's words for points and lines of all transports; writes the points' data."""
    curves = []
    for name in dict.fromkeys(p.transport for p in points):
        own = sorted((p.ranks, p.total) for p in points if p.transport == name and p.total > 0)
        if not own:
            continue
        data = f"{STEM}-{name}.dat"
        with open(os.path.join(folder, data), "w", encoding="ascii") as file:
            file.writelines(f"{ranks} {total:.0f}\n" for ranks, total in own)
        color = f'lc rgb "{FILL[name]}"'
        curves.append(f'"{data}" with points pt 7 ps 1.1 {color} '
                      f'title "{TRANSPORTS[name].title}"')
        if name in models:
            line = models[name].line
            curves.append(f"{line.base:.1f} + {line.slope:.3f} * (x - 1) with lines dashtype 2 "
                          f"lw 2 {color} notitle")
    return curves


def draw(points: list[Point], models: dict[str, Model], title: str,
         folder: str) -> tuple[list[str], str]:
    """(paths of the PNG files, why there are none)."""
    os.makedirs(folder, exist_ok=True)
    curves = curves_of(points, models, folder)
    if not curves:
        return [], "no point to draw"
    with open(os.path.join(folder, f"{STEM}.gp"), "w", encoding="utf-8") as file:
        file.write(HEAD.format(stem=STEM, title=title, most=1.2 * PREDICTED_RANKS[-1])
                   + "plot " + ", \\\n     ".join(curves) + "\n")
    return run_scripts(folder, [STEM])
