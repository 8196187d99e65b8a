/* SPDX-License-Identifier: BSD-3-Clause */
/* Write-Record and RDMA Read of UD queue pairs that were made for them (diwarp_verbs.h). Every
 * function runs with the context's lock held; those of a queue pair bear that it has none. */
#pragma once

#include "verbs_diwarp/front.h"

#define DV_RDMA_BYTES (UINT32_MAX >> 1) /* of one */

struct dv_read {
    uint64_t wr_id,
        core_id; /* core_id: diwarp's wr_id; its lowest 16 bits are a place in `reads` */
    bool signaled, used;
};

struct dv_rdma {
    uint32_t max_reads;
    struct dv_read *reads;   /* max_reads; the active ones are used */
    struct dv_read *expired; /* a ring of as many: the last */
    uint32_t *free_reads;    /* free_count: places */
    uint32_t free_count;
    uint64_t serial;       /* of the next read */
    uint64_t expired_next; /* counts them */
    void *records;         /* tsearch(3): struct dv_record */
    uint64_t last_handle;
};

struct dv_record {
    uint64_t handle;
    struct diwarp_record *core;
    uint32_t src_qp;
};

/* Of a new queue pair; sets qp->rdma if it is asked for. -ENOMEM. */
int dv_rdma_init(struct dv_qp *qp, const struct ibv_qp_init_attr_ex *attr);
void dv_rdma_fini(struct dv_qp *qp);
/* Releases its records, and forgets its reads: diwarp's queue pair goes. */
void dv_rdma_forget(struct dv_qp *qp);
void dv_rdma_set_attr(const struct dv_qp *qp, struct diwarp_qp_attr *attr);

bool dv_rdma_takes(const struct ibv_send_wr *wr);
/* Requests of its kind that there is room for. */
uint32_t dv_rdma_room(const struct dv_qp *qp, const struct ibv_send_wr *wr);
/* Makes of `out` a request for diwarp; of a read, with its place. */
void dv_rdma_prepare(struct dv_qp *qp, struct ibv_send_wr *out, const struct ibv_send_wr *wr,
                     const struct dv_to *to, bool signaled);
/* The read that was prepared last was handed to diwarp, or (failed) has no completion to come from
 * there. True: one will come. */
bool dv_rdma_on_posted(struct dv_qp *qp, bool failed);
/* What diwarp completed, be it of qp or, where that is NULL, of one that is gone. True: it was a
 * read or a record. */
bool dv_rdma_deliver(struct dv_qp *qp, const struct diwarp_wc *done);
/* The newest read of that wr_id, active or expired; NULL: none. */
const struct dv_read *dv_rdma_find_read(const struct dv_rdma *rdma, uint64_t wr_id);
/* NULL: no such record. */
struct dv_record *dv_rdma_find_record(const struct dv_rdma *rdma, uint64_t handle);
void dv_rdma_release(struct dv_rdma *rdma, struct dv_record *record);
