/* SPDX-License-Identifier: BSD-3-Clause */
/* The component and its one module: function table, life, peers, and the verbs objects behind it.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include "opal/runtime/opal_params.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- peers --------------------------------------------------------------------------------- */

/* Another BTL would not be looked at meanwhile, but for self, which is never waited for. */
static bool is_alone(void)
{
    mca_btl_base_selected_module_t *other;
    OPAL_LIST_FOREACH(other, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        const char *name = other->btl_component->btl_version.mca_component_name;
        if (strcmp(name, "diwarp") != 0 && strcmp(name, "self") != 0)
            return false;
    }
    return true;
}

/* Once the BTLs are chosen. */
static bool may_block(const struct mca_btl_diwarp_module *module)
{
    const int blocking = mca_btl_diwarp_params.blocking;
    return blocking != DIWARP_OFF && !module->threaded &&
           (blocking == DIWARP_ON || (mca_btl_diwarp_cores_turns(module) > 1 && is_alone()));
}

/* After an error nobody looks at the endpoints that were made, nor deletes them. */
static void forget_procs(struct mca_btl_diwarp_module *module, size_t nprocs,
                         mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    for (size_t i = 0; i < nprocs; i++) {
        if (endpoints[i]) {
            module->transport->endpoint_destroy(module, endpoints[i]);
            endpoints[i] = NULL;
        }
        if (reachable)
            (void)opal_bitmap_clear_bit(reachable, (int)i);
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
        if (rc != OPAL_SUCCESS)
            endpoints[i] = NULL;
        else if (reachable)
            rc = opal_bitmap_set_bit(reachable, (int)i);
        if (rc == OPAL_ERR_OUT_OF_RESOURCE) {
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
    for (size_t i = 0; i < nprocs; i++)
        if (endpoints[i])
            module->transport->endpoint_destroy(module, endpoints[i]);
    return OPAL_SUCCESS;
}

/* ---- life of the module --------------------------------------------------------------------- */

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

/* Gives everything back; harmless when nothing is open. */
static void module_close(struct mca_btl_diwarp_module *module)
{
    mca_btl_diwarp_helper_stop(module);
    if (module->cq && mca_btl_diwarp_params.memory_report)
        mca_btl_diwarp_memory_report(module);
    module->transport->close(module);
    if (module->cq) {
        diwarp_destroy_cq(module->cq);
        module->cq = NULL;
    }
    if (module->pd) {
        diwarp_dealloc_pd(module->pd);
        module->pd = NULL;
    }
    if (module->device) {
        diwarp_close_device(module->device);
        module->device = NULL;
    }
    free(module->gone);
    module->gone = NULL;
    module->gone_count = 0;
}

static int finalize(mca_btl_base_module_t *btl)
{
    module_close((struct mca_btl_diwarp_module *)btl);
    return OPAL_SUCCESS;
}

/* Tells in the user's terms why the device or the socket could not be had. */
static void show_open_error(int rc, const char *what, const struct diwarp_diagnosis *why)
{
    const struct mca_btl_diwarp_params *params = &mca_btl_diwarp_params;
    MCA_BTL_DIWARP_SAY("not used on %s: %s failed: %s%s%s", opal_process_info.nodename, what,
                       strerror(-rc), why->text[0] != '\0' ? ": " : "", why->text);
    switch (rc) {
    case -ENODEV:
        MCA_BTL_DIWARP_HELP("no usable interface", params->if_include ? params->if_include : "",
                            params->if_exclude ? params->if_exclude : "", why->text);
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
    if (!module->pd)
        return -ENOMEM;
    *what = "creating the completion queue";
    module->cq = diwarp_create_cq(module->device, MCA_BTL_DIWARP_QUEUE_WRS);
    if (!module->cq)
        return -ENOMEM;
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
    if (wanted == DIWARP_OFF)
        return 0;
    module->helper_calls_back = wanted == DIWARP_ON || multiple;
    if (mca_btl_diwarp_helper_start(module) < 0) {
        module->helper_calls_back = false;
        MCA_BTL_DIWARP_VERBOSE(1, "no thread to be had; going on without the %s", "helper");
        return wanted == DIWARP_ON ? -EAGAIN : 0;
    }
    if (module->helper_calls_back) {
        module->super.btl_flags |= MCA_BTL_FLAGS_BTL_PROGRESS_THREAD_ENABLED;
        opal_set_using_threads(true);
    }
    return 0;
}

/* An OPAL code; on error nothing stays open and the user has been told. multiple: the program asked
 * for MPI_THREAD_MULTIPLE. */
static int module_open(struct mca_btl_diwarp_module *module, bool multiple)
{
    const bool threaded = multiple || opal_using_threads();
    struct diwarp_device_attr attr;
    struct diwarp_diagnosis why = {.text = ""};
    const char *what = "opening the device";
    int rc;
    mca_btl_diwarp_params_get(&attr);
    attr.name.job = OPAL_PROC_MY_NAME.jobid;
    attr.name.rank = OPAL_PROC_MY_NAME.vpid;
    attr.threaded = threaded || mca_btl_diwarp_params.progress_thread != DIWARP_OFF;
    mca_btl_diwarp_cores_look(&module->cores);
    attr.shared_cores = module->cores.turns > 1;
    module->threaded = threaded;
    module->transport = mca_btl_diwarp_params.transport == MCA_BTL_DIWARP_RD
                            ? &mca_btl_diwarp_transport_rd
                            : &mca_btl_diwarp_transport_rc;
    rc = diwarp_open_device(&attr, &module->device, &why);
    if (!rc)
        rc = open_transport(module, &what, &why);
    if (!rc) {
        what = "starting the progress thread";
        rc = start_helper(module, multiple);
    }
    if (rc < 0) {
        show_open_error(rc, what, &why);
        module_close(module);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    return OPAL_SUCCESS;
}

/* There is one. With the functions that mca_btl_diwarp_send_set_functions() and
 * ..._rdma_set_functions() add, this is the function table of the RD transport; that of RC changes
 * it when it opens. */
static struct mca_btl_diwarp_module the_module = {
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

/* ---- life of the component ------------------------------------------------------------------ */

OPAL_MODULE_DECLSPEC extern mca_btl_base_component_3_0_0_t mca_btl_diwarp_component;

/* Help texts are looked up in Open MPI's own folder only; ours may lie beside the component. */
static void add_help_dir(void)
{
    char *path, *slash;
    Dl_info info;
    if (!dladdr(&mca_btl_diwarp_component, &info) || !info.dli_fname)
        return;
    path = strdup(info.dli_fname);
    slash = path ? strrchr(path, '/') : NULL;
    if (slash) {
        *slash = '\0';
        (void)opal_show_help_add_dir(path);
    }
    free(path);
}

static int component_register(void)
{
    struct mca_btl_diwarp_module *module = &the_module;
    int rc;
    add_help_dir();
    module->super.btl_component = &mca_btl_diwarp_component;
    mca_btl_diwarp_send_set_functions(&module->super);
    mca_btl_diwarp_rdma_set_functions(&module->super);
    rc = mca_btl_diwarp_params_register(module);
    return rc == OPAL_SUCCESS ? mca_btl_diwarp_pvars_register(module) : rc;
}

static int component_open(void)
{
    struct mca_btl_diwarp_module *module = &the_module;
    /* NOT_AVAILABLE keeps the framework from adding a warning of its own. */
    if (mca_base_var_check_exclusive("opal", "btl", "diwarp", "if_include", "btl", "diwarp",
                                     "if_exclude") != OPAL_SUCCESS) {
        MCA_BTL_DIWARP_SAY("not used on %s: btl_diwarp_if_include and btl_diwarp_if_exclude are "
                           "both set; set one",
                           opal_process_info.nodename);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    for (unsigned i = 0; i < MCA_BTL_DIWARP_LISTS; i++)
        OBJ_CONSTRUCT(&module->lists[i], opal_free_list_t);
    OBJ_CONSTRUCT(&module->queues, opal_list_t);
    OBJ_CONSTRUCT(&module->lock, opal_mutex_t);
    module->lists_constructed = true;
    return OPAL_SUCCESS;
}

static int component_close(void)
{
    struct mca_btl_diwarp_module *module = &the_module;
    if (!module->lists_constructed)
        return OPAL_SUCCESS;
    mca_btl_diwarp_osc_fini();
    module_close(module);
    OBJ_DESTRUCT(&module->lock);
    OBJ_DESTRUCT(&module->queues);
    for (unsigned i = 0; i < MCA_BTL_DIWARP_LISTS; i++)
        OBJ_DESTRUCT(&module->lists[i]);
    module->lists_constructed = false;
    return OPAL_SUCCESS;
}

/* Lists grow without bound: a descriptor that cannot be had stalls ob1, which tries again only from
 * callbacks that may never come. They never shrink, so a growth step is small: near 16 KiB. */
static int lists_init(struct mca_btl_diwarp_module *module)
{
    opal_class_t *frag = OBJ_CLASS(mca_btl_diwarp_frag_t);
    const size_t frag_bytes = sizeof(mca_btl_diwarp_frag_t), line = (size_t)opal_cache_line_size;
    const struct {
        opal_class_t *class;
        size_t bytes;
    } items[MCA_BTL_DIWARP_LISTS] = {
        [MCA_BTL_DIWARP_FRAG_SMALL] = {frag, frag_bytes + MCA_BTL_DIWARP_SMALL_BYTES},
        [MCA_BTL_DIWARP_FRAG_MEDIUM] = {frag, frag_bytes + MCA_BTL_DIWARP_MEDIUM_BYTES},
        [MCA_BTL_DIWARP_FRAG_EAGER] = {frag, frag_bytes + module->super.btl_eager_limit},
        [MCA_BTL_DIWARP_FRAG_MAX] = {frag, frag_bytes + module->super.btl_max_send_size},
        [MCA_BTL_DIWARP_RDMAS] = {OBJ_CLASS(mca_btl_diwarp_rdma_t), sizeof(mca_btl_diwarp_rdma_t)},
        [MCA_BTL_DIWARP_REGS] = {OBJ_CLASS(mca_btl_diwarp_reg_t), sizeof(mca_btl_diwarp_reg_t)},
    };
    int rc = OPAL_SUCCESS;

    for (unsigned i = 0; rc == OPAL_SUCCESS && i < MCA_BTL_DIWARP_LISTS; i++) {
        const size_t per_alloc = (16u << 10) / items[i].bytes;
        rc =
            opal_free_list_init(&module->lists[i], items[i].bytes, line, items[i].class, 0, line, 0,
                                -1, per_alloc > 0 ? (int)per_alloc : 1, NULL, 0, NULL, NULL, NULL);
    }
    return rc;
}

/* NULL disqualifies the component; Open MPI goes on with the others. */
static mca_btl_base_module_t **component_init(int *num_btls, bool enable_progress_threads,
                                              bool enable_mpi_threads)
{
    struct mca_btl_diwarp_module *module = &the_module;
    mca_btl_base_module_t **btls;
    (void)enable_progress_threads;
    *num_btls = 0;
    if (!mca_btl_diwarp_params_check(module))
        return NULL;
    btls = malloc(sizeof *btls);
    if (!btls || lists_init(module) != OPAL_SUCCESS) {
        MCA_BTL_DIWARP_HELP("out of memory", "starting up");
        free(btls);
        return NULL;
    }
    if (module_open(module, enable_mpi_threads) != OPAL_SUCCESS) {
        free(btls);
        return NULL;
    }
    if (mca_btl_diwarp_modex_send(module) != OPAL_SUCCESS) {
        MCA_BTL_DIWARP_HELP("open failed", "publishing the address", "the modex refused it",
                            "none");
        module_close(module);
        free(btls);
        return NULL;
    }
    if (mca_btl_diwarp_params.transport == MCA_BTL_DIWARP_RD)
        mca_btl_diwarp_osc_init();
    btls[0] = &module->super;
    *num_btls = 1;
    return btls;
}

static int component_progress(void)
{
    return mca_btl_diwarp_progress(&the_module);
}

mca_btl_base_component_3_0_0_t mca_btl_diwarp_component = {
    .btl_version =
        {
            MCA_BTL_DEFAULT_VERSION("diwarp"),
            .mca_open_component = component_open,
            .mca_close_component = component_close,
            .mca_register_component_params = component_register,
        },
    .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .btl_init = component_init,
    .btl_progress = component_progress,
};
