# SPDX-License-Identifier: BSD-3-Clause
"""What is profiled: the measures whose targets are near their limit or missed."""

from __future__ import annotations

from dataclasses import dataclass

from compare_lib.measures import MIB, ONE_SIDED_OPTIONS
from compare_lib.transports import BTLS


@dataclass(frozen=True)
class Case:
    """A program that spends nearly all of its time in one thing. {r} is the number of samples."""

    name: str
    title: str
    program: str
    arguments: str
    samples: int
    ranks: int = 2
    # 0: this host's loopback; otherwise two namespaces with that MTU.
    mtu: int = 0
    one_sided: bool = False
    transports: tuple[str, ...] = BTLS

    def words(self, samples: int | None = None) -> list[str]:
        return self.arguments.format(r=samples or self.samples).split()

    def options(self, transport: str) -> tuple[str, ...]:
        return ONE_SIDED_OPTIONS.get(transport, ()) if self.one_sided else ()


def latency(name: str, size: int, title: str, samples: int) -> Case:
    return Case(name, f"{title} half round trip", "latency_bandwidth",
                f"-l {size} -s none -m none -r {{r}}", samples)


def stream(name: str, direction: str, title: str, samples: int, mtu: int = 0) -> Case:
    return Case(name, title, "latency_bandwidth",
                f"-l none -s {MIB} -d {direction} -m none -w 64 -r {{r}}", samples, mtu=mtu)


CASES = {case.name: case for case in (
    latency("small", 8, "8 B", 301),
    latency("medium", 64 << 10, "64 KiB", 301),
    stream("stream", "uni", "1 MiB streaming", 201),
    stream("both", "bi", "1 MiB in both directions", 101),
    Case("onesided", "1 MiB MPI_Put and MPI_Get", "one_sided", f"-l none -s {MIB} -w 64 -r {{r}}",
         101, one_sided=True),
    Case("bcast", "1 MiB Bcast, 8 ranks", "collectives", f"-a none -t none -b {MIB} -r {{r}}",
         301, ranks=8),
    stream("mtu1500", "uni", "1 MiB streaming, MTU 1500", 201, mtu=1500),
)}
