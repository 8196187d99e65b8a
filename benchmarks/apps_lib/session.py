# SPDX-License-Identifier: BSD-3-Clause
"""A run: rounds of all cases, each over its transports back to back."""

from __future__ import annotations

import glob
import os
import tempfile
import time
from dataclasses import dataclass, field

from compare_lib import jobs
from compare_lib.hosts import Hosts
from compare_lib.schedule import Schedule, in_turn
from compare_lib.transports import DIWARP_COMPONENT, Launcher

from . import programs, readings
from .agreement import FirstResults
from .cases import MEMORY, PEAK_MS, Case, Plan, turns
from .figures import COMMUNICATION, MEMORY as MEMORY_BYTES, PRIVATE, QUANTITIES, RUNTIME
from .figures import TRANSPORT
from .programs import APPLICATIONS, Programs
from .results import Results
from .transports import MEMORY_PARAMETER, TRANSPORTS, queue_pairs

SHOWN = (RUNTIME, COMMUNICATION, MEMORY_BYTES)


@dataclass(frozen=True)
class Task:
    """One run of an application. What it took is expected of its next turn, too."""

    case: Case
    transport: str
    turn: int = field(default=1, compare=False)

    @property
    def title(self) -> str:
        memory = ", for memory" if self.case.purpose == MEMORY else ""
        turn = f", turn {self.turn}" if self.turn > 1 else ""
        return f"{self.case.title}{memory}{turn}: {TRANSPORTS[self.transport].title}"


@dataclass(frozen=True)
class Tools:
    """Paths of the preloadable libraries, "" when not there; and whether diwarp can report what
    memory it holds."""

    time: str = ""
    memory: str = ""
    diwarp: bool = False

    def reports_itself(self, transport: str) -> bool:
        return self.diwarp and TRANSPORTS[transport].component == DIWARP_COMPONENT

    def options(self, folder: str, transport: str, watched: bool) -> list[str]:
        """Of mpirun: both preloaded, each rank's lines into a file in the folder. Ranks that are
        `watched` have their memory sampled as they run."""
        report = ["--mca", MEMORY_PARAMETER, "1"] if self.reports_itself(transport) else []
        preloaded = [path for path in (self.time, self.memory) if path]
        if not preloaded:
            return report
        exports = {"LD_PRELOAD": ":".join(preloaded),
                   "DIWARP_MPI_TIME_OUTPUT": os.path.join(folder, "time.%r"),
                   "DIWARP_MPI_MEMORY_OUTPUT": os.path.join(folder, "memory.%r")}
        if watched:
            exports["DIWARP_MPI_MEMORY_PEAK_MS"] = str(PEAK_MS)
        return report + [word for name, value in exports.items()
                         for word in ("-x", f"{name}={value}")]

    def figures(self, folder: str, case: Case, transport: str, output: str) -> dict[str, float]:
        """Raises readings.Unusable."""
        values: dict[str, float] = {}
        if self.time:
            values.update(time_figures(text_of_files(folder, "time.*"), case))
        if self.memory:
            values.update(memory_figures(text_of_files(folder, "memory.*"), case))
        if self.reports_itself(transport):
            means = readings.diwarp_memory(output, case.ranks, queue_pairs(transport))
            values[TRANSPORT] = means["transport_bytes"]
        return values


