/* SPDX-License-Identifier: BSD-3-Clause */
/* What the front's files share: the objects that programs see as libibverbs' own, each with what
 * diwarp keeps of it behind. Below everything here is the public API of diwarp; above, the symbols
 * of libibverbs. Everything of a context is guarded by its lock. */
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "common/include/diwarp.h"
#include "common/include/diwarp_group.h"
#include "common/include/diwarp_helper.h"
#include "common/include/diwarp_rc.h"

/* Each context has a UDP port of the host, and its number in that range leads the numbers of its
 * queue pairs: who knows an IP address and a QPN can send there, as verbs programs expect. */
#define DV_PORT_FIRST 20480
#define DV_PORTS      1024
#define DV_INDEX_BITS 14
#define DV_INDEX_MASK ((1u << DV_INDEX_BITS) - 1)
/* QPNs 0 and 1 are special in InfiniBand; 1 is the one that holds the port here. */
#define DV_INDEX_PORT  1u
#define DV_INDEX_FIRST 2u
#define DV_QPN_MAX     0xffffffu
/* The QPN that stands for all of a group (InfiniBand 9.6.1.1.3). */
#define DV_MCAST_QPN DV_QPN_MAX

#define DV_MAX_SGE      32 /* as diwarp's */
#define DV_MAX_WR       16384
#define DV_MAX_CQE      (1 << 20)
#define DV_MAX_INLINE   1024
#define DV_LEAST_INLINE 64   /* some programs rely on cards that give more than they ask for */
#define DV_UD_MSG_BYTES 4096 /* the largest MTU that verbs know */
#define DV_RC_MSG_BYTES (1u << 30)
#define DV_RC_MAX_READS 16u /* under way, each way */

/* Of regions and queue pairs: what is done, and what libibverbs lets devices that do not know it
 * ignore. No region is pinned: that pages come on demand says nothing new. */
#define DV_KNOWN_ACCESS                                                          \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
     IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | (unsigned)IBV_ACCESS_OPTIONAL_RANGE)

#define DV_RNR_FOREVER 7u /* as rnr_retry */

#define DV_CLOCK_KHZ 1000000 /* of completion timestamps: nanoseconds */

#define DV_DM_BYTES (UINT64_C(16) << 20) /* device memory of a context, in all */

#define DV_BATCH 16 /* completions that are polled at once */

#define DV_GRH_BYTES ((uint32_t)sizeof(struct ibv_grh))

struct dv_context {
    LIST_ENTRY(dv_context) link; /* of all that are open */
    pid_t owner;                 /* the process whose threads run it; a child only inherits it */
    bool left;                   /* the process ends, and has closed the connections */
    struct diwarp_device *device;
    struct diwarp_pd *port_pd;
    struct diwarp_qp *port_qp;        /* keeps the port; nothing is sent by it or to it */
    struct diwarp_cq *core;           /* of all queue pairs: completions are sorted into dv_cq */
    struct diwarp_listener *listener; /* NULL: it has no queue pair of RC or UC */
    uint32_t rc_qps;
    LIST_HEAD(, dv_rc) waiting;   /* with Sends that wait for an other side */
    uint64_t look_ns;             /* at these, next */
    LIST_HEAD(, dv_rd) holding;   /* Sends that no receive was there for */
    struct diwarp_helper *helper; /* NULL: there was none, nor anybody who sleeps for events */
    struct diwarp_address address;
    int claim; /* a socket: the port is ours, among the contexts of the network namespace */
    struct dv_event *events;         /* that nobody took, oldest first */
    struct diwarp_wc done[DV_BATCH]; /* done_count: being sorted */
    int done_count;
    uint32_t slot;
    uint32_t last_index;
    uint32_t users; /* protection domains, thread domains, device memory */
    uint64_t dm_bytes;
    uint32_t kept; /* CQs and channels: those that are left keep the memory of a closed one */
    uint32_t empty_polls; /* since something was polled */
    uint32_t armed_count; /* CQs that have been asked for an event */
    uint32_t posts;       /* of sends, since the RNIC ran */
    struct dv_qp *qps[1 << DV_INDEX_BITS];
    struct diwarp_interface gids[DIWARP_MAX_INTERFACES];
    unsigned gid_count;
    pthread_mutex_t lock;
    struct verbs_context verbs;
};

