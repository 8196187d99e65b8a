# SPDX-License-Identifier: BSD-3-Clause
"""The transports that applications are run over: diwarp's own by the name of their queue pairs, and
those of others."""

from __future__ import annotations

import dataclasses
import os

from compare_lib import jobs
from compare_lib.transports import DIWARP, DIWARP_COMPONENT, TCP, UCX, Launcher, Transport
from compare_lib.transports import TRANSPORTS as MPI_TRANSPORTS

RD, RC, RC_SRQ = "rd", "rc", "rc-srq"
# No network at all: how long ranks wait for each other and for a core, whatever carries their bytes.
SHARED = "shared"
# rd with datagrams dropped on purpose; of --verify only.
RD_LOSS = "rd-loss"
LOSS = 0.01

TRANSPORT_PARAMETER = "btl_diwarp_transport"
MEMORY_PARAMETER = "btl_diwarp_memory_report"

_OF_DIWARP = MPI_TRANSPORTS[DIWARP].options


def _selected(name: str) -> tuple[str, ...]:
    return (*_OF_DIWARP, "--mca", TRANSPORT_PARAMETER, name)


TRANSPORTS = {
    t.name: t
    for t in (
        # By its default, so that it also runs where there is nothing to select.
        Transport(RD, "RD", DIWARP_COMPONENT, _OF_DIWARP),
        Transport(RC, "RC", DIWARP_COMPONENT, _selected(RC)),
        Transport(RC_SRQ, "RC-SRQ", DIWARP_COMPONENT, _selected(RC_SRQ)),
        MPI_TRANSPORTS[TCP],
        MPI_TRANSPORTS[UCX],
        Transport(SHARED, "shared memory", "btl:vader",
                  ("--mca", "pml", "ob1", "--mca", "btl", "vader,self")),
        Transport(RD_LOSS, f"RD, {100 * LOSS:g} % lost", DIWARP_COMPONENT, _OF_DIWARP,
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


def parameters(launcher: Launcher) -> set[str]:
    """The MCA parameters that diwarp's component has: Open MPI ignores those it does not know, and
    then rc would silently be rd."""
    command = ["ompi_info", "--param", "btl", "diwarp", "--level", "9", "--parsable"]
    if launcher.component:
        path = f"OMPI_MCA_mca_base_component_path={launcher.component}:SYSTEM_DEFAULT"
        command = ["env", path, *command]
    return parsed_parameters(jobs.run_quietly(command, 60) or "")


def parsed_parameters(ompi_info: str) -> set[str]:
    found = set()
    for line in ompi_info.splitlines():
        words = line.split(":")
        if words[:2] == ["mca", "btl"] and len(words) > 4 and words[3] == "param":
            found.add(words[4])
    return found


def with_faults(launcher: Launcher) -> Launcher:
    """The launcher of the test component, which drops datagrams when the environment asks."""
    folder = os.path.join(os.path.dirname(launcher.component), "component-fault")
    return dataclasses.replace(launcher, component=folder)
