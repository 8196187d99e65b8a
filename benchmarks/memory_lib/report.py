# SPDX-License-Identifier: BSD-3-Clause
"""Tables for people, and CSV files."""

from __future__ import annotations

import csv
import os
from typing import Dict, Tuple

from .model import Model
from .points import KINDS, RESIDENT, Point, transport_of

# By transport and kind.
Models = Dict[Tuple[str, str], Model]
PREDICTED_RANKS = (1 << 10, 1 << 14, 1 << 20)


def bytes_text(value: float) -> str:
    """1536 -> "1.5 KiB"."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(value) >= scale:
            return f"{value / scale:.1f} {unit}"
    return f"{value:.0f} B"


def ranks_text(ranks: int) -> str:
    for unit, scale in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if ranks >= scale and ranks % scale == 0:
            return f"{ranks // scale} {unit}"
    return str(ranks)


def table(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def point_table(points: list[Point]) -> str:
    rows = [["transport", "ranks", "whole process", *KINDS, "kernel", "sockets", "own report"]]
    for p in points:
        own = "-" if p.held.reported is None else bytes_text(p.held.reported)
        rows.append([transport_of(p.transport).title, str(p.ranks),
                     bytes_text(p.held.total(RESIDENT)),
                     *(bytes_text(p.user(kind)) for kind in KINDS), bytes_text(p.kernel),
                     f"{p.held.sockets:.1f}", own])
    return table(rows)


def model_table(models: Models) -> str:
    rows = [["transport", "with the kernel's", "base", "per peer",
             *(f"{ranks_text(n)} ranks" for n in PREDICTED_RANKS), "error at the largest point"]]
    for (name, kind), model in models.items():
        error = "-" if model.error is None else f"{100 * model.error:+.1f} %"
        rows.append([transport_of(name).title, kind, bytes_text(model.line.base),
                     bytes_text(model.line.slope),
                     *(bytes_text(model.line.at(n - 1)) for n in PREDICTED_RANKS),
                     f"{error} ({model.largest_peers + 1} ranks)"])
    return table(rows)


def ratio_table(points: list[Point], of: str) -> str:
    """The others' memory over that of transport `of`; "" without it."""
    own = {p.ranks: p for p in points if p.transport == of}
    rows = [[f"over {transport_of(of).title}", "ranks", *KINDS, "whole process"]]
    for p in points:
        base = own.get(p.ranks)
        if p.transport != of and base and all(base.total(kind) > 0 for kind in KINDS):
            rows.append([transport_of(p.transport).title, str(p.ranks),
                         *(f"{p.total(kind) / base.total(kind):.2f}" for kind in KINDS),
                         f"{p.held.total(RESIDENT) / base.held.total(RESIDENT):.2f}"])
    return table(rows) if len(rows) > 1 else ""


def write_points(points: list[Point], folder: str) -> None:
    with open(os.path.join(folder, "points.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["transport", "ranks", "peers",
                         *(f"{whose}_{what}_bytes" for whose in ("process", "shared", "transport")
                           for what in (*KINDS, "kernel")),
                         "socket_queue_bytes", "socket_slab_bytes", "sockets", "reported_bytes"])
        for p in points:
            sizes = [of.user(kind) if kind in KINDS else of.kernel
                     for of in (p.held, p.shared, p) for kind in (*KINDS, "kernel")]
            reported = "" if p.held.reported is None else f"{p.held.reported:.0f}"
            writer.writerow([p.transport, p.ranks, p.peers,
                             *(f"{n:.0f}" for n in (*sizes, p.held.queue, p.held.slab)),
                             f"{p.held.sockets:.2f}", reported])


def write_models(models: Models, folder: str) -> None:
    with open(os.path.join(folder, "model.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["transport", "kind", "base_bytes", "bytes_per_peer",
                         *(f"bytes_at_{n}_ranks" for n in PREDICTED_RANKS),
                         "largest_ranks", "error_share"])
        for (name, kind), model in models.items():
            error = "" if model.error is None else f"{model.error:.4f}"
            writer.writerow([name, kind, f"{model.line.base:.0f}", f"{model.line.slope:.1f}",
                             *(f"{model.line.at(n - 1):.0f}" for n in PREDICTED_RANKS),
                             model.largest_peers + 1, error])
