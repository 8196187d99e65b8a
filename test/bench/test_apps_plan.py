# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of benchmarks/apps: what it is asked for, plans and starts, and its rounds with
programs that only pretend. Nothing is timed."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

from apps_fixture import CG, NPB_TEXT, SMG_LINE, SMG_TEXT, TOP, Folder, time_line

from apps_lib import agreement, cases, cli, figures, programs, readings, report, session, transports
from apps_lib import verify
from apps_lib.cases import Case
from apps_lib.programs import APPLICATIONS, Programs
from apps_lib.results import Results
from apps_lib.transports import RC, RC_SRQ, RD, RD_LOSS
from compare_lib.transports import TCP, Launcher


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
        of_memory = cases.memory_cases(cases.QUICK, ["cg", "radix"], ["W"], [64])
        self.assertEqual(list(of_memory), [Case("radix", "W", 64, cases.MEMORY)])

    def test_rounds_that_are_asked_for(self):
        effort = cli.effort_of(cli.parse_options(["--full", "--rounds", "9"]))
        self.assertEqual({run[2] for run in effort.runs}, {9})
        self.assertEqual(effort.memory_rounds, 3)

    def test_turns(self):
        case = Case("mg", "A", 4)
        self.assertEqual([cases.turns(case, seconds, 5) for seconds in (0, 0.1, 4, 5, 8.1, 300)],
                         [1, 5, 4, 3, 1, 1])
        self.assertEqual(cases.turns(case, 0.1, cases.QUICK.turns_most), 1)
        self.assertEqual(cases.turns(Case("radix", "W", 4, cases.MEMORY), 0.1, 5), 1)

    def test_matrix_of_verify(self):
        small = cases.verify_cases(False, ["cg", "lu"], None, None)
        self.assertEqual(len(small), 2 * 2 * 5)
        whole = cases.verify_cases(True, ["cg"], None, None)
        self.assertEqual([(c.class_, c.ranks) for c in whole[10:]],
                         [("A", 2), ("A", 4), ("B", 2), ("B", 4)])

    def test_longer_with_more_ranks(self):
        self.assertEqual(Case("cg", "S", 64).seconds, 4 * Case("cg", "S", 2).seconds)


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
        for name, words in ((RD, "--mca btl_diwarp_transport rd"),
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

    def runner(self, more="", text=NPB_TEXT, seconds=0.0, name="npb_cg"):
        self.program(name, FAKE_PROGRAM.format(time=time_line(0, 0.5), more=more, text=text))
        launcher = Launcher(self.program("mpirun", FAKE_MPIRUN), "", 2)
        return session.Runner(launcher, Programs((self.folder,)), session.Tools("/t/mpi_time.so"),
                              seconds)

    def smg_runner(self, condition, old, new, text=SMG_TEXT):
        """Of an SMG2000 that prints `new` for `old` in runs of the condition."""
        assert old in text
        changed = text.replace(old, new)
        more = f"echo >>{self.folder}/runs\nruns=$(wc -l <{self.folder}/runs)\n" \
            f"if {condition}; then cat <<'END'\n{changed}\nEND\nexit\nfi"
        return self.runner(more, text, name="smg2000")

    def run_session(self, runner, rounds=2, case=Case("cg", "S", 4), turns_most=1):
        results = Results()
        one = session.Session(runner, cases.Plan({case: rounds}), [RD, TCP], results, rounds, 0,
                              turns_most)
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
            self.assertIn(why, report.failures(results.failed))
            self.assertIn(report.FAILED, report.tables(results))

    def test_short_runs_have_turns_from_the_second_round_on(self):
        results, shown, case = self.run_session(self.runner(), turns_most=3)
        self.assertEqual(list(results.rounds_of(figures.Figure("seconds", case), RD)),
                         [(1, 1), (2, 1), (2, 2), (2, 3)])
        self.assertEqual([line.split(": ")[-1].split(" ... ")[0] for line in shown.splitlines()],
                         ["RD", "tcp BTL", "tcp BTL", "RD", "RD", "tcp BTL", "tcp BTL", "RD"])
        self.assertIn("round 2/2 3/6 CG S, 4 ranks, turn 2: RD", shown)
        results.write_rounds(os.path.join(self.folder, "rounds.csv"))
        self.assertEqual([(row["round"], row["turn"]) for row in self.rows("rounds.csv")
                          if (row["quantity"], row["transport"]) == ("seconds", TCP)],
                         [("1", "1"), ("2", "1"), ("2", "2"), ("2", "3")])

    def test_what_failed_has_no_further_turn(self):
        """The sixth run is tcp's in the second turn of round 2."""
        more = f"echo >>{self.folder}/runs\n[ $(wc -l <{self.folder}/runs) -ne 6 ] || exit 3"
        results, shown, case = self.run_session(self.runner(more), turns_most=3)
        self.assertEqual(list(results.failed), [(case, TCP)])
        self.assertEqual(shown.count("FAILED"), 1)
        self.assertEqual(list(results.rounds_of(figures.Figure("seconds", case), RD)),
                         [(1, 1), (2, 1), (2, 2), (2, 3)])

    def test_a_failed_transport_does_not_take_the_others_turns(self):
        case, results = Case("cg", "S", 4), Results()
        one = session.Session(self.runner(), cases.Plan({case: 2}), [RD, TCP], results, 2, 0, 5)
        one.durations = {session.Task(case, RD): 1.0, session.Task(case, TCP): 240.0}
        self.assertEqual(len(one.tasks(2)), 2)
        results.failed[case, TCP] = "no end after 240 s"
        self.assertEqual([(task.transport, task.turn) for task in one.tasks(2)],
                         [(RD, turn) for turn in range(1, 6)])

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
        for runners, status, why in (
                ({RD: self.runner()}, 0, ""), ({}, 2, "nothing was run"),
                ({RD_LOSS: self.runner()}, 1, "nothing was dropped of 0 datagrams")):
            one = verify.Verification(runners, matrix)
            with contextlib.redirect_stdout(io.StringIO()):
                one.run_rounds()
            self.assertEqual(one.exit_status(), status)
            self.assertIn(why, one.reasons())


    def check_other_result(self, runner, transport, why):
        """It has failed, alone, and no ratio is taken of what it gave before."""
        results, shown, case = self.run_session(runner, 3, Case("smg2000", "S", 4))
        self.assertEqual(list(results.failed), [(case, transport)])
        self.assertIn(why, results.failed[case, transport])
        self.assertEqual(shown.count("FAILED"), 1)
        self.assertIsNone(results.rd_over("seconds", case, TCP))
        results.write_summary(self.folder)
        for row in self.rows("summary.csv"):
            if row["transport"] == RD:
                self.assertEqual(row["ratio_to_tcp"], "")
        results.write_failures(self.folder)
        self.assertEqual([(row["transport"], why in row["why"])
                          for row in self.rows("failures.csv")], [(transport, True)])

    def test_other_result_over_another_transport(self):
        self.check_other_result(
            self.smg_runner('[ "$OVER" = tcp ]', "Iterations = 5", "Iterations = 6"), TCP,
            "other result than over RD: 6 iterations, residual 1.5e-07 instead of 5 iterations, "
            "residual 1.5e-07")

    def test_other_result_in_another_round(self):
        """In the last of the digits that ours prints; the fifth run is rd's in round 3."""
        self.check_other_result(
            self.smg_runner("[ $runs -eq 5 ]", "99e-07", "98e-07", SMG_TEXT + SMG_LINE), RD,
            "residual 1.4999999999999998e-07 instead of 5 iterations, residual 1.49")

    def test_result_of_a_failed_run_is_not_the_first(self):
        runner = self.smg_runner("[ $runs -eq 1 ]", "1.5e-07", "1.5e-05")
        results, _, case = self.run_session(runner, 2, Case("smg2000", "S", 4))
        self.assertEqual(list(results.failed), [(case, RD)])
        self.assertIn("not converged", results.failed[case, RD])

    def test_same_problem_in_a_run_for_memory(self):
        first = agreement.FirstResults()
        first.check(Case("smg2000", "S", 4), RD, "5")
        first.check(Case("smg2000", "S", 8), RD, "6")
        first.check(Case("cg", "S", 4), RD, "")
        first.check(Case("cg", "S", 4), TCP, "")
        with self.assertRaisesRegex(readings.Unusable, "other result than over RD: 7 instead of 5"):
            first.check(Case("smg2000", "S", 4, cases.MEMORY), RC, "7")

    def test_verify_compares_the_transports(self):
        runners = {name: self.smg_runner("[ $runs -eq 2 ]", "1.5e-07", "1.6e-07")
                   for name in (RD, RC)}
        one = verify.Verification(runners, [Case("smg2000", "S", 4)])
        with contextlib.redirect_stdout(io.StringIO()):
            one.run_rounds()
        self.assertEqual(one.matrix().splitlines()[1].split()[3:], ["ok", "FAILED"])
        self.assertEqual(one.exit_status(), 1)
        self.assertIn("SMG2000 S, 4 ranks over RC: other result than over RD", one.reasons())

    def verify_loss(self, datagrams, dropped_by_ranks):
        """Over rd and with loss: on the ranks of the dict, each job with so many dropped."""
        dropped = "\n".join(f"[ $RANKS -ne {ranks} ] || dropped={count}"
                            for ranks, count in dropped_by_ranks.items())
        runner = self.runner(f"{dropped}\necho \"diwarp faults: port 1 seed 1: {datagrams} "
                             'datagrams, $dropped dropped, 0 duplicated" >&2',
                             NPB_TEXT.replace("Total processes", "Processes"))
        matrix = [Case("cg", "S", ranks) for ranks in dropped_by_ranks]
        one = verify.Verification({RD: runner, RD_LOSS: runner}, matrix)
        with contextlib.redirect_stdout(io.StringIO()):
            one.run_rounds()
        return one, [line.split(None, 4)[3:] for line in one.matrix().splitlines()[1:]]

    def test_each_cell_must_lose_something(self):
        one, cells = self.verify_loss(9000, {2: 7, 4: 0})
        self.assertEqual(cells, [["ok", "ok"], ["ok", "FAILED"]])
        self.assertEqual(one.exit_status(), 1)
        self.assertEqual(one.reasons(), "FAILED: CG S, 4 ranks over RD, 1 % lost: nothing was "
                         "dropped of 9000 datagrams")

    def test_few_datagrams_may_all_arrive(self):
        """Of one run, but not of all of an application's."""
        one, cells = self.verify_loss(411, {2: 0, 4: 7})
        self.assertEqual(cells, [["ok", "ok, none lost"], ["ok", "ok"]])
        self.assertEqual((one.exit_status(), one.reasons()), (0, ""))
        one, cells = self.verify_loss(411, {2: 0, 4: 0})
        self.assertEqual(cells, [["ok", "FAILED"]] * 2)
        self.assertEqual(one.exit_status(), 1)
        self.assertIn("CG S, 2 ranks over RD, 1 % lost: nothing was dropped in any run of CG",
                      one.reasons())

    def test_one_rank_has_nothing_to_lose(self):
        one, cells = self.verify_loss(9000, {1: 0, 2: 7})
        self.assertEqual(cells, [["ok", "-"], ["ok", "ok"]])
        self.assertEqual(one.exit_status(), 0)
        one, _ = self.verify_loss(9000, {1: 0})
        self.assertEqual(one.summary(), "1 runs verified, 0 failed; 0 datagrams dropped")
        self.assertEqual(one.exit_status(), 0)


class CommandLine(unittest.TestCase):
    def test_wrong_use(self):
        for words in (["--apps", "ft"], ["--classes", "C"], ["--ranks", "0"], ["--ranks", "x"],
                      ["--transports", "rd-loss"], ["--rounds", "0"], ["--quick", "--full"],
                      ["--npb", "/no/such"], ["--smg2000", "/no/such"], ["--only", "all"],
                      ["--net", "--ranks", "1"], ["--verify", "--judge"],
                      ["--verify", "--transports", "tcp"], ["more"]):
            with self.assertRaises(SystemExit) as caught, \
                    contextlib.redirect_stderr(io.StringIO()):
                cli.parse_options(words)
            self.assertEqual(caught.exception.code, 2, words)

    def test_verify_over_some_transports(self):
        for words in ("rd-loss", "rc,rc-srq"):
            options = cli.parse_options(["--verify", "--transports", words])
            self.assertEqual(options.transports, words.split(","))

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
