# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of what benchmarks/compare writes: CSV, tables, Markdown, plots."""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "benchmarks"))

from compare_lib import judge, markdown, marked, measures, plots, provenance, report, targets
from compare_lib.figures import Figure
from compare_lib.measures import LOSS_SCENES
from compare_lib.results import Results
from compare_lib.transports import DIWARP, RAW_UDP, TCP, TCP_BBR, TCP_CUBIC
from test_compare import results_of


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def rows(self, name):
        with open(os.path.join(self.folder, name), newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_csv(self):
        results = results_of(diwarp=[2, 3], tcp=[4, 5])
        results.write_rounds(self.folder)
        results.write_summary(self.folder, (TCP,))
        judge.write_verdicts(judge.judge(results, ["pt2pt"]), self.folder)
        self.assertEqual([(r["transport"], r["round"], r["value"]) for r in self.rows("rounds.csv")],
                         [("diwarp", "1", "2"), ("diwarp", "2", "3"), ("tcp-cubic", "1", "4"),
                          ("tcp-cubic", "2", "5")])
        diwarp = self.rows("summary.csv")[0]
        self.assertEqual((diwarp["median"], diwarp["ratio_to_tcp"]), ("2.5", "0.5500"))
        count = sum(t.group == "pt2pt" for t in targets.TARGETS)
        self.assertEqual(len(self.rows("targets.csv")), count)

    def test_tables(self):
        results = results_of(diwarp=[2, 3], tcp=[4, 5])
        text = report.figure_tables(results)
        self.assertIn("2.50 (40 %)", text)
        self.assertIn("÷ tcp BTL", text)
        text = report.verdict_table(judge.judge(results, ["pt2pt"]))
        self.assertIn("targets: 1 met, 0 missed, 16 not judged", text)

    def test_markdown_between_marks(self):
        path = os.path.join(self.folder, "README.md")
        text = f"before\n{markdown.MARKS.begin}\nold\n{markdown.MARKS.end}\nafter\n"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.assertTrue(marked.has_marks(path, markdown.MARKS))
        marked.write(path, "new\n", markdown.MARKS)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), text.replace("old", "new"))
        other = os.path.join(self.folder, "other.md")
        marked.write(other, "new\n", markdown.MARKS)
        with open(other, encoding="utf-8") as file:
            self.assertEqual(file.read(), "new\n")
        with self.assertRaises(SystemExit):
            marked.check(markdown.MARKS, other)

    def test_the_marks_are_there(self):
        marked.check(markdown.MARKS)

    def test_document(self):
        results = results_of(diwarp=[2], tcp=[4])
        verdicts = judge.judge(results, ["pt2pt"])
        text = markdown.document(results, verdicts, "about", ["p/latency.png"])
        self.assertIn("| 8 B half round trip, µs | 4.00 | 2.00 | 0.50 |", text)
        self.assertIn("![latency](p/latency.png)", text)

    def test_summary(self):
        results = results_of(diwarp=[2], tcp=[4])
        verdicts = judge.judge(results, ["pt2pt"])
        text = markdown.summary(results, verdicts, "about", ["p/latency.png"])
        self.assertIn("| 8 B half round trip, µs | - | - | - | 4.00 | - | - | 2.00 | 0.50 | - | - |",
                      text)
        self.assertIn("One host, targets: 1 met, 0 missed, 16 not judged.", text)
        self.assertTrue(text.endswith("![latency](p/latency.png)\n"))

    def test_markdown_cells_have_their_spread(self):
        results = results_of(diwarp=[2, 3], tcp=[4, 4])
        lines = markdown.figure_tables(results)
        self.assertIn("|  | tcp, CUBIC | diwarp | diwarp ÷ tcp BTL |", lines)
        self.assertIn("| 8 B half round trip, µs | 4.00 (0 %) | 2.50 (40 %) | 0.62 |", lines)
        self.assertEqual(sum(line.endswith(":") for line in lines), 1)

    def test_markdown_has_no_column_without_figures(self):
        """Nor a ratio of shares."""
        results = Results()
        hidden = Figure("hidden", 4 << 20, "both sleep")
        for transport, value in ((DIWARP, 0.9), (TCP_CUBIC, 0.5)):
            results.add("overlap", hidden, transport, 1, value)
        self.assertIn("|  | tcp, CUBIC | diwarp |", markdown.figure_tables(results))

    def test_rows_of_markdown_are_measured(self):
        """By quantity, as far as the program tells, and by scene."""
        for group, figures in markdown.ROWS.items():
            scenes = {m.scene for m in measures.MEASURES if m.group == group}
            for figure in figures:
                self.assertIn(figure.scene, scenes, figure.title)
        shown = {figure for figures in markdown.ROWS.values() for figure in figures}
        self.assertLessEqual(set(markdown.SUMMARY), shown)

    def test_loss_stands_beside_the_same_without(self):
        results = Results()
        for transport, none, lost in ((DIWARP, 2000, 1500), (TCP_BBR, 1000, 18)):
            for scene, value in ((LOSS_SCENES[0], none), (LOSS_SCENES[10], lost)):
                results.add("loss", Figure("stream", 1 << 20, scene), transport, 1, value)
        text = "\n".join(markdown.summary_table(results))
        self.assertIn("0 % lost, MB/s | - | - | - | - | 1000 | - | 2000 |", text)
        self.assertIn("1 % lost, MB/s | - | - | - | - | 18 [1.8 %] | - | 1500 [75 %] | 83.33", text)

    def test_a_congestion_control_that_is_not_there_is_told(self):
        results = results_of(diwarp=[2], tcp_bbr=[4])
        results.absent[TCP_CUBIC] = "this kernel gives no cubic: Invalid argument"
        for text in (markdown.summary(results, [], "about", []),
                     markdown.document(results, [], "about", [])):
            self.assertIn("\ntcp, CUBIC: this kernel gives no cubic: Invalid argument\n", text)

    def test_curve_data(self):
        results = Results()
        for size in (64, 1, 8):
            results.add("mtu1500", Figure("latency", size, "MTU 1500"), DIWARP, 1, size / 10)
        results.add("mtu1500", Figure("stream", 1 << 20, "MTU 1500"), RAW_UDP, 1, 9000)
        results.add("mtu1500", Figure("latency", 8, "MTU 1500"), TCP_BBR, 1, 3)
        command = plots.plot_command(results, "latency", "latency", self.folder)
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["latency-diwarp.dat", "latency-tcp-bbr.dat"])
        self.assertIn("linespoints", command)
        with open(os.path.join(self.folder, "latency-diwarp.dat"), encoding="ascii") as file:
            self.assertEqual(file.read(), "1 0.1\n8 0.8\n64 6.4\n")
        plots.plot_command(results, "stream", "bandwidth", self.folder)
        with open(os.path.join(self.folder, "bandwidth-raw-udp.dat"), encoding="ascii") as file:
            self.assertEqual(file.read(), "1048576 9000\n")


