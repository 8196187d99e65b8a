/* SPDX-License-Identifier: BSD-3-Clause */
/* The RC queue pair: its state from the call to the close, its queues, its stream. */
#pragma once

#include "common/base/ring.h"
#include "common/rc/rc.h"
#include "common/rnic/srq.h"
#include "common/wire/ddp.h"
#include "common/wire/rdmap.h"

enum dw_rc_state {
    DW_RC_CONNECTING, /* until TCP is set up, and MPA's reply has come */
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
    uint32_t stag;      /* the same; or the one to invalidate, or immediate data of a Send */
    uint32_t sink_stag; /* read: of its response only; atomic: its request id */
    uint32_t imm;       /* of an Immediate Data message, which a write's `total` is told with */
    uint64_t add_swap, compare; /* of an atomic */
    uint32_t placed;            /* read: so much of the response */
    uint32_t total;
    uint8_t opcode;                /* enum dw_rdmap_opcode */
    bool signaled, fence, inlined; /* as in send_flags */
    bool compare_swap;             /* of atomics: else fetch and add */
    struct iovec sge[];
};

/* What the other side's read or atomic is answered with. */
struct dw_rc_response {
    bool is_atomic;
    union {
        struct dw_read_request read;
        struct dw_atomic_response atomic;
    };
};

static inline bool dw_rc_awaits_response(const struct dw_rc_work *work)
{
    return work->opcode == DW_RDMAP_READ_REQUEST || work->opcode == DW_RDMAP_ATOMIC_REQUEST;
}

/* A slot of a ring of them, with lists of so many elements. */
static inline size_t dw_rc_work_bytes(uint32_t max_sge)
{
    return sizeof(struct dw_rc_work) + max_sge * sizeof(struct iovec);
}

/* Part of an FPDU; or, when the QP stands still, a ULPDU and what came behind it. Own memory. */
struct dw_rc_held {
    uint8_t *buf;
    uint32_t bytes;
    uint32_t ulpdu_bytes, rest_at; /* when it stands still */
};

/* The other side's MPA frame, as far as it has come. */
struct dw_rc_startup {
    struct dw_mpa_frame frame; /* once it is whole; its private data: the application's part */
    struct dw_rc_hello hello;
    uint32_t bytes;
    uint8_t buf[DW_MPA_FRAME_BYTES + DW_MPA_PRIVATE_MAX_BYTES];
};

/* An RDMA Write of no bytes names nothing (RFC 5040 5.1). With STag 0 and this TO, plus a number
 * below DW_RC_RNR_FOREVER, it tells how often the Sends behind it would be tried again. */
#define DW_RC_RNR_TO      UINT64_C(0x524e522072657400) /* "RNR ret" */
#define DW_RC_RNR_FOREVER 7u
/* What a receiver gets at least to post the next receive: its process may wait for a core. With a
 * tenth fio, which asks for no retries, fails beside two programs that compute; ten times as much
 * would keep a sender that wants to know it at once. */
#define DW_RC_RNR_LEAST_NS 20000000u
/* Likewise, with this TO, plus a number modulo 2^32: before the stream ends, how many messages have
 * been taken: Sends, Writes that name something, immediate data, requests of reads and atomics. */
#define DW_RC_TAKEN_TO UINT64_C(0x74616b6e00000000) /* "takn" */

struct diwarp_rc_qp {
    struct dw_rc *rc;
    struct diwarp_pd *pd;
    struct dw_list link;          /* in rc.qps */
    struct dw_list standing_link; /* in rc.standing: it stands still, for want of a receive */
    struct dw_list lazy_link;     /* in rc.lazy */
    struct dw_stream *stream;     /* NULL: closed */
    struct dw_llp_addr peer;      /* the other side, also when closed */
    struct dw_timer timer;        /* set-up, standing still, close */
    struct diwarp_rc_qp_attr attr;
    enum dw_rc_state state;
    bool may_send;    /* the other side is ready for FPDUs */
    bool blocked;     /* TCP takes no more now */
    bool terminated;  /* we have sent Terminate, or would have */
    bool broken;      /* a send call failed: the end will not be an orderly one */
    bool ended, shut; /* the other side has closed in order, we have */
    uint16_t ord, ird;
    uint8_t rnr_retries; /* of its Sends, as the other side has told; DW_RC_RNR_FOREVER: not */
    uint64_t taken; /* of our messages, as the other side has told, modulo 2^32; UINT64_MAX: not */

    struct dw_rc_startup *startup; /* of the calling side: the reply */
    uint64_t token;                /* of the listener that was called */

    struct dw_ring works;
    struct dw_ring responses; /* struct dw_rc_response */
    struct dw_ring reads;     /* and atomics: sent, their responses are awaited */
    struct dw_rc_cursor cursor;
    uint32_t max_ulpdu_bytes;
    struct dw_rc_tail tail; /* FPDUs that are not built from works, and what TCP took in part */

    struct dw_ring *recvs; /* struct dw_recv: own, or the SRQ's */
    size_t recv_bytes;     /* of a slot there */
    struct dw_ring own;
    struct dw_recv *current; /* behind this struct */
    bool receiving;          /* into current */
    bool writing;            /* the other side's RDMA Write has begun and not ended */
    uint32_t received_bytes;
    uint32_t written_bytes; /* of that Write, or the last one */
    uint32_t recv_msn, request_msn, response_msn;
    uint32_t writes; /* that came whole */
    struct dw_mpa_stream rx;
    struct dw_rc_held held;
};

