/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a Write-Record, or of a read, has come over UD: either may stay partial. */
#pragma once

#include "diwarp.h"

/* ---- records ------------------------------------------------------------------------------ */

struct diwarp_range {
    uint64_t start, end; /* offsets within the message, [start, end) */
};

struct diwarp_record_info {
    struct diwarp_name src;
    uint8_t src_ip[16]; /* as in diwarp_wc */
    uint32_t id;
    void *addr; /* of offset 0: in memory, whatever the region's iova */
    uint64_t length, valid_bytes;
    bool full;
};

/* The live record `id` of `src`, or of any source and id when src is NULL (the oldest one); NULL
 * when no segment of it has come. The QP keeps it until its completion. */
DIWARP_EXPORT struct diwarp_record *diwarp_find_record(struct diwarp_qp *qp,
                                                       const struct diwarp_name *src, uint32_t id);
DIWARP_EXPORT void diwarp_query_record(const struct diwarp_record *record,
                                       struct diwarp_record_info *info);
/* Writes at most n valid ranges in rising order; returns how many there are in all. */
DIWARP_EXPORT unsigned diwarp_record_ranges(const struct diwarp_record *record,
                                            struct diwarp_range *ranges, unsigned n);
/* Ends a record that a completion handed over; later segments of it are dropped. */
DIWARP_EXPORT void diwarp_release_record(struct diwarp_record *record);

/* ---- reads -------------------------------------------------------------------------------- */

/* Over UD a read is a request, and Write-Record segments that answer it; any of these may be lost,
 * and nothing is asked for again. The reader cannot tell a lost request from a lost answer: a read
 * of which bytes are missing when its time is over completes with IBV_WC_RESP_TIMEOUT_ERR, byte_len
 * being what came, and what comes later changes no memory. Deadlines are looked at when the CQ is
 * polled (diwarp_wait_cq() wakes up for them), once what has come was read: by no timer. Memory
 * that was deregistered meanwhile ends it with IBV_WC_LOC_PROT_ERR. The address handle must stay
 * until the completion where datagrams are authenticated: it tells the secret. */
struct diwarp_read_info {
    uint64_t length, valid_bytes;
    bool active; /* it has not completed */
};

/* For reads posted from now on. Too short, and answers come too late; too long, and a loss is
 * noticed as late. Any value. */
DIWARP_EXPORT void diwarp_set_read_time(struct diwarp_qp *qp, uint64_t read_time_ns);
/* What has come of the read with that wr_id, of several the one posted last: while it is active,
 * and, where it has expired, until max_reads further ones have expired, or the QP is destroyed.
 * -ENOENT: it is neither; all of one that succeeded came. Walks these reads. */
DIWARP_EXPORT int diwarp_query_read(struct diwarp_qp *qp, uint64_t wr_id,
                                    struct diwarp_read_info *info);
/* As diwarp_record_ranges(), of the same read; 0: there is none, or nothing has come. */
DIWARP_EXPORT unsigned diwarp_read_ranges(struct diwarp_qp *qp, uint64_t wr_id,
                                          struct diwarp_range *ranges, unsigned n);
