/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 64-bit atomics (RFC 7306 section 5): requests and responses travel in the sequenced stream, so
 * each is executed exactly once. The target's CPU executes them: they mix with CPU atomics.
 */
#include "common/rd/atomic.h"

#include <errno.h>
#include <stdlib.h>

#include "common/rd/send.h"

/* ---- ours ---- */

static struct dw_atomic *create(struct diwarp_qp *qp, struct dw_peer *peer,
                                const struct ibv_send_wr *wr, uint64_t *result)
{
    struct dw_rd *rd = dw_rd_of(peer);
    struct dw_atomic *atomic = malloc(sizeof *atomic);
    if (!atomic)
        return NULL;
    bool add = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    *atomic = (struct dw_atomic){
        .peer = peer,
        .qp = qp,
        .id = ++rd->next_atomic_id,
        .wr_id = wr->wr_id,
        .opcode = add ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP,
        .signaled = wr->send_flags & IBV_SEND_SIGNALED,
        .result = result,
    };
    if (dw_map_put(&rd->atomics, dw_record_key(&peer->records, atomic->id), atomic)) {
        free(atomic);
        return NULL;
    }
    peer->atomics++;
    peer->queued++;
    return atomic;
}

int dw_atomic_post(const struct dw_ends *ends, struct dw_peer *peer, const struct ibv_send_wr *wr,
                   uint64_t now_ns)
{
    struct diwarp_qp *qp = ends->qp;
    struct iovec iov[DW_MAX_SGE];
    int64_t total = dw_pd_gather(qp->pd, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE,
                                 sizeof(uint64_t), iov);
    if (total < 0)
        return (int)total;
    if ((wr->num_sge && (wr->num_sge != 1 || total != sizeof(uint64_t))) ||
        wr->wr.atomic.remote_addr % sizeof(uint64_t))
        return -EINVAL;
    struct dw_atomic *atomic = create(qp, peer, wr, wr->num_sge ? iov[0].iov_base : NULL);
    if (!atomic)
        return -ENOMEM;
    bool add = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const struct dw_atomic_request request = {
        .opcode = add ? DW_ATOMIC_FETCH_ADD : DW_ATOMIC_CMP_SWAP,
        .request_id = atomic->id,
        .stag = wr->wr.atomic.rkey,
        .to = wr->wr.atomic.remote_addr,
        .add_swap = add ? wr->wr.atomic.compare_add : wr->wr.atomic.swap,
        .add_swap_mask = add ? 0 : UINT64_MAX,
        .compare = add ? 0 : wr->wr.atomic.compare_add,
        .compare_mask = add ? 0 : UINT64_MAX,
    };
    uint8_t payload[DW_ATOMIC_REQUEST_BYTES];
    dw_atomic_request_put(payload, &request);
    int rc = dw_send_request(peer, ends->qpns, DW_RDMAP_ATOMIC_REQUEST, DW_QN_REQUEST, 0, payload,
                             sizeof payload, now_ns);
    if (rc)
        dw_atomic_destroy(atomic);
    else
        dw_rd_of(peer)->counters->tx_atomic_msgs++;
    return rc;
}

void dw_atomic_destroy(struct dw_atomic *atomic)
{
    struct dw_peer *peer = atomic->peer;
    dw_map_remove(&dw_rd_of(peer)->atomics, dw_record_key(&peer->records, atomic->id));
    peer->atomics--;
    peer->queued--;
    free(atomic);
}

/* Only where the peer or the QP goes, which is why it is worth no list of each peer's. */
void dw_atomics_drop(struct dw_rd *rd, const struct dw_peer *peer, const struct diwarp_qp *qp,
                     bool tell)
{
    struct dw_list dropped;
    struct dw_atomic *atomic;
    dw_list_init(&dropped);
    for (size_t slot = 0; (atomic = dw_map_next(&rd->atomics, &slot));)
        if ((!peer || atomic->peer == peer) && (!qp || atomic->qp == qp))
            dw_list_append(&dropped, &atomic->link);
    dw_list_foreach (it, &dropped) {
        atomic = dw_container(it, struct dw_atomic, link);
        tell ? dw_atomic_end(atomic, IBV_WC_RETRY_EXC_ERR) : dw_atomic_destroy(atomic);
    }
}

void dw_atomic_end(struct dw_atomic *atomic, enum ibv_wc_status status)
{
    dw_qp_complete(atomic->qp, atomic->wr_id, atomic->signaled, atomic->opcode, status,
                   sizeof(uint64_t));
    dw_atomic_destroy(atomic);
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
    if (dw_mr_check_peer(&qp->pd->mrs, dw_name_key(peer->records.ah->name), request->stag,
                         request->to, sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC, &region) ||
        request->to % sizeof(uint64_t))
        return DW_STATUS_BAD_STAG;
    uint64_t *target = (uint64_t *)(uintptr_t)request->to;
    if (request->opcode == DW_ATOMIC_FETCH_ADD && !request->add_swap_mask) {
        *original = __atomic_fetch_add(target, request->add_swap, __ATOMIC_SEQ_CST);
        return DW_STATUS_OK;
    }
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

void dw_atomic_on_response(struct dw_peer *peer, const struct dw_segment *segment)
{
    struct dw_rd *rd = dw_rd_of(peer);
    struct dw_atomic_response response;
    if (dw_atomic_response_get(&response, segment->payload, segment->bytes)) {
        rd->counters->drop_header++;
        return;
    }
    struct dw_atomic *atomic =
        dw_map_get(&rd->atomics, dw_record_key(&peer->records, response.request_id));
    if (!atomic) {
        rd->counters->drop_stale_record++;
        return;
    }
    if (atomic->result && response.status == DW_STATUS_OK)
        *atomic->result = response.original;
    dw_atomic_end(atomic, dw_wc_status((uint8_t)response.status));
}
