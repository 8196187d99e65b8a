/* SPDX-License-Identifier: BSD-3-Clause */
/* The RC queue pair: its state from the call to the close, its queues, its stream. */
#ifndef DW_RC_QP_H
#define DW_RC_QP_H

#include "common/base/ring.h"
#include "common/rc/rc.h"
#include "common/rnic/qp.h"
#include "common/wire/ddp.h"
#include "common/wire/mpa.h"
#include "common/wire/rdmap.h"

/* A stream's beginning that does not tell an FPDU's length yet: half a marker, a length field. */
#define DW_RC_STUB_BYTES 8

enum dw_rc_state {
    DW_RC_CONNECTING, /* TCP */
    DW_RC_REQUESTED,  /* MPA request sent */
    DW_RC_RESPONDED,  /* MPA reply sent: the caller speaks first (RFC 5044 7.1.2) */
    DW_RC_RTS,
    DW_RC_CLOSING, /* sends what is queued, then the end; waits for the other side's */
    DW_RC_CLOSED,
    DW_RC_STATE_COUNT
};

/* A request. */
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

/* An RDMA read of ours whose response is awaited. */
struct dw_rc_read {
    uint64_t wr_id;
    uint32_t stag; /* of this response only */
    uint32_t total, placed;
    bool signaled;
    uint8_t sge_count;
    struct iovec sge[DW_MAX_SGE];
};

/* A receive; sge_count > 1: more is a list of its own. */
struct dw_rc_recv {
    uint64_t wr_id;
    union {
        void *addr;
        struct iovec *more;
    };
    uint32_t bytes; /* in all */
    uint32_t sge_count;
};

/* Receives that QPs share. */
struct diwarp_srq {
    struct diwarp_pd *pd;
    uint32_t max_wr;
    struct dw_ring recvs;
    struct dw_list waiting; /* QPs that stand still */
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

/* Part of an FPDU, or what could not be delivered yet; memory of its own. */
struct dw_rc_held {
    uint8_t *buf;
    uint32_t bytes, capacity;
    uint32_t ulpdu_bytes; /* that begin it, when the QP stands still: to be delivered first */
};

/* An MPA frame, as far as it has come, or before it is sent. */
struct dw_rc_startup {
    uint32_t bytes;
    uint8_t buf[DW_MPA_FRAME_BYTES + DW_MPA_PRIVATE_MAX_BYTES];
};

struct diwarp_rc_qp {
    struct dw_rc_watch watch;
    struct dw_rc *rc;
    struct diwarp_pd *pd;
    struct dw_list link;         /* in rc.qps */
    struct dw_list resumed_link; /* in rc.resumed */
    struct dw_list srq_link;     /* in srq.waiting */
    struct dw_list lazy_link;    /* in rc.lazy */
    struct dw_stream *stream;    /* NULL: closed */
    struct dw_timer timer;       /* set-up, standing still, close */
    struct diwarp_rc_qp_attr attr;
    struct dw_llp_addr peer;
    enum dw_rc_state state;
    uint8_t watched;
    bool may_send; /* the other side is ready for FPDUs */
    bool blocked;  /* TCP takes no more now */
    bool broken; /* a send call failed: nothing that comes any more makes the end an orderly one */
    bool ended;  /* the other side has closed in order */
    bool shut;   /* we have */
    bool standing; /* still, for want of a receive */
    uint16_t ord, ird;
    uint32_t idle_runs; /* reads of its stream that found nothing, while hot */

    struct dw_rc_startup *startup; /* until connected */
    uint64_t token;                /* of the listener that was called */
    uint8_t *answer;               /* private data of the other side's */
    uint32_t answer_bytes;

    struct dw_ring works;
    struct dw_ring responses; /* struct dw_read_request: reads of the other side's */
    struct dw_ring reads;     /* struct dw_rc_read */
    struct dw_rc_cursor cursor;
    uint32_t max_ulpdu_bytes;
    uint8_t *tail; /* goes before all else: an FPDU that TCP took in part */
    uint32_t tail_bytes, tail_sent;
    uint64_t works_done; /* since the QP was made */

    struct dw_ring recvs;
    struct dw_rc_recv current;
    bool receiving; /* into current */
    bool writing;   /* the other side's RDMA Write has begun and not ended */
    uint32_t received_bytes;
    uint32_t recv_msn, request_msn;
    struct dw_mpa_stream rx;
    struct dw_rc_held held;
    uint8_t stub[DW_RC_STUB_BYTES];
    uint8_t stub_bytes;
};

/* Checks the table of states. */
void dw_rc_set_state(struct diwarp_rc_qp *qp, enum dw_rc_state state);
void dw_rc_set_blocked(struct diwarp_rc_qp *qp, bool blocked);
/* Watches the stream for what the QP's state wants. */
void dw_rc_rewatch(struct diwarp_rc_qp *qp);
/* Takes the stream. */
void dw_rc_qp_attach(struct diwarp_rc_qp *qp, struct dw_stream *stream);
/* The stream was given away. */
void dw_rc_detach(struct diwarp_rc_qp *qp);
/* Nothing is left to send. */
bool dw_rc_idle(const struct diwarp_rc_qp *qp);
/* The stream carries FPDUs from now on; flags of both frames' sides. */
void dw_rc_begin_fpdus(struct diwarp_rc_qp *qp, const struct dw_mpa_frame *theirs,
                       uint16_t their_ird);
void dw_rc_set_timer(struct diwarp_rc_qp *qp, uint64_t deadline_ns);
/* A time limit beside the one there may be: a QP that stands still may also be closing. */
void dw_rc_limit(struct diwarp_rc_qp *qp, uint64_t deadline_ns);
/* A close may take so long; no other time limit. */
void dw_rc_limit_close(struct diwarp_rc_qp *qp, uint64_t now_ns);
void dw_rc_complete(struct diwarp_rc_qp *qp, uint64_t wr_id, int opcode, enum ibv_wc_status status,
                    uint32_t bytes);
/* Data came: the QP's stream is read without asking, for a while. */
void dw_rc_heat(struct diwarp_rc_qp *qp);
void dw_rc_cool(struct diwarp_rc_qp *qp);

#endif
