# SPDX-License-Identifier: BSD-3-Clause
"""Tests of benchmarks/run_smg2000: what it makes of runs that fail, and of Ctrl-C."""

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

    def start(self, script):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        folder = kept.name
        for name, text in (("mpirun", script), ("smg2000", "")):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(os.path.join(folder, name), 0o755)
        environment = {**os.environ, "MPIRUN": os.path.join(folder, "mpirun")}
        words = ["--ranks", "2", "--rounds", "2", "--btl", "tcp", "--bindir", folder]
        process = subprocess.Popen(
            [os.path.join(TOP, "benchmarks", "run_smg2000"), *words], env=environment, text=True,
            stdout=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.stdout.close)
        return process

    def test_a_run_that_fails_after_its_result(self):
        for status, wanted in ((0, 0), (139, 1)):
            process = self.start(f"echo {self.LINE}; exit {status}")
            output, _ = process.communicate(timeout=20)
            self.assertEqual(process.returncode, wanted, output)
            self.assertRegex(output, "in every round +" + ("yes" if wanted == 0 else "NO"))

    def test_ctrl_c_ends_it(self):
        process = self.start("echo begun >&2; exec sleep 60")
        self.assertIn("SMG2000", process.stdout.readline())
        self.assertIn("round 1 of 2", process.stdout.readline())
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=10)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(output, "")
