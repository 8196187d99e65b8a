/* SPDX-License-Identifier: BSD-3-Clause */
/* Binds of memory windows of type 1, which are posted like those of type 2. */
#include "verbs_diwarp/bind_mw.h"

#include <errno.h>

#include "verbs_diwarp/post.h"

int dv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct ibv_send_wr wr = {.wr_id = bind->wr_id,
                             .opcode = IBV_WR_BIND_MW,
                             .send_flags = bind->send_flags,
                             .bind_mw = {.mw = mw, .bind_info = bind->bind_info}};
    struct ibv_send_wr *bad;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    if (mw->type != IBV_MW_TYPE_1 || (bind->bind_info.length && !bind->bind_info.mr))
        return EINVAL;
    const int rc = dv_post_send(qp, &wr, &bad);
    if (!rc)
        mw->rkey = wr.bind_mw.rkey;
    return rc;
}
