/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory as an RC QP may use it: gather and scatter lists, and what a peer may touch. */
#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/base/iov.h"
#include "common/rc/qp.h"

void dw_rc_scatter(const struct iovec *list, size_t offset, const uint8_t *from, size_t bytes)
{
    for (struct iovec piece; bytes; bytes -= piece.iov_len) {
        piece = dw_iov_next(&list, &offset, bytes);
        dw_copy(piece.iov_base, from, piece.iov_len);
        from += piece.iov_len;
    }
}

bool dw_rc_tail_add(struct dw_rc_tail *tail, const struct iovec *list, size_t offset, size_t bytes)
{
    uint8_t *buf = realloc(tail->buf, tail->bytes + bytes);
    if (!buf)
        return false;
    tail->buf = buf;
    for (struct iovec piece; bytes; bytes -= piece.iov_len) {
        piece = dw_iov_next(&list, &offset, bytes);
        dw_copy(buf + tail->bytes, piece.iov_base, piece.iov_len);
        tail->bytes += (uint32_t)piece.iov_len;
    }
    return true;
}

struct dw_mpa_gather *dw_rc_train_begin(struct dw_rc *rc)
{
    struct dw_rc_train *train = &rc->train;
    train->count = 0;
    train->gather = (struct dw_mpa_gather){.pieces = train->pieces,
                                           .max = DW_RC_TRAIN_PIECES,
                                           .room = train->room,
                                           .room_bytes = sizeof train->room};
    return &train->gather;
}

bool dw_rc_tail_add_fpdu(struct diwarp_rc_qp *qp, uint8_t *ulpdu, size_t bytes)
{
    struct iovec whole = {ulpdu, bytes};
    struct dw_mpa_gather *gather = dw_rc_train_begin(qp->rc);
    if (dw_mpa_gather_fpdu(&qp->cursor.tx, gather, &whole, 1, 1) ||
        !dw_rc_tail_add(&qp->tail, gather->pieces, 0, gather->bytes))
        return false;
    qp->rc->counters.rc_tx_fpdus++;
    qp->rc->device->served++;
    return true;
}

/* The region of an STag that peers may know. One without any right for them, that was invalidated
 * or is for local use, is none to them (RFC 5040 5.3). */
static struct dw_region *remote_region(const struct diwarp_rc_qp *qp, uint32_t stag)
{
    struct dw_region *region = dw_map_get(&qp->pd->mrs, stag);
    return region && region->mr.access & DW_REMOTE_RIGHTS ? region : NULL;
}

static bool is_for(const struct diwarp_rc_qp *qp, const struct dw_region *region)
{
    return !region->only || region->only == qp->attr.context;
}

uint16_t dw_rc_check_access(const struct diwarp_rc_qp *qp, uint32_t stag, uint64_t to,
                            uint64_t bytes, int access, void **at)
{
    struct dw_region *region;
    const bool ddp = access == IBV_ACCESS_REMOTE_WRITE; /* it places; RDMAP does the rest */
    if (to + bytes < to)
        return ddp ? DW_TERM_DDP_TO_WRAP : DW_TERM_RDMAP_TO_WRAP;
    int rc = dw_mr_check(&qp->pd->mrs, NULL, stag, to, bytes, access, &region);
    if (!rc) {
        *at = dw_region_at(region, to);
        return qp->attr.access & access && is_for(qp, region) ? 0 : DW_TERM_RDMAP_RIGHTS;
    }
    if (rc == -ERANGE)
        return ddp ? DW_TERM_DDP_BOUNDS : DW_TERM_RDMAP_BOUNDS;
    if (!remote_region(qp, stag))
        return ddp ? DW_TERM_DDP_STAG : DW_TERM_RDMAP_STAG;
    return DW_TERM_RDMAP_RIGHTS;
}
