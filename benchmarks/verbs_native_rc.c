/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of the verbs benchmark over diwarp's own API. */
#include "benchmarks/verbs_native.h"

#include <errno.h>

#define CONNECT_SECONDS 10.0

void native_rc_listen(struct native_end *native)
{
    struct diwarp_diagnosis why = {""};
    const int rc = diwarp_listen(native->pd, native->cq, &native->listener, &why);
    if (rc)
        verbs_die(why.text[0] ? why.text : "diwarp_listen", -rc);
}

static void poll_for(struct native_end *native, const bool *connected)
{
    const double deadline = verbs_now() + CONNECT_SECONDS;
    while (!*connected && !native->request && !native->end.failed)
        if (!native_poll(&native->end) && verbs_now() > deadline)
            verbs_die("no connection", ETIMEDOUT);
    if (native->end.failed)
        verbs_die(native->end.failed, 0);
}

void native_rc_connect(struct native_end *native, const struct diwarp_address *address)
{
    struct diwarp_rc_qp_attr attr;
    struct diwarp_diagnosis why = {""};
    int rc;
    diwarp_rc_qp_attr_init(&attr);
    attr.cq = native->cq;
    attr.max_send_wr = 2 * VERBS_SENDS;
    attr.max_recv_wr = VERBS_RECEIVES;
    attr.max_sge = 1;
    if (native->end.plan->caller) {
        rc = diwarp_connect(native->pd, &attr, address, NULL, 0, &native->rc_qp, &why);
    } else {
        poll_for(native, &native->connected);
        struct diwarp_connect_request *request = native->request;
        native->request = NULL;
        rc = diwarp_accept(request, native->pd, &attr, NULL, 0, &native->rc_qp);
    }
    if (rc)
        verbs_die(why.text[0] ? why.text : "no connection", -rc);
    for (uint64_t slot = 0; slot < VERBS_RECEIVES; slot++) {
        struct ibv_sge sge;
        const struct ibv_recv_wr wr = native_receive(native, slot, &sge);
        if (diwarp_rc_post_recv(native->rc_qp, &wr))
            verbs_die("diwarp_rc_post_recv", ENOMEM);
    }
    poll_for(native, &native->connected);
}

void native_rc_close(struct native_end *native)
{
    if (native->rc_qp)
        diwarp_destroy_rc_qp(native->rc_qp);
    if (native->listener)
        diwarp_destroy_listener(native->listener);
}
