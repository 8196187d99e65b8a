/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners, the calls that come to them, and the answers: the called side of MPA set-up. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/llp/interface.h"
#include "common/llp/socket.h"
#include "common/rc/qp.h"
#include "common/rnic/device.h"

/* Until a listener without a descriptor for the next call tries again: in so much time others may
 * have closed one, and half of it would wake a process that sleeps twice as often. */
#define REST_NS (50ull * 1000000)

/* A call: its request is read, then it waits for the application. */
struct diwarp_connect_request {
    struct dw_list link; /* in listener.calls */
    bool proven;         /* it has shown the token */
    struct diwarp_listener *listener;
    struct dw_stream *stream; /* NULL: it was given away */
    uint64_t called_ns;
    struct dw_timer timer; /* until it has shown the token */
    struct dw_rc_startup startup;
};

/* ---- calls ---- */

/* The listener takes no calls before until_ns (DW_NEVER: it does from now on), nor while too many
 * wait for the application. A call in the backlog must not keep its descriptor ready meanwhile, or
 * nobody could sleep. */
static void rest(struct diwarp_listener *listener, uint64_t until_ns)
{
    (void)dw_heap_set(&listener->rc->timers, &listener->timer, until_ns);
    bool room = !listener->timer.slot && listener->request_count < DW_RC_STRAYS_MAX;
    listener->stream->ops->watch(listener->stream, room ? DW_STREAM_IN : 0);
}

static void free_request(struct diwarp_connect_request *request)
{
    struct diwarp_listener *listener = request->listener;
    if (request->stream)
        request->stream->ops->close(request->stream);
    (void)dw_heap_set(&listener->rc->timers, &request->timer, DW_NEVER);
    dw_list_remove(&request->link);
    --*(request->proven ? &listener->request_count : &listener->stranger_count);
    listener->rc->receive_bytes -= sizeof *request;
    free(request);
    rest(listener, DW_NEVER);
}

static void on_stranger(struct diwarp_connect_request *request)
{
    request->listener->rc->counters.rc_bad_startup++;
    free_request(request);
}

static void on_silence(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    on_stranger(dw_container(timer, struct diwarp_connect_request, timer));
}

/* NULL: there is room for one more. */
static struct diwarp_connect_request *stranger_in_the_way(const struct diwarp_listener *listener)
{
    if (listener->stranger_count >= DW_RC_STRAYS_MAX)
        dw_foreach (oldest, struct diwarp_connect_request, link, &listener->calls)
            if (!oldest->proven)
                return oldest;
    return NULL;
}

/* Here and not when the next one calls: what is known to be ready must not be freed then. */
static void on_rested(struct dw_timer *timer, uint64_t now_ns)
{
    struct diwarp_listener *listener = dw_container(timer, struct diwarp_listener, timer);
    struct diwarp_connect_request *oldest = stranger_in_the_way(listener);
    if (oldest && now_ns >= oldest->called_ns + DW_RC_STRAY_NS)
        on_stranger(oldest);
    rest(listener, DW_NEVER);
}

static void request_ready(void *owner, unsigned what, uint64_t now_ns)
{
    struct diwarp_connect_request *request = owner;
    struct diwarp_listener *listener = request->listener;
    const struct dw_rc_startup *startup = &request->startup;
    int rc = dw_rc_frame_read(request->stream, &request->startup, DW_MPA_REQUEST, listener->token);
    (void)what;
    (void)now_ns;
    if (rc == -EAGAIN)
        return;
    if (rc) {
        on_stranger(request);
        return;
    }
    (void)dw_heap_set(&listener->rc->timers, &request->timer, DW_NEVER);
    request->proven = true;
    listener->stranger_count--;
    listener->request_count++;
    request->stream->ops->watch(request->stream, 0); /* what becomes of it shows when answered */
    rest(listener, DW_NEVER);
    const struct diwarp_wc wc = {
        .wc = {.opcode = (enum ibv_wc_opcode)DIWARP_WC_CONNECT_REQUEST,
               .byte_len = (uint32_t)startup->frame.private_bytes},
        .src = startup->hello.name,
        .request = request,
        .data = startup->frame.private_data,
    };
    dw_cq_push(listener->rc->cq, &wc);
}

