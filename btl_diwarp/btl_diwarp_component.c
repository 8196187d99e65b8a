/* SPDX-License-Identifier: BSD-3-Clause */
/* The component and its one module: function table, life, peers, the verbs objects behind it. */
#include "btl_diwarp/btl_diwarp_work.h"

#include "opal/runtime/opal_params.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

/* NULL: it cannot be reached. */
static mca_btl_base_endpoint_t *endpoint_create(struct mca_btl_diwarp_module *module,
                                                opal_proc_t *proc)
{
    struct diwarp_address address;
    mca_btl_base_endpoint_t *endpoint = NULL;
    int rc = mca_btl_diwarp_peer_address(module, proc, &address);
    const bool ended = rc == -ESHUTDOWN;
    if (rc && !ended)
        return NULL;
    rc = module->transport->endpoint_create(module, proc, &address, &endpoint);
    /* One that has ended fails at its first use: Open MPI takes an endpoint for granted. */
    if (!rc && ended && module->transport->endpoint_give_up &&
        module->transport->endpoint_give_up(endpoint)) {
        module->transport->endpoint_destroy(module, endpoint);
        endpoint = NULL;
        rc = -ENOMEM;
    }
    if (rc == -ENETUNREACH && !ended)
        mca_btl_diwarp_peer_show_unreachable(module, proc, &address);
    else if (rc == -ENOMEM)
        MCA_BTL_DIWARP_HELP("out of memory", "adding peers");
    else if (!rc && !ended)
        mca_btl_diwarp_peer_note(module, proc, &address);
    return endpoint;
}

static int add_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                     mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    mca_btl_diwarp_cores_on_procs(module, procs, nprocs);
    for (size_t i = 0; i < nprocs; i++) {
        endpoints[i] = endpoint_create(module, procs[i]);
        if (!endpoints[i])
            continue;
        (void)__atomic_add_fetch(&module->endpoints, 1, __ATOMIC_RELAXED);
        if (mca_btl_diwarp_job_goes_on() && procs[i]->proc_name.jobid != OPAL_PROC_MY_NAME.jobid)
            __atomic_store_n(&module->has_other_jobs, true, __ATOMIC_RELAXED);
        if (reachable)
            (void)opal_bitmap_set_bit(reachable, (int)i);
    }
    return OPAL_SUCCESS;
}

/* No other thread is to be within a callback that knows an endpoint, nor, once the last one goes,
 * in the PML. The array stays as it is: the BML compares its entries to know what has been deleted
 * already. */
static int del_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                     mca_btl_base_endpoint_t **endpoints)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    const bool within = mca_btl_diwarp_in_progress(module);
    (void)procs;
    mca_btl_diwarp_memory_note(module); /* MPI_Finalize deletes the peers before the module */
    if (!within)
        mca_btl_diwarp_polling_wait(module);
    for (size_t i = 0; i < nprocs; i++) {
        if (!endpoints[i])
            continue;
        (void)__atomic_sub_fetch(&module->endpoints, 1, __ATOMIC_RELAXED);
        module->transport->endpoint_destroy(module, endpoints[i]);
    }
    if (!within)
        opal_atomic_unlock(&module->polling);
    return OPAL_SUCCESS;
}

static int register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t cbfunc)
{
    ((struct mca_btl_diwarp_module *)btl)->error_cb = cbfunc;
    return OPAL_SUCCESS;
}

/* Gives everything back; harmless when nothing is open. */
static int finalize(mca_btl_base_module_t *btl)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    if (module->helper)
        diwarp_stop_helper(module->helper);
    module->helper = NULL;
    mca_btl_diwarp_drop_held(module);
    mca_btl_diwarp_memory_report(module);
    module->transport->close(module);
    if (module->cq)
        diwarp_destroy_cq(module->cq);
    module->cq = NULL;
    if (module->pd)
        diwarp_dealloc_pd(module->pd);
    module->pd = NULL;
    if (module->device)
        diwarp_close_device(module->device);
    module->device = NULL;
    return OPAL_SUCCESS;
}