def text_of_files(folder: str, pattern: str) -> str:
    texts = []
    for path in sorted(glob.glob(os.path.join(folder, pattern))):
        with open(path, encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    return "\n".join(texts)


def time_figures(text: str, case: Case) -> dict[str, float]:
    means = readings.times(text, case.ranks)
    share = means["mpi_seconds"] / means["wall_seconds"] if means["wall_seconds"] else 0.0
    return {COMMUNICATION: means["mpi_seconds"], "mpi_share": share, "calls": means["calls"],
            "sent_bytes": means["sent_bytes"], "init_seconds": means["init_seconds"]}


def memory_figures(text: str, case: Case) -> dict[str, float]:
    """What a process takes in all: what is its own, and what the kernel holds for its sockets."""
    point = "peak" if case.purpose == MEMORY else "finalize"
    means = readings.memory(text, case.ranks, point)
    sockets = means["socket_queue_bytes"] + means["socket_slab_bytes"]
    return {MEMORY_BYTES: means["private_bytes"] + sockets, PRIVATE: means["private_bytes"],
            "pss_bytes": means["pss_bytes"], "socket_bytes": sockets}


def short(values: dict[str, float]) -> str:
    """For the progress line."""
    return ", ".join(f"{QUANTITIES[name].title} {QUANTITIES[name].text(values[name])} "
                     f"{QUANTITIES[name].unit}" for name in SHOWN if name in values)


class Runner:
    """Runs one application over one transport, here or between two namespaces."""

    def __init__(self, launcher: Launcher, found: Programs, tools: Tools, seconds: float = 0,
                 hosts: Hosts | None = None):
        self.launcher = launcher
        self.programs = found
        self.tools = tools
        # Longest time of a run; 0: by case.
        self.seconds = seconds
        self.hosts = hosts

    def command(self, case: Case, transport: str, extra: list[str]) -> list[str]:
        words = self.programs.command(APPLICATIONS[case.application], case.class_, case.ranks)
        over = TRANSPORTS[transport]
        if self.hosts:
            return self.hosts.command(over, words, tuple(extra), case.ranks)
        return self.launcher.command(over, case.ranks, words, tuple(extra))

    def run(self, case: Case, transport: str,
            first: FirstResults) -> tuple[dict[str, float], str]:
        """(figures, all that was printed). A run that did not verify has failed, and so has one
        with another result than the first."""
        with tempfile.TemporaryDirectory(prefix="diwarp-apps-") as folder:
            extra = self.tools.options(folder, transport, case.purpose == MEMORY)
            command = self.command(case, transport, extra)
            begin = time.monotonic()
            try:
                output = jobs.run(command, self.seconds or case.seconds, errors=True)
            except jobs.JobFailed:
                if self.hosts:
                    self.hosts.end_processes()
                raise
            job_seconds = time.monotonic() - begin
            try:
                app = APPLICATIONS[case.application]
                outcome = programs.outcome(app, output, case.class_, case.ranks)
                values = {RUNTIME: outcome.seconds, "job_seconds": job_seconds}
                if outcome.mops is not None:
                    values["mops"] = outcome.mops
                values.update(self.tools.figures(folder, case, transport, output))
                first.check(case, transport, outcome.result)
            except readings.Unusable as why:
                raise jobs.JobFailed(command, str(why), output) from None
            return values, output


class Session(Schedule):
    """What failed once is not run again: it is an error already."""

    def __init__(self, runner: Runner, plan: Plan, transports: list[str], results: Results,
                 rounds: int, seconds: float, turns_most: int):
        super().__init__(rounds, seconds)
        self.turns_most = turns_most
        self.runner = runner
        self.plan = plan
        self.transports = transports
        self.results = results
        self.first = FirstResults()

    def tasks(self, round_: int) -> list[Task]:
        """The transports take turns in being first."""
        tasks = [Task(case, name, turn) for case in self.plan.of_round(round_)
                 for turn in range(1, self._turns(case) + 1)
                 for name in in_turn(self.transports, round_ + turn - 1)]
        return [task for task in tasks if self.is_due(task)]

    def _turns(self, case: Case) -> int:
        """By what its last runs took; those that failed have no more."""
        tasks = [Task(case, name) for name in self.transports]
        return turns(case, sum(self.durations.get(task, 0.0) for task in tasks
                               if self.is_due(task)), self.turns_most)

    def is_due(self, task: Task) -> bool:
        return (task.case, task.transport) not in self.results.failed

    def run_task(self, task: Task, round_: int) -> str:
        values, _ = self.runner.run(task.case, task.transport, self.first)
        self.results.add(task.case, task.transport, (round_, task.turn), values)
        return short(values)

    def on_failure(self, task: Task, failure: jobs.JobFailed) -> None:
        self.results.failed[task.case, task.transport] = failure.reason
