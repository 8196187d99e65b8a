# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of benchmarks/apps: what it reads, computes, judges and writes, and its rounds with
programs that only pretend. Nothing is timed."""

import contextlib
import csv
import io
import os
import stat
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "benchmarks"))

from apps_lib import cases, cli, figures, judge, markdown, plots, programs, readings, report
from apps_lib import session, transports, verify
from apps_lib.cases import Case
from apps_lib.programs import APPLICATIONS, Programs
from apps_lib.results import Results
from apps_lib.transports import RC, RC_SRQ, RD, RD_LOSS
from compare_lib import jobs
from compare_lib.judge import MET, MISSED, NOT_JUDGED
from compare_lib.transports import TCP, Launcher

CG, LU = Case("cg", "A", 4), Case("lu", "A", 4)

NPB_TEXT = """

 NAS Parallel Benchmarks 3.4 -- CG Benchmark

 Size:       1400  (class S)
   Number of active processes:     4

 CG Benchmark Completed.
 Class           =                        S
 Size            =                     1400
 Iterations      =                       15
 Time in seconds =                     0.05
 Total processes =                        4
 Active processes=                        4
 Mop/s total     =                  1333.72
 Mop/s/process   =                   333.43
 Operation type  =           floating point
 Verification    =               SUCCESSFUL
 Version         =                    3.4.2
"""

# Of the original, which has a phase more than ours.
SMG_TEXT = """Running with these driver parameters:
  (nx, ny, nz)    = (10, 10, 10)
  (Px, Py, Pz)    = (2, 2, 1)
=============================================
Struct Interface:
=============================================
Struct Interface:
  wall clock time = 9.000000 seconds
  cpu clock time  = 9.000000 seconds

=============================================
Setup phase times:
=============================================
SMG Setup:
  wall clock time = 0.250000 seconds
  cpu clock time  = 0.200000 seconds

=============================================
Solve phase times:
=============================================
SMG Solve:
  wall clock time = 0.500000 seconds
  cpu clock time  = 0.400000 seconds


