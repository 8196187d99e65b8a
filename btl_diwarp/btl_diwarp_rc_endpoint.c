/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints of RC: a table by name, in which peers that call may come before the PML adds them;
 * their states, receives and queue pairs; the events of connections; and the PML's view.
 *
 * The first send to a peer calls it. A call that finds a QP of ours in its way waits for the end of
 * that. So where both call at once, the call of the lower name wins: the other side accepts it and
 * gives up its own. Before it closes, a side says goodbye; a connection that ends without is an
 * error.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include "opal/align.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Why a call was rejected: one byte of private data. */
enum rejection {
    REJECT_NOT,
    REJECT_AGAIN = 2, /* another one has taken its place: call again */
    REJECT_LEFT,      /* nothing will be received here any more */
    REJECT_GONE,      /* you are lost to us, or are not who you say */
};

/* ---- the table ---------------------------------------------------------------------------- */

/* Also decides between two calls that cross: the lower one wins. */
static uint64_t key_of(struct diwarp_name name)
{
    return (uint64_t)name.job << 32 | name.rank;
}

static uint64_t my_key(void)
{
    return (uint64_t)OPAL_PROC_MY_NAME.jobid << 32 | OPAL_PROC_MY_NAME.vpid;
}

/* Made when there is none. NULL: no memory. */
static mca_btl_diwarp_rc_endpoint_t *endpoint_for(struct mca_btl_diwarp_rc *rc,
                                                  struct diwarp_name name)
{
    const uint64_t key = key_of(name);
    void *found = NULL;
    if (opal_hash_table_get_value_uint64(&rc->endpoints, key, &found) == OPAL_SUCCESS)
        return found;
    mca_btl_diwarp_rc_endpoint_t *made = calloc(1, sizeof *made);
    if (!made || opal_hash_table_set_value_uint64(&rc->endpoints, key, made) != OPAL_SUCCESS) {
        free(made);
        return NULL;
    }
    made->name = name;
    made->super.waiting = NULL;
    return made;
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

static void set_state(mca_btl_diwarp_rc_endpoint_t *endpoint, enum mca_btl_diwarp_rc_state to)
{
    assert(allowed[endpoint->state] & 1u << to);
    endpoint->state = to;
}

/* The connection is lost. Unless the peer finished, or we do, that is an error, which is told; what
 * waits is ended. Gives the lock back meanwhile. */
static void on_lost(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint,
                    const char *why)
{
    const bool expected = endpoint->left || endpoint->deleted || module->rc->closing;
    const enum mca_btl_diwarp_rc_state to =
        expected ? MCA_BTL_DIWARP_RC_IDLE : MCA_BTL_DIWARP_RC_GONE;
    if (endpoint->state != to && endpoint->state != MCA_BTL_DIWARP_RC_GONE)
        set_state(endpoint, to);
    if (!expected) {
        OPAL_THREAD_UNLOCK(&module->lock);
        mca_btl_diwarp_peer_on_gone(module, &endpoint->name, "connection lost", why);
        OPAL_THREAD_LOCK(&module->lock);
    }
    mca_btl_diwarp_work_end_waiting(module, &endpoint->super,
                                    expected ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
}

/* ---- receives ----------------------------------------------------------------------------- */

/* Receives begin on cache lines, so that the PML's headers, behind ours, are aligned. */
static size_t stride_bytes(void)
{
    return OPAL_ALIGN(mca_btl_diwarp_params.rc_recv_bytes, 64, size_t);
}

/* Of the receives that are shared, or of a connection's own. */
static size_t buffers_bytes(const struct mca_btl_diwarp_rc *rc)
{
    const struct mca_btl_diwarp_params *params = &mca_btl_diwarp_params;
    return (rc->srq ? params->rc_srq_buffers : params->rc_recv_buffers) * stride_bytes();
}

int mca_btl_diwarp_rc_buffer_post(const struct mca_btl_diwarp_rc *rc, unsigned char *buffer,
                                  struct diwarp_rc_qp *qp)
{
    struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = mca_btl_diwarp_params.rc_recv_bytes};
    const struct ibv_recv_wr wr = {.wr_id = (uintptr_t)buffer | 1u, .sg_list = &sge, .num_sge = 1};
    return rc->srq ? diwarp_post_srq_recv(rc->srq, &wr) : diwarp_rc_post_recv(qp, &wr);
}

int mca_btl_diwarp_rc_buffers_make(struct mca_btl_diwarp_rc *rc, unsigned char **buffers,
                                   struct diwarp_rc_qp *qp)
{
    const size_t bytes = buffers_bytes(rc);
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    int error = 0;
    if (made == MAP_FAILED)
        return -ENOMEM;
    *buffers = made;
    rc->buffers_bytes += bytes;
    for (size_t at = 0; at < bytes && !error; at += stride_bytes())
        error = mca_btl_diwarp_rc_buffer_post(rc, *buffers + at, qp);
    return error;
}

void mca_btl_diwarp_rc_buffers_free(struct mca_btl_diwarp_rc *rc, unsigned char **buffers)
{
    if (*buffers) {
        (void)munmap(*buffers, buffers_bytes(rc));
        rc->buffers_bytes -= buffers_bytes(rc);
        *buffers = NULL;
    }
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

/* Without a goodbye, whatever its state; harmless with NULL. */
static void qp_destroy(struct mca_btl_diwarp_module *module, struct diwarp_rc_qp **qp)
{
    if (*qp) {
        diwarp_destroy_rc_qp(*qp);
        *qp = NULL;
        module->rc->connections--;
    }
}

/* The QP of the state, and the receives posted to it. */
static void connection_destroy(struct mca_btl_diwarp_module *module,
                               mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    qp_destroy(module, &endpoint->qp);
    mca_btl_diwarp_rc_buffers_free(module->rc, &endpoint->buffers);
}

/* 0 or negative errno. */
static int call(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    const struct diwarp_rc_qp_attr attr = qp_attr(module, endpoint);
    struct diwarp_address address;
    if (mca_btl_diwarp_peer_address(module, endpoint->super.proc, &address))
        return -EADDRNOTAVAIL;
    const int rc = diwarp_connect(module->pd, &attr, &address, NULL, 0, &endpoint->qp, NULL);
    if (rc == -ENETUNREACH)
        mca_btl_diwarp_peer_show_unreachable(module, endpoint->super.proc, &address);
    if (rc < 0)
        return rc;
    module->rc->connections++;
    endpoint->unused = false;
    set_state(endpoint, MCA_BTL_DIWARP_RC_CALLING);
    return 0;
}

/* Harmless with NULL. */
static void reject(struct diwarp_connect_request *request, enum rejection why)
{
    const unsigned char reason = (unsigned char)why;
    if (request)
        diwarp_reject(request, &reason, sizeof reason);
}

/* Accepts the call of the peer, or rejects it, if there is one that no QP of ours is in the way of.
 * Of two calls that cross, that of the lower name wins. */
static void answer(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    const struct diwarp_rc_qp_attr attr = qp_attr(module, endpoint);
    struct diwarp_connect_request *request = endpoint->request;
    const bool gone = endpoint->state == MCA_BTL_DIWARP_RC_GONE;
    const bool crossed = endpoint->state == MCA_BTL_DIWARP_RC_CALLING && !endpoint->lost &&
                         key_of(endpoint->name) < my_key();
    if (!request || (endpoint->qp && !crossed))
        return;
    endpoint->request = NULL;
    if (gone || (module->rc->closing && !crossed)) {
        reject(request, gone ? REJECT_GONE : REJECT_LEFT);
        return;
    }
    if (crossed) {
        endpoint->lost = endpoint->qp;
        endpoint->qp = NULL;
        diwarp_disconnect(endpoint->lost);
        set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
        module->counters.rc_crossed++;
    } else {
        endpoint->deleted = false; /* it calls one that has deleted it */
    }
    /* In error its call has failed, which is its own affair. */
    if (diwarp_accept(request, module->pd, &attr, NULL, 0, &endpoint->qp) < 0)
        return;
    module->rc->connections++;
    endpoint->unused = true;
    set_state(endpoint, MCA_BTL_DIWARP_RC_ACCEPTING);
}

/* answer(); if there is no QP then, calls the peer for what waits: on_lost() where that fails. */
static void connect_if_due(struct mca_btl_diwarp_module *module,
                           mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    answer(module, endpoint);
    if (endpoint->state != MCA_BTL_DIWARP_RC_IDLE || endpoint->qp || !endpoint->super.waiting)
        return;
    const int rc = endpoint->super.proc ? call(module, endpoint) : -ECONNABORTED;
    if (rc < 0)
        on_lost(module, endpoint, strerror(-rc));
}

/* The goodbye is the last message before the connection is closed. */
static void leave_if_due(const struct mca_btl_diwarp_module *module,
                         mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    static const unsigned char goodbye[MCA_BTL_DIWARP_HEADER_BYTES] = {
        MCA_BTL_DIWARP_RC_TAG_GOODBYE};
    struct ibv_sge sge = {.addr = (uintptr_t)goodbye, .length = sizeof goodbye};
    const struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    if ((!endpoint->deleted && !module->rc->closing) || endpoint->super.waiting ||
        endpoint->state != MCA_BTL_DIWARP_RC_CONNECTED)
        return;
    /* Else a completion will bring us back. */
    if (diwarp_rc_post_send(endpoint->qp, &wr) >= 0) {
        diwarp_disconnect(endpoint->qp);
        set_state(endpoint, MCA_BTL_DIWARP_RC_LEAVING);
    }
}

/* ---- events, under the lock ----------------------------------------------------------------- */

static void on_request(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint =
        key_of(wc->src) != my_key() ? endpoint_for(module->rc, wc->src) : NULL;
    if (!endpoint) {
        reject(wc->request, REJECT_GONE);
        return;
    }
    reject(endpoint->request, REJECT_AGAIN);
    endpoint->request = wc->request;
    connect_if_due(module, endpoint);
}

static void on_connected(struct mca_btl_diwarp_module *module,
                         mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    int rc = 0;
    set_state(endpoint, MCA_BTL_DIWARP_RC_CONNECTED);
    reject(endpoint->request, REJECT_AGAIN); /* given up by the peer, which has accepted ours */
    endpoint->request = NULL;
    if (!module->rc->srq)
        rc = mca_btl_diwarp_rc_buffers_make(module->rc, &endpoint->buffers, endpoint->qp);
    if (rc == -ENOTCONN)
        return; /* it has ended already, which is the next event */
    if (rc < 0) {
        endpoint->left = false;
        diwarp_disconnect(endpoint->qp);
        on_lost(module, endpoint, strerror(-rc));
        return;
    }
    mca_btl_diwarp_work_post_waiting(module, &endpoint->super);
    leave_if_due(module, endpoint);
}

/* Whether the end of the QP is a loss. It is none of a call that the peer gave up before it was
 * answered, nor of one that failed while nothing waits: whoever wants a connection calls. */
static bool is_loss(mca_btl_diwarp_rc_endpoint_t *endpoint, const struct diwarp_wc *wc)
{
    const bool calling = endpoint->state == MCA_BTL_DIWARP_RC_CALLING;
    const bool late = __atomic_load_n(&endpoint->unused, __ATOMIC_RELAXED) &&
                      wc->wc.status == IBV_WC_RETRY_EXC_ERR;
    unsigned char why = REJECT_NOT;
    if (calling && wc->wc.status == IBV_WC_REM_INV_REQ_ERR && wc->wc.byte_len == sizeof why)
        memcpy(&why, wc->data, sizeof why);
    if (endpoint->state == MCA_BTL_DIWARP_RC_CONNECTED && !late)
        endpoint->left = false; /* it was here again */
    endpoint->left = endpoint->left || why == REJECT_LEFT;
    if (endpoint->state == MCA_BTL_DIWARP_RC_GONE)
        return true;
    return endpoint->state != MCA_BTL_DIWARP_RC_LEAVING && why != REJECT_AGAIN && !late &&
           (!calling || endpoint->super.waiting);
}

static void on_disconnected(struct mca_btl_diwarp_module *module,
                            mca_btl_diwarp_rc_endpoint_t *endpoint, const struct diwarp_wc *wc)
{
    static const char *const texts[] = {
        [IBV_WC_SUCCESS] = "it closed the connection without a goodbye",
        [IBV_WC_REM_OP_ERR] = "the connection was terminated (RDMAP Terminate)",
        [IBV_WC_REM_INV_REQ_ERR] = "it rejected the connection",
        [IBV_WC_LOC_PROT_ERR] = "memory of this process that was to be sent cannot be read",
        [IBV_WC_LOC_QP_OP_ERR] = "this process has no memory for it",
        [IBV_WC_RETRY_EXC_ERR] = "TCP lost the connection, or it could not be made in time",
    };
    const bool lost = wc->rc_qp == endpoint->qp && is_loss(endpoint, wc);
    if (wc->rc_qp != endpoint->qp) {
        qp_destroy(module, &endpoint->lost);
    } else {
        connection_destroy(module, endpoint);
        if (!lost && endpoint->state != MCA_BTL_DIWARP_RC_IDLE)
            set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
    }
    if (lost)
        on_lost(module, endpoint, texts[wc->wc.status]);
    connect_if_due(module, endpoint);
}

void mca_btl_diwarp_rc_on_event(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = wc->request ? NULL : diwarp_rc_qp_context(wc->rc_qp);
    OPAL_THREAD_LOCK(&module->lock);
    if (!endpoint)
        on_request(module, wc);
    else if ((unsigned)wc->wc.opcode == DIWARP_WC_DISCONNECTED)
        on_disconnected(module, endpoint, wc);
    else if (wc->rc_qp == endpoint->qp) /* else our call that lost */
        on_connected(module, endpoint);
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_rc_on_goodbye(struct mca_btl_diwarp_module *module,
                                  mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    OPAL_THREAD_LOCK(&module->lock);
    endpoint->left = true;
    if (endpoint->state == MCA_BTL_DIWARP_RC_CONNECTED)
        set_state(endpoint, MCA_BTL_DIWARP_RC_LEAVING);
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_rc_leave_if_due(struct mca_btl_diwarp_module *module,
                                    mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    if (OPAL_UNLIKELY(endpoint->deleted || module->rc->closing)) {
        OPAL_THREAD_LOCK(&module->lock);
        leave_if_due(module, endpoint);
        OPAL_THREAD_UNLOCK(&module->lock);
    }
}

void mca_btl_diwarp_rc_leave_all(struct mca_btl_diwarp_module *module)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint;
    uint64_t key;
    OPAL_THREAD_LOCK(&module->lock);
    module->rc->closing = true;
    OPAL_HASH_TABLE_FOREACH(key, uint64, endpoint, &module->rc->endpoints)
    {
        endpoint->super.proc = NULL;
        leave_if_due(module, endpoint);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_rc_endpoints_free(struct mca_btl_diwarp_module *module)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint;
    uint64_t key;
    OPAL_HASH_TABLE_FOREACH(key, uint64, endpoint, &module->rc->endpoints)
    {
        connection_destroy(module, endpoint);
        qp_destroy(module, &endpoint->lost);
        free(endpoint);
    }
}

/* ---- the PML's view ----------------------------------------------------------------------- */

void mca_btl_diwarp_rc_connect(struct mca_btl_diwarp_module *module,
                               mca_btl_base_endpoint_t *endpoint)
{
    OPAL_THREAD_LOCK(&module->lock);
    connect_if_due(module, mca_btl_diwarp_rc_endpoint(endpoint));
    OPAL_THREAD_UNLOCK(&module->lock);
}

int mca_btl_diwarp_rc_endpoint_create(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                                      const struct diwarp_address *address,
                                      mca_btl_base_endpoint_t **created)
{
    const struct diwarp_name name = {.job = proc->proc_name.jobid, .rank = proc->proc_name.vpid};
    if (key_of(name) == my_key())
        return -ENOTSUP; /* btl/self is for that */
    int rc = diwarp_listener_reaches(module->rc->listener, address);
    if (rc < 0)
        return rc;
    OPAL_THREAD_LOCK(&module->lock);
    mca_btl_diwarp_rc_endpoint_t *endpoint = endpoint_for(module->rc, name);
    if (endpoint) {
        endpoint->super.proc = proc;
        if (endpoint->deleted && endpoint->state == MCA_BTL_DIWARP_RC_GONE)
            set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
        /* How it left before it was deleted does not count any more. */
        endpoint->left = endpoint->left && !endpoint->deleted;
        endpoint->deleted = false;
        /* One side is enough. If that fails, the first message calls again, and can report it:
         * until then there is nobody to tell. */
        if (mca_btl_diwarp_params.rc_connect == MCA_BTL_DIWARP_RC_AT_INIT && !endpoint->qp &&
            endpoint->state == MCA_BTL_DIWARP_RC_IDLE && my_key() < key_of(name))
            (void)call(module, endpoint);
        *created = &endpoint->super;
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    return endpoint ? 0 : -ENOMEM;
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
