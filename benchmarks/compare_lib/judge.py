# SPDX-License-Identifier: BSD-3-Clause
"""Holds results to the targets."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass

from .figures import Figure
from .measures import SWEEPS
from .results import Results
from .stats import Summary
from .targets import AT_LEAST, AT_MOST, BELOW, TARGETS, Target
from .transports import DIWARP, RAW_SEALED, RAW_UDP, meant_by

# Operators in the CSV file.
PLAIN = {AT_MOST: "<=", AT_LEAST: ">=", BELOW: "<"}
MET, MISSED, NOT_JUDGED = "met", "MISSED", "not judged"


@dataclass(frozen=True)
class Verdict:
    target: Target
    value: Summary | None
    verdict: str
    why: str = ""
    # The same with raw UDP's figure in the place of diwarp's, of targets about another transport;
    # that of sealed datagrams where it was measured.
    raw: Summary | None = None

    @property
    def aim_reached(self) -> bool:
        aim = self.target.aim
        return bool(self.value) and aim is not None and self.target.reached(self.value.median, aim)

    @property
    def beyond_raw(self) -> bool:
        """Missed where raw UDP itself does not reach the limit."""
        return (self.verdict == MISSED and self.raw is not None
                and not self.target.reached(self.raw.median, self.target.limit))

    @property
    def margin(self) -> float | None:
        return self.target.margin(self.value.median) if self.value else None


def measured(results: Results, target: Target) -> Summary | None:
    """The figure or the ratio that the target is about."""
    under = target.over_key
    if under is None:
        return results.summary(target.figure, DIWARP)
    return results.ratio((target.figure, DIWARP), under)


def raw_in_its_place(results: Results, target: Target) -> Summary | None:
    if not isinstance(target.over, str) or target.over == RAW_UDP:
        return None
    return (results.ratio((target.figure, RAW_SEALED), target.over_key)
            or results.ratio((target.figure, RAW_UDP), target.over_key))


def missing(results: Results, target: Target) -> str:
    """Why there is nothing to judge."""
    if target.group in results.skipped:
        return results.skipped[target.group]
    other = target.over_key[1] if target.over_key else DIWARP
    for transport in (DIWARP, other):
        why = [results.absent.get(name) for name in meant_by(transport)]
        if all(why):
            return f"no {transport}: {why[0].splitlines()[0]}"
    if any((target.group, name) in results.failed for name in meant_by(other)):
        return f"the run over {other} failed"
    return f"no figure of {other}" if results.figures(target.group) else "not run"


def judge_one(results: Results, target: Target) -> Verdict:
    value = measured(results, target)
    if value is None:
        # What diwarp itself failed to run is a miss; what could not be asked is not.
        own = [target.figure] + ([target.over] if isinstance(target.over, Figure) else [])
        lacking = any(not results.summary(figure, DIWARP) for figure in own)
        if lacking and (target.group, DIWARP) in results.failed:
            return Verdict(target, None, MISSED, "the run over diwarp failed")
        return Verdict(target, None, NOT_JUDGED, missing(results, target))
    reached = target.reached(value.median, target.limit)
    return Verdict(target, value, MET if reached else MISSED,
                   raw=raw_in_its_place(results, target))


def asked(results: Results, target: Target) -> bool:
    """Not of a size that quick mode leaves out."""
    sweeps = target.group in SWEEPS and results.figures(target.group)
    return not sweeps or bool(results.transports([target.figure]))


def judge(results: Results, groups: list[str]) -> list[Verdict]:
    """Of the groups that were asked for."""
    return [judge_one(results, target) for target in TARGETS
            if target.group in groups and asked(results, target)]


def exit_status(verdicts: list[Verdict]) -> int:
    """0: all that was judged is met; 1: a target is missed; 2: nothing could be judged."""
    if any(v.verdict == MISSED for v in verdicts):
        return 1
    return 0 if any(v.verdict == MET for v in verdicts) else 2


def write_verdicts(verdicts: list[Verdict], folder: str) -> None:
    with open(os.path.join(folder, "targets.csv"), "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["group", "target", "operator", "limit", "aim", "value", "low", "high",
                      "margin", "verdict", "why", "raw_udp"])
        for v in verdicts:
            t, s = v.target, v.value
            numbers = [f"{s.median:.4f}", f"{s.low:.4f}", f"{s.high:.4f}", f"{v.margin:.4f}"] \
                if s else [""] * 4
            out.writerow([t.group, t.title, PLAIN[t.operator], t.limit,
                          "" if t.aim is None else t.aim, *numbers, v.verdict, v.why,
                          f"{v.raw.median:.4f}" if v.raw else ""])
