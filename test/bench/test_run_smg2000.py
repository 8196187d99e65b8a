# SPDX-License-Identifier: BSD-3-Clause
"""Tests of benchmarks/run_smg2000: what it makes of runs that fail, and of signals."""

import glob
import os
import signal
import subprocess
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class RunSmg2000(unittest.TestCase):
    """With a script in mpirun's place."""

    LINE = ("smg2000: ranks=2 iterations=6 residual=1e-7 converged=1 setup_seconds=1 "
            "solve_seconds=1 comm_share=0.1 peak_rss_kib=1")

    def start(self, script, *more):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        folder = kept.name
        for name, text in (("mpirun", script), ("smg2000", "")):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(os.path.join(folder, name), 0o755)
        self.folder = folder
        environment = {**os.environ, "MPIRUN": os.path.join(folder, "mpirun"), "TMPDIR": folder}
        words = ["--ranks", "2", "--rounds", "2", "--btl", "tcp", "--bindir", folder, *more]
        process = subprocess.Popen(
            [os.path.join(TOP, "benchmarks", "run_smg2000"), *words], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(process.stdout.close)
        return process

    def running(self):
        """The processes that were started by it: they have its environment."""
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    if f"TMPDIR={self.folder}\0" in file.read():
                        found.append(path)
            except OSError:
                continue
        return found

    def test_a_run_that_fails_after_its_result(self):
        for status, wanted in ((0, 0), (139, 1)):
            process = self.start(f"echo {self.LINE}; exit {status}")
            output, _ = process.communicate(timeout=20)
            self.assertEqual(process.returncode, wanted, output)
            self.assertRegex(output, "in every round +" + ("yes" if wanted == 0 else "NO"))

    def check_stopped(self, script, send, number):
        """`script` says that it has begun by a file beside it."""
        process = self.start(script)
        self.assertIn("SMG2000", process.stdout.readline())
        self.assertIn("round 1 of 2", process.stdout.readline())
        begin = time.monotonic()
        while not os.path.exists(os.path.join(self.folder, "begun")):
            self.assertLess(time.monotonic() - begin, 10)
            time.sleep(0.02)
        begin = time.monotonic()
        send(process.pid, number)
        output, _ = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(process.returncode, 128 + number)
        self.assertEqual(output, "")
        # On a busy machine a process that was killed takes a while to end.
        while self.running() and time.monotonic() - begin < 10:
            time.sleep(0.02)
        self.assertEqual(self.running(), [])
        self.assertEqual(glob.glob(os.path.join(self.folder, "tmp.*")), [])

    def test_a_signal_ends_it(self):
        """To all in the foreground, as Ctrl-C, or to the script alone."""
        script = ': >"${0%/*}/begun"; exec sleep 20'
        for send in (os.killpg, os.kill):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                with self.subTest(f"{send.__name__} {number}"):
                    self.check_stopped(script, send, number)

    def test_ranks_that_mpirun_leaves_are_ended(self):
        """One in a process group of its own that is deaf to signals."""
        script = """set -m; trap 'exit 1' TERM
sh -c 'trap "" INT TERM HUP; : >"${0%/*}/begun"; for _ in $(seq 200); do sleep 0.1; done' "$0" &
wait"""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                self.check_stopped(script, os.kill, number)

    def test_mpirun_is_asked_once(self):
        """At a second signal the real one exits without ending its ranks."""
        script = """trap 'echo >>"${0%/*}/asked"' INT TERM HUP; : >"${0%/*}/begun"
until [ -e "${0%/*}/asked" ]; do sleep 0.1; done
sleep 0.5; cp "${0%/*}/asked" "${0%/*}/all"; exit 1"""
        for send in (os.killpg, os.kill):
            self.check_stopped(script, send, signal.SIGINT)
            with open(os.path.join(self.folder, "all"), encoding="ascii") as file:
                self.assertEqual(file.read(), "\n")

    def test_wrong_use(self):
        for words in (["--ranks"], ["--ranks", ""], ["--ranks", "0"], ["--bindir"], ["--btl"],
                      ["--component", "/no/such"], ["--no"], ["--no", "1"], ["more"]):
            process = self.start("exit 9", *words)
            process.communicate(timeout=20)
            self.assertEqual(process.returncode, 2, words)

    def test_one_residual_is_equal_to_nothing(self):
        lines = {"": "none to compare", f"echo {self.LINE}": "equal",
                 f'[ -e "$0.2" ] || echo {self.LINE}; : >"$0.2"': "none to compare",
                 f'echo {self.LINE} | sed "s/1e-7/$$&/"': "DIFFERENT"}
        for script, verdict in lines.items():
            output, _ = self.start(script).communicate(timeout=20)
            self.assertIn(f"residuals of all runs: {verdict}\n", output)
