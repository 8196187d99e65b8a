# SPDX-License-Identifier: BSD-3-Clause
"""Options of benchmarks/memory, and the order of things."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
from dataclasses import dataclass
from typing import Callable

from apps_lib.transports import OVER_A_NETWORK, RC, RC_SRQ, RD, SHARED, TCP, TRANSPORTS
from compare_lib import marked
from compare_lib.command_line import COMPONENT_FILE, EXIT_TEXT, build_folder, component_folder
from compare_lib.command_line import die, folder, machine_text, names_of
from compare_lib.command_line import output_folder, positive, preloadable, remove_older
from compare_lib.command_line import run_to_the_end, warn_of_settings
from compare_lib.jobs import JobFailed
from compare_lib.judge import Verdict, exit_status, write_verdicts
from compare_lib.provenance import made_by
from compare_lib.report import verdict_table
from compare_lib.schedule import Schedule
from compare_lib.transports import Launcher, parameters, root_may_run, selection_lack

from . import judge, markdown, plots, report
from .model import Model, models_of
from .points import NOTHING, SECONDS, SECONDS_PER_RANK, SECONDS_PER_RANK_OF_APP
from .points import Held, Point, run

TOOL = "mpi_memory.so"
PROGRAM = "all_to_all"
SMG2000 = "smg2000"
RANKS = [2, 4, 8, 16, 32, 64, 128]
DEFAULT = [RD, RC, RC_SRQ, TCP]
ALL_TO_ALL, APP = "alltoall", "app"
ROUNDS = 3
BYTES = 4096
RESULT_FILES = ("points.csv", "model.csv", "targets.csv")
# Unknowns in each direction in each process.
APP_CUBE = 16


def numbers(text: str) -> list[int]:
    values = sorted({positive(word) for word in text.split(",") if word})
    if not values or values[0] < 2:
        raise argparse.ArgumentTypeError("numbers of ranks, 2 or more")
    return values


def parse_options(words: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="memory", epilog=EXIT_TEXT, allow_abbrev=False,
        description="Measures the memory, user and kernel, of each process and of its transport, "
        "with growing numbers of ranks on this machine; fits a line to it, which predicts larger "
        "numbers, and judges the targets of all-to-all.")
    p.add_argument("--ranks", type=numbers, metavar="N,...", default=RANKS,
                   help=f"default {','.join(map(str, RANKS))}")
    p.add_argument("--transports", type=names_of(OVER_A_NETWORK), metavar="NAME,...",
                   help=f"of {','.join(OVER_A_NETWORK)} (default {','.join(DEFAULT)})")
    p.add_argument("--pattern", choices=(ALL_TO_ALL, APP), default=ALL_TO_ALL,
                   help="every rank talks to every other (default); or SMG2000's problem, "
                   f"{APP_CUBE}^3 unknowns a process")
    p.add_argument("--bytes", type=positive, default=BYTES, metavar="N",
                   help=f"of a message of alltoall ({BYTES})")
    p.add_argument("--large", type=positive, default=0, metavar="N",
                   help="of a second, large message between the same two (none)")
    p.add_argument("--rounds", type=positive, default=ROUNDS, metavar="N",
                   help=f"medians of so many ({ROUNDS})")
    p.add_argument("--judge", action="store_true", help="exit status 1 when a target is missed")
    p.add_argument("--component", type=folder, metavar="DIR",
                   help=f"folder of {COMPONENT_FILE} (default: the build folder's component/, or "
                   "what is installed)")
    p.add_argument("--bindir", type=folder, metavar="DIR",
                   help="folder of the programs (default: the build folder's benchmarks/)")
    p.add_argument("--tools", type=folder, metavar="DIR",
                   help=f"folder of {TOOL} (default: the build folder's tools/)")
    p.add_argument("--output", metavar="DIR",
                   help="where CSV files and plot go (default: memory-results/ in the build "
                   "folder, or here)")
    p.add_argument("--readme", action="store_true",
                   help="also renew the results in README.md, benchmarks/RESULTS.md and "
                   "benchmarks/plots/")
    options = p.parse_args(words)
    if options.pattern == APP and (options.judge or options.readme):
        p.error(f"--judge and --readme are of --pattern {ALL_TO_ALL}")
    if options.readme and (options.ranks != RANKS or options.transports
                           or options.bytes != BYTES or options.large):
        p.error("--readme wants all of it: no --ranks, --transports, --bytes or --large")
    return options


# ---- what there is ------------------------------------------------------------------------------


def existing(name: str, asked: str | None, below: str) -> str:
    path = os.path.join(asked or os.path.join(build_folder(), below), name)
    if not os.path.isfile(path):
        die(f"not found: {path}; build first, or name its folder")
    return os.path.abspath(path)


def process_grid(ranks: int) -> list[int]:
    """Three factors, as even as they can be: 4 gives 2, 2, 1."""
    factors, rest, least = [], ranks, 2
    while rest > 1:
        if rest % least:
            least += 1
        else:
            factors.append(least)
            rest //= least
    grid = [1, 1, 1]
    for factor in reversed(factors):
        grid[grid.index(min(grid))] *= factor
    return grid


def program_for(options: argparse.Namespace, ranks: int) -> list[str]:
    if options.pattern == APP:
        cube, grid = [str(APP_CUBE)] * 3, map(str, process_grid(ranks))
        return [existing(SMG2000, options.bindir, "benchmarks"), "-n", *cube, "-P", *grid]
    return [existing(PROGRAM, options.bindir, "benchmarks"), "-b", str(options.bytes),
            "-l", str(options.large)]


def usable_transports(options: argparse.Namespace, launcher: Launcher) -> list[str]:
    known = parameters(launcher)
    names = []
    for name in options.transports or DEFAULT:
        why = selection_lack(name, known)
        if why:
            if options.transports:
                die(f"{name}: {why}")
            print(f"left out: {TRANSPORTS[name].title}: {why}")
        else:
            names.append(name)
    return names


# ---- measuring ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    name: str
    ranks: int

    @property
    def title(self) -> str:
        return f"{TRANSPORTS[self.name].title}, {self.ranks} ranks"


class Session(Schedule):
    """All transports with one number of ranks, then with the next. What failed once is not run
    again."""

    def __init__(self, options: argparse.Namespace, launcher: Launcher, names: list[str]):
        super().__init__(options.rounds, 0)
        self.options = options
        self.launcher = launcher
        self.names = names
        self.tool = preloadable(existing(TOOL, options.tools, "tools"))
        self.held: dict[Task, list[Held]] = {}
        self.failed: set[Task] = set()

    def tasks(self, round_: int) -> list[Task]:
        names = self.names if self.options.pattern == APP else [SHARED, *self.names]
        tasks = [Task(name, ranks) for ranks in self.options.ranks for name in names]
        return [task for task in tasks if task not in self.failed]

    def run_task(self, task: Task, round_: int) -> str:
        program = program_for(self.options, task.ranks)
        each = SECONDS_PER_RANK_OF_APP if self.options.pattern == APP else SECONDS_PER_RANK
        held = run(self.launcher, task.name, task.ranks, program, self.tool,
                   SECONDS + each * task.ranks)
        self.held.setdefault(task, []).append(held)
        return (f"{report.bytes_text(held.total)} a process, of it "
                f"{report.bytes_text(held.kernel)} in the kernel")

    def on_failure(self, task: Task, failure: JobFailed) -> None:
        self.failed.add(task)

    def _points(self, chosen: Callable[[list[Held]], Held | None]) -> list[Point]:
        found = []
        for ranks in self.options.ranks:
            shared = NOTHING if self.options.pattern == APP else \
                chosen(self.held.get(Task(SHARED, ranks), []))
            for name in self.names:
                held = chosen(self.held.get(Task(name, ranks), []))
                if held and shared:
                    found.append(Point(name, ranks, held, shared))
        return found

    def points(self) -> list[Point]:
        return self._points(median)

    def points_of_rounds(self) -> list[list[Point]]:
        """Each round's, of what has not failed by then."""
        return [self._points(lambda held, i=i: held[i] if i < len(held) else None)
                for i in range(self.rounds)]


