/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the stream to whole FPDUs, and ULPDUs to their place: Sends into receives, Writes into
 * regions, responses into the buffers of our reads; requests of the other side's reads wait for
 * send.c. Each is checked first (RFC 5041 7.1, RFC 5040 4.8): an error ends the stream with
 * Terminate.
 *
 * All QPs of a CQ read into one stage. What remains of an FPDU at the end of a read is kept until
 * the next, which puts it back before what comes then: FPDUs begin TCP segments, so it is little,
 * if anything.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/copy.h"
#include "common/mem/atomic.h"
#include "common/rc/qp.h"
#include "common/wire/bytes.h"

/* ---- ULPDUs to their place ---- */

/* Takes a segment's payload. 0, -EAGAIN (no receive is posted), -ECONNABORTED (the QP is closed),
 * or a cause to terminate. */
typedef int taker(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp, const uint8_t *payload,
                  uint32_t bytes);

static bool owes_data(const struct diwarp_rc_qp *qp)
{
    for (uint32_t i = 0; i < qp->responses.count; i++) {
        const struct dw_rc_response *response = dw_ring_at(&qp->responses, sizeof *response, i);
        if (!response->is_atomic && response->read.size)
            return true;
    }
    return false;
}

/* Before the other side's request changes memory, the reads before it are answered, as far as TCP
 * takes that now. Without a fence it may not rely on any order (RFC 5040 5.5, RFC 7306 7), yet
 * UCX and Open MPI do, for adapters execute requests in theirs. 0 or -ECONNABORTED. */
static int answer_reads_first(struct diwarp_rc_qp *qp)
{
    if (!qp->blocked && owes_data(qp))
        dw_rc_flush(qp);
    return qp->state == DW_RC_CLOSED ? -ECONNABORTED : 0;
}

/* A Write of no bytes that names nothing, which tells something: it is no message. */
static bool take_note(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp)
{
    const uint64_t retries = ddp->to - DW_RC_RNR_TO, taken = ddp->to - DW_RC_TAKEN_TO;
    if (ddp->stag)
        return false;
    if (retries < DW_RC_RNR_FOREVER)
        qp->rnr_retries = (uint8_t)retries;
    else if (taken <= UINT32_MAX)
        qp->taken = taken;
    else
        return false;
    return true;
}

static int on_write(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp,
                    const uint8_t *payload, uint32_t bytes)
{
    if (!bytes && take_note(qp, ddp))
        return 0;
    qp->written_bytes = bytes + (qp->writing ? qp->written_bytes : 0);
    qp->writing = !ddp->last;
    if (!bytes) {
        qp->writes += ddp->last && ddp->stag;
        return 0;
    }
    void *at;
    uint16_t cause =
        dw_rc_check_access(qp, ddp->stag, ddp->to, bytes, IBV_ACCESS_REMOTE_WRITE, &at);
    if (cause)
        return cause;
    if (answer_reads_first(qp))
        return -ECONNABORTED;
    dw_copy_in_order(at, payload, bytes);
    qp->writes += ddp->last;
    qp->rc->device->served++;
    return 0;
}

/* Some of its memory is not registered (any more): it ends, and the stream with it. */
static int refuse_recv(struct diwarp_rc_qp *qp)
{
    dw_rc_complete(qp, qp->current->wr_id, IBV_WC_RECV, IBV_WC_LOC_PROT_ERR, 0);
    qp->receiving = false;
    return DW_TERM_DDP_CATASTROPHIC;
}

/* The last segment has been placed. */
static void complete_recv(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp)
{
    const bool imm = dw_rdmap_has_immediate(ddp->opcode);
    const bool invalidates = dw_rdmap_invalidates(ddp->opcode);
    const struct diwarp_wc wc = {
        .wc = {.wr_id = qp->current->wr_id,
               .opcode = IBV_WC_RECV,
               .byte_len = qp->received_bytes,
               .imm_data = imm || invalidates ? ddp->ulp : 0, /* or the STag */
               .wc_flags = (imm ? IBV_WC_WITH_IMM : 0) | (invalidates ? IBV_WC_WITH_INV : 0) |
                           (dw_rdmap_is_solicited(ddp->opcode) ? DIWARP_WC_SOLICITED : 0u)},
        .rc_qp = qp,
    };
    dw_cq_push(qp->rc->cq, &wc);
    qp->rc->counters.rc_rx_send_msgs++;
    qp->receiving = false;
    qp->recv_msn++;
}