struct dv_pd {
    struct ibv_pd pd;
    struct dv_pd *parent; /* of a parent domain: whose memory it uses; NULL: none */
    struct dv_td *td;     /* of a parent domain; NULL: none */
    struct diwarp_pd *core;
    void *regions;       /* tsearch(3), of what has a parent there */
    void *windows;       /* of type 2 that are bound, likewise */
    uint32_t translated; /* of these regions: whose iova is not their address */
    uint32_t users;
};

struct dv_td {
    struct ibv_td td;
    uint32_t users;
};

/* Device memory. */
struct dv_dm {
    struct ibv_dm dm;
    uint8_t *memory; /* length bytes */
    size_t length;
    uint32_t users; /* regions */
};

struct dv_mw;

struct dv_mr {
    struct ibv_mr mr;
    struct diwarp_mr *core; /* tells its place, which mr.addr does not for device memory */
    struct dv_dm *dm;       /* whose memory it is; NULL: the program's own */
    struct dv_mw *windows;  /* bound to it */
    unsigned access;
};

/* Its fd, an eventfd(2), counts events like a semaphore. */
struct dv_channel {
    struct ibv_comp_channel channel;
    struct dv_cq *first; /* of those with events that nobody took */
    struct dv_cq *left;  /* of those that had completions when an event was asked for */
    uint32_t waiters;    /* threads in ibv_get_cq_event() */
};

enum dv_arming { DV_NOT_ARMED, DV_ARMED, DV_ARMED_SOLICITED };

/* A completion, and when it came (CLOCK_MONOTONIC): 0 where nobody asks. */
struct dv_entry {
    struct ibv_wc wc;
    uint64_t at_ns;
    bool solicited;
};

struct dv_cq {
    union {
        struct ibv_cq cq; /* as ibv_cq_ex begins */
        struct ibv_cq_ex ex;
    };
    struct dv_entry *entries;
    uint32_t size, head, count;
    uint32_t users;
    uint32_t waiting;      /* events that nobody took */
    uint32_t events;       /* taken; cq.comp_events_completed of them are acknowledged */
    uint32_t async_events; /* likewise; cq.async_events_completed */
    struct dv_cq *next;    /* in channel.first */
    struct dv_cq *next_left;
    bool left; /* it is in channel.left */
    enum dv_arming armed;
    bool overrun;
    bool ignores_overrun; /* the oldest make room */
    bool is_extended, single_threaded, stamps;
    struct dv_pd *domain;    /* the parent domain it is of; NULL: none */
    pthread_mutex_t polling; /* from start_poll to end_poll */
    struct dv_entry current; /* of these */
};

/* A posted receive of a UD queue pair or an SRQ. */
struct dv_recv {
    uint64_t wr_id;
    struct dv_recv *older, *newer; /* while posted */
    struct ibv_sge *lead;          /* lead_count: where its GRH goes, over UD */
    unsigned lead_count;
    bool posted;
};

struct dv_recvs {
    uint32_t max_wr, max_sge;
    struct dv_recv *places; /* max_wr */
    struct ibv_sge *leads;  /* max_sge of each */
    uint32_t *free_places;  /* free_count of them */
    uint32_t free_count;
    struct dv_recv *oldest, *newest; /* of the posted */
};

struct dv_srq {
    struct ibv_srq srq;
    struct diwarp_srq *core;
    struct dv_recvs recvs;
    uint32_t max_wr, max_sge;
    uint32_t posted, limit; /* fewer than that: an event, once; 0: none */
    uint32_t users;
    uint32_t async_events; /* taken; srq.events_completed of them are acknowledged */
    /* The queue pairs of RD that take receives of it, and what tells them of one that is posted (1)
     * or taken (-1) by any queue pair. Both are rd.c's. */
    struct dv_rd *rds;
    void (*on_change)(struct dv_srq *srq, int32_t change);
};

struct dv_rc;
struct dv_rd;
struct dv_rdma;
struct dv_membership; /* mcast.c */

/* Where a request goes, of UD and RD: verbs have no room for it beside what RDMA needs. */
struct dv_to {
    struct ibv_ah *ah; /* NULL: nowhere */
    uint32_t qpn, qkey;
};

/* A request that ibv_wr_*() built. */
struct dv_send_wr {
    struct ibv_send_wr wr; /* first: wr.next leads to another of these */
    struct dv_to to;
};

struct dv_kept;

/* In state SQD. */
struct dv_sqd {
    struct dv_kept *first, **end; /* sqd.h: posted since; of UD and RD */
    uint32_t count;
    bool tells; /* there will be an event, once what had begun has ended */
};

