# SPDX-License-Identifier: BSD-3-Clause
"""The targets of memory, of the all-to-all pattern, and what a run says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from apps_lib.transports import RC, RD, TRANSPORTS
from compare_lib.judge import MET, MISSED, NOT_JUDGED, Verdict
from compare_lib.stats import Summary
from compare_lib.targets import AT_MOST, Limit
from compare_lib.transports import TCP

from .model import models_of
from .points import Point

MIB = 1 << 20
PEER_BYTES = 512
# What grows with the peers beyond what diwarp tells of them shows where there are most; with few,
# what the pools happen to hold does.
BEYOND_PREDICTED = 1.3
BEYOND_PREDICTED_PEERS = 31
TOTAL_MIB = 4
RATIO_RANKS = 64
# rd's memory, user and kernel, over that of the other.
RATIO_LIMITS = {RC: 1 / 10, TCP: 1 / 4}

Value = Callable[[list[Point]], "float | None"]


@dataclass(frozen=True)
class Target(Limit):
    title: str
    limit: float
    value: Value
    # Transports and numbers of ranks without which there is no value; 0 ranks: several.
    needs: tuple[tuple[str, int], ...]
    group: str = "memory"
    operator: str = AT_MOST
    aim: float | None = None


def total_of(points: list[Point], transport: str, ranks: int) -> float | None:
    return next((p.total for p in points if (p.transport, p.ranks) == (transport, ranks)), None)


def peer_bytes(points: list[Point]) -> float | None:
    model = models_of(points).get(RD)
    return model.line.slope if model else None


def measured_over_predicted(points: list[Point]) -> float | None:
    model = models_of(points).get(RD)
    if not model or model.largest_peers < BEYOND_PREDICTED_PEERS:
        return None
    return model.measured_over_predicted


def total_mib(ranks: int) -> Value:
    def value(points: list[Point]) -> float | None:
        total = total_of(points, RD, ranks)
        return None if total is None else total / MIB

    return value


def ratio_to(other: str) -> Value:
    def value(points: list[Point]) -> float | None:
        over, under = (total_of(points, name, RATIO_RANKS) for name in (RD, other))
        return over / under if over is not None and under else None

    return value


def targets(ranks: list[int]) -> list[Target]:
    """Of a run with these numbers of ranks."""
    most = max(ranks)
    found = [
        Target("RD: bytes for each active peer", PEER_BYTES, peer_bytes, ((RD, 0),)),
        Target("RD: measured with most ranks ÷ predicted without it", BEYOND_PREDICTED,
               measured_over_predicted, ((RD, 0),)),
        Target(f"RD, {most} ranks: memory of the transport, MiB", TOTAL_MIB, total_mib(most),
               ((RD, most),)),
    ]
    for other, limit in RATIO_LIMITS.items():
        title = f"{RATIO_RANKS} ranks: memory of the transport RD ÷ {TRANSPORTS[other].title}"
        needs = ((RD, RATIO_RANKS), (other, RATIO_RANKS))
        found.append(Target(title, limit, ratio_to(other), needs))
    return found


def judge_one(target: Target, points: list[Point], rounds: list[list[Point]],
              failed: set[tuple[str, int]]) -> Verdict:
    """By the medians' `points`; the extremes are those of the `rounds`. What RD itself failed to
    run is a miss; what could not be asked is not."""
    for name, ranks in target.needs:
        lost = [n for of, n in failed if of == name and ranks in (0, n)]
        if lost:
            why = f"the run over {TRANSPORTS[name].title} with {lost[0]} ranks failed"
            return Verdict(target, None, MISSED if name == RD else NOT_JUDGED, why)
    value = target.value(points)
    if value is None:
        return Verdict(target, None, NOT_JUDGED,
                       "not run over all it takes, on too few ranks, or not told")
    each = [found for found in map(target.value, rounds) if found is not None]
    summary = Summary(value, min([value, *each]), max([value, *each]), len(each))
    return Verdict(target, summary, MET if target.reached(value, target.limit) else MISSED)


def judge(ranks: list[int], points: list[Point], rounds: list[list[Point]],
          failed: set[tuple[str, int]]) -> list[Verdict]:
    return [judge_one(target, points, rounds, failed) for target in targets(ranks)]
