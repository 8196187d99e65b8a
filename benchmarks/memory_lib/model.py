# SPDX-License-Identifier: BSD-3-Clause
"""The line bytes = base + slope * peers of a transport, and how far it can be trusted: it must
foretell the largest point from the others.

For transports whose memory is that of their connections, it goes through the points by least
squares. Most of RD's is in pools for all peers, which have a bound; how far they are filled is a
matter of moments, and a line through that means nothing. So its slope is what diwarp's report tells
each peer to take, and its base the most that was measured beside that."""

from __future__ import annotations

from dataclasses import dataclass

from apps_lib.transports import RD

from .points import PEER_KINDS, Point

# Fewer ranks than this say little of the slope: what is taken for the first few peers (connected
# sockets, first blocks of pools) is still being taken. They count when there are no others.
FIRST_RANKS = 8
POINTS_NEEDED = 2
POOLED = (RD,)


@dataclass(frozen=True)
class Line:
    base: float
    slope: float

    def at(self, peers: float) -> float:
        return self.base + self.slope * peers


@dataclass(frozen=True)
class Model:
    """`error` is that of the line made without the largest point, at that point, as a share of
    it; None when too few points are left."""

    line: Line
    error: float | None
    largest_peers: int

    @property
    def measured_over_predicted(self) -> float | None:
        """At the largest point: the same as `error`, the other way round."""
        return None if self.error is None or self.error <= -1 else 1 / (1 + self.error)


def fit(points: list[tuple[float, float]]) -> Line:
    """Of (x, bytes); at least two different x."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return Line(mean_y - slope * mean_x, slope)


def told_slope(points: list[Point]) -> float | None:
    """Bytes of an active peer by diwarp's report, each kind over its own count: a peer that has
    been idle for a while is known, but not active any more. None: a kind or its count is not told,
    or no count that moves."""
    slope = 0.0
    for kind, count in PEER_KINDS.items():
        if any(key not in p.held.told for p in points for key in (count, f"{kind}_bytes")):
            return None
        told = [(p.held.told[count], p.held.told[f"{kind}_bytes"]) for p in points]
        counts = [x for x, _ in told]
        if max(counts) - min(counts) < 1:
            return None
        slope += fit(told).slope
    return slope


def fitted(points: list[Point]) -> list[Point]:
    """Those that the line goes by."""
    large = [p for p in points if p.ranks >= FIRST_RANKS]
    return large if len(large) > POINTS_NEEDED else points


def line_of(used: list[Point], points: list[Point]) -> Line | None:
    """By `used`, of all `points`. None: too few, or too little told."""
    if len(used) < POINTS_NEEDED:
        return None
    if used[0].transport not in POOLED:
        return fit([(p.peers, p.total) for p in used])
    slope = told_slope(points)
    if slope is None:
        return None
    return Line(max(p.total - slope * p.peers for p in used), slope)


def model_of(points: list[Point]) -> Model | None:
    """Of one transport. None: too few points."""
    ordered = sorted(points, key=lambda p: p.ranks)
    used = fitted(ordered)
    line = line_of(used, ordered)
    if line is None:
        return None
    largest, before = used[-1], line_of(used[:-1], ordered[:-1])
    error = None
    if before and largest.total:
        error = (before.at(largest.peers) - largest.total) / largest.total
    return Model(line, error, largest.peers)


def models_of(points: list[Point]) -> dict[str, Model]:
    models = {}
    for name in dict.fromkeys(p.transport for p in points):
        model = model_of([p for p in points if p.transport == name])
        if model:
            models[name] = model
    return models