static void on_call(struct diwarp_listener *listener, struct dw_stream *stream, uint64_t now_ns)
{
    struct diwarp_connect_request *request = malloc(sizeof *request);
    if (!request) {
        stream->ops->close(stream);
        return;
    }
    *request = (struct diwarp_connect_request){
        .timer = {.fire = on_silence}, .listener = listener, .stream = stream, .called_ns = now_ns};
    stream->owner = request;
    stream->ready = request_ready;
    dw_list_append(&listener->calls, &request->link);
    listener->stranger_count++;
    listener->rc->receive_bytes += sizeof *request;
    /* TCP takes a call at once, but MPA's request leaves when its process polls: one that computes
     * is as silent as a stranger, and for as long as a peer may be. */
    uint64_t patience_ns = listener->rc->device->attr.peer_timeout_ns;
    (void)dw_heap_set(&listener->rc->timers, &request->timer,
                      dw_deadline_ns(now_ns, patience_ns ? patience_ns : DW_NEVER));
    stream->ops->watch(stream, DW_STREAM_IN);
    request_ready(request, DW_STREAM_IN, now_ns); /* most have sent it by now */
}

static void listener_ready(void *owner, unsigned what, uint64_t now_ns)
{
    struct diwarp_listener *listener = owner;
    const struct diwarp_connect_request *oldest = stranger_in_the_way(listener);
    uint64_t until_ns = oldest ? oldest->called_ns + DW_RC_STRAY_NS : DW_NEVER;
    int rc = 0;
    (void)what;
    for (unsigned i = 0; !rc && i < DW_RC_TURNS && !stranger_in_the_way(listener) &&
                         listener->request_count < DW_RC_STRAYS_MAX;
         i++) {
        struct dw_stream *stream;
        rc = listener->stream->ops->accept(listener->stream, &stream);
        if (!rc)
            on_call(listener, stream, now_ns);
    }
    if (rc == -EMFILE) {
        listener->rc->counters.rc_no_descriptor++;
        until_ns = now_ns + REST_NS;
    }
    rest(listener, until_ns);
}

/* ---- answers ---- */

/* qp: NULL rejects. The reply agrees (RFC 6581 9) to any first FPDU that the caller may send, a
 * Read if it is answered; and no more reads are sent than the caller answers. */
static int add_reply(struct dw_rc_tail *tail, const struct diwarp_connect_request *request,
                     const struct diwarp_rc_qp *qp, const void *data, size_t bytes)
{
    const struct diwarp_listener *listener = request->listener;
    const struct dw_mpa_frame *asked = &request->startup.frame;
    const uint16_t ird = qp ? qp->ird : 0, ord = qp ? qp->ord : 0;
    const uint8_t refused = ird ? 0 : DW_MPA_RTR_READ;
    const struct dw_mpa_frame frame = {
        .kind = DW_MPA_REPLY,
        .flags =
            (asked->flags & DW_MPA_ENHANCED) | (qp ? dw_rc_frame_flags(&qp->attr) : DW_MPA_REJECT),
        .revision = asked->revision,
        .control = asked->control & DW_MPA_PEER_TO_PEER ? asked->control & ~refused : 0,
        .ird = ird,
        .ord = ord < asked->ird ? ord : asked->ird,
        .private_data = data,
        .private_bytes = bytes,
    };
    return dw_rc_frame_add(tail, listener->rc->device, listener->token, frame);
}

static void reject(struct diwarp_connect_request *request, const void *data, size_t bytes)
{
    struct dw_rc *rc = request->listener->rc;
    struct dw_rc_tail tail = {0};
    rc->counters.rc_rejects++;
    if (!add_reply(&tail, request, NULL, data, bytes)) {
        dw_rc_linger(rc, request->stream, tail);
        request->stream = NULL;
    }
    free_request(request);
}

