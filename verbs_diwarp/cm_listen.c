/* SPDX-License-Identifier: BSD-3-Clause */
/* The side that is called. What comes from the network is bounded: in size by the messages, in time
 * and number while the caller has said nothing, by the backlog until the program takes the event,
 * as with the kernel's CM, and in number until it answers. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs_diwarp/cm_connected.h"
#include "verbs_diwarp/cm_device.h"
#include "verbs_diwarp/cm_route.h"
#include "verbs_diwarp/cm_sockaddr.h"

/* A caller has connected in order to speak. The oldest of those who say nothing makes room. */
#define SILENT_NS  INT64_C(5000000000)
#define MAX_SILENT 64
/* Who has been silent for less is not the one that makes room. */
#define LEAST_NS INT64_C(500000000)
/* Until it is tried again whether there is a descriptor for a caller. */
#define REST_NS INT64_C(50000000)
/* After its answer. */
#define READY_NS INT64_C(30000000000)

#define MAX_BACKLOG 1024
/* Callers of one listener that have no answer yet, whether the program has taken their events or
 * not: each keeps a socket. */
#define MAX_UNANSWERED 1024

/* ---- the request ---- */

static void refuse(struct dv_cm_link *link, uint8_t qp_type, uint32_t reason)
{
    const struct dv_cm_message message = {
        .type = DV_CM_REJECT, .qp_type = qp_type, .status = reason};
    (void)dv_cm_link_send(link, &message);
    dv_cm_link_close(link);
}

/* The caller has given up, or says what is not its turn: the program hears it when it answers. */
static void on_impatience(struct dv_cm_link *link)
{
    struct dv_cm_message message;
    if (dv_cm_link_receive(link, &message))
        dv_cm_close_link(link->id);
}

/* IPv4's own, where a socket of IPv6 has been called by it. */
static void unmap(struct sockaddr_storage *storage)
{
    const struct sockaddr *address = (const struct sockaddr *)storage;
    const union ibv_gid gid = dv_cm_gid_of(address);
    if (dv_is_ipv4(&gid))
        *storage = dv_cm_sockaddr_of(&gid, dv_cm_port_of(address));
}

static struct dv_cm_id *new_caller(struct dv_cm_id *listener, struct dv_cm_link *link)
{
    struct dv_cm_id *id = dv_cm_id_new(listener->id.channel, listener->id.ps);
    struct rdma_addr *addr;
    if (!id)
        return NULL;
    addr = &id->id.route.addr;
    socklen_t src_bytes = sizeof addr->src_storage, dst_bytes = sizeof addr->dst_storage;
    int rc = getsockname(link->fd, &addr->src_addr, &src_bytes) ||
             getpeername(link->fd, &addr->dst_addr, &dst_bytes);
    if (!rc) {
        unmap(&addr->src_storage);
        unmap(&addr->dst_storage);
        rc = dv_cm_use_address(id, &addr->src_addr);
    }
    if (rc) {
        dv_cm_id_drop(id);
        return NULL;
    }
    id->id.context = listener->id.context;
    dv_cm_set_state(id, DV_CM_REQUESTED);
    return id;
}

static void request(struct dv_cm_link *link, const struct dv_cm_message *message)
{
    struct dv_cm_id *listener = link->listener;
    struct dv_cm_id *id = NULL;
    if (message->type != DV_CM_REQUEST || message->qp_type != dv_cm_type_of(listener)) {
        refuse(link, message->qp_type, DV_CM_INVALID_SERVICE);
        return;
    }
    if (listener->untaken_count < listener->backlog && listener->caller_count < MAX_UNANSWERED)
        id = new_caller(listener, link);
    if (!id || !dv_cm_may_have_gid(&id->id.route.addr.dst_addr, message->gid)) {
        if (id)
            dv_cm_id_drop(id);
        refuse(link, message->qp_type, id ? DV_CM_INVALID_SERVICE : DV_CM_NO_RESOURCES);
        return;
    }
    id->other = *message;
    dv_cm_route_to(id, message->gid);
    dv_cm_route_add_path(id);
    if (dv_cm_tell_request(listener, id)) {
        dv_cm_id_drop(id);
        refuse(link, message->qp_type, DV_CM_NO_RESOURCES);
        return;
    }
    id->listener = listener;
    LIST_INSERT_HEAD(&listener->callers, id, among_callers);
    listener->caller_count++;
    id->link = link;
    link->id = id;
    link->listener = NULL;
    link->on_ready = on_impatience;
    dv_cm_link_wait(link, DV_CM_NEVER);
}

static void on_request(struct dv_cm_link *link)
{
    struct dv_cm_message message;
    const int rc = dv_cm_link_receive(link, &message);
    if (rc < 0)
        dv_cm_link_close(link);
    else if (rc)
        request(link, &message);
}

static void on_silence(struct dv_cm_link *link)
{
    dv_cm_link_close(link);
}

static void on_rested(struct dv_cm_link *link)
{
    dv_cm_link_wait(link, DV_CM_NEVER);
    dv_cm_link_reads(link);
}

