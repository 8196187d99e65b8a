# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of benchmarks/memory: what it reads, computes and writes. Nothing is run."""

import csv
import math
import os
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "benchmarks"))

from apps_lib import readings
from memory_lib import cli, model, plots, points, report
from memory_lib.points import Held, Point

LINE = ("mpi_memory: rank={rank} ranks=2 point={point} private_bytes=1 anonymous_bytes={anonymous} "
        "heap_bytes=5000 tcp_sockets=2 udp_sockets=1 socket_queue_bytes=30 socket_slab_bytes=70\n")
OWN = "[host:1] diwarp_memory: rank={rank} transport=rd transport_bytes={bytes}\n"


def lines(*anonymous):
    return "".join(LINE.format(rank=rank, point=point, anonymous=bytes_)
                   for rank, bytes_ in enumerate(anonymous)
                   for point, bytes_ in (("init", 1), ("finalize", bytes_)))


def point(transport, ranks, user, kernel=0, heap=0):
    zero = Held(1000, 2000, 0, 100, 1)
    return Point(transport, ranks, Held(1000 + user, 2000 + heap, kernel, 100, 2), zero)


class Reading(unittest.TestCase):
    def test_the_mean_of_the_end(self):
        held = points.held_of(lines(1000, 3000), OWN.format(rank=0, bytes=10)
                              + OWN.format(rank=1, bytes=30), 2)
        self.assertEqual(held, Held(2000, 5000, 30, 70, 3, 20))
        self.assertEqual(held.total, 2100)

    def test_without_a_report_of_its_own(self):
        self.assertIsNone(points.held_of(lines(1000, 3000), "", 2).reported)

    def test_a_rank_is_missing(self):
        with self.assertRaises(readings.Unusable):
            points.held_of(lines(1000), "", 2)
        with self.assertRaises(readings.Unusable):
            points.held_of(lines(1000, 3000), OWN.format(rank=1, bytes=30), 2)


class Model(unittest.TestCase):
    def test_a_line_is_found(self):
        exact = [(peers, 5000 + 70 * peers) for peers in (7, 15, 31, 63)]
        found = model.model_of(exact)
        self.assertAlmostEqual(found.line.base, 5000)
        self.assertAlmostEqual(found.line.slope, 70)
        self.assertAlmostEqual(found.error, 0)
        self.assertEqual(found.largest_peers, 63)
        self.assertAlmostEqual(found.line.at((1 << 20) - 1), 5000 + 70 * ((1 << 20) - 1))

    def test_least_squares(self):
        line = model.fit([(0, 1), (1, 3), (2, 2)])
        self.assertAlmostEqual(line.slope, 0.5)
        self.assertAlmostEqual(line.base, 1.5)

    def test_the_error_is_of_a_line_that_has_not_seen_the_point(self):
        found = model.model_of([(10, 100), (20, 200), (30, 300), (60, 1200)])
        self.assertAlmostEqual(found.error, (600 - 1200) / 1200)
        self.assertNotAlmostEqual(found.line.at(60), 600)

    def test_first_points_do_not_count(self):
        few = [(1, 1e6), (3, 1e6)]
        many = [(7, 107), (15, 115), (31, 131)]
        self.assertAlmostEqual(model.model_of(few + many).line.slope, 1)
        self.assertAlmostEqual(model.model_of(few).line.slope, 0)

    def test_too_few_points(self):
        self.assertIsNone(model.model_of([(7, 100)]))
        self.assertIsNone(model.model_of([]))
        self.assertIsNone(model.model_of([(7, 100), (15, 200)]).error)


class Report(unittest.TestCase):
    POINTS = [point("rd", 8, 1000, 24, 3000), point("tcp", 8, 4000, 120, 9000),
              point("rd", 16, 1100, 24, 3100), point("tcp", 16, 8000, 240, 18000)]

    def test_the_part_of_the_transport(self):
        one = self.POINTS[1]
        self.assertEqual((one.peers, one.user, one.heap, one.kernel), (7, 4000, 9000, 120))
        self.assertEqual(one.total, 4120)

    def test_bytes(self):
        self.assertEqual([report.bytes_text(n) for n in (0, 1023, 1536, 3 << 20, 5 << 30, -2048)],
                         ["0 B", "1023 B", "1.5 KiB", "3.0 MiB", "5.0 GiB", "-2.0 KiB"])
        self.assertEqual([report.ranks_text(n) for n in (2, 1 << 10, 1 << 14, 1 << 20)],
                         ["2", "1 Ki", "16 Ki", "1 Mi"])

    def test_ratios(self):
        text = report.ratio_table(self.POINTS, "rd")
        self.assertIn(f"{4120 / 1024:.2f}", text)
        self.assertIn(f"{5220 / 2124:.2f}", text)
        self.assertEqual(report.ratio_table(self.POINTS, "rc"), "")
        self.assertEqual(report.ratio_table([self.POINTS[1]], "rd"), "")

    def test_files(self):
        models = cli.models_of(self.POINTS)
        self.assertEqual(set(models), {"rd", "tcp"})
        with tempfile.TemporaryDirectory() as folder:
            report.write_points(self.POINTS, folder)
            report.write_models(models, folder)
            drawn, why = plots.draw(self.POINTS, models, "title", folder)
            names = sorted(os.listdir(folder))
            with open(os.path.join(folder, "points.csv"), newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            with open(os.path.join(folder, "model.csv"), newline="", encoding="utf-8") as file:
                lines_ = list(csv.DictReader(file))
        self.assertTrue(why or len(drawn) == 1)
        self.assertIn("memory.gp", names)
        self.assertEqual(rows[1]["transport_user_bytes"], "4000")
        self.assertEqual(rows[1]["transport_kernel_bytes"], "120")
        slope = {row["transport"]: float(row["bytes_per_peer"]) for row in lines_}
        self.assertAlmostEqual(slope["tcp"], (8240 - 4120) / 8)


class Options(unittest.TestCase):
    def test_grids(self):
        for ranks in (2, 4, 6, 7, 8, 12, 64, 128):
            self.assertEqual(math.prod(cli.process_grid(ranks)), ranks)
        self.assertEqual(sorted(cli.process_grid(64)), [4, 4, 4])

    def test_ranks(self):
        self.assertEqual(cli.parse_options(["--ranks", "8,2,8"]).ranks, [2, 8])
        for bad in ("1,2", "", "x"):
            with self.assertRaises(SystemExit), open(os.devnull, "w", encoding="ascii") as sink:
                stderr, sys.stderr = sys.stderr, sink
                try:
                    cli.parse_options(["--ranks", bad])
                finally:
                    sys.stderr = stderr

    def test_the_middle_of_the_rounds(self):
        rounds = [Held(n, 0, 0, 0, 1) for n in (5, 1, 3)]
        self.assertEqual(cli.median(rounds).user, 3)


if __name__ == "__main__":
    unittest.main()
