# SPDX-License-Identifier: BSD-3-Clause
"""The matrix of --verify: does every application verify, whatever it runs over?"""

from __future__ import annotations

from compare_lib import jobs
from compare_lib.report import table
from compare_lib.schedule import Schedule

from . import readings, report
from .agreement import FirstResults
from .cases import Case
from .programs import APPLICATIONS
from .session import Runner, Task
from .transports import LOSS, RD_LOSS, TRANSPORTS

GOOD, NONE_LOST, BAD, ABSENT = "ok", "ok, none lost", "FAILED", "-"
# MG in class S sends 411 datagrams on 2 ranks: one such run in 60 loses none by chance. A run by
# itself must lose some when it would be luckier than this not to, from 1375 datagrams on. Shorter
# ones need not, but not all of an application's may have lost none.
LUCK = 1e-6


def must_lose(datagrams: int) -> bool:
    """Whether so many cannot all arrive. Where none were sent there was no injector."""
    return not datagrams or (1 - LOSS) ** datagrams < LUCK


class Verification(Schedule):
    """Runs each case over each transport once. `runners` by transport: loss needs another
    component."""

    def __init__(self, runners: dict[str, Runner], cases: list[Case]):
        super().__init__(1, 0)
        self.runners = runners
        self.cases = cases
        self.first = FirstResults()
        # (case, transport) of a run that failed or was not verified -> why.
        self.failed: dict[tuple[Case, str], str] = {}
        self.verified: set[tuple[Case, str]] = set()
        # Of verified runs with loss.
        self.dropped: dict[Case, int] = {}

    def tasks(self, round_: int) -> list[Task]:
        """One rank has nobody to lose datagrams to."""
        return [Task(case, name) for case in self.cases for name in self.runners
                if name != RD_LOSS or case.ranks > 1]

    def run_task(self, task: Task, round_: int) -> str:
        runner = self.runners[task.transport]
        _, output = runner.run(task.case, task.transport, self.first)
        text = "verified"
        if task.transport == RD_LOSS:
            loss = readings.loss(output)
            if not loss.dropped and must_lose(loss.datagrams):
                raise jobs.JobFailed(runner.command(task.case, task.transport, []),
                                     f"nothing was dropped of {loss.datagrams} datagrams", output)
            self.dropped[task.case] = loss.dropped
            text += f", {loss.dropped} of {loss.datagrams} datagrams dropped"
        self.verified.add((task.case, task.transport))
        return text

    def on_failure(self, task: Task, failure: jobs.JobFailed) -> None:
        self.failed[task.case, task.transport] = failure.reason

    def run_rounds(self) -> int:
        rounds = super().run_rounds()
        self._judge_short_runs()
        return rounds

    def _judge_short_runs(self) -> None:
        """Loss that dropped nothing of an application has shown nothing."""
        for name in APPLICATIONS:
            dropped = {case: n for case, n in self.dropped.items() if case.application == name}
            if any(dropped.values()):
                continue
            for case in dropped:
                self.verified.remove((case, RD_LOSS))
                self.failed[case, RD_LOSS] = \
                    f"nothing was dropped in any run of {APPLICATIONS[name].title}"

    def _word(self, case: Case, transport: str) -> str:
        if (case, transport) in self.failed:
            return BAD
        if (case, transport) not in self.verified:
            return ABSENT
        return NONE_LOST if transport == RD_LOSS and not self.dropped[case] else GOOD

    def matrix(self) -> str:
        """A row for each application, class and number of ranks, a column for each transport."""
        rows = [["application", "ranks"] + [TRANSPORTS[name].title for name in self.runners]]
        for case in report.by_application(self.cases):
            title = f"{APPLICATIONS[case.application].title} {case.class_}"
            rows.append([title, str(case.ranks)]
                        + [self._word(case, name) for name in self.runners])
        return table(rows)

    def summary(self) -> str:
        text = f"{len(self.verified)} runs verified, {len(self.failed)} failed"
        dropped = sum(self.dropped.values())
        return text + (f"; {dropped} datagrams dropped" if RD_LOSS in self.runners else "")

    def reasons(self) -> str:
        """Why the exit status is not 0."""
        if not self.verified and not self.failed:
            return "nothing was run"
        return report.failures(self.failed)

    def exit_status(self) -> int:
        if not self.verified and not self.failed:
            return 2
        return int(bool(self.failed))
