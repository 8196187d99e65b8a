/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints of RC: a table by name, in which peers that call may come before the PML adds them, and
 * the PML's view of it. Of connections it knows when one is wanted, and when none is.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table ---------------------------------------------------------------------------- */

mca_btl_diwarp_rc_endpoint_t *mca_btl_diwarp_rc_endpoint_for(struct mca_btl_diwarp_rc *rc,
                                                             struct diwarp_name name)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint;
    void *found = NULL;

    if (OPAL_SUCCESS ==
        opal_hash_table_get_value_uint64(&rc->endpoints, mca_btl_diwarp_rc_key(name), &found)) {
        return found;
    }
    endpoint = calloc(1, sizeof(*endpoint));
    if (NULL == endpoint) {
        return NULL;
    }
    endpoint->name = name;
    if (OPAL_SUCCESS !=
        opal_hash_table_set_value_uint64(&rc->endpoints, mca_btl_diwarp_rc_key(name), endpoint)) {
        free(endpoint);
        return NULL;
    }
    return endpoint;
}

/* ---- the PML's view ----------------------------------------------------------------------- */

int mca_btl_diwarp_rc_endpoint_create(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                                      mca_btl_base_endpoint_t **endpoint)
{
    const struct diwarp_name name = {.job = proc->proc_name.jobid, .rank = proc->proc_name.vpid};
    mca_btl_diwarp_rc_endpoint_t *made;
    struct diwarp_address address;
    int rc;

    /* btl/self is for that. */
    if (mca_btl_diwarp_rc_key(name) == mca_btl_diwarp_rc_my_key()) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    rc = mca_btl_diwarp_peer_address(module, proc, &address);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    if (diwarp_listener_reaches(module->rc->listener, &address) < 0) {
        mca_btl_diwarp_peer_show_unreachable(module, proc, &address);
        return OPAL_ERR_UNREACH;
    }
    OPAL_THREAD_LOCK(&module->rc->lock);
    made = mca_btl_diwarp_rc_endpoint_for(module->rc, name);
    if (NULL != made) {
        made->super.proc = proc;
        if (made->deleted) {
            /* What it said when it left before does not count any more. */
            made->left = false;
            made->deleted = false;
        }
        /* One side is enough. */
        if (MCA_BTL_DIWARP_RC_AT_INIT == mca_btl_diwarp_params.rc_connect &&
            MCA_BTL_DIWARP_RC_IDLE == made->state &&
            mca_btl_diwarp_rc_my_key() < mca_btl_diwarp_rc_key(name)) {
            /* If that fails, the first message calls again, and can report it: until then there is
             * nobody to tell. */
            (void)mca_btl_diwarp_rc_endpoint_call(module, made);
        }
    }
    OPAL_THREAD_UNLOCK(&module->rc->lock);
    if (NULL == made) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    mca_btl_diwarp_endpoint_added(module);
    *endpoint = &made->super;
    return OPAL_SUCCESS;
}

void mca_btl_diwarp_rc_endpoint_free_if_unused(struct mca_btl_diwarp_module *module,
                                               mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    if (endpoint->deleted && !endpoint->ending && !endpoint->yields && NULL == endpoint->qp &&
        NULL == endpoint->lost && NULL == endpoint->waiting_first) {
        (void)opal_hash_table_remove_value_uint64(&module->rc->endpoints,
                                                  mca_btl_diwarp_rc_key(endpoint->name));
        free(endpoint);
    }
}

void mca_btl_diwarp_rc_endpoint_destroy(struct mca_btl_diwarp_module *module,
                                        mca_btl_base_endpoint_t *base)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = mca_btl_diwarp_rc_endpoint(base);

    mca_btl_diwarp_endpoint_removed(module);
    OPAL_THREAD_LOCK(&module->rc->lock);
    endpoint->super.proc = NULL;
    endpoint->deleted = true;
    mca_btl_diwarp_rc_endpoint_leave_if_due(module, endpoint);
    mca_btl_diwarp_rc_endpoint_free_if_unused(module, endpoint);
    OPAL_THREAD_UNLOCK(&module->rc->lock);
}

/* For each endpoint; `act` may free it. */
static void endpoints_foreach(struct mca_btl_diwarp_module *module,
                              void (*act)(struct mca_btl_diwarp_module *module,
                                          mca_btl_diwarp_rc_endpoint_t *endpoint))
{
    opal_hash_table_t *table = &module->rc->endpoints;
    void *value = NULL, *node = NULL, *next = NULL;
    uint64_t key;
    int rc = opal_hash_table_get_first_key_uint64(table, &key, &value, &node);

    while (OPAL_SUCCESS == rc) {
        void *endpoint = value;

        rc = opal_hash_table_get_next_key_uint64(table, &key, &value, node, &next);
        node = next;
        act(module, endpoint);
    }
}

void mca_btl_diwarp_rc_endpoints_leave(struct mca_btl_diwarp_module *module)
{
    module->rc->closing = true;
    endpoints_foreach(module, mca_btl_diwarp_rc_work_post_waiting);
}

static void endpoint_free(struct mca_btl_diwarp_module *module,
                          mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    mca_btl_diwarp_rc_connection_destroy(module, endpoint);
    mca_btl_diwarp_rc_qp_destroy(module, &endpoint->lost);
    free(endpoint);
}

void mca_btl_diwarp_rc_endpoints_free(struct mca_btl_diwarp_module *module)
{
    endpoints_foreach(module, endpoint_free);
    (void)opal_hash_table_remove_all(&module->rc->endpoints);
}