/* ---- state (qp.c) ---- */
/* Checks the table of states; the time limit of the new one begins. */
void dw_rc_set_state(struct diwarp_rc_qp *qp, enum dw_rc_state state);
void dw_rc_rewatch(struct diwarp_rc_qp *qp); /* watches the stream for what its state wants */
void dw_rc_detach(struct diwarp_rc_qp *qp);  /* the stream was given away */
static inline bool dw_rc_is_standing(const struct diwarp_rc_qp *qp)
{
    return dw_list_linked(&qp->standing_link);
}
/* Its stream may be read. */
static inline bool dw_rc_may_receive(const struct diwarp_rc_qp *qp)
{
    return qp->stream && !dw_rc_is_standing(qp) && !qp->ended;
}
bool dw_rc_idle(const struct diwarp_rc_qp *qp); /* nothing is left to send */
/* How long the other side's Send may wait for a receive. */
static inline uint64_t dw_rc_rnr_wait_ns(const struct diwarp_rc_qp *qp)
{
    if (qp->rnr_retries == DW_RC_RNR_FOREVER)
        return qp->attr.rnr_timeout_ns;
    const uint64_t wait_ns = qp->rnr_retries * qp->attr.rnr_timer_ns;
    return wait_ns > DW_RC_RNR_LEAST_NS ? wait_ns : DW_RC_RNR_LEAST_NS;
}
/* Begins the time limit of what it waits for now: set-up or close, a receive; or ends it. */
void dw_rc_limit(struct diwarp_rc_qp *qp, uint64_t now_ns);
void dw_rc_complete(struct diwarp_rc_qp *qp, uint64_t wr_id, int opcode, enum ibv_wc_status status,
                    uint32_t bytes);

/* ---- memory (access.c) ---- */
/* Copies to the list from its offset on; it has room for that. */
void dw_rc_scatter(const struct iovec *list, size_t offset, const uint8_t *from, size_t bytes);
/* Appends these bytes of a list. False: no memory. */
bool dw_rc_tail_add(struct dw_rc_tail *tail, const struct iovec *list, size_t offset, size_t bytes);
/* Appends the FPDU of a ULPDU to the QP's tail, before all that is queued. False: no memory. */
bool dw_rc_tail_add_fpdu(struct diwarp_rc_qp *qp, uint8_t *ulpdu, size_t bytes);
/* The train is empty. */
struct dw_mpa_gather *dw_rc_train_begin(struct dw_rc *rc);
/* Why a peer's access fails, 0: it does not, and *at is where. For tagged buffers of DDP, or the
 * sources of reads. */
uint16_t dw_rc_check_access(const struct diwarp_rc_qp *qp, uint32_t stag, uint64_t to,
                            uint64_t bytes, int access, void **at);

/* ---- the end (qp.c) ---- */
int dw_rc_wc_opcode(const struct dw_rc_work *work);
/* Requests that are not carried out any more: qp's works, or reads. */
void dw_rc_flush_works(struct diwarp_rc_qp *qp, struct dw_ring *works);
/* Closes the stream, flushes all requests and says DIWARP_WC_DISCONNECTED. */
void dw_rc_close(struct diwarp_rc_qp *qp, enum ibv_wc_status status, uint32_t vendor_err);
/* Its stream is closed; its requests and completions vanish. */
void dw_rc_qp_free(struct diwarp_rc_qp *qp);
/* All has been sent that was to be: says so to the other side, where it is time for that. */
void dw_rc_end_if_idle(struct diwarp_rc_qp *qp);

/* Sends Terminate about a ULPDU (NULL: none) and closes (terminate.c). */
void dw_rc_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu, uint32_t bytes);

/* ---- the data path (send.c, receive.c); all of these may end in dw_rc_close() ---- */
void dw_rc_flush(struct diwarp_rc_qp *qp); /* sends what is queued, as far as TCP takes it */
/* Reads the stream once; true: something came. */
bool dw_rc_receive(struct diwarp_rc_qp *qp, uint64_t now_ns);
/* Goes on where a receive was missing; there is one. */
void dw_rc_resume(struct diwarp_rc_qp *qp, uint64_t now_ns);

/* ---- making (connect.c) ---- */
/* What peers are told of a device; no listener's. */
struct diwarp_address dw_rc_address(const struct diwarp_device *device);

/* A new QP without a stream yet. -EINVAL, -ENOMEM. */
int dw_rc_qp_create(struct dw_rc *rc, struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                    struct diwarp_rc_qp **qp);
/* Takes the stream. */
void dw_rc_qp_attach(struct diwarp_rc_qp *qp, struct dw_stream *stream);
/* Its stream carries FPDUs from now on, as both sides' frames say: DIWARP_WC_CONNECTED, unless it
 * is the calling side and the two do not suit each other. */
void dw_rc_connected(struct diwarp_rc_qp *qp, const struct dw_rc_startup *theirs);

/* ---- frames of MPA start-up (connect.c) ---- */
/* Reads a frame no further than to its end: 0; -EAGAIN: more must come; or why not, -EPROTO also
 * where our block with that token does not lead its private data. Without RFC 6581's block, and
 * where that leaves it to others, the IRD is the one of ours. */
int dw_rc_frame_read(struct dw_stream *stream, struct dw_rc_startup *startup, enum dw_mpa_kind kind,
                     uint64_t token);
/* Appends a frame, our block before its private data. -EINVAL: too much of that; -ENOMEM. */
int dw_rc_frame_add(struct dw_rc_tail *tail, const struct diwarp_device *device, uint64_t token,
                    struct dw_mpa_frame frame);
static inline uint8_t dw_rc_frame_flags(const struct diwarp_rc_qp_attr *attr)
{
    return (attr->markers ? DW_MPA_MARKERS : 0) | (attr->crc ? DW_MPA_CRC : 0);
}
