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

int dw_rc_frame_add(struct dw_rc_tail *tail, const struct diwarp_device *device, uint64_t token,
                    struct dw_mpa_frame frame)
{
    const struct dw_rc_hello hello = {.name = device->attr.name, .token = token, .ird = frame.ird};
    uint8_t private_data[DW_MPA_PRIVATE_MAX_BYTES], buf[DW_MPA_FRAME_BYTES + sizeof private_data];
    if (frame.private_bytes > DIWARP_PRIVATE_DATA_MAX_BYTES)
        return -EINVAL;
    dw_rc_hello_put(private_data, &hello);
    if (frame.private_bytes)
        memcpy(private_data + DW_RC_HELLO_BYTES, frame.private_data, frame.private_bytes);
    frame.private_data = private_data;
    frame.private_bytes += DW_RC_HELLO_BYTES;
    struct iovec whole = {buf, dw_mpa_frame_put(buf, &frame)};
    return dw_rc_tail_add(tail, &whole, 0, whole.iov_len) ? 0 : -ENOMEM;
}

int dw_rc_frame_read(struct dw_stream *stream, struct dw_rc_startup *startup, enum dw_mpa_kind kind,
                     uint64_t token)
{
    struct dw_mpa_frame *frame = &startup->frame;
    int rc;
    while ((rc = dw_mpa_frame_get(frame, kind, startup->buf, startup->bytes)) == -EAGAIN) {
        /* What follows the frame belongs to others: no byte of it is read. */
        size_t whole = DW_MPA_FRAME_BYTES;
        if (startup->bytes >= whole)
            whole += dw_get_be16(startup->buf + DW_MPA_FRAME_BYTES - 2);
        struct iovec rest = {startup->buf + startup->bytes, whole - startup->bytes};
        ssize_t n = stream->ops->recv(stream, &rest, 1);
        if (n <= 0)
            return n ? (int)n : -EAGAIN;
        startup->bytes += (uint32_t)n;
    }
    if (rc < 0)
        return rc;
    if (dw_rc_hello_get(&startup->hello, frame->private_data, frame->private_bytes) ||
        startup->hello.token != token)
        return -EPROTO;
    frame->private_data += DW_RC_HELLO_BYTES;
    frame->private_bytes -= DW_RC_HELLO_BYTES;
    if (!(frame->flags & DW_MPA_ENHANCED) || frame->ird == DW_MPA_DEPTH_MAX)
        frame->ird = startup->hello.ird;
    return 0;
}

/* 0, or why the two do not suit each other (RFC 6581 9). */
static uint16_t disagreement(const struct diwarp_rc_qp *qp, const struct dw_mpa_frame *reply)
{
    if (reply->control & DW_MPA_PEER_TO_PEER && !(reply->control & DW_MPA_RTR_WRITE))
        return DW_TERM_MPA_RTR;
    if (reply->ord > qp->ird && reply->ord != DW_MPA_DEPTH_MAX)
        return DW_TERM_MPA_IRD;
    /* The other side answers no reads or atomics: one that was posted already would wait for ever,
     * and with it all that is behind it. */
    for (uint32_t i = 0; !qp->ord && i < qp->works.count; i++) {
        const struct dw_rc_work *work =
            dw_ring_at(&qp->works, dw_rc_work_bytes(qp->attr.max_sge), i);
        if (dw_rc_awaits_response(work))
            return DW_TERM_MPA_IRD;
    }
    return 0;
}

void dw_rc_connected(struct diwarp_rc_qp *qp, const struct dw_rc_startup *theirs)
{
    const struct dw_mpa_frame *frame = &theirs->frame;
    const bool calling = theirs == qp->startup;
    const bool crc = qp->attr.crc || frame->flags & DW_MPA_CRC;
    struct diwarp_wc wc = {.wc = {.opcode = (enum ibv_wc_opcode)DIWARP_WC_CONNECTED},
                           .src = theirs->hello.name,
                           .rc_qp = qp};
    qp->cursor.tx = (struct dw_mpa_stream){.markers = frame->flags & DW_MPA_MARKERS, .crc = crc};
    qp->rx = (struct dw_mpa_stream){.markers = qp->attr.markers, .crc = crc};
    if (frame->ird < qp->ord)
        qp->ord = frame->ird;
    qp->max_ulpdu_bytes =
        (uint32_t)dw_mpa_mulpdu(qp->stream->ops->emss(qp->stream), qp->cursor.tx.markers);
    qp->rc->counters.rc_connects++;
    if (calling) {
        uint16_t cause = disagreement(qp, frame);
        if (cause) {
            dw_rc_terminate(qp, cause, NULL, 0);
            return;
        }
        /* An empty Write lets the other side send (RFC 6581 5). */
        uint8_t rtr[DW_DDP_TAGGED_BYTES];
        const struct dw_ddp_header ddp = {.tagged = true, .last = true, .opcode = DW_RDMAP_WRITE};
        if (!dw_rc_tail_add_fpdu(qp, rtr, dw_ddp_put(rtr, &ddp))) {
            dw_rc_close(qp, IBV_WC_LOC_QP_OP_ERR, 0);
            return;
        }
        qp->may_send = true;
        wc.wc.byte_len = (uint32_t)frame->private_bytes;
        wc.data = frame->private_data;
    }
    dw_rc_set_state(qp, calling ? DW_RC_RTS : DW_RC_RESPONDED);
    dw_cq_push(qp->rc->cq, &wc);
    dw_rc_flush(qp);
    dw_rc_rewatch(qp);
}

