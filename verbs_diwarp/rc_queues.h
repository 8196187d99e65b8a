/* SPDX-License-Identifier: BSD-3-Clause */
/* The send and receive queue of a queue pair of RC or UC: requests wait here until there is a
 * connection, and for their completion in the order of their posts. To diwarp, as to iWARP, a Send
 * or Write is complete when TCP has it; verbs programs expect that the other side has it. So a read
 * of no bytes follows, whose response comes after all before it has been placed (RFC 5040 5.5). */
#pragma once

#include "verbs_diwarp/front.h"

/* Who calls whom, as it is on the wire and is compared: without padding. */
struct dv_rc_caller {
    uint8_t gid[16];
    uint32_t qpn; /* in network byte order */
};

/* What a call bears. */
struct dv_rc_call {
    struct dv_rc_caller caller, called;
};

struct dv_rc_send {
    struct ibv_send_wr wr; /* its sg_list: of rc.sges */
    uint32_t messages;     /* of the connection until its end, with those that ask */
    uint32_t bytes;
    enum ibv_wc_status failed; /* a bind or invalidation; told in its turn */
    bool keyless; /* to diwarp that is any memory of the process, which verbs do not know */
};

struct dv_rc {
    struct dv_qp *qp;
    LIST_ENTRY(dv_rc) link; /* in context.waiting, if fail_at_ns */
    uint64_t fail_at_ns;    /* 0: it has no Sends, or waits for ever */
    bool connected;
    struct diwarp_rc_qp *core; /* NULL: no connection */
    struct diwarp_rc_qp *loop; /* of one that is connected with itself: the end that receives */
    struct diwarp_connect_request *request; /* came before the queue pair was RTR; NULL: none */
    struct dv_rc_caller caller;             /* whose that is */
    bool lost;         /* the connection broke, or could not be made: nothing arrives any more */
    bool closed_there; /* in order: what it has not taken waits, as for a card that is silent */

    struct dv_rc_send *sends; /* a ring */
    struct ibv_sge *sges;     /* cap.max_send_sge for each */
    uint8_t *inlined;         /* cap.max_inline_data for each */
    uint64_t first_send;      /* number of the oldest */
    uint32_t send_count;
    uint32_t handed;  /* of these, to diwarp */
    uint64_t refused; /* number of the first that diwarp could not carry out */
    /* Numbers before which somebody waits for it, the other side has been asked, and it has
     * confirmed, that it has them; and how many questions are under way. */
    uint64_t wanted, asked, confirmed;
    uint32_t asking;
    uint32_t messages;             /* handed to diwarp, modulo 2^32 */
    enum ibv_wc_status unsendable; /* the next one, once it is the oldest; 0: is not */

    struct diwarp_srq *recvs; /* the queue pair's own; NULL: it has an SRQ */
    uint64_t *recv_ids;       /* a ring */
    uint32_t recv_first, recv_count;
};

int dv_rc_queues_init(struct dv_qp *qp, const struct ibv_qp_init_attr_ex *attr);
void dv_rc_queues_fini(struct dv_qp *qp);
/* Whether a Send may be posted after so many others: 0 or a positive errno. */
int dv_rc_check_send(struct dv_qp *qp, const struct ibv_send_wr *wr, uint32_t before);
/* One that is good. Why the oldest cannot be sent now, which the queue pair fails with, or
 * IBV_WC_SUCCESS. IBV_WC_RETRY_EXC_ERR: `lost`, with which UC does not fail. */
enum ibv_wc_status dv_rc_queues_send(struct dv_qp *qp, const struct ibv_send_wr *wr);
/* State SQD begins. As dv_rc_queues_send(). */
enum ibv_wc_status dv_rc_queues_drain(struct dv_qp *qp);
/* What waited in state SQD. As dv_rc_queues_send(). */
enum ibv_wc_status dv_rc_queues_resume(struct dv_qp *qp);
/* Requests that are to go on now: in state SQD, those that have begun. */
uint32_t dv_rc_begun(const struct dv_qp *qp);
/* 0 or a positive errno. */
int dv_rc_post_recv(struct dv_qp *qp, const struct ibv_recv_wr *wr);
/* Without a word. */
void dv_rc_queues_forget(struct dv_qp *qp);
/* All requests end, the oldest Send and receive with these statuses, the others flushed. */
void dv_rc_queues_flush(struct dv_qp *qp, enum ibv_wc_status status,
                        enum ibv_wc_status recv_status);
/* What has begun is done, though the other side has it not; none of it is diwarp's. A fault of this
 * side in the oldest, or IBV_WC_SUCCESS. */
enum ibv_wc_status dv_rc_queues_drop(struct dv_qp *qp);
/* The other side has closed in order, and had taken so many messages: these are done. As
 * dv_rc_queues_send(). */
enum ibv_wc_status dv_rc_queues_closed(struct dv_qp *qp, uint32_t taken);
/* As dv_rc_queues_send(). */
enum ibv_wc_status dv_rc_queues_deliver(struct dv_qp *qp, const struct diwarp_wc *done);

static inline bool dv_is_uc(const struct dv_qp *qp)
{
    return qp->ex.qp_base.qp_type == IBV_QPT_UC;
}

/* Sends that there is room for. */
static inline uint32_t dv_rc_room(const struct dv_qp *qp)
{
    return qp->cap.max_send_wr ? qp->cap.max_send_wr : 1;
}
