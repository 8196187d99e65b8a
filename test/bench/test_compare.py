# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of benchmarks/compare: what it reads, runs, computes and judges. Nothing is timed."""

import contextlib
import io
import os
import subprocess
import sys
import time
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "benchmarks"))

from compare_lib import cli, command_line, cores, jobs, judge, markdown, measures, report
from compare_lib import session, stats, targets, transports
from compare_lib.figures import Figure, bytes_text, parse_line, parse_output
from compare_lib.results import Results
from compare_lib.transports import DIWARP, OFI_TCP, RAW_TCP, RAW_UDP, TCP, TCP_BBR, TCP_CUBIC
from compare_lib.transports import UCX

LATENCY = Figure("latency", 8)


def results_of(**by_transport) -> Results:
    """results_of(diwarp=[1, 2]): 8 B half round trips of rounds 1 and 2; tcp's are over CUBIC."""
    results = Results()
    for transport, values in by_transport.items():
        name = TCP_CUBIC if transport == TCP else transport.replace("_", "-")
        for i, value in enumerate(values):
            results.add("pt2pt", LATENCY, name, i + 1, value)
    return results


class Parse(unittest.TestCase):
    def check(self, line, *expected, scene=""):
        got = [(v.figure.quantity, v.figure.size, v.value) for v in parse_line(line, scene)]
        self.assertEqual(got, list(expected))

    def test_latency(self):
        self.check("latency bytes=8 pairs=1 us=2.231 min_us=2.1 p90_us=2.5 samples=101",
                   ("latency", 8, 2.231))

    def test_stream_gives_rate_and_cpu(self):
        self.check("stream bytes=1048576 window=64 pairs=1 direction=uni MBps=6640.5 max_MBps=7000 "
                   "p10_MBps=6000 cpu_s_per_GB=0.31 samples=9",
                   ("stream", 1048576, 6640.5), ("cpu", 1048576, 0.31))

    def test_both_directions_are_another_figure(self):
        self.check("stream bytes=4194304 direction=bi MBps=6760 cpu_s_per_GB=0.4",
                   ("stream_bi", 4194304, 6760.0), ("cpu_bi", 4194304, 0.4))

    def test_incast_is_sized_by_its_senders(self):
        self.check("incast senders=15 bytes=1048576 window=16 MBps=4139.5 jain=0.9992 "
                   "min_share=0.97",
                   ("incast", 15, 4139.5), ("jain", 15, 0.9992), ("min_share", 15, 0.97))

    def test_other_lines(self):
        self.check("rate bytes=8 window=64 Mmsgps=4.45", ("rate", 8, 4.45))
        self.check("put_latency bytes=8 us=5.1", ("put_latency", 8, 5.1))
        self.check("get_stream bytes=1048576 window=64 MBps=3000", ("get_stream", 1048576, 3000.0))
        self.check("alltoall bytes=4096 ranks=8 us=206.7 samples=5 batch=52",
                   ("alltoall", 4096, 206.7))
        self.check("overlap bytes=4194304 kind=sleep comm_us=582 comp_us=900 total_us=950 "
                   "hidden=0.87", ("hidden", 4194304, 0.87))

    def test_what_is_no_figure_is_ignored(self):
        for line in ("", "mpirun noticed that process rank 1", "latency", "latency of 8 bytes",
                     "latency bytes=8", "latency bytes=x us=1", "latency bytes=8 us=fast",
                     "stream protocol=udp mode=gso_gro unsupported=1", "unknown bytes=8 us=1"):
            self.check(line)

    def test_scene_and_protocol(self):
        text = "noise\nlatency protocol=udp bytes=8 us=1.6\nlatency protocol=tcp bytes=8 us=3.3\n"
        values = parse_output(text, "MTU 1500")
        self.assertEqual([(v.protocol, v.figure.scene) for v in values],
                         [("udp", "MTU 1500"), ("tcp", "MTU 1500")])

    def test_titles(self):
        self.assertEqual([bytes_text(n) for n in (1, 1000, 1024, 65536, 4 << 20)],
                         ["1 B", "1000 B", "1 KiB", "64 KiB", "4 MiB"])
        self.assertEqual(Figure("stream", 1 << 20, "MTU 1500").title_and_unit,
                         "1 MiB streaming, MTU 1500, MB/s")
        self.assertEqual(Figure("jain", 15).title_and_unit, "incast 15 → 1, Jain index")
        self.assertEqual([Figure("stream", 1).text(value) for value in (0.42, 10.4)],
                         ["0.42", "10"])


