# SPDX-License-Identifier: BSD-3-Clause
"""Options of benchmarks/verbs, and the order of things."""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import Iterable

from compare_lib import cores, marked
from compare_lib.command_line import RESULTS, build_folder, die, folder, kept_when_stopped
from compare_lib.command_line import names_of, output_folder, positive, remove_older
from compare_lib.command_line import run_to_the_end
from compare_lib.hosts import NoHosts
from compare_lib.provenance import made_by

from . import group, plots
from .group_network import Bridge
from .group_report import CSV_FILES as GROUP_CSV_FILES
from .group_report import GroupReport
from .network import Loopback, Pair, Routed
from .report import CSV_FILES, Report
from .series import GROUP, GROUPS, LOSS, LOSSES, NATIVE, OF, QUICK_LOSSES, QUICK_SIZES, RAW
from .series import SERIES, SIZES
from .session import Plan, Session, find_programs

MARKS = marked.Marks("verbs")
BYTES_MAX = 4 << 20
SIZES_MAX = 32
ROUNDS, SECONDS = 5, 0.3
QUICK_ROUNDS, QUICK_SECONDS = 1, 0.02
UNITS = {"K": 1 << 10, "M": 1 << 20}
ABOUT = f"""UD, RD and RC at the level of verbs: half round trips and bandwidth by message size,
over diwarp's API ({NATIVE}), over libibverbs with the front ({OF}), and of the raw sockets ({RAW});
and bandwidth while packets are lost ({LOSS}), over UD also of the valid bytes of records, in
segments of the MTU and in datagrams of 64 KiB that a router breaks up; and of multicast and
broadcast to {group.RECEIVERS[0]} to {group.RECEIVERS[-1]} receivers, beside unicast to each
({GROUP})."""
EXIT_TEXT = """exit status: 0 all that is possible here was measured; 1 a run failed; 2 wrong use,
or a program is not there. DIWARP_BUILD (build folder) may be set in the environment."""


def size_list(text: str) -> list[int]:
    sizes = set()
    for word in text.split(","):
        digits, unit = (word[:-1], UNITS[word[-1]]) if word[-1:] in UNITS else (word, 1)
        if not digits.isdecimal() or not 1 <= int(digits) * unit <= BYTES_MAX:
            raise argparse.ArgumentTypeError(f"'{word}' is no size from 1 to 4M")
        sizes.add(int(digits) * unit)
    if len(sizes) > SIZES_MAX:
        raise argparse.ArgumentTypeError(f"more than {SIZES_MAX} sizes")
    return sorted(sizes)


def loss_list(text: str) -> list[float]:
    losses = set()
    for word in text.split(","):
        try:
            value = float(word)
        except ValueError:
            value = -1.0
        # Of 100000 packets a whole number.
        if not 0 <= value <= 100 or round(value * 1000) != value * 1000:
            raise argparse.ArgumentTypeError(f"'{word}' is no loss from 0 to 100 %")
        losses.add(value)
    return sorted(losses)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.001 <= value <= 60:
        raise argparse.ArgumentTypeError(f"'{text}' is no time from 0.001 to 60 s")
    return value