/* Tells in the user's terms why the device or the socket could not be had. */
static void show_open_error(int rc, const char *what, const struct diwarp_diagnosis *why)
{
    static const struct {
        int rc;
        const char *topic;
    } topics[] = {{-ENODEV, "no usable interface"},
                  {-EINVAL, "bad interface"},
                  {-EADDRINUSE, "port in use"},
                  {-ENOMEM, "out of memory"}};
    const char *topic = "open failed";
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (topics[i].rc == rc)
            topic = topics[i].topic;
    MCA_BTL_DIWARP_SAY("not used on %s: %s failed: %s%s%s", opal_process_info.nodename, what,
                       strerror(-rc), why->text[0] != '\0' ? ": " : "", why->text);
    MCA_BTL_DIWARP_HELP(topic, what, strerror(-rc), why->text);
}

/* Lists grow without bound: a descriptor that cannot be had stalls ob1, which tries again only from
 * callbacks that may never come. They never shrink, so a growth step is small: near 16 KiB. */
static int lists_init(struct mca_btl_diwarp_module *module)
{
    const size_t payload[] = {MCA_BTL_DIWARP_SMALL_BYTES, MCA_BTL_DIWARP_MEDIUM_BYTES,
                              mca_btl_diwarp_longest_send(module)};
    const size_t line = (size_t)opal_cache_line_size;
    int rc = OPAL_SUCCESS;
    for (unsigned i = 0; rc == OPAL_SUCCESS && i < MCA_BTL_DIWARP_LISTS; i++) {
        const bool frag = i <= MCA_BTL_DIWARP_FRAG_LARGE;
        const size_t bytes =
            frag ? sizeof(mca_btl_diwarp_frag_t) + payload[i] : sizeof(mca_btl_diwarp_rdma_t);
        const int per_alloc = bytes < 16u << 10 ? (int)((16u << 10) / bytes) : 1;
        rc = opal_free_list_init(&module->lists[i], bytes, line,
                                 frag ? OBJ_CLASS(mca_btl_diwarp_frag_t)
                                      : OBJ_CLASS(mca_btl_diwarp_rdma_t),
                                 0, line, 0, -1, per_alloc, NULL, 0, NULL, NULL, NULL);
    }
    return rc;
}

/* 0 or negative errno; `what` names the step that failed. multiple: the program asked for
 * MPI_THREAD_MULTIPLE. */
static int open_steps(struct mca_btl_diwarp_module *module, bool multiple, const char **what,
                      struct diwarp_diagnosis *why)
{
    struct diwarp_device_attr attr = mca_btl_diwarp_params_device();
    module->threaded = multiple || opal_using_threads();
    attr.threaded = module->threaded || MCA_BTL_DIWARP_THREADS_LATER ||
                    mca_btl_diwarp_params.progress_thread != DIWARP_OFF;
    *what = "starting up";
    if (lists_init(module) != OPAL_SUCCESS)
        return -ENOMEM;
    *what = "opening the device";
    int rc = diwarp_open_device(&attr, &module->device, why);
    if (rc < 0)
        return rc;
    *what = "creating the protection domain and the completion queue";
    module->pd = diwarp_alloc_pd(module->device);
    module->cq = module->pd ? diwarp_create_cq(module->device, MCA_BTL_DIWARP_QUEUE_WRS) : NULL;
    if (!module->cq)
        return -ENOMEM;
    if (mca_btl_diwarp_params.transport != MCA_BTL_DIWARP_RD)
        module->transport = &mca_btl_diwarp_transport_rc;
    rc = module->transport->open(module, what, why);
    if (rc < 0)
        return rc;
    *what = "starting the progress thread";
    rc = mca_btl_diwarp_cores_init(module, multiple);
    if (rc < 0)
        return rc;
    *what = "publishing the address";
    if (mca_btl_diwarp_modex_send(module) != OPAL_SUCCESS)
        return -EIO;
    if (module->qp)
        mca_btl_diwarp_osc_init();
    return 0;
}

