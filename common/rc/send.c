/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From queued requests to the stream: messages are cut into FPDUs of at most one TCP segment, as
 * many as there are go to TCP in one call, payload where it lies, but of responses with CRC. What
 * TCP took none of is built anew later, so that only an FPDU which it took in part is ever kept;
 * hence a request is done with its memory as soon as its last FPDU has begun to go.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/rc/qp.h"

/* Trains, up to 2 MiB, that a QP sends before others have their turn: half as many cost a call more
 * each, twice as many make others wait twice as long. */
#define TRAINS_PER_FLUSH 8

/* ---- building ---- */

static struct dw_rc_work *work_at(const struct diwarp_rc_qp *qp, uint32_t index)
{
    return dw_ring_at(&qp->works, sizeof(struct dw_rc_work), index);
}

/* Appends an FPDU; list holds its payload from offset on. False: the train is full. */
static bool append(struct diwarp_rc_qp *qp, struct dw_rc_cursor *cursor,
                   const struct dw_ddp_header *ddp, const struct iovec *list, uint32_t offset,
                   uint32_t payload)
{
    struct dw_rc_train *train = qp->rc->train;
    uint8_t head[DW_DDP_UNTAGGED_BYTES];
    struct iovec ulpdu[1 + DW_MAX_SGE] = {{head, dw_ddp_put(head, ddp)}};
    unsigned pieces = 1 + dw_rc_slice(list, offset, payload, ulpdu + 1);
    unsigned copied = payload <= DW_RC_COPY_BYTES ? pieces : 1;
    return !dw_mpa_gather_fpdu(&cursor->tx, &train->gather, ulpdu, pieces, copied);
}

static bool may_begin_work(const struct diwarp_rc_qp *qp, const struct dw_rc_cursor *cursor)
{
    if (cursor->work == qp->works.count)
        return false;
    const struct dw_rc_work *work = work_at(qp, cursor->work);
    const uint32_t reads = qp->reads.count + cursor->reads;
    if (work->fence && reads)
        return false;
    return work->opcode != DW_RDMAP_READ_REQUEST || (!qp->ended && reads < qp->ord);
}

/* Which message goes on or begins; responses and our own take turns. False: none. */
static bool choose(const struct diwarp_rc_qp *qp, struct dw_rc_cursor *cursor)
{
    if (cursor->offset)
        return true;
    bool response = cursor->response < qp->responses.count;
    bool work = may_begin_work(qp, cursor);
    cursor->in_response = response && !(work && cursor->in_response);
    return response || work;
}

static uint32_t payload_of(const struct diwarp_rc_qp *qp, uint32_t head, uint32_t left)
{
    uint32_t most = qp->max_ulpdu_bytes - head;
    return left < most ? left : most;
}

/* 0, -ENOSPC, or a cause to terminate. The region may be gone, or its rights, since the request
 * came and since the last segment. */
static int append_response(struct diwarp_rc_qp *qp, struct dw_rc_cursor *cursor)
{
    const struct dw_read_request *request =
        dw_ring_at(&qp->responses, sizeof *request, cursor->response);
    uint32_t payload = payload_of(qp, DW_DDP_TAGGED_BYTES, request->size - cursor->offset);
    /* A copy, for its owner may store there meanwhile, and the CRC must be that of what is sent. */
    if (cursor->tx.crc && payload > DW_RC_COPY_BYTES)
        payload = DW_RC_COPY_BYTES;
    uint64_t from = request->source_to + cursor->offset;
    uint16_t cause = !payload ? 0
                              : dw_rc_check_access(qp, request->source_stag, from, payload,
                                                   IBV_ACCESS_REMOTE_READ);
    if (cause)
        return cause;
    struct iovec source = {(void *)(uintptr_t)from, payload};
    struct dw_ddp_header ddp = {
        .tagged = true,
        .last = cursor->offset + payload == request->size,
        .opcode = DW_RDMAP_READ_RESPONSE,
        .stag = request->sink_stag,
        .to = request->sink_to + cursor->offset,
    };
    if (!append(qp, cursor, &ddp, &source, 0, payload))
        return -ENOSPC;
    cursor->offset = ddp.last ? 0 : cursor->offset + payload;
    cursor->response += ddp.last;
    return 0;
}

