# SPDX-License-Identifier: BSD-3-Clause
"""Statistics over the rounds of a run."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Summary:
    """Median and extremes of some numbers; `spread` is (max - min) / median."""

    median: float
    low: float
    high: float
    count: int

    @property
    def spread(self) -> float:
        return (self.high - self.low) / self.median if self.median else 0.0


def summarize(numbers: list[float]) -> Summary | None:
    """None when there is nothing to summarize."""
    if not numbers:
        return None
    return Summary(statistics.median(numbers), min(numbers), max(numbers), len(numbers))


class Rounds:
    """Values by figure (any key), transport and round."""

    def __init__(self):
        self._values: dict[tuple[Any, str], dict[int, float]] = {}

    @property
    def anything(self) -> bool:
        """Whether anything was measured."""
        return bool(self._values)

    def put(self, figure: Any, transport: str, round_: int, value: float) -> None:
        self._values.setdefault((figure, transport), {})[round_] = value

    def rounds_of(self, figure: Any, transport: str) -> dict[int, float]:
        return self._values.get((figure, transport), {})

    def summary(self, figure: Any, transport: str) -> Summary | None:
        return summarize(list(self.rounds_of(figure, transport).values()))

    def ratio(self, over: tuple[Any, str], under: tuple[Any, str]) -> Summary | None:
        """Of the ratios taken within each round; over and under are (figure, transport)."""
        return summarize(ratios(self.rounds_of(*over), self.rounds_of(*under)))


def ratios(over: dict[int, float], under: dict[int, float]) -> list[float]:
    """over / under of every round that has both."""
    return [over[r] / under[r] for r in sorted(over) if under.get(r)]
