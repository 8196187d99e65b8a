/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An LLP that wraps another one and does to datagrams what networks do: loses, doubles, reorders,
 * damages and delays them, on the send side, each with its own probability.
 *
 * For tests only. See README.md for the language of a plan.
 */
#ifndef DW_LLP_FAULT_H
#define DW_LLP_FAULT_H

#include "common/llp/llp.h"

#define DW_FAULT_VARIABLE "DIWARP_FAULTS"

struct dw_fault_plan {
    double drop, dup, reorder, corrupt, delay; /* probability per datagram, 0..1 */
    uint64_t delay_ns; /* how long `delay` holds one; `reorder` waits so long for followers */
    uint64_t seed;
    bool exact;  /* same seed, same faults in each process; else the pid is mixed in */
    bool report; /* one line to stderr at close */
};

struct dw_fault_counts {
    uint64_t datagrams, dropped, duplicated, reordered, corrupted, delayed;
};

/* -EINVAL: malformed; `why` (may be NULL) names the entry. */
int dw_fault_parse(const char *text, struct dw_fault_plan *plan, struct diwarp_diagnosis *why);

/* Owns `inner` on success. now_ns NULL: the monotonic clock. -ENOMEM. Unlike the LLP it wraps, send
 * and receive may each release what is held; a lock keeps them apart. */
int dw_fault_wrap(struct dw_llp *inner, const struct dw_fault_plan *plan, uint64_t (*now_ns)(void),
                  struct dw_llp **llp);

/* UDP, as dw_udp_open(); wrapped as DW_FAULT_VARIABLE says, if it is set. */
int dw_fault_open(void *arg, const struct diwarp_device_attr *attr, const struct dw_llp_addr *at,
                  struct diwarp_counters *counters, struct dw_llp **llp,
                  struct diwarp_diagnosis *why);

const struct dw_fault_counts *dw_fault_query_counts(const struct dw_llp *llp);

#endif