Iterations = 5
Final Relative Residual Norm = 1.5e-07
"""


def time_line(rank, seconds, **more):
    pairs = {"rank": rank, "ranks": 4, "wall_seconds": 2.0, "mpi_seconds": seconds, "calls": 10,
             "sent_bytes": 4096, "init_seconds": 0.25, "threads": 1, **more}
    return "mpi_time: " + " ".join(f"{key}={value}" for key, value in pairs.items())


def memory_line(rank, private, point="finalize"):
    return (f"mpi_memory: rank={rank} ranks=4 point={point} private_bytes={private} pss_bytes=700 "
            "socket_queue_bytes=30 socket_slab_bytes=4 udp_sockets=1")


def results_of(case, quantity, **by_transport):
    """results_of(CG, "seconds", rd=[1, 2]): of rounds 1 and 2."""
    return add_results(Results(), case, quantity, **by_transport)


def add_results(results, case, quantity, **by_transport):
    for transport, values in by_transport.items():
        for i, value in enumerate(values):
            results.add(case, transport.replace("_", "-"), i + 1, {quantity: value})
    return results


class Npb(unittest.TestCase):
    def check_unusable(self, text, words):
        with self.assertRaises(readings.Unusable) as caught:
            readings.npb_outcome(text, "S", 4)
        self.assertIn(words, str(caught.exception))

    def test_fields(self):
        got = readings.npb_outcome(NPB_TEXT, "S", 4)
        self.assertEqual((got.seconds, got.mops), (0.05, 1333.72))

    def test_what_may_not_count(self):
        for old, new, words in (
                ("SUCCESSFUL", "UNSUCCESSFUL", "not verified: UNSUCCESSFUL"),
                ("SUCCESSFUL", "NOT PERFORMED", "not verified: NOT PERFORMED"),
                ("SUCCESSFUL", "", "not verified: nothing said"),
                (" Verification ", " Validation ", "no 'Verification'"),
                (" Time in seconds", " Time", "no 'Time in seconds'"),
                ("0.05", "NaN", "'NaN' is no time"),
                ("0.05", "-1", "'-1' is no time"),
                ("0.05", "fast", "'fast' is no time"),
                ("=                        4\n Active", "=  1\n Active", "ran with 1 processes"),
                ("=                        S", "=  W", "ran class W")):
            self.assertIn(old, NPB_TEXT)
            self.check_unusable(NPB_TEXT.replace(old, new), words)

    def test_singletons_are_not_one_job(self):
        self.check_unusable(NPB_TEXT + NPB_TEXT, "more than once")

    def test_nothing(self):
        self.check_unusable("", "no 'Time in seconds'")


class Smg(unittest.TestCase):
    def check_unusable(self, text, words):
        with self.assertRaises(readings.Unusable) as caught:
            readings.smg_outcome(text, 4)
        self.assertIn(words, str(caught.exception))

    def test_setup_and_solution(self):
        self.assertEqual(readings.smg_outcome(SMG_TEXT, 4), readings.Outcome(0.75))

    def test_what_may_not_count(self):
        for old, new, words in (("1.5e-07", "1.5e-05", "not converged: residual 1.5e-05"),
                                ("1.5e-07", "nan", "'nan' is no residual"),
                                ("Final Relative", "Relative", "no residual"),
                                ("SMG Solve", "SMG Rest", "one set-up and one solution"),
                                ("(2, 2, 1)", "(2, 1, 1)", "ran with 2 processes")):
            self.assertIn(old, SMG_TEXT)
            self.check_unusable(SMG_TEXT.replace(old, new), words)
        self.check_unusable(SMG_TEXT + SMG_TEXT, "one set-up and one solution")


class Tools(unittest.TestCase):
    def test_times_are_means_of_the_ranks(self):
        text = "\n".join(["noise", *(time_line(r, r) for r in range(4))])
        got = session.time_figures(text, Case("cg", "S", 4))
        self.assertEqual(got, {"mpi_seconds": 1.5, "mpi_share": 0.75, "calls": 10.0,
                               "sent_bytes": 4096.0, "init_seconds": 0.25})

    def test_lines_of_calls_are_others(self):
        text = "mpi_time_call: rank=0 call=MPI_Send calls=10 seconds=0.012345"
        self.assertEqual(readings.rank_lines(text, "mpi_time"), [])

    def test_every_rank_reports_once(self):
        for ranks in ((0, 1, 2), (0, 1, 2, 2), (0, 1, 2, 3, 3), (1, 2, 3, 4), ()):
            with self.assertRaises(readings.Unusable):
                readings.times("\n".join(time_line(r, 1) for r in ranks), 4)

    def test_a_key_is_missing(self):
        text = "\n".join(time_line(r, 1).replace("sent_bytes", "bytes") for r in range(4))
        with self.assertRaisesRegex(readings.Unusable, "did not report sent_bytes"):
            readings.times(text, 4)

    def test_memory_is_private_and_of_sockets(self):
        lines = [memory_line(r, 1000 * (r + 1)) for r in range(4)]
        lines += [memory_line(r, 5000, "peak") for r in range(4)]
        lines += [memory_line(r, 1, "init") for r in range(4)]
        got = session.memory_figures("\n".join(lines), Case("cg", "S", 4))
        self.assertEqual(got, {"memory_bytes": 2534, "private_bytes": 2500, "pss_bytes": 700,
                               "socket_bytes": 34})
        got = session.memory_figures("\n".join(lines), Case("cg", "S", 4, cases.MEMORY))
        self.assertEqual(got["memory_bytes"], 5034)

    def test_dropped(self):
        line = "diwarp faults: port 1 seed 1: 15427 datagrams, {} dropped, 0 duplicated\n"
        self.assertEqual(readings.dropped_datagrams(line.format(3) + "x\n" + line.format(4)), 7)
        self.assertEqual(readings.dropped_datagrams(""), 0)

    def test_options(self):
        tools = session.Tools("/t/mpi_time.so", "/t/mpi_memory.so")
        words = tools.options("/f", RD, False)
        self.assertEqual(words[:2], ["-x", "LD_PRELOAD=/t/mpi_time.so:/t/mpi_memory.so"])
        self.assertNotIn("DIWARP_MPI_MEMORY_PEAK_MS", " ".join(words))
        self.assertIn("DIWARP_MPI_MEMORY_PEAK_MS", " ".join(tools.options("/f", RD, True)))
        self.assertEqual(session.Tools().options("/f", RD, True), [])
        words = ["--mca", "btl_diwarp_memory_report", "1"]
        self.assertEqual(session.Tools(diwarp=True).options("/f", RC, False), words)
        self.assertEqual(session.Tools(diwarp=True).options("/f", TCP, False), [])

    def test_diwarp_tells_what_it_ran_over(self):
        text = "\n".join(f"[vm:0755{r}] diwarp_memory: rank={r} transport=rc total_bytes=7 "
                         f"transport_bytes={r}" for r in range(4))
        self.assertEqual(readings.diwarp_memory(text, 4, RC)["transport_bytes"], 1.5)
        for words, transport, why in (("", RD, "it ran over rc"),
                                      (" transport_bytes", RC, "report"),
                                      (" transport=rc", RC, "nothing named")):
            with self.assertRaisesRegex(readings.Unusable, why):
                readings.diwarp_memory(text.replace(words, " x=1", 4 if words else 0), 4,
                                       transport)


class Ratios(unittest.TestCase):
    def test_saving_is_taken_within_a_round(self):
        results = results_of(CG, "mpi_seconds", rd=[1, 20, 3], rc=[2, 40, 6], tcp=[1, 10])
        self.assertEqual(report.saving_text(results, "mpi_seconds", CG, RC), "+50 %")
        saved = report.saving(results.rd_over("mpi_seconds", CG, TCP))
        self.assertEqual((saved.median, saved.low, saved.high), (-50, -100, 0))
        self.assertIsNone(results.rd_over("mpi_seconds", CG, RC_SRQ))

    def test_a_failure_leaves_no_ratio(self):
        results = results_of(CG, "mpi_seconds", rd=[1, 2], rc=[2])
        results.failed[CG, RC] = "not verified"
        self.assertIsNone(results.rd_over("mpi_seconds", CG, RC))
        self.assertEqual(report.value_text(results, "mpi_seconds", CG, RC), report.FAILED)
        self.assertEqual(report.saving_text(results, "mpi_seconds", CG, RC), report.NOTHING)


class Judge(unittest.TestCase):
    def verdicts(self, results, applications=("cg", "lu", "radix", "smg2000")):
        return {v.target.title: v for v in judge.judge(results, list(applications))}

    def test_better_means_below_one(self):
        title = "CG A, 4 ranks: communication time RD ÷ RC"
        for rd, word in ((0.9, MET), (1.0, MISSED), (1.1, MISSED)):
            v = self.verdicts(results_of(CG, "mpi_seconds", rd=[rd], rc=[1.0]))[title]
            self.assertEqual(v.verdict, word)
        title = "CG A, 4 ranks: communication time RD ÷ tcp BTL"
        v = self.verdicts(results_of(CG, "mpi_seconds", rd=[1.0], tcp=[1.0]))[title]
        self.assertEqual(v.verdict, MET)

    def test_median_application(self):
        """CG's own median is 0.7; the others' 0.6 and 0.9."""
        results = Results()
        for case, value in ((Case("cg", "W", 4), 0.5), (CG, 0.9), (LU, 0.6),
                            (Case("mg", "A", 4), 0.9)):
            add_results(results, case, "mpi_seconds", rd=[value], rc=[1])
        v = self.verdicts(results)["median of 3 applications, 4 ranks or more: "
                                   "communication time RD ÷ RC"]
        self.assertEqual((v.value.median, v.value.low, v.value.high), (0.7, 0.6, 0.9))
        self.assertEqual(v.verdict, MET)

    def test_what_does_not_count_by_time(self):
        for case in (Case("cg", "S", 4), Case("cg", "A", 2), Case("cg", "A", 64, cases.MEMORY)):
            self.assertFalse(case.judged_by_time, case)
            results = results_of(case, "mpi_seconds", rd=[1], rc=[2])
            self.assertTrue(all(v.verdict == NOT_JUDGED for v in self.verdicts(results).values()))
        self.assertTrue(CG.judged_by_time)

    def test_memory_at_64_ranks(self):
        title = "SMG2000, 64 ranks: memory of a process RD ÷ RC"
        for ranks, rd, word in ((64, 69, MET), (64, 71, MISSED), (32, 10, NOT_JUDGED)):
            case = Case("smg2000", "W", ranks, cases.MEMORY)
            v = self.verdicts(results_of(case, "memory_bytes", rd=[rd], rc=[100]))[title]
            self.assertEqual(v.verdict, word)
        self.assertEqual(list(self.verdicts(Results(), ["cg"])),
                         [f"median of 0 applications, 4 ranks or more: communication time RD ÷ {t}"
                          for t in ("RC", "tcp BTL")])

    def test_a_failure_of_rd_is_a_miss_and_of_another_is_not(self):
        title = "CG A, 4 ranks: communication time RD ÷ RC"
        results = results_of(CG, "mpi_seconds", rc=[1])
        results.failed[CG, RD] = "not verified: UNSUCCESSFUL"
        v = self.verdicts(results)[title]
        self.assertEqual((v.verdict, v.why), (MISSED, "rd: not verified: UNSUCCESSFUL"))
        results = results_of(CG, "mpi_seconds", rd=[1])
        results.failed[CG, RC] = "no end after 9 s"
        v = self.verdicts(results)[title]
        self.assertEqual((v.verdict, v.why), (NOT_JUDGED, "the run over rc failed"))
        results = results_of(CG, "mpi_seconds", rd=[1])
        results.absent[RC] = "no parameter"
        self.assertEqual(self.verdicts(results)[title].why, "no rc: no parameter")


class Plans(unittest.TestCase):
    def test_modes(self):
        for effort in (cases.QUICK, cases.NORMAL, cases.FULL):
            whole = cases.plan(effort, list(APPLICATIONS), None, None)
            first = whole.of_round(1)
            self.assertEqual({c.application for c in first}, set(APPLICATIONS))
            self.assertTrue(any(c.judged_by_time for c in first))
            self.assertEqual({c.application for c in first if c.purpose == cases.MEMORY},
                             set(cases.MEMORY_APPLICATIONS))
            self.assertEqual(whole.of_round(effort.rounds + 1), [])
        for effort in (cases.NORMAL, cases.FULL):
            self.assertIn(cases.MEMORY_RANKS, effort.memory_ranks)

    def test_what_is_asked_for_replaces(self):
        whole = cases.plan(cases.QUICK, ["cg"], ["A"], [2, 8])
        self.assertEqual(whole.rounds_of, {Case("cg", "A", 2): 3, Case("cg", "A", 8): 3})
        whole = cases.plan(cases.QUICK, ["cg", "radix"], ["A"], None, memory=False)
        self.assertEqual(list(whole.rounds_of), [Case("cg", "A", 4), Case("radix", "A", 4)])

    def test_rounds_that_are_asked_for(self):
        effort = cli.effort_of(cli.parse_options(["--full", "--rounds", "9"]))
        self.assertEqual({run[2] for run in effort.runs}, {9})
        self.assertEqual(effort.memory_rounds, 3)

    def test_matrix_of_verify(self):
        small = cases.verify_cases(False, ["cg", "lu"], None, None)
        self.assertEqual(len(small), 2 * 2 * 5)
        whole = cases.verify_cases(True, ["cg"], None, None)
        self.assertEqual([(c.class_, c.ranks) for c in whole[10:]],
                         [("A", 2), ("A", 4), ("B", 2), ("B", 4)])

    def test_longer_with_more_ranks(self):
        self.assertEqual(Case("cg", "S", 64).seconds, 4 * Case("cg", "S", 2).seconds)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def program(self, name, text="#!/bin/sh\n"):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, stat.S_IRWXU)
        return path

    def rows(self, name):
        with open(os.path.join(self.folder, name), newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


class Commands(Folder):
    def test_process_grid(self):
        for ranks, grid in ((1, [1, 1, 1]), (2, [2, 1, 1]), (4, [2, 2, 1]), (12, [3, 2, 2]),
                            (64, [4, 4, 4]), (128, [8, 4, 4])):
            self.assertEqual(programs.process_grid(ranks), grid)

    def test_ours(self):
        found = Programs((os.path.join(self.folder, "none"), self.folder))
        self.assertIsNone(found.command(APPLICATIONS["cg"], "S", 4))
        self.assertEqual(found.lack(APPLICATIONS["cg"], "S", 4), "npb_cg is not built")
        path = self.program("npb_cg")
        self.assertEqual(found.command(APPLICATIONS["cg"], "S", 4), [path, "S"])
        path = self.program("smg2000")
        self.assertEqual(found.command(APPLICATIONS["smg2000"], "W", 4),
                         [path, "-n", "20", "20", "20", "-P", "2", "2", "1"])

    def test_those_of_the_user(self):
        self.program("npb_cg")
        radix = self.program("radix")
        found = Programs((self.folder,), npb=self.folder, smg2000="/no/smg2000")
        app = APPLICATIONS["cg"]
        self.assertIsNone(found.command(app, "A", 4))
        self.assertEqual(found.lack(app, "A", 4), f"no cg.A.x or cg.A.4 in {self.folder}")
        old = self.program("bin/cg.A.4")
        self.assertEqual(found.command(app, "A", 4), [old])
        self.assertIsNone(found.command(app, "A", 8))
        new = self.program("cg.A.x")
        self.assertEqual(found.command(app, "A", 4), [new])
        self.assertEqual(found.command(APPLICATIONS["radix"], "A", 4), [radix, "A"])
        self.assertEqual(found.lack(APPLICATIONS["smg2000"], "A", 4), "no program /no/smg2000")

    def test_transports(self):
        launcher = Launcher("mpirun", "/c/component", 2)
        for name, words in ((RD, "--mca btl diwarp,self"),
                            (RC, "--mca btl diwarp,self --mca btl_diwarp_transport rc"),
                            (RC_SRQ, "--mca btl_diwarp_transport rc-srq"),
                            (TCP, "--mca btl tcp,self --mca btl_tcp_if_include lo")):
            command = " ".join(launcher.command(transports.TRANSPORTS[name], 4, ["prog"])) + " "
            self.assertIn(f" {words} ", command)
            self.assertEqual("/c/component:SYSTEM_DEFAULT" in command, name != TCP)
        lossy = transports.with_faults(launcher)
        command = lossy.command(transports.TRANSPORTS[RD_LOSS], 4, ["prog"])
        self.assertIn("/c/component-fault:SYSTEM_DEFAULT", command)
        self.assertIn("DIWARP_FAULTS=drop=0.01,report", command)

    def test_without_the_parameter_there_is_no_rc(self):
        launcher = Launcher("/bin/false", "/c", 2)
        why = cli.transport_lack(RC, launcher, "/bin/true", {"btl:diwarp"}, set())
        self.assertIn("no parameter btl_diwarp_transport", why)
        why = cli.transport_lack(RD_LOSS, launcher, "/bin/true", {"btl:diwarp"}, set())
        self.assertIn("component-fault", why)


# Takes the options of a real one, exports what -x says, and runs the program once, with the number
# of ranks in RANKS.
FAKE_MPIRUN = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    -np) export RANKS=$2; shift 2 ;;
    -x) export "$2"; shift 2 ;;
    --mca) [ "$3" = tcp,self ] && export OVER=tcp; shift 3 ;;
    --bind-to) shift 2 ;;
    --oversubscribe) shift ;;
    *) break ;;
    esac
done
unset LD_PRELOAD
exec "$@"
"""

