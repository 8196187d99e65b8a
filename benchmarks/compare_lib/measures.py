# SPDX-License-Identifier: BSD-3-Clause
"""What is run: one row for each program and place, with the arguments of both modes."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace

from .figures import bytes_text
from .transports import (CONNECTED, DIWARP, DIWARP_SHARED, OFI_RXD, OFI_TCP, RAW_SEALED, RAW_TCP,
                         RAW_UDP, TCP, TCP_CUBIC, TCP_SHARED, TCPS, UCX)

BETWEEN_HOSTS = {
    "mtu1500": "between two hosts (network namespaces) at MTU 1500, 1 B to 4 MiB",
    "mtu9000": "between two hosts (network namespaces) at MTU 9000, 1 B to 4 MiB",
    "tails": "between two hosts: round trips one by one, the middle and the slowest",
    "loss": "between two hosts that lose packets; [share] of what the same transport makes there "
            "without loss",
    "link": "between two hosts with 1 Gb/s: share of a transfer hidden behind computation",
    "shared": "two hosts with two ranks each: collectives, by shared memory within a host or not",
}
ONE_HOST = {
    "pt2pt": "two ranks: half round trip, streaming, both directions, message rate, CPU",
    "pairs": "several pairs at once: message rate, streaming",
    "onesided": "MPI_Put, MPI_Get and MPI_Accumulate: latency, streaming",
    "collectives": "Allreduce, Alltoall, Bcast with 8 ranks",
    "overlap": "share of a transfer hidden behind computation",
    "rcvbuf": "streaming with a small socket receive buffer",
    "incast": "15 senders to one receiver",
    "rc": "RC against RD and the tcp BTL",
}
GROUPS = {**BETWEEN_HOSTS, **ONE_HOST}
PLACES = {"between-hosts": BETWEEN_HOSTS, "one-host": ONE_HOST}
# Of these groups every message size is a target.
SWEEPS = {"mtu1500": 1500, "mtu9000": 9000}
# Where both of the tcp BTL's congestion controls are run; elsewhere the first that there is.
BOTH_TCPS = ("mtu1500", "mtu9000", "tails", "loss", "pt2pt")

KIB, MIB = 1 << 10, 1 << 20

# Bytes. The kernel charges twice what is asked for, so both are readings of "limited to 212,992 B".
LIMITED_BUFFERS = (212992, 106496)

RAW_PROGRAM = "raw_sockets"
# Of a segment of a record, its trailer included (common/wire/WIRE.md).
RECORD_HEADER_BYTES = 92
NAMED_BTLS = (DIWARP, *TCPS)

# Scenes, which the targets and tables name too.
BOTH_SLEEP, RECEIVER_COMPUTES, BOTH_COMPUTE = "both sleep", "receiver computes", "both compute"
OVERLAP_SCENES = (BOTH_SLEEP, RECEIVER_COMPUTES, BOTH_COMPUTE)
# Lost of a thousand packets -> scene. Also without loss every packet leaves alone.
LOSS_SCENES = {permille: f"MTU 1500 packet by packet, {permille / 10:g} % lost"
               for permille in (0, 1, 10, 50)}
LINK_MBIT = 1000
LINK_SCENES = tuple(f"{scene}, 1 Gb/s" for scene in (RECEIVER_COMPUTES, BOTH_COMPUTE))
WHOLE_BUFFER = "receive buffer as it is"
# What a window of 64 messages of 1 MiB takes: raw UDP without its one hot buffer.
PROGRAM_MEMORY = "64 MiB of memory"


EAGER_MESSAGES = "8 KiB messages"
USUAL_RECEIVES, LONG_RECEIVES = "receives as they are", "receives of 65,800 B"


def buffer_scene(size: int) -> str:
    return f"receive buffer {size:,} B"


EVERY_ROUND = (sys.maxsize, sys.maxsize)

# Message sizes between hosts.
SWEEP = tuple(1 << i for i in range(23))
QUICK_SWEEP = (8, KIB, 8 * KIB, 64 * KIB, MIB, 4 * MIB)


@dataclass(frozen=True)
class Effort:
    """How much is done: quick or full. `column` picks from the pairs in MEASURES."""

    name: str
    column: int
    rounds: int
    # Timed samples of a figure in a round; 0: as MEASURES says.
    samples: int
    # No further round is begun that would end later than this; 0: no limit.
    seconds: float


QUICK = Effort("quick", 0, 5, 0, 165)
FULL = Effort("full", 1, 3, 0, 2400)


@dataclass(frozen=True)
class Measure:
    """One program at one place, over several transports. Pairs hold what quick and full mode take.
    {r} in the arguments is the number of samples."""

    group: str
    program: str
    arguments: str | tuple[str, str]
    samples: tuple[int, int]
    transports: tuple[str, ...]
    ranks: int = 2
    scene: str = ""
    # Of those of one name all run at the same time and take turns, sample by sample; each has as
    # many figures, in the same order, and as many samples. "": one after the other.
    ring: str = ""
    # Most rounds it takes part in.
    rounds: tuple[int, int] = EVERY_ROUND
    # 0: this host's loopback; otherwise two namespaces with that MTU.
    mtu: int = 0
    # Packets of a thousand that are lost between the namespaces; None: trains pass as they are.
    permille: int | None = None
    # Rate of the link between the namespaces; 0: as fast as the cores.
    mbit: int = 0
    # More options of mpirun, by transport.
    options: dict[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    # Message sizes whose streams the one raw stream is the limit of.
    stands_for: tuple[int, ...] = ()
    # Longest time of one run.
    seconds: float = 120
    title: str = ""
    # What cannot run is skipped, and is no failure.
    optional: bool = False

    @property
    def is_raw(self) -> bool:
        return self.program == RAW_PROGRAM

    def words(self, effort: Effort) -> list[str]:
        text = self.arguments
        if isinstance(text, tuple):
            text = text[effort.column]
        return text.format(r=effort.samples or self.samples[effort.column]).split()


# Each through its own transport: left alone, Open MPI would take osc/ucx for all. Over the tcp BTL,
# which has no RDMA, 4.1 then takes osc/pt2pt, and 5.0 makes osc/rdma of messages. Beside libfabric
# osc/rdma would take the BTL of shared memory.
ONE_SIDED_OPTIONS = {
    DIWARP: ("--mca", "osc", "rdma"),
    **dict.fromkeys((TCP, *TCPS), ("--mca", "osc", "^sm,ucx")),
    UCX: ("--mca", "osc", "ucx"),
    OFI_TCP: ("--mca", "osc", "pt2pt"),
}
# Said explicitly, whatever the default is.
HELPER_ON = {DIWARP: ("--mca", "btl_diwarp_progress_thread", "1")}

OFI_POINT_TO_POINT = "-l 8,1024,8192,65536 -s 1048576,4194304 -d both -m 8 -w 64 -r {r}"
SLOW_POINT_TO_POINT = "-l 8,1024,8192,65536 -s 1048576 -d uni -m 8 -w 64 -r {r}"
LONG_RECEIVES_OPTION = ("--mca", "btl_diwarp_rc_recv_bytes", "65800")


# Arguments of latency_bandwidth.
def latency_of(*sizes: int) -> str:
    return f"-l {listed(sizes)} -s none -m none -r {{r}}"


def stream_of(*sizes: int, direction: str = "uni") -> str:
    return f"-l none -s {listed(sizes)} -d {direction} -m none -w 64 -r {{r}}"


def rate_of(size: int) -> str:
    return f"-l none -s none -m {size} -w 64 -r {{r}}"


def listed(sizes: tuple[int, ...]) -> str:
    return ",".join(map(str, sizes))


# What one round takes of samples in turns; a program's time for one is some 10 ms and up.
SHORT_TURNS, TURNS, LONG_TURNS = (11, 101), (7, 41), (3, 21)
SWEEP_TURNS = (3, 11)


def raw_streams(group: str, ring: str, samples: tuple[int, int], size: int, words: str = "",
                **more) -> tuple[Measure, ...]:
    """In GSO trains, and in single datagrams: the better one counts."""
    return tuple(Measure(group, RAW_PROGRAM, f"-p udp -l none -g {gso} {words} -r {{r}}", samples,
                         (RAW_UDP,), ring=ring, stands_for=(size,), **more)
                 for gso in ("on", "off"))


def point_to_point() -> tuple[Measure, ...]:
    out = []
    over = (*NAMED_BTLS, UCX)
    place, sizes = {"ring": "half round trips"}, (8, KIB, 8 * KIB, 64 * KIB)
    out.append(Measure("pt2pt", RAW_PROGRAM, f"-p udp -l {listed(sizes)} -s 0 -r {{r}}",
                       SHORT_TURNS, (RAW_UDP,), **place))
    out.append(Measure("pt2pt", "latency_bandwidth", latency_of(*sizes), SHORT_TURNS, over,
                       **place))
    for size, samples in ((MIB, TURNS), (4 * MIB, LONG_TURNS)):
        ring = f"{bytes_text(size)} streaming"
        out += raw_streams("pt2pt", ring, samples, size)
        if size == MIB:
            out += raw_streams("pt2pt", ring, samples, size, "-b 64", scene=PROGRAM_MEMORY)
        out.append(Measure("pt2pt", "latency_bandwidth", stream_of(size), samples, over, ring=ring))
    for size, samples in ((MIB, TURNS), (4 * MIB, LONG_TURNS)):
        ring = f"{bytes_text(size)} in both directions"
        both = "-p udp -l none -d bi -r {r}"
        out.append(Measure("pt2pt", RAW_PROGRAM, both, samples, (RAW_UDP,), ring=ring,
                           stands_for=(size,)))
        if size == MIB:
            out.append(Measure("pt2pt", RAW_PROGRAM, f"-b 64 {both}", samples, (RAW_UDP,),
                               ring=ring, scene=PROGRAM_MEMORY, stands_for=(size,)))
        out.append(Measure("pt2pt", "latency_bandwidth", stream_of(size, direction="bi"), samples,
                           over, ring=ring))
    out.append(Measure("pt2pt", "latency_bandwidth", rate_of(8), TURNS, over, ring="8 B messages"))
    return tuple(out)


def one_sided() -> tuple[Measure, ...]:
    kinds = {"put": MIB, "get": MIB, "accumulate": 64 * KIB}
    return tuple(Measure("onesided", "one_sided", f"-o {what} -l 8 -s {size} -w 64 -r {{r}}", TURNS,
                         (*NAMED_BTLS, UCX), ring=what, options=ONE_SIDED_OPTIONS)
                 for what, size in kinds.items())


def beside_shared_memory() -> tuple[Measure, ...]:
    """Between the hosts what leaves them counts; on one what diwarp takes from shared memory."""
    words = f"-a 8 -t {4 * KIB} -b {MIB} -r {{r}}"
    return (Measure("shared", "collectives", words, LONG_TURNS,
                    (DIWARP_SHARED, TCP_SHARED, DIWARP, TCP_CUBIC), ranks=4, mtu=1500,
                    scene="MTU 1500", ring="2 hosts, 4 ranks"),
            Measure("shared", "latency_bandwidth", latency_of(8, MIB), LONG_TURNS,
                    (DIWARP_SHARED, TCP_SHARED), scene="within a host", ring="within a host"))


def small_buffers() -> tuple[Measure, ...]:
    scenes = {WHOLE_BUFFER: (), **{buffer_scene(size): ("--mca", "btl_diwarp_rcvbuf", str(size))
                                   for size in LIMITED_BUFFERS}}
    return tuple(Measure("rcvbuf", "latency_bandwidth", stream_of(MIB, 4 * MIB), LONG_TURNS,
                         (DIWARP,), ring="streams", scene=scene, options={DIWARP: option})
                 for scene, option in scenes.items())


def connected() -> tuple[Measure, ...]:
    """Receives of more than 8 KiB matter to messages of 16 and 64 KiB only."""
    place = {"samples": LONG_TURNS, "rounds": (1, 3)}
    longer = {"half round trips of 16 and 64 KiB": latency_of(16 * KIB, 64 * KIB),
              "64 KiB streaming": stream_of(64 * KIB)}
    usual = {"half round trips": latency_of(8, 4 * KIB, MIB), "streams": stream_of(8 * KIB, MIB),
             "8 B messages": rate_of(8), **longer}
    out = [Measure("rc", "latency_bandwidth", words, ring=ring, scene=USUAL_RECEIVES,
                   transports=(DIWARP, *TCPS, *CONNECTED), **place)
           for ring, words in usual.items()]
    out += [Measure("rc", "latency_bandwidth", words, ring=ring, scene=LONG_RECEIVES,
                    transports=CONNECTED,
                    options=dict.fromkeys(CONNECTED, LONG_RECEIVES_OPTION), **place)
            for ring, words in longer.items()]
    return tuple(out)


def size_lists(arguments: str) -> tuple[str, str]:
    """Of quick and of full mode."""
    return tuple(arguments.format(sizes=listed(sizes), r="{r}")
                 for sizes in (QUICK_SWEEP, SWEEP))


def sweep(group: str, mtu: int, rounds: tuple[int, int]) -> tuple[Measure, ...]:
    """Raw segments fill a packet: 28 bytes are headers of IP and UDP. As much is under way as of
    diwarp's records. Sealed, they have headers as long as those of records."""
    scene, out = f"MTU {mtu}", []
    for ring, raw, mpi in (("half round trips", "-l {sizes} -s 0", "-l {sizes} -s none"),
                           ("streams", "-l none -n {sizes} -s 32", "-l none -s {sizes} -d uni")):
        place = {"scene": scene, "ring": ring, "rounds": rounds, "mtu": mtu}
        raw_udp = size_lists(f"-p udp -g on -m {mtu - 28} -w 1024 {raw} -r {{r}}")
        raw_tcp = size_lists(f"-p tcp {raw} -r {{r}}")
        out.append(Measure(group, RAW_PROGRAM, raw_udp, SWEEP_TURNS, (RAW_UDP,), **place))
        sealed = tuple(f"{words} -c on -h {RECORD_HEADER_BYTES}" for words in raw_udp)
        out.append(Measure(group, RAW_PROGRAM, sealed, SWEEP_TURNS, (RAW_SEALED,), **place))
        out.append(Measure(group, RAW_PROGRAM, raw_tcp, SWEEP_TURNS, (RAW_TCP,), **place))
        words = size_lists(f"{mpi} -m none -w 64 -r {{r}}")
        out.append(Measure(group, "latency_bandwidth", words, SWEEP_TURNS, NAMED_BTLS, **place))
    return tuple(out)


