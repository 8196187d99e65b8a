# SPDX-License-Identifier: BSD-3-Clause
"""The memory of a process, and the part of it that its transport needs.

For every transport alike, it is the difference to the same program with as many ranks over shared
memory, which uses no network: there the process holds what MPI itself keeps of so many ranks (their
process structures, communicators, matching), and the shared segments are not its own. What is
compared is memory that the process has written to (Anonymous of smaps_rollup: it costs that now),
and the kernel's memory for its sockets: those themselves, and what is queued in them.

Buffers that were set aside but not written to cost nothing yet; what malloc has handed out (heap) and
what diwarp itself reports count them, and are shown beside it.

An application frees memory, which malloc keeps, so that the difference of two runs tells little:
its processes are held against nothing.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field

from apps_lib import readings
from apps_lib.session import text_of_files
from apps_lib.transports import MEMORY_PARAMETER, TRANSPORTS, queue_pairs
from compare_lib import jobs
from compare_lib.transports import DIWARP_COMPONENT, Launcher

# The kinds of diwarp's report that each peer adds to, with what there is one of for it.
PEER_KINDS = {"peer": "peers", "address": "addresses", "endpoint": "endpoints"}
# All kinds: together, its user memory.
KINDS = (*PEER_KINDS, "base", "receive", "assembly", "send_pool", "work", "record", "region",
         "module", "receive_buffer", "fragment", "rdma")
# Of one run: start and end of MPI with so many processes on few cores; and an application on them.
SECONDS, SECONDS_PER_RANK, SECONDS_PER_RANK_OF_APP = 120, 2, 12


@dataclass(frozen=True)
class Held:
    """Bytes of one process, the mean over the ranks, at the beginning of MPI_Finalize."""

    user: float
    heap: float
    queue: float
    slab: float
    sockets: float
    private: float
    pss: float
    # The transport's own report, by its keys; empty: it makes none.
    told: dict[str, float] = field(default_factory=dict)

    @property
    def kernel(self) -> float:
        return self.queue + self.slab

    @property
    def total(self) -> float:
        return self.user + self.kernel

    @property
    def reported(self) -> float | None:
        """User memory by the transport's own report."""
        return self.told.get("transport_bytes")


# What to hold a process against to see all of it.
NOTHING = Held(0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Point:
    """One transport with one number of ranks; `shared` is the run it is held against."""

    transport: str
    ranks: int
    held: Held
    shared: Held

    @property
    def peers(self) -> int:
        return self.ranks - 1

    @property
    def kernel(self) -> float:
        return self.held.kernel - self.shared.kernel

    @property
    def user(self) -> float:
        return self.held.user - self.shared.user

    @property
    def heap(self) -> float:
        return self.held.heap - self.shared.heap

    @property
    def total(self) -> float:
        return self.user + self.kernel


def held_of(memory: str, output: str, ranks: int, transport: str) -> Held:
    """Of the lines of mpi_memory.so, and of what a run printed: what diwarp reports of itself must
    name that transport. Raises readings.Unusable."""
    lines = [line for line in readings.rank_lines(memory, "mpi_memory")
             if line.get("point") == "finalize"]
    means = readings.mean_over_ranks(lines, ranks, "mpi_memory.so")
    told = {}
    if TRANSPORTS[transport].component == DIWARP_COMPONENT:
        told = readings.diwarp_memory(output, ranks, queue_pairs(transport))
    return Held(means["anonymous_bytes"], means["heap_bytes"], means["socket_queue_bytes"],
                means["socket_slab_bytes"], means["tcp_sockets"] + means["udp_sockets"],
                means["private_bytes"], means["pss_bytes"], told)


def run(launcher: Launcher, name: str, ranks: int, program: list[str], tool: str,
        seconds: float) -> Held:
    """Raises jobs.JobFailed, also when it takes longer than that."""
    transport = TRANSPORTS[name]
    with tempfile.TemporaryDirectory(prefix="diwarp-memory-") as folder:
        extra = ["-x", f"LD_PRELOAD={tool}",
                 "-x", f"DIWARP_MPI_MEMORY_OUTPUT={os.path.join(folder, 'memory.%r')}"]
        if transport.component == DIWARP_COMPONENT:
            extra += ["--mca", MEMORY_PARAMETER, "1"]
        command = launcher.command(transport, ranks, program, tuple(extra))
        output = jobs.run(command, seconds, errors=True)
        try:
            return held_of(text_of_files(folder, "memory.*"), output, ranks, name)
        except readings.Unusable as why:
            raise jobs.JobFailed(command, str(why), output) from None
