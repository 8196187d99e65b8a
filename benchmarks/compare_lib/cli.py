# SPDX-License-Identifier: BSD-3-Clause
"""Options of benchmarks/compare, and the order of things."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil

from . import jobs, judge, markdown, marked, plots, report
from .command_line import COMPONENT_FILE, EXIT_TEXT, RESULT_FILES, build_folder
from .command_line import check_writable, component_folder, die, folder, kept_when_stopped
from .command_line import machine_text, names_of, output_folder, positive, remove_older
from .command_line import run_to_the_end, warn_of_machine
from .measures import FULL, GROUPS, MEASURES, PLACES, QUICK
from .provenance import made_by
from .results import Results
from .session import Session, find_programs
from .targets import TARGETS
from .transports import COMPARED, DIWARP, RAW_UDP, TCP, TRANSPORTS, UCX, Launcher
from .transports import listed_components, ompi_info_program, parameters, probe, root_may_run
from .transports import selection_lack

PROBE_PROGRAM = "latency_bandwidth"


def groups_of(text: str) -> list[str]:
    """In their order; of a place, all there."""
    names = names_of([*PLACES, *GROUPS])(text)
    return [group for group in GROUPS
            if group in names or any(group in PLACES.get(name, ()) for name in names)]


def parse_options(words: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="compare", epilog=EXIT_TEXT, allow_abbrev=False,
        description="Measures diwarp, Open MPI's tcp BTL over CUBIC and BBR, UCX over tcp and "
        "libfabric (what is installed), and the raw UDP and TCP sockets below them, in turns and "
        "interleaved rounds of one run.")
    mode = p.add_mutually_exclusive_group()
    mode.add_argument("--quick", dest="effort", action="store_const", const=QUICK, default=QUICK,
                      help="less than 3 minutes (the default)")
    mode.add_argument("--full", dest="effort", action="store_const", const=FULL,
                      help="more samples, sizes and rounds")
    p.add_argument("--rounds", type=positive, metavar="N",
                   help=f"rounds (quick {QUICK.rounds}, full {FULL.rounds}; some measures take "
                   "part in fewer)")
    p.add_argument("--samples", type=positive, metavar="N",
                   help="timed samples of a figure in a round (default: by mode and measure)")
    p.add_argument("--only", type=groups_of, metavar="NAME,...", default=list(GROUPS),
                   help=f"groups of measures, or {', '.join(PLACES)}; see --list")
    p.add_argument("--transports", type=names_of(COMPARED), metavar="NAME,...",
                   default=list(COMPARED),
                   help="the raw sockets are always there")
    p.add_argument("--list", action="store_true", help="groups, transports and targets, and no run")
    p.add_argument("--judge", action="store_true", help="exit status 1 when a target is missed")
    p.add_argument("--component", type=folder, metavar="DIR",
                   help=f"folder of {COMPONENT_FILE} (default: the build folder's component/, or "
                   "what is installed)")
    p.add_argument("--bindir", type=folder, metavar="DIR",
                   help="folder of the programs (default: the build folder's benchmarks/)")
    p.add_argument("--output", metavar="DIR",
                   help="where CSV files and plots go (default: benchmarks-results/ in the build "
                   "folder, or here)")
    p.add_argument("--markdown", metavar="FILE",
                   help="also write the results to FILE: between its marks "
                   f"{markdown.MARKS}, or all of it when it has none")
    p.add_argument("--readme", action="store_true",
                   help="also renew the results in README.md, benchmarks/RESULTS.md and "
                   "benchmarks/plots/")
    options = p.parse_args(words)
    if options.readme and (options.only != list(GROUPS) or options.transports != list(COMPARED)):
        p.error("--readme wants all of it: no --only, no --transports")
    return options


def print_list() -> int:
    for place, groups in PLACES.items():
        print(f"groups of {place}:")
        for name, text in groups.items():
            print(f"  {name:<12} {text}")
    print("transports:")
    for t in TRANSPORTS.values():
        print(f"  {t.name:<12} {t.title}")
    print("targets (of diwarp; in brackets: what we want beyond that):")
    for t in TARGETS:
        aim = "" if t.aim is None else f" ({t.aim:g})"
        print(f"  {t.group:<12} {t.title}: {t.operator} {t.limit:g}{aim}")
    print(end="", flush=True)
    return 0


def usable_transports(options, launcher: Launcher, programs: dict[str, str],
                      results: Results) -> list[str]:
    """Probes each that a group asks for; diwarp must work when it is."""
    ompi_info = jobs.run_quietly([ompi_info_program(), "--parsable"], 60) or ""
    installed, known = listed_components(ompi_info), parameters(launcher)
    needed = {t for m in MEASURES if m.group in options.only for t in m.transports}
    usable = []
    for name in options.transports:
        if name not in needed:
            continue
        why = (selection_lack(name, known)
               or probe(launcher, TRANSPORTS[name], programs[PROBE_PROGRAM], installed))
        if not why:
            usable.append(name)
        elif name == DIWARP:
            die(f"diwarp: {why}\n(--component DIR names the folder of {COMPONENT_FILE})")
        else:
            results.absent[name] = why
            print(f"skipped: {TRANSPORTS[name].title}: {why}")
    return usable


def write_measured(results: Results, path: str) -> None:
    """In the place of all that an earlier run wrote there."""
    remove_older(path, (*RESULT_FILES, *(f"plots/{name}" for name in plots.names())))
    results.write_rounds(path)
    results.write_summary(path, (TCP, UCX, RAW_UDP))


def write_files(results: Results, verdicts: list, path: str) -> list[str]:
    """The rest: verdicts and plots; the plots' paths."""
    judge.write_verdicts(verdicts, path)
    drawn, why = plots.draw(results, os.path.join(path, "plots"))
    if why:
        print(f"no plots: {why}")
    print(f"written: {path}: rounds.csv, summary.csv, targets.csv"
          + "".join(f", plots/{os.path.basename(p)}" for p in drawn))
    return drawn


