/* SPDX-License-Identifier: BSD-3-Clause */
/* The lower layer protocol: carries datagrams, knows nothing of what is in them. UDP (udp.c), the
 * simulator and the fault injector of the tests are equals behind this interface. Not thread-safe:
 * the caller holds the device's lock. */
#pragma once

#include <string.h>
#include <sys/uio.h>

#include "common/include/diwarp.h"

/* A destination. */
struct dw_llp_addr {
    uint8_t family;     /* AF_INET, AF_INET6 */
    uint16_t port;      /* host order */
    uint8_t ip[16];     /* network order; IPv4 uses the first 4 bytes */
    uint8_t hops;       /* of a group: the hop limit */
    uint32_t interface; /* of a group: index of the one that datagrams leave by; else 0 */
};

static inline bool dw_llp_same_host(const struct dw_llp_addr *a, const struct dw_llp_addr *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, a->family == AF_INET ? 4 : 16) == 0;
}

/* Datagrams to one destination, back to back in iov, each of segment_bytes but the last, which may
 * be shorter. */
struct dw_llp_train {
    const struct dw_llp_addr *to;
    const struct iovec *iov;
    unsigned iov_count;
    uint32_t total_bytes;
    uint32_t segment_bytes;
    uint8_t flow; /* by its own source port; 0: from the port that peers send to */
    bool whole;   /* none is cut in fragments, though the host may believe the path too narrow */
    bool ecn;     /* ECN-capable (RFC 3168): a queue may mark them instead of dropping them */
};

/* Most in one train (UDP_MAX_SEGMENTS of older kernels; IPv4's length field). */
#define DW_LLP_TRAIN_DATAGRAMS 64
#define DW_LLP_TRAIN_BYTES     65000
/* Room for one receive call: a whole GRO train. */
#define DW_LLP_SLOT_BYTES 65536

struct dw_llp;

/* No MTU is as small. */
enum dw_llp_told {
    DW_LLP_NO_PORT = 0,    /* nobody has the port */
    DW_LLP_PROHIBITED = 1, /* a firewall lets nothing through to it */
};

struct dw_llp_ops {
    /* 0, or -EAGAIN: nothing sent, try again later; -EHOSTUNREACH and kin: this destination cannot
     * be reached now. A train is sent whole or (GSO not usable there) datagram by datagram;
     * datagrams of it that the socket then refuses count as lost. */
    int (*send)(struct dw_llp *llp, const struct dw_llp_train *train);
    /* Without blocking: how many bytes came to buf, of DW_LLP_SLOT_BYTES, as datagrams of
     * *segment_bytes (never 0) each but the last; of a longer datagram, its length. -1: nothing. */
    int (*recv)(struct dw_llp *llp, uint8_t *buf, uint32_t *segment_bytes);
    /* Others may share the port: what is meant for this process bears a key, big-endian at that
     * offset. Returns the one to use, which may differ in its lowest byte. May be NULL. */
    uint64_t (*share)(struct dw_llp *llp, uint64_t key, unsigned key_at);
    /* A datagram that bears another one; false: nobody who shares the port has it. NULL: so for
     * all.
     */
    bool (*forward)(struct dw_llp *llp, uint64_t key, const uint8_t *buf, uint32_t bytes);
    /* What ICMP, or the own host, says of a destination of ours (RFC 792, 1812 and 4443): one of
     * dw_llp_told, or the MTU of a path that is narrower than a datagram was. -1: nothing. */
    int (*icmp)(struct dw_llp *llp, struct dw_llp_addr *to);
    /* Of the path to a destination, by the own host's routes and by ICMP; 0: nothing is known.
     * NULL: of any. */
    uint32_t (*path_mtu_bytes)(struct dw_llp *llp, const struct dw_llp_addr *to);
    /* What only receives what is sent to that multicast or broadcast address and port, of these
     * interfaces, by index; no process of the host keeps it from another. Its counters are this
     * one's; it may outlive it. 0 or negative errno. NULL: there are no groups. */
    int (*open_group)(struct dw_llp *llp, const struct dw_llp_addr *group,
                      const uint32_t *interfaces, unsigned count, struct dw_llp **socket);
    void (*close)(struct dw_llp *llp);
    /* Adds what it holds, base_bytes and its sockets. NULL: nothing to tell. */
    void (*add_memory)(const struct dw_llp *llp, struct diwarp_memory *memory);
};

/* Facts fixed at open. Implementations embed this first. */
struct dw_llp {
    const struct dw_llp_ops *ops;
    struct diwarp_counters *counters; /* tx_datagrams, rx_syscalls and kin; the caller's */
    int fd;                           /* -1: cannot be polled */
    int forwarded_fd; /* set by share(): brings what siblings send on; -1: the port is not shared */
    uint16_t port;
    uint32_t rcvbuf_bytes; /* as the kernel accounts it: truesize included */
    uint32_t sndbuf_bytes;
    bool gso;    /* off after a fallback that holds for every destination */
    bool gro;    /* AUTO: on once trains come */
    bool trains; /* set by who reads what recv() brings: there were parts of a train */
    bool told;   /* there may be messages of ICMP for icmp() */
    bool marked; /* what recv() brought last had met congestion (RFC 3168) */
};

/* `attr`: ports, buffers, GSO and GRO. `at`: the address to bind to; IP 0: any. -EADDRINUSE,
 * -EADDRNOTAVAIL, -EACCES...; `why` is set then, but for -ENOMEM. arg: not used. */
int dw_udp_open(void *arg, const struct diwarp_device_attr *attr, const struct dw_llp_addr *at,
                struct diwarp_counters *counters, struct dw_llp **llp,
                struct diwarp_diagnosis *why);

/* Bytes the kernel charges against SO_RCVBUF for one datagram of `payload_bytes`: the skb's data
 * rounded up to the allocator's size class, and its header (facts: 1472 B cost 2304). */
uint32_t dw_llp_truesize(uint32_t payload_bytes);
/* From this on it is little more than the payload. */
#define DW_LLP_LONG_BYTES 16384
