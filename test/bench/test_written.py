# SPDX-License-Identifier: BSD-3-Clause
"""What benchmarks/compare, apps and memory leave in their output folder when they are stopped, and
of an earlier run."""

import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from apps_fixture import NPB_TEXT, TOP

# In mpirun's place: so many runs print what they should, the next one tells that it has begun, and
# does not end. What a run prints and what the tools write is in files beside it.
MPIRUN = """#!/bin/sh
cd "$(dirname "$0")" || exit 9
case $1 in --version) echo "mpirun (Open MPI) 4"; exit ;; esac
echo >>runs
if [ "$(wc -l <runs)" -gt "$(cat well)" ]; then
    : >begun
    exec sleep 60
fi
for word; do
    case $word in DIWARP_MPI_MEMORY_OUTPUT=*) cat memory >"${word#*=}" ;; esac
done
cat output
"""
MEMORY = "".join(f"mpi_memory: rank={rank} ranks=2 point=finalize private_bytes=600 pss_bytes=900 "
                 "anonymous_bytes=7000 heap_bytes=5000 tcp_sockets=2 udp_sockets=1 "
                 "socket_queue_bytes=30 socket_slab_bytes=70\n" for rank in range(2))
OUTPUT = ("latency bytes=8 us=2.5\nstream bytes=1048576 direction=uni MBps=4321 cpu_s_per_GB=0.4\n"
          + NPB_TEXT)
OLD = "of an earlier run\n"
SECONDS = 30


