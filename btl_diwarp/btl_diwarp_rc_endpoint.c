/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints of RC: a table by name, in which peers that call may come before the PML adds them;
 * their states, receives and queue pairs; and the PML's view, which knows of connections when one
 * is wanted, and when none is.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include "opal/align.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the table ---------------------------------------------------------------------------- */

mca_btl_diwarp_rc_endpoint_t *mca_btl_diwarp_rc_endpoint_for(struct mca_btl_diwarp_rc *rc,
                                                             struct diwarp_name name)
{
    const uint64_t key = mca_btl_diwarp_rc_key(name);
    mca_btl_diwarp_rc_endpoint_t *endpoint;
    void *found = NULL;
    if (opal_hash_table_get_value_uint64(&rc->endpoints, key, &found) == OPAL_SUCCESS)
        return found;
    endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint)
        return NULL;
    endpoint->name = name;
    STAILQ_INIT(&endpoint->super.waiting);
    if (opal_hash_table_set_value_uint64(&rc->endpoints, key, endpoint) != OPAL_SUCCESS) {
        free(endpoint);
        return NULL;
    }
    return endpoint;
}

void mca_btl_diwarp_rc_endpoints_foreach(struct mca_btl_diwarp_module *module,
                                         void (*act)(struct mca_btl_diwarp_module *module,
                                                     mca_btl_diwarp_rc_endpoint_t *endpoint))
{
    opal_hash_table_t *table = &module->rc->endpoints;
    void *value = NULL, *node = NULL;
    uint64_t key;
    int rc = opal_hash_table_get_first_key_uint64(table, &key, &value, &node);
    while (rc == OPAL_SUCCESS) {
        void *endpoint = value;
        rc = opal_hash_table_get_next_key_uint64(table, &key, &value, node, &node);
        act(module, endpoint);
    }
}

/* ---- states ------------------------------------------------------------------------------- */

#define TO(state) (1u << MCA_BTL_DIWARP_RC_##state)

static const unsigned allowed[MCA_BTL_DIWARP_RC_STATES] = {
    [MCA_BTL_DIWARP_RC_IDLE] = TO(CALLING) | TO(ACCEPTING) | TO(GONE),
    [MCA_BTL_DIWARP_RC_CALLING] = TO(CONNECTED) | TO(IDLE) | TO(GONE),
    [MCA_BTL_DIWARP_RC_ACCEPTING] = TO(CONNECTED) | TO(IDLE) | TO(GONE),
    [MCA_BTL_DIWARP_RC_CONNECTED] = TO(LEAVING) | TO(IDLE) | TO(GONE),
    [MCA_BTL_DIWARP_RC_LEAVING] = TO(IDLE),
    [MCA_BTL_DIWARP_RC_GONE] = TO(IDLE), /* deleted, and added again */
};

void mca_btl_diwarp_rc_set_state(mca_btl_diwarp_rc_endpoint_t *endpoint,
                                 enum mca_btl_diwarp_rc_state to)
{
    assert(allowed[endpoint->state] & 1u << to);
    endpoint->state = to;
}

void mca_btl_diwarp_rc_on_lost(struct mca_btl_diwarp_module *module,
                               mca_btl_diwarp_rc_endpoint_t *endpoint, const char *why)
{
    const bool expected = endpoint->left || endpoint->deleted || module->rc->closing;
    const enum mca_btl_diwarp_rc_state to =
        expected ? MCA_BTL_DIWARP_RC_IDLE : MCA_BTL_DIWARP_RC_GONE;
    if (endpoint->state != to && endpoint->state != MCA_BTL_DIWARP_RC_GONE)
        mca_btl_diwarp_rc_set_state(endpoint, to);
    OPAL_THREAD_UNLOCK(&module->lock);
    if (!expected)
        mca_btl_diwarp_peer_on_gone(module, &endpoint->name, why);
    mca_btl_diwarp_work_end_waiting(module, &endpoint->super,
                                    expected ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
    OPAL_THREAD_LOCK(&module->lock);
}

/* ---- receives ------------------------------------------------------------------------------
 *
 * An RNIC pins the memory of receives when it is registered; so this memory is there from the
 * start, whether messages come or not. */

static uint64_t buffers_bytes;

/* Receives begin on cache lines, so that the PML's headers, behind ours, are aligned. */
static size_t stride_bytes(void)
{
    return OPAL_ALIGN(mca_btl_diwarp_params.rc_recv_bytes, 64, size_t);
}

int mca_btl_diwarp_rc_buffer_post(const struct mca_btl_diwarp_module *module, unsigned char *buffer,
                                  struct diwarp_rc_qp *qp)
{
    struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = mca_btl_diwarp_params.rc_recv_bytes};
    const struct ibv_recv_wr wr = {.wr_id = (uintptr_t)buffer | 1u, .sg_list = &sge, .num_sge = 1};
    return module->rc->srq ? diwarp_post_srq_recv(module->rc->srq, &wr)
                           : diwarp_rc_post_recv(qp, &wr);
}

