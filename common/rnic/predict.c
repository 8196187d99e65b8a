/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Predicted placement: while a record comes in large datagrams, the kernel copies the next one's
 * payload straight to where it belongs, if it is the one we expect. The guess costs nothing when it
 * is wrong: the bytes go back into the slot, and what they fell on was a hole of the record, whose
 * bytes mean nothing before its map says so.
 */
#include "common/rnic/qp.h"
#include "common/rnic/rdma_record.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

/* Smaller datagrams come many to a receive call, and are cheaper to copy out of the slot. */
#define DATAGRAM_MIN_BYTES 16384

/* Of a RECORD datagram that holds one Write-Record segment and no intro. */
#define HEAD_BYTES (DW_LLP_HEADER_BYTES + DW_RECORD_SEGMENT_BYTES)

/* The record that is likely to go on: the oldest of the peer with bytes under way. */
static struct dw_sink *expected_sink(struct dw_peer *peer)
{
    dw_list_foreach (it, &peer->sinks) {
        struct dw_sink *sink = dw_container(it, struct dw_sink, peer_link);
        if (!sink->held && sink->record.highest < sink->record.granted)
            return sink;
    }
    return NULL;
}

void dw_predict(struct diwarp_qp *qp, struct dw_llp_slot *slot)
{
    struct dw_peer *peer = qp->record_peer;
    qp->predicted = NULL;
    if (!peer || peer->datagram_max_bytes < DATAGRAM_MIN_BYTES)
        return;
    struct dw_sink *sink = expected_sink(peer);
    if (!sink) {
        qp->record_peer = NULL; /* until its next record segment */
        return;
    }
    const struct dw_record_sink *record = &sink->record;
    uint32_t left = record->granted - record->highest;
    uint32_t most = dw_record_payload_bytes(peer);
    qp->predicted = sink;
    slot->direct = sink->addr + record->highest;
    slot->direct_at = HEAD_BYTES;
    slot->direct_bytes = left < most ? left : most;
}

/* Whether the head says what was expected; everything in it is compared or checked. */
static bool head_right(const struct diwarp_qp *qp, const struct dw_llp_slot *slot,
                       struct dw_llp_header *header)
{
    const struct dw_sink *sink = qp->predicted;
    const uint8_t *segment = slot->buf + DW_LLP_HEADER_BYTES;
    uint32_t payload = slot->direct_bytes;
    struct dw_ddp_header ddp;
    struct dw_write_record wr;
    uint32_t segment_bytes = DW_DDP_TAGGED_BYTES + DW_WRITE_RECORD_BYTES + payload;
    if (slot->bytes != HEAD_BYTES + payload + DW_CRC_BYTES || slot->segment_bytes != slot->bytes ||
        dw_llp_header_get(header, slot->buf, slot->bytes) || header->type != DW_LLP_RECORD ||
        header->flags || header->token != qp->token || header->job != sink->peer->name.job ||
        header->rank != sink->peer->name.rank || header->incarnation != sink->peer->incarnation ||
        dw_get_be16(segment) != segment_bytes ||
        dw_ddp_get(&ddp, segment + DW_SEGMENT_LEN_BYTES, segment_bytes) != DW_DDP_TAGGED_BYTES ||
        ddp.opcode != DW_RDMAP_WRITE_RECORD ||
        dw_write_record_get(&wr, segment + DW_SEGMENT_LEN_BYTES + DW_DDP_TAGGED_BYTES,
                            DW_WRITE_RECORD_BYTES + payload))
        return false;
    return wr.id == sink->id && wr.offset == sink->record.highest &&
           wr.total == sink->record.total && ddp.stag == sink->stag &&
           ddp.to == sink->to + wr.offset;
}

static bool crc_right(const struct dw_llp_slot *slot)
{
    uint32_t crc = dw_crc32c(0, slot->buf, HEAD_BYTES);
    crc = dw_crc32c(crc, slot->direct, slot->direct_bytes);
    return crc == dw_get_be32(slot->buf + HEAD_BYTES + slot->direct_bytes);
}

static void undo(struct dw_llp_slot *slot)
{
    uint32_t got = slot->bytes > slot->direct_at ? slot->bytes - slot->direct_at : 0;
    memcpy(slot->buf + slot->direct_at, slot->direct,
           got < slot->direct_bytes ? got : slot->direct_bytes);
}

bool dw_predict_take(struct diwarp_qp *qp, struct dw_llp_slot *slot, uint64_t now_ns)
{
    struct dw_llp_header header;
    if (!slot->split)
        return false;
    if (slot->truncated || !qp->crc || !head_right(qp, slot, &header) || !crc_right(slot)) {
        undo(slot);
        return false;
    }
    qp->counters.rx_datagrams++;
    qp->counters.rx_bytes += slot->bytes;
    qp->counters.rx_predicted_segments++;
    dw_receive_record(qp->predicted, &header, slot->direct_bytes, now_ns);
    return true;
}