def tails() -> tuple[Measure, ...]:
    """Of 1000 round trips a sample, each timed by itself."""
    place = {"scene": "MTU 1500", "ring": "8 B half round trips one by one", "mtu": 1500}
    raw = "-l 8 -t 1000 -s 0 -r {r}"
    return (*(Measure("tails", RAW_PROGRAM, f"-p {protocol} {raw}", SHORT_TURNS, (name,), **place)
              for protocol, name in (("udp", RAW_UDP), ("tcp", RAW_TCP))),
            Measure("tails", "latency_bandwidth", "-l 8 -t 1000 -s none -m none -r {r}",
                    SHORT_TURNS, NAMED_BTLS, **place))


def loss() -> tuple[Measure, ...]:
    """Few bytes, for a TCP that has lost much waits long."""
    words = f"-l none -s {MIB} -d uni -m none -w 8 -r {{r}}"
    return tuple(Measure("loss", "latency_bandwidth", words, (1, 5), NAMED_BTLS, scene=scene,
                         mtu=1500, permille=permille, rounds=(int(permille in (0, 10)), 2))
                 for permille, scene in LOSS_SCENES.items())


def shared_cores_scene(scene: str) -> str:
    """Of an incast whose receiver has no core to itself."""
    return f"{scene}, cores shared" if scene else "cores shared"


