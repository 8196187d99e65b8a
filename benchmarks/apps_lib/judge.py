# SPDX-License-Identifier: BSD-3-Clause
"""The targets of applications, and what a run says of them."""

from __future__ import annotations

from dataclasses import dataclass

from compare_lib.judge import MET, MISSED, NOT_JUDGED, Verdict
from compare_lib.stats import Summary
from compare_lib.targets import AT_MOST, BELOW, Limit
from compare_lib.transports import TCP

from .cases import JUDGED_RANKS, MEMORY as FOR_MEMORY, MEMORY_APPLICATIONS, MEMORY_RANKS, Case
from .figures import COMMUNICATION, MEMORY
from .programs import APPLICATIONS
from .results import Results, middle
from .transports import RC, RD, TRANSPORTS

TIMES, MEMORIES = "communication time", "memory"


@dataclass(frozen=True)
class Target(Limit):
    group: str
    title: str
    operator: str
    limit: float
    aim: float | None = None


# What rd's communication time is held against: of every case, and in the median application.
COMMUNICATION_LIMITS = ((RC, BELOW, 1.0, 0.8), (TCP, AT_MOST, 1.0, 0.85))
# rd's memory ÷ rc's: 30 % saved.
MEMORY_LIMIT = 0.7


def missing(results: Results, case: Case | None, other: str, group: str) -> str:
    """Why there is no ratio."""
    for transport in (RD, other):
        if transport in results.absent:
            return f"no {transport}: {results.absent[transport].splitlines()[0]}"
    if case and (case, other) in results.failed:
        return f"the run over {other} failed"
    if case:
        return "not run over both"
    return "not run for memory" if group == MEMORIES else "not run"


def verdict(results: Results, target: Target, value: Summary | None, case: Case | None,
            other: str) -> Verdict:
    """What rd itself failed to run is a miss; what could not be asked is not."""
    if value is None:
        if case and (case, RD) in results.failed:
            return Verdict(target, None, MISSED, f"rd: {results.failed[case, RD]}")
        return Verdict(target, None, NOT_JUDGED, missing(results, case, other, target.group))
    reached = target.reached(value.median, target.limit)
    return Verdict(target, value, MET if reached else MISSED)


def median_application(results: Results, cases: list[Case], other: str) -> Summary | None:
    """Over the applications: each one's median over its cases."""
    by_application = []
    for name in APPLICATIONS:
        ratios = [results.rd_over(COMMUNICATION, case, other) for case in cases
                  if case.application == name]
        own = middle([r for r in ratios if r])
        by_application += [own] if own else []
    return middle(by_application)


def communication_verdicts(results: Results, cases: list[Case]) -> list[Verdict]:
    out = []
    for other, operator, limit, median_limit in COMMUNICATION_LIMITS:
        name = TRANSPORTS[other].title
        for case in cases:
            title = f"{case.title}: communication time RD ÷ {name}"
            target = Target(TIMES, title, operator, limit)
            value = results.rd_over(COMMUNICATION, case, other)
            out.append(verdict(results, target, value, case, other))
        value = median_application(results, cases, other)
        of = value.count if value else 0
        title = f"median of {of} applications, {JUDGED_RANKS} ranks or more: " \
            f"communication time RD ÷ {name}"
        target = Target(TIMES, title, AT_MOST, median_limit)
        out.append(verdict(results, target, value, None, other))
    return out


def memory_case(results: Results, application: str) -> Case | None:
    """The one that is judged: that on MEMORY_RANKS whose memory was watched while it ran."""
    found = [case for case in results.cases()
             if case.application == application and case.ranks == MEMORY_RANKS
             and case.purpose == FOR_MEMORY]
    return found[-1] if found else None


def memory_verdicts(results: Results, applications: list[str]) -> list[Verdict]:
    out = []
    for name in MEMORY_APPLICATIONS:
        if name not in applications:
            continue
        case = memory_case(results, name)
        value = results.rd_over(MEMORY, case, RC) if case else None
        title = f"{APPLICATIONS[name].title}, {MEMORY_RANKS} ranks: memory of a process RD ÷ RC"
        target = Target(MEMORIES, title, AT_MOST, MEMORY_LIMIT)
        out.append(verdict(results, target, value, case, RC))
    return out


def judge(results: Results, applications: list[str]) -> list[Verdict]:
    cases = [case for case in results.cases() if case.judged_by_time]
    return communication_verdicts(results, cases) + memory_verdicts(results, applications)
