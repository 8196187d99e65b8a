/* SPDX-License-Identifier: BSD-3-Clause */
/* The module: function table, peers, and the verbs objects behind it. */
#include "btl_diwarp/btl_diwarp_work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Another BTL would not be looked at meanwhile, but for self, which is never waited for. */
static bool is_alone(void)
{
    mca_btl_base_selected_module_t *other;

    OPAL_LIST_FOREACH(other, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        const char *name = other->btl_component->btl_version.mca_component_name;

        if (0 != strcmp(name, "diwarp") && 0 != strcmp(name, "self")) {
            return false;
        }
    }
    return true;
}

/* Once the BTLs are chosen. */
static bool may_block(const struct mca_btl_diwarp_module *module)
{
    const int blocking = mca_btl_diwarp_params.blocking;

    return DIWARP_OFF != blocking && !module->threaded &&
           (DIWARP_ON == blocking || (mca_btl_diwarp_cores_turns(module) > 1 && is_alone()));
}

/* After an error nobody looks at the endpoints that were made, nor deletes them. */
static void forget_procs(struct mca_btl_diwarp_module *module, size_t nprocs,
                         mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    for (size_t i = 0; i < nprocs; i++) {
        if (NULL != endpoints[i]) {
            module->transport->endpoint_destroy(module, endpoints[i]);
            endpoints[i] = NULL;
        }
        if (NULL != reachable) {
            (void)opal_bitmap_clear_bit(reachable, (int)i);
        }
    }
}

static int add_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                     mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;

    mca_btl_diwarp_cores_on_procs(module, procs, nprocs);
    mca_btl_diwarp_helper_on_procs(module);
    __atomic_store_n(&module->blocking, may_block(module), __ATOMIC_RELAXED);
    for (size_t i = 0; i < nprocs; i++) {
        int rc = module->transport->endpoint_create(module, procs[i], &endpoints[i]);

        if (OPAL_SUCCESS != rc) {
            endpoints[i] = NULL;
        } else if (NULL != reachable) {
            rc = opal_bitmap_set_bit(reachable, (int)i);
        }
        if (OPAL_ERR_OUT_OF_RESOURCE == rc) {
            MCA_BTL_DIWARP_HELP("out of memory", "adding peers");
            forget_procs(module, i + 1, endpoints, reachable);
            return rc;
        }
    }
    return OPAL_SUCCESS;
}

/* The array stays as it is: the BML compares its entries to know what has been deleted already. */
static int del_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                     mca_btl_base_endpoint_t **endpoints)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;

    (void)procs;
    mca_btl_diwarp_memory_note(module);
    for (size_t i = 0; i < nprocs; i++) {
        if (NULL != endpoints[i]) {
            module->transport->endpoint_destroy(module, endpoints[i]);
        }
    }
    return OPAL_SUCCESS;
}

static int register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t cbfunc)
{
    ((struct mca_btl_diwarp_module *)btl)->error_cb = cbfunc;
    return OPAL_SUCCESS;
}

static int ft_event(int state)
{
    (void)state;
    return OPAL_SUCCESS;
}

static int finalize(mca_btl_base_module_t *btl)
{
    mca_btl_diwarp_module_close((struct mca_btl_diwarp_module *)btl);
    return OPAL_SUCCESS;
}

/* Tells in the user's terms why the device or the socket could not be had. */
static void show_open_error(int rc, const char *what, const struct diwarp_diagnosis *why)
{
    const struct mca_btl_diwarp_params *params = &mca_btl_diwarp_params;

    MCA_BTL_DIWARP_SAY("not used on %s: %s failed: %s%s%s", opal_process_info.nodename, what,
                       strerror(-rc), '\0' != why->text[0] ? ": " : "", why->text);
    switch (rc) {
    case -ENODEV:
        MCA_BTL_DIWARP_HELP("no usable interface",
                            NULL != params->if_include ? params->if_include : "",
                            NULL != params->if_exclude ? params->if_exclude : "", why->text);
        return;
    case -EINVAL:
        MCA_BTL_DIWARP_HELP("bad interface", why->text);
        return;
    case -EADDRINUSE:
        MCA_BTL_DIWARP_HELP("port in use", params->port_min,
                            params->port_max > 0 ? params->port_max : params->port_min, why->text);
        return;
    case -ENOMEM:
        MCA_BTL_DIWARP_HELP("out of memory", what);
        return;
    default:
        MCA_BTL_DIWARP_HELP("open failed", what, strerror(-rc), why->text);
        return;
    }
}