class Assign(unittest.TestCase):
    def raw(self, text):
        measure = measures.Measure("pt2pt", measures.RAW_PROGRAM, "", (1, 1), transports.RAW,
                                   stands_for=(1 << 20, 4 << 20))
        return session.assign(parse_output(text), session.Task(measure, RAW_UDP))

    def test_fastest_raw_mode_counts_with_its_own_cpu(self):
        got = self.raw("stream protocol=udp mode=gso_gro segment=1472 MBps=9000 cpu_s_per_GB=0.2\n"
                       "stream protocol=udp mode=large segment=65000 MBps=8000 cpu_s_per_GB=0.3\n"
                       "stream protocol=tcp mode=stream MBps=5000 cpu_s_per_GB=0.4\n")
        for size in (1 << 20, 4 << 20):
            self.assertEqual(got[Figure("stream", size), RAW_UDP].value, 9000)
            self.assertEqual(got[Figure("cpu", size), RAW_UDP].value, 0.2)
            self.assertEqual(got[Figure("stream", size), RAW_TCP].value, 5000)
        self.assertEqual(len(got), 8)

    def test_raw_streams_in_both_directions_have_figures_of_their_own(self):
        got = self.raw("stream protocol=udp mode=large segment=65000 MBps=9000 cpu_s_per_GB=0.2\n"
                       "stream protocol=udp mode=large direction=bi MBps=8000 cpu_s_per_GB=0.3\n")
        self.assertEqual([got[Figure(q, 4 << 20), RAW_UDP].value
                          for q in ("stream", "cpu", "stream_bi", "cpu_bi")],
                         [9000, 0.2, 8000, 0.3])

    def test_raw_latency_by_protocol(self):
        got = self.raw("latency protocol=udp bytes=8 us=1.6\nlatency protocol=tcp bytes=8 us=3.3\n")
        self.assertEqual({key: v.value for key, v in got.items()},
                         {(LATENCY, RAW_UDP): 1.6, (LATENCY, RAW_TCP): 3.3})

    def test_samples_are_the_first_figures(self):
        got = self.raw("each values=4,5.5\nstream protocol=udp mode=large MBps=5 cpu_s_per_GB=2\n"
                       "latency protocol=udp bytes=8 us=1\n")
        self.assertEqual(got[Figure("stream", 1 << 20), RAW_UDP].each, (4, 5.5))
        self.assertEqual(got[Figure("cpu", 1 << 20), RAW_UDP].each, ())
        self.assertEqual(got[LATENCY, RAW_UDP].each, ())
        for line in ("each", "each values=", "each values=x", "each 1,2", "each values=1 2"):
            self.assertEqual(self.raw(f"{line}\nlatency protocol=udp bytes=8 us=1")
                             [LATENCY, RAW_UDP].each, ())

    def test_fastest_raw_mode_of_several_seats(self):
        seats = [self.raw(f"stream protocol=udp mode={mode} MBps={rate} cpu_s_per_GB={cpu}")
                 for mode, rate, cpu in (("gso_gro", 8, 1), ("large", 9, 2), ("gso_gro", 7, 3))]
        got = session.merge(seats)
        self.assertEqual((got[Figure("stream", 1 << 20), RAW_UDP].value,
                          got[Figure("cpu", 1 << 20), RAW_UDP].value), (9, 2))


