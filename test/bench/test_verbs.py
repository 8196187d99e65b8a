# SPDX-License-Identifier: BSD-3-Clause
"""benchmarks/verbs without its programs: options, what programs print, tables, files, and what a
network that did nothing makes of figures."""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..",
                                "benchmarks"))

from compare_lib import jobs
from compare_lib.stats import Rounds
from verbs_lib import cli, plots, report, series, session
from verbs_lib.series import LAST, LATENCY, LOSS, LOST, VALID, WHOLE, Figure

BY_NAME = {s.name: s for s in series.SERIES}
UD_SEND, UD_WRITE = BY_NAME["UD Send"], BY_NAME["UD Write-Record, 64 KiB"]
RD_SEND = BY_NAME["RD Send, MTU"]
PROGRAMS = {"verbs_native": "native", "verbs_of": "of", "raw_sockets": "raw",
            "diwarp-verbs": "front"}


def plan_of(chosen, rounds=1):
    return session.Plan(list(chosen), [1, 65536], [0.0, 1.0], rounds, 0.1, PROGRAMS)


class Options(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(cli.size_list("4K,1,1M,4096"), [1, 4096, 1 << 20])
        for wrong in ("", "0", "4M,", "5M", "-1", "1.5", "K", "x", "1,,2",
                      ",".join(map(str, range(1, 40)))):
            with self.assertRaises(argparse.ArgumentTypeError, msg=wrong):
                cli.size_list(wrong)

    def test_losses(self):
        self.assertEqual(cli.loss_list("5,0,0.1"), [0.0, 0.1, 5.0])
        for wrong in ("", "-1", "101", "nan", "inf", "x", "0.0001", "1,"):
            with self.assertRaises(argparse.ArgumentTypeError, msg=wrong):
                cli.loss_list(wrong)

    def test_wrong_use_ends_with_status_2(self):
        for words in (["--only", "nothing"], ["--only", ","], ["--rounds", "0"], ["--size", "1"],
                      ["--seconds", "0"], ["--seconds", "nan"], ["--sizes", "8M"], ["x"],
                      ["--loss", "200"], ["--bindir", "/nowhere"], ["--rounds"]):
            with self.assertRaises(SystemExit, msg=words) as end, \
                    contextlib.redirect_stderr(io.StringIO()):
                cli.parse_options(words)
            self.assertEqual(end.exception.code, 2, words)

    def test_quick_gives_way_to_what_is_asked_for(self):
        options = cli.parse_options(["--quick", "--rounds", "3", "--loss", "0"])
        self.assertEqual((options.rounds, options.loss, options.sizes, options.seconds),
                         (3, [0.0], series.QUICK_SIZES, cli.QUICK_SECONDS))
        self.assertEqual(cli.parse_options([]).sizes[-1], 4 << 20)

    def test_missing_programs_are_named(self):
        with tempfile.TemporaryDirectory() as folder, \
                self.assertRaisesRegex(FileNotFoundError, "verbs_native"):
            session.find_programs(None, folder)


class Readings(unittest.TestCase):
    def test_each_line_is_of_its_quantity(self):
        values, lacks = series.readings(UD_SEND, "latency api=native bytes=8 us=1.5 p99_us=2\n"
                                        "stream bytes=8 MBps=3 valid_MBps=4 last_MBps=5\nnoise\n",
                                        None)
        self.assertEqual(values, {Figure(LATENCY, 8): 1.5, Figure(WHOLE, 8): 3.0})
        self.assertEqual(lacks, {})

    def test_valid_bytes_with_loss(self):
        values, _ = series.readings(UD_WRITE, "stream bytes=8 MBps=0 valid_MBps=4 "
                                    "last_MBps=2 lost_percent=7", 1.0)
        self.assertEqual(values, {Figure(WHOLE, 8, 1.0): 0.0, Figure(VALID, 8, 1.0): 4.0,
                                  Figure(LAST, 8, 1.0): 2.0, Figure(LOST, 8, 1.0): 7.0})

    def test_reasons(self):
        values, lacks = series.readings(UD_SEND, "lack bytes=8 why=too long = too long\n"
                                        "latency bytes=9 why=lost\nstream bytes=9 unsupported=1",
                                        None)
        self.assertEqual(values, {})
        self.assertEqual(lacks, {Figure(LATENCY, 8): "too long = too long",
                                 Figure(WHOLE, 8): "too long = too long",
                                 Figure(LATENCY, 9): "lost",
                                 Figure(WHOLE, 9): "the kernel cannot do it"})

    def test_an_error_costs_what_was_not_printed_before(self):
        output = "latency bytes=8 us=1\nfailed bytes=8 why=gone\nfailed bytes=9 why=gone"
        values, lacks = series.readings(UD_SEND, output, None)
        self.assertEqual(values, {Figure(LATENCY, 8): 1.0})
        self.assertEqual(lacks, {figure: "gone" for figure in (
            Figure(WHOLE, 8), Figure(LATENCY, 9), Figure(WHOLE, 9))})
        s, _ = Sessions().run_one(session.Task(UD_SEND, None), output, Network())
        self.assertEqual(s.failures, 1)

    def test_names_tell_series_apart(self):
        self.assertEqual(len(BY_NAME), len(series.SERIES))
        stems = [plots.stem_of(s) for s in series.SERIES if s.group == LOSS]
        self.assertEqual(len(set(stems)), len(stems))


class Network:
    """As network.Routed; `counted`: packets, fragments, drops."""

    addresses = ("10.0.0.1", "10.0.0.2")
    raw_options = ()

    def __init__(self, counted=(0, 0, 0)):
        self.counts = counted
        self.settings = []
        self.ended = 0

    def inside(self, which):
        return [f"on{which}"]

    def set_up(self, percent, large):
        self.settings.append((percent, large))

    def counted(self):
        return self.counts

    def end_processes(self):
        self.ended += 1


class Sessions(unittest.TestCase):
    def run_one(self, task, output, network):
        s = session.Session(plan_of([task.series]), network, network)
        with mock.patch.object(jobs, "run", return_value=output) as run:
            s.run_task(task, 1)
        return s, run

    def test_rounds_are_interleaved(self):
        s = session.Session(plan_of(series.SERIES), None, None)
        first, second = s.tasks(1), s.tasks(2)
        self.assertEqual(set(first), set(second))
        self.assertEqual(first[1], second[0])
        self.assertFalse([task for task in first if task.series.lack])
        self.assertEqual(len(first), 20 + 2 * 7)

    def test_commands(self):
        _, run = self.run_one(session.Task(BY_NAME["OF RC Read"], None), "", Network())
        self.assertEqual(run.call_args.args[0][:5], ["on0", "front", "run", "of", "-s"])
        self.assertEqual(run.call_args.kwargs["beside"][-2:], ["-L", "10.0.0.2:4793"])

    def test_what_is_not_printed_has_a_reason(self):
        s, _ = self.run_one(session.Task(UD_SEND, None), "latency bytes=1 us=2", Network())
        self.assertEqual(s.results.summary(Figure(LATENCY, 1), UD_SEND.name).median, 2)
        self.assertIn("no such figure", s.lacks[Figure(WHOLE, 65536), UD_SEND.name])

    def test_a_network_that_does_nothing_is_no_measurement(self):
        output = "stream bytes=65536 MBps=1 valid_MBps=1 last_MBps=1"
        for task, counted, fails in ((session.Task(UD_WRITE, 1.0), (3000, 9, 9), False),
                                     (session.Task(UD_WRITE, 1.0), (3000, 0, 9), True),
                                     (session.Task(UD_WRITE, 1.0), (3000, 9, 0), True),
                                     (session.Task(UD_WRITE, 1.0), (99, 9, 0), False),
                                     (session.Task(UD_WRITE, 0.0), (3000, 9, 0), False),
                                     (session.Task(RD_SEND, 0.0), (99, 9, 0), True)):
            network = Network(counted)
            with contextlib.ExitStack() as stack:
                if fails:
                    stack.enter_context(self.assertRaises(jobs.JobFailed))
                self.run_one(task, output, network)
            self.assertEqual(network.settings, [(task.loss, task.series.large)])
            self.assertEqual(network.ended, 1)

    def test_a_failure_is_the_reason_of_all_figures(self):
        s = session.Session(plan_of([UD_SEND]), None, None)
        s.on_failure(session.Task(UD_SEND, None), jobs.JobFailed(["x"], "status 1", "a\nlast\n"))
        self.assertEqual(set(s.lacks.values()), {"status 1: last"})
        self.assertEqual(len(s.lacks), 4)


class Reports(unittest.TestCase):
    def setUp(self):
        results, lacks = Rounds(), {(Figure(WHOLE, 65536), "UD Send"): "it is lost"}
        for round_, value in ((1, 10.0), (2, 12.0), (3, 11.0)):
            results.put(Figure(WHOLE, 1), "UD Send", round_, value)
        results.put(Figure(VALID, 65536, 1.0), UD_WRITE.name, 1, 5.0)
        self.report = report.Report(results, lacks, [UD_SEND, UD_WRITE], [1, 65536], [0.0, 1.0])

    def test_medians_spread_and_reasons(self):
        text = self.report.text()
        self.assertIn("11 (18 %)", text)
        self.assertIn("[1] not measured: it is lost", text)
        self.assertIn("not measured: was not run", text)

    def test_the_designs_comparison(self):
        self.assertEqual(self.report.comparison(), [])
        for round_, ud, rc in ((1, 1.0, 2.0), (2, 2.0, 2.0), (3, 3.0, 4.0)):
            self.report.results.put(Figure(LATENCY, 64), "UD Send", round_, ud)
            self.report.results.put(Figure(LATENCY, 64), "RC Send", round_, rc)
        line = self.report.comparison()[0].splitlines()[1]
        self.assertEqual(line.split("  "), ["UD Send ÷ RC Send, 64 B, half round trip",
                                            "0.75 (0.5 to 1)", "at most 0.82"])

    def test_sizes_and_numbers(self):
        self.assertEqual([report.size_text(n) for n in (1, 1000, 1024, 4 << 20)],
                         ["1 B", "1000 B", "1 KiB", "4 MiB"])
        self.assertEqual([report.number(v) for v in (0.0, 0.1234, 12.34, 1234.5)],
                         ["0", "0.123", "12.3", "1234"])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(plots, "run_scripts", side_effect=lambda f, stems: (stems, "")):
            self.report.write_csv(folder)
            with open(os.path.join(folder, "summary.csv"), encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertEqual(len(lines), 1 + 2 * 2 + 4 * 2 * 2)
            self.assertIn("native,UD Send,whole,1,,11,10,12,3,", lines)
            self.assertIn("native,UD Send,whole,65536,,,,,0,it is lost", lines)
            drawn, _ = plots.draw(self.report, "here", folder)
            self.assertEqual(drawn, ["bandwidth", plots.stem_of(UD_WRITE)])
            self.assertTrue(all(plots.is_ours(name) for name in os.listdir(folder)
                                if not name.endswith(".csv")))


if __name__ == "__main__":
    unittest.main()
