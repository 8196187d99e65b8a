# SPDX-License-Identifier: BSD-3-Clause
"""What the unit tests of benchmarks/apps share: outputs of programs and tools, results, and a case
with a folder of its own. To be imported first: it makes the modules of benchmarks/ known."""

import csv
import os
import stat
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "benchmarks"))

from apps_lib.cases import Case
from apps_lib.results import Results

CG, LU = Case("cg", "A", 4), Case("lu", "A", 4)

NPB_TEXT = """

 NAS Parallel Benchmarks 3.4 -- CG Benchmark

 Size:       1400  (class S)
   Number of active processes:     4

 CG Benchmark Completed.
 Class           =                        S
 Size            =                     1400
 Iterations      =                       15
 Time in seconds =                     0.05
 Total processes =                        4
 Active processes=                        4
 Mop/s total     =                  1333.72
 Mop/s/process   =                   333.43
 Operation type  =           floating point
 Verification    =               SUCCESSFUL
 Version         =                    3.4.2
"""

# Of the original, which has a phase more than ours.
SMG_TEXT = """Running with these driver parameters:
  (nx, ny, nz)    = (10, 10, 10)
  (Px, Py, Pz)    = (2, 2, 1)
=============================================
Struct Interface:
=============================================
Struct Interface:
  wall clock time = 9.000000 seconds
  cpu clock time  = 9.000000 seconds

=============================================
Setup phase times:
=============================================
SMG Setup:
  wall clock time = 0.250000 seconds
  cpu clock time  = 0.200000 seconds

=============================================
Solve phase times:
=============================================
SMG Solve:
  wall clock time = 0.500000 seconds
  cpu clock time  = 0.400000 seconds


Iterations = 5
Final Relative Residual Norm = 1.5e-07
"""
# What ours says below that.
SMG_LINE = ("smg2000: ranks=4 iterations=5 residual=1.4999999999999999e-07 converged=1 "
            "setup_seconds=0.250000 solve_seconds=0.500000\n")


def time_line(rank, seconds, **more):
    pairs = {"rank": rank, "ranks": 4, "wall_seconds": 2.0, "mpi_seconds": seconds, "calls": 10,
             "sent_bytes": 4096, "init_seconds": 0.25, "threads": 1, **more}
    return "mpi_time: " + " ".join(f"{key}={value}" for key, value in pairs.items())


def results_of(case, quantity, **by_transport):
    """results_of(CG, "seconds", rd=[1, 2]): of rounds 1 and 2."""
    return add_results(Results(), case, quantity, **by_transport)


def add_results(results, case, quantity, **by_transport):
    for transport, values in by_transport.items():
        for i, value in enumerate(values):
            results.add(case, transport.replace("_", "-"), (i + 1, 1), {quantity: value})
    return results


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def program(self, name, text="#!/bin/sh\n"):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, stat.S_IRWXU)
        return path

    def rows(self, name):
        with open(os.path.join(self.folder, name), newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