FAKE_PROGRAM = """#!/bin/sh
rank=0
while [ $rank -lt $RANKS ]; do
    to=$(echo "$DIWARP_MPI_TIME_OUTPUT" | sed "s/%r/$rank/")
    echo "{time}" | sed "s/rank=0/rank=$rank/" >"$to"
    rank=$((rank + 1))
done
{more}
cat <<'END'
{text}
END
"""


class Rounds(Folder):
    """A session with an mpirun and programs that pretend."""

    def runner(self, more="", text=NPB_TEXT, seconds=0.0):
        self.program("npb_cg", FAKE_PROGRAM.format(time=time_line(0, 0.5), more=more, text=text))
        launcher = Launcher(self.program("mpirun", FAKE_MPIRUN), "", 2)
        return session.Runner(launcher, Programs((self.folder,)), session.Tools("/t/mpi_time.so"),
                              seconds)

    def run_session(self, runner, rounds=2):
        results, case = Results(), Case("cg", "S", 4)
        one = session.Session(runner, cases.Plan({case: rounds}), [RD, TCP], results, rounds, 0)
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            one.run_rounds()
        return results, shown.getvalue(), case

    def test_figures_of_all_rounds(self):
        results, shown, case = self.run_session(self.runner())
        for name in (RD, TCP):
            self.assertEqual(results.of("seconds", case, name).count, 2)
            self.assertEqual(results.of("mpi_seconds", case, name).median, 0.5)
            self.assertEqual(results.of("mops", case, name).median, 1333.72)
        self.assertIn("round 2/2 1/2 CG S, 4 ranks: tcp BTL", shown)
        self.assertIn("communication time 0.500 s", shown)
        self.assertEqual(results.failed, {})

    def test_failures_count_and_are_not_repeated(self):
        for more, text, why in (
                ("exit 3", NPB_TEXT, "failed with status 3"),
                ("", NPB_TEXT.replace("SUCCESSFUL", "UNSUCCESSFUL"), "not verified: UNSUCCESSFUL"),
                ("rm \"$to\"", NPB_TEXT, "mpi_time.so reported of 3 ranks")):
            more = f'if [ "$OVER" = tcp ]; then {more or ":"}; fi'
            if not text == NPB_TEXT:
                more = 'if [ "$OVER" != tcp ]; then cat <<\'END\'\n' + NPB_TEXT + "\nEND\nexit\nfi"
            results, shown, case = self.run_session(self.runner(more, text))
            self.assertIn(why, results.failed[case, TCP])
            self.assertEqual(shown.count("FAILED"), 1)
            self.assertIsNone(results.of("seconds", case, TCP))
            self.assertEqual(results.of("seconds", case, RD).count, 2)
            self.assertIn(why, report.failures(results))
            self.assertIn(report.FAILED, report.tables(results))

    def test_time_limit(self):
        results, _, case = self.run_session(self.runner("sleep 60", seconds=0.5), rounds=1)
        self.assertIn("no end after 0.5 s", results.failed[case, RD])

    def test_verify(self):
        runner = self.runner('[ $RANKS -ne 2 ] || exit 1\necho "diwarp faults: port 1 seed 1: 9 '
                             'datagrams, 2 dropped" >&2')
        matrix = [Case("cg", "S", 2), Case("cg", "S", 4)]
        one = verify.Verification({RD: runner, RD_LOSS: runner}, matrix)
        with contextlib.redirect_stdout(io.StringIO()):
            one.run_rounds()
        lines = one.matrix().splitlines()
        self.assertEqual(lines[1].split(), ["CG", "S", "2", "FAILED", "FAILED"])
        self.assertEqual(lines[2].split(), ["CG", "S", "4", "ok", "ok"])
        self.assertEqual(one.summary(), "2 runs verified, 2 failed; 2 datagrams dropped")
        self.assertEqual(one.exit_status(), 1)

    def test_verify_needs_loss_and_something_to_do(self):
        matrix = [Case("cg", "S", 4)]
        for runners, status in (({RD: self.runner()}, 0), ({RD_LOSS: self.runner()}, 1), ({}, 2)):
            one = verify.Verification(runners, matrix)
            with contextlib.redirect_stdout(io.StringIO()):
                one.run_rounds()
            self.assertEqual(one.exit_status(), status)


