# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of benchmarks/profile: what it reads of perf, and what it makes of that."""

import os
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "benchmarks"))

from compare_lib import command_line, marked
from profile_lib import cli, samples
from profile_lib.cases import CASES

KALLSYMS = "[kernel.kallsyms]"
REPORT = """
 40.00%  ;[kernel.kallsyms]             ;[k] _copy_to_iter
 20.00%  ;mca_btl_diwarp.so             ;[.] vpclmulqdq_update_copy_past
 10.00%  ;mca_btl_diwarp.so             ;[.] dw_qp_progress
  5.00%  ;[kernel.kallsyms]             ;[k] skb_release_data
  5.00%  ;libopen-pal.so.40.30.2        ;[.] opal_progress

"""


class Samples(unittest.TestCase):
    def test_lines(self):
        rows = samples.parse(REPORT)
        self.assertEqual(len(rows), 5)
        self.assertEqual(rows[0], (40.0, KALLSYMS, "_copy_to_iter"))

    def test_no_samples(self):
        for text in ("", "Error:\nThe data has no samples!\n"):
            with self.assertRaises(samples.NotAReport):
                samples.parse(text)

    def test_shares_are_of_what_was_reported(self):
        shares = samples.shares(samples.parse(REPORT))
        self.assertAlmostEqual(sum(shares.values()), 100)
        self.assertAlmostEqual(shares[samples.COPIES], 50)
        self.assertAlmostEqual(shares[samples.CRC], 25)
        self.assertAlmostEqual(shares[samples.DIWARP_REST], 12.5)

    def test_kinds(self):
        for file, symbol, kind in (
                (KALLSYMS, "rep_movs_alternative", samples.COPIES),
                (KALLSYMS, "__alloc_skb", samples.BUFFERS),
                (KALLSYMS, "udp_recvmsg", samples.KERNEL_REST),
                ("[veth]", "veth_xmit", samples.KERNEL_REST),
                ("[vdso]", "__vdso_clock_gettime", samples.REST),
                ("mca_btl_diwarp.so", "vpclmulqdq_update", samples.CRC),
                ("mca_btl_diwarp.so", "udp_recv", samples.DIWARP_REST),
                ("libc.so.6", "__memmove_avx512_unaligned_erms", samples.CRC),
                ("libc.so.6", "__memcmp_evex_movbe", samples.REST),
                ("mca_pml_ob1.so", "mca_pml_ob1_send", samples.OPEN_MPI),
                ("mca_btl_tcp.so", "mca_btl_tcp_frag_recv", samples.OPEN_MPI),
                ("latency_bandwidth", "main", samples.REST)):
            self.assertEqual(samples.kind_of(file, symbol), kind, symbol)


class Tables(unittest.TestCase):
    def test_first_two_ranks(self):
        rows = cli.table_rows(CASES["bcast"], "tcp", [samples.parse(REPORT)] * 8)
        self.assertEqual([r[2] for r in rows], ["0", "1"])
        self.assertEqual({len(r) for r in rows}, {3 + len(samples.KINDS)})

    def test_the_marks_are_there(self):
        marked.check(cli.MARKS, command_line.RESULTS)


if __name__ == "__main__":
    unittest.main()
