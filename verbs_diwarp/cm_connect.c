/* SPDX-License-Identifier: BSD-3-Clause */
/* The side that calls. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs_diwarp/cm_connected.h"

/* The answer may be a person's to give; InfiniBand's CM waits about as long. */
#define ANSWER_NS INT64_C(60000000000)
/* IB_CM_REJ_INVALID_SERVICE_ID: nobody listens. */
#define NOBODY_LISTENS 8

static void failed(struct dv_cm_id *id, int error)
{
    const bool nobody = error == -ECONNREFUSED;
    dv_cm_not_connected(id, nobody ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_UNREACHABLE,
                        nobody ? NOBODY_LISTENS : error, NULL);
}

static void on_deadline(struct dv_cm_link *link)
{
    failed(link->id, -ETIMEDOUT);
}

/* ---- the answer ---- */

static void accepted(struct dv_cm_id *id)
{
    if (dv_cm_type_of(id) == DV_CM_UD) {
        dv_cm_close_link(id);
        dv_cm_set_state(id, DV_CM_ESTABLISHED);
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
        dv_cm_not_connected(id, RDMA_CM_EVENT_REJECTED, (int)(id->other.status & 0xff), &id->other);
    else if (rc && (id->other.type != DV_CM_ACCEPT || id->other.qp_type != dv_cm_type_of(id)))
        failed(id, -EPROTO);
    else if (rc)
        accepted(id);
}

/* ---- the request ---- */

static void on_connected(struct dv_cm_link *link)
{
    struct dv_cm_id *id = link->id;
    struct sockaddr_in *own = &id->id.route.addr.src_sin;
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

/* 0 or a positive errno. */
static int call(struct dv_cm_id *id)
{
    const struct sockaddr_in *to = &id->id.route.addr.dst_sin;
    const int fd =
        id->fd >= 0 ? id->fd : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    id->fd = fd;
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) && errno != EINPROGRESS &&
        errno != ECONNREFUSED)
        return errno;
    id->link = dv_cm_link_open(fd, true);
    if (!id->link)
        return errno;
    id->fd = -1;
    id->link->id = id;
    id->link->on_ready = on_connected;
    id->link->on_deadline = on_deadline;
    dv_cm_link_wait(id->link, dv_cm_now_ns() + ANSWER_NS);
    return 0;
}

static int request(struct dv_cm_id *id, const struct rdma_conn_param *param)
{
    uint32_t psn = 0;
    if (!dv_cm_may(id, DV_CM_CALLING) || dv_cm_qp_fill(id, DV_CM_REQUEST, param))
        return EINVAL;
    (void)!getrandom(&psn, sizeof psn, 0);
    id->own.psn = psn & 0xffffff;
    const int rc = call(id);
    if (!rc)
        dv_cm_set_state(id, DV_CM_CALLING);
    return rc;
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
