/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From queued requests to the stream: messages are cut into FPDUs of at most one TCP segment, as
 * many as there are go to TCP in one call: with CRC all copied, else long payload where it lies.
 * What TCP took none of is built anew later, so that only an FPDU which it took in part is ever
 * kept; hence a request is done with its memory as soon as its last FPDU has begun to go.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/iov.h"
#include "common/rc/qp.h"
#include "common/wire/bytes.h"

/* Trains, up to 2 MiB, that a QP sends before others have their turn: half as many cost a call more
 * each, twice as many make others wait twice as long. */
#define TRAINS_PER_FLUSH 8

/* ---- building ---- */

static struct dw_rc_work *work_at(const struct diwarp_rc_qp *qp, uint32_t index)
{
    return dw_ring_at(&qp->works, dw_rc_work_bytes(qp->attr.max_sge), index);
}

static bool may_begin(const struct diwarp_rc_qp *qp, const struct dw_rc_cursor *cursor,
                      const struct dw_rc_work *work)
{
    const uint32_t reads = qp->reads.count + cursor->read_msn - qp->cursor.read_msn;
    if (dw_rc_awaits_response(work) && (qp->ended || reads >= qp->ord))
        return false;
    return !work->fence || !reads;
}

/* Which message goes on or begins; responses and our own take turns. False: none. */
static bool choose(const struct diwarp_rc_qp *qp, struct dw_rc_cursor *cursor)
{
    if (cursor->offset)
        return true;
    bool response = cursor->response < qp->responses.count;
    bool work = cursor->work < qp->works.count && may_begin(qp, cursor, work_at(qp, cursor->work));
    cursor->in_response = response && !(work && cursor->in_response);
    return response || work;
}

struct message {
    const struct dw_read_request *request; /* the read that it responds to, or NULL */
    struct dw_ddp_header ddp;              /* of its first segment */
    const struct iovec *list;
    uint32_t total;
    struct iovec own; /* the list of one that is not gathered: of a response, or this body */
    uint8_t body[DW_ATOMIC_REQUEST_BYTES];
};

static void set_body(struct message *message, uint32_t bytes)
{
    message->own = (struct iovec){message->body, bytes};
    message->total = bytes;
}

static void describe_response(struct message *message, const struct dw_rc_response *response,
                              uint32_t msn)
{
    struct dw_ddp_header *ddp = &message->ddp;
    if (response->is_atomic) {
        *ddp = (struct dw_ddp_header){
            .opcode = DW_RDMAP_ATOMIC_RESPONSE, .qn = DW_QN_ATOMIC_RESPONSE, .msn = msn};
        dw_atomic_response_put_stream(message->body, &response->atomic);
        set_body(message, DW_ATOMIC_RESPONSE_STREAM_BYTES);
        return;
    }
    const struct dw_read_request *request = message->request = &response->read;
    *ddp = (struct dw_ddp_header){.tagged = true,
                                  .opcode = DW_RDMAP_READ_RESPONSE,
                                  .stag = request->sink_stag,
                                  .to = request->sink_to};
    message->total = request->size;
}

static void put_read_request(struct message *message, const struct dw_rc_work *work)
{
    const struct dw_read_request request = {.sink_stag = work->sink_stag,
                                            .size = work->total,
                                            .source_stag = work->stag,
                                            .source_to = work->to};
    dw_read_request_put_stream(message->body, &request);
    set_body(message, DW_READ_REQUEST_STREAM_BYTES);
}

static void put_atomic_request(struct message *message, const struct dw_rc_work *work)
{
    const struct dw_atomic_request request = {.opcode = work->compare_swap ? DW_ATOMIC_CMP_SWAP
                                                                           : DW_ATOMIC_FETCH_ADD,
                                              .request_id = work->sink_stag,
                                              .stag = work->stag,
                                              .to = work->to,
                                              .add_swap = work->add_swap,
                                              .add_swap_mask = work->compare_swap ? UINT64_MAX : 0,
                                              .compare = work->compare_swap ? work->compare : 0,
                                              .compare_mask = work->compare_swap ? UINT64_MAX : 0};
    dw_atomic_request_put(message->body, &request);
    set_body(message, DW_ATOMIC_REQUEST_BYTES);
}

