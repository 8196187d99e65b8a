# SPDX-License-Identifier: BSD-3-Clause
"""The command line of profile: each case over each transport, with perf around every rank."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shutil
import tempfile

from compare_lib import command_line, jobs, markdown, marked, provenance
from compare_lib.command_line import die
from compare_lib.hosts import Hosts, NoHosts
from compare_lib.measures import GROUPS
from compare_lib.session import find_programs
from compare_lib.transports import BTLS, MPI, TRANSPORTS, Launcher, root_may_run

from . import samples
from .cases import CASES, Case

MARKS = marked.Marks("profile")
SECONDS = 120
# Without a counter of the hardware, which virtual machines lack.
PERF = ("perf", "record", "-q", "-e", "cpu-clock", "-F", "2000")
# Each rank records itself, into the folder that is named first.
RECORD = 'folder=$0; exec {perf} -o "$folder/$OMPI_COMM_WORLD_RANK" -- "$@"'
SYMBOLS_SHOWN = 12


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="profile", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Where the time of each rank goes over diwarp and over the tcp BTL, by perf.",
        epilog="cases:\n" + "\n".join(f"  {c.name:9} {c.title}" for c in CASES.values()))
    parser.add_argument("--only", type=command_line.names_of(CASES), default=list(CASES),
                        metavar="CASES", help="some cases, comma-separated")
    parser.add_argument("--transports", type=command_line.names_of(MPI), default=list(BTLS),
                        metavar="NAMES", help="of compare's; default: diwarp,tcp")
    parser.add_argument("--samples", type=command_line.positive, metavar="N",
                        help="of each program; more take longer")
    parser.add_argument("--symbols", action="store_true",
                        help="also print where most samples of each rank are")
    parser.add_argument("--readme", action="store_true",
                        help="renew the table in benchmarks/RESULTS.md: all cases, as they are")
    parser.add_argument("--component", type=command_line.folder, metavar="DIR",
                        help="folder of mca_btl_diwarp.so")
    parser.add_argument("--bindir", type=command_line.folder, metavar="DIR",
                        help="folder of the programs")
    arguments = parser.parse_args(words)
    if arguments.readme and (arguments.only != list(CASES) or arguments.samples
                             or arguments.transports != list(BTLS)):
        parser.error("--readme wants all of it: no --only, --transports or --samples")
    return arguments


class Profiler:
    """Use as a context manager: its namespaces and files go with it."""

    def __init__(self, launcher: Launcher, programs: dict[str, str], samples_wanted: int | None):
        self.launcher = launcher
        self.programs = programs
        self.samples_wanted = samples_wanted
        self.hosts: Hosts | None = None

    def __enter__(self) -> Profiler:
        with contextlib.ExitStack() as stack:
            self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="diwarp-profile-"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_) -> None:
        self._stack.close()

    def reports(self, case: Case, transport: str) -> list[str]:
        """perf's report of each rank. Raises JobFailed, NoHosts."""
        words = [self.programs[case.program], *case.words(self.samples_wanted)]
        record = ["sh", "-c", RECORD.format(perf=" ".join(PERF)), self.folder, *words]
        for left in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, left))
        jobs.run(self._command(case, TRANSPORTS[transport], record), SECONDS)
        return [jobs.run(["perf", "report", "-i", os.path.join(self.folder, str(rank)),
                          *samples.REPORT_OPTIONS], SECONDS) for rank in range(case.ranks)]

    def _command(self, case: Case, transport, record: list[str]) -> list[str]:
        extra = case.options(transport.name)
        if not case.mtu:
            return self.launcher.command(transport, case.ranks, record, extra)
        if not self.hosts:
            self.hosts = self._stack.enter_context(Hosts(self.launcher))
        self.hosts.set_mtu(case.mtu)
        return self.hosts.command(transport, record, extra)


# ---- output -------------------------------------------------------------------------------------


