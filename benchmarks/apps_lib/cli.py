# SPDX-License-Identifier: BSD-3-Clause
"""Options of benchmarks/apps, and the order of things."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shutil

from compare_lib import jobs, marked
from compare_lib.command_line import COMPONENT_FILE, EXIT_TEXT, RESULT_FILES, build_folder
from compare_lib.command_line import check_writable, component_folder, die, folder
from compare_lib.command_line import kept_when_stopped, machine_text, names_of, output_folder
from compare_lib.command_line import positive, preloadable, remove_older, run_to_the_end
from compare_lib.command_line import warn_of_machine
from compare_lib.hosts import Hosts, NoHosts
from compare_lib.judge import exit_status, write_verdicts
from compare_lib.provenance import made_by
from compare_lib.report import verdict_table
from compare_lib.transports import DIWARP_COMPONENT, Launcher, listed_components
from compare_lib.transports import ompi_info_program, parameters, probe, root_may_run
from compare_lib.transports import selection_lack

from . import judge, markdown, plots, report
from .cases import FULL, MEMORY, NORMAL, QUICK, TIME, VERIFY_CLASSES, VERIFY_RANKS, Case
from .cases import Effort, Plan, memory_cases, plan, verify_cases
from .programs import APPLICATIONS, CLASSES, Programs, is_executable
from .results import Results
from .session import Runner, Session, Tools
from .transports import DEFAULT, MEASURED, MEMORY_PARAMETER, RD, RD_LOSS, SHARED, TRANSPORTS
from .transports import VERIFIED, with_faults
from .verify import Verification

PROBE_PROGRAM = "latency_bandwidth"
TIME_TOOL, MEMORY_TOOL = "mpi_time.so", "mpi_memory.so"
HOSTS_MTU = 1500
ASKED_AND_LACKING = 2
WITHIN = "what RD saves is taken turn by turn"
SPREAD = "(high - low) / median, of ten and more without the highest and lowest tenth"


def rank_counts(text: str) -> list[int]:
    words = [word for word in text.split(",") if word]
    if not words:
        raise argparse.ArgumentTypeError(f"no number of ranks in '{text}'")
    for word in words:
        if not word.isdecimal() or int(word) < 1:
            raise argparse.ArgumentTypeError(f"'{word}' is no number of ranks")
    return [int(word) for word in words]


def add_choices(p: argparse.ArgumentParser) -> None:
    mode = p.add_mutually_exclusive_group()
    for effort, text in ((QUICK, "less than 3 minutes"), (FULL, "more classes, ranks and rounds")):
        mode.add_argument(f"--{effort.name}", dest="effort", action="store_const", const=effort,
                          default=NORMAL, help=text)
    p.add_argument("--apps", type=names_of(APPLICATIONS), metavar="NAME,...",
                   help=f"applications (all: {','.join(APPLICATIONS)})")
    p.add_argument("--classes", type=names_of(CLASSES), metavar="C,...",
                   help=f"instead of those of the mode; of {','.join(CLASSES)}")
    p.add_argument("--ranks", type=rank_counts, metavar="N,...",
                   help="instead of those of the mode")
    p.add_argument("--transports", type=names_of((*MEASURED, RD_LOSS)), metavar="NAME,...",
                   help=f"of {','.join(MEASURED)} (default {','.join(DEFAULT)}); with --verify of "
                   f"{','.join(VERIFIED)} (default all)")
    p.add_argument("--rounds", type=positive, metavar="N",
                   help=f"rounds (quick {QUICK.rounds}, otherwise {NORMAL.rounds}, "
                   f"full {FULL.rounds})")
    p.add_argument("--only", choices=(TIME, MEMORY), help="the cases for time or for memory alone")
    p.add_argument("--seconds", type=positive, metavar="N",
                   help="longest time of one run (default: by class and ranks)")
    p.add_argument("--net", action="store_true",
                   help="between two network namespaces (MTU 1500) instead of on one host, with "
                   "half of the ranks in each; needs root")
    p.add_argument("--verify", action="store_true",
                   help="only see whether everything verifies, over diwarp's transports and with "
                   f"datagrams dropped: classes {','.join(VERIFY_CLASSES)} on "
                   f"{','.join(map(str, VERIFY_RANKS))} ranks; --full adds A and B on 2 and 4")


def add_places(p: argparse.ArgumentParser) -> None:
    p.add_argument("--npb", type=folder, metavar="DIR",
                   help="NASA's NPB instead of ours: cg.A.x or cg.A.4 in DIR or DIR/bin")
    p.add_argument("--smg2000", metavar="PATH", help="another smg2000 instead of ours")
    p.add_argument("--component", type=folder, metavar="DIR",
                   help=f"folder of {COMPONENT_FILE} (default: the build folder's component/, or "
                   "what is installed)")
    p.add_argument("--bindir", type=folder, metavar="DIR",
                   help="folder of the programs (default: the build folder's benchmarks/)")
    p.add_argument("--tools", type=folder, metavar="DIR",
                   help=f"folder of {TIME_TOOL} and {MEMORY_TOOL} (default: the build folder's "
                   "tools/)")
    p.add_argument("--output", metavar="DIR",
                   help="where CSV files and plots go (default: apps-results/ in the build folder, "
                   "or here)")
    p.add_argument("--csv", metavar="FILE", help="the figures of every turn (default: "
                   "rounds.csv in the output folder)")
    p.add_argument("--plots", metavar="DIR", help="bar charts (default: plots/ in the output "
                   "folder)")
    p.add_argument("--judge", action="store_true", help="exit status 1 when a target is missed")
    p.add_argument("--readme", action="store_true",
                   help="also renew the results in README.md, benchmarks/RESULTS.md and "
                   "benchmarks/plots/")


def parse_options(words: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="apps", epilog=EXIT_TEXT, allow_abbrev=False,
        description="Runs applications (NAS CG, MG, LU, Radix, SMG2000) over diwarp's reliable "
        "datagrams, its reliable connections, and Open MPI's tcp BTL, in interleaved rounds, and "
        "tells what datagrams save: runtime, communication time, memory.")
    add_choices(p)
    add_places(p)
    options = p.parse_args(words)
    if options.smg2000:
        options.smg2000 = os.path.abspath(options.smg2000)
        if not is_executable(options.smg2000):
            p.error(f"no program {options.smg2000}")
    if options.net and SHARED in (options.transports or []):
        p.error("--net has two hosts, which share no memory")
    if options.net and any(count < 2 for count in options.ranks or []):
        p.error("--net needs 2 ranks or more")
    if options.verify and (options.net or options.judge or options.readme or options.only):
        p.error("--verify has no figures")
    if options.readme and (options.apps or options.transports or options.only == MEMORY):
        p.error("--readme wants all of it: no --apps, no --transports, not memory alone")
    known = VERIFIED if options.verify else MEASURED
    for name in options.transports or []:
        if name not in known:
            p.error(f"{name} is {'not' if options.verify else 'only'} for --verify")
    return options


# ---- what there is ------------------------------------------------------------------------------


def program_folders(options: argparse.Namespace) -> tuple[str, ...]:
    own = [options.bindir] if options.bindir else []
    return (*own, os.path.join(build_folder(), "benchmarks"), build_folder())


def find_tools(options: argparse.Namespace, launcher: Launcher) -> Tools:
    folders = [options.tools] if options.tools else []
    folders += [os.path.join(os.path.dirname(options.bindir), "tools")] if options.bindir else []
    folders += [os.path.join(build_folder(), "tools")]
    found = []
    for name in (TIME_TOOL, MEMORY_TOOL):
        paths = [os.path.join(os.path.abspath(where), name) for where in folders]
        found.append(preloadable(next(filter(os.path.isfile, paths), "")))
        if not found[-1]:
            print(f"left out: no {name} in {' or '.join(folders)}: "
                  f"no {'communication times' if name == TIME_TOOL else 'figures of memory'}")
    return Tools(*found, diwarp=MEMORY_PARAMETER in parameters(launcher))


def transport_lack(name: str, launcher: Launcher, program: str, installed: set[str],
                   known: set[str]) -> str:
    """Why nothing can run over it; "" when it can."""
    transport = TRANSPORTS[name]
    if name == RD_LOSS:
        launcher = with_faults(launcher)
        if not os.path.exists(os.path.join(launcher.component, COMPONENT_FILE)):
            return f"no {COMPONENT_FILE} in {launcher.component or 'component-fault'}"
    return selection_lack(name, known) or probe(launcher, transport, program, installed)


def usable_transports(names: list[str], launcher: Launcher, program: str,
                      results: Results) -> list[str]:
    """Of diwarp's the first must work when it is asked for; the others are left out."""
    installed = listed_components(jobs.run_quietly([ompi_info_program(), "--parsable"], 60) or "")
    known = parameters(launcher)
    if launcher.component:
        installed.add(DIWARP_COMPONENT)
    usable = []
    for name in names:
        why = transport_lack(name, launcher, program, installed, known)
        if why and name == RD:
            die(f"diwarp: {why}\n(--component DIR names the folder of {COMPONENT_FILE})")
        if why:
            results.absent[name] = why
            print(f"left out: {TRANSPORTS[name].title}: {why}")
        else:
            usable.append(name)
    return usable


