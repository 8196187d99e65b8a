/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners, and the calls that wait at them. */
#ifndef DW_RC_LISTEN_H
#define DW_RC_LISTEN_H

#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/include/diwarp_rc.h"
#include "common/rc/rc.h"
#include "common/rc/startup.h"
#include "common/wire/mpa.h"
#include "common/wire/rc_hello.h"

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

#endif
