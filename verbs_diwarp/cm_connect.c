/* SPDX-License-Identifier: BSD-3-Clause */
/* The side that calls. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs_diwarp/cm_connected.h"
#include "verbs_diwarp/cm_device.h"
#include "verbs_diwarp/cm_route.h"
#include "verbs_diwarp/cm_sockaddr.h"

/* The answer may be a person's to give; InfiniBand's CM waits about as long. */
#define ANSWER_NS INT64_C(60000000000)

/* Programs that listen anew for each of their connections (perftest) may not have begun to when the
 * next call comes: elsewhere, addresses take longer to resolve than that. Half as long is too
 * little for a busy host; twice as much delays the news that nobody listens. */
#define AGAIN_FOR_NS INT64_C(1000000000)
#define PAUSE_NS     INT64_C(20000000)

/* Statuses of SIDR, by which InfiniBand's CM finds queue pairs of UD. */
#define SIDR_UNSUPPORTED 1 /* nobody listens, or for other callers */
#define SIDR_REJECT      2

static void on_pause_over(struct dv_cm_link *link);

/* A call that nobody took, or that ended with who listened before the program there saw it. */
static bool calls_again(struct dv_cm_id *id, int error)
{
    const int64_t now = dv_cm_now_ns();
    if ((error != -ECONNREFUSED && error != -ECONNRESET && error != -EPIPE) ||
        id->state != DV_CM_CALLING || now >= id->until_ns)
        return false;
    dv_cm_link_mute(id->link);
    id->link->on_deadline = on_pause_over;
    dv_cm_link_wait(id->link, now + PAUSE_NS);
    return true;
}

/* For that reason of InfiniBand's, which UD does not have: the kernel's CM tells SIDR's status
 * then. answer: NULL where nobody has answered. */
static void refused(struct dv_cm_id *id, uint32_t reason, const struct dv_cm_message *answer)
{
    const int sidr = reason == DV_CM_INVALID_SERVICE ? SIDR_UNSUPPORTED : SIDR_REJECT;
    if (dv_cm_type_of(id) == DV_CM_UD)
        dv_cm_not_connected(id, RDMA_CM_EVENT_UNREACHABLE, sidr, answer);
    else
        dv_cm_not_connected(id, RDMA_CM_EVENT_REJECTED, (int)(reason & 0xff), answer);
}

static void failed(struct dv_cm_id *id, int error)
{
    if (calls_again(id, error))
        return;
    if (error == -ECONNREFUSED)
        refused(id, DV_CM_INVALID_SERVICE, NULL);
    else
        dv_cm_not_connected(id, RDMA_CM_EVENT_UNREACHABLE, error, NULL);
}

static void on_deadline(struct dv_cm_link *link)
{
    failed(link->id, -ETIMEDOUT);
}

/* ---- the answer ---- */

static void accepted(struct dv_cm_id *id)
{
    dv_cm_route_to(id, id->other.gid);
    if (dv_cm_type_of(id) == DV_CM_UD) {
        dv_cm_close_link(id);
        dv_cm_set_state(id, DV_CM_ENDED);
        dv_cm_tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, &id->other);
    } else if (!id->id.qp) { /* rdma_establish() goes on */
        dv_cm_set_state(id, DV_CM_ANSWERED);
        dv_cm_tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &id->other);
    } else if (dv_cm_qp_connect(id) || dv_cm_say(id, DV_CM_READY)) {
        dv_cm_qp_fail(id);
        dv_cm_not_connected(id, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET, NULL);
    } else {
        dv_cm_connected(id);
        dv_cm_tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, &id->other);
    }
}

/* Nothing is to come before rdma_establish(). */
static void on_answer(struct dv_cm_link *link)
{
    struct dv_cm_id *id = link->id;
    const int rc = dv_cm_link_receive(link, &id->other);
    if (rc < 0 || (rc && id->state == DV_CM_ANSWERED))
        failed(id, rc < 0 ? rc : -EPROTO);
    else if (rc && id->other.type == DV_CM_REJECT)
        refused(id, id->other.status, &id->other);
    else if (rc && (id->other.type != DV_CM_ACCEPT || id->other.qp_type != dv_cm_type_of(id) ||
                    !dv_cm_may_have_gid(&id->id.route.addr.dst_addr, id->other.gid)))
        failed(id, -EPROTO);
    else if (rc)
        accepted(id);
}

/* ---- the request ---- */

static void on_connected(struct dv_cm_link *link)
{
    struct dv_cm_id *id = link->id;
    struct sockaddr_storage *own = &id->id.route.addr.src_storage;
    socklen_t bytes = sizeof *own, int_bytes = sizeof(int);
    int error = 0;
    (void)getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &int_bytes);
    (void)getsockname(link->fd, (struct sockaddr *)own, &bytes);
    const int rc = error ? -error : dv_cm_link_send(link, &id->own);
    if (rc) {
        failed(id, rc);
        return;
    }
    link->on_ready = on_answer;
    dv_cm_link_reads(link);
}

static void call(struct dv_cm_id *id)
{
    const struct sockaddr *to = &id->id.route.addr.dst_addr;
    struct dv_cm_link *link = id->link;
    link->on_ready = on_connected;
    link->on_deadline = on_deadline;
    dv_cm_link_wait(link, dv_cm_now_ns() + ANSWER_NS);
    dv_cm_set_reuse(link->fd, 1);
    if (connect(link->fd, to, dv_cm_sockaddr_bytes(to)) && errno != EINPROGRESS)
        failed(id, -errno);
    else
        dv_cm_link_writes(link);
}

/* By the same socket, which has no connection any more, but may be bound. */
static void on_pause_over(struct dv_cm_link *link)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    (void)connect(link->fd, &nowhere, sizeof nowhere);
    link->count = 0;
    call(link->id);
}

/* 0 or a positive errno. */
static int open_link(struct dv_cm_id *id)
{
    if (id->fd < 0)
        id->fd = socket(id->id.route.addr.dst_addr.sa_family,
                        SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (id->fd < 0 || !(id->link = dv_cm_link_open(id->fd)))
        return errno;
    id->fd = -1;
    id->link->id = id;
    return 0;
}

static int request(struct dv_cm_id *id, const struct rdma_conn_param *param)
{
    uint32_t psn = 0;
    if (!dv_cm_may(id, DV_CM_CALLING) || dv_cm_qp_fill(id, DV_CM_REQUEST, param))
        return EINVAL;
    (void)!getrandom(&psn, sizeof psn, 0);
    id->own.psn = psn & 0xffffff;
    const int rc = open_link(id);
    if (rc)
        return rc;
    dv_cm_set_state(id, DV_CM_CALLING);
    id->until_ns = dv_cm_now_ns() + AGAIN_FOR_NS;
    call(id);
    return 0;
}

int rdma_connect(struct rdma_cm_id *ibv_id, struct rdma_conn_param *param)
{
    struct dv_cm_id *id = dv_cm_id_of(ibv_id);
    dv_cm_lock();
    const int rc = request(id, param);
    dv_cm_unlock();
    return rc ? dv_cm_fail(rc) : dv_cm_complete(id);
}

int rdma_establish(struct rdma_cm_id *ibv_id)
{
    struct dv_cm_id *id = dv_cm_id_of(ibv_id);
    dv_cm_lock();
    int rc = EINVAL;
    if (id->state == DV_CM_ANSWERED && !ibv_id->qp)
        rc = -dv_cm_say(id, DV_CM_READY);
    if (!rc)
        dv_cm_connected(id);
    dv_cm_unlock();
    return rc ? dv_cm_fail(rc) : 0;
}