def parse_options(words: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser(prog="verbs", description=ABOUT, epilog=EXIT_TEXT,
                                allow_abbrev=False)
    p.add_argument("--quick", action="store_true",
                   help=f"{QUICK_ROUNDS} round of {QUICK_SECONDS} s, few sizes and losses, unless "
                   "these are given: everything once, no figure worth much")
    p.add_argument("--rounds", type=positive, metavar="N", help=f"interleaved (default {ROUNDS})")
    p.add_argument("--seconds", type=seconds, metavar="S", help=f"of a measure (default {SECONDS})")
    p.add_argument("--sizes", type=size_list, metavar="N,...",
                   help=f"bytes, or with K, M (default powers of 4 from 1 to 4M; of {GROUP} "
                   "1K,4K,64K)")
    p.add_argument("--loss", type=loss_list, metavar="PERCENT,...",
                   help=f"default {','.join(f'{loss:g}' for loss in LOSSES)}")
    p.add_argument("--only", type=names_of(GROUPS), metavar="GROUP,...", default=list(GROUPS),
                   help=f"of {', '.join(GROUPS)} (default all)")
    p.add_argument("--bindir", type=folder, metavar="DIR",
                   help="folder of the programs (default: the build folder)")
    p.add_argument("--readme", action="store_true",
                   help="renew the part of verbs in benchmarks/RESULTS.md")
    p.add_argument("--csv", metavar="DIR",
                   help="where CSV files and plots go (default: verbs-results/ in the build "
                   "folder, or here)")
    options = p.parse_args(words)
    quick = options.quick
    if options.readme and (quick or options.sizes or options.loss is not None or
                           options.only != list(GROUPS)):
        p.error("--readme wants all of it: no --quick, --sizes, --loss or --only")
    options.rounds = options.rounds or (QUICK_ROUNDS if quick else ROUNDS)
    options.seconds = options.seconds or (QUICK_SECONDS if quick else SECONDS)
    options.group_sizes = options.sizes or group.SIZES
    options.sizes = options.sizes or (QUICK_SIZES if quick else SIZES)
    options.loss = options.loss if options.loss is not None else (QUICK_LOSSES if quick
                                                                  else LOSSES)
    return options


def plain_network(stack: contextlib.ExitStack) -> Pair | Loopback:
    try:
        return stack.enter_context(Pair())
    except NoHosts as error:
        print(f"on this host's loopback, for {error}")
        return stack.enter_context(Loopback())


def lossy_network(stack: contextlib.ExitStack) -> tuple[Routed | None, str]:
    """(network, why there is none)"""
    try:
        return stack.enter_context(Routed()), ""
    except NoHosts as error:
        return None, f"packets cannot be lost here: {error}"


def remove_all_older(path: str) -> None:
    remove_older(path, (*CSV_FILES, *GROUP_CSV_FILES))
    pictures = os.path.join(path, "plots")
    if os.path.isdir(pictures):
        remove_older(pictures, filter(plots.is_ours, os.listdir(pictures)))


def tell_written(path: str, files: Iterable[str], drawn: list[str], why: str) -> None:
    if why:
        print(f"no plot: {why}")
    print(", ".join([f"written: {path}: {', '.join(files)}", *map(os.path.basename, drawn)]))


def write_files(report: Report, where: str, path: str) -> None:
    remove_all_older(path)
    report.write_csv(path)
    tell_written(path, CSV_FILES, *plots.draw(report, where, os.path.join(path, "plots")))


def group_part(options: argparse.Namespace, stack: contextlib.ExitStack,
               program: str) -> tuple[group.GroupSession, GroupReport]:
    receivers = group.QUICK_RECEIVERS if options.quick else group.RECEIVERS
    plan = group.Plan(options.group_sizes, receivers, options.rounds, options.seconds, program)
    bridge, why = None, ""
    try:
        bridge = stack.enter_context(Bridge(max(receivers)))
    except NoHosts as error:
        why = f"there is no bridge here: {error}"
    session = group.GroupSession(plan, bridge, why)
    return session, GroupReport(session)


def write_group_files(report: GroupReport, path: str, alone: bool) -> None:
    if alone:
        remove_all_older(path)
    report.write_csv(path)
    tell_written(path, GROUP_CSV_FILES, *report.draw(os.path.join(path, "plots")))


def measure_groups(options: argparse.Namespace, program: str, path: str) -> tuple[bool, str]:
    """(False: a run failed, the tables)"""
    with contextlib.ExitStack() as stack:
        session, report = group_part(options, stack, program)
        if session.bridge:
            print(f"groups; {session.bridge.title}", flush=True)
        alone = options.only == [GROUP]
        with kept_when_stopped(session.results, lambda: write_group_files(report, path, alone)):
            session.run_rounds()
            print(f"\n{report.text()}\n")
    return not session.failures, report.text()


def measure_series(options: argparse.Namespace, programs: dict[str, str],
                   path: str) -> tuple[bool, str]:
    """(False: a run failed, the tables)"""
    chosen = [s for s in SERIES if s.group in options.only]
    with contextlib.ExitStack() as stack:
        plain, routed, no_loss = None, None, ""
        if any(s.group != LOSS for s in chosen):
            plain = plain_network(stack)
        if LOSS in options.only:
            routed, no_loss = lossy_network(stack)
        run = [s for s in chosen if not s.lack and (s.group != LOSS or routed)]
        session = Session(Plan(run, options.sizes, options.loss, options.rounds, options.seconds,
                               programs), plain, routed)
        for series in chosen:
            why = series.lack or (no_loss if series.group == LOSS else "")
            if why:
                session.lack(series, options.loss if series.group == LOSS else [None], why)
        where = plain.title if plain else ""
        places = list(filter(None, [where, f"with loss {routed.title}" if routed else ""]))
        print("; ".join(places), flush=True)
        report = Report(session.results, session.lacks, chosen, options.sizes, options.loss)
        with kept_when_stopped(session.results, lambda: write_files(report, where, path)):
            session.run_rounds()
            print(f"\n{report.text()}\n")
    return not session.failures, f"{'; '.join(places)}\n\n{report.text()}"


def measure(options: argparse.Namespace, made: str) -> int:
    """`made` says by what command, and of what."""
    try:
        programs = find_programs(options.bindir, build_folder())
    except FileNotFoundError as missing:
        die(f"program {missing} not found; build first, or give --bindir DIR")
    if options.readme:
        marked.check(MARKS, RESULTS)
    path = output_folder(options.csv, "verbs-results")
    about = (f"{len(cores.allowed())} cores; {options.rounds} rounds of {options.seconds:g} s a "
             "measure. Of tables: medians of the rounds; in brackets (high - low) / median. "
             "MB = 10^6 bytes.")
    print(f"verbs; {about}", flush=True)
    parts = []
    if options.only != [GROUP]:
        parts.append(measure_series(options, programs, path))
    if GROUP in options.only:
        parts.append(measure_groups(options, programs["verbs_group"], path))
    good = all(good for good, _ in parts)
    if options.readme and not good:
        print("not written: some of it is missing")
    elif options.readme:
        texts = "\n\n".join(text for _, text in parts)
        marked.write(RESULTS, f"{made}: {about}\n\n```text\n{texts}\n```\n", MARKS)
        print("written: benchmarks/RESULTS.md")
    return int(not good)


def main(words: list[str]) -> int:
    options = parse_options(words)
    made = made_by("benchmarks/verbs", words)
    return run_to_the_end(lambda: measure(options, made))
