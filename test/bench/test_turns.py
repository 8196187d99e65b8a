# SPDX-License-Identifier: BSD-3-Clause
"""Programs that take turns: who sits in a ring, what becomes of its figures, and of who fails."""

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

from compare_lib import hosts, jobs, measures, session, transports
from compare_lib.figures import Figure
from compare_lib.results import Results
from compare_lib.transports import TCP, UCX

LATENCY = Figure("latency", 8)
SAID = "each values=1,2\nlatency bytes=8 us=1.5"


def session_of(groups=()):
    return session.Session(transports.Launcher("mpirun", "", 2), {"raw_sockets": "raw", "p": "p"},
                           measures.FULL, list(groups), list(transports.COMPARED), Results())


class Seats(unittest.TestCase):
    def test_rings(self):
        """Of one name, in one group: as many samples, in one place, none that may be missing."""
        s = session_of(measures.GROUPS)
        rings = [task for task in s.tasks(1) if isinstance(task, session.Ring)]
        self.assertEqual(len({ring.title for ring in rings}), len(rings))
        for ring in rings:
            of = [seat.measure for seat in ring.seats]
            self.assertEqual(len({(m.group, m.ring, m.samples, m.mtu, m.rounds) for m in of}), 1,
                             ring.title)
            self.assertFalse([m for m in of if m.permille is not None or m.mbit or m.optional],
                             ring.title)

    def test_a_ring_is_the_same_in_each_round(self):
        """So its duration is known."""
        s = session_of(["pt2pt"])
        self.assertEqual(s.tasks(1), s.tasks(2))
        self.assertNotEqual(s.tasks(1)[0].seats, s.tasks(2)[0].seats)

    def test_programs_know_their_seat(self):
        """Also the ranks, which another host may start."""
        measure = measures.Measure("pt2pt", "p", "-r {r}", (1, 1), (TCP,), ring="r")
        with tempfile.TemporaryDirectory() as folder:
            [command] = session_of()._seated(session.Task(measure, TCP), 1, f"{folder}/f:1:2")
            self.assertTrue(os.path.isdir(f"{folder}/f-1"))
        self.assertEqual(command[:3], ["env", f"DIWARP_BENCH_TURNS={folder}/f:1:2",
                                       f"TMPDIR={folder}/f-1"])
        self.assertIn("-x DIWARP_BENCH_TURNS", " ".join(command))

    def test_raw_servers_of_a_ring_have_ports_of_their_own(self):
        place = hosts.Hosts.__new__(hosts.Hosts)
        place.addresses, place._inside = ("10.0.0.1", "10.0.0.2"), lambda host: []
        ports = {place.raw_commands(["raw"], number)[0][-1] for number in range(3)}
        self.assertEqual(len(ports), 3)


class Rings(unittest.TestCase):
    def run_ring(self, tcp, ucx, program="p"):
        """(session, what was shown) after a ring of two shell commands; how many took turns is $N,
        and what they share $F."""
        measure = measures.Measure("pt2pt", program, "", (1, 1), (TCP, UCX), ring="r")
        seats = tuple(session.Task(measure, transport) for transport in (TCP, UCX))
        s, commands = session_of(), {TCP: tcp, UCX: ucx}
        s._seated = lambda seat, number, turns: [
            ["env", f"F={turns.split(':')[0]}", f"N={turns.split(':')[2]}",
             "sh", "-c", commands[seat.transport]]]
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            s.run_task(session.Ring("pt2pt", "r", seats), 1)
        return s, shown.getvalue()

    def test_each_sample_is_kept(self):
        s, _ = self.run_ring(f"echo '{SAID}'", f"echo '{SAID}'")
        self.assertEqual(s.failures, 0)
        self.assertEqual(s.results.rounds_of(LATENCY, TCP), {(1, 1): 1, (1, 2): 2})

    def test_who_fails_leaves_the_ring(self):
        """The others of it are measured."""
        s, shown = self.run_ring(f"echo '{SAID}'", "sleep 0.1; exit 3")
        self.assertIn("UCX tcp FAILED", shown)
        self.assertEqual((s.failures, s.results.failed), (1, {("pt2pt", UCX)}))
        self.assertEqual(s.results.rounds_of(LATENCY, TCP), {(1, 1): 1, (1, 2): 2})

    def test_who_holds_the_turn_fails_and_not_who_waits(self):
        third = "".join(f"\\{byte:03o}" for byte in (3).to_bytes(4, sys.byteorder))
        waits = (f"test $N = 1 || {{ until test -e $F.held; do sleep 0.02; done; "
                 f"echo {session.NO_TURN} >&2; exit 3; }}; echo '{SAID}'")
        holds = f"printf '{third}' >$F; touch $F.held; echo amid its turn; sleep 20"
        with tempfile.TemporaryDirectory() as folder, mock.patch("tempfile.tempdir", folder):
            s, shown = self.run_ring(waits, holds)
        self.assertIn("UCX tcp FAILED", shown)
        self.assertIn("amid its turn", shown)
        self.assertEqual((s.failures, s.results.failed), (1, {("pt2pt", UCX)}))
        self.assertEqual(s.results.rounds_of(LATENCY, TCP), {(1, 1): 1, (1, 2): 2})

    def test_what_the_kernel_does_not_have_is_no_failure(self):
        """Of raw sockets; of others nothing is expected to be missing."""
        said = "echo stream mode=gso_gro unsupported=1"
        s, _ = self.run_ring(f"echo '{SAID}'", said, measures.RAW_PROGRAM)
        self.assertEqual((s.failures, s.results.failed), (0, set()))
        self.assertEqual(s.results.rounds_of(LATENCY, UCX), {})
        s, _ = self.run_ring(f"echo '{SAID}'", said)
        self.assertEqual(s.failures, 1)

    def test_who_prints_no_figure_fails(self):
        s, shown = self.run_ring(f"echo '{SAID}'", "true")
        self.assertIn("no figure", shown)
        self.assertEqual(s.results.failed, {("pt2pt", UCX)})


class Together(unittest.TestCase):
    def test_output_of_each(self):
        said = jobs.run_together([[["echo", "a"]], [["echo", "b"], ["echo", "c"]]], 10)
        self.assertEqual(said, ["a\n", "b\nc\n"])

    def test_who_failed(self):
        for commands in ([[["sleep", "20"]], [["false"], ["sleep", "20"]]],
                         [[["true"]], [["sleep", "22"]]],
                         [[["true"]], [["/no/such/program"]]]):
            with self.assertRaises(jobs.JobFailed) as caught:
                jobs.run_together(commands, 2)
            self.assertEqual(caught.exception.which, 1, commands)

    def test_who_keeps_others_waiting_when_time_is_up(self):
        with self.assertRaises(jobs.JobFailed) as caught:
            jobs.run_together([[["sleep", "20"]], [["sleep", "21"]]], 0.2, lambda: 1, "waits")
        self.assertEqual((caught.exception.which, caught.exception.command), (1, ["sleep", "21"]))


if __name__ == "__main__":
    unittest.main()