class Written(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.bin, self.out = os.path.join(kept.name, "bin"), os.path.join(kept.name, "out")
        os.makedirs(self.bin)
        for name, text in (("mpirun", MPIRUN), ("ompi_info", "#!/bin/sh\n"), ("memory", MEMORY),
                           ("output", OUTPUT)):
            self.write(os.path.join(self.bin, name), text)
        for name in ("latency_bandwidth", "npb_cg", "all_to_all", "mpi_memory.so",
                     "mca_btl_diwarp.so"):
            self.write(os.path.join(self.bin, name), "")

    @staticmethod
    def write(path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def text(self, name):
        with open(os.path.join(self.out, name), encoding="utf-8") as file:
            return file.read()

    def rows(self, name):
        with open(os.path.join(self.out, name), newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def left(self):
        """Files with what the earlier run wrote, and those of this one."""
        names = [os.path.relpath(os.path.join(folder, name), self.out)
                 for folder, _, names in os.walk(self.out) for name in names]
        old = {name for name in names if self.text(name) == OLD}
        return old, set(names) - old

    def start(self, words, old, well):
        """`well`: runs that end."""
        for name in (*old, "mine.txt"):
            self.write(os.path.join(self.out, name), OLD)
        self.write(os.path.join(self.bin, "well"), str(well))
        environment = {**os.environ, "MPIRUN": os.path.join(self.bin, "mpirun"),
                       "OMPI_INFO": os.path.join(self.bin, "ompi_info"),
                       "DIWARP_BUILD": self.bin, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        process = subprocess.Popen(
            [sys.executable, os.path.join(TOP, "benchmarks", words[0]), *words[1:],
             "--component", self.bin, "--bindir", self.bin, "--output", self.out],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def stop(self, words, old, well, number=signal.SIGINT):
        """Begins, and is stopped in the run after those that end."""
        process, begin = self.start(words, old, well), time.monotonic()
        while not os.path.exists(os.path.join(self.bin, "begun")):
            if process.poll() is not None or time.monotonic() - begin > SECONDS:
                process.kill()
                self.fail(process.communicate()[0])
            time.sleep(0.02)
        process.send_signal(number)
        output, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 128 + number, output)

    def finish(self, words, old, status=0):
        process = self.start(words, old, 1000)
        output, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, status, output)
        return output


class Compare(Written):
    WORDS = ["compare", "--only", "pairs", "--transports", "diwarp", "--rounds", "2"]
    RESULTS = ["rounds.csv", "summary.csv", "failures.csv", "targets.csv"]
    PLOTS = [f"plots/{name}" for name in ("latency.png", "latency.gp", "latency-diwarp.dat",
                                          "bandwidth.png", "bandwidth-raw-udp.dat")]
    OLD = [*RESULTS, *PLOTS, "notes.md", "plots/mine.png"]
    KEPT = {"mine.txt", "notes.md", "plots/mine.png"}

    def words(self):
        return [*self.WORDS, "--markdown", os.path.join(self.out, "notes.md")]

    def test_what_was_measured_until_the_signal_is_kept(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                self.setUp()
                self.stop(self.words(), self.OLD, 2, number)
                self.assertEqual(self.left(), (self.KEPT, {"rounds.csv", "summary.csv"}))
                self.assertEqual([(row["round"], row["value"]) for row in self.rows("rounds.csv")
                                  if row["quantity"] == "stream"], [("1", "4321")])
                self.assertEqual({row["values"] for row in self.rows("summary.csv")}, {"1"})

    def test_stopped_before_anything_was_measured(self):
        self.stop(self.words(), self.OLD, 1)
        self.assertEqual(self.left(), ({*self.OLD, "mine.txt"}, set()))

    def test_what_is_not_written_again_goes(self):
        self.finish(self.words(), self.OLD)
        self.assertEqual(self.left(), ({"mine.txt", "plots/mine.png"},
                                       {"notes.md", "rounds.csv", "summary.csv", "targets.csv"}))

    def test_all_runs_failed(self):
        """But the probe."""
        self.write(os.path.join(self.bin, "output"), "latency bytes=8 nothing=1\n")
        self.finish(self.words(), self.OLD, 1)
        self.assertEqual(self.left(), ({"mine.txt", "plots/mine.png"},
                                       {"notes.md", "rounds.csv", "summary.csv", "targets.csv"}))


class Apps(Written):
    WORDS = ["apps", "--apps", "cg", "--classes", "S", "--ranks", "4", "--only", "time",
             "--transports", "rd", "--rounds", "2"]
    OLD = [*Compare.RESULTS, "plots/apps-runtime.png", "plots/apps-memory-radix.dat"]

    def test_what_was_measured_until_the_signal_is_kept(self):
        self.stop(self.WORDS, self.OLD, 2, signal.SIGTERM)
        self.assertEqual(self.left(), ({"mine.txt"}, {"rounds.csv", "summary.csv", "failures.csv"}))
        self.assertEqual([row["value"] for row in self.rows("rounds.csv")
                          if row["quantity"] == "seconds"], ["0.05"])

    def test_stopped_before_anything_was_measured(self):
        self.stop(self.WORDS, self.OLD, 1)
        self.assertEqual(self.left(), ({*self.OLD, "mine.txt"}, set()))

    def test_what_is_not_written_again_goes(self):
        """The rounds too, when they are put elsewhere."""
        for place in ("rounds.csv", "figures.csv"):
            with self.subTest(place):
                self.setUp()
                self.finish([*self.WORDS, "--csv", os.path.join(self.out, place)], self.OLD)
                self.assertEqual(self.left(), ({"mine.txt"}, {place, "summary.csv", "failures.csv",
                                                              "targets.csv"}))


class Memory(Written):
    WORDS = ["memory", "--transports", "tcp", "--ranks", "2,4", "--rounds", "1", "--tools"]
    OLD = ["points.csv", "model.csv", "targets.csv", "plots/memory.png", "plots/memory-rd.dat"]

    def test_what_was_measured_until_the_signal_is_kept(self):
        """Of shared memory and of tcp."""
        self.stop([*self.WORDS, self.bin], self.OLD, 2)
        self.assertEqual(self.left(), ({"mine.txt"}, {"points.csv"}))
        self.assertEqual([(row["transport"], row["ranks"]) for row in self.rows("points.csv")],
                         [("tcp", "2")])

    def test_stopped_before_anything_was_measured(self):
        self.stop([*self.WORDS, self.bin], self.OLD, 1)
        self.assertEqual(self.left(), ({*self.OLD, "mine.txt"}, set()))

    def test_what_is_not_written_again_goes(self):
        self.finish([*self.WORDS, self.bin], [*self.OLD, "plots/memory-tcp.dat"], 1)
        old, new = self.left()
        self.assertEqual(old, {"mine.txt"})
        self.assertTrue({"points.csv", "model.csv", "targets.csv"} <= new, new)


if __name__ == "__main__":
    unittest.main()
