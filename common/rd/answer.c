/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of our own: what requests and answers of RDMA and atomics travel in. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/rd/parts.h"

/* Answers that wait for the window to a peer, in 5 MB: who asks without end and acknowledges
 * nothing is not to fill our memory. Those of an honest peer are to its own requests, which bear no
 * others before they are answered, and of our reads, which wait behind them. */
#define ANSWERS_MAX (2 * DW_QUEUED_MAX)
/* ABORTs of small writes, until they are acknowledged: of those that are under way, and of a
 * datagram full of later ones that brings the acknowledgement. */
#define REFUSALS_MAX (2 * DW_QUEUED_MAX)

struct dw_work *dw_work_own(struct dw_peer *peer, const struct dw_ends *ends,
                            enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn,
                            const uint8_t *payload, uint32_t bytes)
{
    struct dw_work *work = dw_work_get(peer, ends);
    if (!work)
        return NULL;
    assert(bytes <= sizeof work->own);
    memcpy(work->own, payload, bytes);
    work->ddp = (struct dw_ddp_header){.opcode = (uint8_t)opcode, .qn = qn, .msn = 1};
    work->total = bytes;
    work->sge_count = 1;
    work->sge[0] = (struct iovec){.iov_base = work->own, .iov_len = bytes};
    return work;
}

/* NULL also when too many wait. */
static struct dw_work *answer_work(struct dw_peer *peer, struct dw_qpns qpns,
                                   enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn,
                                   const uint8_t *payload, uint32_t bytes)
{
    const struct dw_ends ends = {.qpns = qpns};
    struct dw_work *work = NULL;
    if (peer->answers < ANSWERS_MAX)
        work = dw_work_own(peer, &ends, opcode, qn, payload, bytes);
    if (!work)
        return NULL;
    work->answer = true;
    peer->answers++;
    return work;
}

int dw_send_answer(struct dw_peer *peer, struct dw_qpns qpns, enum dw_rdmap_opcode opcode,
                   enum dw_ddp_queue qn, bool refusal, const uint8_t *payload, uint32_t bytes,
                   uint64_t now_ns)
{
    /* To drop what asks instead would drop the answers that come with it: two such ends would wait
     * for each other. */
    struct dw_work *work = NULL;
    if (!refusal || peer->refusals < REFUSALS_MAX)
        work = answer_work(peer, qpns, opcode, qn, payload, bytes);
    if (!work) {
        dw_peer_doom(peer, DIWARP_GONE_NO_ROOM);
        return -ENOMEM;
    }
    work->refusal = refusal;
    peer->refusals = (uint16_t)(peer->refusals + refusal);
    dw_send_work(peer, work, now_ns);
    return 0;
}

int dw_send_read_answer(struct dw_peer *peer, struct dw_qpns qpns, const struct dw_ddp_header *ddp,
                        uint32_t record_id, const uint8_t *data, uint32_t bytes, uint64_t now_ns)
{
    struct dw_work *work = answer_work(peer, qpns, ddp->opcode, 0, data, bytes);
    if (!work)
        return -ENOMEM;
    work->ddp = *ddp;
    work->record_id = record_id;
    work->buffered = true; /* the sink tells when it has come */
    dw_send_work(peer, work, now_ns);
    return 0;
}

int dw_send_record_answer(struct dw_peer *peer, struct dw_qpns qpns,
                          const struct dw_record_control *control, bool refusal, uint64_t now_ns)
{
    uint8_t payload[DW_RECORD_CONTROL_BYTES + DIWARP_RELEASE_MAX_BYTES];
    const uint32_t length = (uint32_t)dw_record_control_put(payload, control);
    return dw_send_answer(peer, qpns, DW_RDMAP_RECORD_CONTROL, DW_QN_RECORD, refusal, payload,
                          length, now_ns);
}