def runnable(cases: list[Case], programs: Programs, results: Results) -> list[Case]:
    """Those that there is a program for; each lack is said once."""
    said = set()
    for case in cases:
        app = APPLICATIONS[case.application]
        if programs.command(app, case.class_, case.ranks):
            continue
        why = results.lacking[case] = programs.lack(app, case.class_, case.ranks)
        if why not in said:
            print(f"left out: {app.title}: {why}")
        said.add(why)
    return [case for case in cases if case not in results.lacking]


def asked_and_lacking(options: argparse.Namespace, results: Results) -> bool:
    """Whether something that was asked for by its name is not there."""
    programs = (options.apps or options.npb) and results.lacking
    return bool(programs or (options.transports and results.absent))


# ---- what is written ----------------------------------------------------------------------------


def rounds_path(options: argparse.Namespace, path: str) -> str:
    return os.path.abspath(options.csv) if options.csv else os.path.join(path, "rounds.csv")


def plots_folder(options: argparse.Namespace, path: str) -> str:
    return os.path.abspath(options.plots or os.path.join(path, "plots"))


def write_measured(options: argparse.Namespace, results: Results, path: str) -> None:
    """In the place of all that an earlier run wrote into the folders."""
    remove_older(path, RESULT_FILES)
    remove_older(plots_folder(options, path), plots.names())
    results.write_rounds(rounds_path(options, path))
    results.write_summary(path)
    results.write_failures(path)