/* There is one. With the functions that mca_btl_diwarp_send_set_functions() and
 * ..._rdma_set_functions() add, this is the function table of the RD transport; that of RC changes
 * it when it opens. */
static struct mca_btl_diwarp_module the_module = {
    .transport = &mca_btl_diwarp_transport_rd,
    .super = {.btl_add_procs = add_procs,
              .btl_del_procs = del_procs,
              .btl_finalize = finalize,
              .btl_register_error = register_error,
              .btl_dump = mca_btl_base_dump},
};

MCA_BTL_DIWARP_EXPORT extern mca_btl_base_component_3_0_0_t mca_btl_diwarp_component;

/* Help texts are looked up in Open MPI's own folder only; ours may lie beside the component. */
static void add_help_dir(void)
{
    Dl_info info;
    const bool known = dladdr(&mca_btl_diwarp_component, &info) && info.dli_fname;
    char *path = known ? strdup(info.dli_fname) : NULL;
    if (path)
        (void)opal_show_help_add_dir(dirname(path));
    free(path);
}

static int component_register(void)
{
    add_help_dir();
    the_module.super.btl_component = &mca_btl_diwarp_component;
    mca_btl_diwarp_send_set_functions(&the_module.super);
    mca_btl_diwarp_rdma_set_functions(&the_module.super);
    const int rc = mca_btl_diwarp_params_register(&the_module);
    return rc == OPAL_SUCCESS ? mca_btl_diwarp_pvars_register(&the_module) : rc;
}

static int component_open(void)
{
    for (unsigned i = 0; i < MCA_BTL_DIWARP_LISTS; i++)
        OBJ_CONSTRUCT(&the_module.lists[i], opal_free_list_t);
    OBJ_CONSTRUCT(&the_module.lock, opal_mutex_t);
    TAILQ_INIT(&the_module.waiting);
    STAILQ_INIT(&the_module.held);
    return OPAL_SUCCESS;
}

static int component_close(void)
{
    mca_btl_diwarp_osc_fini();
    (void)finalize(&the_module.super);
    OBJ_DESTRUCT(&the_module.lock);
    for (unsigned i = 0; i < MCA_BTL_DIWARP_LISTS; i++)
        OBJ_DESTRUCT(&the_module.lists[i]);
    return OPAL_SUCCESS;
}

/* NULL disqualifies the component; Open MPI goes on with the others. */
static mca_btl_base_module_t **component_init(int *num_btls, bool enable_progress_threads,
                                              bool enable_mpi_threads)
{
    struct diwarp_diagnosis why = {.text = ""};
    const char *what;
    (void)enable_progress_threads;
    *num_btls = 0;
    if (!mca_btl_diwarp_params_check(&the_module))
        return NULL;
    const int rc = open_steps(&the_module, enable_mpi_threads, &what, &why);
    mca_btl_base_module_t **btls = rc < 0 ? NULL : malloc(sizeof *btls);
    if (!btls) {
        show_open_error(rc < 0 ? rc : -ENOMEM, what, &why);
        (void)finalize(&the_module.super);
        return NULL;
    }
    btls[0] = &the_module.super;
    *num_btls = 1;
    return btls;
}

static int component_progress(void)
{
    return mca_btl_diwarp_progress(&the_module);
}

mca_btl_base_component_3_0_0_t mca_btl_diwarp_component = {
    .btl_version = {MCA_BTL_DEFAULT_VERSION("diwarp"), .mca_open_component = component_open,
                    .mca_close_component = component_close,
                    .mca_register_component_params = component_register},
    .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .btl_init = component_init,
    .btl_progress = component_progress,
};