static int on_send(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp, const uint8_t *payload,
                   uint32_t bytes)
{
    if (ddp->msn != qp->recv_msn)
        return DW_TERM_DDP_MSN;
    if (ddp->mo != (qp->receiving ? qp->received_bytes : 0))
        return DW_TERM_DDP_MO;
    if (!qp->receiving) {
        if (!qp->recvs->count)
            return -EAGAIN;
        const struct dw_recv *recv = dw_ring_at(qp->recvs, qp->recv_bytes, 0);
        memcpy(qp->current, recv, dw_recv_bytes(recv->sge_count));
        dw_ring_pop(qp->recvs, 1);
        qp->receiving = true;
        qp->received_bytes = 0;
    }
    if (bytes > qp->current->bytes - qp->received_bytes)
        return DW_TERM_DDP_TOO_LONG;
    if (dw_recv_place(dw_recv_pd(qp->attr.srq, qp->pd), qp->current, qp->received_bytes, payload,
                      bytes))
        return refuse_recv(qp);
    qp->received_bytes += bytes;
    if (!ddp->last)
        return 0;
    if (dw_rdmap_invalidates(ddp->opcode) &&
        !dw_pd_invalidate(qp->pd, NULL, qp->attr.context, ddp->ulp))
        return DW_TERM_RDMAP_PROTECT_INVALIDATE;
    complete_recv(qp, ddp);
    return 0;
}

/* Tells of the Write before it, and takes a receive. */
static int on_immediate(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp,
                        const uint8_t *payload, uint32_t bytes)
{
    if (ddp->msn != qp->recv_msn || qp->receiving)
        return DW_TERM_DDP_MSN;
    if (ddp->mo)
        return DW_TERM_DDP_MO;
    if (bytes != DW_IMMEDIATE_BYTES || !ddp->last)
        return bytes < DW_IMMEDIATE_BYTES ? DW_TERM_RDMAP_UNSPECIFIED : DW_TERM_DDP_TOO_LONG;
    if (!qp->recvs->count)
        return -EAGAIN;
    const struct dw_recv *recv = dw_ring_at(qp->recvs, qp->recv_bytes, 0);
    struct diwarp_wc wc = {
        .wc = {.wr_id = recv->wr_id,
               .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
               .byte_len = qp->written_bytes,
               .imm_data = dw_get_be32(payload),
               .wc_flags = IBV_WC_WITH_IMM |
                           (dw_rdmap_is_solicited(ddp->opcode) ? DIWARP_WC_SOLICITED : 0u)},
        .rc_qp = qp,
    };
    dw_ring_pop(qp->recvs, 1);
    dw_cq_push(qp->rc->cq, &wc);
    qp->recv_msn++;
    return 0;
}

/* Answers wait for send.c, as many as the IRD says. 0 or a cause to terminate. */
static int keep_response(struct diwarp_rc_qp *qp, const struct dw_rc_response *response)
{
    struct dw_rc_response *kept = dw_ring_push(&qp->responses, sizeof *kept, qp->ird);
    if (!kept)
        return DW_TERM_MPA_CATASTROPHIC;
    *kept = *response;
    qp->request_msn++;
    return 0;
}

/* RFC 7306 5.2: one that is not aligned, or unknown, ends the stream. */
static int on_atomic_request(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp,
                             const uint8_t *payload, uint32_t bytes)
{
    struct dw_atomic_request request;
    if (ddp->msn != qp->request_msn)
        return DW_TERM_DDP_MSN;
    if (ddp->mo)
        return DW_TERM_DDP_MO;
    if (bytes > DW_ATOMIC_REQUEST_BYTES || !ddp->last)
        return DW_TERM_DDP_TOO_LONG;
    if (dw_atomic_request_get(&request, payload, bytes) || request.to % sizeof(uint64_t))
        return DW_TERM_RDMAP_UNSPECIFIED;
    if (qp->responses.count == qp->ird)
        return DW_TERM_DDP_NO_BUFFER;
    void *target;
    const uint16_t cause = dw_rc_check_access(qp, request.stag, request.to, sizeof(uint64_t),
                                              IBV_ACCESS_REMOTE_ATOMIC, &target);
    if (cause)
        return cause;
    if (answer_reads_first(qp))
        return -ECONNABORTED;
    const struct dw_rc_response response = {
        .is_atomic = true,
        .atomic = {.request_id = request.request_id,
                   .original = dw_atomic_execute(&request, target)}};
    return keep_response(qp, &response);
}

