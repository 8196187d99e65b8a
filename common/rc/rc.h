/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RC service, iWARP (RFC 5040, 5041, 5044, 6581) over streams: what all its QPs of a CQ share.
 *
 * One message's path: post.c (checks, queue) -> send.c (FPDUs into the stream) -> receive.c (FPDUs
 * out of the stream) -> the CQ. Around it: connect.c and listen.c make connections, qp.c and
 * terminate.c end them, run.c asks the streams. Every function of these headers runs with the
 * device's lock held, unless it says otherwise.
 */
#pragma once

#include "common/base/heap.h"
#include "common/include/diwarp_rc.h"
#include "common/llp/stream.h"
#include "common/rnic/cq.h"
#include "common/wire/mpa.h"

/* Received at once, by all QPs of a CQ into one stage; and no more goes to TCP in one call. Half
 * costs large messages more calls; twice as much leaves the caches and holds up other streams. */
#define DW_RC_STAGE_BYTES (256u << 10)
/* Of each kind, streams or calls that have their turn in one run; and runs that may pass before
 * timers have theirs though some streams had none. */
#define DW_RC_TURNS 64
/* Of each kind, streams without a QP: callers that have not said who they are, and those that
 * linger so that their other side can read what was sent last. All of 128 ranks may call before
 * they are answered. */
#define DW_RC_STRAYS_MAX 256
/* What a caller has, and longer while no other wants its place. */
#define DW_RC_STRAY_NS (1000ull * 1000000)
/* What the other side of one that lingers has: with a fifth, a program has lost its last message
 * where ten others wanted each core. */
#define DW_RC_LINGER_NS (5000ull * 1000000)
/* FPDUs that go to TCP in one call: half as many cost short messages more calls, twice as many more
 * memory and time for what TCP takes none of, which is built anew. */
#define DW_RC_TRAIN_FPDUS  64
#define DW_RC_TRAIN_PIECES 1024 /* UIO_MAXIOV */
/* A payload up to this is copied beside its header also without CRC: half of it makes pieces of
 * their own of what is cheaper to copy, twice as much copies what is not. */
#define DW_RC_COPY_BYTES 2048

/* Elements of a gather or scatter list, at most. */
#define DW_RC_MAX_SGE 32

/* How far the stream of a QP's messages is. */
struct dw_rc_cursor {
    uint32_t work, response; /* how many are done, from the front of their queues */
    uint32_t offset;         /* in the message that is under way */
    uint32_t send_msn, read_msn, response_msn;
    struct dw_mpa_stream tx;
    bool in_response; /* the message that is under way, or goes next, is a response */
};

struct dw_rc_train {
    struct dw_mpa_gather gather;
    unsigned count;
    struct dw_rc_cursor after[DW_RC_TRAIN_FPDUS]; /* each FPDU */
    struct iovec pieces[DW_RC_TRAIN_PIECES];
    uint8_t room[DW_RC_STAGE_BYTES]; /* of what is copied */
};
_Static_assert(DW_RC_STAGE_BYTES >= DW_RC_TRAIN_FPDUS * (DW_RC_COPY_BYTES + 64),
               "a train of short FPDUs");

/* The RC side of a CQ. */
struct dw_rc {
    struct dw_runner runner;
    struct diwarp_cq *cq;
    struct diwarp_device *device;
    struct dw_streams *streams;
    struct diwarp_rc_counters counters;
    struct dw_list qps, listeners, lingers;
    struct dw_list standing;  /* QPs that wait for a receive, longest first */
    uint64_t looked_at_recvs; /* device.recvs_posted when none of them had one */
    struct dw_list lazy;      /* QPs whose queue leaves with the next poll or flush */
    struct diwarp_rc_qp *hot; /* its stream is read in every run, without asking; NULL: none */
    bool hot_brings;          /* the last read of that found something */
    uint64_t receives;        /* calls that brought something */
    uint64_t ran_ns;
    unsigned runs_since_wait;
    unsigned timers_put_off; /* runs, since they were due */
    unsigned linger_count;
    struct dw_heap timers;
    uint64_t receive_bytes, send_bytes; /* of streams without a QP */
    struct dw_rc_train train;           /* the one that is being sent */
    uint8_t stage[DW_RC_STAGE_BYTES];
};

/* The RC side of a CQ, made at first use (run.c). */
int dw_rc_get(struct diwarp_cq *cq, struct dw_rc **rc);

/* Bytes that a stream has to take before all else. */
struct dw_rc_tail {
    uint8_t *buf;
    uint32_t bytes, sent;
};

/* Takes the stream, which lingers until the tail, its own now, has been read (terminate.c). */
void dw_rc_linger(struct dw_rc *rc, struct dw_stream *stream, struct dw_rc_tail tail);
void dw_rc_lingers_free(struct dw_rc *rc);

/* A listener, and the calls that wait at it. */
struct diwarp_listener {
    struct dw_rc *rc;
    struct dw_list link;     /* in rc.listeners */
    struct dw_list calls;    /* not answered yet, oldest first */
    unsigned stranger_count; /* of these, callers that have not shown the token yet */
    unsigned request_count;  /* those that have: they wait for the application */
    struct dw_timer timer;   /* while it runs, no calls are taken; a caller that leaves stops it */
    struct dw_stream *stream;
    uint16_t port;
    uint64_t token;
};
