/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of an RC QP (rc_post.c) on their way into its stream (rc_send.c). */
#ifndef DW_RC_SEND_H
#define DW_RC_SEND_H

#include "common/include/diwarp_rc.h"
#include "common/rnic/qp.h"
#include "common/wire/mpa.h"

struct dw_rc_work {
    uint64_t wr_id;
    uint64_t to;        /* write: sink; read: source */
    uint32_t stag;      /* the same, or the one to invalidate */
    uint32_t sink_stag; /* read */
    uint32_t total;
    uint8_t opcode; /* enum dw_rdmap_opcode */
    bool signaled;
    bool fence; /* not before all reads have ended */
    uint8_t sge_count;
    void *own; /* the payload, copied; freed with the work */
    struct iovec sge[DW_MAX_SGE];
};

/* How far the stream of our messages is. */
struct dw_rc_cursor {
    uint32_t work, response; /* how many are done, from the front of their queues */
    uint32_t offset;         /* in the message that is under way */
    uint32_t send_msn, read_msn;
    uint32_t reads; /* requests in these works */
    struct dw_mpa_stream tx;
    bool in_response; /* the message that is under way, or goes next, is a response */
    bool rtr;         /* the first FPDU, empty, that lets the other side send, is due */
};

struct dw_rc_train *dw_rc_train_create(void);
void dw_rc_train_destroy(struct dw_rc_train *train);
size_t dw_rc_train_bytes(void);
/* Sends what is queued, as far as TCP takes it; may end in dw_rc_close(). */
void dw_rc_flush(struct diwarp_rc_qp *qp);
/* Hands bytes to TCP before all else; what it does not take is kept. -ENOMEM, or TCP's error. */
int dw_rc_send_bytes(struct diwarp_rc_qp *qp, const void *buf, uint32_t bytes);
bool dw_rc_idle(const struct diwarp_rc_qp *qp);

/* Checks a list of buffers: how many bytes in all; -EINVAL, -EMSGSIZE, -EACCES. */
int64_t dw_rc_check_sges(struct diwarp_pd *pd, const struct ibv_sge *list, int count, int access,
                         struct iovec iov[DW_MAX_SGE]);
void dw_rc_work_free(struct dw_rc_work *work);
int dw_rc_wc_opcode(const struct dw_rc_work *work);

#endif