static int on_read_request(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp,
                           const uint8_t *payload, uint32_t bytes)
{
    struct dw_read_request request;
    if (ddp->msn != qp->request_msn)
        return DW_TERM_DDP_MSN;
    if (ddp->mo)
        return DW_TERM_DDP_MO;
    /* The queue's buffers are of a request's size, and as many as the IRD says. */
    int rc = dw_read_request_get_stream(&request, payload, bytes);
    if (rc || !ddp->last)
        return rc == -EBADMSG ? DW_TERM_RDMAP_UNSPECIFIED : DW_TERM_DDP_TOO_LONG;
    if (qp->responses.count == qp->ird)
        return DW_TERM_DDP_NO_BUFFER;
    uint16_t cause = 0;
    void *source; /* looked for again when it is sent */
    if (request.size)
        cause = dw_rc_check_access(qp, request.source_stag, request.source_to, request.size,
                                   IBV_ACCESS_REMOTE_READ, &source);
    if (cause)
        return cause;
    if (request.sink_to + request.size < request.sink_to)
        return DW_TERM_RDMAP_TO_WRAP;
    const struct dw_rc_response response = {.read = request};
    return keep_response(qp, &response);
}

/* The oldest request is done. */
static void complete_response(struct diwarp_rc_qp *qp, const struct dw_rc_work *read)
{
    qp->rc->device->served++;
    if (read->signaled)
        dw_rc_complete(qp, read->wr_id, dw_rc_wc_opcode(read), IBV_WC_SUCCESS, read->total);
    dw_ring_pop(&qp->reads, 1);
}

static int on_atomic_response(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp,
                              const uint8_t *payload, uint32_t bytes)
{
    const struct dw_rc_work *work =
        qp->reads.count ? dw_ring_at(&qp->reads, dw_rc_work_bytes(qp->attr.max_sge), 0) : NULL;
    struct dw_atomic_response response;
    if (ddp->msn != qp->response_msn)
        return DW_TERM_DDP_MSN;
    if (ddp->mo || !ddp->last)
        return DW_TERM_DDP_MO;
    if (dw_atomic_response_get_stream(&response, payload, bytes))
        return DW_TERM_RDMAP_UNSPECIFIED;
    if (!work || work->opcode != DW_RDMAP_ATOMIC_REQUEST || response.request_id != work->sink_stag)
        return DW_TERM_RDMAP_OPCODE;
    dw_rc_scatter(work->sge, 0, (const uint8_t *)&response.original, sizeof response.original);
    qp->response_msn++;
    complete_response(qp, work);
    return 0;
}

/* The sink's STag is made up for each read and names no region: only this response may use it. */
static int on_read_response(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp,
                            const uint8_t *payload, uint32_t bytes)
{
    if (!qp->reads.count ||
        ((struct dw_rc_work *)dw_ring_at(&qp->reads, dw_rc_work_bytes(qp->attr.max_sge), 0))
                ->opcode != DW_RDMAP_READ_REQUEST)
        return DW_TERM_RDMAP_OPCODE;
    struct dw_rc_work *read = dw_ring_at(&qp->reads, dw_rc_work_bytes(qp->attr.max_sge), 0);
    if (ddp->stag != read->sink_stag)
        return DW_TERM_DDP_STAG;
    if (ddp->to != read->placed || bytes > read->total - read->placed ||
        ddp->last != (read->placed + bytes == read->total))
        return DW_TERM_DDP_BOUNDS;
    dw_rc_scatter(read->sge, read->placed, payload, bytes);
    read->placed += bytes;
    qp->rc->device->served++;
    if (ddp->last)
        complete_response(qp, read);
    return 0;
}

static int on_terminate(struct diwarp_rc_qp *qp, const struct dw_ddp_header *ddp,
                        const uint8_t *payload, uint32_t bytes)
{
    (void)ddp;
    /* The headers behind the cause are of no use here, also where they are cut off. */
    uint16_t cause = bytes < DW_TERMINATE_BYTES ? DW_TERM_RDMAP_UNSPECIFIED : dw_get_be16(payload);
    qp->rc->counters.rc_rx_terminates++;
    dw_rc_close(qp, IBV_WC_REM_OP_ERR, cause);
    return -ECONNABORTED;
}