def median(of: list[Held]) -> Held | None:
    """The one in the middle by its total: one run, whose parts belong together. None of none."""
    if not of:
        return None
    middle = statistics.median_low(held.total for held in of)
    return next(held for held in of if held.total == middle)


def verdicts_of(session: Session, points: list[Point]) -> list[Verdict]:
    if session.options.pattern == APP:
        return []
    failed = {(task.name, task.ranks) for task in session.failed}
    return judge.judge(session.options.ranks, points, session.points_of_rounds(), failed)


def about_text(session: Session, made: str, machine: str) -> str:
    rounds = session.rounds
    of = f"medians of {rounds} interleaved rounds" if rounds > 1 else "one round"
    lost = [f"{task.title}, in round {len(session.held.get(task, [])) + 1}"
            for task in sorted(session.failed, key=lambda task: (task.ranks, task.name))]
    failed = f" Failed, and not run again: {'; '.join(lost)}." if lost else ""
    return (f"{made}: {of} ({machine}); user and kernel memory of the "
            f"transport, mean of the ranks.{failed}")


def write_measured(points: list[Point], path: str) -> None:
    """In the place of all that an earlier run wrote there."""
    remove_older(path, (*RESULT_FILES, *(f"plots/{name}" for name in plots.names())))
    report.write_points(points, path)


