/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes (a device with one QP each) on a simulated network, the loop that runs them in virtual
 * time, and the invariants that hold whatever the application does.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "common/open.h"
#include "common/rd/parts.h"
#include "test/sim/sim_net.h"

#define SIM_MAX_NODES 16

struct sim_world;

struct sim_node {
    struct sim_world *world;
    unsigned index;
    struct diwarp_interface interfaces[SIM_MAX_NETWORKS];
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp; /* NULL: has been closed */
    struct diwarp_ah *ahs[SIM_MAX_NODES];
    uint64_t paused_until_ns; /* computes: is not polled. DW_NEVER: stopped for good */
    bool unpolled;            /* by the application; a helper runs the RNIC */
    bool set_aside;           /* a record for it has been: its source was silent */
};

struct sim_config {
    uint64_t seed;
    unsigned node_count;
    uint32_t job; /* of the names of those opened now */
    uint32_t mtu_bytes;
    unsigned networks;  /* each node has an interface in each: the first leads, by its MTU */
    bool alike;         /* it has the MTU of the others; all are used together */
    bool one_interface; /* which has an address in each network */
    uint8_t ecmp;       /* as of struct sim_net */
    uint8_t flows[SIM_MAX_NODES]; /* of each node; 0: as of the device */
    uint32_t path_mtu_bytes;      /* as of struct sim_net */
    uint8_t hosts[SIM_MAX_NODES]; /* last byte of the node's address; 0: its index + 1 */
    uint64_t start_ns;            /* by the virtual clock */
    uint32_t first_serial;
    uint64_t rest_ns, forget_ns; /* as of struct dw_env */
    bool strangers;              /* only those with a higher index have a node's address */
    bool gro;
    bool helper; /* runs the RNIC between polls, as a thread of its own would */
    struct sim_impairment impairment;
    struct diwarp_device_attr device; /* of every node, but for its name */
    struct diwarp_qp_attr qp;
};

struct sim_world {
    struct sim_net net; /* first, so that its hooks' arg may be the world */
    struct sim_config config;
    struct sim_node nodes[SIM_MAX_NODES];
    uint64_t random_state; /* the application's */
    /* The application. on_step may post, once per step; true: it did. It is called again at
     * wake_ns at the latest. on_wc sees each completion. Either may be NULL. */
    bool (*on_step)(struct sim_world *world);
    void (*on_wc)(struct sim_world *world, struct sim_node *node, const struct diwarp_wc *wc);
    void *app;
    uint64_t wake_ns;
    uint64_t steps;
    bool failed;
    char failure[320]; /* the first */
};

/* Defaults: 2 nodes, RD, MTU 1500, a network without faults. */
void sim_config_init(struct sim_config *config, uint64_t seed);

/* Opens the nodes and an address handle from each to each. */
void sim_world_init(struct sim_world *world, const struct sim_config *config);
void sim_world_fini(struct sim_world *world);

/* Opens node `index`; a second time after sim_node_close(): its next incarnation. */
void sim_node_open(struct sim_world *world, unsigned index);
void sim_node_close(struct sim_node *node);
void sim_node_connect(struct sim_node *node, const struct sim_node *to);

/* Polls every node that is not paused, lets the application act, moves the clock. False: nothing is
 * left to happen, or something failed. */
bool sim_world_step(struct sim_world *world);
/* Steps until nothing is left to happen, but fails beyond limit_ns of virtual time. */
void sim_world_run(struct sim_world *world, uint64_t limit_ns);
/* Steps for duration_ns of virtual time, or until nothing is left to happen. */
void sim_world_run_for(struct sim_world *world, uint64_t duration_ns);
/* At rest: nothing queued, granted, mapped or borrowed anywhere. Peers that are gone or stopped are
 * left out of what concerns them. */
void sim_world_check_rest(struct sim_world *world);

/* Notes the first failure; the world then stops. */
void sim_fail(struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define sim_check(world, truth)                                         \
    do {                                                                \
        if (!(truth))                                                   \
            sim_fail((world), "%s:%d: %s", __FILE__, __LINE__, #truth); \
    } while (0)

/* RD's part of a node's port. */
static inline struct dw_rd *sim_rd_of(const struct sim_node *node)
{
    return node->qp->state;
}

static inline struct dw_handle *sim_handle(const struct sim_node *node, unsigned to)
{
    return dw_container(node->ahs[to], struct dw_handle, ah);
}

/* Its context, or NULL. */
static inline struct dw_peer *sim_peer(const struct sim_node *node, unsigned to)
{
    return dw_handle_peer(sim_handle(node, to));
}

/* Of its records to the node; wakes it. */
static inline struct dw_recordwin *sim_recordwin(const struct sim_node *node, unsigned to)
{
    return &dw_peer_wake(sim_handle(node, to))->records.win;
}

static inline const struct diwarp_counters *sim_counters(const struct sim_world *world,
                                                         unsigned index)
{
    return diwarp_query_counters(world->nodes[index].qp);
}

/* Bytes [from, from + bytes) of the endless payload number `id`. */
void sim_pattern_fill(uint32_t id, uint64_t from, uint8_t *buf, size_t bytes);
bool sim_pattern_matches(uint32_t id, uint64_t from, const uint8_t *buf, size_t bytes);
/* Every byte of buf is `value`. */
bool sim_all_bytes(const uint8_t *buf, uint8_t value, size_t bytes);

#endif
