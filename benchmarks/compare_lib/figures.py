# SPDX-License-Identifier: BSD-3-Clause
"""Names of what is measured, and the lines the benchmark programs print for it."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Quantity:
    """Something measured: how it is called, its unit, digits after the point, and whether more of
    it is better."""

    title: str
    unit: str
    digits: int
    more: bool = True


QUANTITIES = {
    "latency": Quantity("{bytes} half round trip", "µs", 2, False),
    "p50": Quantity("{bytes} half round trip, P50", "µs", 2, False),
    "p99": Quantity("{bytes} half round trip, P99", "µs", 2, False),
    "p999": Quantity("{bytes} half round trip, P99.9", "µs", 2, False),
    "stream": Quantity("{bytes} streaming", "MB/s", 0),
    "stream_bi": Quantity("{bytes} in both directions", "MB/s", 0),
    "cpu": Quantity("CPU of {bytes} streaming", "s/GB", 3, False),
    "cpu_bi": Quantity("CPU of {bytes} in both directions", "s/GB", 3, False),
    "rate": Quantity("{bytes} messages", "M/s", 3),
    "put_latency": Quantity("{bytes} MPI_Put and flush", "µs", 2, False),
    "get_latency": Quantity("{bytes} MPI_Get and flush", "µs", 2, False),
    "put_stream": Quantity("{bytes} MPI_Put streaming", "MB/s", 0),
    "get_stream": Quantity("{bytes} MPI_Get streaming", "MB/s", 0),
    "accumulate_latency": Quantity("{bytes} MPI_Accumulate and flush", "µs", 2, False),
    "accumulate_stream": Quantity("{bytes} MPI_Accumulate streaming", "MB/s", 0),
    "allreduce": Quantity("{bytes} Allreduce", "µs", 1, False),
    "alltoall": Quantity("{bytes} Alltoall", "µs", 1, False),
    "bcast": Quantity("{bytes} Bcast", "µs", 1, False),
    "hidden": Quantity("{bytes} transfer, share hidden", "", 3),
    "incast": Quantity("incast {count} → 1", "MB/s", 0),
    "jain": Quantity("incast {count} → 1, Jain index", "", 3),
    "min_share": Quantity("incast {count} → 1, least share of the mean", "", 3),
}

# First word of a line -> [(quantity, key of its value)]; SIZE_KEYS says where the size comes from.
LINES = {
    "latency": [("latency", "us")],
    "tail": [("p50", "p50_us"), ("p99", "p99_us"), ("p999", "p999_us")],
    "stream": [("stream", "MBps"), ("cpu", "cpu_s_per_GB")],
    "rate": [("rate", "Mmsgps")],
    "put_latency": [("put_latency", "us")],
    "get_latency": [("get_latency", "us")],
    "put_stream": [("put_stream", "MBps")],
    "get_stream": [("get_stream", "MBps")],
    "accumulate_latency": [("accumulate_latency", "us")],
    "accumulate_stream": [("accumulate_stream", "MBps")],
    "allreduce": [("allreduce", "us")],
    "alltoall": [("alltoall", "us")],
    "bcast": [("bcast", "us")],
    "overlap": [("hidden", "hidden")],
    "incast": [("incast", "MBps"), ("jain", "jain"), ("min_share", "min_share")],
}
SIZE_KEYS = {"incast": "senders"}

# The stream of a raw socket has no message size.
NO_SIZE = 0


def bytes_text(size: int) -> str:
    """65536 -> "64 KiB"."""
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale and size % scale == 0:
            return f"{size // scale} {unit}"
    return f"{size} B"


@dataclass(frozen=True)
class Figure:
    """One row of the table. `scene` tells equal quantities of different measures apart."""

    quantity: str
    size: int
    scene: str = ""

    @property
    def about(self) -> Quantity:
        return QUANTITIES[self.quantity]

    @property
    def title(self) -> str:
        text = self.about.title.format(bytes=bytes_text(self.size), count=self.size)
        return f"{text}, {self.scene}" if self.scene else text

    @property
    def title_and_unit(self) -> str:
        return f"{self.title}, {self.about.unit}" if self.about.unit else self.title

    def text(self, value: float) -> str:
        """Rates of a few bytes are not 0."""
        return f"{value:.{self.about.digits or 2 * (value < 10)}f}"


@dataclass(frozen=True)
class Value:
    """What one line said. `protocol` is set by raw_sockets: "udp", "udp-sealed" or "tcp". `each`
    are the samples in their order, of programs that took turns."""

    figure: Figure
    value: float
    protocol: str = ""
    each: tuple[float, ...] = ()


def parse_pairs(words: list[str]) -> dict[str, str] | None:
    """["a=1", "b=x"] -> {"a": "1", "b": "x"}; None when a word is no key=value pair."""
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            return None
        pairs[key] = value
    return pairs


def parse_line(line: str, scene: str = "") -> list[Value]:
    """The figures of one line; none when it is no figure line."""
    words = line.split()
    if not words or words[0] not in LINES:
        return []
    pairs = parse_pairs(words[1:])
    if not pairs:
        return []
    suffix = "_bi" if pairs.get("direction") == "bi" else ""
    values = []
    for quantity, key in LINES[words[0]]:
        try:
            size = int(pairs.get(SIZE_KEYS.get(words[0], "bytes"), NO_SIZE))
            number = float(pairs[key])
        except (KeyError, ValueError):
            continue
        figure = Figure(quantity + suffix, size, scene)
        values.append(Value(figure, number, pairs.get("protocol", "")))
    return values


def parse_each(line: str) -> tuple[float, ...]:
    """The samples of the figure in the next line; none when it is no such line."""
    words = line.split()
    pairs = parse_pairs(words[1:]) if words[:1] == ["each"] else None
    try:
        return tuple(float(word) for word in pairs["values"].split(",")) if pairs else ()
    except (KeyError, ValueError):
        return ()


def parse_output(text: str, scene: str = "") -> list[Value]:
    """Samples are those of the first figure of a line."""
    values, each = [], ()
    for line in text.splitlines():
        found = parse_line(line, scene)
        if found:
            found[0] = replace(found[0], each=each)
        values += found
        each = parse_each(line)
    return values
