/* SPDX-License-Identifier: BSD-3-Clause */
/* RC QPs made, what stream and timer bring them, and the calling side of MPA start-up (RFC
 * 5044 7.1, RFC 6581). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/llp/interface.h"
#include "common/llp/socket.h"
#include "common/rc/qp.h"
#include "common/rnic/device.h"
#include "common/wire/bytes.h"

/* ---- frames: the calling and the called side read and write the same ---- */

_Static_assert(DIWARP_PRIVATE_DATA_MAX_BYTES + DW_MPA_ENHANCED_BYTES + DW_RC_HELLO_BYTES <=
                   DW_MPA_PRIVATE_MAX_BYTES,
               "private data must fit a frame");

uint8_t dw_rc_frame_flags(const struct diwarp_rc_qp_attr *attr)
{
    return (uint8_t)((attr->markers ? DW_MPA_MARKERS : 0) | (attr->crc ? DW_MPA_CRC : 0));
}

bool dw_rc_frame_add(struct dw_rc_tail *tail, struct dw_mpa_frame *frame,
                     const struct dw_mpa_enhanced *enhanced, const struct dw_rc_hello *hello,
                     const void *data, size_t bytes)
{
    uint8_t private_data[DW_MPA_PRIVATE_MAX_BYTES], buf[DW_MPA_FRAME_BYTES + sizeof private_data];
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
    struct iovec whole = {buf, dw_mpa_frame_put(buf, frame)};
    return dw_rc_tail_add(tail, &whole, 0, (uint32_t)whole.iov_len);
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

/* ---- replies ---- */

static void lost(struct diwarp_rc_qp *qp)
{
    dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
}

static void on_tcp_connected(struct diwarp_rc_qp *qp)
{
    if (qp->stream->ops->finish_connect(qp->stream)) {
        lost(qp);
        return;
    }
    dw_rc_set_state(qp, DW_RC_REQUESTED);
    dw_rc_flush(qp);
    dw_rc_rewatch(qp);
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
    for (uint32_t i = 0; !qp->ord && i < qp->works.count; i++) {
        const struct dw_rc_work *work = dw_ring_at(&qp->works, sizeof *work, i);
        if (work->opcode == DW_RDMAP_READ_REQUEST)
            return DW_TERM_MPA_IRD;
    }
    return 0;
}

static void on_accepted(struct diwarp_rc_qp *qp, struct diwarp_name peer)
{
    struct diwarp_wc wc = {
        .wc = {.opcode = (enum ibv_wc_opcode)DIWARP_WC_CONNECTED, .byte_len = qp->answer_bytes},
        .src = peer,
        .rc_qp = qp,
        .data = qp->answer,
    };
    /* An empty Write lets the other side send (RFC 6581 5). */
    uint8_t rtr[DW_DDP_TAGGED_BYTES];
    const struct dw_ddp_header ddp = {.tagged = true, .last = true, .opcode = DW_RDMAP_WRITE};
    if (!dw_rc_tail_add_fpdu(qp, rtr, dw_ddp_put(rtr, &ddp))) {
        dw_rc_close(qp, IBV_WC_LOC_QP_OP_ERR, 0);
        return;
    }
    dw_rc_set_state(qp, DW_RC_RTS);
    dw_rc_limit(qp, 0);
    qp->may_send = true;
    dw_cq_push(qp->rc->cq, &wc);
    dw_rc_heat(qp);
    dw_rc_flush(qp);
}

static void refuse(struct diwarp_rc_qp *qp)
{
    qp->rc->counters.rc_bad_startup++;
    dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_STARTUP);
}

static void on_reply(struct diwarp_rc_qp *qp, const struct dw_mpa_frame *frame)
{
    struct dw_mpa_enhanced theirs;
    struct dw_rc_hello hello;
    if (frame->revision != qp->attr.mpa_revision ||
        dw_rc_frame_get(frame, &theirs, &hello, &qp->answer, &qp->answer_bytes) ||
        hello.token != qp->token) {
        refuse(qp);
        return;
    }
    if (frame->flags & DW_MPA_REJECT) {
        qp->rc->counters.rc_rejects++;
        dw_rc_close(qp, IBV_WC_REM_INV_REQ_ERR, 0);
        return;
    }
    dw_rc_begin_fpdus(qp, frame, theirs.ird);
    uint16_t cause = disagreement(qp, &theirs);
    if (cause)
        dw_rc_terminate(qp, cause, NULL, 0);
    else
        on_accepted(qp, hello.name);
}

static void read_reply(struct diwarp_rc_qp *qp)
{
    struct dw_mpa_frame frame;
    int rc = dw_rc_frame_read(qp->stream, qp->startup, DW_MPA_REPLY, &frame);
    if (rc == -EBADMSG || rc == -EPROTO || rc == -EPROTONOSUPPORT)
        refuse(qp);
    else if (rc && rc != -EAGAIN)
        lost(qp);
    else if (!rc)
        on_reply(qp, &frame);
}

/* ---- what comes ---- */

static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct diwarp_rc_qp *qp = dw_container(timer, struct diwarp_rc_qp, timer);
    (void)now_ns;
    if (dw_rc_is_standing(qp))
        dw_rc_terminate(qp, DW_TERM_DDP_NO_BUFFER, qp->held.buf, qp->held.ulpdu_bytes);
    else
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, 0);
}