def table_rows(case: Case, transport: str, rows_of_ranks: list) -> list[list[str]]:
    """Ranks 0 and 1: the sender, origin or root, and the first of the others."""
    return [[case.title, TRANSPORTS[transport].title, str(rank)]
            + [f"{share:.0f}" for share in samples.shares(rows).values()]
            for rank, rows in enumerate(rows_of_ranks[:2])]


def print_symbols(rows_of_ranks: list) -> None:
    for rank, rows in enumerate(rows_of_ranks[:2]):
        for percent, file, symbol in sorted(rows, reverse=True)[:SYMBOLS_SHOWN]:
            print(f"    rank {rank} {percent:5.1f} %  {samples.kind_of(file, symbol):24} "
                  f"{symbol} ({file})")


def document(rows: list[list[str]], words: list[str], machine: str) -> str:
    head = ["", "transport", "rank", *samples.KINDS]
    lines = [f"{provenance.made_by('benchmarks/profile', words)} ({machine}): per cent of the "
             "samples of a rank.", "", markdown.row(head),
             markdown.row(["---", "---"] + ["---:"] * (len(head) - 2)), *map(markdown.row, rows)]
    return "\n".join(lines) + "\n"


# ---- the whole ----------------------------------------------------------------------------------


def check_perf() -> None:
    if not shutil.which("perf"):
        die("no perf (Debian: linux-perf)")
    with tempfile.NamedTemporaryFile(prefix="diwarp-profile-") as file:
        try:
            jobs.run([*PERF, "-o", file.name, "true"], SECONDS, errors=True)
        except jobs.JobFailed as failure:
            die(f"perf may not record here (kernel.perf_event_paranoid?):\n{failure.report()}")


def make_launcher(arguments: argparse.Namespace) -> Launcher:
    return Launcher(os.environ.get("MPIRUN", "mpirun"),
                    command_line.component_folder(arguments.component))


def programs_of(arguments: argparse.Namespace) -> dict[str, str]:
    folder = arguments.bindir or os.path.join(command_line.build_folder(), "benchmarks")
    programs, lost = find_programs(list(GROUPS), [folder])
    if lost:
        die(f"no {', '.join(lost)} in {folder}: build first, or name --bindir")
    return programs


@dataclasses.dataclass
class Outcome:
    rows: list[list[str]] = dataclasses.field(default_factory=list)
    failed: int = 0
    skipped: int = 0


def profile_one(profiler: Profiler, case: Case, transport: str, symbols: bool,
                outcome: Outcome) -> None:
    print(f"{case.title}: {TRANSPORTS[transport].title}", flush=True)
    try:
        of_ranks = [samples.parse(report) for report in profiler.reports(case, transport)]
    except NoHosts as why:
        print(f"skipped: {case.title}: {why}")
        outcome.skipped += 1
    except jobs.JobFailed as failure:
        print(failure.report())
        outcome.failed += 1
    except samples.NotAReport as failure:
        print(f"  {failure}")
        outcome.failed += 1
    else:
        outcome.rows += table_rows(case, transport, of_ranks)
        if symbols:
            print_symbols(of_ranks)


def profile(words: list[str]) -> int:
    arguments = parse_arguments(words)
    if arguments.readme:
        marked.check(MARKS, command_line.RESULTS)
    root_may_run()
    check_perf()
    programs, launcher = programs_of(arguments), make_launcher(arguments)
    command_line.warn_of_machine(launcher)
    outcome = Outcome()
    with Profiler(launcher, programs, arguments.samples) as profiler:
        for name in arguments.only:
            for transport in arguments.transports:
                profile_one(profiler, CASES[name], transport, arguments.symbols, outcome)
    text = document(outcome.rows, words, command_line.machine_text(launcher))
    print("\n" + text)
    if arguments.readme and (outcome.failed or outcome.skipped):
        print("not written: some of it is missing")
    elif arguments.readme:
        marked.write(command_line.RESULTS, text, MARKS)
    return 1 if outcome.failed else 0


def main(words: list[str]) -> int:
    return command_line.run_to_the_end(lambda: profile(words))
