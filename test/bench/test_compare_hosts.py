# SPDX-License-Identifier: BSD-3-Clause
"""Unit tests of benchmarks/compare: TCP over named congestion controls, and what is run and judged
between hosts."""

import contextlib
import io
import os
import sys
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "benchmarks"))

from compare_lib import hosts, jobs, judge, measures, report, session, targets, transports
from compare_lib.figures import Figure
from compare_lib.results import Results
from compare_lib.transports import DIWARP, TCP, TCP_BBR, TCP_CUBIC, TCPS
from test_compare import LATENCY, results_of


class BetterTcp(unittest.TestCase):
    def test_the_better_median_counts_whole(self):
        """Not the better one of each round."""
        for quantity in ("latency", "stream"):
            results, figure = Results(), Figure(quantity, 8)
            for round_, cubic, bbr in ((1, 2, 20), (2, 8, 20), (3, 5, 6)):
                results.add("pt2pt", figure, DIWARP, round_, 2)
                results.add("pt2pt", figure, TCP_CUBIC, round_, cubic)
                results.add("pt2pt", figure, TCP_BBR, round_, bbr)
            better = TCP_CUBIC if quantity == "latency" else TCP_BBR
            self.assertEqual(results.rounds_of(figure, TCP), results.rounds_of(figure, better))
            ratio = results.ratio((figure, DIWARP), (figure, TCP))
            self.assertEqual(ratio.median, 2 / (5 if quantity == "latency" else 20))

    def test_one_alone_is_the_better(self):
        results = results_of(diwarp=[2], tcp_bbr=[4])
        self.assertEqual(results.summary(LATENCY, TCP).median, 4)
        self.assertIsNone(results_of(diwarp=[2]).summary(LATENCY, TCP))


class Plan(unittest.TestCase):
    def test_both_congestion_controls_where_hosts_are_apart_and_one_elsewhere(self):
        for group, wanted in (("mtu1500", set(TCPS)), ("loss", set(TCPS)), ("pt2pt", set(TCPS)),
                              ("pairs", {TCP_CUBIC}), ("rc", {TCP_CUBIC})):
            s = session.Session(None, {}, measures.FULL, [group], [DIWARP, *TCPS], Results())
            seats = [seat for task in s.tasks(1) for seat in getattr(task, "seats", (task,))]
            self.assertEqual({seat.transport for seat in seats} & set(TCPS), wanted, group)

    def test_every_power_of_two_is_a_target_between_hosts(self):
        """Of quick mode's sizes only what quick mode measures is judged."""
        for group in measures.SWEEPS:
            for quantity in ("latency", "stream"):
                sizes = [t.figure.size for t in targets.TARGETS
                         if t.group == group and t.figure.quantity == quantity]
                self.assertEqual(sizes, [1 << i for i in range(23)])
        results = Results()
        results.add("mtu1500", Figure("stream", 8, "MTU 1500"), DIWARP, 1, 5)
        results.add("mtu1500", Figure("stream", 8, "MTU 1500"), TCP_BBR, 1, 4)
        [verdict] = judge.judge(results, ["mtu1500"])
        self.assertEqual((verdict.value.median, verdict.verdict), (1.25, judge.MET))


@unittest.skipIf(os.geteuid(), "network namespaces need root")
class PairsOfHosts(unittest.TestCase):
    PROGRAM = """import socket
listener = socket.create_server(("{address}", 0))
dialled = socket.create_connection(listener.getsockname())
for end in (dialled, listener.accept()[0]):
    print(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(bytes(1)).decode())
"""

    def test_routes_name_the_congestion_control(self):
        """Of both ends, on loopback and between the hosts; with several pairs side by side."""
        launcher = transports.Launcher("mpirun", "", 2)
        with contextlib.ExitStack() as stack:
            try:
                pairs = [stack.enter_context(hosts.Hosts(launcher, name, number))
                         for number, name in enumerate(("reno", "bbr"))]
            except (hosts.NoHosts, hosts.NoCongestionControl) as why:
                self.skipTest(str(why))
            for pair in pairs:
                command = pair.on_one([sys.executable, "-c",
                                       self.PROGRAM.format(address="127.0.0.1")])
                self.assertEqual(jobs.run(command, 20).split(), [pair.congestion] * 2)
                routes = jobs.run(["ip", "-n", pair.names[1], "route"], 10)
                self.assertIn(f"congctl {pair.congestion}", routes)

    def test_one_that_no_kernel_has(self):
        launcher = transports.Launcher("mpirun", "", 2)
        try:
            with self.assertRaises(hosts.NoCongestionControl) as caught:
                hosts.Hosts(launcher, "nonesuch").__enter__()
        except hosts.NoHosts as why:
            self.skipTest(str(why))
        self.assertIn("nonesuch", str(caught.exception))
        self.assertFalse(os.path.exists(f"/run/netns/dwc0{os.getpid()}"))


class WithoutHosts(unittest.TestCase):
    def session(self, default):
        s = session.Session(None, {}, measures.QUICK, list(measures.GROUPS), [DIWARP, *TCPS],
                            Results())
        with contextlib.redirect_stdout(io.StringIO()), \
                mock.patch.object(session, "default_congestion_control", lambda: default):
            s._do_without_hosts(["mtu1500"], "not allowed")
        return s

    def test_the_kernels_default_is_what_there_is(self):
        s = self.session("bbr")
        self.assertEqual(s.transports, [DIWARP, TCP_BBR])
        self.assertIn("default is bbr", s.results.absent[TCP_CUBIC])
        self.assertEqual(s.results.skipped, {"mtu1500": "not allowed"})
        self.assertIn("tcp, CUBIC: this kernel's default is bbr",
                      report.figure_tables(s.results))
        self.assertEqual(self.session("reno").transports, [DIWARP])


if __name__ == "__main__":
    unittest.main()