class Files(Folder):
    def full_results(self):
        results = Results()
        for case, rd in ((CG, 1.0), (LU, 2.0)):
            for quantity in (figures.RUNTIME, figures.COMMUNICATION):
                add_results(results, case, quantity, rd=[rd, rd], rc=[2, 4], tcp=[4, 4])
            add_results(results, case, figures.MEMORY, rd=[1 << 20], rc=[4 << 20])
        for ranks in (4, 64):
            case = Case("smg2000", "W", ranks, cases.MEMORY)
            add_results(results, case, figures.MEMORY, rd=[8 << 20], rc=[ranks << 20])
        return results

    def test_csv(self):
        results = self.full_results()
        results.failed[CG, RC_SRQ] = "no end after 9 s"
        results.write_rounds(os.path.join(self.folder, "rounds.csv"))
        results.write_summary(self.folder)
        results.write_failures(self.folder)
        first = self.rows("rounds.csv")[0]
        self.assertEqual([first[k] for k in ("application", "class", "ranks", "purpose", "quantity",
                                             "unit", "transport", "round", "value")],
                         ["cg", "A", "4", "time", "seconds", "s", "rd", "1", "1"])
        by = {(r["application"], r["quantity"], r["transport"], r["ranks"]): r
              for r in self.rows("summary.csv")}
        self.assertEqual(by["cg", "seconds", "rd", "4"]["ratio_to_rc"], "0.3750")
        self.assertEqual(by["smg2000", "memory_bytes", "rc", "64"]["median"], "64")
        self.assertEqual(self.rows("failures.csv")[0]["why"], "no end after 9 s")

    def test_tables(self):
        text = report.tables(self.full_results())
        lines = [[word.strip() for word in line.split("  ") if word.strip()]
                 for line in text.splitlines()]
        cg = [line for line in lines if line[:1] == ["CG A, 4 ranks"]]
        self.assertEqual(cg[0], ["CG A, 4 ranks", "1.000 (0 %)", "3.000 (67 %)", "4.000 (0 %)",
                                 "+62 %", "+75 %"])
        self.assertEqual(cg[2], ["CG A, 4 ranks", "1.00", "4.00", "+75 %"])
        self.assertIn("SMG2000 W, 64 ranks", text)

    def test_markdown(self):
        results = self.full_results()
        verdicts = judge.judge(results, list(APPLICATIONS))
        text = markdown.document(results, verdicts, "about", ["p/apps-runtime.png"])
        self.assertIn("| SMG2000 W, 64 ranks | 8.00 | 64.00 | +88 % |", text)
        self.assertIn("![apps-runtime](p/apps-runtime.png)", text)
        self.assertIn("| CG A, 4 ranks: communication time RD ÷ RC | < 1 | 0.375 |", text)

    def test_charts(self):
        results = self.full_results()
        results.failed[LU, TCP] = "no"
        self.assertTrue(plots.write_savings(results, self.folder, "x", figures.RUNTIME, "title"))
        with open(os.path.join(self.folder, "x.dat"), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), [
                '"CG\\nA, 4 ranks" 62.50 50.00 75.00 75.00 75.00 75.00',
                '"LU\\nA, 4 ranks" 25.00 0.00 50.00 - - -'])
        with open(os.path.join(self.folder, "x.gp"), encoding="utf-8") as file:
            self.assertIn('title "against tcp BTL"', file.read())
        self.assertEqual(plots.write_memory(results, self.folder, "smg2000"), "apps-memory-smg2000")
        with open(os.path.join(self.folder, "apps-memory-smg2000.dat"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "4 8.000 4.000\n64 8.000 64.000\n")
        self.assertEqual(plots.write_memory(results, self.folder, "radix"), "")
        self.assertFalse(plots.write_savings(Results(), self.folder, "y", figures.RUNTIME, "t"))


class CommandLine(unittest.TestCase):
    def test_wrong_use(self):
        for words in (["--apps", "ft"], ["--classes", "C"], ["--ranks", "0"], ["--ranks", "x"],
                      ["--transports", "rd-loss"], ["--rounds", "0"], ["--quick", "--full"],
                      ["--npb", "/no/such"], ["--smg2000", "/no/such"], ["--only", "all"],
                      ["--net", "--ranks", "1"], ["--verify", "--judge"], ["more"]):
            with self.assertRaises(SystemExit) as caught, \
                    contextlib.redirect_stderr(io.StringIO()):
                cli.parse_options(words)
            self.assertEqual(caught.exception.code, 2, words)

    def test_wrong_lists_are_named(self):
        for words, text in ((["--ranks", "4,x"], "'x' is no number of ranks"),
                            (["--ranks", "4,0"], "'0' is no number of ranks"),
                            (["--ranks", ","], "no number of ranks in ','"),
                            (["--apps", ","], "no name in ','; there are cg,"),
                            (["--transports", ","], "no name in ','; there are rd,"),
                            (["--classes", ""], "no name in ''; there are S,"),
                            (["--rounds", "x"], "'x' is no number of 1 or more")):
            with self.assertRaises(SystemExit) as caught, \
                    contextlib.redirect_stderr(io.StringIO()) as said:
                cli.parse_options(words)
            self.assertEqual(caught.exception.code, 2, words)
            self.assertIn(text, said.getvalue())

    def test_what_was_asked_for_and_lacks(self):
        results = Results()
        results.absent[RC] = results.lacking[CG] = "why"
        for words, lacks in (([], False), (["--classes", "S"], False), (["--apps", "cg"], True),
                             (["--transports", "rd,rc"], True), (["--npb", "/"], True)):
            options = cli.parse_options(words)
            self.assertEqual(cli.asked_and_lacking(options, results), lacks, words)

    def test_help_from_any_folder(self):
        program = os.path.join(TOP, "benchmarks", "apps")
        done = subprocess.run([sys.executable, program, "--help"], cwd="/", text=True,
                              stdout=subprocess.PIPE, check=True)
        self.assertIn("--verify", done.stdout)

    def test_nothing_to_run(self):
        """No program anywhere: said, and status 2."""
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "DIWARP_BUILD": folder, "MPIRUN": "true"}
            program = os.path.join(TOP, "benchmarks", "apps")
            done = subprocess.run([sys.executable, program, "--output", folder], text=True,
                                  env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("npb_cg is not built", done.stdout)
        self.assertIn("nothing to run", done.stderr)


if __name__ == "__main__":
    unittest.main()
