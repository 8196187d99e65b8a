# SPDX-License-Identifier: BSD-3-Clause
"""Tables for people, and CSV files."""

from __future__ import annotations

import csv
import os

from apps_lib.transports import TRANSPORTS

from .model import Model
from .points import KINDS, PEER_KINDS, Point

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
    rows = [["transport", "ranks", "whole process", "transport", "user", "kernel", "sockets",
             "heap", "own report"]]
    for p in points:
        own = "-" if p.held.reported is None else bytes_text(p.held.reported)
        rows.append([TRANSPORTS[p.transport].title, str(p.ranks), bytes_text(p.held.total),
                     bytes_text(p.total), bytes_text(p.user), bytes_text(p.kernel),
                     f"{p.held.sockets:.1f}", bytes_text(p.heap), own])
    return table(rows)


def error_text(model: Model) -> str:
    """At the largest point, and which that is."""
    error = "-" if model.error is None else f"{100 * model.error:+.1f} %"
    return f"{error} ({model.largest_peers + 1} ranks)"


def model_table(models: dict[str, Model]) -> str:
    rows = [["transport", "base", "per peer", *(f"{ranks_text(n)} ranks" for n in PREDICTED_RANKS),
             "error at the largest point"]]
    for name, model in models.items():
        rows.append([TRANSPORTS[name].title, bytes_text(model.line.base),
                     bytes_text(model.line.slope),
                     *(bytes_text(model.line.at(n - 1)) for n in PREDICTED_RANKS),
                     error_text(model)])
    return table(rows)


def ratio_table(points: list[Point], of: str) -> str:
    """The others' memory over that of transport `of`; "" without it."""
    own = {p.ranks: p for p in points if p.transport == of}
    rows = [[f"over {TRANSPORTS[of].title}", "ranks", "transport", "whole process"]]
    for p in points:
        base = own.get(p.ranks)
        if p.transport != of and base and base.total > 0:
            rows.append([TRANSPORTS[p.transport].title, str(p.ranks),
                         f"{p.total / base.total:.2f}", f"{p.held.total / base.held.total:.2f}"])
    return table(rows) if len(rows) > 1 else ""


def write_points(points: list[Point], folder: str) -> None:
    with open(os.path.join(folder, "points.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["transport", "ranks", "peers", "process_user_bytes",
                         "process_kernel_bytes", "shared_user_bytes", "shared_kernel_bytes",
                         "transport_user_bytes", "transport_kernel_bytes", "transport_bytes",
                         "socket_queue_bytes", "socket_slab_bytes", "heap_bytes", "sockets",
                         "private_bytes", "pss_bytes", "reported_bytes",
                         *(f"reported_{kind}_bytes" for kind in KINDS),
                         *(f"reported_{count}" for count in PEER_KINDS.values())])
        for p in points:
            told = [p.held.reported, *(p.held.told.get(f"{kind}_bytes") for kind in KINDS)]
            counts = [p.held.told.get(count) for count in PEER_KINDS.values()]
            numbers = (p.held.user, p.held.kernel, p.shared.user, p.shared.kernel, p.user, p.kernel,
                       p.total, p.held.queue, p.held.slab, p.heap)
            writer.writerow([p.transport, p.ranks, p.peers, *(f"{n:.0f}" for n in numbers),
                             f"{p.held.sockets:.2f}", f"{p.held.private:.0f}",
                             f"{p.held.pss:.0f}", *("" if n is None else f"{n:.0f}" for n in told),
                             *("" if n is None else f"{n:.2f}" for n in counts)])


def write_models(models: dict[str, Model], folder: str) -> None:
    with open(os.path.join(folder, "model.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["transport", "base_bytes", "bytes_per_peer",
                         *(f"bytes_at_{n}_ranks" for n in PREDICTED_RANKS),
                         "largest_ranks", "error_share"])
        for name, model in models.items():
            error = "" if model.error is None else f"{model.error:.4f}"
            writer.writerow([name, f"{model.line.base:.0f}", f"{model.line.slope:.1f}",
                             *(f"{model.line.at(n - 1):.0f}" for n in PREDICTED_RANKS),
                             model.largest_peers + 1, error])
