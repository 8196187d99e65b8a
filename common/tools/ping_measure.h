/* SPDX-License-Identifier: BSD-3-Clause */
/* What is found out of one pair of interfaces, from the client's end. */
#pragma once

#include "common/tools/ping_host.h"
#include "common/tools/ping_link.h"

enum ping_verdict {
    PING_WORKS,
    PING_NARROW,     /* works, but takes shorter datagrams than its interfaces */
    PING_LOST_THERE, /* nothing arrives at the peer */
    PING_LOST_BACK,  /* nothing comes back */
    PING_NOT_SENT,   /* this host refuses to send */
    PING_NO_RD,      /* datagrams pass, but RD does not come through */
    PING_STALLED,    /* RD works, but the streams do not end */
    PING_NOT_OPENED, /* the interface, at either end */
    PING_NO_WAY,     /* diwarp sees none: it would never try */
};

#define PING_TRIPS_MAX 20000

struct ping_loss {
    uint32_t sent, arrived, answered; /* messages: of ours, of these there, of these here again */
};

struct ping_result {
    const struct diwarp_interface *here, *there;
    bool same_subnet;
    enum ping_verdict verdict;
    char text[300]; /* why it does not work */
    uint32_t wanted_bytes, datagram_bytes;
    uint32_t trips;            /* round trips that were timed */
    uint32_t ns[5];            /* halves: P50, P90, P99, P99.9, maximum; 0: too few trips */
    double mib_mbs, kib8_mbs;  /* 10^6 bytes in a second: 1 MiB writes, 8 KiB Sends */
    uint64_t resent;           /* datagrams, in the streams, and of records as many as they fill */
    struct ping_loss loss[2];  /* of small datagrams, of full ones */
    struct ping_counts remote; /* at the end */
    struct diwarp_qp_info local;
};

/* Over the control connection `fd`. result->here and ->there are set. 0; negative errno: the
 * control connection is of no more use. */
int ping_measure(int fd, const struct ping_options *options, unsigned there_index,
                 struct ping_result *result);