def write_files(options: argparse.Namespace, results: Results, verdicts: list,
                path: str) -> list[str]:
    """The rest: verdicts and plots; the plots' paths."""
    write_verdicts(verdicts, path)
    drawn, why = plots.draw(results, plots_folder(options, path))
    if why:
        print(f"no plots: {why}")
    print("written: " + ", ".join([rounds_path(options, path),
                                   f"{path}: summary.csv, failures.csv, targets.csv", *drawn]))
    return drawn


# ---- order of things ----------------------------------------------------------------------------


def make_launcher(options: argparse.Namespace) -> Launcher:
    mpirun = os.environ.get("MPIRUN", "mpirun")
    if not shutil.which(mpirun):
        die(f"no {mpirun} (Debian: openmpi-bin)")
    root_may_run()
    return Launcher(mpirun, component_folder(options.component))


def probe_program(options: argparse.Namespace) -> str:
    paths = [os.path.join(where, PROBE_PROGRAM) for where in program_folders(options)]
    path = next(filter(is_executable, paths), "")
    return path or die(f"not found: {PROBE_PROGRAM}; build first, or give --bindir DIR")


def effort_of(options: argparse.Namespace) -> Effort:
    effort = options.effort
    if not options.rounds:
        return effort
    runs = tuple((class_, ranks, options.rounds) for class_, ranks, _ in effort.runs)
    return dataclasses.replace(effort, rounds=options.rounds, seconds=0, runs=runs,
                               memory_rounds=min(effort.memory_rounds, options.rounds))


def make_plan(options: argparse.Namespace, effort: Effort, programs: Programs,
              results: Results) -> Plan:
    names = options.apps or list(APPLICATIONS)
    if options.only == MEMORY:
        rounds_of = memory_cases(effort, names, options.classes, options.ranks)
    else:
        memory = not options.net and options.only != TIME
        rounds_of = plan(effort, names, options.classes, options.ranks, memory).rounds_of
    cases = runnable(list(rounds_of), programs, results)
    if not cases:
        die("nothing to run")
    return Plan({case: rounds_of[case] for case in cases})