struct dv_qp {
    struct ibv_qp_ex ex;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr; /* as modified so far; qp_state is the true one */
    bool signal_all;
    uint32_t async_events; /* taken; qp_base.events_completed of them are acknowledged */
    uint32_t unpolled;     /* completions of Sends: as many as cap.max_send_wr */
    uint32_t failed_recvs; /* whose completions were not polled */
    uint32_t unpolled_all; /* completions of any kind that its CQs hold */
    struct dv_sqd sqd;
    struct dv_builder *builder; /* of ibv_wr_*; NULL: not asked for */
    struct dv_rd *rd;           /* NULL: it is not of RD */
    struct dv_rdma *rdma;       /* of UD; NULL: it neither reads nor is told of records */
    struct dv_mw *windows;      /* of type 2, bound by it */
    struct dv_rc *rc;           /* NULL, and rd, too: it is of UD, and has what follows */
    struct diwarp_qp *core;
    struct dv_recvs recvs;             /* its own: none with an SRQ */
    struct dv_membership *memberships; /* groups that it is attached to */
    bool block_self;                   /* of these, what it sends itself does not come to it */
};

/* One queue pair behind an address. */
struct dv_destination {
    uint32_t qpn;
    bool rd;
    struct diwarp_ah *core;
};

struct dv_ah {
    struct ibv_ah ah;
    struct ibv_ah_attr attr;
    uint32_t kept;      /* requests that wait to go there (sqd.h) */
    void *destinations; /* tsearch(3) */
    struct dv_destination *last;
};

extern struct ibv_device *const dv_device;

static inline bool dv_is_ours(const struct ibv_context *context)
{
    return context->device == dv_device;
}

static inline struct dv_context *dv_context_of(struct ibv_context *context)
{
    return (struct dv_context *)(void *)((char *)context -
                                         offsetof(struct dv_context, verbs.context));
}

/* Where the memory of a domain is. */
static inline struct dv_pd *dv_root_of(const struct ibv_pd *pd)
{
    const struct dv_pd *domain = (const struct dv_pd *)pd;
    return domain->parent ? domain->parent : (struct dv_pd *)(uintptr_t)domain;
}

static inline struct dv_cq *dv_cq_of(struct ibv_cq *cq)
{
    return (struct dv_cq *)cq;
}

static inline struct dv_qp *dv_qp_of(struct ibv_qp *qp)
{
    return (struct dv_qp *)qp;
}

static inline struct ibv_qp *dv_ibv_qp(struct dv_qp *qp)
{
    return &qp->ex.qp_base;
}

static inline void dv_lock(struct dv_context *context)
{
    pthread_mutex_lock(&context->lock);
}

static inline void dv_unlock(struct dv_context *context)
{
    pthread_mutex_unlock(&context->lock);
}

/* An IPv4 address mapped to IPv6. */
static inline void dv_put_gid(union ibv_gid *gid, const uint8_t ip[4])
{
    *gid = (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff}};
    memcpy(gid->raw + 12, ip, 4);
}

/* RoCE's: an IPv6 address is its own. */
static inline union ibv_gid dv_gid_of(const struct diwarp_interface *interface)
{
    union ibv_gid gid;
    if (interface->family == AF_INET)
        dv_put_gid(&gid, interface->ip);
    else
        memcpy(&gid, interface->ip, sizeof gid);
    return gid;
}

/* An IPv4 address mapped. */
static inline bool dv_is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return !memcmp(gid->raw, prefix, sizeof prefix);
}

static inline bool dv_is_same_gid(const union ibv_gid *a, const union ibv_gid *b)
{
    return !memcmp(a, b, sizeof *a);
}

/* To diwarp a key of 0 is any memory of the process, which verbs do not know. */
static inline bool dv_lacks_key(const struct ibv_sge *sges, int count)
{
    bool lacks = false;
    for (int i = 0; i < count; i++)
        lacks |= sges[i].length && !sges[i].lkey;
    return lacks;
}

/* As dlopen(3) for nobody but us. */
void *dv_open_real(const char *file);
/* libibverbs' function of that name, for objects that are not ours. */
void *dv_real(const char *name);
#define DV_REAL(name) ((__typeof__(name) *)dv_real(#name))

/* Sets errno. */
static inline void *dv_fail(int error)
{
    errno = error;
    return NULL;
}
