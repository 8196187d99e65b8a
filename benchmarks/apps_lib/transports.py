# SPDX-License-Identifier: BSD-3-Clause
"""The transports that applications are run over: diwarp's own by the name of their queue pairs, and
those of others."""

from __future__ import annotations

import dataclasses
import os

from compare_lib.transports import DIWARP_COMPONENT, OVER_RD, RC, RC_SRQ, TCP
from compare_lib.transports import TRANSPORTS as MPI_TRANSPORTS
from compare_lib.transports import UCX, Launcher, Transport

RD = "rd"
# No network at all: how long ranks wait for each other and a core, whatever carries their bytes.
SHARED = "shared"
# rd with datagrams dropped on purpose; of --verify only.
RD_LOSS = "rd-loss"
LOSS = 0.01

MEMORY_PARAMETER = "btl_diwarp_memory_report"

TRANSPORTS = {
    t.name: t
    for t in (
        Transport(RD, "RD", DIWARP_COMPONENT, OVER_RD),
        MPI_TRANSPORTS[RC],
        MPI_TRANSPORTS[RC_SRQ],
        MPI_TRANSPORTS[TCP],
        MPI_TRANSPORTS[UCX],
        Transport(SHARED, "shared memory", "btl:vader",
                  ("--mca", "pml", "ob1", "--mca", "btl", "vader,self")),
        Transport(RD_LOSS, f"RD, {100 * LOSS:g} % lost", DIWARP_COMPONENT, OVER_RD,
                  {"DIWARP_FAULTS": f"drop={LOSS},report"}),
    )
}
OVER_A_NETWORK = (RD, RC, RC_SRQ, TCP, UCX)
MEASURED = (*OVER_A_NETWORK, SHARED)
DEFAULT = (RD, RC, RC_SRQ, TCP)
VERIFIED = (RD, RC, RC_SRQ, RD_LOSS)
# What rd is held against.
AGAINST = (RC, RC_SRQ, TCP)


def queue_pairs(name: str) -> str:
    """What diwarp itself calls one of its transports."""
    return RD if name == RD_LOSS else name


def with_faults(launcher: Launcher) -> Launcher:
    """The launcher of the test component, which drops datagrams when the environment asks."""
    folder = os.path.join(os.path.dirname(launcher.component), "component-fault")
    return dataclasses.replace(launcher, component=folder)