/* 0 or negative errno; `what` names the step that failed. */
static int open_transport(struct mca_btl_diwarp_module *module, const char **what,
                          struct diwarp_diagnosis *why)
{
    *what = "creating the protection domain";
    module->pd = diwarp_alloc_pd(module->device);
    if (NULL == module->pd) {
        return -ENOMEM;
    }
    *what = "creating the completion queue";
    module->cq = diwarp_create_cq(module->device, MCA_BTL_DIWARP_QUEUE_WRS);
    if (NULL == module->cq) {
        return -ENOMEM;
    }
    return module->transport->open(module, what, why);
}

/*
 * The helper may hand completions to the PML where that takes its locks: in programs that asked for
 * MPI_THREAD_MULTIPLE, or when the user wants it, which makes it take them, as btl/tcp does for its
 * own thread. With FUNNELED and SERIALIZED opal_using_threads() holds, but ob1 does not guard
 * everything.
 */
static int start_helper(struct mca_btl_diwarp_module *module, bool multiple)
{
    int wanted = mca_btl_diwarp_params.progress_thread;

    if (DIWARP_OFF == wanted) {
        return 0;
    }
    module->helper_calls_back = DIWARP_ON == wanted || multiple;
    if (mca_btl_diwarp_helper_start(module) < 0) {
        module->helper_calls_back = false;
        MCA_BTL_DIWARP_VERBOSE(1, "no thread to be had; going on without the %s", "helper");
        return DIWARP_ON == wanted ? -EAGAIN : 0;
    }
    if (module->helper_calls_back) {
        module->super.btl_flags |= MCA_BTL_FLAGS_BTL_PROGRESS_THREAD_ENABLED;
        opal_set_using_threads(true);
    }
    return 0;
}

int mca_btl_diwarp_module_open(struct mca_btl_diwarp_module *module, bool multiple)
{
    const bool threaded = multiple || opal_using_threads();
    struct diwarp_device_attr attr;
    struct diwarp_diagnosis why = {.text = ""};
    const char *what = "opening the device";
    int rc;

    mca_btl_diwarp_params_get(&attr);
    attr.name.job = OPAL_PROC_MY_NAME.jobid;
    attr.name.rank = OPAL_PROC_MY_NAME.vpid;
    attr.threaded = threaded || DIWARP_OFF != mca_btl_diwarp_params.progress_thread;
    mca_btl_diwarp_cores_look(&module->cores);
    attr.shared_cores = module->cores.turns > 1;
    module->threaded = threaded;
    module->transport = MCA_BTL_DIWARP_RD == mca_btl_diwarp_params.transport
                            ? &mca_btl_diwarp_transport_rd
                            : &mca_btl_diwarp_transport_rc;
    rc = diwarp_open_device(&attr, &module->device, &why);
    if (0 == rc) {
        rc = open_transport(module, &what, &why);
    }
    if (0 == rc) {
        what = "starting the progress thread";
        rc = start_helper(module, multiple);
    }
    if (rc < 0) {
        show_open_error(rc, what, &why);
        mca_btl_diwarp_module_close(module);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    return OPAL_SUCCESS;
}

void mca_btl_diwarp_module_close(struct mca_btl_diwarp_module *module)
{
    mca_btl_diwarp_helper_stop(module);
    if (NULL != module->cq && mca_btl_diwarp_params.memory_report) {
        mca_btl_diwarp_memory_report(module);
    }
    module->transport->close(module);
    if (NULL != module->cq) {
        diwarp_destroy_cq(module->cq);
        module->cq = NULL;
    }
    if (NULL != module->pd) {
        diwarp_dealloc_pd(module->pd);
        module->pd = NULL;
    }
    if (NULL != module->device) {
        diwarp_close_device(module->device);
        module->device = NULL;
    }
    free(module->gone);
    module->gone = NULL;
    module->gone_count = 0;
}

/* With the functions that mca_btl_diwarp_send_set_functions() and ..._rdma_set_functions() add,
 * this is the function table of the RD transport; that of RC changes it when it opens. */
struct mca_btl_diwarp_module mca_btl_diwarp_module = {
    .transport = &mca_btl_diwarp_transport_rd,
    .super =
        {
            .btl_add_procs = add_procs,
            .btl_del_procs = del_procs,
            .btl_finalize = finalize,
            .btl_register_error = register_error,
            .btl_dump = mca_btl_base_dump,
            .btl_ft_event = ft_event,
        },
};
