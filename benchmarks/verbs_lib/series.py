# SPDX-License-Identifier: BSD-3-Clause
"""What is compared: services and verbs, by which program, and the figures that a program prints."""

from __future__ import annotations

from dataclasses import dataclass

NATIVE, OF, RAW, LOSS = "native", "of", "raw", "loss"
GROUP = "group"  # see group.py
GROUPS = (NATIVE, OF, RAW, LOSS, GROUP)
# Figures. Whole: of messages that came whole; valid: bytes that came, of any; last: of these, those
# of messages whose last segment came; lost: percent of the messages that did not come whole.
LATENCY, WHOLE, VALID, LAST, LOST = "latency", "whole", "valid", "last", "lost"
SIZES = sorted([4**i for i in range(12)] + [512 << 10])
QUICK_SIZES = [1, 4096, 65536, 1 << 20]
LOSSES = [0.0, 0.1, 0.5, 1.0, 5.0]
QUICK_LOSSES = [0.0, 1.0]
# Which datagram-iWARP's UD has in its papers; here it takes a network that breaks datagrams up.
LARGE_DATAGRAM_BYTES = 65504
LARGE_MTU = 65535
MTU = 1500


@dataclass(frozen=True)
class Series:
    name: str
    group: str
    words: str  # of the program: "rd,send", "udp"
    large: bool = False  # in datagrams of 64 KiB
    lack: str = ""  # why it cannot be measured at all

    @property
    def one_sided(self) -> bool:
        """Whether its latency is that of a request until it completes."""
        return self.words in ("rd,write", "ud,read", "rd,read", "rc,read")


SERIES = (
    Series("UD Send", NATIVE, "ud,send"),
    Series("RD Send", NATIVE, "rd,send"),
    Series("RC Send", NATIVE, "rc,send"),
    Series("UD Write-Record", NATIVE, "ud,write"),
    Series("RD Write-Record", NATIVE, "rd,write"),
    Series("RC Write", NATIVE, "rc,write"),
    Series("UD Read", NATIVE, "ud,read"),
    Series("RD Read", NATIVE, "rd,read"),
    Series("RC Read", NATIVE, "rc,read"),
    Series("OF UD Send", OF, "ud,send"),
    Series("OF RD Send", OF, "rd,send"),
    Series("OF RC Send", OF, "rc,send"),
    Series("OF UD Write-Record", OF, "ud,write"),
    Series("OF RD Write", OF, "rd,write"),
    Series("OF RC Write", OF, "rc,write"),
    Series("OF UD Read", OF, "ud,read"),
    Series("OF RD Read", OF, "rd,read"),
    Series("OF RC Read", OF, "rc,read"),
    Series("raw UDP", RAW, "udp"),
    Series("raw TCP", RAW, "tcp"),
    Series("UD Send, MTU", LOSS, "ud,send"),
    Series("UD Write-Record, MTU", LOSS, "ud,write"),
    Series("UD Read, MTU", LOSS, "ud,read"),
    Series("UD Send, 64 KiB", LOSS, "ud,send", large=True),
    Series("UD Write-Record, 64 KiB", LOSS, "ud,write", large=True),
    Series("RD Send, MTU", LOSS, "rd,send"),
    Series("RD Write-Record, MTU", LOSS, "rd,write"),
)


@dataclass(frozen=True)
class Figure:
    quantity: str
    bytes: int
    loss: float | None = None  # percent; None: of the first part


# What the design is to show: (series, the one to compare with, figure, wanted): up to a
# wanted latency, from a wanted bandwidth on.
COMPARED = (
    ("UD Send", "RC Send", Figure(LATENCY, 64), 0.82),
    ("UD Write-Record", "RC Write", Figure(LATENCY, 64), 0.76),
    ("UD Write-Record", "RC Write", Figure(WHOLE, 512 << 10), 2.0),
    ("UD Read", "RC Read", Figure(LATENCY, 64), 0.8),
    ("OF UD Send", "raw UDP", Figure(LATENCY, 64), 1.3),
    ("OF RC Send", "raw TCP", Figure(WHOLE, 1 << 20), 0.8),
)


def quantities(series: Series) -> tuple[str, ...]:
    """That a series has."""
    if series.group != LOSS:
        return (LATENCY, WHOLE)
    return {"ud,write": (WHOLE, VALID, LAST, LOST), "ud,send": (WHOLE, LOST),
            "ud,read": (WHOLE, VALID, LOST)}.get(series.words,
                                                                               (WHOLE,))


def figures_of(series: Series, sizes: list[int], loss: float | None) -> list[Figure]:
    return [Figure(quantity, size, loss) for quantity in quantities(series) for size in sizes]


# ---- what programs print ------------------------------------------------------------------------

# Begins a line of what an error has cost: all figures of that size that were not printed before.
FAILED = "failed"
FIELDS = {LATENCY: "us", WHOLE: "MBps", VALID: "valid_MBps", LAST: "last_MBps",
          LOST: "lost_percent"}


def fields_of(line: str) -> dict[str, str]:
    """Of "latency bytes=8 us=1.5"; `why` is the rest of its line."""
    head, _, why = line.partition(" why=")
    fields = dict(word.split("=", 1) for word in head.split() if "=" in word)
    return {**fields, "why": why} if why else fields


def readings(series: Series, output: str, loss: float | None) -> tuple[dict, dict]:
    """({figure: value}, {figure: why there is none}) of a program's output."""
    values: dict[Figure, float] = {}
    lacks: dict[Figure, str] = {}
    for line in output.splitlines():
        what = line.split(" ", 1)[0]
        fields = fields_of(line)
        if what not in ("latency", "stream", "lack", FAILED) or "bytes" not in fields:
            continue
        for quantity in quantities(series):
            of_line = what in ("lack", FAILED) or (what == "latency") == (quantity == LATENCY)
            figure = Figure(quantity, int(fields["bytes"]), loss)
            if of_line and "why" in fields:
                if figure not in values:
                    lacks[figure] = fields["why"]
            elif of_line and FIELDS[quantity] in fields:
                values[figure] = float(fields[FIELDS[quantity]])
            elif of_line:
                lacks[figure] = "the kernel cannot do it"
    return values, lacks
