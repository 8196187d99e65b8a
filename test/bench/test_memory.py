# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of benchmarks/memory: what it reads, computes and writes. Nothing is run."""

import contextlib
import csv
import io
import math
import os
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "benchmarks"))

from apps_lib import readings
from compare_lib import marked
from compare_lib.judge import MET, MISSED, NOT_JUDGED
from memory_lib import cli, judge, markdown, model, plots, points, report
from memory_lib.points import Held, Point

LINE = ("mpi_memory: rank={rank} ranks=2 point={point} private_bytes=600 pss_bytes=900 "
        "anonymous_bytes={anonymous} heap_bytes=5000 tcp_sockets=2 udp_sockets=1 "
        "socket_queue_bytes=30 socket_slab_bytes=70\n")
OWN = "[host:1] diwarp_memory: rank={rank} transport=rd peer_bytes=4 transport_bytes={bytes}\n"


def lines(*anonymous):
    return "".join(LINE.format(rank=rank, point=point, anonymous=bytes_)
                   for rank, bytes_ in enumerate(anonymous)
                   for point, bytes_ in (("init", 1), ("finalize", bytes_)))


def point(transport, ranks, user, kernel=0, heap=0, told=None):
    zero = Held(1000, 2000, 0, 100, 1, 600, 900)
    held = Held(1000 + user, 2000 + heap, kernel, 100, 2, 600 + user, 900 + user, told or {})
    return Point(transport, ranks, held, zero)


def pooled(ranks, rest, active=None, of_peer=340):
    """RD, whose pools and the like take `rest`; `active` of its peers at the end."""
    peers = ranks - 1
    active = peers if active is None else active
    told = {"peers": active, "peer_bytes": 100 + of_peer * active, "addresses": ranks,
            "address_bytes": 50 + 120 * ranks, "endpoints": ranks, "endpoint_bytes": 16 * ranks}
    return point("rd", ranks, rest + (of_peer + 136) * peers, told=told)


class Reading(unittest.TestCase):
    def test_the_mean_of_the_end(self):
        held = points.held_of(lines(1000, 3000), OWN.format(rank=0, bytes=10)
                              + OWN.format(rank=1, bytes=30), 2, "rd")
        self.assertEqual((held.user, held.heap, held.queue, held.slab, held.sockets, held.private,
                          held.pss), (2000, 5000, 30, 70, 3, 600, 900))
        self.assertEqual((held.total, held.reported, held.told["peer_bytes"]), (2100, 20, 4))

    def test_without_a_report_of_its_own(self):
        self.assertIsNone(points.held_of(lines(1000, 3000), "", 2, "tcp").reported)

    def test_a_rank_is_missing(self):
        with self.assertRaises(readings.Unusable):
            points.held_of(lines(1000), "", 2, "tcp")
        with self.assertRaises(readings.Unusable):
            points.held_of(lines(1000, 3000), OWN.format(rank=1, bytes=30), 2, "rd")

    def test_it_ran_over_another_transport_than_was_asked_for(self):
        own = OWN.format(rank=0, bytes=10) + OWN.format(rank=1, bytes=30)
        for output in (own, ""):
            with self.assertRaises(readings.Unusable):
                points.held_of(lines(1000, 3000), output, 2, "rc")


def line_points(pairs):
    """Over tcp: (peers, bytes)."""
    return [point("tcp", peers + 1, bytes_) for peers, bytes_ in pairs]


class Model(unittest.TestCase):
    def test_a_line_is_found(self):
        exact = [(peers, 5000 + 70 * peers) for peers in (7, 15, 31, 63)]
        found = model.model_of(line_points(exact))
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
        found = model.model_of(line_points([(10, 100), (20, 200), (30, 300), (60, 1200)]))
        self.assertAlmostEqual(found.error, (600 - 1200) / 1200)
        self.assertNotAlmostEqual(found.line.at(60), 600)

    def test_first_points_do_not_count(self):
        few = [(1, 1e6), (3, 1e6)]
        many = [(7, 107), (15, 115), (31, 131)]
        self.assertAlmostEqual(model.model_of(line_points(few + many)).line.slope, 1)
        self.assertAlmostEqual(model.model_of(line_points(few)).line.slope, 0)

    def test_too_few_points(self):
        self.assertIsNone(model.model_of(line_points([(7, 100)])))
        self.assertIsNone(model.model_of([]))
        self.assertIsNone(model.model_of(line_points([(7, 100), (15, 200)])).error)

    def test_pools_are_the_base_and_peers_the_slope(self):
        found = model.model_of([pooled(4, 50000), pooled(8, 60000), pooled(16, 90000),
                                pooled(32, 80000), pooled(64, 85000)])
        self.assertAlmostEqual(found.line.slope, 476)
        self.assertAlmostEqual(found.line.base, 90000)
        self.assertAlmostEqual(found.error, (90000 - 85000) / (85000 + 63 * 476))

    def test_peers_that_are_idle_again_do_not_make_the_others_cheaper(self):
        found = model.model_of([pooled(8, 60000), pooled(32, 60000), pooled(128, 60000, active=2)])
        self.assertAlmostEqual(found.line.slope, 476)

    def test_pools_without_a_report(self):
        self.assertIsNone(model.model_of([point("rd", 8, 100), point("rd", 16, 200)]))


