# SPDX-License-Identifier: BSD-3-Clause
"""The targets: what diwarp has to reach. `--judge` holds a run to them."""

from __future__ import annotations

from dataclasses import dataclass
from operator import ge, le, lt

from .figures import Figure
from .measures import EAGER_MESSAGES, KIB, LIMITED_BUFFERS, LINK_SCENES, LOSS_SCENES, MIB
from .measures import OVERLAP_SCENES, SWEEP, SWEEPS, WHOLE_BUFFER, buffer_scene, shared_cores_scene
from .transports import DIWARP, RAW_UDP, TCP, TRANSPORTS, UCX

AT_MOST, AT_LEAST, BELOW = "≤", "≥", "<"
COMPARISONS = {AT_MOST: le, AT_LEAST: ge, BELOW: lt}


class Limit:
    """A value against the limit of a target, which has `operator` and `limit`."""

    def reached(self, value: float, limit: float) -> bool:
        return COMPARISONS[self.operator](value, limit)

    def margin(self, value: float) -> float:
        """How far inside the limit, as a share of the limit; negative: missed by that."""
        gap = value - self.limit if self.operator == AT_LEAST else self.limit - value
        return gap / self.limit


@dataclass(frozen=True)
class Target(Limit):
    """diwarp's `figure`, divided by `over` if there is one, against `limit`. `aim` is what we want
    beyond that. `over` is a transport (the same figure), or a figure of diwarp's."""

    group: str
    figure: Figure
    over: str | Figure | None
    operator: str
    limit: float
    aim: float | None = None

    @property
    def over_key(self) -> tuple[Figure, str] | None:
        """(figure, transport) of the denominator."""
        if self.over is None:
            return None
        if isinstance(self.over, Figure):
            return self.over, DIWARP
        return self.figure, self.over

    @property
    def title(self) -> str:
        if self.over is None:
            return self.figure.title_and_unit
        if isinstance(self.over, Figure):
            return f"{self.figure.title} ÷ {self.over.title}"
        return f"{self.figure.title} ÷ {TRANSPORTS[self.over].title}"


def stream(size: int, scene: str = "") -> Figure:
    return Figure("stream", size, scene)


LATENCY_8 = Figure("latency", 8)
# Users have a network between their hosts: no size may be slower than over the better tcp.
NO_SLOWER, NO_LONGER = 0.95, 1.05

TARGETS = (
    # group, figure, over, operator, limit, aim
    *(target for group, mtu in SWEEPS.items() for size in SWEEP
      for target in (
          Target(group, Figure("latency", size, f"MTU {mtu}"), TCP, AT_MOST, NO_LONGER),
          Target(group, stream(size, f"MTU {mtu}"), TCP, AT_LEAST, NO_SLOWER))),
    *(Target("loss", stream(MIB, LOSS_SCENES[permille]), TCP, AT_LEAST, limit)
      for permille, limit in ((1, NO_SLOWER), (10, 3), (50, 3))),
    Target("pt2pt", LATENCY_8, RAW_UDP, AT_MOST, 1.20, 1.12),
    Target("pt2pt", LATENCY_8, TCP, AT_MOST, 0.65, 0.60),
    Target("pt2pt", Figure("latency", 1 * KIB), RAW_UDP, AT_MOST, 1.30, 1.20),
    Target("pt2pt", Figure("latency", 8 * KIB), RAW_UDP, AT_MOST, 1.30, 1.20),
    Target("pt2pt", Figure("latency", 64 * KIB), TCP, AT_MOST, 0.60),
    Target("pt2pt", stream(1 * MIB), RAW_UDP, AT_LEAST, 0.8),
    Target("pt2pt", stream(4 * MIB), RAW_UDP, AT_LEAST, 0.75, 0.85),
    Target("pt2pt", stream(1 * MIB), TCP, AT_LEAST, 1.4, 2.0),
    Target("pt2pt", stream(4 * MIB), TCP, AT_LEAST, 1.4, 2.0),
    Target("pt2pt", stream(1 * MIB), UCX, AT_LEAST, 1.7, 2.0),
    Target("pt2pt", stream(4 * MIB), UCX, AT_LEAST, 1.7, 2.0),
    Target("pt2pt", Figure("stream_bi", 1 * MIB), TCP, AT_LEAST, 1.4),
    Target("pt2pt", Figure("stream_bi", 4 * MIB), TCP, AT_LEAST, 1.4),
    Target("pt2pt", Figure("rate", 8), TCP, AT_LEAST, 10, 20),
    Target("pt2pt", Figure("rate", 8), None, AT_LEAST, 3),
    Target("pt2pt", Figure("cpu", 1 * MIB), TCP, AT_MOST, 0.6),
    Target("pt2pt", Figure("cpu", 4 * MIB), TCP, AT_MOST, 0.6),
    Target("onesided", Figure("put_latency", 8), TCP, AT_MOST, 0.7),
    Target("onesided", Figure("get_latency", 8), TCP, AT_MOST, 0.7),
    Target("onesided", Figure("put_stream", 1 * MIB), TCP, AT_LEAST, 1.4),
    Target("onesided", Figure("get_stream", 1 * MIB), TCP, AT_LEAST, 1.4),
    Target("onesided", Figure("accumulate_latency", 8), TCP, AT_MOST, NO_LONGER),
    Target("onesided", Figure("accumulate_stream", 64 * KIB), TCP, AT_LEAST, NO_SLOWER),
    Target("collectives", Figure("allreduce", 8), TCP, AT_MOST, 0.8, 0.6),
    Target("collectives", Figure("alltoall", 4 * KIB), TCP, AT_MOST, 0.8, 0.6),
    Target("collectives", Figure("bcast", 1 * MIB), TCP, AT_MOST, 0.8, 0.6),
    *(Target("collectives", Figure("alltoall", size), TCP, AT_MOST, NO_LONGER)
      for size in (256 * KIB, MIB)),
    *(Target(group, Figure("hidden", 4 * MIB, scene), None, AT_LEAST, 0.8)
      for group, scenes in (("overlap", OVERLAP_SCENES), ("link", LINK_SCENES))
      for scene in scenes),
    *(Target("rcvbuf", stream(size, buffer_scene(limit)), stream(size, WHOLE_BUFFER), AT_LEAST, 0.6)
      for limit in LIMITED_BUFFERS for size in (1 * MIB, 4 * MIB)),
    *(target for scene in ("", EAGER_MESSAGES) for under in (scene, shared_cores_scene(scene))
      for target in (
          Target("incast", Figure("incast", 15, under), Figure("incast", 1, scene), AT_LEAST, 0.8),
          Target("incast", Figure("jain", 15, under), None, AT_LEAST, 0.95))),
)
