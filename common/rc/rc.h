/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RC service, iWARP (RFC 5040, 5041, 5044, 6581) over streams: what all its QPs of a CQ share.
 *
 * One message's path: post.c (checks, queue) -> send.c (FPDUs into the stream) -> receive.c (FPDUs
 * out of the stream) -> deliver.c -> the CQ. Around it: connect.c and listen.c make connections,
 * close.c and terminate.c end them, run.c asks the streams. Every function of these headers runs
 * with the device's lock held, unless it says otherwise.
 */
#ifndef DW_RC_H
#define DW_RC_H

#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/include/diwarp_rc.h"
#include "common/llp/stream.h"
#include "common/rnic/cq.h"
#include "common/rnic/device.h"

/* Received at once, in one stage for all QPs of a CQ; and no more goes to TCP in one call. Half of
 * it costs large messages more calls; twice as much leaves the caches and holds up other streams.
 */
#define DW_RC_STAGE_BYTES (256u << 10)
/* QPs whose streams are read without asking first: each costs a call in vain where half as many
 * speak, and twice as many would all have to be asked for. */
#define DW_RC_HOT 4
/* Of each kind, streams or calls that have their turn in one run; and runs that may pass before
 * timers have theirs though some streams had none. */
#define DW_RC_TURNS 64
/* Of each kind, streams without a QP: callers that have not said who they are, and those that
 * linger so that their other side can read what was sent last. They have so long to do that; a
 * caller longer, as long as no other wants its place. Of 128 ranks that share two cores all may
 * call before they have their next turn. */
#define DW_RC_STRAYS_MAX 256
#define DW_RC_STRAY_NS   (1000ull * 1000000)

struct dw_rc_train; /* qp.h */

/* What a stream's owner begins with. */
struct dw_rc_watch {
    void (*ready)(struct dw_rc_watch *watch, unsigned what, uint64_t now_ns);
};

/* The RC side of a CQ. */
struct dw_rc {
    struct dw_runner runner;
    struct diwarp_cq *cq;
    struct diwarp_device *device;
    struct dw_streams *streams;
    struct diwarp_rc_counters counters;
    struct dw_list qps, listeners, lingers;
    struct dw_list resumed; /* QPs that stood still and found a receive */
    struct dw_list lazy;    /* QPs whose queue leaves with the next poll or flush */
    struct diwarp_rc_qp *hot[DW_RC_HOT];
    unsigned hot_count;
    unsigned connection_count; /* QPs that have a stream */
    unsigned blocked_count;    /* QPs that wait until TCP takes more */
    uint64_t receives;         /* calls that brought something */
    unsigned runs_since_wait;
    unsigned turn;           /* which of the ready streams is first */
    unsigned timers_put_off; /* runs, since they were due */
    unsigned linger_count;
    uint8_t *stage;
    struct dw_rc_train *train;
    struct dw_heap timers;
    uint64_t receive_bytes, send_bytes; /* without the stage and the train */
};

/* The RC side of a CQ, made at first use (run.c). */
int dw_rc_get(struct diwarp_cq *cq, struct dw_rc **rc);
/* Takes the stream, which lingers, and `rest` (malloc'ed), which TCP has not taken yet
 * (terminate.c).
 */
void dw_rc_linger(struct dw_rc *rc, struct dw_stream *stream, uint8_t *rest, uint32_t bytes);
void dw_rc_lingers_free(struct dw_rc *rc);

/* A listener, and the calls that wait at it. */
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

#endif
