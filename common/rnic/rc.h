/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of RC queue pairs share: iWARP (RFC 5040, 5041, 5044, 6581) over streams.
 *
 * One message's path: rc_post.c (checks, queue) -> rc_send.c (FPDUs into the stream) ->
 * rc_receive.c (FPDUs out of the stream) -> rc_deliver.c | rc_read.c -> cq.c. Around it:
 * rc_startup.c and rc_listen.c make connections, rc_terminate.c and rc_qp.c end them, rc_run.c asks
 * the streams. Every function here runs with the device's lock held, unless it says otherwise.
 */
#ifndef DW_RC_H
#define DW_RC_H

#include "common/base/ring.h"
#include "common/include/diwarp_rc.h"
#include "common/llp/stream.h"
#include "common/rnic/qp.h"
#include "common/wire/mpa.h"
#include "common/wire/rc_hello.h"
#include "common/wire/terminate.h"

/* Received at once, for all QPs of a CQ. */
#define DW_RC_STAGE_BYTES (256u << 10)
/* QPs whose streams are read without asking first. */
#define DW_RC_HOT 4
/* A stream's beginning that does not tell an FPDU's length yet: half a marker, a length field. */
#define DW_RC_STUB_BYTES 8

struct dw_rc_train; /* rc_send.c */

/* What a stream's owner begins with. */
struct dw_rc_watch {
    void (*ready)(struct dw_rc_watch *watch, unsigned what, uint64_t now_ns);
};

/* The RC side of a CQ. */
struct dw_rc {
    struct diwarp_cq *cq;
    struct diwarp_device *device;
    struct dw_streams *streams;
    struct diwarp_rc_counters counters;
    struct dw_list qps, listeners, lingers;
    struct dw_list resumed; /* QPs that stood still and found a receive */
    struct dw_list lazy;    /* QPs whose queue leaves with the next poll or flush */
    struct diwarp_rc_qp *hot[DW_RC_HOT];
    unsigned hot_count;
    unsigned blocked_count; /* QPs that wait until TCP takes more */
    unsigned runs_since_wait;
    unsigned linger_count;
    uint8_t *stage;
    struct dw_rc_train *train;
    struct dw_heap timers;
    uint64_t receive_bytes, send_bytes; /* without the stage and the train */
};

enum dw_rc_state {
    DW_RC_CONNECTING, /* TCP */
    DW_RC_REQUESTED,  /* MPA request sent */
    DW_RC_RESPONDED,  /* MPA reply sent: the caller speaks first (RFC 5044 7.1.2) */
    DW_RC_RTS,
    DW_RC_CLOSING, /* sends what is queued, then the end; waits for the other side's */
    DW_RC_CLOSED,
    DW_RC_STATE_COUNT
};

