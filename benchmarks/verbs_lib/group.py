# SPDX-License-Identifier: BSD-3-Clause
"""Multicast and broadcast of UD to some receivers, beside unicast to each of them: interleaved
rounds, in which a task is one sender with its receivers, and measures all sizes."""

from __future__ import annotations

from dataclasses import dataclass

from compare_lib import jobs
from compare_lib.schedule import Schedule, in_turn
from compare_lib.stats import Rounds

from .group_network import BROADCAST, MULTICAST, PORT, Bridge
from .series import fields_of

# What a row is sent by; the program's words for it.
WORDS = {"multicast": ["multicast", "-g", MULTICAST], "broadcast": ["broadcast", "-g", BROADCAST],
         "unicast": ["unicast"]}
# A veth hands trains of segments over as one packet, which a wire does not, and unicast's sockets
# take them so, which groups' do not.
NO_TRAINS = ", no trains"
WAYS = (*WORDS, *(way + NO_TRAINS for way in WORDS))
VERBS = {"send": "UD Send", "write": "UD Write-Record"}
RECEIVERS = [1, 2, 4, 7]
QUICK_RECEIVERS = [1, 7]
SIZES = [1 << 10, 4 << 10, 64 << 10]
# Figures: of whole messages of all receivers together, of the slowest one and of the fastest one;
# of all valid bytes; percent of the messages, each counted for each receiver, not whole there.
AGGREGATE, SLOWEST, FASTEST, VALID, LOST = "aggregate", "slowest", "fastest", "valid", "lost"
FIELDS = {AGGREGATE: "MBps", SLOWEST: "slowest_MBps", FASTEST: "fastest_MBps",
          VALID: "valid_MBps", LOST: "lost_percent"}
START_SECONDS = 40.0
LATE_SECONDS = 10.0


@dataclass(frozen=True)
class Row:
    verb: str
    way: str
    receivers: int

    @property
    def trains(self) -> bool:
        return not self.way.endswith(NO_TRAINS)

    @property
    def title(self) -> str:
        return f"group: {VERBS[self.verb]}, {self.way} to {self.receivers}"


Key = "tuple[str, int, int, str]"  # (verb, receivers, bytes, quantity), of a figure of each way


@dataclass(frozen=True)
class Plan:
    sizes: list[int]
    receivers: list[int]
    rounds: int
    seconds: float  # of a measure
    program: str

    @property
    def rows(self) -> list[Row]:
        return [Row(verb, way, receivers) for verb in VERBS for receivers in self.receivers
                for way in WAYS]


def unicast_of(way: str) -> str:
    """What it is compared with."""
    return "unicast" + (NO_TRAINS if way.endswith(NO_TRAINS) else "")


def quantities(verb: str) -> tuple[str, ...]:
    return tuple(q for q in FIELDS if q != VALID or verb == "write")


def readings(row: Row, output: str) -> dict[Key, float]:
    values = {}
    for line in output.splitlines():
        fields = fields_of(line)
        if line.startswith("group ") and "bytes" in fields:
            for quantity in quantities(row.verb):
                if FIELDS[quantity] in fields:
                    key = (row.verb, row.receivers, int(fields["bytes"]), quantity)
                    values[key] = float(fields[FIELDS[quantity]])
    return values


class GroupSession(Schedule):
    """`bridge` None: nothing can be run."""

    def __init__(self, plan: Plan, bridge: Bridge | None, why_not: str):
        super().__init__(plan.rounds, 0)
        self.plan = plan
        self.bridge = bridge
        self.results = Rounds()
        self.lacks: dict[tuple[Key, str], str] = {}
        if not bridge:
            for row in plan.rows:
                self.lack(row, why_not)

    def tasks(self, round_: int) -> list[Row]:
        return in_turn(self.plan.rows if self.bridge else [], round_)

    def lack(self, row: Row, why: str) -> None:
        """None of its figures can be had, but for those of other rounds."""
        for size in self.plan.sizes:
            for quantity in quantities(row.verb):
                self.lacks.setdefault(((row.verb, row.receivers, size, quantity), row.way), why)

    def run_task(self, task: Row, round_: int) -> str:
        self.bridge.set_up(task.receivers, task.trains)
        limit = START_SECONDS + len(self.plan.sizes) * (self.plan.seconds + LATE_SECONDS)
        try:
            output = jobs.run_together([[c] for c in self.commands(task)], limit)[0]
        finally:
            self.bridge.end_processes()
        values = readings(task, output)
        for key, value in values.items():
            self.results.put(key, task.way, round_, value)
        self.lack(task, "the program printed no such figure")
        return ", ".join(f"{value:.4g}" for key, value in values.items()
                         if key[-1] == AGGREGATE) + " MB/s in all"

    def on_failure(self, task: Row, failure: jobs.JobFailed) -> None:
        last = failure.output.strip().splitlines()[-1:]
        self.lack(task, ": ".join([failure.reason, *last]))

    def commands(self, row: Row) -> list[list[str]]:
        """The sender's, and each receiver's."""
        words = [self.plan.program, "-s", row.verb, "-w", *WORDS[row.way.split(",")[0]],
                 "-n", ",".join(map(str, self.plan.sizes)), "-t", f"{self.plan.seconds:g}",
                 "-c", f"{self.bridge.addresses[0]}:{PORT}"]
        return [[*self.bridge.inside(i), *words, "-a", self.bridge.addresses[i],
                 *(["-r", str(row.receivers)] if i == 0 else [])]
                for i in range(row.receivers + 1)]
