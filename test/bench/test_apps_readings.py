# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of benchmarks/apps: what it reads of programs and of tools."""

import unittest

from apps_fixture import NPB_TEXT, SMG_LINE, SMG_TEXT, time_line

from apps_lib import cases, programs, readings, session
from apps_lib.cases import Case
from apps_lib.programs import APPLICATIONS
from apps_lib.transports import RC, RD
from compare_lib.transports import TCP


def memory_line(rank, private, point="finalize"):
    return (f"mpi_memory: rank={rank} ranks=4 point={point} private_bytes={private} pss_bytes=700 "
            "socket_queue_bytes=30 socket_slab_bytes=4 udp_sockets=1")


class Npb(unittest.TestCase):
    def check_unusable(self, text, words):
        with self.assertRaises(readings.Unusable) as caught:
            readings.npb_outcome(text, "CG", "S", 4)
        self.assertIn(words, str(caught.exception))

    def test_fields(self):
        got = readings.npb_outcome(NPB_TEXT, "CG", "S", 4)
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
                ("=                        S", "=  W", "ran class W"),
                (" CG Benchmark Completed", "MG Benchmark Completed", "it ran MG"),
                (" CG Benchmark Completed", " CGX Benchmark Completed", "it ran CGX"),
                (" CG Benchmark Completed", " Benchmark Completed", "no 'Benchmark Completed'"),
                (" CG Benchmark Completed", " done: CG Benchmark Completed",
                 "no 'Benchmark Completed'"),
                (" CG Benchmark Completed.", " CG Benchmark Completed.\n MG Benchmark Completed.",
                 "it ran CG, MG")):
            self.assertIn(old, NPB_TEXT)
            self.check_unusable(NPB_TEXT.replace(old, new), words)

    def test_singletons_are_not_one_job(self):
        self.check_unusable(NPB_TEXT + NPB_TEXT, "more than once")

    def test_each_is_called_by_its_title(self):
        for name, title in (("cg", "CG"), ("mg", "MG"), ("lu", "LU"), ("radix", "Radix")):
            text = NPB_TEXT.replace("CG Benchmark Completed", f"{title} Benchmark Completed")
            got = programs.outcome(APPLICATIONS[name], text, "S", 4)
            self.assertEqual(got.seconds, 0.05)
            other = APPLICATIONS["lu" if name == "cg" else "cg"]
            with self.assertRaisesRegex(readings.Unusable, f"it ran {title}"):
                programs.outcome(other, text, "S", 4)

    def test_nothing(self):
        self.check_unusable("", "no 'Time in seconds'")


class Smg(unittest.TestCase):
    def check_unusable(self, text, words):
        with self.assertRaises(readings.Unusable) as caught:
            readings.smg_outcome(text, 4)
        self.assertIn(words, str(caught.exception))

    def test_setup_and_solution(self):
        self.assertEqual(readings.smg_outcome(SMG_TEXT, 4).seconds, 0.75)

    def test_result_has_all_digits_that_were_printed(self):
        for more, residual in (("", "1.5e-07"), (SMG_LINE, "1.4999999999999999e-07"),
                               ("[vm:1] " + SMG_LINE, "1.4999999999999999e-07")):
            got = readings.smg_outcome(SMG_TEXT + more, 4)
            self.assertEqual((got.iterations, got.residual), (5, residual))
            self.assertEqual(got.result, f"5 iterations, residual {residual}")
        self.assertEqual(readings.npb_outcome(NPB_TEXT, "CG", "S", 4).result, "")

    def test_what_may_not_count(self):
        for old, new, words in (("1.5e-07", "1.5e-05", "not converged: residual 1.5e-05"),
                                ("1.5e-07", "nan", "'nan' is no residual"),
                                ("Final Relative", "Relative", "no residual"),
                                ("Iterations", "Cycles", "no number of iterations"),
                                ("Iterations = 5", "Iterations = -5", "no number of iterations"),
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
        self.assertEqual(readings.loss(line.format(3) + "x\n" + line.format(4)),
                         readings.Loss(2 * 15427, 7))
        self.assertEqual(readings.loss(""), readings.Loss(0, 0))

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


if __name__ == "__main__":
    unittest.main()