/* Takes a ULPDU. 0; -EAGAIN: no receive is posted, it comes again; else the QP is closed. */
static int deliver(struct diwarp_rc_qp *qp, const uint8_t *ulpdu, uint32_t bytes)
{
    static taker *const takers[] = {
        [DW_RDMAP_WRITE] = on_write,
        [DW_RDMAP_READ_REQUEST] = on_read_request,
        [DW_RDMAP_READ_RESPONSE] = on_read_response,
        [DW_RDMAP_SEND] = on_send,
        [DW_RDMAP_SEND_INVALIDATE] = on_send,
        [DW_RDMAP_SEND_SE] = on_send,
        [DW_RDMAP_SEND_SE_INVALIDATE] = on_send,
        [DW_RDMAP_SEND_IMM] = on_send,
        [DW_RDMAP_SEND_SE_IMM] = on_send,
        [DW_RDMAP_IMMEDIATE] = on_immediate,
        [DW_RDMAP_IMMEDIATE_SE] = on_immediate,
        [DW_RDMAP_ATOMIC_REQUEST] = on_atomic_request,
        [DW_RDMAP_ATOMIC_RESPONSE] = on_atomic_response,
        [DW_RDMAP_TERMINATE] = on_terminate,
    };
    struct dw_ddp_header ddp;
    uint16_t cause;
    if (!qp->may_send && qp->state == DW_RC_RESPONDED)
        dw_rc_set_state(qp, DW_RC_RTS);
    qp->may_send = true;
    if (!bytes)
        return 0; /* says only that the stream is up (RFC 6581 5) */
    const int head = dw_ddp_get_stream(&ddp, ulpdu, bytes, &cause);
    const int rc =
        head < 0 ? cause : takers[ddp.opcode](qp, &ddp, ulpdu + head, bytes - (uint32_t)head);
    if (rc <= 0)
        return rc;
    dw_rc_terminate(qp, (uint16_t)rc, ulpdu, bytes);
    return -ECONNABORTED;
}

/* ---- the stream to FPDUs ---- */

/* Keeps the bytes up to `end`. False, without memory: the QP is closed. */
static bool keep(struct diwarp_rc_qp *qp, const uint8_t *from, const uint8_t *end)
{
    const size_t bytes = (size_t)(end - from);
    uint8_t *buf = malloc(bytes);
    if (!buf) {
        dw_rc_terminate(qp, DW_TERM_MPA_CATASTROPHIC, NULL, 0);
        return false;
    }
    dw_copy(buf, from, bytes);
    qp->held = (struct dw_rc_held){.buf = buf, .bytes = (uint32_t)bytes};
    return true;
}

/* The QP waits for a receive, with a ULPDU for that and what came behind it, from `rest` on. */
static void stand_still(struct diwarp_rc_qp *qp, const struct dw_mpa_fpdu *fpdu,
                        const uint8_t *rest, const uint8_t *end, uint64_t now_ns)
{
    if (!dw_rc_rnr_wait_ns(qp)) {
        if (!qp->blocked)
            dw_rc_flush(qp); /* responses, which tell which of its requests have come */
        if (qp->state != DW_RC_CLOSED)
            dw_rc_terminate(qp, DW_TERM_DDP_NO_BUFFER, fpdu->ulpdu, (uint32_t)fpdu->ulpdu_bytes);
        return;
    }
    if (!keep(qp, fpdu->ulpdu, end))
        return;
    qp->held.ulpdu_bytes = (uint32_t)fpdu->ulpdu_bytes;
    qp->held.rest_at = (uint32_t)(rest - fpdu->ulpdu);
    dw_list_append(&qp->rc->standing, &qp->standing_link);
    qp->rc->counters.rc_rx_waits++;
    dw_rc_limit(qp, now_ns);
    dw_rc_rewatch(qp);
}

