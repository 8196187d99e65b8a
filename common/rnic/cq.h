/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues. */
#pragma once

#include <poll.h>

#include "common/base/ring.h"
#include "common/rnic/device.h"

/* A thread that sleeps until a socket of the CQ is readable or a timer due. Other threads wake it
 * when what they do makes something due earlier. */
struct dw_sleeper {
    struct dw_list link; /* in the device's list while it sleeps */
    struct diwarp_cq *cq;
    uint64_t until_ns; /* its deadline; 0: it was woken, or something is due already */
    unsigned fd_count; /* sockets it sleeps on; when there are others, it looks again */
    int event_fd;      /* an eventfd; -1: not made yet */
};

struct diwarp_cq {
    struct diwarp_device *device;
    struct dw_ring ring;      /* struct diwarp_wc */
    struct dw_runner *rc;     /* its RC side, from the first use on; goes with it */
    uint32_t qps;             /* datagram QPs that complete here */
    uint32_t held;            /* completions whose data may still be looked at: of these */
    uint64_t ran_ns;          /* the RNIC, last */
    uint64_t used_ns;         /* run, or posted for soon after, last; read without the lock */
    bool overrun;             /* a completion is lost: it is of no use any more */
    bool busy;                /* the last run received something, or has more that goes; likewise */
    struct dw_sleeper waiter; /* who polls; completions wake it, too. common/progress has others */
};

/* Who has not polled for so long is away: while it waits for something, it polls every few hundred
 * nanoseconds, and while it sends, it posts a message in less. */
#define DW_AWAY_NS 50000

/* One poll without completions, at most: what the peers that send take of the application's time.
 * Posts alone, without a run for as long, leave the RNIC to others. */
#define DW_RUN_LONGEST_NS 1000000
static inline void dw_cq_on_use(struct diwarp_cq *cq, uint64_t now_ns)
{
    if (now_ns - cq->ran_ns < DW_RUN_LONGEST_NS)
        __atomic_store_n(&cq->used_ns, now_ns, __ATOMIC_RELAXED);
}
/* When the RNIC next has something to do by itself; 0: now. */
uint64_t dw_cq_next_deadline_ns(const struct diwarp_cq *cq);
/* Writes at most n descriptors that become readable when something comes; returns how many are. */
unsigned dw_cq_fds(const struct diwarp_cq *cq, struct pollfd *fds, unsigned n);

/* Nobody looks any more at the memory that completions point to which were polled from the CQ. */
void dw_cq_release(struct diwarp_cq *cq);
/* Drops completions that were not handed out, of a datagram QP (not 0), or of an RC QP or connect
 * request (not NULL). */
void dw_cq_forget(struct diwarp_cq *cq, uint32_t qp_num, const void *rc_whose);
/* Takes at most n completions of an RC QP that were not handed out, and leaves the others. */
unsigned dw_cq_take(struct diwarp_cq *cq, const struct diwarp_rc_qp *whose, unsigned n,
                    struct diwarp_wc *wc);
/* Appends a completion, which the caller fills in before anything else is done with the CQ. NULL:
 * there is no memory to grow, and the CQ is overrun. */
struct diwarp_wc *dw_cq_slot(struct diwarp_cq *cq);
void dw_cq_push(struct diwarp_cq *cq, const struct diwarp_wc *wc);
/* Drops all of them; what was handed out is used. */
void dw_cq_drop(struct diwarp_cq *cq);
/* Gives back what a queue that is empty has grown by; true: it was not. */
bool dw_cq_trim(struct diwarp_cq *cq);
enum ibv_wc_status dw_wc_status(uint8_t wire_status);