static int append_read_request(struct diwarp_rc_qp *qp, struct dw_rc_cursor *cursor,
                               const struct dw_rc_work *work)
{
    uint8_t body[DW_READ_REQUEST_STREAM_BYTES];
    const struct dw_read_request request = {
        .sink_stag = work->sink_stag,
        .size = work->total,
        .source_stag = work->stag,
        .source_to = work->to,
    };
    dw_read_request_put_stream(body, &request);
    struct iovec list = {body, sizeof body};
    const struct dw_ddp_header ddp = {.last = true,
                                      .opcode = DW_RDMAP_READ_REQUEST,
                                      .qn = DW_QN_REQUEST,
                                      .msn = cursor->read_msn};
    if (!append(qp, cursor, &ddp, &list, 0, sizeof body))
        return -ENOSPC;
    cursor->read_msn++;
    cursor->reads++;
    cursor->work++;
    return 0;
}

static int append_work(struct diwarp_rc_qp *qp, struct dw_rc_cursor *cursor)
{
    const struct dw_rc_work *work = work_at(qp, cursor->work);
    if (work->opcode == DW_RDMAP_READ_REQUEST)
        return append_read_request(qp, cursor, work);
    bool tagged = work->opcode == DW_RDMAP_WRITE;
    uint32_t head = tagged ? DW_DDP_TAGGED_BYTES : DW_DDP_UNTAGGED_BYTES;
    uint32_t payload = payload_of(qp, head, work->total - cursor->offset);
    struct dw_ddp_header ddp = {
        .tagged = tagged, .last = cursor->offset + payload == work->total, .opcode = work->opcode};
    if (tagged) {
        ddp.stag = work->stag;
        ddp.to = work->to + cursor->offset;
    } else {
        ddp.ulp = work->stag;
        ddp.qn = DW_QN_SEND;
        ddp.msn = cursor->send_msn;
        ddp.mo = cursor->offset;
    }
    if (!append(qp, cursor, &ddp, work->sge, cursor->offset, payload))
        return -ENOSPC;
    cursor->offset = ddp.last ? 0 : cursor->offset + payload;
    cursor->work += ddp.last;
    cursor->send_msn += ddp.last && !tagged;
    return 0;
}

/* An empty Write: lets the other side send (RFC 6581 5). */
static int append_rtr(struct diwarp_rc_qp *qp, struct dw_rc_cursor *cursor)
{
    const struct dw_ddp_header ddp = {.tagged = true, .last = true, .opcode = DW_RDMAP_WRITE};
    if (!append(qp, cursor, &ddp, NULL, 0, 0))
        return -ENOSPC;
    cursor->rtr = false;
    return 0;
}

/* Returns 0, or a cause to terminate once the train is sent. */
static int build(struct diwarp_rc_qp *qp)
{
    struct dw_rc_train *train = qp->rc->train;
    struct dw_rc_cursor cursor = qp->cursor;
    int rc = 0;
    dw_rc_train_begin(qp->rc);
    while (!rc && train->count < DW_RC_TRAIN_FPDUS && train->gather.bytes < DW_RC_STAGE_BYTES) {
        if (cursor.rtr)
            rc = append_rtr(qp, &cursor);
        else if (!choose(qp, &cursor))
            break;
        else if (cursor.in_response)
            rc = append_response(qp, &cursor);
        else
            rc = append_work(qp, &cursor);
        if (rc)
            break;
        train->fpdus[train->count].end = train->gather.bytes;
        train->fpdus[train->count++].after = cursor;
    }
    assert(rc != -ENOSPC || train->count);
    return rc == -ENOSPC ? 0 : rc;
}

/* ---- sending ---- */

/* The request is done, or its response is awaited. False: no memory for that, it is still in line.
 */
static bool on_taken(struct diwarp_rc_qp *qp, struct dw_rc_work *work)
{
    qp->works_done++;
    if (work->opcode == DW_RDMAP_READ_REQUEST) {
        struct dw_rc_work *read = dw_ring_push(&qp->reads, sizeof *read, UINT32_MAX);
        if (!read)
            return false;
        *read = *work;
    } else if (work->signaled) {
        dw_rc_complete(qp, work->wr_id, dw_rc_wc_opcode(work), IBV_WC_SUCCESS, work->total);
    }
    return true;
}

