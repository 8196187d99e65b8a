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
    struct dw_rc_watch watch;
    struct dw_list link; /* in listener.calls */
    bool proven;         /* it has shown the token */
    struct diwarp_listener *listener;
    struct dw_stream *stream;
    uint64_t called_ns;
    struct dw_timer timer;
    struct dw_mpa_frame frame;
    struct dw_mpa_enhanced enhanced;
    struct dw_rc_hello hello;
    struct dw_rc_startup startup;
};

/* ---- calls ---- */

static void watch_listener(struct diwarp_listener *listener)
{
    bool room = !listener->resting && listener->request_count < DW_RC_STRAYS_MAX;
    listener->stream->ops->watch(listener->stream, room ? DW_STREAM_IN : 0);
}

/* What waits for it must not keep it ready: nobody could sleep. */
static void rest(struct diwarp_listener *listener, uint64_t until_ns)
{
    listener->resting = !dw_heap_set(&listener->rc->timers, &listener->timer, until_ns);
}

static void rest_no_more(struct diwarp_listener *listener)
{
    listener->resting = false;
    (void)dw_heap_set(&listener->rc->timers, &listener->timer, DW_NEVER);
    watch_listener(listener);
}

/* It is no stranger any more, or none of those that wait. */
static void uncount(struct diwarp_connect_request *request)
{
    struct diwarp_listener *listener = request->listener;
    --*(request->proven ? &listener->request_count : &listener->stranger_count);
    (void)dw_heap_set(&listener->rc->timers, &request->timer, DW_NEVER);
    rest_no_more(listener);
}

/* Closes its stream, unless that was given away. */
static void free_request(struct diwarp_connect_request *request)
{
    if (request->stream)
        request->stream->ops->close(request->stream);
    dw_list_remove(&request->link);
    uncount(request);
    request->listener->rc->receive_bytes -= sizeof *request;
    free(request);
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
    rest_no_more(listener);
}

static void on_request(struct diwarp_connect_request *request)
{
    struct diwarp_listener *listener = request->listener;
    struct diwarp_wc wc = {.wc = {.opcode = (enum ibv_wc_opcode)DIWARP_WC_CONNECT_REQUEST},
                           .request = request};
    if (dw_rc_frame_get(&request->frame, &request->enhanced, &request->hello,
                        (const uint8_t **)&wc.data, &wc.wc.byte_len) ||
        request->hello.token != listener->token) {
        on_stranger(request);
        return;
    }
    uncount(request);
    request->proven = true;
    listener->request_count++;
    request->stream->ops->watch(request->stream, 0); /* what becomes of it shows when answered */
    watch_listener(listener);
    wc.src = request->hello.name;
    dw_cq_push(request->listener->rc->cq, &wc);
}

static void request_ready(struct dw_rc_watch *watch, unsigned what, uint64_t now_ns)
{
    struct diwarp_connect_request *request =
        dw_container(watch, struct diwarp_connect_request, watch);
    (void)what;
    (void)now_ns;
    int rc = dw_rc_frame_read(request->stream, &request->startup, DW_MPA_REQUEST, &request->frame);
    if (!rc)
        on_request(request);
    else if (rc != -EAGAIN)
        on_stranger(request);
}

static void on_call(struct diwarp_listener *listener, struct dw_stream *stream, uint64_t now_ns)
{
    struct diwarp_connect_request *request = calloc(1, sizeof *request);
    if (!request) {
        stream->ops->close(stream);
        return;
    }
    *request = (struct diwarp_connect_request){.watch = {.ready = request_ready},
                                               .timer = {.fire = on_silence},
                                               .listener = listener,
                                               .stream = stream,
                                               .called_ns = now_ns};
    stream->owner = &request->watch;
    dw_list_append(&listener->calls, &request->link);
    listener->stranger_count++;
    listener->rc->receive_bytes += sizeof *request;
    /* TCP takes a call at once, but MPA's request leaves when its process polls: one that computes
     * is as silent as a stranger, and for as long as a peer may be. */
    uint64_t patience_ns = listener->rc->device->attr.peer_timeout_ns;
    (void)dw_heap_set(&listener->rc->timers, &request->timer,
                      dw_deadline_ns(now_ns, patience_ns ? patience_ns : DW_NEVER));
    stream->ops->watch(stream, DW_STREAM_IN);
    request_ready(&request->watch, DW_STREAM_IN, now_ns); /* most have sent it by now */
}

static void listener_ready(struct dw_rc_watch *watch, unsigned what, uint64_t now_ns)
{
    struct diwarp_listener *listener = dw_container(watch, struct diwarp_listener, watch);
    const struct diwarp_connect_request *oldest = stranger_in_the_way(listener);
    int rc = 0;
    (void)what;
    if (oldest)
        rest(listener, oldest->called_ns + DW_RC_STRAY_NS);
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
        rest(listener, now_ns + REST_NS);
    }
    watch_listener(listener);
}

/* ---- answers ---- */

/* qp: NULL rejects. The reply agrees (RFC 6581 9) to any first FPDU that the caller may send, a
 * Read if it is answered; and no more reads are sent than the caller answers. */
