# SPDX-License-Identifier: BSD-3-Clause
"""The line bytes = base + slope * peers through the points of a transport, by least squares, and
how far it can be trusted: it must foretell the largest point from the others."""

from __future__ import annotations

from dataclasses import dataclass

# Fewer ranks than this say little of the slope: what is taken for the first few peers (connected
# sockets, first blocks of pools) is still being taken. They count when there are no others.
FIRST_RANKS = 8
POINTS_NEEDED = 2


@dataclass(frozen=True)
class Line:
    base: float
    slope: float

    def at(self, peers: float) -> float:
        return self.base + self.slope * peers


@dataclass(frozen=True)
class Model:
    """`error` is that of the line fitted without the largest point, at that point, as a share of
    it; None when too few points are left."""

    line: Line
    error: float | None
    largest_peers: int


def fit(points: list[tuple[float, float]]) -> Line:
    """Of (peers, bytes); at least two different numbers of peers."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return Line(mean_y - slope * mean_x, slope)


def fitted(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that the line goes through."""
    large = [point for point in points if point[0] >= FIRST_RANKS - 1]
    return large if len(large) > POINTS_NEEDED else points


def model_of(points: list[tuple[float, float]]) -> Model | None:
    """None: too few points."""
    used = fitted(sorted(points))
    if len(used) < POINTS_NEEDED:
        return None
    *others, (peers, measured) = used
    error = None
    if len(others) >= POINTS_NEEDED and measured:
        error = (fit(others).at(peers) - measured) / measured
    return Model(fit(used), error, int(peers))