/* The chosen one. */
static void describe(struct message *message, const struct diwarp_rc_qp *qp,
                     const struct dw_rc_cursor *cursor)
{
    struct dw_ddp_header *ddp = &message->ddp;
    message->request = NULL;
    message->list = &message->own;
    if (cursor->in_response) {
        const struct dw_rc_response *response =
            dw_ring_at(&qp->responses, sizeof *response, cursor->response);
        describe_response(message, response, cursor->response_msn);
        return;
    }
    const struct dw_rc_work *work = work_at(qp, cursor->work);
    *ddp = (struct dw_ddp_header){
        .opcode = work->opcode, .qn = DW_QN_SEND, .msn = cursor->send_msn, .ulp = work->stag};
    message->list = work->sge;
    message->total = work->total;
    switch (work->opcode) {
    case DW_RDMAP_WRITE:
        *ddp = (struct dw_ddp_header){
            .tagged = true, .opcode = work->opcode, .stag = work->stag, .to = work->to};
        return;
    case DW_RDMAP_READ_REQUEST:
        put_read_request(message, work);
        break;
    case DW_RDMAP_ATOMIC_REQUEST:
        put_atomic_request(message, work);
        break;
    case DW_RDMAP_IMMEDIATE:
    case DW_RDMAP_IMMEDIATE_SE:
        dw_put_be32(message->body, work->imm);
        dw_put_be32(message->body + 4, 0);
        set_body(message, DW_IMMEDIATE_BYTES);
        break;
    default:
        return;
    }
    message->list = &message->own;
    ddp->ulp = 0;
    if (dw_rc_awaits_response(work)) {
        ddp->qn = DW_QN_REQUEST;
        ddp->msn = cursor->read_msn;
    }
}

/* Finds the next bytes of a response, alone in its list. 0 or a cause to terminate: the region, or
 * its rights, may go at any time. */
static uint16_t find_source(const struct diwarp_rc_qp *qp, struct message *message, uint32_t offset,
                            uint32_t bytes)
{
    const struct dw_read_request *request = message->request;
    message->own.iov_len = bytes;
    return bytes ? dw_rc_check_access(qp, request->source_stag, request->source_to + offset, bytes,
                                      IBV_ACCESS_REMOTE_READ, &message->own.iov_base)
                 : 0;
}

/* Appends the next FPDU of the chosen message. 0; -ENOSPC: the train is full; or a cause to
 * terminate. */
static int append(struct diwarp_rc_qp *qp, struct dw_rc_cursor *cursor)
{
    struct message message;
    struct dw_ddp_header *ddp = &message.ddp;
    describe(&message, qp, cursor);
    const uint32_t left = message.total - cursor->offset;
    const uint32_t most =
        qp->max_ulpdu_bytes - (ddp->tagged ? DW_DDP_TAGGED_BYTES : DW_DDP_UNTAGGED_BYTES);
    const uint32_t payload = left < most ? left : most;
    const uint16_t cause = message.request ? find_source(qp, &message, cursor->offset, payload) : 0;
    if (cause)
        return cause;
    ddp->last = payload == left;
    ddp->to += cursor->offset;
    ddp->mo = cursor->offset;
    uint8_t head[DW_DDP_UNTAGGED_BYTES];
    struct iovec ulpdu[1 + DW_RC_MAX_SGE] = {{head, dw_ddp_put(head, ddp)}};
    size_t offset = message.request ? 0 : cursor->offset;
    const unsigned pieces = 1 + dw_iov_slice(&message.list, &offset, payload, ulpdu + 1);
    /* The CRC must be that of what is sent, whatever the memory's owner stores there meanwhile. */
    const unsigned copied = cursor->tx.crc || payload <= DW_RC_COPY_BYTES ? pieces : 1;
    if (dw_mpa_gather_fpdu(&cursor->tx, &qp->rc->train.gather, ulpdu, pieces, copied))
        return -ENOSPC;
    cursor->offset = ddp->last ? 0 : cursor->offset + payload;
    cursor->response += ddp->last && cursor->in_response;
    cursor->work += ddp->last && !cursor->in_response;
    cursor->read_msn += !ddp->tagged && ddp->qn == DW_QN_REQUEST;
    cursor->response_msn += !ddp->tagged && ddp->qn == DW_QN_ATOMIC_RESPONSE;
    cursor->send_msn += ddp->last && !ddp->tagged && ddp->qn == DW_QN_SEND;
    return 0;
}