class Provenance(unittest.TestCase):
    def test_all_options_are_told_but_places(self):
        words = ["--full", "--readme", "--component", "/c", "--only", "pt2pt,rc", "--output=/o",
                 "--bindir", "/b", "--rounds", "3"]
        self.assertEqual(provenance.command_text("benchmarks/compare", words),
                         "benchmarks/compare --full --only pt2pt,rc --rounds 3")
        self.assertEqual(provenance.command_text("c", ["--npb", "my npb"]), "c --npb 'my npb'")

    @unittest.skipUnless(shutil.which("git"), "no git")
    def test_version_of_a_checkout_and_of_a_release(self):
        with tempfile.TemporaryDirectory() as top:
            with open(os.path.join(top, "configure.ac"), "w", encoding="utf-8") as file:
                file.write("AC_PREREQ([2.69])\nAC_INIT([diwarp], [1.2.3], [someone])\n")
            self.assertEqual(provenance.version_text(top), "1.2.3")
            git = ["git", "-C", top, "-c", "user.name=n", "-c", "user.email=e"]
            with open(os.path.join(top, "README.md"), "w", encoding="utf-8") as file:
                file.write("results\n")
            for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "m"],
                          ["tag", "-a", "v7", "-m", "m"]):
                subprocess.run(git + words, check=True)
            with open(os.path.join(top, "README.md"), "a", encoding="utf-8") as file:
                file.write("renewed\n")
            self.assertEqual(provenance.version_text(top), "v7")
            with open(os.path.join(top, "configure.ac"), "a", encoding="utf-8") as file:
                file.write("more\n")
            self.assertEqual(provenance.version_text(top), "v7-dirty")

    def test_made_by(self):
        self.assertRegex(provenance.made_by("benchmarks/apps", ["--quick"]),
                         r"^Made by `benchmarks/apps --quick` of version \S+ on "
                         r"\d{4}-\d\d-\d\d \(UTC\)$")

    def test_other_programs_than_the_checkouts(self):
        for words in (["--component", "/c"], ["--bindir=/b"], ["--tools", "/t"]):
            self.assertIn(" of another build than that of version ",
                          provenance.made_by("benchmarks/apps", words))


if __name__ == "__main__":
    unittest.main()
