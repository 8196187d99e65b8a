/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of an endpoint over RC, and its queue pairs: made by a call or an answer, left, and
 * destroyed. */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>

/* Where the user set no limit: a year. */
#define CONNECT_LONGEST_NS (31536000ull * 1000000000ull)

/* ---- states ------------------------------------------------------------------------------- */

#define TO(state) (1u << MCA_BTL_DIWARP_RC_##state)

static const unsigned allowed[MCA_BTL_DIWARP_RC_STATES] = {
    [MCA_BTL_DIWARP_RC_IDLE] = TO(CALLING) | TO(ACCEPTING) | TO(GONE),
    [MCA_BTL_DIWARP_RC_CALLING] =
        TO(CONNECTED) | TO(YIELDING) | TO(ACCEPTING) | TO(IDLE) | TO(GONE),
    [MCA_BTL_DIWARP_RC_YIELDING] = TO(ACCEPTING) | TO(IDLE) | TO(GONE),
    [MCA_BTL_DIWARP_RC_ACCEPTING] = TO(CONNECTED) | TO(IDLE) | TO(GONE),
    [MCA_BTL_DIWARP_RC_CONNECTED] = TO(LEAVING) | TO(IDLE) | TO(GONE),
    [MCA_BTL_DIWARP_RC_LEAVING] = TO(IDLE),
    [MCA_BTL_DIWARP_RC_GONE] = 0,
};

void mca_btl_diwarp_rc_endpoint_set_state(mca_btl_diwarp_rc_endpoint_t *endpoint,
                                          enum mca_btl_diwarp_rc_state to)
{
    assert(allowed[endpoint->state] & 1u << to);
    endpoint->state = to;
}

bool mca_btl_diwarp_rc_set_lost(const struct mca_btl_diwarp_module *module,
                                mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    const bool expected = endpoint->left || endpoint->deleted || module->rc->closing;
    const enum mca_btl_diwarp_rc_state to =
        expected ? MCA_BTL_DIWARP_RC_IDLE : MCA_BTL_DIWARP_RC_GONE;

    if (to != endpoint->state && MCA_BTL_DIWARP_RC_GONE != endpoint->state) {
        mca_btl_diwarp_rc_endpoint_set_state(endpoint, to);
    }
    return expected;
}

/* ---- QPs ---------------------------------------------------------------------------------- */

static struct diwarp_rc_qp_attr qp_attr(const struct mca_btl_diwarp_module *module,
                                        mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    const struct mca_btl_diwarp_params *params = &mca_btl_diwarp_params;
    struct diwarp_rc_qp_attr attr;

    diwarp_rc_qp_attr_init(&attr);
    attr.cq = module->cq;
    attr.srq = module->rc->srq;
    attr.context = endpoint;
    attr.max_recv_wr = params->rc_recv_buffers;
    attr.markers = params->rc_markers;
    attr.crc = DIWARP_OFF != params->crc;
    attr.mpa_revision = (uint8_t)params->rc_mpa_revision;
    attr.rnr_timeout_ns = UINT64_MAX; /* receives come back as fast as the PML takes messages */
    attr.connect_timeout_ns =
        params->peer_timeout_s > 0 ? params->peer_timeout_s * 1000000000ull : CONNECT_LONGEST_NS;
    return attr;
}

void mca_btl_diwarp_rc_qp_destroy(struct mca_btl_diwarp_module *module, struct diwarp_rc_qp **qp)
{
    if (NULL != *qp) {
        diwarp_destroy_rc_qp(*qp);
        *qp = NULL;
        module->rc->connections--;
    }
}

void mca_btl_diwarp_rc_connection_destroy(struct mca_btl_diwarp_module *module,
                                          mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    mca_btl_diwarp_rc_qp_destroy(module, &endpoint->qp);
    mca_btl_diwarp_rc_buffers_free(endpoint->buffers, mca_btl_diwarp_params.rc_recv_buffers);
    endpoint->buffers = NULL;
}

/* ---- calls -------------------------------------------------------------------------------- */

int mca_btl_diwarp_rc_endpoint_call(struct mca_btl_diwarp_module *module,
                                    mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    const struct diwarp_rc_qp_attr attr = qp_attr(module, endpoint);
    const uint32_t request[] = {htonl(OPAL_PROC_MY_NAME.jobid), htonl(OPAL_PROC_MY_NAME.vpid)};
    struct diwarp_diagnosis why = {.text = ""};
    struct diwarp_address address;
    int rc;

    if (OPAL_SUCCESS != mca_btl_diwarp_peer_address(module, endpoint->super.proc, &address)) {
        return -EADDRNOTAVAIL;
    }
    rc = diwarp_connect(module->pd, &attr, &address, request, sizeof(request), &endpoint->qp, &why);
    if (rc < 0) {
        if (-ENETUNREACH == rc) {
            mca_btl_diwarp_peer_show_unreachable(module, endpoint->super.proc, &address);
        }
        return rc;
    }
    module->rc->connections++;
    endpoint->unused = false;
    mca_btl_diwarp_rc_endpoint_set_state(endpoint, MCA_BTL_DIWARP_RC_CALLING);
    return 0;
}

int mca_btl_diwarp_rc_endpoint_answer(struct mca_btl_diwarp_module *module,
                                      mca_btl_diwarp_rc_endpoint_t *endpoint,
                                      struct diwarp_connect_request *request)
{
    const struct diwarp_rc_qp_attr attr = qp_attr(module, endpoint);
    /* Only the higher name gives way, so each crossing is counted on one side. */
    const bool crossed = MCA_BTL_DIWARP_RC_IDLE != endpoint->state;
    int rc;

    if (MCA_BTL_DIWARP_RC_CALLING == endpoint->state) {
        endpoint->lost = endpoint->qp;
        endpoint->qp = NULL;
    }
    rc = diwarp_accept(request, module->pd, &attr, NULL, 0, &endpoint->qp);
    if (rc < 0) {
        return rc;
    }
    module->rc->connections++;
    module->counters.rc_crossed += crossed;
    endpoint->unused = true;
    mca_btl_diwarp_rc_endpoint_set_state(endpoint, MCA_BTL_DIWARP_RC_ACCEPTING);
    return 0;
}

/* ---- goodbyes ----------------------------------------------------------------------------- */

/* The last message before diwarp_disconnect(). */
static int send_goodbye(struct diwarp_rc_qp *qp)
{
    static const unsigned char goodbye[MCA_BTL_DIWARP_HEADER_BYTES] = {
        MCA_BTL_DIWARP_RC_TAG_GOODBYE};
    struct ibv_sge sge = {.addr = (uintptr_t)goodbye, .length = sizeof(goodbye)};
    const struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

    return diwarp_rc_post_send(qp, &wr);
}

void mca_btl_diwarp_rc_endpoint_leave_if_due(struct mca_btl_diwarp_module *module,
                                             mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    if ((!endpoint->deleted && !module->rc->closing) || NULL != endpoint->waiting_first ||
        MCA_BTL_DIWARP_RC_CONNECTED != endpoint->state) {
        return;
    }
    /* Else a completion will bring us back. */
    if (send_goodbye(endpoint->qp) >= 0) {
        diwarp_disconnect(endpoint->qp);
        mca_btl_diwarp_rc_endpoint_set_state(endpoint, MCA_BTL_DIWARP_RC_LEAVING);
    }
}
