# SPDX-License-Identifier: BSD-3-Clause
"""Interleaved rounds of tasks, with progress, the time still to go, and failures that do not stop
the others."""

from __future__ import annotations

import time
from typing import Any

from . import jobs


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def in_turn(names: list, round_: int) -> list:
    """Another one is first in each round."""
    turn = (round_ - 1) % len(names) if names else 0
    return names[turn:] + names[:turn]


class Schedule:
    """Whoever inherits says what tasks there are (hashable, with a `title`) and runs them. No
    further round is begun that would end later than `seconds` (0: no limit)."""

    def __init__(self, rounds: int, seconds: float):
        self.rounds = rounds
        self.seconds = seconds
        self.durations: dict[Any, float] = {}
        self.failures = 0

    # ---- of the inheriting class ----------------------------------------------------------------

    def tasks(self, round_: int) -> list:
        """Of one round, in order."""
        raise NotImplementedError

    def is_due(self, task: Any) -> bool:
        """Asked right before it would run: whether it still should."""
        return True

    def run_task(self, task: Any, round_: int) -> str:
        """Runs it and keeps its figures; what to show of them. Raises jobs.JobFailed."""
        raise NotImplementedError

    def on_failure(self, task: Any, failure: jobs.JobFailed) -> None:
        """A task has failed; it is counted and shown already."""

    # ---- doing it -------------------------------------------------------------------------------

    def run_rounds(self) -> int:
        """Runs all rounds, or as many as there is time for; their number."""
        begin = time.monotonic()
        for round_ in range(1, self.rounds + 1):
            gone = time.monotonic() - begin
            late = self.seconds and gone + self._expected(self.tasks(round_)) > self.seconds
            if round_ > 1 and late:
                print(f"no time for round {round_}: {minutes(gone)} are gone")
                return round_ - 1
            self._run_round(round_, begin)
        return self.rounds

    def _expected(self, tasks: list) -> float:
        """Seconds, by what earlier rounds took."""
        if not self.durations:
            return 0
        mean = sum(self.durations.values()) / len(self.durations)
        return sum(self.durations.get(task, mean) for task in tasks)

    def _run_round(self, round_: int, begin: float) -> None:
        tasks = self.tasks(round_)
        for i, task in enumerate(tasks):
            if not self.is_due(task):
                continue
            left = self._expected([later for later in tasks[i:] if self.is_due(later)])
            for later in range(round_ + 1, self.rounds + 1):
                left += self._expected(self.tasks(later))
            eta = f", about {minutes(left)} to go" if round_ > 1 else ""
            print(f"[{minutes(time.monotonic() - begin)}{eta}] round {round_}/{self.rounds} "
                  f"{i + 1}/{len(tasks)} {task.title} ... ", end="", flush=True)
            start = time.monotonic()
            try:
                print(self.run_task(task, round_), flush=True)
            except jobs.JobFailed as failure:
                self.failures += 1
                print(f"FAILED\n{failure.report()}", flush=True)
                self.on_failure(task, failure)
            finally:
                self.durations[task] = time.monotonic() - start
