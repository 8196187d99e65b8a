# SPDX-License-Identifier: BSD-3-Clause
"""The transports compared, and how mpirun is called for each."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from . import cores, jobs

DIWARP = "diwarp"
DIWARP_SHARED = "diwarp-shared"
RC = "rc"
RC_SRQ = "rc-srq"
TCP = "tcp"
TCP_CUBIC = "tcp-cubic"
TCP_BBR = "tcp-bbr"
TCP_SHARED = "tcp-shared"
UCX = "ucx"
OFI_TCP = "ofi-tcp"
OFI_RXD = "ofi-rxd"
RAW_UDP = "raw-udp"
RAW_SEALED = "raw-udp-sealed"
RAW_TCP = "raw-tcp"

DIWARP_COMPONENT = "btl:diwarp"
TRANSPORT_PARAMETER = "btl_diwarp_transport"
OVER_OB1 = ("--mca", "pml", "ob1", "--mca", "btl")
OVER_DIWARP = (*OVER_OB1, "diwarp,self")
SELECT_RD = ("--mca", TRANSPORT_PARAMETER, "rd")
OVER_RD = (*OVER_DIWARP, *SELECT_RD)
TCP_INTERFACE = ("--mca", "btl_tcp_if_include", "{interface}")
OVER_TCP = (*OVER_OB1, "tcp,self", *TCP_INTERFACE)


@dataclass(frozen=True)
class Transport:
    """`options` and `exports` may name the interface as {interface}."""

    name: str
    title: str
    component: str = ""  # what ompi_info must list, as FRAMEWORK:NAME; "" for raw sockets
    options: tuple[str, ...] = ()
    exports: dict[str, str] = field(default_factory=dict, hash=False)
    # TCP's congestion control; "": the kernel's default, or that of the place it runs in.
    congestion: str = ""


TRANSPORTS = {
    t.name: t
    for t in (
        Transport(RAW_UDP, "raw UDP"),
        Transport(RAW_SEALED, "raw UDP, sealed"),
        Transport(RAW_TCP, "raw TCP"),
        # Named, though it is the default: the user's environment may have another.
        Transport(DIWARP, "diwarp", DIWARP_COMPONENT, OVER_RD),
        Transport(RC, "RC", DIWARP_COMPONENT, (*OVER_DIWARP, "--mca", TRANSPORT_PARAMETER, RC)),
        Transport(RC_SRQ, "RC-SRQ", DIWARP_COMPONENT,
                  (*OVER_DIWARP, "--mca", TRANSPORT_PARAMETER, RC_SRQ)),
        Transport(DIWARP_SHARED, "diwarp, shared memory", DIWARP_COMPONENT,
                  (*OVER_OB1, "diwarp,vader,self", *SELECT_RD)),
        Transport(TCP, "tcp BTL", "btl:tcp", OVER_TCP),
        Transport(TCP_CUBIC, "tcp, CUBIC", "btl:tcp", OVER_TCP, congestion="cubic"),
        Transport(TCP_BBR, "tcp, BBR", "btl:tcp", OVER_TCP, congestion="bbr"),
        Transport(TCP_SHARED, "tcp, shared memory", "btl:tcp",
                  (*OVER_OB1, "tcp,vader,self", *TCP_INTERFACE), congestion="cubic"),
        Transport(
            UCX,
            "UCX tcp",
            "pml:ucx",
            ("--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any")
            + ("--mca", "pml_ucx_devices", "any"),
            {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "{interface}"},
        ),
        Transport(
            OFI_TCP,
            "libfabric tcp",
            "mtl:ofi",
            ("--mca", "pml", "cm", "--mca", "mtl", "ofi")
            + ("--mca", "mtl_ofi_provider_include", "tcp"),
            {"FI_TCP_IFACE": "{interface}"},
        ),
        Transport(
            OFI_RXD,
            "libfabric udp",
            "mtl:ofi",
            ("--mca", "pml", "cm", "--mca", "mtl", "ofi")
            + ("--mca", "mtl_ofi_provider_include", "udp;ofi_rxd"),
            {"FI_UDP_IFACE": "{interface}"},
        ),
    )
}
RAW = (RAW_UDP, RAW_SEALED, RAW_TCP)
BTLS = (DIWARP, TCP)
CONNECTED = (RC, RC_SRQ)
MPI = (DIWARP, *CONNECTED, TCP, UCX, OFI_TCP, OFI_RXD)
# What compare runs: distributions differ in TCP's congestion control, so it is named. TCP stands
# there for the better of them.
TCPS = (TCP_CUBIC, TCP_BBR)
COMPARED = (DIWARP, *CONNECTED, *TCPS, UCX, OFI_TCP, OFI_RXD, DIWARP_SHARED, TCP_SHARED)


def meant_by(name: str) -> tuple[str, ...]:
    """The transports that are run for it."""
    return TCPS if name == TCP else (name,)


@dataclass(frozen=True)
class Launcher:
    """Where mpirun and diwarp's component are, and the cores there are."""

    mpirun: str
    component: str = ""  # folder; "" when diwarp is installed
    cores: int = len(cores.allowed())

    def transport_options(self, transport: Transport, interface: str) -> list[str]:
        options = [word.format(interface=interface) for word in transport.options]
        for name, value in transport.exports.items():
            options += ["-x", f"{name}={value.format(interface=interface)}"]
        if transport.component == DIWARP_COMPONENT and self.component:
            options += ["--mca", "mca_base_component_path", f"{self.component}:SYSTEM_DEFAULT"]
        return options

    def placement(self, ranks: int) -> list[str]:
        """A core for each rank while they last; then the kernel places them, and they yield."""
        if ranks <= self.cores:
            return ["--bind-to", "core"]
        return ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]

    def command(self, transport: Transport, ranks: int, program: list[str],
                extra: tuple[str, ...] = ()) -> list[str]:
        """All ranks on this host, over the loopback interface."""
        return ([self.mpirun, "-np", str(ranks)] + self.placement(ranks)
                + self.transport_options(transport, "lo") + list(extra) + program)


