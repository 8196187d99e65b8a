# SPDX-License-Identifier: BSD-3-Clause
"""Curves over the message size, drawn by gnuplot: PNG files, with script and data beside."""

from __future__ import annotations

import os
import shutil

from . import jobs
from .results import Results
from .transports import DIWARP, OFI_RXD, OFI_TCP, RAW_TCP, RAW_UDP, TCP, TRANSPORTS, UCX

COLORS = {
    DIWARP: "#d62728",
    TCP: "#1f77b4",
    UCX: "#2ca02c",
    OFI_TCP: "#9467bd",
    OFI_RXD: "#8c564b",
    RAW_UDP: "#000000",
    RAW_TCP: "#7f7f7f",
}

# file name, quantity, title, axis, further settings
PLOTS = (
    ("latency", "latency", "Half round trip", "µs", "set logscale y 10"),
    ("bandwidth", "stream", "Streaming, window 64 (8 above 1 MiB)", "MB/s",
     "set yrange [0:*]"),
)


def names() -> list[str]:
    """Of all files that are ever written."""
    endings = (".png", ".gp", *(f"-{name}.dat" for name in COLORS))
    return [row[0] + ending for row in PLOTS for ending in endings]


HEAD = """set terminal pngcairo size 1000,560 font ",11"
set logscale x 2
set xrange [0.9:18000000]
set xtics ("1" 1, "4" 4, "16" 16, "64" 64, "256" 256, "1 KiB" 1024, "4 KiB" 4096, \
"16 KiB" 16384, "64 KiB" 65536, "256 KiB" 262144, "1 MiB" 1048576, "4 MiB" 4194304, \
"16 MiB" 16777216) rotate by -45
set xlabel "message size, bytes"
set grid
set key outside right top
"""


def curve_points(results: Results, quantity: str, transport: str) -> list[tuple[int, float]]:
    """(size, median), by size."""
    points = []
    for figure in results.figures("curves"):
        summary = results.summary(figure, transport)
        if figure.quantity == quantity and summary:
            points.append((figure.size, summary.median))
    return sorted(points)


def plot_command(results: Results, quantity: str, stem: str, folder: str) -> str:
    """Writes one data file a curve. The stream of a raw socket has no size: a level line."""
    parts = []
    for name, color in COLORS.items():
        points = curve_points(results, quantity, name)
        if not points:
            continue
        if quantity == "stream" and name in (RAW_UDP, RAW_TCP):
            points = [(1, points[0][1]), (1 << 24, points[0][1])]
        data = f"{stem}-{name}.dat"
        with open(os.path.join(folder, data), "w", encoding="ascii") as file:
            file.writelines(f"{size} {value:g}\n" for size, value in points)
        dashes = "dashtype 2 lw 2" if name in (RAW_UDP, RAW_TCP) else "pt 7 ps 0.6 lw 2"
        style = "lines" if "dashtype" in dashes else "linespoints"
        parts.append(f'"{data}" with {style} lc rgb "{color}" {dashes} '
                     f'title "{TRANSPORTS[name].title}"')
    return "plot " + ", \\\n     ".join(parts) if parts else ""


def write_script(results: Results, folder: str, stem: str, quantity: str, title: str, axis: str,
                 settings: str) -> bool:
    """False when there is nothing to draw."""
    command = plot_command(results, quantity, stem, folder)
    if not command:
        return False
    with open(os.path.join(folder, f"{stem}.gp"), "w", encoding="utf-8") as file:
        file.write(f'{HEAD}set output "{stem}.png"\nset title "{title}"\n'
                   f'set ylabel "{axis}"\n{settings}\n{command}\n')
    return True


def draw(results: Results, folder: str) -> tuple[list[str], str]:
    """(paths of the PNG files, why there are none)."""
    if not results.figures("curves"):
        return [], "the curves were not measured"
    os.makedirs(folder, exist_ok=True)
    return run_scripts(folder, [row[0] for row in PLOTS if write_script(results, folder, *row)])


def run_scripts(folder: str, stems: list[str]) -> tuple[list[str], str]:
    """Has gnuplot make STEM.png of each STEM.gp. (paths of the PNG files, why there are none)."""
    if not shutil.which("gnuplot"):
        return [], f"no gnuplot (Debian: gnuplot-nox); the data and scripts are in {folder}"
    for stem in stems:
        try:
            jobs.run(["gnuplot", f"{stem}.gp"], 60, cwd=folder)
        except jobs.JobFailed as failure:
            return [], "gnuplot failed\n" + failure.report()
    return [os.path.join(folder, f"{stem}.png") for stem in stems], ""
