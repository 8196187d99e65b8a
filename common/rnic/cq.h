/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues. */
#ifndef DW_RNIC_CQ_H
#define DW_RNIC_CQ_H

#include "common/rnic/device.h"

struct diwarp_cq {
    struct diwarp_device *device;
    struct diwarp_wc *ring;
    uint32_t head, count, capacity;
    uint32_t most;    /* that have been in it at a time since the last trim */
    uint32_t qp_num;  /* of the QP that was made last */
    uint32_t held;    /* completions whose data may still be looked at */
    uint64_t ran_ns;  /* the RNIC, last */
    uint64_t used_ns; /* run, or posted for soon after, last; read without the lock */
    bool overrun;     /* a completion is lost: it is of no use any more */
    bool busy;        /* the last run received something, or has more that goes; likewise */
};

/* Posts alone, without a run for so long, leave the RNIC to others. */
#define DW_POSTS_COUNT_NS 1000000
static inline void dw_cq_on_use(struct diwarp_cq *cq, uint64_t now_ns)
{
    if (now_ns - cq->ran_ns < DW_POSTS_COUNT_NS)
        __atomic_store_n(&cq->used_ns, now_ns, __ATOMIC_RELAXED);
}

/* The completions of a QP go with it: what they point to does. */
void dw_cq_forget_qp(struct diwarp_cq *cq, uint32_t qp_num);
/* Takes back the completions that were not handed out: an RC QP's, or a request's. */
void dw_cq_forget(struct diwarp_cq *cq, const struct diwarp_rc_qp *qp,
                  const struct diwarp_connect_request *request);
/* Without memory to grow the CQ is overrun. */
void dw_cq_push(struct diwarp_cq *cq, const struct diwarp_wc *wc);
/* Halves what was not needed since the last time; true: there may be more. */
bool dw_cq_trim(struct diwarp_cq *cq);
enum ibv_wc_status dw_wc_status(uint8_t wire_status);

#endif