static void on_ready(struct dw_rc_watch *watch, unsigned what, uint64_t now_ns)
{
    struct diwarp_rc_qp *qp = dw_container(watch, struct diwarp_rc_qp, watch);
    if (qp->state == DW_RC_CONNECTING) {
        on_tcp_connected(qp);
        return;
    }
    if (what & DW_STREAM_IN && qp->state == DW_RC_REQUESTED)
        read_reply(qp);
    else if (what & DW_STREAM_IN && dw_rc_may_receive(qp) && dw_rc_receive(qp, now_ns) &&
             qp->stream)
        dw_rc_heat(qp);
    if (what & DW_STREAM_OUT && qp->stream) {
        qp->blocked = false;
        dw_rc_flush(qp);
        dw_rc_rewatch(qp);
    }
}

/* ---- making ---- */

void diwarp_rc_qp_attr_init(struct diwarp_rc_qp_attr *attr)
{
    *attr = (struct diwarp_rc_qp_attr){
        .max_send_wr = 128,
        .max_recv_wr = 128,
        .max_rd_atomic = 16,
        .crc = true,
        .mpa_revision = 2,
        .connect_timeout_ns = 10000000000,
        .rnr_timeout_ns = 10000000000,
    };
}

static bool attr_is_good(const struct dw_rc *rc, const struct diwarp_pd *pd,
                         const struct diwarp_rc_qp_attr *attr)
{
    return attr->cq == rc->cq && pd->device == rc->device && (!attr->srq || attr->srq->pd == pd) &&
           attr->max_send_wr && attr->max_rd_atomic <= DW_MPA_DEPTH_MAX &&
           attr->mpa_revision >= 1 && attr->mpa_revision <= 2;
}

int dw_rc_qp_create(struct dw_rc *rc, struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                    struct diwarp_rc_qp **qp_out)
{
    if (!attr_is_good(rc, pd, attr))
        return -EINVAL;
    struct diwarp_rc_qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return -ENOMEM;
    qp->watch.ready = on_ready;
    qp->timer.fire = on_timer;
    qp->rc = rc;
    qp->pd = pd;
    qp->attr = *attr;
    qp->ird = qp->ord = (uint16_t)attr->max_rd_atomic;
    qp->cursor.send_msn = qp->cursor.read_msn = 1;
    qp->recv_msn = qp->request_msn = 1;
    dw_list_init(&qp->standing_link);
    qp->recvs = attr->srq ? &attr->srq->recvs : &qp->own;
    dw_list_init(&qp->lazy_link);
    dw_list_append(&rc->qps, &qp->link);
    *qp_out = qp;
    return 0;
}

/* ---- calling ---- */

struct diwarp_address dw_rc_address(const struct diwarp_device *device)
{
    struct diwarp_address address = {
        .name = device->attr.name,
        .host_id = device->host_id,
        .interface_count = (uint8_t)device->interface_count,
    };
    memcpy(address.interfaces, device->interfaces, sizeof address.interfaces);
    return address;
}

/* The tail leaves once TCP is set up. */
static bool prepare_request(struct diwarp_rc_qp *qp, uint64_t token, const void *data, size_t bytes)
{
    struct dw_mpa_frame frame = {.kind = DW_MPA_REQUEST,
                                 .flags = dw_rc_frame_flags(&qp->attr),
                                 .revision = qp->attr.mpa_revision};
    struct dw_rc_hello hello = {.name = qp->rc->device->attr.name, .token = token, .ird = qp->ird};
    /* Our first FPDU is an empty Write whatever the revision: the other side may then send. */
    const struct dw_mpa_enhanced enhanced = {
        .peer_to_peer = true, .rtr_write = true, .ird = qp->ird, .ord = qp->ord};
    qp->token = token;
    qp->startup = calloc(1, sizeof *qp->startup);
    return qp->startup && dw_rc_frame_add(&qp->tail, &frame, frame.revision >= 2 ? &enhanced : NULL,
                                          &hello, data, bytes);
}

static int open_stream(struct diwarp_rc_qp *qp, const struct diwarp_address *address,
                       struct diwarp_diagnosis *why)
{
    const struct diwarp_device *device = qp->rc->device;
    const struct diwarp_address local = dw_rc_address(device);
    unsigned here, there;
    if (dw_interface_pair(&local, address, device->attr.same_host, &here, &there)) {
        dw_explain(why, "no interface reaches the other side");
        return -ENETUNREACH;
    }
    const struct diwarp_interface *mine = &local.interfaces[here];
    const struct diwarp_interface *theirs = &address->interfaces[there];
    struct dw_llp_addr from = {.family = mine->family};
    struct dw_llp_addr to = {.family = theirs->family, .port = address->port};
    memcpy(from.ip, mine->ip, sizeof from.ip);
    memcpy(to.ip, theirs->ip, sizeof to.ip);
    struct dw_stream *stream;
    int rc = qp->rc->streams->ops->connect(qp->rc->streams, &from, &to, &stream);
    if (rc)
        dw_explain(why, "cannot connect to the other side: %s", strerror(-rc));
    else
        dw_rc_qp_attach(qp, stream);
    return rc;
}

static int connect_locked(struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                          const struct diwarp_address *address, const void *data, size_t bytes,
                          struct diwarp_rc_qp **qp_out, struct diwarp_diagnosis *why)
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
    error =
        prepare_request(qp, address->token, data, bytes) ? open_stream(qp, address, why) : -ENOMEM;
    if (error) {
        dw_rc_qp_free(qp);
        return error;
    }
    dw_rc_limit(qp, dw_device_now_ns(rc->device));
    dw_rc_rewatch(qp);
    *qp_out = qp;
    return 0;
}

int diwarp_connect(struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                   const struct diwarp_address *address, const void *private_data,
                   size_t private_bytes, struct diwarp_rc_qp **qp, struct diwarp_diagnosis *why)
{
    if (why)
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