static bool add_reply(struct dw_rc_tail *tail, const struct diwarp_connect_request *request,
                      const struct diwarp_rc_qp *qp, const void *data, size_t bytes)
{
    const struct diwarp_listener *listener = request->listener;
    const struct dw_mpa_enhanced *asked = &request->enhanced;
    uint16_t ird = qp ? qp->ird : 0, ord = qp ? qp->ord : 0;
    bool rtr = asked->peer_to_peer;
    struct dw_mpa_frame frame = {.kind = DW_MPA_REPLY,
                                 .flags = qp ? dw_rc_frame_flags(&qp->attr) : DW_MPA_REJECT,
                                 .revision = request->frame.revision};
    const struct dw_mpa_enhanced enhanced = {
        .peer_to_peer = rtr,
        .rtr_empty = rtr && asked->rtr_empty,
        .rtr_write = rtr && asked->rtr_write,
        .rtr_read = rtr && asked->rtr_read && ird,
        .ird = ird,
        .ord = ord < asked->ird ? ord : asked->ird,
    };
    const struct dw_rc_hello hello = {
        .name = listener->rc->device->attr.name, .token = listener->token, .ird = ird};
    return dw_rc_frame_add(tail, &frame, request->frame.flags & DW_MPA_ENHANCED ? &enhanced : NULL,
                           &hello, data, bytes);
}

static void reject(struct diwarp_connect_request *request, const void *data, size_t bytes)
{
    struct dw_rc *rc = request->listener->rc;
    struct dw_rc_tail tail = {0};
    rc->counters.rc_rejects++;
    if (add_reply(&tail, request, NULL, data, bytes)) {
        dw_rc_linger(rc, request->stream, tail);
        request->stream = NULL;
    }
    free_request(request);
}

static int accept_locked(struct diwarp_connect_request *request, struct diwarp_pd *pd,
                         const struct diwarp_rc_qp_attr *attr, const void *data, size_t bytes,
                         struct diwarp_rc_qp **qp_out)
{
    struct diwarp_rc_qp *qp;
    int rc = bytes > DIWARP_PRIVATE_DATA_MAX_BYTES
                 ? -EINVAL
                 : dw_rc_qp_create(request->listener->rc, pd, attr, &qp);
    if (!rc && !add_reply(&qp->tail, request, qp, data, bytes)) {
        dw_rc_qp_free(qp);
        rc = -ENOMEM;
    }
    if (rc) {
        reject(request, NULL, 0);
        return rc;
    }
    dw_rc_qp_attach(qp, request->stream);
    request->stream = NULL;
    dw_rc_begin_fpdus(qp, &request->frame, request->enhanced.ird);
    dw_rc_set_state(qp, DW_RC_RESPONDED);
    dw_rc_limit(qp, dw_device_now_ns(qp->rc->device));
    dw_rc_flush(qp);
    dw_rc_rewatch(qp);
    struct diwarp_wc wc = {
        .wc = {.opcode = (enum ibv_wc_opcode)DIWARP_WC_CONNECTED},
        .src = request->hello.name,
        .rc_qp = qp,
    };
    dw_cq_push(qp->rc->cq, &wc);
    free_request(request);
    dw_rc_heat(qp);
    *qp_out = qp;
    return 0;
}

int diwarp_accept(struct diwarp_connect_request *request, struct diwarp_pd *pd,
                  const struct diwarp_rc_qp_attr *attr, const void *private_data,
                  size_t private_bytes, struct diwarp_rc_qp **qp)
{
    struct diwarp_device *device = request->listener->rc->device;
    dw_lock(device);
    int rc = accept_locked(request, pd, attr, private_data, private_bytes, qp);
    dw_unlock(device);
    return rc;
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

static int open_listener(struct diwarp_listener *listener, struct diwarp_diagnosis *why)
{
    const struct diwarp_device *device = listener->rc->device;
    struct dw_llp_addr at = {.family = AF_INET6, .port = device->attr.port_min};
    for (unsigned i = 0; i < device->interface_count; i++)
        if (device->interfaces[i].family == AF_INET)
            at.family = AF_INET;
    /* As for datagrams: one interface, listen there only. */
    if (device->interface_count == 1)
        memcpy(at.ip, device->interfaces[0].ip, sizeof at.ip);
    struct dw_streams *streams = listener->rc->streams;
    int rc = streams->ops->listen(streams, &at, device->attr.port_max, &listener->stream,
                                  &listener->port, why);
    if (rc)
        return rc;
    listener->stream->owner = &listener->watch;
    watch_listener(listener);
    return 0;
}

int diwarp_listen(struct diwarp_pd *pd, struct diwarp_cq *cq, struct diwarp_listener **out,
                  struct diwarp_diagnosis *why)
{
    if (why)
        why->text[0] = '\0';
    struct diwarp_listener *listener = calloc(1, sizeof *listener);
    if (!listener) {
        dw_explain(why, "out of memory");
        return -ENOMEM;
    }
    dw_lock(pd->device);
    listener->watch.ready = listener_ready;
    listener->timer.fire = on_rested;
    dw_list_init(&listener->calls);
    listener->token = dw_device_random(pd->device);
    int rc = dw_rc_get(cq, &listener->rc);
    if (rc)
        dw_explain(why, "cannot watch connections: %s", strerror(-rc));
    else
        rc = open_listener(listener, why);
    if (!rc)
        dw_list_append(&listener->rc->listeners, &listener->link);
    dw_unlock(pd->device);
    if (rc) {
        free(listener);
        return rc;
    }
    *out = listener;
    return 0;
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
    unsigned here, there;
    return dw_interface_pair(&local, address, device->attr.same_host, &here, &there);
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
