# SPDX-License-Identifier: BSD-3-Clause
"""Names of what is measured."""

from __future__ import annotations

from dataclasses import dataclass

from .cases import Case


@dataclass(frozen=True)
class Quantity:
    """How it is called, its unit, digits after the point, and what is divided by before showing."""

    title: str
    unit: str
    digits: int
    scale: float = 1.0

    @property
    def title_and_unit(self) -> str:
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def text(self, value: float) -> str:
        return f"{value / self.scale:.{self.digits}f}"


MIB = 1024 * 1024

RUNTIME, COMMUNICATION, MEMORY = "seconds", "mpi_seconds", "memory_bytes"
PRIVATE, TRANSPORT = "private_bytes", "transport_bytes"

# Times and bytes are means over the ranks.
QUANTITIES = {
    RUNTIME: Quantity("runtime", "s", 3),
    COMMUNICATION: Quantity("communication time", "s", 3),
    "mpi_share": Quantity("share of the time in MPI", "%", 1, 0.01),
    "init_seconds": Quantity("MPI_Init", "s", 3),
    "job_seconds": Quantity("whole job, mpirun's own work included", "s", 3),
    "mops": Quantity("rate", "Mop/s", 1),
    "calls": Quantity("MPI calls of a rank", "", 0),
    "sent_bytes": Quantity("sent by a rank", "MiB", 2, MIB),
    MEMORY: Quantity("memory of a process", "MiB", 2, MIB),
    PRIVATE: Quantity("private memory of a process", "MiB", 2, MIB),
    "pss_bytes": Quantity("proportional memory of a process", "MiB", 2, MIB),
    "socket_bytes": Quantity("kernel memory of a process's sockets", "MiB", 2, MIB),
    TRANSPORT: Quantity("memory of diwarp in a process", "MiB", 3, MIB),
}


@dataclass(frozen=True)
class Figure:
    quantity: str
    case: Case

    @property
    def about(self) -> Quantity:
        return QUANTITIES[self.quantity]
