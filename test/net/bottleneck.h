/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One direction of a link: faults by chance, a queue of limited length in front of a sender of
 * limited rate, active queue management that marks or drops, and the delay of the line. Pure: the
 * time is given, packets are bytes that begin with an IP header. Used by forwarder.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Packets held at once, in the queue and on the line; one more is dropped. At 1500 bytes that is
 * 100 MB, 0.8 s of 1 Gb/s. */
#define BOTTLENECK_PACKETS_MAX 65536
#define BOTTLENECK_BYTES_MAX   65535

enum bottleneck_aqm {
    BOTTLENECK_TAIL_DROP,
    BOTTLENECK_STEP,  /* as DCTCP wants it: acts on what finds more than step_bytes queued */
    BOTTLENECK_CODEL, /* RFC 8289 */
};

struct bottleneck_options {
    double rate_bps; /* bits of packets, IP header included; 0: no limit, then nothing queues */
    double loss, duplicate, reorder, corrupt; /* probabilities, each for itself */
    uint32_t burst_bytes; /* token bucket: so much may leave at once after a late call */
    uint32_t queue_bytes;
    uint32_t step_bytes;
    enum bottleneck_aqm aqm;
    bool ecn; /* mark, where the packet is ECN-capable, what AQM would drop */
    uint64_t delay_ns;
    uint64_t reorder_ns; /* so much later than others */
    uint64_t codel_target_ns, codel_interval_ns;
    uint64_t seed;
};

#define BOTTLENECK_COUNTERS(X) \
    X(in)                      \
    X(out)                     \
    X(bytes_out)               \
    X(lost)                    \
    X(overflowed)              \
    X(aqm_dropped)             \
    X(marked)                  \
    X(duplicated)              \
    X(reordered)               \
    X(corrupted)               \
    X(queue_bytes_max)         \
    X(queue_ns_max)

struct bottleneck_counters {
#define X(name) uint64_t name;
    BOTTLENECK_COUNTERS(X)
#undef X
};

struct bottleneck_packet {
    struct bottleneck_packet *next;
    uint64_t queued_ns; /* when it came */
    uint64_t due_ns;    /* at the far end */
    uint32_t bytes;
    uint8_t data[];
};

struct bottleneck_list {
    struct bottleneck_packet *first, *last;
};

struct bottleneck {
    struct bottleneck_options options;
    struct bottleneck_counters counters;
    struct bottleneck_list queue, line; /* line: by due_ns */
    uint32_t queue_bytes, packets;
    uint64_t random;
    uint64_t free_ns; /* when the sender has sent what it has taken */
    struct {
        uint64_t above_since_ns; /* 0: the last packet had waited for less than the target */
        uint64_t next_ns;        /* of the next drop or mark, while dropping */
        uint32_t count;
        bool dropping;
    } codel;
};

void bottleneck_init(struct bottleneck *link, const struct bottleneck_options *options);
void bottleneck_fini(struct bottleneck *link);
/* A packet arrives. Times never go back. */
void bottleneck_put(struct bottleneck *link, const uint8_t *data, uint32_t bytes, uint64_t now_ns);
/* The next that has crossed; the caller frees it. NULL: none yet. */
struct bottleneck_packet *bottleneck_take(struct bottleneck *link, uint64_t now_ns);
/* When bottleneck_take() is worth a call; UINT64_MAX: not before another packet arrives. */
uint64_t bottleneck_deadline_ns(const struct bottleneck *link);

/* Congestion Experienced, RFC 3168, checksum included. False: neither IPv4 nor IPv6, or the packet
 * is not ECN-capable, or marked already. */
bool bottleneck_mark(uint8_t *data, uint32_t bytes);
/* Damages the payload. Odd `random`: one bit, which UDP's checksum tells; even: two different words
 * of 16 bits change places, which it does not. False: the packet is too short, or all alike. */
bool bottleneck_corrupt(uint8_t *data, uint32_t bytes, uint64_t random);