static void read_reply(struct diwarp_rc_qp *qp)
{
    struct diwarp_rc_counters *counters = &qp->rc->counters;
    const struct dw_mpa_frame *reply = &qp->startup->frame;
    int rc = dw_rc_frame_read(qp->stream, qp->startup, DW_MPA_REPLY, qp->token);
    if (rc == -EAGAIN)
        return;
    if (!rc && reply->revision != qp->attr.mpa_revision)
        rc = -EPROTO;
    if (rc) {
        bool bad = rc == -EBADMSG || rc == -EPROTO || rc == -EPROTONOSUPPORT;
        counters->rc_bad_startup += bad;
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, bad ? DW_TERM_MPA_STARTUP : DW_TERM_MPA_TCP_LOST);
    } else if (reply->flags & DW_MPA_REJECT) {
        counters->rc_rejects++;
        dw_rc_close(qp, IBV_WC_REM_INV_REQ_ERR, 0);
    } else {
        dw_rc_connected(qp, qp->startup);
    }
}

static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct diwarp_rc_qp *qp = dw_container(timer, struct diwarp_rc_qp, timer);
    (void)now_ns;
    if (dw_rc_is_standing(qp))
        dw_rc_terminate(qp, DW_TERM_DDP_NO_BUFFER, qp->held.buf, qp->held.ulpdu_bytes);
    else
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, 0);
}

static void on_ready(void *owner, unsigned what, uint64_t now_ns)
{
    struct diwarp_rc_qp *qp = owner;
    struct dw_rc *rc = qp->rc;
    if (what & DW_STREAM_IN && qp->state == DW_RC_CONNECTING)
        read_reply(qp);
    else if (what & DW_STREAM_IN && dw_rc_may_receive(qp) && dw_rc_receive(qp, now_ns) &&
             qp->stream && !(rc->hot && rc->hot_brings))
        rc->hot = qp; /* read without asking from now on; the one that was brings nothing */
    if (what & DW_STREAM_OUT && qp->stream) {
        qp->blocked = false;
        dw_rc_flush(qp);
        dw_rc_rewatch(qp);
    }
}

void diwarp_rc_qp_attr_init(struct diwarp_rc_qp_attr *attr)
{
    *attr = (struct diwarp_rc_qp_attr){
        .max_send_wr = 128,
        .max_recv_wr = 128,
        .max_sge = 4,
        .max_rd_atomic = 16,
        .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
        .crc = true,
        .mpa_revision = 2,
        .connect_timeout_ns = 10000000000,
        .rnr_timeout_ns = 10000000000,
        .rnr_timer_ns = 10000000000,
    };
}

