/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 64-bit atomics (RFC 7306 section 5): requests and responses travel in the sequenced stream, so
 * each is executed exactly once. The target's CPU executes them: they mix with CPU atomics.
 */
#include "common/rd/parts.h"

#include <errno.h>

/* ---- ours: a work that ends with its response ---- */

int dw_atomic_post(const struct dw_ends *ends, struct dw_peer *peer, const struct ibv_send_wr *wr,
                   uint64_t now_ns)
{
    struct iovec iov[DW_MAX_SGE];
    int64_t total = dw_pd_gather(ends->qp->pd, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE,
                                 sizeof(uint64_t), iov);
    if (total < 0)
        return (int)total;
    if ((wr->num_sge && (wr->num_sge != 1 || total != sizeof(uint64_t))) ||
        wr->wr.atomic.remote_addr % sizeof(uint64_t))
        return -EINVAL;
    const bool add = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const struct dw_atomic_request request = {
        .opcode = add ? DW_ATOMIC_FETCH_ADD : DW_ATOMIC_CMP_SWAP,
        .request_id = ++dw_rd_of(peer)->records.next_id,
        .stag = wr->wr.atomic.rkey,
        .to = wr->wr.atomic.remote_addr,
        .add_swap = add ? wr->wr.atomic.compare_add : wr->wr.atomic.swap,
        .add_swap_mask = add ? 0 : UINT64_MAX,
        .compare = add ? 0 : wr->wr.atomic.compare_add,
        .compare_mask = add ? 0 : UINT64_MAX,
    };
    uint8_t payload[DW_ATOMIC_REQUEST_BYTES];
    dw_atomic_request_put(payload, &request);
    struct dw_work *work =
        dw_work_own(peer, ends, DW_RDMAP_ATOMIC_REQUEST, DW_QN_REQUEST, payload, sizeof payload);
    if (!work)
        return -ENOMEM;
    work->wr_id = wr->wr_id;
    work->opcode = add ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP;
    work->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    work->atomic = true;
    work->result = wr->num_sge ? iov[0].iov_base : NULL;
    work->record_id = request.request_id;
    dw_send_work(peer, work, now_ns);
    dw_rd_of(peer)->counters->tx_atomic_msgs++;
    return 0;
}

void dw_atomic_on_response(struct dw_peer *peer, const struct dw_segment *segment)
{
    struct dw_atomic_response response;
    if (dw_atomic_response_get(&response, segment->payload, segment->bytes)) {
        dw_rd_of(peer)->counters->drop_header++;
        return;
    }
    dw_foreach (work, struct dw_work, link, &peer->awaiting) {
        if (!work->atomic || work->record_id != response.request_id)
            continue;
        if (work->result && response.status == DW_STATUS_OK)
            *work->result = response.original;
        dw_list_remove(&work->link);
        dw_qp_complete(work->qp, work->wr_id, work->signaled, work->opcode,
                       dw_wc_status((uint8_t)response.status), sizeof(uint64_t));
        dw_work_put(peer, work);
        return;
    }
    dw_rd_of(peer)->counters->drop_stale_record++;
}

/* ---- a peer's ---- */

/* Masked add, and compare and swap, as RFC 7306 5.2 has them. false: the comparison failed. */
static bool execute_masked(const struct dw_atomic_request *request, uint64_t old, uint64_t *new)
{
    uint64_t mask = request->add_swap_mask, data = request->add_swap;
    if (request->opcode == DW_ATOMIC_FETCH_ADD) {
        /* The top bits of the fields are added without carry, so that none leaves its field. */
        *new = ((old & ~mask) + (data & ~mask)) ^ ((old ^ data) & mask);
        return true;
    }
    *new = (old & ~mask) | (data & mask);
    return !((old ^ request->compare) & request->compare_mask);
}

static enum dw_status execute(const struct dw_peer *peer, const struct diwarp_qp *qp,
                              const struct dw_atomic_request *request, uint64_t *original)
{
    struct dw_region *region;
    if (!qp)
        return DW_STATUS_CANCELLED;
    if (dw_pd_check(qp->pd, &dw_handle_of(peer)->ah.name, request->stag, request->to,
                    sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC, &region) ||
        request->to % sizeof(uint64_t))
        return DW_STATUS_BAD_STAG;
    uint64_t *target = (uint64_t *)(uintptr_t)request->to;
    uint64_t old = __atomic_load_n(target, __ATOMIC_SEQ_CST), new;
    do {
        if (!execute_masked(request, old, &new))
            break;
    } while (
        !__atomic_compare_exchange_n(target, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    *original = old;
    return DW_STATUS_OK;
}

void dw_atomic_on_request(struct dw_peer *peer, const struct dw_ends *ends,
                          const struct dw_segment *segment, uint64_t now_ns)
{
    struct dw_atomic_request request;
    if (dw_atomic_request_get(&request, segment->payload, segment->bytes)) {
        dw_rd_of(peer)->counters->drop_header++;
        return;
    }
    struct dw_atomic_response response = {.request_id = request.request_id};
    response.status = execute(peer, ends->qp, &request, &response.original);
    dw_rd_of(peer)->counters->drop_qpn += response.status == DW_STATUS_CANCELLED;
    dw_rd_of(peer)->counters->drop_stag += response.status == DW_STATUS_BAD_STAG;
    uint8_t payload[DW_ATOMIC_RESPONSE_BYTES];
    dw_atomic_response_put(payload, &response);
    (void)dw_send_answer(peer, ends->qpns, DW_RDMAP_ATOMIC_RESPONSE, DW_QN_ATOMIC_RESPONSE, false,
                         payload, sizeof payload, now_ns);
}