def incast(arguments: str, seconds: tuple[float, float], rounds: tuple[int, int],
           scene: str = "") -> tuple[Measure, ...]:
    """From one sender, and from 15, which leave the receiver a core to itself or not."""
    quick, full = (arguments.format(seconds=s) for s in seconds)
    size = f", {scene}" if scene else ""
    shared = shared_cores_scene(scene)
    return (
        Measure("incast", "incast", (quick, full), (0, 0), NAMED_BTLS, scene=scene, rounds=rounds,
                title=f"1 → 1{size}"),
        Measure("incast", "incast", (f"{quick} -c", f"{full} -c"), (0, 0), NAMED_BTLS, ranks=16,
                scene=scene, rounds=rounds, title=f"15 → 1{size}"),
        Measure("incast", "incast", (quick, full), (0, 0), NAMED_BTLS, ranks=16, scene=shared,
                rounds=(1, rounds[1]), title=f"15 → 1, {shared}"),
    )


BY_GROUP = (
    *sweep("mtu1500", 1500, (1, 3)),
    *sweep("mtu9000", 9000, (1, 2)),
    *tails(),
    *loss(),
    *point_to_point(),
    Measure("pt2pt", RAW_PROGRAM, "-p tcp -l 8,1024,8192,65536 -r {r}", (7, 41), (RAW_TCP,),
            stands_for=(MIB, 4 * MIB)),
    Measure("pt2pt", "latency_bandwidth", OFI_POINT_TO_POINT, (3, 31), (OFI_TCP,), rounds=(1, 3)),
    Measure("pt2pt", "latency_bandwidth", SLOW_POINT_TO_POINT, (3, 11), (OFI_RXD,),
            rounds=(1, 3)),
    Measure("pairs", "latency_bandwidth", "-l 8 -s 1048576 -d uni -m 8 -w 64 -r {r}", (5, 31),
            (*NAMED_BTLS, UCX), ranks=4, scene="2 pairs", rounds=(1, 5)),
    Measure("pairs", "latency_bandwidth", "-l 8 -s 1048576 -d uni -m 8 -w 64 -r {r}", (5, 21),
            (*NAMED_BTLS, UCX), ranks=8, scene="4 pairs", rounds=(1, 5)),
    *one_sided(),
    Measure("onesided", "one_sided", "-l 8 -s 1048576 -w 64 -r {r}", (0, 31), (OFI_TCP,),
            options=ONE_SIDED_OPTIONS, rounds=(0, 1), seconds=60, optional=True),
    Measure("collectives", "collectives", f"-a 8 -t {4 * KIB} -b {MIB} -r {{r}}", TURNS,
            (*NAMED_BTLS, UCX), ranks=8, ring="8 ranks"),
    Measure("collectives", "collectives", f"-a none -t {256 * KIB},{MIB} -b none -r {{r}}",
            LONG_TURNS, (*NAMED_BTLS, UCX), ranks=8, ring="8 ranks, long"),
    Measure("collectives", "collectives", "-r {r}", (0, 31), (OFI_TCP,), ranks=8, rounds=(0, 1),
            seconds=60, optional=True),
    Measure("overlap", "overlap", "-b 4194304 -c sleep -r {r}", (11, 51), (*NAMED_BTLS, UCX),
            scene=BOTH_SLEEP, options=HELPER_ON),
    Measure("overlap", "overlap", "-b 4194304 -c spin -1 -r {r}", (11, 51), (*NAMED_BTLS, UCX),
            scene=RECEIVER_COMPUTES, options=HELPER_ON, rounds=(1, 7)),
    Measure("overlap", "overlap", "-b 4194304 -c spin -r {r}", (11, 51), (*NAMED_BTLS, UCX),
            scene=BOTH_COMPUTE, options=HELPER_ON, rounds=(1, 7)),
    *(Measure("link", "overlap", f"-b 4194304 -c spin {who}-r {{r}}", (2, 15), (*NAMED_BTLS, UCX),
              scene=scene, options=HELPER_ON, rounds=(1, 3), mtu=1500, mbit=LINK_MBIT)
      for who, scene in zip(("-1 ", ""), LINK_SCENES)),
    *beside_shared_memory(),
    *small_buffers(),
    *incast("-b 1048576 -w 16 -t {seconds:g}", (1, 3), (2, 5)),
    *incast("-b 8192 -w 16 -t {seconds:g}", (0.5, 2), (1, 5), EAGER_MESSAGES),
    *connected(),
)

# Transports that no target is about, in groups where one round tells enough; libfabric takes quick
# mode too long.
IN_ONE_ROUND = (
    # transport, groups, rounds
    (UCX, ("incast",), (1, 1)),
    (OFI_TCP, ("pairs", "overlap", "link", "incast"), (0, 1)),
)


def with_others(measure: Measure) -> list[Measure]:
    others = [replace(measure, transports=(transport,),
                      rounds=tuple(map(min, measure.rounds, most)), seconds=60, optional=True)
              for transport, groups, most in IN_ONE_ROUND
              if measure.group in groups and not measure.is_raw]
    return [measure, *others]


MEASURES = tuple(each for measure in BY_GROUP for each in with_others(measure))
