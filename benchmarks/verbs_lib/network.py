# SPDX-License-Identifier: BSD-3-Clause
"""Where both processes run: two network namespaces joined by veth; this host's loopback where none
can be made; or two behind a router, whose far link has an MTU of 1500 and loses packets."""

from __future__ import annotations

import os
import re

from compare_lib import cores, jobs
from compare_lib.hosts import INTERFACE, Hosts

from .series import LARGE_MTU, MTU

PORT = 4793
# In the hosts' ingress, before the kernel puts fragments together: each is lost on its own.
LOSS_RULES = """table netdev loss {{
    chain in {{
        type filter hook ingress device "{interface}" priority 0; policy accept;
        ip protocol udp counter
        ip protocol udp ip frag-off & 16383 != 0 counter
        ip protocol udp {chance} counter drop
    }}
}}
"""
# diwarp sends with DF; a router that clears it, as many a tunnel's does, breaks up what is longer
# than its next link's MTU. What leaves with DF has no IP id of its own (0, RFC 6864), by which
# fragments are told apart: without one, the kernel fills a hole with a piece of the next datagram.
# So the router gives the end of diwarp's own number of the datagram, at bit 304 of UDP
# (common/wire/llp_header.h).
CLEAR_RULES = """table ip clear {
    chain in {
        type filter hook prerouting priority -300; policy accept;
        meta l4proto udp ip frag-off & 16384 != 0 ip frag-off set 0 ip id set @th,304,16
    }
}
"""
# What is incomplete holds memory of the kernel for 30 s, up to 4 MiB; from then on it takes no
# fragment at all, of later measures neither. So it may be more, and for the shortest time there is.
REASSEMBLY = {"ipfrag_time": 1, "ipfrag_high_thresh": 256 << 20}


class Loopback:
    """This host, whose loopback carries 64 KiB datagrams whole."""

    title = "loopback of this host, MTU 65536"
    addresses = ("127.0.0.1", "127.0.0.1")
    raw_options = ("-g", "off")

    def __init__(self):
        cpus = cores.allowed()
        self.cores = (cpus[0], cpus[1 % len(cpus)])

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, *_) -> None:
        pass

    def inside(self, which: int) -> list[str]:
        return ["taskset", "-c", str(self.cores[which])]

    def end_processes(self) -> None:
        """jobs.run() has ended them: they are of its session."""


class Pair(Hosts):
    """Two hosts with one link of MTU 1500."""

    title = "two network namespaces joined by veth, MTU 1500"
    raw_options = ("-g", "on", "-m", str(MTU - 28))

    def __init__(self, number: int = 0):
        super().__init__(None, number=number)

    def inside(self, which: int) -> list[str]:
        return self._inside(which)


class Routed(Pair):
    """Two hosts and a router between; links of hosts may have an MTU beyond that of the way."""

    title = "two network namespaces behind a router whose far link has MTU 1500"

    def __init__(self):
        super().__init__(number=1)
        self.ends = tuple(self.names)
        self.router = f"dwr1{os.getpid()}"
        self.addresses = ["10.79.0.1", "10.79.1.1"]
        self.names = [*self.ends, self.router]

    def _make(self) -> None:
        for name in self.names:
            jobs.run(["ip", "netns", "add", name], 10)
            jobs.run(["ip", "-n", name, "link", "set", "lo", "up"], 10)
        for i, end in enumerate(self.ends):
            jobs.run(["ip", "link", "add", INTERFACE, "netns", end, "type", "veth",
                      "peer", "name", f"side{i}", "netns", self.router], 10)
            for name, device, address in ((end, INTERFACE, self.addresses[i]),
                                          (self.router, f"side{i}", f"10.79.{i}.254")):
                jobs.run(["ip", "-n", name, "addr", "add", f"{address}/24", "dev", device], 10)
                jobs.run(["ip", "-n", name, "link", "set", device, "up", "gso_max_segs", "1"], 10)
            jobs.run(["ip", "-n", end, "route", "add", "default", "via", f"10.79.{i}.254"], 10)
            for name, value in REASSEMBLY.items():
                jobs.run(["ip", "netns", "exec", end, "sh", "-c",
                          f"echo {value} >/proc/sys/net/ipv4/{name}"], 10)
        jobs.run(["ip", "-n", self.router, "link", "set", "side0", "mtu", str(LARGE_MTU)], 10)
        router = ["ip", "netns", "exec", self.router]
        jobs.run([*router, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"], 10)
        jobs.run([*router, "nft", "-f", self._rules("clear", CLEAR_RULES)], 10)
        self.names, all_names = list(self.ends), self.names
        try:
            self._wait_for_carrier()
        finally:
            self.names = all_names

    def _rules(self, name: str, text: str) -> str:
        path = os.path.join(self.work, f"{name}.nft")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def set_up(self, percent: float, large: bool) -> None:
        """Loses so much of UDP at both hosts; their MTU lets datagrams of 64 KiB leave, or not."""
        for i, end in enumerate(self.ends):
            jobs.run(["ip", "-n", end, "link", "set", INTERFACE, "mtu",
                      str(LARGE_MTU if large else MTU)], 10)
            jobs.run_quietly(self._netns(i) + ["nft", "delete", "table", "netdev", "loss"])
            chance = f"numgen random mod 100000 < {round(percent * 1000)}" if percent < 100 else ""
            rules = LOSS_RULES.format(interface=INTERFACE, chance=chance)
            jobs.run(self._netns(i) + ["nft", "-f", self._rules(f"loss{i}", rules)], 10)

    def counted(self) -> tuple[int, int, int]:
        """Since then: (packets, fragments among them, what of them was dropped), at both hosts."""
        totals = [0, 0, 0]
        for i in range(2):
            text = jobs.run(self._netns(i) + ["nft", "list", "table", "netdev", "loss"], 10)
            for k, packets in enumerate(re.findall(r"counter packets (\d+)", text)):
                totals[k] += int(packets)
        return totals[0], totals[1], totals[2]
