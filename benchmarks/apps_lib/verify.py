# SPDX-License-Identifier: BSD-3-Clause
"""The matrix of --verify: does every application verify, whatever it runs over?"""

from __future__ import annotations

from compare_lib import jobs
from compare_lib.report import table
from compare_lib.schedule import Schedule

from . import readings
from .cases import Case
from .programs import APPLICATIONS
from .session import Runner, Task
from .transports import RD_LOSS, TRANSPORTS

GOOD, BAD, ABSENT = "ok", "FAILED", "-"


class Verification(Schedule):
    """Runs each case over each transport once. `runners` by transport: loss needs another
    component."""

    def __init__(self, runners: dict[str, Runner], cases: list[Case]):
        super().__init__(1, 0)
        self.runners = runners
        self.cases = cases
        self.verdicts: dict[tuple[Case, str], str] = {}
        self.dropped = 0

    def tasks(self, round_: int) -> list[Task]:
        return [Task(case, name) for case in self.cases for name in self.runners]

    def run_task(self, task: Task, round_: int) -> str:
        _, output = self.runners[task.transport].run(task.case, task.transport)
        self.verdicts[task.case, task.transport] = GOOD
        if task.transport != RD_LOSS:
            return "verified"
        dropped = readings.dropped_datagrams(output)
        self.dropped += dropped
        return f"verified, {dropped} datagrams dropped"

    def on_failure(self, task: Task, failure: jobs.JobFailed) -> None:
        self.verdicts[task.case, task.transport] = BAD

    def matrix(self) -> str:
        """A row for each application, class and number of ranks, a column for each transport."""
        rows = [["application", "ranks"] + [TRANSPORTS[name].title for name in self.runners]]
        order = list(APPLICATIONS)
        for case in sorted(self.cases, key=lambda c: order.index(c.application)):
            title = f"{APPLICATIONS[case.application].title} {case.class_}"
            rows.append([title, str(case.ranks)]
                        + [self.verdicts.get((case, name), ABSENT) for name in self.runners])
        return table(rows)

    def summary(self) -> str:
        good = sum(word == GOOD for word in self.verdicts.values())
        text = f"{good} runs verified, {len(self.verdicts) - good} failed"
        return text + (f"; {self.dropped} datagrams dropped" if RD_LOSS in self.runners else "")

    def exit_status(self) -> int:
        """Loss that dropped nothing has shown nothing."""
        if not self.verdicts:
            return 2
        lossless = RD_LOSS in self.runners and self.dropped == 0
        return int(lossless or any(word != GOOD for word in self.verdicts.values()))