def default_congestion_control() -> str:
    """TCP's, of this kernel."""
    try:
        with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def root_may_run() -> None:
    """mpirun refuses root unless told twice; containers and CI are root."""
    if os.geteuid() == 0:
        os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
        os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"


def ompi_info_program() -> str:
    return os.environ.get("OMPI_INFO", "ompi_info")


def listed_components(ompi_info: str) -> set[str]:
    """{"btl:tcp", ...} of what ompi_info prints in its parsable form."""
    found = set()
    for line in ompi_info.splitlines():
        words = line.split(":")
        if len(words) > 3 and words[0] == "mca":
            found.add(f"{words[1]}:{words[2]}")
    return found


def parameters(launcher: Launcher) -> set[str]:
    """The MCA parameters that diwarp's component has: Open MPI ignores those it does not know, and
    then rc would silently be rd."""
    command = [ompi_info_program(), "--param", "btl", "diwarp", "--level", "9", "--parsable"]
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


def selection_lack(name: str, known: set[str]) -> str:
    """Why diwarp cannot be told to use that transport; `known` are its parameters."""
    if name in CONNECTED and TRANSPORT_PARAMETER not in known:
        return f"this diwarp has no parameter {TRANSPORT_PARAMETER}"
    return ""


def probe(launcher: Launcher, transport: Transport, program: str, installed: set[str]) -> str:
    """Why a transport cannot be measured here; "" when it can. Two ranks exchange a few bytes."""
    by_path = transport.component == DIWARP_COMPONENT and launcher.component
    if transport.component not in installed and not by_path:
        return f"Open MPI has no {transport.component.replace(':', '/')}"
    words = [program, "-l", "8", "-s", "none", "-m", "none", "-r", "1"]
    try:
        output = jobs.run(launcher.command(transport, 2, words), 30)
    except jobs.JobFailed as failure:
        return "a first run did not work\n" + failure.report()
    return "" if "latency bytes=8" in output else "a first run printed no figure\n" + output
