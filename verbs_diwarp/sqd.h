/* SPDX-License-Identifier: BSD-3-Clause */
/* The state SQD (InfiniBand 10.3.1.5): requests that have begun go on to their end, and the program
 * may be told of the last one's; what has not begun, or is posted meanwhile, waits for RTS. RC has
 * a queue where it waits (but for binds and invalidations of windows, which are done when they are
 * posted, see mw.h), UD and RD keep it here. Every function runs with the context's lock held. */
#pragma once

#include "verbs_diwarp/front.h"

struct dv_kept {
    struct dv_kept *next;
    struct dv_send_wr wr;
    struct ibv_sge sges[]; /* wr.num_sge, then inline data */
};

/* A copy, behind those kept before; its address handle is not to be destroyed (EBUSY). ENOMEM. */
int dv_sqd_keep(struct dv_qp *qp, const struct ibv_send_wr *wr, const struct dv_to *to);
/* The oldest, to be freed with free(3) by the caller; NULL: there is none. */
struct dv_kept *dv_sqd_take(struct dv_qp *qp);
/* The queue pair is in error: they are flushed. */
void dv_sqd_flush(struct dv_qp *qp);
/* Without a word, all but the first `count`. */
void dv_sqd_drop(struct dv_qp *qp, uint32_t count);

/* Requests that had begun have not all ended. */
bool dv_sqd_is_draining(const struct dv_qp *qp);
/* Something has ended: tells the program that all have, if it waits for that, or flushes what is
 * kept, if the queue pair is in error. */
void dv_sqd_look(struct dv_qp *qp);
