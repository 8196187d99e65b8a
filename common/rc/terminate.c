/* SPDX-License-Identifier: BSD-3-Clause */
/* Terminate (RFC 5040 4.8, 5.5), and streams that linger so that the other side can read it. */
#include "common/rc/terminate.h"

#include <stdlib.h>
#include <string.h>

#include "common/rc/close.h"
#include "common/rc/linger.h"

/* ---- Terminate ---- */

static void count(struct diwarp_rc_counters *counters, uint16_t cause)
{
    switch (cause) {
    case DW_TERM_MPA_CRC:
    case DW_TERM_MPA_MARKER:
        counters->rc_bad_crc++;
        break;
    case DW_TERM_DDP_STAG:
    case DW_TERM_DDP_BOUNDS:
    case DW_TERM_DDP_TO_WRAP:
    case DW_TERM_RDMAP_STAG:
    case DW_TERM_RDMAP_BOUNDS:
    case DW_TERM_RDMAP_RIGHTS:
    case DW_TERM_RDMAP_TO_WRAP:
    case DW_TERM_RDMAP_PROTECT_INVALIDATE:
        counters->rc_bad_stag++;
        break;
    case DW_TERM_DDP_NO_BUFFER:
    case DW_TERM_DDP_MSN:
    case DW_TERM_DDP_MO:
    case DW_TERM_DDP_TOO_LONG:
        counters->rc_bad_message++;
        break;
    case DW_TERM_MPA_IRD:
    case DW_TERM_MPA_RTR:
        counters->rc_rejects++; /* given up: the two do not suit each other */
        break;
    case DW_TERM_RDMAP_CATASTROPHIC:
    case DW_TERM_MPA_CATASTROPHIC:
        break; /* ours */
    default:
        counters->rc_bad_header++;
    }
}

/* The FPDU of a Terminate, behind the rest of the one that TCP took in part. */
static uint8_t *put_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu,
                              uint32_t ulpdu_bytes, uint32_t *bytes)
{
    struct dw_terminate terminate;
    uint8_t segment[DW_DDP_UNTAGGED_BYTES + DW_TERMINATE_MAX_BYTES];
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_TERMINATE, .qn = DW_QN_TERMINATE, .msn = 1};
    dw_terminate_fill(&terminate, cause, ulpdu, ulpdu_bytes);
    size_t head = dw_ddp_put(segment, &ddp);
    struct iovec whole = {segment, head + dw_terminate_put(segment + head, &terminate)};

    uint8_t room[DW_MPA_ROOM_BYTES(sizeof segment, sizeof segment, true)];
    struct iovec pieces[DW_MPA_PIECES(sizeof segment, 1, true)];
    struct dw_mpa_gather gather = {.pieces = pieces,
                                   .max = sizeof pieces / sizeof *pieces,
                                   .room = room,
                                   .room_bytes = sizeof room};
    if (dw_mpa_gather_fpdu(&qp->cursor.tx, &gather, &whole, 1, 1))
        return NULL;
    uint32_t rest = qp->tail_bytes - qp->tail_sent;
    uint8_t *buf = malloc(rest + gather.bytes);
    if (!buf)
        return NULL;
    if (rest)
        memcpy(buf, qp->tail + qp->tail_sent, rest);
    *bytes = rest;
    for (size_t i = 0; i < gather.count; i++) {
        memcpy(buf + *bytes, pieces[i].iov_base, pieces[i].iov_len);
        *bytes += (uint32_t)pieces[i].iov_len;
    }
    return buf;
}

enum dw_rc_verdict dw_rc_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu,
                                   uint32_t bytes)
{
    struct dw_rc *rc = qp->rc;
    uint32_t put = 0;
    count(&rc->counters, cause);
    /* The called side sends no FPDU before it had a good one (RFC 5044 7.1.2). */
    bool silent = qp->shut || (!qp->may_send && qp->state != DW_RC_REQUESTED);
    uint8_t *buf = silent ? NULL : put_terminate(qp, cause, ulpdu, bytes, &put);
    if (buf) {
        rc->counters.rc_tx_terminates++;
        dw_rc_linger(rc, qp->stream, buf, put);
        dw_rc_detach(qp);
    }
    dw_rc_close(qp, IBV_WC_REM_OP_ERR, cause);
    return DW_RC_DEAD;
}

enum dw_rc_verdict dw_rc_fail(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment,
                              uint16_t cause)
{
    return dw_rc_terminate(qp, cause, segment->ulpdu, segment->bytes);
}

enum dw_rc_verdict dw_rc_on_terminate(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment)
{
    struct dw_terminate terminate;
    uint32_t bytes = segment->bytes - segment->head_bytes;
    /* The headers behind the cause are of no use here, also where they are cut off. */
    (void)dw_terminate_get(&terminate, segment->ulpdu + segment->head_bytes, bytes);
    if (bytes < DW_TERMINATE_BYTES)
        terminate.cause = DW_TERM_RDMAP_UNSPECIFIED;
    qp->rc->counters.rc_rx_terminates++;
    dw_rc_close(qp, IBV_WC_REM_OP_ERR, terminate.cause);
    return DW_RC_DEAD;
}
