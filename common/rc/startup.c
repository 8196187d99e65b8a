/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA set-up (RFC 5044 7.1, RFC 6581): frames, and the calling side's part. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/llp/explain.h"
#include "common/llp/interface.h"
#include "common/rnic/lock.h"
#include "common/rc/qp.h"
#include "common/wire/bytes.h"

_Static_assert(DIWARP_PRIVATE_DATA_MAX_BYTES + DW_MPA_ENHANCED_BYTES + DW_RC_HELLO_BYTES <=
                   DW_MPA_PRIVATE_MAX_BYTES,
               "private data must fit a frame");

/* ---- frames ---- */

uint8_t dw_rc_frame_flags(const struct diwarp_rc_qp_attr *attr)
{
    return (uint8_t)((attr->markers ? DW_MPA_MARKERS : 0) | (attr->crc ? DW_MPA_CRC : 0));
}

uint32_t dw_rc_frame_put(uint8_t *buf, struct dw_mpa_frame *frame,
                         const struct dw_mpa_enhanced *enhanced, const struct dw_rc_hello *hello,
                         const void *data, size_t bytes)
{
    uint8_t private_data[DW_MPA_PRIVATE_MAX_BYTES];
    uint8_t *at = private_data;
    if (enhanced) {
        frame->flags |= DW_MPA_ENHANCED;
        dw_mpa_enhanced_put(at, enhanced);
        at += DW_MPA_ENHANCED_BYTES;
    }
    dw_rc_hello_put(at, hello);
    at += DW_RC_HELLO_BYTES;
    if (bytes)
        memcpy(at, data, bytes);
    frame->private_data = private_data;
    frame->private_bytes = (uint16_t)((size_t)(at - private_data) + bytes);
    size_t written = dw_mpa_frame_put(buf, frame);
    frame->private_data = NULL;
    return (uint32_t)written;
}

int dw_rc_frame_get(const struct dw_mpa_frame *frame, struct dw_mpa_enhanced *enhanced,
                    struct dw_rc_hello *hello, const uint8_t **data, uint32_t *bytes)
{
    uint32_t skip = frame->flags & DW_MPA_ENHANCED ? DW_MPA_ENHANCED_BYTES : 0;
    if (frame->private_bytes < skip ||
        dw_rc_hello_get(hello, frame->private_data + skip, frame->private_bytes - skip))
        return -EPROTO;
    *enhanced = (struct dw_mpa_enhanced){.ird = hello->ird};
    if (skip && dw_mpa_enhanced_get(enhanced, frame->private_data, skip))
        return -EPROTO;
    if (enhanced->ird == DW_MPA_DEPTH_MAX)
        enhanced->ird = hello->ird;
    *data = frame->private_data + skip + DW_RC_HELLO_BYTES;
    *bytes = frame->private_bytes - skip - DW_RC_HELLO_BYTES;
    return 0;
}

static uint32_t frame_bytes(const struct dw_rc_startup *startup)
{
    if (startup->bytes < DW_MPA_FRAME_BYTES)
        return DW_MPA_FRAME_BYTES;
    return DW_MPA_FRAME_BYTES + dw_get_be16(startup->buf + DW_MPA_FRAME_BYTES - 2);
}

int dw_rc_frame_read(struct dw_stream *stream, struct dw_rc_startup *startup, enum dw_mpa_kind kind,
                     struct dw_mpa_frame *frame)
{
    for (;;) {
        int length = dw_mpa_frame_get(frame, kind, startup->buf, startup->bytes);
        if (length != -EAGAIN)
            return length < 0 ? length : 0;
        /* What follows the frame belongs to others: no byte of it is read. */
        struct iovec rest = {startup->buf + startup->bytes, frame_bytes(startup) - startup->bytes};
        ssize_t n = stream->ops->recv(stream, &rest, 1);
        if (n <= 0)
            return n ? (int)n : -EAGAIN;
        startup->bytes += (uint32_t)n;
    }
}

/* ---- the calling side ---- */