def make_hosts(options: argparse.Namespace, launcher: Launcher, stack) -> Hosts | None:
    if not options.net:
        return None
    try:
        hosts = stack.enter_context(Hosts(launcher))
    except NoHosts as why:
        die(f"--net: {why}")
    hosts.set_mtu(HOSTS_MTU)
    return hosts


def about_text(options: argparse.Namespace, made: str, rounds: int, turns_most: int,
               machine: str) -> str:
    net = f"; two network namespaces, MTU {HOSTS_MTU}" if options.net else ""
    turns = ", short runs several times in each but the first" * (rounds > 1 and turns_most > 1)
    return (f"{made}: medians of up to {rounds} interleaved round{'s' * (rounds != 1)}{turns} "
            f"({machine}{net})")


def measure(options: argparse.Namespace, made: str) -> int:
    """`made` says by what command, and of what."""
    if options.readme:
        marked.check(markdown.MARKS)
    launcher = make_launcher(options)
    results, effort = Results(), effort_of(options)
    programs = Programs(program_folders(options), options.npb or "", options.smg2000 or "")
    machine = machine_text(launcher)
    print(f"{effort.name} run; {machine}; diwarp from "
          f"{launcher.component or 'the installed component'}", flush=True)
    warn_of_machine(launcher)
    path = output_folder(options.output, "apps-results")
    check_writable(options.csv)
    output_folder(plots_folder(options, path), "")
    todo = make_plan(options, effort, programs, results)
    tools = find_tools(options, launcher)
    asked = options.transports or list(DEFAULT)
    usable = usable_transports(asked, launcher, probe_program(options), results)
    with contextlib.ExitStack() as stack:
        hosts = make_hosts(options, launcher, stack)
        runner = Runner(launcher, programs, tools, options.seconds or 0, hosts)
        session = Session(runner, todo, usable, results, effort.rounds, effort.seconds,
                          effort.turns_most)
        with kept_when_stopped(results, lambda: write_measured(options, results, path)):
            rounds = session.run_rounds()

    print(f"\nMedians, and in brackets their spread, {SPREAD}\n\n"
          f"{report.tables(results)}\n")
    verdicts = judge.judge(results, options.apps or list(APPLICATIONS))
    print(verdict_table(verdicts) + "\n")
    drawn = write_files(options, results, verdicts, path)
    if options.readme:
        about = about_text(options, made, rounds, effort.turns_most, machine)
        whole = f"{about}, and in brackets their spread, {SPREAD}; {WITHIN}."
        marked.renew(markdown.MARKS,
                     lambda shown: markdown.summary(results, verdicts, f"{about}; {WITHIN}.", shown),
                     markdown.document(results, verdicts, whole), drawn)
    if results.failed:
        print(report.failures(results.failed))
        return 1
    lacking = ASKED_AND_LACKING * asked_and_lacking(options, results)
    return (exit_status(verdicts) if options.judge else 0) or lacking


def verify(options: argparse.Namespace) -> int:
    launcher, results = make_launcher(options), Results()
    programs = Programs(program_folders(options), options.npb or "", options.smg2000 or "")
    wanted = verify_cases(options.effort is FULL, options.apps or list(APPLICATIONS),
                          options.classes, options.ranks)
    cases = runnable(wanted, programs, results)
    asked = options.transports or list(VERIFIED)
    usable = usable_transports(asked, launcher, probe_program(options), results)
    # Its report proves which transport it was.
    tools = Tools(diwarp=MEMORY_PARAMETER in parameters(launcher))
    runners = {name: Runner(with_faults(launcher) if name == RD_LOSS else launcher, programs,
                            tools, options.seconds or 0) for name in usable}
    verification = Verification(runners, cases)
    verification.run_rounds()
    print(f"\n{verification.matrix()}\n\n{verification.summary()}")
    if verification.exit_status():
        print(verification.reasons())
    return verification.exit_status() or ASKED_AND_LACKING * asked_and_lacking(options, results)


def main(words: list[str]) -> int:
    options = parse_options(words)
    if options.verify:
        return run_to_the_end(lambda: verify(options))
    made = made_by("benchmarks/apps", words)
    return run_to_the_end(lambda: measure(options, made))
