/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The QP, which all files of the RNIC share.
 *
 * One message's path:  send.c, segment.c (segments into datagrams) -> transmit.c (header, CRC, LLP)
 *                  ->  receive.c (checks, by type) -> deliver.c | rdma.c | atomic.c -> cq.c
 * Bulk: transmit_record.c -> receive.c -> place.c -> rdma_record.c; UD: ud.h
 * Every function in these headers runs with the device's lock held, unless it says otherwise.
 */
#ifndef DW_QP_H
#define DW_QP_H

#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/slab.h"
#include "common/include/diwarp.h"
#include "common/llp/llp.h"
#include "common/mem/mr.h"
#include "common/rnic/cq.h"
#include "common/rnic/device.h"
#include "common/rnic/faster_way.h"

#define DW_MAX_SGE 4

struct diwarp_pd {
    struct diwarp_device *device;
    struct dw_mr_table mrs;
    struct dw_list qps;
};

struct dw_assembly; /* deliver.h */
struct dw_ud;       /* ud.h */

struct diwarp_qp {
    struct diwarp_pd *pd;
    struct diwarp_device *device;
    struct diwarp_cq *cq;
    uint32_t num; /* in the CQ: qp_num of its completions, never 0 */
    struct dw_list pd_link, cq_link;
    struct diwarp_qp_attr attr;
    struct dw_llp *llp;
    struct diwarp_counters counters;
    struct dw_map ahs; /* RD: by name; UD: by address, each being its own */
    uint64_t token;
    uint64_t reset_end_ns; /* of the millisecond that `resets` counts */
    uint32_t resets;
    uint32_t unproven; /* handles */
    uint32_t incarnation;
    uint64_t number; /* of datagrams: no peer at rest has been sent a higher one, begins anywhere */
    uint32_t queued_works; /* against attr.max_send_wr */
    bool crc;
    bool draining;    /* Sends that come are acknowledged, not delivered */
    bool transmitted; /* something, since the last append */
    bool starved;     /* the last run sent nothing, and nothing was posted or freed since: what is
                       * in `flush` waits for a buffer */

    struct dw_ud *ud; /* UD only; all below but where it receives, stage and timers: RD only */

    struct dw_list flush, ack, held_control; /* held: while the socket is full */
    unsigned held_count;
    uint32_t next_peer_index;
    uint16_t epoch;
    uint32_t epoch_senders, senders; /* senders: of the last whole epoch */
    uint64_t epoch_end_ns;

    struct dw_slab datagrams;
    struct dw_list free_works;
    unsigned free_work_count;
    uint32_t work_most;                              /* of queued_works since the last trim */
    struct dw_list free_assemblies, done_assemblies; /* done: until the next run */
    unsigned assembly_count, assembly_most;          /* being put together; since the last trim */
    unsigned free_assembly_count;
    struct dw_assembly *last_assembly;  /* taken when there is no memory for another; or NULL */
    uint64_t assembly_bytes;            /* that have come of them */
    uint64_t done_bytes;                /* of messages that are whole, and not recycled yet */
    const struct dw_assembly *oversize; /* the one that goes on beyond their bound; or NULL */

    struct dw_map sinks, sources, atomics; /* by dw_record_key(); atomics by id */
    struct dw_list want, ready;
    uint64_t refused_write; /* dw_record_key() of the last: one ABORT for all its segments */
    uint32_t next_id;
    uint64_t own_records, asked_records; /* open: by our reads and writes, by peers' */
    uint32_t grant_budget_bytes;         /* of any datagrams */
    uint32_t grant_budget_long_bytes;    /* of DW_LLP_LONG_BYTES and more, which leave more room */
    /* Two datagrams of a record are to be under way to us, one sent while one is received, if our
     * receive buffer takes two at all; so peers take our MTU for no more than this, and we take
     * theirs: a path has one size of datagrams, by which both ends count grants (path.h has what
     * becomes of it where a router knows better). */
    uint32_t mtu_max_bytes;
    uint32_t granted_records;    /* that have a grant and have not ended, but for those set aside */
    uint64_t granted_bytes;      /* given out, not yet here, but for those set aside */
    uint64_t granted_long_bytes; /* of these, in long datagrams */
    uint32_t eager_budget_bytes;
    uint32_t reserved_bytes; /* between diwarp_send_reserve and its commit */

    struct dw_heap timers;
    uint64_t ran_ns, timers_ran_ns;
    unsigned absences;          /* since timers ran */
    struct dw_timer trim_timer; /* runs while there is something to give back */
    size_t trim_slot;           /* in ahs, where it goes on */
    unsigned trims_in_vain;     /* in a row */
    bool trimmed;               /* some peer in this walk through ahs */

    /* Receive calls fill the arena from arena_used on; before that lies what completions not handed
     * out point to. */
    uint8_t *arena;
    uint32_t arena_used, arena_last; /* last: bytes the last call brought */
    uint32_t arena_touched;          /* end of what is backed by memory */
    uint32_t arena_most;             /* end of what has been written since the last trim */
    bool arena_held;                 /* a completion points to what the last call brought */
    bool refuses_data;               /* no room for what would have to be handed out */
    uint8_t *stage; /* heads and trains of Write-Record segments; receives that are discarded */
    struct dw_faster_way copy_way; /* the other: past the cache */
};

/* Sees that what is taken now will be given back. */
void dw_qp_trim_later(struct diwarp_qp *qp, uint64_t now_ns);
/* The region is about to be freed: ends the records that use it. */
void dw_qp_on_deregister(struct diwarp_qp *qp, const struct dw_region *region);

/* ---- qp_run.c ---- */
/* No completion is left in the CQ: what those handed out before pointed to is free again. */
void dw_qp_recycle(struct diwarp_qp *qp);
/* One run of the RNIC; returns how many receive calls brought something. */
int dw_qp_progress(struct diwarp_qp *qp, uint64_t now_ns);
/* Something waits for the next run to be sent. */
bool dw_qp_has_more(const struct diwarp_qp *qp);
/* When it wants to run next at the latest, DW_NEVER: not before a datagram or a post. */
uint64_t dw_qp_next_deadline_ns(const struct diwarp_qp *qp);

#endif