struct dw_rc_work {
    uint64_t wr_id;
    uint64_t to;        /* write: sink; read: source */
    uint32_t stag;      /* the same, or the one to invalidate */
    uint32_t sink_stag; /* read */
    uint32_t total;
    uint8_t opcode; /* enum dw_rdmap_opcode */
    bool signaled;
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
    struct dw_ring reads;     /* ours, whose responses are awaited */
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

struct diwarp_srq {
    struct diwarp_pd *pd;
    uint32_t max_wr;
    struct dw_ring recvs;
    struct dw_list waiting; /* QPs that stand still */
};

struct diwarp_listener {
    struct dw_rc_watch watch;
    struct dw_rc *rc;
    struct diwarp_pd *pd;
    struct dw_list link;      /* in rc.listeners */
    struct dw_list strangers; /* callers that have not shown the token yet, oldest first */
    struct dw_list requests;  /* those that have: they wait for the application */
    unsigned stranger_count, request_count;
    bool resting; /* takes no calls until the timer fires or a caller leaves */
    struct dw_timer timer;
    struct dw_stream *stream;
    uint16_t port;
    uint64_t token;
};

/* A call: its request is read, then it waits for the application. */
struct diwarp_connect_request {
    struct dw_rc_watch watch;
    struct dw_list link; /* in listener.strangers, then listener.requests */
    bool proven;         /* it has shown the token */
    struct diwarp_listener *listener;
    struct dw_rc *rc;
    struct dw_stream *stream;
    uint64_t called_ns;
    struct dw_timer timer;
    struct dw_mpa_frame frame;
    struct dw_mpa_enhanced enhanced;
    struct dw_rc_hello hello;
    struct dw_rc_startup startup;
};

/* ---- cq.c ---- */
/* Takes back the completions that were not handed out: a QP's, or a request's. */
void dw_cq_forget(struct diwarp_cq *cq, const struct diwarp_rc_qp *qp,
                  const struct diwarp_connect_request *request);

/* ---- rc_run.c ---- */
/* The RC side of a CQ, made at first use. */
int dw_rc_get(struct diwarp_cq *cq, struct dw_rc **rc);
void dw_rc_destroy(struct dw_rc *rc);
/* One run of all QPs; how many receive calls brought something. */
int dw_rc_run(struct dw_rc *rc, uint64_t now_ns);
/* Sends what was posted lazily. */
void dw_rc_flush_lazy(struct dw_rc *rc);
uint64_t dw_rc_next_deadline_ns(const struct dw_rc *rc);
/* Data came: the QP's stream is read without asking, for a while. */
void dw_rc_heat(struct diwarp_rc_qp *qp);
void dw_rc_cool(struct diwarp_rc_qp *qp);

/* ---- rc_qp.c ---- */
/* A new QP without a stream yet. -EINVAL, -ENOMEM. */
int dw_rc_qp_create(struct dw_rc *rc, struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                    struct diwarp_rc_qp **qp);
/* Takes the stream. */
void dw_rc_qp_attach(struct diwarp_rc_qp *qp, struct dw_stream *stream);
/* The stream was given away. */
void dw_rc_detach(struct diwarp_rc_qp *qp);
/* Its stream is closed; its requests vanish. */
void dw_rc_qp_free(struct diwarp_rc_qp *qp);
/* Checks the table of states. */
void dw_rc_set_state(struct diwarp_rc_qp *qp, enum dw_rc_state state);
void dw_rc_set_blocked(struct diwarp_rc_qp *qp, bool blocked);
/* Watches the stream for what the QP's state wants. */
void dw_rc_rewatch(struct diwarp_rc_qp *qp);
/* The stream carries FPDUs from now on; flags of both frames' sides. */
void dw_rc_begin_fpdus(struct diwarp_rc_qp *qp, const struct dw_mpa_frame *theirs,
                       uint16_t their_ird);
/* Closes the stream, flushes all requests and says DIWARP_WC_DISCONNECTED. */
void dw_rc_close(struct diwarp_rc_qp *qp, enum ibv_wc_status status, uint32_t vendor_err);
/* The other side has sent its last. */
void dw_rc_on_end(struct diwarp_rc_qp *qp);
/* All has been sent that was to be: says so to the other side, where it is time for that. */
void dw_rc_end_if_idle(struct diwarp_rc_qp *qp);
/* A close may take so long; no other time limit. */
void dw_rc_limit_close(struct diwarp_rc_qp *qp, uint64_t now_ns);
void dw_rc_set_timer(struct diwarp_rc_qp *qp, uint64_t deadline_ns);
void dw_rc_complete(struct diwarp_rc_qp *qp, uint64_t wr_id, int opcode, enum ibv_wc_status status,
                    uint32_t bytes);

/* ---- rc_startup.c ---- */
void dw_rc_startup_ready(struct diwarp_rc_qp *qp, unsigned what, uint64_t now_ns);
/* Reads a frame no further than to its end: 0, -EAGAIN (more must come), or why not. */
int dw_rc_frame_read(struct dw_stream *stream, struct dw_rc_startup *startup, enum dw_mpa_kind kind,
                     struct dw_mpa_frame *frame);
/* Writes a frame with RFC 6581's block (NULL: without), ours and the application's data
 * (frame->private_data is not looked at); returns its bytes. */
uint32_t dw_rc_frame_put(uint8_t *buf, struct dw_mpa_frame *frame,
                         const struct dw_mpa_enhanced *enhanced, const struct dw_rc_hello *hello,
                         const void *data, size_t bytes);
/* The blocks in a frame that was read; *data is the application's part. -EPROTO: ours is not there.
 * Without RFC 6581's, and where that leaves it to others, the IRD is the one of ours. */
int dw_rc_frame_get(const struct dw_mpa_frame *frame, struct dw_mpa_enhanced *enhanced,
                    struct dw_rc_hello *hello, const uint8_t **data, uint32_t *bytes);
uint8_t dw_rc_frame_flags(const struct diwarp_rc_qp_attr *attr);

/* ---- rc_send.c ---- */
struct dw_rc_train *dw_rc_train_create(void);
void dw_rc_train_destroy(struct dw_rc_train *train);
size_t dw_rc_train_bytes(void);
/* Sends what is queued, as far as TCP takes it; may end in dw_rc_close(). */
void dw_rc_flush(struct diwarp_rc_qp *qp);
/* Hands bytes to TCP before all else; what it does not take is kept. -ENOMEM, or TCP's error. */
int dw_rc_send_bytes(struct diwarp_rc_qp *qp, const void *buf, uint32_t bytes);
bool dw_rc_idle(const struct diwarp_rc_qp *qp);

/* ---- rc_post.c ---- */
/* Checks a list of buffers: how many bytes in all; -EINVAL, -EMSGSIZE, -EACCES. */
int64_t dw_rc_check_sges(struct diwarp_pd *pd, const struct ibv_sge *list, int count, int access,
                         struct iovec iov[DW_MAX_SGE]);
void dw_rc_work_free(struct dw_rc_work *work);
int dw_rc_wc_opcode(const struct dw_rc_work *work);

/* ---- rc_receive.c ---- */
/* Reads the stream once; true: something came. May end in dw_rc_close(). */
bool dw_rc_receive(struct diwarp_rc_qp *qp, uint64_t now_ns);
/* Goes on where a receive was missing. */
void dw_rc_resume(struct diwarp_rc_qp *qp, uint64_t now_ns);
void dw_rc_held_free(struct diwarp_rc_qp *qp);

/* ---- rc_deliver.c ---- */
enum dw_rc_verdict {
    DW_RC_DONE,
    DW_RC_WAIT, /* no receive is posted: the ULPDU comes again */
    DW_RC_DEAD, /* the QP is closed */
};
/* A ULPDU of a good FPDU. */
struct dw_rc_segment {
    const uint8_t *ulpdu;
    uint32_t bytes, head_bytes; /* the head is part of bytes */
    struct dw_ddp_header ddp;
};
enum dw_rc_verdict dw_rc_deliver(struct diwarp_rc_qp *qp, const uint8_t *ulpdu, uint32_t bytes);
/* Copies to iov from its offset on; the caller has checked that it fits. */
void dw_rc_scatter(const struct iovec *iov, uint32_t offset, const uint8_t *from, uint32_t bytes);
/* Why a peer's access fails, 0: it does not. For tagged buffers of DDP, or the sources of reads. */
uint16_t dw_rc_check_access(const struct diwarp_rc_qp *qp, uint32_t stag, uint64_t to,
                            uint64_t bytes, int access);

/* ---- rc_read.c ---- */
enum dw_rc_verdict dw_rc_on_read_request(struct diwarp_rc_qp *qp,
                                         const struct dw_rc_segment *segment);
enum dw_rc_verdict dw_rc_on_read_response(struct diwarp_rc_qp *qp,
                                          const struct dw_rc_segment *segment);
/* The response under way, or the next one, cannot go on: ends the stream with Terminate. */
void dw_rc_fail_response(struct diwarp_rc_qp *qp, uint16_t cause);

/* ---- rc_srq.c ---- */
void dw_rc_recv_free(struct dw_rc_recv *recv);
/* The next receive of the QP, from where its receives are: false, there is none. */
bool dw_rc_take_recv(struct diwarp_rc_qp *qp, struct dw_rc_recv *recv);
bool dw_rc_has_recv(const struct diwarp_rc_qp *qp);
/* The QP stands still until it has a receive. */
void dw_rc_stand(struct diwarp_rc_qp *qp, uint64_t now_ns);
/* It no longer waits; another one may have what it waited for. */
void dw_rc_unstand(struct diwarp_rc_qp *qp);

/* ---- rc_terminate.c ---- */
/* Sends Terminate about a ULPDU (NULL: none) and closes. Always DW_RC_DEAD. */
enum dw_rc_verdict dw_rc_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu,
                                   uint32_t bytes);
enum dw_rc_verdict dw_rc_on_terminate(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment);
/* Lets the other side read to the end of what was sent before the stream closes. Takes the stream,
 * and `rest` (malloc'ed, may be NULL), which TCP has not taken yet. */
void dw_rc_linger(struct dw_rc *rc, struct dw_stream *stream, uint8_t *rest, uint32_t bytes);
void dw_rc_lingers_free(struct dw_rc *rc);

#endif
