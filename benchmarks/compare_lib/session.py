# SPDX-License-Identifier: BSD-3-Clause
"""A run: rounds of all measures, each over its transports back to back, with progress shown."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from . import jobs
from .figures import NO_SIZE, Figure, Value, parse_output
from .hosts import Hosts, NoHosts
from .measures import GROUPS, LINK_MBIT, LOSS_PERMILLE, MEASURES, Effort, Measure
from .results import Results
from .schedule import Schedule, in_turn
from .transports import DIWARP, OFI_TCP, RAW, RAW_TCP, RAW_UDP, TCP, TRANSPORTS, UCX, Launcher

# What carries the transport's data, and so what is dropped.
PROTOCOLS = {DIWARP: "udp", TCP: "tcp", UCX: "tcp", OFI_TCP: "tcp"}
RAW_STREAMS = ("stream", "cpu", "stream_bi", "cpu_bi")
RAW_OF_PROTOCOL = {"udp": RAW_UDP, "tcp": RAW_TCP}


@dataclass(frozen=True)
class Task:
    """One run of a program. The raw sockets are all measured by one."""

    measure: Measure
    transport: str

    @property
    def title(self) -> str:
        over = "raw sockets" if self.measure.is_raw else TRANSPORTS[self.transport].title
        what = self.measure.title or self.measure.scene
        return f"{self.measure.group}{', ' if what else ''}{what}: {over}"


def assign(values: list[Value], task: Task) -> dict[tuple[Figure, str], float]:
    """Who each value belongs to. Of several raw streams of a protocol in the same directions the
    fastest counts, and it is the limit of the message sizes that the measure names."""
    out: dict[tuple[Figure, str], float] = {}
    fastest: dict[tuple[str, str], float] = {}
    better = False
    for v in values:
        figure, transport = v.figure, RAW_OF_PROTOCOL.get(v.protocol, task.transport)
        if figure.quantity not in RAW_STREAMS or figure.size != NO_SIZE:
            out[figure, transport] = v.value
            continue
        # The line's CPU time comes after its rate, and belongs to the same mode.
        if figure.quantity.startswith("stream"):
            mode = figure.quantity, transport
            better = v.value > fastest.get(mode, 0)
            fastest[mode] = max(v.value, fastest.get(mode, 0))
        for size in task.measure.stands_for if better else ():
            out[Figure(figure.quantity, size, figure.scene), transport] = v.value
    return out


def short(values: dict[tuple[Figure, str], float], limit: int = 5) -> str:
    """A few of the figures, for the progress line."""
    texts = []
    for (figure, transport), value in list(values.items()):
        who = f"{TRANSPORTS[transport].title} " if transport in RAW else ""
        texts.append(f"{who}{figure.text(value)} {figure.about.unit}".strip())
    more = " ..." if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + more


class Session(Schedule):
    """`programs` maps a program's name to its path."""

    def __init__(self, launcher: Launcher, programs: dict[str, str], effort: Effort,
                 groups: list[str], transports: list[str], results: Results):
        super().__init__(effort.rounds, effort.seconds)
        self.launcher = launcher
        self.programs = programs
        self.effort = effort
        self.groups = groups
        self.transports = transports
        self.results = results
        self.hosts: Hosts | None = None
        # Optional ones that could not run.
        self.given_up: set[Task] = set()

    # ---- what is to be done ---------------------------------------------------------------------

    def tasks(self, round_: int) -> list[Task]:
        """Of one round. The transports take turns in being first."""
        out = []
        for measure in MEASURES:
            if measure.group not in self.groups or measure.group in self.results.skipped:
                continue
            if round_ > measure.rounds[self.effort.column]:
                continue
            if measure.is_raw:
                out.append(Task(measure, RAW_UDP))
                continue
            names = [t for t in measure.transports if t in self.transports]
            out += [Task(measure, t) for t in in_turn(names, round_)]
        return [task for task in out if task not in self.given_up]

    # ---- doing it -------------------------------------------------------------------------------

    def run(self) -> int:
        """Runs all rounds, or as many as there is time for; their number."""
        with contextlib.ExitStack() as stack:
            if any(m.mtu for m in MEASURES if m.group in self.groups):
                self._make_hosts(stack)
            return self.run_rounds()

    def _make_hosts(self, stack: contextlib.ExitStack) -> None:
        try:
            self.hosts = stack.enter_context(Hosts(self.launcher))
        except NoHosts as why:
            for group in GROUPS:
                if group in self.groups and any(m.mtu for m in MEASURES if m.group == group):
                    self.results.skipped[group] = str(why)
                    print(f"skipped: {group}: {why}")
            return
        if "loss" in self.groups:
            self._try("loss", "nftables", self.hosts.loss("udp", LOSS_PERMILLE))
        if "link" in self.groups:
            self._try("link", "tc's token bucket", self.hosts.link(LINK_MBIT))

    def _try(self, group: str, what: str, way: contextlib.AbstractContextManager) -> None:
        """Whether the way between the hosts can be made so; the group is skipped when not."""
        try:
            with way as dropped:
                if dropped:
                    dropped()
        except jobs.JobFailed as failure:
            first = (failure.output.strip().splitlines() or [failure.reason])[0]
            self.results.skipped[group] = f"{what} does not work here: {first}"
            print(f"skipped: {group}: {self.results.skipped[group]}")

    def run_task(self, task: Task, round_: int) -> str:
        try:
            values = self._values_of(task)
        except jobs.JobFailed as failure:
            if not task.measure.optional:
                raise
            return self._give_up(task, failure)
        for (figure, transport), value in values.items():
            self.results.add(task.measure.group, figure, transport, round_, value)
        return short(values)

    def _give_up(self, task: Task, failure: jobs.JobFailed) -> str:
        self._end_processes(task)
        self.given_up.add(task)
        return f"skipped\n{failure.report()}"

    def _end_processes(self, task: Task) -> None:
        if task.measure.mtu:
            self.hosts.end_processes()

    def on_failure(self, task: Task, failure: jobs.JobFailed) -> None:
        self._end_processes(task)
        self.results.failed.add((task.measure.group, task.transport))

    def _values_of(self, task: Task) -> dict[tuple[Figure, str], float]:
        measure = task.measure
        words = measure.words(self.effort)
        words = [self.programs[measure.program], *words]
        if measure.lossy:
            output = self._run_lossy(task, words)
        elif measure.mbit:
            with self.hosts.link(measure.mbit):
                output = self._run_plain(task, words)
        else:
            output = self._run_plain(task, words)
        values = assign(parse_output(output, measure.scene), task)
        if not values:
            raise jobs.JobFailed(words, "no figure was printed", output)
        return values

    def _run_plain(self, task: Task, words: list[str]) -> str:
        measure, beside = task.measure, None
        extra = measure.options.get(task.transport, ())
        if measure.mtu:
            self.hosts.set_mtu(measure.mtu)
        if measure.is_raw and measure.mtu:
            beside, command = self.hosts.raw_commands(words)
        elif measure.is_raw:
            command = words
        elif measure.mtu:
            command = self.hosts.command(TRANSPORTS[task.transport], words, extra)
        else:
            command = self.launcher.command(TRANSPORTS[task.transport], measure.ranks, words, extra)
        return jobs.run(command, measure.seconds, beside)

    def _run_lossy(self, task: Task, words: list[str]) -> str:
        with self.hosts.loss(PROTOCOLS[task.transport], LOSS_PERMILLE) as dropped:
            output = self._run_plain(task, words)
            if not dropped():
                raise jobs.JobFailed(words, "no packet was dropped", output)
        return output


def find_programs(groups: list[str], folders: list[str]) -> tuple[dict[str, str], list[str]]:
    """({name: path}, names not found) of what the groups need."""
    found, lost = {}, []
    for name in dict.fromkeys(m.program for m in MEASURES if m.group in groups):
        paths = [os.path.join(folder, name) for folder in folders]
        path = next((p for p in paths if os.path.isfile(p) and os.access(p, os.X_OK)), None)
        if path:
            found[name] = path
        else:
            lost.append(name)
    return found, lost
