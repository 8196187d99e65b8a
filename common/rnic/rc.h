/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC queue pairs, iWARP (RFC 5040, 5041, 5044, 6581) over streams: what all of a CQ share.
 *
 * One message's path: rc_post.c (checks, queue) -> rc_send.c (FPDUs into the stream) ->
 * rc_receive.c (FPDUs out of the stream) -> rc_deliver.c | rc_read.c -> cq.c. Around it:
 * rc_startup.c and rc_listen.c make connections, rc_terminate.c and rc_qp.c end them, rc_run.c asks
 * the streams. Every function of the headers rc*.h runs with the device's lock held, unless it
 * says otherwise.
 */
#ifndef DW_RC_H
#define DW_RC_H

#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/include/diwarp_rc.h"
#include "common/llp/stream.h"
#include "common/rnic/device.h"

/* Received at once, for all QPs of a CQ. */
#define DW_RC_STAGE_BYTES (256u << 10)

/* QPs whose streams are read without asking first. */
#define DW_RC_HOT 4

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
    unsigned turn;           /* which of the ready streams is first */
    unsigned timers_put_off; /* runs, since they were due */
    unsigned linger_count;
    uint8_t *stage;
    struct dw_rc_train *train;
    struct dw_heap timers;
    uint64_t receive_bytes, send_bytes; /* without the stage and the train */
};

/* Takes back the completions that were not handed out: a QP's, or a request's. */
void dw_cq_forget(struct diwarp_cq *cq, const struct diwarp_rc_qp *qp,
                  const struct diwarp_connect_request *request);

/* The RC side of a CQ, made at first use. */
int dw_rc_get(struct diwarp_cq *cq, struct dw_rc **rc);
void dw_rc_destroy(struct dw_rc *rc);
/* One run of all QPs; how many receive calls brought something. */
int dw_rc_run(struct dw_rc *rc, uint64_t now_ns);
/* Sends what was posted lazily. */
void dw_rc_flush_lazy(struct dw_rc *rc);
uint64_t dw_rc_next_deadline_ns(const struct dw_rc *rc);
/* So many completions wait that streams are not served until some were polled: the streams' fd stays
 * readable meanwhile. */
bool dw_rc_is_full(const struct dw_rc *rc);
/* Data came: the QP's stream is read without asking, for a while. */
void dw_rc_heat(struct diwarp_rc_qp *qp);
void dw_rc_cool(struct diwarp_rc_qp *qp);

#endif