/* In qp->startup until TCP is set up. */
static void prepare_request(struct diwarp_rc_qp *qp, uint64_t token, const void *data, size_t bytes)
{
    struct dw_mpa_frame frame = {.kind = DW_MPA_REQUEST,
                                 .flags = dw_rc_frame_flags(&qp->attr),
                                 .revision = qp->attr.mpa_revision};
    struct dw_rc_hello hello = {.name = qp->rc->device->attr.name, .token = token, .ird = qp->ird};
    /* Our first FPDU is an empty Write whatever the revision: the other side may then send. */
    const struct dw_mpa_enhanced enhanced = {
        .peer_to_peer = true, .rtr_write = true, .ird = qp->ird, .ord = qp->ord};
    qp->token = token;
    qp->startup->bytes = dw_rc_frame_put(
        qp->startup->buf, &frame, frame.revision >= 2 ? &enhanced : NULL, &hello, data, bytes);
}

static void on_tcp_connected(struct diwarp_rc_qp *qp)
{
    int rc = qp->stream->ops->finish_connect(qp->stream);
    if (!rc)
        rc = dw_rc_send_bytes(qp, qp->startup->buf, qp->startup->bytes);
    if (rc) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
        return;
    }
    qp->startup->bytes = 0;
    dw_rc_set_state(qp, DW_RC_REQUESTED);
    dw_rc_rewatch(qp);
}

static int keep_answer(struct diwarp_rc_qp *qp, const uint8_t *data, uint32_t bytes)
{
    if (!bytes)
        return 0;
    qp->answer = malloc(bytes);
    if (!qp->answer)
        return -ENOMEM;
    memcpy(qp->answer, data, bytes);
    qp->answer_bytes = bytes;
    return 0;
}

static void refuse(struct diwarp_rc_qp *qp)
{
    qp->rc->counters.rc_bad_startup++;
    dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_STARTUP);
}

static bool has_reads(const struct diwarp_rc_qp *qp)
{
    for (uint32_t i = 0; i < qp->works.count; i++) {
        const struct dw_rc_work *work = dw_ring_at(&qp->works, sizeof *work, i);
        if (work->opcode == DW_RDMAP_READ_REQUEST)
            return true;
    }
    return false;
}

/* 0, or why the two do not suit each other (RFC 6581 9). */
static uint16_t disagreement(const struct diwarp_rc_qp *qp, const struct dw_mpa_enhanced *theirs)
{
    if (theirs->peer_to_peer && !theirs->rtr_write)
        return DW_TERM_MPA_RTR;
    if (theirs->ord > qp->ird && theirs->ord != DW_MPA_DEPTH_MAX)
        return DW_TERM_MPA_IRD;
    /* It answers no reads: one that was posted already would wait for ever, and with it all that is
     * behind it. */
    return !qp->ord && has_reads(qp) ? DW_TERM_MPA_IRD : 0;
}

static void on_reply(struct diwarp_rc_qp *qp, const struct dw_mpa_frame *frame)
{
    struct dw_mpa_enhanced theirs;
    struct dw_rc_hello hello;
    const uint8_t *data;
    uint32_t bytes;
    if (frame->revision != qp->attr.mpa_revision ||
        dw_rc_frame_get(frame, &theirs, &hello, &data, &bytes) || hello.token != qp->token) {
        refuse(qp);
        return;
    }
    if (keep_answer(qp, data, bytes)) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, 0);
        return;
    }
    if (frame->flags & DW_MPA_REJECT) {
        qp->rc->counters.rc_rejects++;
        dw_rc_close(qp, IBV_WC_REM_INV_REQ_ERR, 0);
        return;
    }
    dw_rc_begin_fpdus(qp, frame, theirs.ird);
    uint16_t cause = disagreement(qp, &theirs);
    if (cause) {
        (void)dw_rc_terminate(qp, cause, NULL, 0);
        return;
    }
    free(qp->startup);
    qp->startup = NULL;
    dw_rc_set_state(qp, DW_RC_RTS);
    dw_rc_set_timer(qp, DW_NEVER);
    qp->may_send = qp->cursor.rtr = true;
    struct diwarp_wc wc = {
        .wc = {.opcode = (enum ibv_wc_opcode)DIWARP_WC_CONNECTED, .byte_len = qp->answer_bytes},
        .src = hello.name,
        .rc_qp = qp,
        .data = qp->answer,
    };
    dw_cq_push(qp->rc->cq, &wc);
    dw_rc_heat(qp);
    dw_rc_flush(qp);
}

