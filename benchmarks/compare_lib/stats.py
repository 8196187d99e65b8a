# SPDX-License-Identifier: BSD-3-Clause
"""Statistics over the rounds of a run."""

from __future__ import annotations

import statistics
from dataclasses import dataclass


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


def ratios(over: dict[int, float], under: dict[int, float]) -> list[float]:
    """over / under of every round that has both."""
    return [over[r] / under[r] for r in sorted(over) if under.get(r)]
