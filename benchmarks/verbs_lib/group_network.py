# SPDX-License-Identifier: BSD-3-Clause
"""A sender and its receivers: network namespaces, each at a port of one bridge."""

from __future__ import annotations

import os

from compare_lib import cores, jobs
from compare_lib.hosts import INTERFACE, TRAIN_SEGMENTS

from .network import Pair

PORT = 4794
NET = "10.80.0"
MULTICAST, BROADCAST = "239.255.80.1", f"{NET}.255"


class Bridge(Pair):
    """Host 0 sends; the others receive."""

    def __init__(self, receivers: int):
        super().__init__(number=2)
        self.ends = [f"dwg{i}{os.getpid()}" for i in range(receivers + 1)]
        self.switch = f"dwgs{os.getpid()}"
        self.names = [*self.ends, self.switch]
        self.addresses = [f"{NET}.{i + 1}" for i in range(receivers + 1)]
        cpus = cores.allowed()
        others = cpus[1:] or cpus
        self.cores = [cpus[0], *(others[i % len(others)] for i in range(receivers))]
        self.title = f"{receivers + 1} network namespaces on a bridge, MTU 1500"

    def _make(self) -> None:
        for name in self.names:
            jobs.run(["ip", "netns", "add", name], 10)
            jobs.run(["ip", "-n", name, "link", "set", "lo", "up"], 10)
        # Without snooping every port gets what is sent to a group: no membership is to be awaited.
        jobs.run(["ip", "-n", self.switch, "link", "add", "switch", "type", "bridge",
                  "mcast_snooping", "0"], 10)
        jobs.run(["ip", "-n", self.switch, "link", "set", "switch", "up"], 10)
        for i, end in enumerate(self.ends):
            jobs.run(["ip", "link", "add", INTERFACE, "netns", end, "type", "veth",
                      "peer", "name", f"port{i}", "netns", self.switch], 10)
            jobs.run(["ip", "-n", self.switch, "link", "set", f"port{i}", "master", "switch",
                      "up"], 10)
            jobs.run(["ip", "-n", end, "addr", "add", f"{self.addresses[i]}/24", "broadcast",
                      BROADCAST, "dev", INTERFACE], 10)
            jobs.run(["ip", "-n", end, "link", "set", INTERFACE, "up"], 10)
        self.names, all_names = list(self.ends), self.names
        try:
            self._wait_for_carrier()
        finally:
            self.names = all_names

    def set_up(self, receivers: int, trains: bool) -> None:
        """So many are plugged in: what is sent to a group comes to no other host. With `trains` the
        sender's interface hands several segments over as one packet."""
        for i in range(1, len(self.ends)):
            place = ["master", "switch"] if i <= receivers else ["nomaster"]
            jobs.run(["ip", "-n", self.switch, "link", "set", f"port{i}", *place], 10)
        jobs.run(["ip", "-n", self.ends[0], "link", "set", INTERFACE, "gso_max_segs",
                  str(TRAIN_SEGMENTS if trains else 1)], 10)