class Judge(unittest.TestCase):
    RANKS = [8, 16, 64, 128]

    def verdicts(self, rd, rc=20 << 20, tcp=900000, failed=(), ranks=None):
        points_ = [pooled(n, rd) for n in ranks or self.RANKS]
        points_ += [point("rc", 64, rc), point("tcp", 64, tcp)]
        found = judge.judge(ranks or self.RANKS, points_, [points_, points_], set(failed))
        return [v.verdict for v in found], found

    def test_met(self):
        words, found = self.verdicts(60000)
        self.assertEqual(words, [MET] * 5)
        self.assertAlmostEqual(found[0].value.median, 476)
        self.assertAlmostEqual(found[1].value.median, 1)
        self.assertAlmostEqual(found[2].value.median, (60000 + 127 * 476) / (1 << 20))
        self.assertEqual(found[3].value.count, 2)

    def test_each_can_be_missed(self):
        self.assertEqual(self.verdicts(5 << 20, 80 << 20, 80 << 20)[0],
                         [MET, MET, MISSED, MET, MET])
        self.assertEqual(self.verdicts(60000, rc=100000)[0], [MET, MET, MET, MISSED, MET])
        self.assertEqual(self.verdicts(60000, tcp=100000)[0], [MET, MET, MET, MET, MISSED])
        greedy = [pooled(n, 60000, of_peer=400) for n in self.RANKS]
        self.assertEqual(judge.judge(self.RANKS, greedy, [greedy], set())[0].verdict, MISSED)

    def test_what_grows_with_the_peers_and_is_not_told(self):
        """The pools may be as full as before, not more."""
        for more, verdict in ((20000, MISSED), (0, MET)):
            points_ = [pooled(n, 60000 + more * (n - 1)) for n in self.RANKS]
            found = judge.judge(self.RANKS, points_, [points_], set())[:2]
            self.assertEqual([v.verdict for v in found], [MET, verdict])
            self.assertEqual(found[1].target.title,
                             "RD: measured with most ranks ÷ predicted without it")
        self.assertAlmostEqual(model.model_of([pooled(n, 60000) for n in self.RANKS[:-1]]
                                              + [pooled(128, 60000 + 12045.2)])
                               .measured_over_predicted, 1.1)

    def test_a_report_that_lacks_a_kind_is_not_judged(self):
        for key in ("address_bytes", "addresses"):
            points_ = [pooled(n, 60000) for n in self.RANKS]
            del points_[2].held.told[key]
            found = judge.judge(self.RANKS, points_, [points_], set())
            self.assertEqual([v.verdict for v in found[:3]], [NOT_JUDGED, NOT_JUDGED, MET], key)

    def test_what_rd_failed_to_run_is_missed(self):
        self.assertEqual(self.verdicts(60000, failed={("rd", 128)})[0],
                         [MISSED, MISSED, MISSED, MET, MET])
        self.assertEqual(self.verdicts(60000, failed={("rc", 64)})[0],
                         [MET, MET, MET, NOT_JUDGED, MET])

    def test_what_was_not_asked_is_not_judged(self):
        words, _ = self.verdicts(60000, ranks=[8, 16])
        self.assertEqual(words, [MET, NOT_JUDGED, MET, NOT_JUDGED, NOT_JUDGED])