class Statistics(unittest.TestCase):
    def test_summary(self):
        s = stats.summarize({1: 3.0, 2: 1.0, 3: 2.0})
        self.assertEqual((s.median, s.low, s.high, s.count, s.spread), (2, 1, 3, 3, 1))
        self.assertEqual(stats.summarize({1: 1.0, 2: 2.0}).median, 1.5)
        self.assertIsNone(stats.summarize({}))
        self.assertEqual(stats.summarize({1: 0.0}).spread, 0)

    def test_of_samples_a_tenth_at_each_end_is_left_out(self):
        s = stats.summarize({(1, i): float(i) for i in range(20)})
        self.assertEqual((s.median, s.low, s.high, s.count), (9.5, 2, 17, 20))
        self.assertEqual(stats.summarize({i: float(i) for i in range(20)}).high, 19)

    def test_samples_in_turns_are_compared_one_by_one(self):
        results = Results()
        results.add_each("pt2pt", LATENCY, DIWARP, 1, (2.0, 30.0, 4.0))
        results.add_each("pt2pt", LATENCY, TCP_CUBIC, 1, (4.0, 40.0))
        ratio = results.ratio((LATENCY, DIWARP), (LATENCY, TCP))
        self.assertEqual((ratio.low, ratio.high, ratio.count), (0.5, 0.75, 2))

    def test_ratios_are_taken_within_a_round(self):
        """The ratio of the medians would be 1: a slow round hits both alike."""
        over, under = {1: 2.0, 2: 20.0, 3: 1.0}, {1: 1.0, 2: 10.0, 4: 5.0}
        self.assertEqual(stats.ratios(over, under), {1: 2.0, 2: 2.0})
        self.assertEqual(stats.ratios({1: 1.0}, {1: 0.0}), {})

    def test_results_ratio(self):
        results = results_of(diwarp=[2, 30, 2], tcp=[4, 40, 5])
        self.assertEqual(results.ratio((LATENCY, DIWARP), (LATENCY, TCP)).median, 0.5)
        self.assertIsNone(results.ratio((LATENCY, DIWARP), (LATENCY, UCX)))


class Judge(unittest.TestCase):
    def verdicts(self, results, groups=("pt2pt",)):
        return {v.target.title: v for v in judge.judge(results, groups)}

    def test_met_missed_and_aim(self):
        title = "8 B half round trip ÷ tcp BTL"
        for value, verdict, aim in ((6.0, judge.MET, True), (6.5, judge.MET, False),
                                    (6.6, judge.MISSED, False)):
            v = self.verdicts(results_of(diwarp=[value], tcp=[10]))[title]
            self.assertEqual((v.verdict, v.aim_reached), (verdict, aim))

    def test_margin_is_positive_inside_the_limit(self):
        at_most = targets.Target("pt2pt", LATENCY, TCP, targets.AT_MOST, 0.5)
        at_least = targets.Target("pt2pt", LATENCY, TCP, targets.AT_LEAST, 2)
        self.assertAlmostEqual(at_most.margin(0.4), 0.2)
        self.assertAlmostEqual(at_least.margin(1.5), -0.25)

    def test_what_could_not_run_is_not_judged_and_says_why(self):
        results = results_of(diwarp=[1], tcp=[2])
        results.absent[UCX] = "Open MPI has no pml/ucx"
        results.skipped["loss"] = "network namespaces need root"
        verdicts = self.verdicts(results, ("pt2pt", "loss"))
        v = verdicts["1 MiB streaming ÷ UCX tcp"]
        self.assertEqual((v.verdict, v.why), (judge.NOT_JUDGED, "no ucx: Open MPI has no pml/ucx"))
        v = verdicts["1 MiB streaming, MTU 1500 packet by packet, 1 % lost ÷ tcp BTL"]
        self.assertEqual((v.verdict, v.why), (judge.NOT_JUDGED, "network namespaces need root"))

    def test_a_failure_of_diwarp_is_a_miss_and_of_another_is_not(self):
        results = results_of(tcp=[2])
        results.failed.add(("pt2pt", DIWARP))
        self.assertEqual(self.verdicts(results)["8 B half round trip ÷ tcp BTL"].verdict,
                         judge.MISSED)
        results = results_of(diwarp=[2])
        results.failed.add(("pt2pt", TCP_BBR))
        v = self.verdicts(results)["8 B half round trip ÷ tcp BTL"]
        self.assertEqual((v.verdict, v.why), (judge.NOT_JUDGED, "the run over tcp failed"))

    def test_a_ratio_of_two_figures_of_diwarp(self):
        results = Results()
        results.add("incast", Figure("incast", 15), DIWARP, 1, 4000)
        results.add("incast", Figure("incast", 1), DIWARP, 1, 8000)
        results.add("incast", Figure("incast", 15, "8 KiB messages"), DIWARP, 1, 900)
        results.add("incast", Figure("incast", 1, "8 KiB messages"), DIWARP, 1, 1000)
        verdicts = self.verdicts(results, ("incast",))
        v = verdicts["incast 15 → 1 ÷ incast 1 → 1"]
        self.assertEqual((v.value.median, v.verdict), (0.5, judge.MISSED))
        v = verdicts["incast 15 → 1, 8 KiB messages ÷ incast 1 → 1, 8 KiB messages"]
        self.assertEqual((v.value.median, v.verdict), (0.9, judge.MET))

    def test_what_raw_udp_itself_misses_is_told(self):
        results = Results()
        stream = Figure("stream", 1 << 20)
        for transport, value in ((DIWARP, 7000), (TCP_BBR, 6000), (UCX, 4000), (RAW_UDP, 8000)):
            results.add("pt2pt", stream, transport, 1, value)
        verdicts = self.verdicts(results)
        tcp, ucx = verdicts["1 MiB streaming ÷ tcp BTL"], verdicts["1 MiB streaming ÷ UCX tcp"]
        self.assertEqual((tcp.verdict, tcp.beyond_raw), (judge.MISSED, True))
        self.assertEqual((ucx.verdict, ucx.raw.median, ucx.beyond_raw), (judge.MET, 2, False))
        self.assertIsNone(verdicts["1 MiB streaming ÷ raw UDP"].raw)
        text = report.verdict_table(list(verdicts.values()))
        self.assertIn("1 missed (1 that raw UDP, between hosts sealed, itself misses)", text)
        self.assertRegex(text, r"1 MiB streaming ÷ tcp BTL +1.17 .* 1.33 +MISSED")
        lines = markdown.target_table(list(verdicts.values()))
        self.assertIn("| 1 MiB streaming ÷ tcp BTL | ≥ 1.4 | 1.17 | 1.17 – 1.17 | 1.33 | **MISSED** |",
                      lines)

    def test_no_column_of_raw_udp_when_it_was_not_measured(self):
        lines = markdown.target_table(judge.judge(results_of(diwarp=[2], tcp=[4]), ["pt2pt"]))
        self.assertEqual({line.count("|") for line in lines}, {6})

    def test_exit_status(self):
        met = self.verdicts(results_of(diwarp=[1], tcp=[10]), ("pt2pt",)).values()
        self.assertEqual(judge.exit_status(met), 0)
        missed = self.verdicts(results_of(diwarp=[9], tcp=[10])).values()
        self.assertEqual(judge.exit_status(missed), 1)
        self.assertEqual(judge.exit_status(self.verdicts(Results()).values()), 2)