int diwarp_accept(struct diwarp_connect_request *request, struct diwarp_pd *pd,
                  const struct diwarp_rc_qp_attr *attr, const void *private_data,
                  size_t private_bytes, struct diwarp_rc_qp **qp_out)
{
    struct dw_rc *rc = request->listener->rc;
    struct diwarp_rc_qp *qp = NULL;
    dw_lock(rc->device);
    int error = dw_rc_qp_create(rc, pd, attr, &qp);
    if (!error)
        error = add_reply(&qp->tail, request, qp, private_data, private_bytes);
    if (error) {
        if (qp)
            dw_rc_qp_free(qp);
        reject(request, NULL, 0);
    } else {
        dw_rc_qp_attach(qp, request->stream);
        request->stream = NULL;
        dw_rc_connected(qp, &request->startup);
        free_request(request);
        *qp_out = qp;
    }
    dw_unlock(rc->device);
    return error;
}

void diwarp_reject(struct diwarp_connect_request *request, const void *private_data,
                   size_t private_bytes)
{
    struct diwarp_device *device = request->listener->rc->device;
    dw_lock(device);
    if (private_bytes > DIWARP_PRIVATE_DATA_MAX_BYTES)
        private_bytes = DIWARP_PRIVATE_DATA_MAX_BYTES;
    reject(request, private_data, private_bytes);
    dw_unlock(device);
}

/* ---- listeners ---- */

int diwarp_listen(struct diwarp_pd *pd, struct diwarp_cq *cq, struct diwarp_listener **out,
                  struct diwarp_diagnosis *why)
{
    struct diwarp_device *device = pd->device;
    struct dw_llp_addr at = dw_device_listens_at(device);
    at.port = device->attr.port_min;
    struct diwarp_listener *listener = malloc(sizeof *listener);
    if (!listener) {
        dw_explain(why, "out of memory");
        return -ENOMEM;
    }
    dw_lock(device);
    *listener = (struct diwarp_listener){.timer = {.fire = on_rested},
                                         .token = device->attr.token ? device->attr.token
                                                                     : dw_device_random(device)};
    dw_list_init(&listener->calls);
    int rc = dw_rc_get(cq, &listener->rc);
    if (rc)
        dw_explain(why, "cannot watch connections: %s", strerror(-rc));
    else
        rc = listener->rc->streams->ops->listen(listener->rc->streams, &at, device->attr.port_max,
                                                &listener->stream, &listener->port, why);
    if (!rc) {
        listener->stream->owner = listener;
        listener->stream->ready = listener_ready;
        dw_list_append(&listener->rc->listeners, &listener->link);
        rest(listener, DW_NEVER);
        *out = listener;
    } else {
        free(listener);
    }
    dw_unlock(device);
    return rc;
}

void diwarp_query_listener(const struct diwarp_listener *listener, struct diwarp_address *address)
{
    *address = dw_rc_address(listener->rc->device);
    address->token = listener->token;
    address->port = listener->port;
}

int diwarp_listener_reaches(const struct diwarp_listener *listener,
                            const struct diwarp_address *address)
{
    const struct diwarp_device *device = listener->rc->device;
    const struct diwarp_address local = dw_rc_address(device);
    struct dw_interface_pair pairs[DIWARP_MAX_INTERFACES];
    const int rc = dw_interface_pairs(&local, address, device->attr.same_host, pairs);
    return rc < 0 ? rc : 0;
}

void diwarp_destroy_listener(struct diwarp_listener *listener)
{
    struct diwarp_device *device = listener->rc->device;
    dw_lock(device);
    dw_foreach (request, struct diwarp_connect_request, link, &listener->calls) {
        dw_cq_forget(listener->rc->cq, 0, request);
        if (request->proven)
            reject(request, NULL, 0);
        else
            free_request(request);
    }
    (void)dw_heap_set(&listener->rc->timers, &listener->timer, DW_NEVER);
    listener->stream->ops->close(listener->stream);
    dw_list_remove(&listener->link);
    dw_unlock(device);
    free(listener);
}
