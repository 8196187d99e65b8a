/* SPDX-License-Identifier: BSD-3-Clause */
/* diwarp when nobody polls: sleeping until there is something to do, and a thread for the RNIC. */
#pragma once

#include "diwarp.h"

/* Sleeps, in the thread that polls, until a poll may find something or must be made (a socket is
 * readable, a timer due, a completion waits, another thread posts what cannot leave without one);
 * at most timeout_ns, and a second. It may wake for nothing. Negative errno: it cannot sleep. */
DIWARP_EXPORT int diwarp_block_cq(struct diwarp_cq *cq, uint64_t timeout_ns);

struct diwarp_helper_attr {
    struct diwarp_cq *cq;
    /* Runs the RNIC once, in the helper: by diwarp_run_cq(), or by diwarp_poll_cq() where
     * completions may be handed on in this thread. Returns how many completions it took; -EBUSY,
     * without a run, while another thread polls, uses what its last poll handed out or wants to:
     * run and that thread exclude each other by a lock of the caller's. */
    int (*run)(void *arg);
    void *arg;
    /* It wakes for all that comes while the application is away. Else only as long as its wakes
     * serve peers: send data, answers or acknowledgements that are waited for, place data. */
    bool all;
    /* Between two looks whether the application is away; up to eight times as much while it is not,
     * or they are of no use. An application is away 50 us after its last poll or post; after
     * look_ns, where the last run brought nothing: it is likely to wait. */
    uint64_t look_ns;
};

struct diwarp_helper;

/* A thread that runs the RNIC while the application neither polls nor posts. Signals stay with the
 * threads that had them. -EINVAL: the device is not `threaded`, or an attribute is missing.
 * -EAGAIN, -EMFILE...: no thread or descriptor to be had. After fork() the child has the
 * descriptors but not the thread: it must use nothing of the device, but exec or _exit. */
DIWARP_EXPORT int diwarp_start_helper(const struct diwarp_helper_attr *attr,
                                      struct diwarp_helper **helper);
/* Changes attr.look_ns, from the next look on. From any thread. */
DIWARP_EXPORT void diwarp_helper_look_every(struct diwarp_helper *helper, uint64_t look_ns);
/* Waits until it has left `run`: not from there, nor with a lock that `run` waits for. Before the
 * CQ is destroyed. */
DIWARP_EXPORT void diwarp_stop_helper(struct diwarp_helper *helper);
