# SPDX-License-Identifier: BSD-3-Clause
"""Interleaved rounds of all series: each is one pair of processes that measures all sizes."""

from __future__ import annotations

import os
from dataclasses import dataclass

from compare_lib import jobs
from compare_lib.schedule import Schedule, in_turn
from compare_lib.stats import Rounds

from .network import PORT, Loopback, Pair, Routed
from .series import FAILED, LARGE_DATAGRAM_BYTES, LATENCY, LOSS, MTU, OF, RAW, VALID
from .series import Figure, Series, figures_of, readings

# A process to start and to end; what a measure may take beyond its own time. The programs end
# themselves, too, later.
START_SECONDS = 20.0
LATE_SECONDS = 4.0
# Where so many are expected, none is no chance.
SURE_DROPS = 20


@dataclass(frozen=True)
class Task:
    series: Series
    loss: float | None

    @property
    def title(self) -> str:
        lost = "" if self.loss is None else f", {self.loss:g} % lost"
        return f"{self.series.group}: {self.series.name}{lost}"


@dataclass(frozen=True)
class Plan:
    series: list[Series]
    sizes: list[int]
    losses: list[float]
    rounds: int
    seconds: float  # of a measure
    programs: dict[str, str]  # by name: verbs_native, verbs_of, raw_sockets, diwarp-verbs


class Session(Schedule):
    """Where there is no network of a kind, `pair` or `routed` is None, and none of its series is
    in the plan."""

    def __init__(self, plan: Plan, pair: Pair | Loopback | None, routed: Routed | None):
        super().__init__(plan.rounds, 0)
        self.plan = plan
        self.pair = pair
        self.routed = routed
        self.results = Rounds()
        self.lacks: dict[tuple[Figure, str], str] = {}
        self.lost_percent: dict[tuple[int, str], float] = {}

    def tasks(self, round_: int) -> list[Task]:
        plain = [Task(s, None) for s in self.plan.series if s.group != LOSS and not s.lack]
        lossy = [Task(s, loss) for loss in self.plan.losses for s in self.plan.series
                 if s.group == LOSS]
        return in_turn(plain, round_) + in_turn(lossy, round_)

    def lack(self, series: Series, losses: list[float | None], why: str) -> None:
        """None of its figures can be had."""
        for loss in losses:
            for figure in figures_of(series, self.plan.sizes, loss):
                self.lacks.setdefault((figure, series.name), why)

    # ---- one task -------------------------------------------------------------------------------

    def run_task(self, task: Task, round_: int) -> str:
        series, place = task.series, self.routed if task.series.group == LOSS else self.pair
        if series.group == LOSS:
            place.set_up(task.loss, series.large)
        server, client = self.commands(series, place)
        limit = START_SECONDS + 2 * len(self.plan.sizes) * (self.plan.seconds + LATE_SECONDS)
        try:
            output = jobs.run(client, limit, beside=server)
        finally:
            place.end_processes()
        values, lacks = readings(series, output, task.loss)
        if series.group == LOSS:
            self.check_network(task, values, client)
        for figure, value in values.items():
            self.results.put(figure, series.name, round_, value)
        for figure, why in lacks.items():
            self.lacks[figure, series.name] = why
        for figure in figures_of(series, self.plan.sizes, task.loss):
            if figure not in values and figure not in lacks:
                self.lacks[figure, series.name] = "the program printed no such figure"
        failed = [line for line in output.splitlines() if line.startswith(f"{FAILED} ")]
        self.failures += bool(failed)
        return shown(values) + (f"; {failed[0]}" if failed else "")

    def check_network(self, task: Task, values: dict, client: list[str]) -> None:
        """What did not happen is not to be reported as measured."""
        packets, fragments, dropped = self.routed.counted()
        most = max((figure.bytes for figure, value in values.items() if value), default=0)
        if task.series.large and most > MTU and not fragments:
            raise jobs.JobFailed(client, "the router made no fragments", "")
        if not task.series.large and fragments:
            raise jobs.JobFailed(client, "datagrams came in fragments", "")
        if packets * task.loss / 100 > SURE_DROPS and not dropped:
            raise jobs.JobFailed(client, "nothing was dropped", "")

    def on_failure(self, task: Task, failure: jobs.JobFailed) -> None:
        last = failure.output.strip().splitlines()[-1:]
        self.lack(task.series, [task.loss], ": ".join([failure.reason, *last]))

    # ---- commands -------------------------------------------------------------------------------

    def commands(self, series: Series, place: Pair | Loopback) -> tuple[list[str], list[str]]:
        """(server, client)"""
        at = f"{place.addresses[1]}:{PORT}"
        if series.group == RAW:
            program, options = [self.plan.programs["raw_sockets"]], self.raw_options(series, place)
            return ([*place.inside(1), *program, "-L", at],
                    [*place.inside(0), *program, *options, "-C", at])
        program, options = self.program(series), self.options(series)
        return ([*place.inside(1), *program, *options, "-a", place.addresses[1], "-L", at],
                [*place.inside(0), *program, *options, "-a", place.addresses[0], "-C", at])

    def program(self, series: Series) -> list[str]:
        if series.group == OF:
            return [self.plan.programs["diwarp-verbs"], "run", self.plan.programs["verbs_of"]]
        return [self.plan.programs["verbs_native"]]

    def options(self, series: Series) -> list[str]:
        datagram = str(LARGE_DATAGRAM_BYTES if series.large else 0)
        return ["-s", series.words, "-n", ",".join(map(str, self.plan.sizes)),
                "-t", f"{self.plan.seconds:g}", "-m", datagram,
                "-w", "stream" if series.group == LOSS else "both"]

    def raw_options(self, series: Series, place: Pair | Loopback) -> list[str]:
        sizes = ",".join(map(str, self.plan.sizes))
        return ["-p", series.words, "-l", sizes, "-n", sizes,
                "-r", "3", "-s", str(max(1, round(16 * self.plan.seconds))), "-d", "uni",
                *place.raw_options]


def shown(values: dict[Figure, float]) -> str:
    """The figures of the smallest and the largest message, for who watches."""
    parts = []
    for quantity, unit in ((LATENCY, "µs"), ("whole", "MB/s"), (VALID, "MB/s valid")):
        of = sorted((figure.bytes, value) for figure, value in values.items()
                    if figure.quantity == quantity)
        if of:
            parts.append(f"{of[0][1]:.4g} to {of[-1][1]:.4g} {unit}")
    return ", ".join(parts) or "nothing could be measured"


def find_programs(bindir: str | None, build: str) -> dict[str, str]:
    """Paths by name; raises FileNotFoundError, which names the first that is not there."""
    found = {}
    for name, below in (("verbs_native", "benchmarks"), ("verbs_of", "benchmarks"),
                        ("verbs_group", "benchmarks"), ("raw_sockets", "benchmarks"),
                        ("diwarp-verbs", "")):
        places = [os.path.join(folder, sub, name) for folder in (bindir, build) if folder
                  for sub in ("", below)]
        usable = [path for path in places if os.path.isfile(path) and os.access(path, os.X_OK)]
        if not usable:
            raise FileNotFoundError(name)
        found[name] = os.path.abspath(usable[0])
    return found