void dw_rc_startup_ready(struct diwarp_rc_qp *qp, unsigned what, uint64_t now_ns)
{
    (void)now_ns;
    if (qp->state == DW_RC_CONNECTING) {
        on_tcp_connected(qp);
        return;
    }
    if (what & DW_STREAM_OUT) {
        dw_rc_set_blocked(qp, false);
        if (dw_rc_send_bytes(qp, NULL, 0)) {
            dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
            return;
        }
        dw_rc_rewatch(qp);
    }
    if (!(what & DW_STREAM_IN))
        return;
    struct dw_mpa_frame frame;
    int rc = dw_rc_frame_read(qp->stream, qp->startup, DW_MPA_REPLY, &frame);
    if (rc == -EBADMSG || rc == -EPROTO || rc == -EPROTONOSUPPORT)
        refuse(qp);
    else if (rc && rc != -EAGAIN)
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
    else if (!rc)
        on_reply(qp, &frame);
}

static int open_stream(struct diwarp_rc_qp *qp, const struct diwarp_address *address,
                       struct diwarp_diagnosis *why)
{
    const struct diwarp_device *device = qp->rc->device;
    struct diwarp_address local = {.host_id = device->host_id,
                                   .interface_count = (uint8_t)device->interface_count};
    memcpy(local.interfaces, device->interfaces, sizeof local.interfaces);
    unsigned here, there;
    if (dw_interface_pair(&local, address, &here, &there)) {
        dw_explain(why, "no interface reaches the other side");
        return -ENETUNREACH;
    }
    const struct diwarp_interface *mine = &local.interfaces[here];
    const struct diwarp_interface *theirs = &address->interfaces[there];
    struct dw_llp_addr from = {.family = mine->family};
    qp->peer = (struct dw_llp_addr){.family = theirs->family, .port = address->port};
    memcpy(from.ip, mine->ip, sizeof from.ip);
    memcpy(qp->peer.ip, theirs->ip, sizeof qp->peer.ip);
    struct dw_stream *stream;
    int rc = qp->rc->streams->ops->connect(qp->rc->streams, &from, &qp->peer, &stream);
    if (rc) {
        dw_explain(why, "cannot connect to the other side: %s", strerror(-rc));
        return rc;
    }
    dw_rc_qp_attach(qp, stream);
    return 0;
}

static int connect_locked(struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                          const struct diwarp_address *address, const void *private_data,
                          size_t private_bytes, struct diwarp_rc_qp **qp_out,
                          struct diwarp_diagnosis *why)
{
    struct dw_rc *rc;
    struct diwarp_rc_qp *qp;
    int error = dw_rc_get(attr->cq, &rc);
    if (!error)
        error = dw_rc_qp_create(rc, pd, attr, &qp);
    if (error) {
        dw_explain(why, "cannot make a queue pair: %s", strerror(-error));
        return error;
    }
    qp->startup = malloc(sizeof *qp->startup);
    error = qp->startup ? open_stream(qp, address, why) : -ENOMEM;
    if (error) {
        dw_rc_qp_free(qp);
        return error;
    }
    prepare_request(qp, address->token, private_data, private_bytes);
    dw_rc_set_timer(qp, dw_deadline_ns(dw_device_now_ns(rc->device), attr->connect_timeout_ns));
    dw_rc_rewatch(qp);
    *qp_out = qp;
    return 0;
}

int diwarp_connect(struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                   const struct diwarp_address *address, const void *private_data,
                   size_t private_bytes, struct diwarp_rc_qp **qp, struct diwarp_diagnosis *why)
{
    struct diwarp_diagnosis ignored;
    why = why ? why : &ignored;
    why->text[0] = '\0';
    if (!attr->cq || private_bytes > DIWARP_PRIVATE_DATA_MAX_BYTES) {
        dw_explain(why, "malformed queue pair attributes or private data");
        return -EINVAL;
    }
    dw_lock(pd->device);
    int rc = connect_locked(pd, attr, address, private_data, private_bytes, qp, why);
    dw_unlock(pd->device);
    return rc;
}