/* Returns 0, or a cause to terminate once the train is sent. */
static int build(struct diwarp_rc_qp *qp)
{
    struct dw_rc_train *train = &qp->rc->train;
    struct dw_rc_cursor cursor = qp->cursor;
    int rc = 0;
    dw_rc_train_begin(qp->rc);
    while (train->count < DW_RC_TRAIN_FPDUS && train->gather.bytes < DW_RC_STAGE_BYTES &&
           choose(qp, &cursor) && !(rc = append(qp, &cursor)))
        train->after[train->count++] = cursor;
    assert(rc != -ENOSPC || train->count);
    return rc == -ENOSPC ? 0 : rc;
}

/* ---- sending ---- */

/* Requests are done, or their responses awaited; false: no memory for that, one is still in line.
 */
static bool commit(struct diwarp_rc_qp *qp, const struct dw_rc_cursor *after)
{
    qp->cursor = *after;
    qp->cursor.work = qp->cursor.response = 0;
    dw_ring_pop(&qp->responses, after->response);
    for (uint32_t i = 0; i < after->work; i++, dw_ring_pop(&qp->works, 1)) {
        const struct dw_rc_work *work = work_at(qp, 0);
        if (dw_rc_awaits_response(work)) {
            const size_t bytes = dw_rc_work_bytes(qp->attr.max_sge);
            struct dw_rc_work *read = dw_ring_push(&qp->reads, bytes, UINT32_MAX);
            if (!read)
                return false;
            memcpy(read, work, bytes);
        } else if (work->signaled) {
            dw_rc_complete(qp, work->wr_id, dw_rc_wc_opcode(work), IBV_WC_SUCCESS, work->total);
        }
    }
    return true;
}

/* What TCP took of the train is history; an FPDU begun must be ended, and so must an inline
 * request, which is alone in the train. False: no memory. */
static bool on_sent(struct diwarp_rc_qp *qp, size_t taken)
{
    const struct dw_rc_train *train = &qp->rc->train;
    const bool whole = taken && qp->works.count && work_at(qp, 0)->inlined;
    unsigned gone = 0;
    size_t end = 0;
    while (gone < train->count && (end < taken || whole))
        end = train->after[gone++].tx.at - qp->cursor.tx.at;
    if (end > taken && !dw_rc_tail_add(&qp->tail, train->pieces, taken, end - taken))
        return false;
    qp->rc->counters.rc_tx_fpdus += gone;
    qp->rc->device->served += gone;
    return !gone || commit(qp, &train->after[gone - 1]);
}

/* Returns the bytes taken, or a negative error: the stream is broken. */
static ssize_t hand_over(struct diwarp_rc_qp *qp, const struct iovec *iov, size_t count,
                         size_t bytes)
{
    struct diwarp_rc_counters *counters = &qp->rc->counters;
    ssize_t n = qp->stream->ops->send(qp->stream, iov, (unsigned)count);
    counters->rc_tx_syscalls++;
    counters->rc_tx_bytes += n > 0 ? (uint64_t)n : 0;
    counters->rc_tx_eagain += n >= 0 && (size_t)n < bytes;
    return n;
}

