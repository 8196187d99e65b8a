/* SPDX-License-Identifier: BSD-3-Clause */
/* Calling: a QP whose stream is on its way to a listener. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/llp/explain.h"
#include "common/llp/interface.h"
#include "common/rc/close.h"
#include "common/rc/create.h"
#include "common/rc/frame.h"
#include "common/rc/run.h"
#include "common/rnic/lock.h"

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

static int open_stream(struct diwarp_rc_qp *qp, const struct diwarp_address *address,
                       struct diwarp_diagnosis *why)
{
    const struct diwarp_device *device = qp->rc->device;
    struct diwarp_address local = {.host_id = device->host_id,
                                   .interface_count = (uint8_t)device->interface_count};
    memcpy(local.interfaces, device->interfaces, sizeof local.interfaces);
    unsigned here, there;
    if (dw_interface_pair(&local, address, device->attr.same_host, &here, &there)) {
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