class Tables(unittest.TestCase):
    def test_every_target_is_measured(self):
        """By some row of MEASURES, over both transports it needs."""
        for target in targets.TARGETS:
            over = {t for m in measures.MEASURES if m.group == target.group for t in m.transports}
            self.assertIn(DIWARP, over, target.title)
            scenes = {m.scene for m in measures.MEASURES if m.group == target.group}
            self.assertIn(target.figure.scene, scenes, target.title)
            if target.over_key:
                self.assertLessEqual(set(transports.meant_by(target.over_key[1])), over,
                                     target.title)

    def test_titles_of_targets_are_unique(self):
        titles = [t.title for t in targets.TARGETS]
        self.assertEqual(len(titles), len(set(titles)))

    def test_arguments_of_both_modes(self):
        for measure in measures.MEASURES:
            self.assertIn(measure.group, measures.GROUPS)
            for effort in (measures.QUICK, measures.FULL):
                self.assertNotIn("{", " ".join(measure.words(effort)))

    def test_all_groups_run_in_the_first_round(self):
        results = Results()
        s = session.Session(None, {}, measures.QUICK, list(measures.GROUPS),
                            list(transports.COMPARED), results)
        self.assertEqual({session.group_of(t) for t in s.tasks(1)}, set(measures.GROUPS))
        results.skipped["loss"] = "no"
        self.assertNotIn("loss", {session.group_of(t) for t in s.tasks(1)})

    def test_transports_take_turns_in_being_first(self):
        s = session.Session(None, {}, measures.FULL, ["pairs"], [DIWARP, TCP_BBR, UCX], Results())
        self.assertEqual([t.transport for t in s.tasks(1)][:3], [DIWARP, TCP_BBR, UCX])
        self.assertEqual([t.transport for t in s.tasks(2)][:3], [TCP_BBR, UCX, DIWARP])

    def test_one_round_of_others(self):
        """Libfabric in full mode only; both beside diwarp's own run of the same."""
        def tasks(effort, round_):
            s = session.Session(None, {}, effort, ["incast"], [DIWARP, UCX, OFI_TCP], Results())
            return [t.transport for t in s.tasks(round_) if t.measure.title == "15 → 1"]

        self.assertEqual(tasks(measures.QUICK, 1), [DIWARP, UCX])
        self.assertEqual(tasks(measures.FULL, 1), [DIWARP, UCX, OFI_TCP])
        self.assertEqual(tasks(measures.FULL, 2), [DIWARP])

    def test_what_is_dropped_is_known_of_all_that_run_with_loss(self):
        for measure in measures.MEASURES:
            if measure.permille is not None:
                self.assertLessEqual(set(measure.transports), set(session.PROTOCOLS))