/* False: no memory. */
static bool commit(struct diwarp_rc_qp *qp, const struct dw_rc_cursor *after)
{
    qp->cursor = *after;
    qp->cursor.work = qp->cursor.response = qp->cursor.reads = 0;
    dw_ring_pop(&qp->responses, after->response);
    for (uint32_t i = 0; i < after->work; i++) {
        if (!on_taken(qp, work_at(qp, 0)))
            return false;
        dw_ring_pop(&qp->works, 1);
    }
    return true;
}

/* What TCP took of the train is history; an FPDU begun must be ended, and so must an inline
 * request, which is alone in the train. */
static bool on_sent(struct diwarp_rc_qp *qp, size_t taken)
{
    const struct dw_rc_train *train = qp->rc->train;
    unsigned gone = train->count;
    if (taken < train->gather.bytes) {
        for (gone = 0; train->fpdus[gone].end <= taken; gone++)
            ;
        bool whole = taken && qp->works.count && work_at(qp, 0)->inlined;
        if (whole)
            gone = train->count;
        else if (taken > (gone ? train->fpdus[gone - 1].end : 0))
            gone++;
        size_t end = gone ? train->fpdus[gone - 1].end : 0;
        if (end > taken &&
            !dw_rc_tail_add(&qp->tail, train->pieces, (uint32_t)taken, (uint32_t)(end - taken)))
            return false;
    }
    qp->rc->counters.rc_tx_fpdus += gone;
    qp->rc->device->served += gone;
    return !gone || commit(qp, &train->fpdus[gone - 1].after);
}

static void on_blocked(struct diwarp_rc_qp *qp)
{
    dw_rc_set_blocked(qp, true);
    dw_rc_rewatch(qp);
}

/* The stream is broken. What the other side sent before, perhaps why, may still be there to be
 * read: reading finds the error again. */
static void on_broken(struct diwarp_rc_qp *qp)
{
    qp->broken = true;
    if (dw_rc_is_standing(qp) || qp->ended)
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
    else
        on_blocked(qp);
}

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
    struct dw_read_request left =
        *(const struct dw_read_request *)dw_ring_at(&qp->responses, sizeof left, 0);
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

/* 1: more may go; 0: all is sent; -EAGAIN: TCP takes no more; another error: it is broken, or the
 * QP is closed. */
static int send_train(struct diwarp_rc_qp *qp)
{
    const struct dw_rc_train *train = qp->rc->train;
    int cause = build(qp);
    if (train->count) {
        const struct dw_mpa_gather *gather = &train->gather;
        ssize_t n = hand_over(qp, gather->pieces, gather->count, gather->bytes);
        if (n < 0)
            return (int)n;
        if (!on_sent(qp, (size_t)n)) {
            dw_rc_close(qp, IBV_WC_LOC_QP_OP_ERR, 0);
            return -ENOMEM;
        }
        if ((size_t)n < gather->bytes)
            return -EAGAIN;
    }
    if (cause) {
        fail_response(qp, (uint16_t)cause);
        return -ECONNABORTED;
    }
    return train->count > 0;
}

/* The other side has sent its last: a read whose turn comes now would never be answered. */
static void drop_reads(struct diwarp_rc_qp *qp)
{
    for (; qp->ended && qp->works.count; dw_ring_pop(&qp->works, 1)) {
        const struct dw_rc_work *work = work_at(qp, 0);
        if (work->opcode != DW_RDMAP_READ_REQUEST)
            return;
        dw_rc_complete(qp, work->wr_id, IBV_WC_RDMA_READ, IBV_WC_WR_FLUSH_ERR, 0);
    }
}

void dw_rc_flush(struct diwarp_rc_qp *qp)
{
    if (qp->blocked || !qp->stream || qp->shut)
        return;
    int rc = send_tail(qp);
    for (unsigned i = 0; !rc && qp->may_send && i < TRAINS_PER_FLUSH; i++) {
        drop_reads(qp);
        if (dw_rc_idle(qp))
            break;
        rc = send_train(qp);
        if (!rc)
            break; /* reads wait for responses */
        if (rc > 0)
            rc = i + 1 == TRAINS_PER_FLUSH ? -EAGAIN : 0;
    }
    if (qp->state == DW_RC_CLOSED)
        return;
    if (rc == -EAGAIN)
        on_blocked(qp);
    else if (rc == -EFAULT)
        dw_rc_close(qp, IBV_WC_LOC_PROT_ERR, 0); /* of ours: reading would not find it again */
    else if (rc)
        on_broken(qp);
    else
        dw_rc_end_if_idle(qp);
}
