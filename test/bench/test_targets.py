# SPDX-License-Identifier: BSD-3-Clause
"""benchmarks/targets: what it says of its parts, and where."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import tempfile
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LOADER = importlib.machinery.SourceFileLoader("targets", f"{TOP}/benchmarks/targets")
targets = importlib.util.module_from_spec(importlib.util.spec_from_loader("targets", LOADER))
LOADER.exec_module(targets)


class Parts(unittest.TestCase):
    def run_parts(self, words, **parts):
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "RESULTS.md")
            with open(path, "w", encoding="utf-8") as file:
                for name in parts:
                    marks = targets.marks_of(name)
                    file.write(f"before\n{marks.begin}\nold {name}\n{marks.end}\nafter\n")
            with mock.patch.object(targets, "PARTS", parts), \
                    mock.patch.object(targets, "RESULTS", path), contextlib.redirect_stdout(said):
                status = targets.main(words)
            with open(path, encoding="utf-8") as file:
                return status, said.getvalue(), file.read()

    def test_all_met(self):
        status, said, written = self.run_parts(["--readme"], one=("echo first", 9),
                                               two=("echo second", 9))
        self.assertEqual(status, 0)
        self.assertIn("`echo first`:\nfirst\n", said)
        self.assertTrue(written.startswith("before\n") and written.endswith("after\n"), written)
        self.assertIn("```\nsecond\n```", written)
        self.assertNotIn("old", written)

    def test_one_missed__the_others_run(self):
        status, said, written = self.run_parts([], one=("false", 9), two=("sleep 9", 0.1),
                                               three=("echo third", 9))
        self.assertEqual(status, 1)
        self.assertIn("`false` (failed with status 1):", said)
        self.assertIn("`sleep 9` (no end after 0.1 s):", said)
        self.assertIn("third", said)
        self.assertIn("old", written)

    def test_one_of_them_renewed(self):
        status, _, written = self.run_parts(["--readme", "--only", "two"], one=("false", 9),
                                            two=("echo second", 9))
        self.assertEqual(status, 0)
        self.assertIn("\nold one\n", written)
        self.assertNotIn("old two", written)
        self.assertIn("```\nsecond\n```", written)

    def test_wrong_options(self):
        for words in (["--only", "nothing"], ["more"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                self.run_parts(words, one=("true", 9), two=("true", 9))


if __name__ == "__main__":
    unittest.main()
