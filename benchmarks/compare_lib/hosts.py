# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts on one: two network namespaces with names of their own, joined by veth, and an mpirun
that starts half of the ranks in each, on a core of its own. When asked, their routes name TCP's
congestion control, nftables drops packets on the way, or a token bucket makes it as slow as a
wire."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import signal
import tempfile
import time

from . import cores, jobs
from .transports import Launcher, Transport

INTERFACE = "eth0"
SUBNET = "10.78.{number}"
RAW_PORT = 4791
# A veth's own default; 1 makes every packet leave alone.
TRAIN_SEGMENTS = 65535

AGENT = """#!/bin/sh
host=$1
shift
exec taskset -c {core} ip netns exec "$host" unshare --uts \
    sh -c 'hostname "$0" && eval "$1"' "$host" "$*"
"""

LOSS_RULES = """table inet loss {{
    chain in {{
        type filter hook input priority 0; policy accept;
        iifname "{interface}" meta l4proto {protocol} \
            numgen random mod 1000 < {permille} counter drop
    }}
}}
"""


class NoHosts(Exception):
    """Two namespaces cannot be had here; the message says why."""


class NoCongestionControl(Exception):
    """TCP's congestion control cannot be chosen here; the message says why."""


class Hosts:
    """Use as a context manager: whatever happens, nothing stays behind. `number` tells several
    pairs of one process apart."""

    def __init__(self, launcher: Launcher, congestion: str = "", number: int = 0):
        self.launcher = launcher
        self.congestion = congestion
        self.names = [f"dw{end}{number}{os.getpid()}" for end in "cd"]
        self.subnet = SUBNET.format(number=number)
        self.addresses = [f"{self.subnet}.1", f"{self.subnet}.2"]
        self.work = ""
        cpus = cores.allowed()
        self.cores = [cpus[0], cpus[1 % len(cpus)]]

    def __enter__(self) -> Hosts:
        self._check_tools()
        self.work = tempfile.mkdtemp(prefix="diwarp-compare-")
        try:
            self._make()
        except jobs.JobFailed as failure:
            self._remove()
            last = failure.output.strip().splitlines()[-1:] or [failure.reason]
            raise NoHosts(f"network namespaces are not allowed here: {last[0]}") from None
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._remove()

    def _check_tools(self) -> None:
        if os.geteuid() != 0:
            raise NoHosts("network namespaces need root")
        packages = {"ip": "iproute2", "nft": "nftables", "unshare": "util-linux",
                    "taskset": "util-linux"}
        for tool, package in packages.items():
            if not shutil.which(tool):
                raise NoHosts(f"no {tool} (Debian: {package})")

    def _make(self) -> None:
        names = self.names
        for name in names:
            jobs.run(["ip", "netns", "add", name], 10)
            jobs.run(["ip", "-n", name, "link", "set", "lo", "up"], 10)
            os.makedirs(f"/etc/netns/{name}", exist_ok=True)
            with open(f"/etc/netns/{name}/hosts", "w", encoding="ascii") as file:
                file.write("127.0.0.1 localhost\n")
                file.writelines(f"{a} {n}\n" for a, n in zip(self.addresses, names))
        jobs.run(["ip", "link", "add", INTERFACE, "netns", names[0], "type", "veth",
                  "peer", "name", INTERFACE, "netns", names[1]], 10)
        for name, address in zip(names, self.addresses):
            jobs.run(["ip", "-n", name, "addr", "add", f"{address}/24", "dev", INTERFACE], 10)
            jobs.run(["ip", "-n", name, "link", "set", INTERFACE, "up"], 10)
        jobs.run(self._inside(0) + ["true"], 10)
        self._wait_for_carrier()
        if self.congestion:
            self._choose_congestion_control()
        agent = os.path.join(self.work, "agent")
        with open(agent, "w", encoding="ascii") as file:
            file.write(AGENT.format(core=self.cores[1]))
        os.chmod(agent, 0o755)

    def _choose_congestion_control(self) -> None:
        """By route: containers may not write to /proc/sys, and there the kernel may allow less."""
        near = "proto kernel scope host src 127.0.0.1 table local"
        try:
            for name, address in zip(self.names, self.addresses):
                for route in (f"local 127.0.0.0/8 dev lo {near}", f"local 127.0.0.1 dev lo {near}",
                              f"{self.subnet}.0/24 dev {INTERFACE} proto kernel scope link "
                              f"src {address}"):
                    jobs.run(["ip", "-n", name, "route", "change", *route.split(),
                              "congctl", self.congestion], 10)
        except jobs.JobFailed as failure:
            last = failure.output.strip().splitlines()[-1:] or [failure.reason]
            raise NoCongestionControl(
                f"this kernel gives no {self.congestion}: {last[0]}") from None

    def _wait_for_carrier(self) -> None:
        """An interface counts only once its carrier is there, a moment after both ends are up."""
        for name in self.names:
            for _ in range(50):
                if "state UP" in jobs.run(["ip", "-n", name, "-o", "link", "show", INTERFACE], 10):
                    break
                time.sleep(0.1)

    def _remove(self) -> None:
        self.end_processes()
        for name in self.names:
            if os.path.exists(f"/run/netns/{name}"):
                jobs.run_quietly(["ip", "netns", "del", name])
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
            for left in glob.glob(os.path.join(tempfile.gettempdir(), f"ompi.{name}.*")):
                shutil.rmtree(left, ignore_errors=True)
        # Other namespaces may have files of theirs in it.
        with contextlib.suppress(OSError):
            os.rmdir("/etc/netns")
        shutil.rmtree(self.work, ignore_errors=True)

    def end_processes(self) -> None:
        """Whatever a failed run left in the namespaces: mpirun's remote daemon is on its own."""
        for name in self.names:
            for pid in (jobs.run_quietly(["ip", "netns", "pids", name]) or "").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    # ---- what is in between ---------------------------------------------------------------------

    def set_mtu(self, mtu: int) -> None:
        for name in self.names:
            jobs.run(["ip", "-n", name, "link", "set", INTERFACE, "mtu", str(mtu)], 10)

    def _set_train_segments(self, count: int) -> None:
        for name in self.names:
            jobs.run(["ip", "-n", name, "link", "set", INTERFACE, "gso_max_segs", str(count)], 10)

    @contextlib.contextmanager
    def loss(self, protocol: str, permille: int):
        """While it lasts, packets of that protocol are dropped at random, in both directions, each
        on its own: without that, a veth hands whole trains over, which are lost as one. Yields a
        function that counts what was dropped."""
        rules = os.path.join(self.work, "loss.nft")
        with open(rules, "w", encoding="ascii") as file:
            file.write(LOSS_RULES.format(interface=INTERFACE, protocol=protocol, permille=permille))
        self._set_train_segments(1)
        try:
            for i in (0, 1):
                jobs.run(self._netns(i) + ["nft", "-f", rules], 10)
            yield self._dropped
        finally:
            for i in (0, 1):
                jobs.run_quietly(self._netns(i) + ["nft", "delete", "table", "inet", "loss"])
            self._set_train_segments(TRAIN_SEGMENTS)

    def _dropped(self) -> int:
        total = 0
        for i in (0, 1):
            text = jobs.run(self._netns(i) + ["nft", "list", "chain", "inet", "loss", "in"], 10)
            total += sum(int(n) for n in re.findall(r"counter packets (\d+)", text))
        return total

    @contextlib.contextmanager
    def link(self, mbit: int):
        """While it lasts, each direction carries so much, and queues what comes in 20 ms."""
        try:
            for i in (0, 1):
                jobs.run(self._netns(i) + ["tc", "qdisc", "add", "dev", INTERFACE, "root", "tbf",
                                           "rate", f"{mbit}mbit", "burst", "128kb",
                                           "latency", "20ms"], 10)
            yield
        finally:
            for i in (0, 1):
                jobs.run_quietly(self._netns(i) + ["tc", "qdisc", "del", "dev", INTERFACE, "root"])

    # ---- commands -------------------------------------------------------------------------------

    def _netns(self, which: int) -> list[str]:
        return ["ip", "netns", "exec", self.names[which]]

    def _inside(self, which: int) -> list[str]:
        """Puts a command into a host: its network, its name, its core."""
        return ["taskset", "-c", str(self.cores[which])] + self._named(which)

    def _named(self, which: int) -> list[str]:
        return (self._netns(which) + ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"',
                                      self.names[which]])

    def command(self, transport: Transport, program: list[str],
                extra: tuple[str, ...] = (), ranks: int = 2) -> list[str]:
        """mpirun in the first host, with half of the ranks in each; the first host takes one more
        of an odd number. Ranks that share a core yield it when idle."""
        first, second = self.names
        yielding = ["--mca", "mpi_yield_when_idle", "1"] if ranks > 2 else []
        return (self._inside(0)
                + [self.launcher.mpirun, "-np", str(ranks)]
                + ["--host", f"{first}:{(ranks + 1) // 2},{second}:{max(1, ranks // 2)}"]
                + yielding + ["--bind-to", "none"]
                + ["--mca", "plm_rsh_agent", os.path.join(self.work, "agent")]
                + ["--mca", "plm_rsh_no_tree_spawn", "1"]
                + ["--mca", "oob_tcp_if_include", f"{self.subnet}.0/24"]
                + self.launcher.transport_options(transport, INTERFACE) + list(extra) + program)

    def on_one(self, command: list[str]) -> list[str]:
        """A command with all its ranks in the first host, on any core."""
        return self._named(0) + command

    def raw_commands(self, program: list[str], number: int = 0) -> tuple[list[str], list[str]]:
        """(server in the second host, client in the first) of raw_sockets; `number`: of several at
        the same time."""
        at = f"{self.addresses[1]}:{RAW_PORT + number}"
        return (self._inside(1) + [program[0], "-L", at],
                self._inside(0) + [*program, "-C", at])