class Report(unittest.TestCase):
    POINTS = [pooled(8, 1000), point("tcp", 8, 4000, 120, 9000),
              pooled(16, 1100), point("tcp", 16, 8000, 240, 18000)]
    RD = [1000 + 7 * 476, 1100 + 15 * 476]

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
        self.assertIn(f"{4120 / self.RD[0]:.2f}", text)
        self.assertIn(f"{5220 / (1100 + self.RD[0]):.2f}", text)
        self.assertEqual(report.ratio_table(self.POINTS, "rc"), "")
        self.assertEqual(report.ratio_table([self.POINTS[1]], "rd"), "")

    def test_files(self):
        models = model.models_of(self.POINTS)
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
        self.assertEqual([rows[1][key] for key in ("private_bytes", "pss_bytes")], ["4600", "4900"])
        self.assertEqual([row["reported_peer_bytes"] for row in rows],
                         [str(100 + 7 * 340), "", str(100 + 15 * 340), ""])
        self.assertEqual([row["reported_peers"] for row in rows], ["7.00", "", "15.00", ""])
        slope = {row["transport"]: float(row["bytes_per_peer"]) for row in lines_}
        self.assertAlmostEqual(slope["tcp"], (8240 - 4120) / 8)


    def test_markdown(self):
        models = model.models_of(self.POINTS)
        verdicts = judge.judge([8, 16], self.POINTS, [self.POINTS], set())
        text = markdown.document(self.POINTS, models, verdicts, "about")
        self.assertIn(f"| 16 | {report.bytes_text(self.RD[1])} | 8.0 KiB |\n", text)
        self.assertIn("| for each peer | 476 B | 515 B |\n", text)
        self.assertIn("| error at the largest point | - (16 ranks) | - (16 ranks) |\n", text)
        self.assertIn("| RD: bytes for each active peer | ≤ 512 | 476.00 |", text)
        self.assertNotIn("not judged", text)
        text = markdown.summary(self.POINTS, models, verdicts, "about", ["p/memory.png"])
        self.assertIn("| for each peer | 476 B | 515 B |\n", text)
        self.assertRegex(text, r"\nOf the targets: \d met, 0 missed, \d not judged\.\n")
        self.assertTrue(text.endswith("![memory](p/memory.png)\n"))

    def test_the_marks_are_there(self):
        marked.check(markdown.MARKS)


class Options(unittest.TestCase):
    def test_grids(self):
        for ranks in (2, 4, 6, 7, 8, 12, 64, 128):
            self.assertEqual(math.prod(cli.process_grid(ranks)), ranks)
        self.assertEqual(sorted(cli.process_grid(64)), [4, 4, 4])

    def test_ranks(self):
        self.assertEqual(cli.parse_options(["--ranks", "8,2,8"]).ranks, [2, 8])
        for bad in ("1,2", "", "x"):
            self.refused("--ranks", bad)

    def refused(self, *words):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            cli.parse_options(words)

    def test_targets_are_of_all_to_all(self):
        self.assertTrue(cli.parse_options(["--judge", "--readme"]).judge)
        self.refused("--pattern", "app", "--judge")
        self.refused("--pattern", "app", "--readme")

    def test_the_readme_has_all_of_it(self):
        for words in (["--ranks", "2,4"], ["--transports", "rd"], ["--bytes", "64"]):
            self.refused("--readme", *words)

    def test_the_middle_of_the_rounds(self):
        rounds = [Held(n, 0, 0, 0, 1, 0, 0) for n in (5, 1, 3)]
        self.assertEqual(cli.median(rounds).user, 3)
        self.assertIsNone(cli.median([]))

    def test_rounds_apart(self):
        options = cli.parse_options(["--ranks", "2", "--rounds", "2"])
        session = cli.Session.__new__(cli.Session)
        session.options, session.rounds, session.names = options, 2, ["rd", "rc"]
        shared, rd, rc = ([Held(n, 0, 0, 0, 1, 0, 0) for n in of] for of in ((1, 2), (5, 9), (7,)))
        session.held = {cli.Task(name, 2): held
                        for name, held in (("shared", shared), ("rd", rd), ("rc", rc))}
        rounds = [[(p.transport, p.total) for p in of] for of in session.points_of_rounds()]
        self.assertEqual(rounds, [[("rd", 4), ("rc", 6)], [("rd", 7)]])
        self.assertEqual([(p.transport, p.total) for p in session.points()], [("rd", 4), ("rc", 6)])
        session.failed = set()
        self.assertTrue(cli.about_text(session, "made", "here").endswith("mean of the ranks."))
        session.failed = {cli.Task("rc", 2)}
        self.assertTrue(cli.about_text(session, "made", "here")
                        .endswith(" Failed, and not run again: RC, 2 ranks, in round 2."))
        session.options = cli.parse_options(["--ranks", "2", "--pattern", "app"])
        session.failed = set()
        self.assertEqual([(p.transport, p.total) for p in session.points()], [("rd", 5), ("rc", 7)])
        self.assertEqual([task.name for task in session.tasks(1)], ["rd", "rc"])


if __name__ == "__main__":
    unittest.main()