/* 0; -EAGAIN: TCP takes no more; another error: it is broken. */
static int send_tail(struct diwarp_rc_qp *qp)
{
    struct dw_rc_tail *tail = &qp->tail;
    if (!tail->buf)
        return 0;
    struct iovec rest = {tail->buf + tail->sent, tail->bytes - tail->sent};
    ssize_t n = hand_over(qp, &rest, 1, rest.iov_len);
    if (n < 0)
        return (int)n;
    tail->sent += (uint32_t)n;
    if (tail->sent < tail->bytes)
        return -EAGAIN;
    free(tail->buf);
    *tail = (struct dw_rc_tail){0};
    return 0;
}

/* Terminate has the request's headers, moved on to what was not sent (RFC 5040 4.8). */
static void fail_response(struct diwarp_rc_qp *qp, uint16_t cause)
{
    uint8_t segment[DW_DDP_UNTAGGED_BYTES + DW_READ_REQUEST_STREAM_BYTES];
    struct dw_read_request left = ((const struct dw_rc_response *)dw_ring_at(
                                       &qp->responses, sizeof(struct dw_rc_response), 0))
                                      ->read;
    const struct dw_ddp_header ddp = {.last = true,
                                      .opcode = DW_RDMAP_READ_REQUEST,
                                      .qn = DW_QN_REQUEST,
                                      .msn = qp->request_msn - qp->responses.count};
    left.sink_to += qp->cursor.offset;
    left.source_to += qp->cursor.offset;
    left.size -= qp->cursor.offset;
    dw_read_request_put_stream(segment + dw_ddp_put(segment, &ddp), &left);
    dw_rc_terminate(qp, cause, segment, sizeof segment);
}

/* 0; -EAGAIN: TCP takes no more; another error: it is broken, or the QP is closed. */
static int send_train(struct diwarp_rc_qp *qp)
{
    const struct dw_mpa_gather *gather = &qp->rc->train.gather;
    int cause = build(qp);
    ssize_t n = gather->count ? hand_over(qp, gather->pieces, gather->count, gather->bytes) : 0;
    if (n < 0)
        return (int)n;
    if (!on_sent(qp, (size_t)n))
        dw_rc_close(qp, IBV_WC_LOC_QP_OP_ERR, 0);
    else if ((size_t)n == gather->bytes && cause)
        fail_response(qp, (uint16_t)cause);
    return (size_t)n < gather->bytes || qp->state == DW_RC_CLOSED ? -EAGAIN : 0;
}

void dw_rc_flush(struct diwarp_rc_qp *qp)
{
    dw_list_remove(&qp->lazy_link);
    if (qp->blocked || !qp->stream || qp->shut)
        return;
    int rc = send_tail(qp);
    for (unsigned i = 0; !rc && qp->may_send; i++) {
        /* The other side has sent its last: a read whose turn comes now would never be answered. */
        for (; qp->ended && qp->works.count && dw_rc_awaits_response(work_at(qp, 0));
             dw_ring_pop(&qp->works, 1))
            dw_rc_complete(qp, work_at(qp, 0)->wr_id, dw_rc_wc_opcode(work_at(qp, 0)),
                           IBV_WC_WR_FLUSH_ERR, 0);
        if (dw_rc_idle(qp))
            break;
        rc = i < TRAINS_PER_FLUSH ? send_train(qp) : -EAGAIN;
        if (!rc && !qp->rc->train.count)
            break; /* reads wait for responses */
    }
    if (qp->state == DW_RC_CLOSED)
        return;
    /* What the other side sent before the stream broke, perhaps why, may still be there to be read,
     * and reading finds the error again; but not that memory of ours is none. */
    qp->broken |= rc && rc != -EAGAIN;
    if (!rc) {
        dw_rc_end_if_idle(qp);
    } else if (rc == -EFAULT) {
        dw_rc_close(qp, IBV_WC_LOC_PROT_ERR, 0);
    } else if (qp->broken && (dw_rc_is_standing(qp) || qp->ended)) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
    } else {
        qp->blocked = true;
        dw_rc_rewatch(qp);
    }
}