def write_files(points: list[Point], models: dict[str, Model], verdicts: list[Verdict], title: str,
                path: str) -> list[str]:
    """The rest: model, verdicts and plot; the plot's path."""
    report.write_models(models, path)
    write_verdicts(verdicts, path)
    drawn, why = plots.draw(points, models, title, os.path.join(path, "plots"))
    if why:
        print(f"no plot: {why}")
    print(", ".join([f"written: {path}: points.csv, model.csv, targets.csv", *drawn]))
    return drawn


def measure(options: argparse.Namespace, made: str) -> int:
    """`made` says by what command, and of what."""
    mpirun = os.environ.get("MPIRUN", "mpirun")
    if not shutil.which(mpirun):
        die(f"no {mpirun} (Debian: openmpi-bin)")
    if options.readme:
        marked.check(markdown.MARKS)
    root_may_run()
    launcher = Launcher(mpirun, component_folder(options.component))
    session = Session(options, launcher, usable_transports(options, launcher))
    path, machine = output_folder(options.output, "memory-results"), machine_text(launcher)
    print(f"memory; {machine}; diwarp from {launcher.component or 'the installed component'}",
          flush=True)
    warn_of_settings()
    try:
        session.run_rounds()
    finally:
        # What a run that was stopped has measured is not lost, nor what was there if it is nothing.
        points = session.points()
        if points:
            write_measured(points, path)
    if not points:
        die("nothing was measured")
    models = models_of(points)
    beyond = "of the whole\nprocess" if options.pattern == APP else \
        "beyond the same\nprogram over shared memory"
    print(f"\nMeans over the ranks. Transport (user, kernel) and heap: {beyond}. "
          "Heap and own report count what was never written to.\n\n"
          f"{report.point_table(points)}\n\n{report.model_table(models)}\n\n"
          f"{report.ratio_table(points, RD)}\n")
    title = "SMG2000, the whole process" if options.pattern == APP else \
        f"Every rank to every other, {report.bytes_text(options.bytes)}: the transport's part"
    verdicts = verdicts_of(session, points)
    if verdicts:
        print(verdict_table(verdicts) + "\n")
    drawn = write_files(points, models, verdicts, title, path)
    if options.readme:
        about = about_text(session, made, machine)
        marked.renew(markdown.MARKS,
                     lambda shown: markdown.summary(points, models, verdicts, about, shown),
                     markdown.document(points, models, verdicts, about), drawn)
    if options.judge:
        return exit_status(verdicts) or int(session.failures > 0)
    return int(session.failures > 0)


def main(words: list[str]) -> int:
    options = parse_options(words)
    made = made_by("benchmarks/memory", words)
    return run_to_the_end(lambda: measure(options, made))
