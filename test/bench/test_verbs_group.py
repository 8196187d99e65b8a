# SPDX-License-Identifier: BSD-3-Clause
"""The group part of benchmarks/verbs without its program: commands, what the program prints,
ratios, tables, files."""

import csv
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..",
                                "benchmarks"))

from compare_lib import jobs
from verbs_lib import cli, group, group_report, plots
from verbs_lib.group import AGGREGATE, LOST, NO_TRAINS, VALID, Row

PLAN = group.Plan([1024, 4096], [1, 2], 2, 0.1, "program")
LINE = "group bytes=1024 MBps=30 valid_MBps=31 slowest_MBps=9 fastest_MBps=11 lost_percent=2\n"


class Network:
    """As group_network.Bridge."""

    addresses = ("10.0.0.1", "10.0.0.2", "10.0.0.3")

    def __init__(self):
        self.settings = []
        self.ended = 0

    def inside(self, which):
        return [f"on{which}"]

    def set_up(self, receivers, trains):
        self.settings.append((receivers, trains))

    def end_processes(self):
        self.ended += 1


def run_one(session, row, output, round_=1):
    with mock.patch.object(jobs, "run_together", return_value=[output, ""]) as run:
        session.run_task(row, round_)
    return run.call_args.args[0]


class Sessions(unittest.TestCase):
    def setUp(self):
        self.session = group.GroupSession(PLAN, Network(), "")

    def test_rounds_are_interleaved(self):
        first, second = self.session.tasks(1), self.session.tasks(2)
        self.assertEqual(set(first), set(second))
        self.assertEqual(len(first), 2 * 2 * 6)
        self.assertEqual(first[1], second[0])

    def test_one_sender_and_its_receivers(self):
        commands = run_one(self.session, Row("send", "multicast", 2), LINE)
        self.assertEqual([c[0][0] for c in commands], ["on0", "on1", "on2"])
        self.assertEqual([c[0][-2:] for c in commands],
                         [["-r", "2"], ["-a", "10.0.0.2"], ["-a", "10.0.0.3"]])
        run_one(self.session, Row("send", "unicast" + NO_TRAINS, 1), LINE)
        self.assertEqual(self.session.bridge.settings, [(2, True), (1, False)])
        self.assertEqual(self.session.bridge.ended, 2)

    def test_figures_of_a_line(self):
        values = group.readings(Row("write", "unicast", 2), LINE + "noise bytes=1 MBps=2\n")
        self.assertEqual(values["write", 2, 1024, AGGREGATE], 30)
        self.assertEqual(values["write", 2, 1024, VALID], 31)
        self.assertEqual(len(values), 5)
        self.assertNotIn(("send", 2, 1024, VALID),
                         group.readings(Row("send", "unicast", 2), LINE))

    def test_what_is_not_printed_has_a_reason(self):
        run_one(self.session, Row("send", "multicast", 2), LINE)
        report = group_report.GroupReport(self.session)
        self.assertIn("no such figure", report.table_of("send", 4096))
        self.assertNotIn("no such figure", report.table_of("send", 1024))

    def test_a_failure_is_the_reason_of_all_figures(self):
        self.session.on_failure(Row("send", "unicast", 1),
                                jobs.JobFailed(["x"], "status 1", "a\nlast\n"))
        self.assertEqual(set(self.session.lacks.values()), {"status 1: last"})
        self.assertEqual(len(self.session.lacks), 2 * 4)

    def test_without_a_bridge_nothing_runs(self):
        session = group.GroupSession(PLAN, None, "no bridge")
        self.assertEqual(session.run_rounds(), 2)
        self.assertEqual(len(session.lacks), 2 * 2 * 6 * (4 + 5))
        self.assertIn("[1] not measured: no bridge", group_report.GroupReport(session).text())


class Reports(unittest.TestCase):
    def setUp(self):
        session = group.GroupSession(PLAN, Network(), "")
        for round_, rate in ((1, 30), (2, 45)):
            for way, factor in (("multicast", 3), ("unicast", 1), ("multicast" + NO_TRAINS, 8),
                                ("unicast" + NO_TRAINS, 2)):
                run_one(session, Row("send", way, 2),
                        f"group bytes=1024 MBps={rate * factor} lost_percent=0", round_)
        self.report = group_report.GroupReport(session)

    def test_each_way_is_compared_with_unicast_of_its_kind(self):
        key = ("send", 2, 1024, AGGREGATE)
        self.assertEqual(self.report.ratio(key, "multicast").median, 3)
        self.assertEqual(self.report.ratio(key, "multicast" + NO_TRAINS).median, 4)
        self.assertIsNone(self.report.ratio(key, "unicast"))
        self.assertIsNone(self.report.ratio(key, "broadcast"))
        self.assertIn("112 (40 %)", self.report.text())

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
                group_report, "run_scripts", side_effect=lambda f, stems: (stems, "")):
            self.report.write_csv(folder)
            with open(os.path.join(folder, "group-summary.csv"), encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual(len(rows), 2 * 2 * 6 * (4 + 5) + 2)
            ratios = [row for row in rows if row["quantity"] == group_report.RATIO]
            self.assertEqual([row["median"] for row in ratios], ["3", "4"])
            lost = [row for row in rows if row["quantity"] == LOST and row["median"]]
            self.assertEqual([row["count"] for row in lost], ["2"] * 4)
            drawn, _ = self.report.draw(folder)
            self.assertEqual(drawn, ["group-send-1024"])
            self.assertTrue(all(plots.is_ours(name) for name in os.listdir(folder)
                                if not name.endswith(".csv")))

    def test_sizes_of_its_own(self):
        self.assertEqual(cli.parse_options(["--quick"]).group_sizes, group.SIZES)
        self.assertEqual(cli.parse_options(["--sizes", "64"]).group_sizes, [64])


if __name__ == "__main__":
    unittest.main()