class Failures(unittest.TestCase):
    def run_one(self, optional):
        """A session of which nothing works."""
        measure = measures.Measure("pairs", "fails", "", (1, 1), (UCX,), optional=optional)
        launcher = transports.Launcher("false", "", 2)
        s = session.Session(launcher, {"fails": "none"}, measures.QUICK, [], [UCX], Results())
        s.tasks = lambda round_: [session.Task(measure, UCX)] * (round_ == 1)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            s.run_rounds()
        return s, said.getvalue()

    def test_what_must_run_and_fails_is_counted(self):
        s, said = self.run_one(False)
        self.assertEqual((s.failures, s.results.failed), (1, {("pairs", UCX)}))
        self.assertIn("FAILED", said)

    def test_what_may_run_and_fails_is_skipped(self):
        s, said = self.run_one(True)
        self.assertEqual((s.failures, s.results.failed, len(s.given_up)), (0, set(), 1))
        self.assertIn("... skipped\n", said)


class Commands(unittest.TestCase):
    def test_mpirun(self):
        launcher = transports.Launcher("mpirun", "/c", 2)
        words = launcher.command(transports.TRANSPORTS[DIWARP], 2, ["prog", "-r", "1"], ("-x", "A"))
        self.assertEqual(words[:5], ["mpirun", "-np", "2", "--bind-to", "core"])
        self.assertIn("/c:SYSTEM_DEFAULT", words)
        self.assertEqual(words[-5:], ["-x", "A", "prog", "-r", "1"])
        words = launcher.command(transports.TRANSPORTS[UCX], 8, ["prog"])
        self.assertIn("--oversubscribe", words)
        self.assertIn("UCX_NET_DEVICES=lo", words)
        self.assertNotIn("/c:SYSTEM_DEFAULT", words)

    def test_listed_components(self):
        text = 'mca:pml:ucx:version:"mca:2.1.0"\nmca:btl:tcp:version:"x"\npackage:Open MPI\n'
        self.assertEqual(transports.listed_components(text), {"pml:ucx", "btl:tcp"})

    def test_parameters(self):
        text = ("mca:btl:diwarp:version:\"mca:2.1.0\"\n"
                "mca:btl:diwarp:param:btl_diwarp_transport:value:rd\n"
                "mca:btl:diwarp:param:btl_diwarp_if_include:source:default\n")
        self.assertEqual(transports.parsed_parameters(text),
                         {"btl_diwarp_transport", "btl_diwarp_if_include"})

    def test_rc_needs_a_diwarp_that_knows_it(self):
        known = {transports.TRANSPORT_PARAMETER}
        for name in transports.CONNECTED:
            self.assertEqual(transports.selection_lack(name, known), "")
            self.assertIn("no parameter", transports.selection_lack(name, set()))
        self.assertEqual(transports.selection_lack(DIWARP, set()), "")

    def test_rc_is_asked_for_its_receives_and_the_others_are_not(self):
        measure = next(m for m in measures.MEASURES if m.scene == measures.LONG_RECEIVES)
        self.assertEqual(measure.transports, transports.CONNECTED)
        for name in transports.CONNECTED:
            self.assertIn("btl_diwarp_rc_recv_bytes", measure.options[name])