static void on_call(struct dv_cm_link *link)
{
    unsigned silent;
    const int fd = accept4(link->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        dv_cm_link_mute(link);
        dv_cm_link_wait(link, dv_cm_now_ns() + REST_NS);
    }
    if (fd < 0)
        return;
    struct dv_cm_link *oldest = dv_cm_link_oldest_silent(&silent);
    const bool full = silent >= MAX_SILENT;
    const bool makes_room = full && oldest->deadline_ns - SILENT_NS + LEAST_NS < dv_cm_now_ns();
    if (makes_room)
        dv_cm_link_close(oldest);
    struct dv_cm_link *caller = full && !makes_room ? NULL : dv_cm_link_open(fd);
    if (!caller) {
        close(fd);
        return;
    }
    caller->listener = link->id;
    caller->on_ready = on_request;
    caller->on_deadline = on_silence;
    dv_cm_link_reads(caller);
    dv_cm_link_wait(caller, dv_cm_now_ns() + SILENT_NS);
}

/* ---- listening ---- */

static int start_listening(struct dv_cm_id *id, int backlog)
{
    if (!dv_cm_may(id, DV_CM_LISTENING))
        return EINVAL;
    id->backlog = backlog > 0 && backlog < MAX_BACKLOG ? (uint32_t)backlog : MAX_BACKLOG;
    dv_cm_set_reuse(id->fd, 1);
    if (listen(id->fd, MAX_BACKLOG))
        return errno;
    id->link = dv_cm_link_open(id->fd);
    if (!id->link)
        return errno;
    id->fd = -1;
    id->link->id = id;
    id->link->on_ready = on_call;
    id->link->on_deadline = on_rested;
    dv_cm_link_reads(id->link);
    dv_cm_set_state(id, DV_CM_LISTENING);
    return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    if (dv_cm_id_of(id)->state == DV_CM_IDLE && rdma_bind_addr(id, (struct sockaddr *)&any))
        return -1;
    dv_cm_lock();
    const int rc = start_listening(dv_cm_id_of(id), backlog);
    dv_cm_unlock();
    return rc ? dv_cm_fail(rc) : 0;
}

/* ---- the answer ---- */

static void on_ready(struct dv_cm_link *link)
{
    struct dv_cm_id *id = link->id;
    struct dv_cm_message message;
    const int rc = dv_cm_link_receive(link, &message);
    if (rc > 0 && message.type == DV_CM_READY) {
        dv_cm_connected(id);
        dv_cm_tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    } else if (rc) {
        dv_cm_qp_fail(id);
        dv_cm_not_connected(id, RDMA_CM_EVENT_CONNECT_ERROR, rc < 0 ? rc : -EPROTO, NULL);
    }
}

static void on_ready_overdue(struct dv_cm_link *link)
{
    dv_cm_qp_fail(link->id);
    dv_cm_not_connected(link->id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}

/* 0 or a positive errno. */
static int send_answer(struct dv_cm_id *id)
{
    uint32_t psn = 0;
    if (!id->link)
        return ECONNRESET;
    (void)!getrandom(&psn, sizeof psn, 0);
    id->own.psn = psn & 0xffffff;
    const int rc = dv_cm_qp_connect(id);
    return rc ? rc : -dv_cm_link_send(id->link, &id->own);
}

/* 0 or a positive errno. As with librdmacm, the queue pair of who could not be answered is in
 * error: its receives are flushed. */
static int answer(struct dv_cm_id *id, const struct rdma_conn_param *param)
{
    if (id->state != DV_CM_REQUESTED || dv_cm_qp_fill(id, DV_CM_ACCEPT, param))
        return EINVAL;
    const int rc = send_answer(id);
    if (rc) {
        dv_cm_qp_fail(id);
        return rc;
    }
    dv_cm_leave_listener(id);
    if (dv_cm_type_of(id) == DV_CM_UD) {
        dv_cm_close_link(id);
        dv_cm_set_state(id, DV_CM_ENDED);
        return 0;
    }
    dv_cm_set_state(id, DV_CM_ACCEPTED);
    id->link->on_ready = on_ready;
    id->link->on_deadline = on_ready_overdue;
    dv_cm_link_wait(id->link, dv_cm_now_ns() + READY_NS);
    return 0;
}

int rdma_accept(struct rdma_cm_id *ibv_id, struct rdma_conn_param *param)
{
    struct dv_cm_id *id = dv_cm_id_of(ibv_id);
    dv_cm_lock();
    const int rc = answer(id, param);
    const bool established_follows = !rc && id->state == DV_CM_ACCEPTED;
    dv_cm_unlock();
    if (rc)
        return dv_cm_fail(rc);
    return established_follows ? dv_cm_complete(id) : 0;
}

int rdma_reject(struct rdma_cm_id *ibv_id, const void *private_data, uint8_t bytes)
{
    struct dv_cm_id *id = dv_cm_id_of(ibv_id);
    struct dv_cm_message message = {.type = DV_CM_REJECT,
                                    .qp_type = (uint8_t)dv_cm_type_of(id),
                                    .status = DV_CM_CONSUMER_DEFINED,
                                    .private_bytes = private_data ? bytes : 0};
    if (message.private_bytes > dv_cm_private_max(DV_CM_REJECT, message.qp_type))
        return dv_cm_fail(EINVAL);
    if (message.private_bytes)
        memcpy(message.private_data, private_data, message.private_bytes);
    dv_cm_lock();
    const bool may = id->state == DV_CM_REQUESTED;
    if (may) {
        if (id->link)
            (void)dv_cm_link_send(id->link, &message);
        dv_cm_close_link(id);
        dv_cm_leave_listener(id);
        dv_cm_set_state(id, DV_CM_ENDED);
    }
    dv_cm_unlock();
    return may ? 0 : dv_cm_fail(EINVAL);
}
