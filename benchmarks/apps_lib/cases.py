# SPDX-License-Identifier: BSD-3-Clause
"""What is run: applications, classes and numbers of ranks, for time or for memory."""

from __future__ import annotations

from dataclasses import dataclass

from .programs import APPLICATIONS, CLASSES

TIME, MEMORY = "time", "memory"

# Longest time of one run, by class.
SECONDS = {"S": 120, "W": 240, "A": 900, "B": 3600}
# With more ranks than this it is longer in proportion.
RANKS_OF_SECONDS = 16
# How often the memory of a process is looked at in a run for memory.
PEAK_MS = 200
# Short runs differ most, by how their ranks come to share the cores: from the second round on a
# case has as many turns, of all its transports, as fit these seconds, up to TURNS_MOST.
TURNS_SECONDS, TURNS_MOST = 16, 5
# Of a whole application, at so many ranks, is what the targets ask for.
MEMORY_APPLICATIONS = ("radix", "smg2000")
MEMORY_RANKS = 64
# Fewer ranks are not judged by time, nor is a class that ends within milliseconds.
JUDGED_RANKS = 4
UNJUDGED_CLASS = "S"


@dataclass(frozen=True)
class Case:
    """One application on so many ranks. Of a case for memory the times do not count: the memory is
    watched while it runs, and it has more ranks than cores."""

    application: str
    class_: str
    ranks: int
    purpose: str = TIME

    @property
    def title(self) -> str:
        return f"{APPLICATIONS[self.application].title} {self.class_}, {self.ranks} "\
            f"rank{'s' * (self.ranks != 1)}"

    @property
    def seconds(self) -> float:
        return SECONDS[self.class_] * max(1.0, self.ranks / RANKS_OF_SECONDS)

    @property
    def judged_by_time(self) -> bool:
        return (self.purpose == TIME and self.ranks >= JUDGED_RANKS
                and self.class_ != UNJUDGED_CLASS)


@dataclass(frozen=True)
class Effort:
    """How much is done. `runs` are (class, ranks, most rounds) of the cases for time; cases for
    memory take part in `memory_rounds`. No further round is begun that would end later than
    `seconds`; 0: no limit. `turns_most`: of a short case in a round."""

    name: str
    rounds: int
    seconds: float
    runs: tuple[tuple[str, int, int], ...]
    memory_class: str
    memory_ranks: tuple[int, ...]
    memory_rounds: int = 1
    turns_most: int = TURNS_MOST


QUICK = Effort("quick", 3, 150, (("S", 4, 3), ("W", 4, 3)), "S", (4, 16),
               turns_most=1)
NORMAL = Effort("normal", 5, 0, (("W", 4, 5), ("W", 16, 3), ("A", 4, 3)), "W", (4, 16, 64))
FULL = Effort("full", 7, 0, (("W", 4, 7), ("W", 8, 7), ("W", 16, 3), ("A", 4, 7), ("A", 8, 3),
                             ("B", 4, 1)), "W", (4, 8, 16, 32, 64, 128), 3)

VERIFY_RANKS = (1, 2, 4, 8, 16)
VERIFY_CLASSES = ("S", "W")
# Of --full --verify: the long classes.
LONG_CLASSES, LONG_RANKS = ("A", "B"), (2, 4)


@dataclass(frozen=True)
class Plan:
    """The cases of a run, and in how many rounds each takes part."""

    rounds_of: dict[Case, int]

    def of_round(self, round_: int) -> list[Case]:
        return [case for case, rounds in self.rounds_of.items() if round_ <= rounds]


def turns(case: Case, seconds: float, most: int) -> int:
    """In a round, of a case whose turn takes so long; 0: not known yet."""
    if case.purpose != TIME or not seconds:
        return 1
    return max(1, min(most, int(TURNS_SECONDS / seconds)))


def plan(effort: Effort, applications: list[str], classes: list[str] | None,
         ranks: list[int] | None, memory: bool = True) -> Plan:
    """Classes or ranks that were asked for replace those of the effort, in every round. Small
    classes come first. The memory of many ranks is looked at in runs of its own, unless ranks were
    asked for: every run shows its memory."""
    runs = list(effort.runs)
    if classes or ranks:
        wanted_classes = classes or list(dict.fromkeys(run[0] for run in runs))
        wanted_ranks = ranks or list(dict.fromkeys(run[1] for run in runs))
        runs = [(c, r, effort.rounds) for c in wanted_classes for r in wanted_ranks]
    runs.sort(key=lambda run: (CLASSES.index(run[0]), run[1]))
    rounds_of = {Case(a, c, r): rounds for c, r, rounds in runs for a in applications}
    if memory and not ranks:
        rounds_of.update(memory_cases(effort, applications))
    return Plan(rounds_of)


def memory_cases(effort: Effort, applications: list[str], classes: list[str] | None = None,
                 ranks: list[int] | None = None) -> dict[Case, int]:
    """Classes or ranks that were asked for replace those of the effort."""
    return {Case(a, c, r, MEMORY): effort.memory_rounds
            for c in classes or [effort.memory_class] for r in ranks or effort.memory_ranks
            for a in MEMORY_APPLICATIONS if a in applications}


def verify_cases(full: bool, applications: list[str], classes: list[str] | None,
                 ranks: list[int] | None) -> list[Case]:
    """Of --verify."""
    pairs = [(c, r) for c in classes or VERIFY_CLASSES for r in ranks or VERIFY_RANKS]
    if full and not classes and not ranks:
        pairs += [(c, r) for c in LONG_CLASSES for r in LONG_RANKS]
    return [Case(a, c, r) for c, r in pairs for a in applications]
