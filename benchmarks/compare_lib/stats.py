# SPDX-License-Identifier: BSD-3-Clause
"""Statistics over the rounds or turns of a run, and over the samples of programs that took turns."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Summary:
    """Of some numbers; `spread` is (high - low) / median."""

    median: float
    low: float
    high: float
    count: int

    @property
    def spread(self) -> float:
        return (self.high - self.low) / self.median if self.median else 0.0


def summarize(values: dict[Any, float]) -> Summary | None:
    """By round: low and high are the extremes. By (round, sample or turn), of which some are always
    disturbed: what the lowest and the highest tenth leave. None when there is nothing."""
    if not values:
        return None
    ordered = sorted(values.values())
    left_out = len(ordered) // 10 if isinstance(next(iter(values)), tuple) else 0
    return Summary(statistics.median(ordered), ordered[left_out], ordered[-1 - left_out],
                   len(ordered))


class Rounds:
    """Values by figure (any key), transport and round, which is a number, or (number, sample) of
    programs that took turns, or (number, turn)."""

    def __init__(self):
        self._values: dict[tuple[Any, str], dict[Any, float]] = {}

    @property
    def anything(self) -> bool:
        """Whether anything was measured."""
        return bool(self._values)

    def put(self, figure: Any, transport: str, round_: Any, value: float) -> None:
        self._values.setdefault((figure, transport), {})[round_] = value

    def rounds_of(self, figure: Any, transport: str) -> dict[Any, float]:
        return self._values.get((figure, transport), {})

    def summary(self, figure: Any, transport: str) -> Summary | None:
        return summarize(self.rounds_of(figure, transport))

    def ratio(self, over: tuple[Any, str], under: tuple[Any, str]) -> Summary | None:
        """Of the ratios taken within each round, or sample; over and under are (figure,
        transport)."""
        return summarize(ratios(self.rounds_of(*over), self.rounds_of(*under)))


def ratios(over: dict[Any, float], under: dict[Any, float]) -> dict[Any, float]:
    """over / under of every round that has both."""
    return {r: over[r] / under[r] for r in over if under.get(r)}
