/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cm_connected.h"

#include <errno.h>

#include "verbs_diwarp/rc.h"

/* What the other side sent last, without asking whether it has come, is let come before the program
 * hears that the other side has left, but for no longer: it may wait for receives that are not
 * posted. Half of it is too little for a busy host; twice as much delays the end of programs that
 * post no receives. */
#define LAST_DATA_NS INT64_C(200000000)
/* Then completions are let be polled: on that word programs destroy the queue pair, and what its
 * CQs hold of it. Half of it is little for a thread that polls and waits for a core; twice as much
 * delays the end of programs that poll only after the word. */
#define UNPOLLED_NS INT64_C(50000000)
#define LOOK_NS     INT64_C(1000000)
/* Until the other side, which may have stopped, has left, too. */
#define LEAVE_NS INT64_C(5000000000)
/* Open MPI's btl/openib destroys its id a while after it has disconnected, and takes
 * RDMA_CM_EVENT_TIMEWAIT_EXIT, if that comes before, for an error: at once was too soon, a second
 * was not. Twice as long keeps the socket twice as long. */
#define TIMEWAIT_NS INT64_C(1000000000)

int dv_cm_say(struct dv_cm_id *id, enum dv_cm_type type)
{
    const struct dv_cm_message message = {.type = type, .qp_type = (uint8_t)dv_cm_type_of(id)};
    return id->link ? dv_cm_link_send(id->link, &message) : -ENOTCONN;
}

void dv_cm_not_connected(struct dv_cm_id *id, enum rdma_cm_event_type type, int status,
                         const struct dv_cm_message *message)
{
    if (type == RDMA_CM_EVENT_REJECTED)
        dv_cm_qp_fail(id);
    dv_cm_close_link(id);
    dv_cm_set_state(id, DV_CM_ENDED);
    dv_cm_tell(id, type, status, message);
}

static void on_timewait(struct dv_cm_link *link)
{
    struct dv_cm_id *id = link->id;
    dv_cm_close_link(id);
    dv_cm_tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
}

/* The link, and with it the socket, stays for its deadline alone: no packets of the connection can
 * come late, as TCP, which has numbered them, waits itself. */
static void disconnected(struct dv_cm_id *id)
{
    (void)dv_cm_say(id, DV_CM_DISCONNECT);
    dv_cm_set_state(id, DV_CM_DISCONNECTED);
    dv_cm_tell(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    dv_cm_link_mute(id->link);
    id->link->on_deadline = on_timewait;
    dv_cm_link_wait(id->link, dv_cm_now_ns() + TIMEWAIT_NS);
}

/* Whether the word that the other side has left is to wait. */
static bool has_more(struct dv_cm_id *id, int64_t now_ns)
{
    struct dv_context *context = dv_context_of(id->id.verbs);
    dv_lock(context);
    const bool connected = dv_rc_is_connected(context, id->qpn);
    const bool unpolled = dv_rc_is_unpolled(context, id->qpn);
    dv_unlock(context);
    if (connected && now_ns < id->until_ns)
        id->polled_until_ns = now_ns + UNPOLLED_NS;
    return (connected && now_ns < id->until_ns) || (unpolled && now_ns < id->polled_until_ns);
}

static void on_deadline(struct dv_cm_link *link)
{
    struct dv_cm_id *id = link->id;
    const int64_t now = dv_cm_now_ns();
    if (id->state == DV_CM_CLOSING && has_more(id, now))
        dv_cm_link_wait(link, now + LOOK_NS);
    else
        disconnected(id);
}

/* The other side has left, by its word, by its end, or by what nobody may say. */
static void on_ready(struct dv_cm_link *link)
{
    struct dv_cm_id *id = link->id;
    struct dv_cm_message message;
    if (!dv_cm_link_receive(link, &message))
        return;
    if (id->state == DV_CM_LEAVING) {
        disconnected(id);
    } else if (id->state == DV_CM_ESTABLISHED) {
        dv_cm_set_state(id, DV_CM_CLOSING);
        id->until_ns = dv_cm_now_ns() + LAST_DATA_NS;
        id->polled_until_ns = dv_cm_now_ns() + UNPOLLED_NS;
        dv_cm_link_mute(link);
        dv_cm_link_wait(link, dv_cm_now_ns());
    }
}

void dv_cm_connected(struct dv_cm_id *id)
{
    dv_cm_set_state(id, DV_CM_ESTABLISHED);
    id->link->on_ready = on_ready;
    id->link->on_deadline = on_deadline;
    dv_cm_link_wait(id->link, DV_CM_NEVER);
}

/* ---- librdmacm's ---- */

static void leave(struct dv_cm_id *id)
{
    if (id->state == DV_CM_CLOSING)
        disconnected(id);
    if (id->state != DV_CM_ESTABLISHED && id->state != DV_CM_ACCEPTED)
        return;
    dv_cm_set_state(id, DV_CM_LEAVING);
    id->link->on_ready = on_ready;
    id->link->on_deadline = on_deadline;
    (void)dv_cm_say(id, DV_CM_DISCONNECT);
    dv_cm_link_wait(id->link, dv_cm_now_ns() + LEAVE_NS);
}

/* The queue pair first: what it has sent goes ahead of the word that we leave. It is in error
 * without a connection, too, as with librdmacm: programs wait for their receives to be flushed. */
int rdma_disconnect(struct rdma_cm_id *ibv_id)
{
    struct dv_cm_id *id = dv_cm_id_of(ibv_id);
    dv_cm_lock();
    const bool connected = id->state == DV_CM_ESTABLISHED || id->state == DV_CM_ACCEPTED ||
                           id->state == DV_CM_CLOSING || id->state == DV_CM_LEAVING ||
                           id->state == DV_CM_DISCONNECTED;
    const bool again = id->has_left;
    dv_cm_qp_fail(id);
    if (connected) {
        leave(id);
        id->has_left = true;
    }
    dv_cm_unlock();
    if (!connected)
        return dv_cm_fail(EINVAL);
    return again ? 0 : dv_cm_complete(id);
}
