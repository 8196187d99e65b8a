# SPDX-License-Identifier: BSD-3-Clause
"""What programs, tools and diwarp print: results of applications, times and memory of each rank."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from compare_lib.figures import parse_pairs

SMG_TOLERANCE = 1.0e-6

NPB_FIELD = re.compile(r"^ *(Class|Time in seconds|Total processes|Mop/s total|Verification)"
                       r" *= *(.*?) *$", re.MULTILINE)
NPB_COMPLETED = re.compile(r"^ *(\w+) Benchmark Completed", re.MULTILINE)
SMG_PHASE = re.compile(r"^\s*\w+ (Setup|Solve):\s*\n\s*wall clock time\s*=\s*(\S+) seconds",
                       re.MULTILINE)
SMG_NORM = re.compile(r"^ *Final Relative Residual Norm\s*=\s*(\S+)", re.MULTILINE)
SMG_ITERATIONS = re.compile(r"^ *Iterations\s*=\s*(\d+)\s*$", re.MULTILINE)
# Ours says it once more, with all digits.
SMG_EXACT_NORM = re.compile(r"\bsmg2000: .*\bresidual=(\S+)")
SMG_GRID = re.compile(r"^ *\(Px, Py, Pz\)\s*=\s*\((\d+), (\d+), (\d+)\)", re.MULTILINE)
LOSS = re.compile(r"^diwarp faults: .*?\b(\d+) datagrams, (\d+) dropped", re.MULTILINE)


class Unusable(Exception):
    """A run whose figures must not count; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """Of a verified run: seconds of its timed part; million operations a second of all ranks, or
    None. Of a solver also iterations and the residual, as it was printed."""

    seconds: float
    mops: float | None = None
    iterations: int | None = None
    residual: str = ""

    @property
    def result(self) -> str:
        """What all runs of the same problem must agree on; "" when nothing is known of it."""
        return f"{self.iterations} iterations, residual {self.residual}" if self.residual else ""


def number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise Unusable(f"'{text}' is no {what}")
    return value


def npb_outcome(text: str, name: str, class_: str, ranks: int) -> Outcome:
    """Of the fields that every NAS benchmark ends with, below its `name`."""
    fields = NPB_FIELD.findall(text)
    by_name = dict(fields)
    if len(fields) != len(by_name):
        raise Unusable("it reported more than once: not one job of all ranks")
    for field in ("Time in seconds", "Verification"):
        if field not in by_name:
            raise Unusable(f"no '{field}' was printed")
    if by_name["Verification"] != "SUCCESSFUL":
        raise Unusable(f"not verified: {by_name['Verification'] or 'nothing said'}")
    completed = NPB_COMPLETED.findall(text)
    if not completed:
        raise Unusable("no 'Benchmark Completed' was printed")
    if completed != [name]:
        raise Unusable(f"it ran {', '.join(completed)}")
    if by_name.get("Class", class_) != class_:
        raise Unusable(f"it ran class {by_name['Class']}")
    if number(by_name.get("Total processes", str(ranks)), "number of processes") != ranks:
        raise Unusable(f"it ran with {by_name['Total processes']} processes")
    mops = number(by_name["Mop/s total"], "rate") if "Mop/s total" in by_name else None
    return Outcome(number(by_name["Time in seconds"], "time"), mops)


def smg_outcome(text: str, ranks: int) -> Outcome:
    """Of SMG2000, ours or the original: set-up and solution; verified means converged."""
    phases = SMG_PHASE.findall(text)
    if [name for name, _ in phases] != ["Setup", "Solve"]:
        raise Unusable("the times of one set-up and one solution were not printed")
    norm = SMG_NORM.search(text)
    if not norm:
        raise Unusable("no residual was printed")
    if number(norm[1], "residual") >= SMG_TOLERANCE:
        raise Unusable(f"not converged: residual {norm[1]}")
    grid = SMG_GRID.search(text)
    if grid and math.prod(map(int, grid.groups())) != ranks:
        raise Unusable(f"it ran with {math.prod(map(int, grid.groups()))} processes")
    iterations = SMG_ITERATIONS.search(text)
    if not iterations:
        raise Unusable("no number of iterations was printed")
    residual = (SMG_EXACT_NORM.search(text) or norm)[1]
    return Outcome(sum(number(seconds, "time") for _, seconds in phases),
                   iterations=int(iterations[1]), residual=residual)


@dataclass(frozen=True)
class Loss:
    """Datagrams that were to be sent, and how many of them were dropped on purpose."""

    datagrams: int
    dropped: int


def loss(text: str) -> Loss:
    """By the fault injector's reports, of all ranks."""
    reports = LOSS.findall(text)
    return Loss(sum(int(datagrams) for datagrams, _ in reports),
                sum(int(dropped) for _, dropped in reports))


# ---- lines of the ranks -------------------------------------------------------------------------


def rank_lines(text: str, word: str) -> list[dict[str, str]]:
    """Lines "WORD: key=value ..."; a prefix that mpirun put first does not matter."""
    found = []
    for line in text.splitlines():
        _, mark, rest = line.partition(f"{word}: ")
        pairs = parse_pairs(rest.split()) if mark else None
        if pairs and "rank" in pairs:
            found.append(pairs)
    return found


def mean_over_ranks(lines: list[dict[str, str]], ranks: int, tool: str) -> dict[str, float]:
    """Mean of each number. Every rank must have reported, once."""
    if sorted(line["rank"] for line in lines) != sorted(map(str, range(ranks))):
        raise Unusable(f"{tool} reported of {len(lines)} ranks, not once of each of {ranks}")
    keys = set.intersection(*(set(line) for line in lines))
    means = {}
    for key in keys:
        try:
            means[key] = sum(float(line[key]) for line in lines) / ranks
        except ValueError:
            continue
    return means


def times(text: str, ranks: int) -> dict[str, float]:
    """Of mpi_time.so: means over the ranks."""
    means = mean_over_ranks(rank_lines(text, "mpi_time"), ranks, "mpi_time.so")
    for key in ("mpi_seconds", "wall_seconds", "init_seconds", "sent_bytes", "calls"):
        if key not in means:
            raise Unusable(f"mpi_time.so did not report {key}")
    return means


def diwarp_memory(text: str, ranks: int, transport: str) -> dict[str, float]:
    """Of btl_diwarp_memory_report: means over the ranks. What it ran over must be `transport`."""
    lines = rank_lines(text, "diwarp_memory")
    means = mean_over_ranks(lines, ranks, "diwarp")
    ran = {line.get("transport", "nothing named") for line in lines}
    if ran != {transport}:
        raise Unusable(f"it ran over {', '.join(sorted(ran))}")
    if "transport_bytes" not in means:
        raise Unusable("diwarp did not report transport_bytes")
    return means


def memory(text: str, ranks: int, point: str) -> dict[str, float]:
    """Of mpi_memory.so at "finalize" or at the "peak": means over the ranks."""
    lines = [line for line in rank_lines(text, "mpi_memory") if line.get("point") == point]
    means = mean_over_ranks(lines, ranks, "mpi_memory.so")
    for key in ("private_bytes", "pss_bytes", "socket_queue_bytes", "socket_slab_bytes"):
        if key not in means:
            raise Unusable(f"mpi_memory.so did not report {key}")
    return means
