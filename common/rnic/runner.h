/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs inside the polls of a device's CQs: its port, and the RC side of each CQ, by this
 * table. Every function runs with the device's lock held. */
#ifndef DW_RUNNER_H
#define DW_RUNNER_H

#include "common/base/list.h"
#include "common/include/diwarp.h"

struct dw_runner;

struct dw_runner_ops {
    /* All completions that were handed out are used. NULL: none points to anything. */
    void (*recycle)(struct dw_runner *runner);
    /* One run; returns how many receive calls brought something. */
    int (*run)(struct dw_runner *runner, uint64_t now_ns);
    /* After a run: it sent something, and more may go at once. NULL: never. */
    bool (*has_more)(const struct dw_runner *runner);
    /* Sends what was posted to leave with the next poll. NULL: posts leave by themselves. */
    void (*flush)(struct dw_runner *runner);
    /* When it wants to run next at the latest; DW_NEVER: not before something comes or is posted.
     */
    uint64_t (*next_deadline_ns)(const struct dw_runner *runner);
    /* Readable when something comes; -1: there is no such descriptor, or nothing would be taken
     * now. *deaf: something may come without a sign there. */
    int (*fd)(const struct dw_runner *runner, bool *deaf);
    /* Adds what it holds. */
    void (*add_memory)(const struct dw_runner *runner, struct diwarp_memory *memory);
    /* Its CQ goes. */
    void (*destroy)(struct dw_runner *runner);
};

/* Owners embed it. */
struct dw_runner {
    const struct dw_runner_ops *ops;
    const struct diwarp_cq *cq; /* it is destroyed with that; NULL: with its last QP */
    struct dw_list link;        /* in diwarp_device.runners */
};

#endif