int mca_btl_diwarp_rc_buffers_make(const struct mca_btl_diwarp_module *module,
                                   unsigned char **buffers, unsigned count, struct diwarp_rc_qp *qp)
{
    void *made = mmap(NULL, count * stride_bytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    int rc = 0;
    if (made == MAP_FAILED)
        return -ENOMEM;
    *buffers = made;
    (void)__atomic_add_fetch(&buffers_bytes, count * stride_bytes(), __ATOMIC_RELAXED);
    for (unsigned i = 0; i < count && !rc; i++)
        rc = mca_btl_diwarp_rc_buffer_post(module, *buffers + i * stride_bytes(), qp);
    return rc;
}

void mca_btl_diwarp_rc_buffers_free(unsigned char *buffers, unsigned count)
{
    if (buffers) {
        (void)munmap(buffers, count * stride_bytes());
        (void)__atomic_sub_fetch(&buffers_bytes, count * stride_bytes(), __ATOMIC_RELAXED);
    }
}

uint64_t mca_btl_diwarp_rc_buffers_bytes(void)
{
    return __atomic_load_n(&buffers_bytes, __ATOMIC_RELAXED);
}

/* ---- queue pairs -------------------------------------------------------------------------- */

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
    attr.crc = params->device.crc != DIWARP_OFF;
    attr.mpa_revision = (uint8_t)params->rc_mpa_revision;
    attr.rnr_timeout_ns = UINT64_MAX; /* receives come back as fast as the PML takes messages */
    attr.connect_timeout_ns =
        params->peer_timeout_s > 0 ? params->peer_timeout_s * 1000000000ull : UINT64_MAX;
    return attr;
}

void mca_btl_diwarp_rc_qp_destroy(struct mca_btl_diwarp_module *module, struct diwarp_rc_qp **qp)
{
    if (*qp) {
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

static int call(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    const struct diwarp_rc_qp_attr attr = qp_attr(module, endpoint);
    struct diwarp_address address;
    int rc;
    if (!mca_btl_diwarp_peer_address(module, endpoint->super.proc, &address))
        return -EADDRNOTAVAIL;
    rc = diwarp_connect(module->pd, &attr, &address, NULL, 0, &endpoint->qp, NULL);
    if (rc < 0) {
        if (rc == -ENETUNREACH)
            mca_btl_diwarp_peer_show_unreachable(module, endpoint->super.proc, &address);
        return rc;
    }
    module->rc->connections++;
    endpoint->unused = false;
    mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_CALLING);
    return 0;
}

void mca_btl_diwarp_rc_reject(struct diwarp_connect_request *request,
                              enum mca_btl_diwarp_rc_rejection why)
{
    const unsigned char reason = (unsigned char)why;
    diwarp_reject(request, &reason, sizeof reason);
}

void mca_btl_diwarp_rc_answer(struct mca_btl_diwarp_module *module,
                              mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    const struct diwarp_rc_qp_attr attr = qp_attr(module, endpoint);
    struct diwarp_connect_request *request = endpoint->request;
    const bool crossed = endpoint->state == MCA_BTL_DIWARP_RC_CALLING && !endpoint->lost &&
                         mca_btl_diwarp_rc_key(endpoint->name) < mca_btl_diwarp_rc_my_key();
    if (!request || (endpoint->qp && !crossed))
        return;
    endpoint->request = NULL;
    if (endpoint->state == MCA_BTL_DIWARP_RC_GONE) {
        mca_btl_diwarp_rc_reject(request, MCA_BTL_DIWARP_RC_REJECT_GONE);
        return;
    }
    if (module->rc->closing && !crossed) {
        mca_btl_diwarp_rc_reject(request, MCA_BTL_DIWARP_RC_REJECT_LEFT);
        return;
    }
    if (crossed) {
        endpoint->lost = endpoint->qp;
        endpoint->qp = NULL;
        diwarp_disconnect(endpoint->lost);
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
        module->counters.rc_crossed++;
    } else {
        endpoint->deleted = false; /* it calls one that has deleted it */
    }
    /* In error its call has failed, which is its own affair. */
    if (diwarp_accept(request, module->pd, &attr, NULL, 0, &endpoint->qp) < 0)
        return;
    module->rc->connections++;
    endpoint->unused = true;
    mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_ACCEPTING);
}