class Jobs(unittest.TestCase):
    def test_output_and_failure(self):
        self.assertEqual(jobs.run(["sh", "-c", "echo out; echo err >&2"], 10), "out\n")
        with self.assertRaises(jobs.JobFailed) as caught:
            jobs.run(["sh", "-c", "echo said this; exit 3"], 10)
        self.assertIn("status 3", caught.exception.report())
        self.assertIn("said this", caught.exception.report())
        with self.assertRaises(jobs.JobFailed):
            jobs.run(["/no/such/program"], 10)

    def test_time_limit_ends_all_of_the_session(self):
        """A descendant with a process group of its own, as mpirun's ranks have."""
        with self.assertRaises(jobs.JobFailed) as caught:
            jobs.run(["sh", "-c", "set -m; sleep 77.25 & echo $!; wait"], 0.5)
        self.assertIn("no end", caught.exception.reason)
        pid = int(caught.exception.output.split()[0])
        for _ in range(100):
            if not os.path.exists(f"/proc/{pid}"):
                break
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    break
            time.sleep(0.02)
        else:
            self.fail("still runs")

    def test_one_beside_the_other(self):
        self.assertEqual(jobs.run(["echo", "b"], 10, beside=["echo", "a"]), "a\nb\n")
        with self.assertRaises(jobs.JobFailed):
            jobs.run(["true"], 10, beside=["false"])


class Cores(unittest.TestCase):
    def test_threads_of_a_core_are_one(self):
        for siblings, cpus in (({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, [0, 1]),
                               ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, [0, 2])):
            self.assertEqual(cores.one_cpu_per_core({3, 2, 1, 0}, siblings.get), cpus)

    def test_of_this_machine(self):
        self.assertLessEqual(set(cores.allowed()), os.sched_getaffinity(0))
        self.assertEqual(cores.siblings_of(1 << 20), str(1 << 20))


class CommandLine(unittest.TestCase):
    def dies(self, call, *words):
        with self.assertRaises(SystemExit) as caught, contextlib.redirect_stderr(io.StringIO()):
            call(*words)
        self.assertEqual(caught.exception.code, 2, words)

    def test_what_cannot_be_written_is_told_first(self):
        self.dies(command_line.check_writable, "/no/such/folder/file")
        self.dies(command_line.output_folder, "/proc/folder", "")
        command_line.check_writable(None)

    def test_paths_that_a_list_would_cut(self):
        for path in ("/my tools/mpi_time.so", "/a:b/mpi_time.so"):
            self.dies(command_line.preloadable, path)
        self.assertEqual(command_line.preloadable("/tools/mpi_time.so"), "/tools/mpi_time.so")

    def test_settings_of_the_user_are_told(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), \
                mock.patch.dict(os.environ, {"OMPI_MCA_btl_diwarp_crc": "off"}):
            command_line.warn_of_settings()
        self.assertIn("OMPI_MCA_btl_diwarp_crc", out.getvalue())

    def test_wrong_use(self):
        for words in (["--only", "nothing"], ["--rounds", "0"], ["--component", "/no/such"],
                      ["--quick", "--full"], ["--readme", "--only", "rc"],
                      ["--readme", "--transports", "tcp"], ["--transports", "raw-udp"], ["--transports", ","],
                      ["--only", ""], ["more"]):
            with self.assertRaises(SystemExit) as caught, \
                    contextlib.redirect_stderr(io.StringIO()):
                cli.parse_options(words)
            self.assertEqual(caught.exception.code, 2, words)

    def test_groups_of_a_place(self):
        options = cli.parse_options(["--only", "rc,between-hosts"])
        self.assertEqual(options.only,
                         ["mtu1500", "mtu9000", "tails", "loss", "link", "shared", "rc"])

    def test_list_from_any_folder(self):
        program = os.path.join(TOP, "benchmarks", "compare")
        done = subprocess.run([sys.executable, program, "--list"], cwd="/", text=True,
                              stdout=subprocess.PIPE, check=True)
        for name in (*measures.GROUPS, *transports.TRANSPORTS):
            self.assertIn(f"  {name} ", done.stdout)

    def test_list_for_a_reader_that_goes_away(self):
        program = os.path.join(TOP, "benchmarks", "compare")
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, program, "--list"], stdout=writer, text=True,
                              stderr=subprocess.PIPE, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (1, ""))

    def test_help_of_the_whole_test_starts_nothing(self):
        program = os.path.join(TOP, "test", "bench", "run")
        done = subprocess.run([sys.executable, program, "--help"], cwd="/", text=True,
                              stdout=subprocess.PIPE, check=True, timeout=20)
        self.assertTrue(done.stdout.startswith("usage: run "))
        self.assertNotRegex(done.stdout, r"\d+ passed|Ran \d+")


if __name__ == "__main__":
    unittest.main()
