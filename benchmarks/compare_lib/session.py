# SPDX-License-Identifier: BSD-3-Clause
"""A run: rounds of all measures, each over its transports in turns or back to back, with progress
shown."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from dataclasses import dataclass, field

from . import jobs
from .figures import NO_SIZE, Figure, Value, parse_output
from .hosts import Hosts, NoCongestionControl, NoHosts
from .measures import BOTH_TCPS, GROUPS, LINK_MBIT, LOSS_SCENES, MEASURES, Effort, Measure
from .results import Results
from .schedule import Schedule, in_turn
from .transports import DIWARP, OFI_TCP, RAW, RAW_SEALED, RAW_TCP, RAW_UDP, TCPS, TRANSPORTS, UCX
from .transports import Launcher, default_congestion_control

# What carries the transport's data, and so what is dropped.
PROTOCOLS = {DIWARP: "udp", **dict.fromkeys((*TCPS, UCX, OFI_TCP), "tcp")}
RAW_STREAMS = ("stream", "cpu", "stream_bi", "cpu_bi")
RAW_OF_PROTOCOL = {"udp": RAW_UDP, "udp-sealed": RAW_SEALED, "tcp": RAW_TCP}
# See benchmarks/turns.h, and what turns.c says of a program whose turn does not come.
TURNS_VARIABLE = "DIWARP_BENCH_TURNS"
TURNS_BYTES = 4
# Longest time of a ring.
RING_SECONDS = 600
NO_TURN = f"{TURNS_VARIABLE}: the turn does not come"
# What raw_sockets says of what this kernel does not have, or its buffers cannot take.
UNSUPPORTED = "unsupported=1"


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


@dataclass(frozen=True)
class Ring:
    """Runs at the same time, each with a seat, that take turns sample by sample."""

    group: str
    name: str
    # Another one is first in each round.
    seats: tuple[Task, ...] = field(compare=False)

    @property
    def title(self) -> str:
        return f"{self.group}, {self.name}, {len(self.seats)} in turns"


Assigned = dict[tuple[Figure, str], Value]


def assign(values: list[Value], task: Task) -> Assigned:
    """Who each value belongs to. Of several raw streams of a protocol in the same directions the
    fastest counts, and it is the limit of the message sizes that the measure names."""
    out: Assigned = {}
    fastest: dict[tuple[str, str], float] = {}
    better = False
    for v in values:
        figure, transport = v.figure, RAW_OF_PROTOCOL.get(v.protocol, task.transport)
        if figure.quantity not in RAW_STREAMS or figure.size != NO_SIZE:
            out[figure, transport] = v
            continue
        # The line's CPU time comes after its rate, and belongs to the same mode.
        if figure.quantity.startswith("stream"):
            mode = figure.quantity, transport
            better = v.value > fastest.get(mode, 0)
            fastest[mode] = max(v.value, fastest.get(mode, 0))
        for size in task.measure.stands_for if better else ():
            out[Figure(figure.quantity, size, figure.scene), transport] = v
    return out


def merge(seats: list[Assigned]) -> Assigned:
    """Of the raw streams of several seats the fastest counts, with its CPU time."""
    out: Assigned = {}
    for values in seats:
        rate = next((key for key in values if key[0].quantity.startswith("stream")), None)
        if rate not in out or values[rate].value > out[rate].value:
            out |= values
    return out


def short(values: Assigned, limit: int = 5) -> str:
    """A few of the figures, for the progress line: of the first those of all transports."""
    texts, several = [], len({transport for _, transport in values}) > 1
    figures = list(dict.fromkeys(figure for figure, _ in values))
    for (figure, transport), value in sorted(values.items(), key=lambda v: figures.index(v[0][0])):
        who = f"{TRANSPORTS[transport].title} " if transport in RAW or several else ""
        texts.append(f"{who}{figure.text(value.value)} {figure.about.unit}".strip())
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
        # Pairs of hosts by the congestion control of their TCP; of what names none, the first.
        self.pairs: dict[str, Hosts] = {}
        # Optional ones that could not run.
        self.given_up: set[Task] = set()

    # ---- what is to be done ---------------------------------------------------------------------

    def tasks(self, round_: int) -> list[Task | Ring]:
        """Of one round. The transports take turns in being first."""
        out: list[Task | Ring] = []
        rings: dict[tuple[str, str], list[Task]] = {}
        for measure in MEASURES:
            if measure.group not in self.groups or measure.group in self.results.skipped:
                continue
            if round_ > measure.rounds[self.effort.column]:
                continue
            names = self._names_of(measure)
            tasks = [Task(measure, t) for t in ([RAW_UDP] if measure.is_raw
                                                else in_turn(names, round_))]
            tasks = [task for task in tasks if task not in self.given_up]
            if not measure.ring:
                out += tasks
            elif tasks:
                rings.setdefault((measure.group, measure.ring), []).extend(tasks)
        whole = [Ring(*name, tuple(seats)) for name, seats in rings.items()]
        return in_order_of_groups(out + whole)

    def _names_of(self, measure: Measure) -> list[str]:
        names = [t for t in measure.transports if t in self.transports]
        if measure.group not in BOTH_TCPS and set(TCPS) <= set(names):
            names.remove(TCPS[-1])
        return names

    # ---- doing it -------------------------------------------------------------------------------

    def run(self) -> int:
        """Runs all rounds, or as many as there is time for; their number."""
        with contextlib.ExitStack() as stack:
            measures = [m for m in MEASURES if m.group in self.groups]
            far = [group for group in GROUPS if any(m.mtu for m in measures if m.group == group)]
            if far or any(set(TCPS) & set(self._names_of(m)) for m in measures):
                self._make_hosts(stack, far)
            return self.run_rounds()

    def _make_hosts(self, stack: contextlib.ExitStack, far: list[str]) -> None:
        """A pair for each congestion control. `far`: groups that need hosts."""
        try:
            for name in [t for t in TCPS if t in self.transports] or [DIWARP]:
                congestion = TRANSPORTS[name].congestion
                try:
                    self.pairs[congestion] = stack.enter_context(
                        Hosts(self.launcher, congestion, len(self.pairs)))
                except NoCongestionControl as why:
                    self._leave_out(name, str(why))
            if not self.pairs:
                self.pairs[""] = stack.enter_context(Hosts(self.launcher))
        except NoHosts as why:
            self._do_without_hosts(far, str(why))
            return
        if "loss" in self.groups:
            for permille in LOSS_SCENES:
                self._try("loss", "nftables", self._pair(DIWARP).loss("udp", permille))
        if "link" in self.groups:
            self._try("link", "tc's token bucket", self._pair(DIWARP).link(LINK_MBIT))

    def _do_without_hosts(self, far: list[str], why: str) -> None:
        """Of the congestion controls there is the kernel's default then."""
        self.pairs.clear()
        for group in far:
            self.results.skipped[group] = why
            print(f"skipped: {group}: {why}")
        for name in [t for t in TCPS if t in self.transports]:
            if TRANSPORTS[name].congestion != default_congestion_control():
                self._leave_out(name, f"this kernel's default is {default_congestion_control()}; "
                                      f"another takes a network namespace: {why}")

    def _leave_out(self, name: str, why: str) -> None:
        self.transports = [t for t in self.transports if t != name]
        self.results.absent[name] = why
        print(f"skipped: {TRANSPORTS[name].title}: {why}")

    def _pair(self, transport: str) -> Hosts:
        first = next(iter(self.pairs.values()))
        return self.pairs.get(TRANSPORTS[transport].congestion, first)

    def _try(self, group: str, what: str, way: contextlib.AbstractContextManager) -> None:
        """Whether the way between the hosts can be made so; the group is skipped when not."""
        if group in self.results.skipped:
            return
        try:
            with way as dropped:
                if dropped:
                    dropped()
        except jobs.JobFailed as failure:
            first = (failure.output.strip().splitlines() or [failure.reason])[0]
            self.results.skipped[group] = f"{what} does not work here: {first}"
            print(f"skipped: {group}: {self.results.skipped[group]}")

    def run_task(self, task: Task | Ring, round_: int) -> str:
        if isinstance(task, Ring):
            values = self._values_of_ring(task)
        else:
            try:
                values = self._values_of(task)
            except jobs.JobFailed as failure:
                if not task.measure.optional:
                    raise
                return self._give_up(task, failure)
        for (figure, transport), value in values.items():
            if value.each:
                self.results.add_each(group_of(task), figure, transport, round_, value.each)
            else:
                self.results.add(group_of(task), figure, transport, round_, value.value)
        return short(values)

    def _values_of_ring(self, ring: Ring) -> Assigned:
        """One that fails leaves the ring, and is counted; the others begin again."""
        seats = list(ring.seats)
        while seats:
            try:
                return self._run_in_turns(seats)
            except jobs.JobFailed as failure:
                if failure.which is None:
                    raise
                failed = seats.pop(failure.which)
                self.failures += 1
                print(f"{failed.title} FAILED\n{failure.report()}", flush=True)
                self.on_failure(failed, failure)
        return {}

    def _run_in_turns(self, seats: list[Task]) -> Assigned:
        with tempfile.TemporaryDirectory(prefix="diwarp-turns-") as folder:
            shared = os.path.join(folder, "turns")
            with open(shared, "wb") as file:
                file.write(bytes(TURNS_BYTES))
            commands = [self._seated(seat, i, f"{shared}:{i}:{len(seats)}")
                        for i, seat in enumerate(seats)]

            def holder() -> int:
                with open(shared, "rb") as file:
                    return int.from_bytes(file.read(), sys.byteorder) % len(seats)

            outputs = jobs.run_together(commands, RING_SECONDS, holder, NO_TURN)
        values = []
        for i, (seat, output) in enumerate(zip(seats, outputs)):
            values.append(assign(parse_output(output, seat.measure.scene), seat))
            if not values[-1] and not (seat.measure.is_raw and UNSUPPORTED in output):
                raise jobs.JobFailed(commands[i][-1], "no figure was printed", output, i)
        return merge(values)

    def _give_up(self, task: Task, failure: jobs.JobFailed) -> str:
        self._end_processes(task)
        self.given_up.add(task)
        return f"skipped\n{failure.report()}"

    def _end_processes(self, task: Task) -> None:
        if task.measure.mtu or self._in_namespace(task.transport):
            self._pair(task.transport).end_processes()

    def _in_namespace(self, transport: str) -> bool:
        """Where it runs on one host."""
        return bool(self.pairs and TRANSPORTS[transport].congestion)

    def on_failure(self, task: Task | Ring, failure: jobs.JobFailed) -> None:
        for seat in task.seats if isinstance(task, Ring) else (task,):
            self._end_processes(seat)
            self.results.failed.add((seat.measure.group, seat.transport))

    def _values_of(self, task: Task) -> Assigned:
        measure = task.measure
        words = measure.words(self.effort)
        words = [self.programs[measure.program], *words]
        if measure.permille is not None:
            output = self._run_lossy(task, words)
        elif measure.mbit:
            with self._pair(task.transport).link(measure.mbit):
                output = self._run_plain(task, words)
        else:
            output = self._run_plain(task, words)
        values = assign(parse_output(output, measure.scene), task)
        if not values:
            raise jobs.JobFailed(words, "no figure was printed", output)
        return values

    def _run_plain(self, task: Task, words: list[str]) -> str:
        *beside, command = self._commands(task, words)
        return jobs.run(command, task.measure.seconds, beside[0] if beside else None)

    def _seated(self, task: Task, number: int, turns: str) -> list[list[str]]:
        """The commands of a run that takes turns. Each mpirun has its session folder in one of its
        own: several that begin and end at the same time stumble over the one they share."""
        measure = task.measure
        words = [self.programs[measure.program], *measure.words(self.effort)]
        commands = self._commands(task, words, ("-x", TURNS_VARIABLE), number)
        own = f"{turns.partition(':')[0]}-{number}"
        os.mkdir(own)
        return [["env", f"{TURNS_VARIABLE}={turns}", f"TMPDIR={own}", *command]
                for command in commands]

    def _commands(self, task: Task, words: list[str], extra: tuple[str, ...] = (),
                  number: int = 0) -> list[list[str]]:
        """The command of a run, after one that has to run beside it, if any. `extra`: of mpirun;
        `number`: of several at the same time."""
        measure = task.measure
        if measure.mtu:
            self._pair(task.transport).set_mtu(measure.mtu)
        if measure.is_raw and not measure.mtu:
            return [words]
        if measure.is_raw:
            return list(self._pair(task.transport).raw_commands(words, number))
        extra = (*measure.options.get(task.transport, ()), *extra)
        transport = TRANSPORTS[task.transport]
        if measure.mtu:
            return [self._pair(task.transport).command(transport, words, extra, measure.ranks)]
        command = self.launcher.command(transport, measure.ranks, words, extra)
        if self._in_namespace(task.transport):
            command = self._pair(task.transport).on_one(command)
        return [command]

    def _run_lossy(self, task: Task, words: list[str]) -> str:
        permille = task.measure.permille
        with self._pair(task.transport).loss(PROTOCOLS[task.transport], permille) as dropped:
            output = self._run_plain(task, words)
            if permille and not dropped():
                raise jobs.JobFailed(words, "no packet was dropped", output)
        return output


def group_of(task: Task | Ring) -> str:
    return task.group if isinstance(task, Ring) else task.measure.group


def in_order_of_groups(tasks: list[Task | Ring]) -> list[Task | Ring]:
    """Rings before single runs of their group: what they compare most closely comes first."""
    groups = list(GROUPS)
    return sorted(tasks, key=lambda t: (groups.index(group_of(t)), not isinstance(t, Ring)))


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
