/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ends that talk to each other while failing_libc refuses what they ask the system for: what
 * has been opened of each, what has completed, and whether what failed was to. After <cmocka.h>.
 */
#ifndef TEST_STARVING_ENDS_H
#define TEST_STARVING_ENDS_H

#include "common/include/diwarp_helper.h"
#include "common/include/diwarp_rc.h"
#include "common/include/diwarp_ud.h"
#include "test/net/failing_libc.h"
#include "test/net/node.h"

#define RECORD_BYTES 200000u
/* Of a run in which memory does not come back: more calls are refused in none. */
#define STARVING_NS (5 * MS)
/* The longest that a peer may be waited for that cannot answer for lack of memory. */
#define TIMEOUT_NS (200 * MS)

struct end {
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp;
    struct diwarp_ah *ah;
    struct diwarp_mr *mr;
    struct diwarp_helper *helper;
    struct diwarp_listener *listener;
    struct diwarp_rc_qp *rc_qp;
    struct diwarp_address address;
    /* What has completed. */
    unsigned done, failed, recvs, gone, requests, connects, disconnects;
    struct diwarp_connect_request *request;
    bool lost; /* a completion, for want of memory */
};

extern struct end a, b;
extern uint8_t remote[RECORD_BYTES]; /* of both, registered with all rights */
extern unsigned posted;

/* All but the QP. An end of which the opening failed is to be closed, too. */
int open_end(struct end *end, uint32_t rank);
void close_end(struct end *end);
void poll_end(struct end *end);
/* Neither can go on: a peer is gone, or a completion is lost. */
bool is_over(void);

/* Polls both until the truth holds or neither can go on; fails the test where that takes too long.
 * While memory does not come back it gives up soon. */
#define POLL_UNTIL(truth)                                                                        \
    do {                                                                                         \
        const uint64_t began_ns = clock_ns();                                                    \
        while (!(truth) && !is_over()) {                                                         \
            const uint64_t spent_ns = clock_ns() - began_ns;                                     \
            poll_end(&a);                                                                        \
            poll_end(&b);                                                                        \
            if (failing.forever && failing.refused && spent_ns > STARVING_NS)                    \
                break;                                                                           \
            if (spent_ns > WAIT_NS)                                                              \
                fail_msg("call %u (%s) refused: in vain: %s (%u of %u done, %u received)",       \
                         failing.at, failing.refused ? failing.refused : "none", #truth, a.done, \
                         posted, b.recvs);                                                       \
        }                                                                                        \
    } while (0)

/* Whether a call of which `rc` is the result is to be made again: there may be memory now. */
bool again(int rc, unsigned *tries);
/* Whether it did its work. It must, unless what is refused stays refused. */
bool succeeded(int rc, const char *what);

#endif