SPREADS = ("in brackets their spread, (high - low) / median, of shares and indices high and low: "
           "of samples taken in turns their middle 80 %, of others the extremes. Ratios are taken "
           "sample by sample, or within a round")


def write_markdown(options, results: Results, verdicts: list, about: str, drawn: list[str]) -> None:
    """`about` says how the results came about."""
    with_spreads = f"{about}, and {SPREADS}."
    if options.markdown:
        here = os.path.dirname(os.path.abspath(options.markdown))
        shown = [os.path.relpath(p, here) for p in drawn]
        text = markdown.document(results, verdicts, with_spreads, shown)
        marked.write(options.markdown, text, markdown.MARKS)
        print(f"written: {options.markdown}")
    if options.readme:
        marked.renew(markdown.MARKS,
                     lambda shown: markdown.summary(results, verdicts, f"{about}.", shown),
                     markdown.document(results, verdicts, with_spreads, []), drawn)


def measure_and_report(options: argparse.Namespace, made: str) -> int:
    """`made` says by what command, and of what."""
    mpirun = os.environ.get("MPIRUN", "mpirun")
    if not shutil.which(mpirun):
        die(f"no {mpirun} (Debian: openmpi-bin)")
    if options.readme:
        marked.check(markdown.MARKS)
    build = build_folder()
    folders = [options.bindir] if options.bindir else []
    folders += [os.path.join(build, "benchmarks"), build]
    programs, lost = find_programs(options.only, folders)
    probe_path, _ = find_programs(["pt2pt"], folders)
    if lost or PROBE_PROGRAM not in probe_path:
        die(f"not found: {', '.join(lost) or PROBE_PROGRAM}; build first, or give --bindir DIR")
    programs[PROBE_PROGRAM] = probe_path[PROBE_PROGRAM]
    path = output_folder(options.output, "benchmarks-results")
    check_writable(options.markdown)
    root_may_run()
    launcher = Launcher(mpirun, component_folder(options.component))
    effort = options.effort
    if options.rounds:
        effort = dataclasses.replace(effort, rounds=options.rounds, seconds=0)
    if options.samples:
        effort = dataclasses.replace(effort, samples=options.samples)

    machine = machine_text(launcher)
    print(f"{effort.name} comparison; {machine}; diwarp from "
          f"{launcher.component or 'the installed component'}", flush=True)
    warn_of_machine(launcher)
    results = Results()
    usable = usable_transports(options, launcher, programs, results)
    session = Session(launcher, programs, effort, options.only, usable, results)
    with kept_when_stopped(results, lambda: write_measured(results, path)):
        rounds = session.run()

    print(f"\nMedians, and in brackets the spread, (high - low) / median\n"
          f"\n{report.figure_tables(results)}\n")
    verdicts = judge.judge(results, options.only)
    print(report.verdict_table(verdicts) + "\n")
    drawn = write_files(results, verdicts, path)
    about = f"{made}: medians of {rounds} round{'s' * (rounds != 1)} ({machine})"
    write_markdown(options, results, verdicts, about, drawn)
    if session.failures:
        print(f"{session.failures} run(s) failed")
    if options.judge:
        return judge.exit_status(verdicts) or int(session.failures > 0)
    return int(session.failures > 0)


def main(words: list[str]) -> int:
    options = parse_options(words)
    if options.list:
        return run_to_the_end(print_list)
    made = made_by("benchmarks/compare", words)
    return run_to_the_end(lambda: measure_and_report(options, made))