int dw_rc_qp_create(struct dw_rc *rc, struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                    struct diwarp_rc_qp **qp_out)
{
    if (attr->cq != rc->cq || pd->device != rc->device ||
        (attr->srq && attr->srq->pd->device != rc->device) || !attr->max_send_wr ||
        !attr->max_sge || attr->max_sge > DW_RC_MAX_SGE || attr->max_rd_atomic > DW_MPA_DEPTH_MAX ||
        attr->mpa_revision < 1 || attr->mpa_revision > 2)
        return -EINVAL;
    const size_t recv_bytes = dw_recv_bytes(attr->srq ? attr->srq->max_sge : attr->max_sge);
    struct diwarp_rc_qp *qp = malloc(sizeof *qp + recv_bytes);
    if (!qp)
        return -ENOMEM;
    *qp = (struct diwarp_rc_qp){
        .timer = {.fire = on_timer},
        .rnr_retries = DW_RC_RNR_FOREVER,
        .taken = UINT64_MAX,
        .rc = rc,
        .pd = pd,
        .attr = *attr,
        .ird = (uint16_t)attr->max_rd_atomic,
        .ord = (uint16_t)attr->max_rd_atomic,
        .cursor = {.send_msn = 1, .read_msn = 1, .response_msn = 1},
        .recv_msn = 1,
        .request_msn = 1,
        .response_msn = 1,
        .recvs = attr->srq ? &attr->srq->recvs : &qp->own,
        .recv_bytes = recv_bytes,
        .current = (struct dw_recv *)(qp + 1),
    };
    dw_list_init(&qp->standing_link);
    dw_list_init(&qp->lazy_link);
    dw_list_append(&rc->qps, &qp->link);
    *qp_out = qp;
    return 0;
}

void dw_rc_qp_attach(struct diwarp_rc_qp *qp, struct dw_stream *stream)
{
    qp->stream = stream;
    qp->peer = stream->peer;
    stream->owner = qp;
    stream->ready = on_ready;
    qp->rc->counters.rc_connections++;
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
static int prepare_request(struct diwarp_rc_qp *qp, uint64_t token, const void *data, size_t bytes)
{
    const uint8_t revision = qp->attr.mpa_revision;
    /* Our first FPDU is an empty Write whatever the revision: the other side may then send. */
    const struct dw_mpa_frame frame = {
        .kind = DW_MPA_REQUEST,
        .flags = dw_rc_frame_flags(&qp->attr) | (revision >= 2 ? DW_MPA_ENHANCED : 0),
        .revision = revision,
        .control = DW_MPA_PEER_TO_PEER | DW_MPA_RTR_WRITE,
        .ird = qp->ird,
        .ord = qp->ord,
        .private_data = data,
        .private_bytes = bytes,
    };
    qp->token = token;
    qp->startup = calloc(1, sizeof *qp->startup);
    return qp->startup ? dw_rc_frame_add(&qp->tail, qp->rc->device, token, frame) : -ENOMEM;
}

static int open_stream(struct diwarp_rc_qp *qp, const struct diwarp_address *address,
                       struct diwarp_diagnosis *why)
{
    const struct diwarp_device *device = qp->rc->device;
    const struct diwarp_address local = dw_rc_address(device);
    struct dw_interface_pair pairs[DIWARP_MAX_INTERFACES];
    if (dw_interface_pairs(&local, address, device->attr.same_host, pairs) < 0) {
        dw_explain(why, "no interface reaches the other side");
        return -ENETUNREACH;
    }
    const struct diwarp_interface *mine = &local.interfaces[pairs[0].here];
    const struct diwarp_interface *theirs = &address->interfaces[pairs[0].there];
    struct dw_llp_addr from = {.family = mine->family};
    struct dw_llp_addr to = {.family = theirs->family, .port = address->port};
    memcpy(from.ip, mine->ip, sizeof from.ip);
    memcpy(to.ip, theirs->ip, sizeof to.ip);
    struct dw_stream *stream;
    int rc = qp->rc->streams->ops->connect(qp->rc->streams, &from, &to, &stream);
    if (rc) {
        dw_explain(why, "cannot connect to the other side: %s", strerror(-rc));
        return rc;
    }
    dw_rc_qp_attach(qp, stream);
    dw_rc_limit(qp, dw_device_now_ns(device));
    qp->blocked = true; /* until TCP is set up */
    dw_rc_rewatch(qp);
    return 0;
}

int diwarp_connect(struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                   const struct diwarp_address *address, const void *private_data,
                   size_t private_bytes, struct diwarp_rc_qp **qp_out, struct diwarp_diagnosis *why)
{
    struct dw_rc *rc;
    struct diwarp_rc_qp *qp = NULL;
    dw_lock(pd->device);
    int error = attr->cq ? dw_rc_get(attr->cq, &rc) : -EINVAL;
    if (!error)
        error = dw_rc_qp_create(rc, pd, attr, &qp);
    if (!error)
        error = prepare_request(qp, address->token, private_data, private_bytes);
    if (error)
        dw_explain(why, "cannot make a queue pair: %s",
                   error == -EINVAL ? "malformed attributes or private data" : strerror(-error));
    else
        error = open_stream(qp, address, why);
    if (!error)
        *qp_out = qp;
    else if (qp)
        dw_rc_qp_free(qp);
    dw_unlock(pd->device);
    return error;
}
