# SPDX-License-Identifier: BSD-3-Clause
"""Curves over the message size, drawn by gnuplot: PNG files, with script and data beside."""

from __future__ import annotations

import os
import shutil

from . import jobs
from .results import Results
from .transports import DIWARP, RAW_TCP, RAW_UDP, TCP, TCP_BBR, TCP_CUBIC, TCPS, TRANSPORTS, UCX

COLORS = {
    DIWARP: "#d62728",
    TCP: "#1f77b4",
    TCP_CUBIC: "#1f77b4",
    TCP_BBR: "#17becf",
    UCX: "#2ca02c",
    RAW_UDP: "#000000",
    RAW_TCP: "#7f7f7f",
}

CURVES = (DIWARP, *TCPS, RAW_UDP, RAW_TCP)

# The group whose figures are drawn.
DRAWN = "mtu1500"
# file name, quantity, title, axis, further settings
PLOTS = (
    ("latency", "latency", "Half round trip between two hosts, MTU 1500", "µs",
     "set logscale y 10"),
    ("bandwidth", "stream", "Streaming between two hosts, MTU 1500", "MB/s",
     "set logscale y 10"),
)


def names() -> list[str]:
    """Of all files that are ever written."""
    endings = (".png", ".gp", *(f"-{name}.dat" for name in COLORS))
    return [row[0] + ending for row in PLOTS for ending in endings]


HEAD = """set terminal pngcairo size 1000,560 font ",11"
set logscale x 2
set xrange [0.9:4700000]
set xtics ("1" 1, "4" 4, "16" 16, "64" 64, "256" 256, "1 KiB" 1024, "4 KiB" 4096, \
"16 KiB" 16384, "64 KiB" 65536, "256 KiB" 262144, "1 MiB" 1048576, "4 MiB" 4194304) rotate by -45
set xlabel "message size, bytes"
set grid
set key outside right top
"""


def curve_points(results: Results, quantity: str, transport: str) -> list[tuple[int, float]]:
    """(size, median), by size."""
    points = []
    for figure in results.figures(DRAWN):
        summary = results.summary(figure, transport)
        if figure.quantity == quantity and summary:
            points.append((figure.size, summary.median))
    return sorted(points)


def plot_command(results: Results, quantity: str, stem: str, folder: str) -> str:
    """Writes one data file a curve."""
    parts = []
    for name in CURVES:
        points = curve_points(results, quantity, name)
        if not points:
            continue
        data = f"{stem}-{name}.dat"
        with open(os.path.join(folder, data), "w", encoding="ascii") as file:
            file.writelines(f"{size} {value:g}\n" for size, value in points)
        style = "lines dashtype 2" if name in (RAW_UDP, RAW_TCP) else "linespoints pt 7 ps 0.6"
        parts.append(f'"{data}" with {style} lw 2 lc rgb "{COLORS[name]}" '
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
    if not results.figures(DRAWN):
        return [], f"{DRAWN} was not measured"
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
