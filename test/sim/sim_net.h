/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated network: a virtual clock, and an LLP whose datagrams cross a seeded network that
 * loses, repeats, delays, reorders and damages them and ends in bounded receive buffers. Knows
 * nothing of what is in a datagram.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/llp/llp.h"

#define SIM_MAX_ENDPOINTS 32

/* Of 1000 datagrams; times are added to each datagram's own. */
struct sim_impairment {
    uint32_t loss_permille, dup_permille, corrupt_permille, reorder_permille;
    uint64_t delay_ns, jitter_ns; /* jitter keeps the order */
    uint64_t reorder_ns;          /* at most, for those that are reordered */
    double bytes_per_ns;          /* of each sender's link */
    /* The switch's port to each receiver, and what it queues; 0: as fast as all senders together.
     */
    double port_bytes_per_ns;
    uint32_t port_bytes;
};

#define SIM_MAX_NETWORKS 4

struct sim_endpoint;

struct sim_datagram {
    struct dw_timer timer; /* its arrival */
    struct dw_list link;   /* in endpoint.queue, once it has arrived */
    struct sim_net *net;
    const struct sim_endpoint *from;
    struct dw_llp_addr to;
    bool corrupted;
    bool injected, forged; /* by an attacker; forged: it is none that was sent */
    uint32_t bytes;
    uint8_t buf[];
};

enum sim_verdict { SIM_PASS, SIM_DROP, SIM_REPEAT };

struct sim_net {
    uint64_t now_ns;
    uint64_t random_state;
    struct sim_impairment impairment;
    bool gro;              /* waiting datagrams of one sender and size are received together */
    uint8_t full_host;     /* the sockets of all others that send to it are full; 0: to none */
    uint8_t no_route_host; /* nobody has a route to it: ENETUNREACH; 0: all to all */
    uint8_t ecmp; /* there is one network, and its flows, of each pair of ports, take turns on so
                   * many links, which the following then means; 0: not so */
    uint8_t cut_networks;  /* bit n: what is sent to 10.0.n.any vanishes */
    uint8_t cut_host;      /* ... if this host sends it; 0: any */
    uint8_t slow_networks; /* bit n: 10.0.n.any has a quarter of the others' rate */
    uint8_t far_networks;  /* bit n: to 10.0.n.any all takes far_ns longer */
    uint64_t far_ns;
    /* A router's way on is so narrow: what does not fit is dropped until its sender's host has been
     * told, which cuts it in fragments then, and believes that for ten minutes. 0: there is none.
     */
    uint32_t path_mtu_bytes;
    uint32_t claimed_mtu_bytes; /* what it says instead; 0: the truth */
    bool rejecting;             /* all hosts say `rejection` to all that comes */
    enum dw_llp_told rejection;
    struct dw_heap in_flight;
    struct sim_endpoint *endpoints[SIM_MAX_ENDPOINTS];
    unsigned endpoint_count;
    /* May be NULL. Judges each datagram that is sent, before the impairments do. */
    enum sim_verdict (*filter)(void *arg, const struct sim_endpoint *from, const uint8_t *buf,
                               uint32_t bytes);
    /* May be NULL. Sees each datagram that a receiver takes. */
    void (*on_receive)(void *arg, const struct sim_endpoint *at,
                       const struct sim_datagram *datagram);
    void *arg;
    uint64_t sent, lost, repeated, overflowed, corrupted_received, forged_received;
    uint64_t fragmented;
    uint64_t port_dropped; /* the queue of a port was full */
};

/* Of a host to a network. */
struct sim_link {
    uint64_t free_ns; /* when all that was sent has left */
    uint64_t last_arrival_ns;
    uint64_t port_free_ns; /* when all that the switch has for it has left */
};

/* One socket. */
struct sim_endpoint {
    struct dw_llp llp;
    struct sim_net *net;
    void *owner;
    struct dw_llp_addr addr;
    struct dw_list queue;
    uint32_t queued_bytes; /* truesize */
    struct sim_link links[SIM_MAX_NETWORKS];
    uint32_t believed_mtu_bytes; /* of every path, until then; 0: nothing */
    uint64_t believed_until_ns;
    bool told; /* what came back for a datagram of ours */
    struct dw_llp_addr icmp_to;
    uint32_t icmp_mtu_bytes; /* or a dw_llp_told */
};

void sim_net_init(struct sim_net *net, uint64_t seed);
/* Every endpoint must have been closed. */
void sim_net_fini(struct sim_net *net);

/* A socket at 10.0.any.`host`; `owner` is kept for the hooks. */
int sim_net_open(struct sim_net *net, uint8_t host, void *owner,
                 const struct diwarp_device_attr *attr, struct diwarp_counters *counters,
                 struct dw_llp **llp);

/* Puts a datagram on its way that seems to be from one endpoint; the hooks do not see it. */
void sim_net_inject(const struct sim_endpoint *from, const struct dw_llp_addr *to,
                    const uint8_t *buf, uint32_t bytes, uint64_t after_ns, bool forged);

/* Moves what has arrived by now to the receivers' queues. */
void sim_net_deliver(struct sim_net *net);
/* DW_NEVER: nothing is in flight. */
uint64_t sim_net_next_ns(const struct sim_net *net);

/* In [0, limit), limit > 0. */
uint64_t sim_random_below(uint64_t *state, uint64_t limit);
bool sim_random_permille(uint64_t *state, uint32_t permille);
#define SIM_RANDOM_OF(state, list) \
    ((list)[sim_random_below((state), sizeof(list) / sizeof *(list))])

/* A quarter of the networks is perfect; a quarter each is a little, rather and very bad. */
void sim_impairment_draw(struct sim_impairment *impairment, uint64_t *random_state);

#endif
