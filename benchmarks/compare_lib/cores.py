# SPDX-License-Identifier: BSD-3-Clause
"""The cores of this machine, as mpirun counts them: hardware threads of one core are one."""

from __future__ import annotations

import os
from typing import Iterable

SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def siblings_of(cpu: int) -> str:
    """The hardware threads of its core; where the kernel does not tell, it is alone."""
    try:
        with open(SIBLINGS.format(cpu), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return str(cpu)


def one_cpu_per_core(cpus: Iterable[int], siblings=siblings_of) -> list[int]:
    """The first of each core's CPUs."""
    first: dict[str, int] = {}
    for cpu in sorted(cpus):
        first.setdefault(siblings(cpu), cpu)
    return list(first.values())


def allowed() -> list[int]:
    """A CPU of each core that this process may use."""
    return one_cpu_per_core(os.sched_getaffinity(0))