int mca_btl_diwarp_rc_connect(struct mca_btl_diwarp_module *module,
                              mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    mca_btl_diwarp_rc_answer(module, endpoint);
    if (endpoint->state != MCA_BTL_DIWARP_RC_IDLE || endpoint->qp ||
        !mca_btl_diwarp_rc_waits(endpoint))
        return 0;
    const bool left = endpoint->deleted || !endpoint->super.proc || module->rc->closing;
    return left ? -ECONNABORTED : call(module, endpoint);
}

/* Under the lock. The goodbye is the last message before the connection is closed. */
static void leave_if_due(const struct mca_btl_diwarp_module *module,
                         mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    static const unsigned char goodbye[MCA_BTL_DIWARP_HEADER_BYTES] = {
        MCA_BTL_DIWARP_RC_TAG_GOODBYE};
    struct ibv_sge sge = {.addr = (uintptr_t)goodbye, .length = sizeof goodbye};
    const struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    if ((!endpoint->deleted && !module->rc->closing) || mca_btl_diwarp_rc_waits(endpoint) ||
        endpoint->state != MCA_BTL_DIWARP_RC_CONNECTED)
        return;
    /* Else a completion will bring us back. */
    if (diwarp_rc_post_send(endpoint->qp, &wr) >= 0) {
        diwarp_disconnect(endpoint->qp);
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_LEAVING);
    }
}

void mca_btl_diwarp_rc_leave_if_due(struct mca_btl_diwarp_module *module,
                                    mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    OPAL_THREAD_LOCK(&module->lock);
    leave_if_due(module, endpoint);
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_rc_endpoint_free(struct mca_btl_diwarp_module *module,
                                     mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    mca_btl_diwarp_rc_connection_destroy(module, endpoint);
    mca_btl_diwarp_rc_qp_destroy(module, &endpoint->lost);
    free(endpoint);
}

/* ---- the PML's view ----------------------------------------------------------------------- */

/* Under the lock. */
static void add(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint,
                opal_proc_t *proc)
{
    endpoint->super.proc = proc;
    if (endpoint->deleted) {
        /* How it left before does not count any more. */
        endpoint->left = endpoint->deleted = false;
        if (endpoint->state == MCA_BTL_DIWARP_RC_GONE)
            mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
    }
    /* One side is enough. If that fails, the first message calls again, and can report it: until
     * then there is nobody to tell. */
    if (mca_btl_diwarp_params.rc_connect == MCA_BTL_DIWARP_RC_AT_INIT &&
        endpoint->state == MCA_BTL_DIWARP_RC_IDLE && !endpoint->qp &&
        mca_btl_diwarp_rc_my_key() < mca_btl_diwarp_rc_key(endpoint->name))
        (void)call(module, endpoint);
}

int mca_btl_diwarp_rc_endpoint_create(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                                      const struct diwarp_address *address,
                                      mca_btl_base_endpoint_t **endpoint)
{
    const struct diwarp_name name = {.job = proc->proc_name.jobid, .rank = proc->proc_name.vpid};
    /* btl/self is for that. */
    if (mca_btl_diwarp_rc_key(name) == mca_btl_diwarp_rc_my_key())
        return -ENOTSUP;
    int rc = diwarp_listener_reaches(module->rc->listener, address);
    if (rc < 0)
        return rc;
    OPAL_THREAD_LOCK(&module->lock);
    mca_btl_diwarp_rc_endpoint_t *made = mca_btl_diwarp_rc_endpoint_for(module->rc, name);
    if (made) {
        add(module, made, proc);
        *endpoint = &made->super;
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    return made ? 0 : -ENOMEM;
}

void mca_btl_diwarp_rc_endpoint_destroy(struct mca_btl_diwarp_module *module,
                                        mca_btl_base_endpoint_t *base)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = mca_btl_diwarp_rc_endpoint(base);
    OPAL_THREAD_LOCK(&module->lock);
    base->proc = NULL;
    endpoint->deleted = true;
    leave_if_due(module, endpoint);
    OPAL_THREAD_UNLOCK(&module->lock);
}
