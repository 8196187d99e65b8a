# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of benchmarks/apps: what it computes of its results, judges and writes."""

import os
import unittest

from apps_fixture import CG, LU, Folder, add_results, results_of

from apps_lib import cases, figures, judge, markdown, plots, report
from apps_lib.cases import Case
from apps_lib.programs import APPLICATIONS
from apps_lib.results import Results
from apps_lib.transports import RC, RC_SRQ, RD
from compare_lib.judge import MET, MISSED, NOT_JUDGED
from compare_lib.transports import TCP


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

    def test_memory_of_a_run_for_time_is_not_judged(self):
        """It is read at the end, not at its most."""
        title = "SMG2000, 64 ranks: memory of a process RD ÷ RC"
        watched, timed = Case("smg2000", "W", 64, cases.MEMORY), Case("smg2000", "W", 64)
        results = results_of(timed, "memory_bytes", rd=[10], rc=[100])
        v = self.verdicts(results)[title]
        self.assertEqual((v.verdict, v.why), (NOT_JUDGED, "not run for memory"))
        results = results_of(watched, "memory_bytes", rd=[71], rc=[100])
        add_results(results, timed, "memory_bytes", rd=[10], rc=[100])
        v = self.verdicts(results)[title]
        self.assertEqual((v.verdict, v.value.median), (MISSED, 0.71))

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
            add_results(results, case, figures.RUNTIME, rd=[1], rc=[8])
        return results

    def test_csv(self):
        results = self.full_results()
        results.failed[CG, RC_SRQ] = "no end after 9 s"
        results.write_rounds(os.path.join(self.folder, "rounds.csv"))
        results.write_summary(self.folder)
        results.write_failures(self.folder)
        first = self.rows("rounds.csv")[0]
        self.assertEqual([first[k] for k in ("application", "class", "ranks", "purpose", "quantity",
                                             "unit", "transport", "round", "turn",
                                             "value")],
                         ["cg", "A", "4", "time", "seconds", "s", "rd", "1", "1", "1"])
        self.assertEqual(list(self.rows("summary.csv")[0])[7:12],
                         ["values", "median", "low", "high", "spread"])
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
        text = markdown.document(results, verdicts, "about")
        self.assertIn("| SMG2000 W, 64 ranks | 8.00 | 64.00 | +88 % |", text)
        self.assertIn("| CG A, 4 ranks: communication time RD ÷ RC | < 1 | 0.375 |", text)
        text = markdown.summary(results, verdicts, "about", ["p/apps-runtime.png"])
        self.assertIn("| RD saves | runtime, of RC | runtime, of tcp BTL | communication time, of RC |", text)
        self.assertIn("| CG A, 4 ranks | +62 % | +75 % | +62 % | +75 % | +75 % |", text)
        self.assertIn("| SMG2000 W, 64 ranks, at most | - | - | - | - | +88 % |", text)
        self.assertIn("![apps-runtime](p/apps-runtime.png)", text)

    def test_charts(self):
        results = self.full_results()
        results.failed[LU, TCP] = "no"
        self.assertTrue(plots.write_savings(results, self.folder, "x", figures.RUNTIME, "title"))
        with open(os.path.join(self.folder, "x.dat"), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), [
                '"CG\\nA\\n4 ranks" 62.50 50.00 75.00 75.00 75.00 75.00',
                '"LU\\nA\\n4 ranks" 25.00 0.00 50.00 - - -'])
        with open(os.path.join(self.folder, "x.gp"), encoding="utf-8") as file:
            self.assertIn('title "against tcp BTL"', file.read())
        self.assertEqual(plots.write_memory(results, self.folder, "smg2000"), "apps-memory-smg2000")
        with open(os.path.join(self.folder, "apps-memory-smg2000.dat"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "4 8.000 4.000\n64 8.000 64.000\n")
        self.assertEqual(plots.write_memory(results, self.folder, "radix"), "")
        self.assertFalse(plots.write_savings(Results(), self.folder, "y", figures.RUNTIME, "t"))


if __name__ == "__main__":
    unittest.main()