/* Delivers all whole FPDUs, then keeps the rest. False: the QP stands still or is closed. */
static bool parse(struct diwarp_rc_qp *qp, uint8_t *at, const uint8_t *end, uint64_t now_ns)
{
    while (at < end) {
        struct dw_mpa_fpdu fpdu;
        int rc = dw_mpa_fpdu_get(&qp->rx, &fpdu, at, (size_t)(end - at));
        if (rc == -EAGAIN)
            return keep(qp, at, end);
        if (rc) {
            uint16_t cause = rc == -EBADMSG ? DW_TERM_MPA_CRC : DW_TERM_MPA_MARKER;
            dw_rc_terminate(qp, cause, NULL, 0);
            return false;
        }
        qp->rc->counters.rc_rx_fpdus++;
        at += fpdu.bytes;
        rc = deliver(qp, fpdu.ulpdu, (uint32_t)fpdu.ulpdu_bytes);
        if (rc == -EAGAIN)
            stand_still(qp, &fpdu, at, end, now_ns);
        if (rc)
            return false;
    }
    return true;
}

/* Has the other side begun an FPDU or message that it did not end? */
static bool in_the_middle(const struct diwarp_rc_qp *qp)
{
    const struct dw_rc_work *read =
        qp->reads.count ? dw_ring_at(&qp->reads, dw_rc_work_bytes(qp->attr.max_sge), 0) : NULL;
    return qp->held.bytes || qp->receiving || qp->writing || (read && read->placed);
}

/* Nothing comes any more. */
static void on_end(struct diwarp_rc_qp *qp, bool orderly)
{
    if (!orderly || in_the_middle(qp) || !qp->may_send || qp->broken) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
        return;
    }
    qp->ended = true;
    dw_rc_flush_works(qp, &qp->reads); /* nor does anything answer those that wait for their turn */
    if (qp->state != DW_RC_CLOSING)
        dw_rc_set_state(qp, DW_RC_CLOSING);
    dw_rc_flush(qp);
    if (qp->state != DW_RC_CLOSED) {
        dw_rc_rewatch(qp);
        dw_rc_end_if_idle(qp);
    }
}

/* Nothing is to be sent but responses without data, which only confirm what came: they go along
 * with what the application posts now, or else with the next run. */
static bool may_wait(const struct diwarp_rc_qp *qp)
{
    bool bare = qp->responses.count && !qp->works.count && !qp->tail.buf && !qp->ended &&
                !dw_list_linked(&qp->lazy_link);
    for (uint32_t i = 0; i < qp->responses.count && bare; i++) {
        const struct dw_rc_response *response = dw_ring_at(&qp->responses, sizeof *response, i);
        bare = !response->is_atomic && !response->read.size;
    }
    return bare;
}

bool dw_rc_receive(struct diwarp_rc_qp *qp, uint64_t now_ns)
{
    struct diwarp_rc_counters *counters = &qp->rc->counters;
    struct dw_rc_held held = qp->held;
    uint8_t *stage = qp->rc->stage;
    /* While no receive is posted only a part: what cannot be delivered has to be kept. */
    const size_t most = qp->recvs->count ? DW_RC_STAGE_BYTES - held.bytes : DW_RC_STAGE_BYTES / 4;
    struct iovec iov = {stage + held.bytes, most};
    ssize_t n = qp->stream->ops->recv(qp->stream, &iov, 1);
    if (n == 0) {
        counters->rc_rx_empty_syscalls++;
        return false;
    }
    if (n < 0) {
        on_end(qp, n == -ENODATA);
        return true;
    }
    qp->rc->receives++;
    counters->rc_rx_syscalls++;
    counters->rc_rx_bytes += (uint64_t)n;
    dw_copy(stage, held.buf, held.bytes);
    free(held.buf);
    qp->held = (struct dw_rc_held){0};
    (void)parse(qp, stage, stage + held.bytes + n, now_ns);
    if (may_wait(qp))
        dw_list_append(&qp->rc->lazy, &qp->lazy_link);
    else
        dw_rc_flush(qp); /* responses to what came, requests that may now be sent */
    return true;
}

void dw_rc_resume(struct diwarp_rc_qp *qp, uint64_t now_ns)
{
    struct dw_rc_held held = qp->held;
    qp->held = (struct dw_rc_held){0};
    dw_list_remove(&qp->standing_link);
    dw_rc_limit(qp, now_ns);
    if (!deliver(qp, held.buf, held.ulpdu_bytes)) {
        if (parse(qp, held.buf + held.rest_at, held.buf + held.bytes, now_ns))
            dw_rc_rewatch(qp);
        dw_rc_flush(qp);
    }
    free(held.buf);
}
