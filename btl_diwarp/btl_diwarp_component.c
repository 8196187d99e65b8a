/* SPDX-License-Identifier: BSD-3-Clause */
/* Life cycle of the component: register, open, init, close. */
#include "btl_diwarp/btl_diwarp_work.h"

#include "opal/runtime/opal_params.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

OPAL_MODULE_DECLSPEC extern mca_btl_base_component_3_0_0_t mca_btl_diwarp_component;

/* Help texts are looked up in Open MPI's own folder only; ours may lie beside the component. */
static void add_help_dir(void)
{
    char *path, *slash;
    Dl_info info;

    if (0 == dladdr(&mca_btl_diwarp_component, &info) || NULL == info.dli_fname) {
        return;
    }
    path = strdup(info.dli_fname);
    slash = NULL != path ? strrchr(path, '/') : NULL;
    if (NULL != slash) {
        *slash = '\0';
        (void)opal_show_help_add_dir(path);
    }
    free(path);
}

static int component_register(void)
{
    struct mca_btl_diwarp_module *module = &mca_btl_diwarp_module;
    int rc;

    add_help_dir();
    module->super.btl_component = &mca_btl_diwarp_component;
    mca_btl_diwarp_send_set_functions(&module->super);
    mca_btl_diwarp_rdma_set_functions(&module->super);
    rc = mca_btl_diwarp_params_register(module);
    return OPAL_SUCCESS == rc ? mca_btl_diwarp_pvars_register(module) : rc;
}

static int component_open(void)
{
    struct mca_btl_diwarp_module *module = &mca_btl_diwarp_module;

    /* NOT_AVAILABLE keeps the framework from adding a warning of its own. */
    if (OPAL_SUCCESS != mca_base_var_check_exclusive("opal", "btl", "diwarp", "if_include", "btl",
                                                     "diwarp", "if_exclude")) {
        MCA_BTL_DIWARP_SAY("not used on %s: btl_diwarp_if_include and btl_diwarp_if_exclude are "
                           "both set; set one",
                           opal_process_info.nodename);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    for (unsigned i = 0; i < MCA_BTL_DIWARP_LISTS; i++) {
        OBJ_CONSTRUCT(&module->lists[i], opal_free_list_t);
    }
    OBJ_CONSTRUCT(&module->queues, opal_list_t);
    OBJ_CONSTRUCT(&module->lock, opal_mutex_t);
    module->lists_constructed = true;
    return OPAL_SUCCESS;
}

static int component_close(void)
{
    struct mca_btl_diwarp_module *module = &mca_btl_diwarp_module;

    if (!module->lists_constructed) {
        return OPAL_SUCCESS;
    }
    mca_btl_diwarp_osc_fini();
    mca_btl_diwarp_module_close(module);
    OBJ_DESTRUCT(&module->lock);
    OBJ_DESTRUCT(&module->queues);
    for (unsigned i = 0; i < MCA_BTL_DIWARP_LISTS; i++) {
        OBJ_DESTRUCT(&module->lists[i]);
    }
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

    for (unsigned i = 0; OPAL_SUCCESS == rc && i < MCA_BTL_DIWARP_LISTS; i++) {
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
    struct mca_btl_diwarp_module *module = &mca_btl_diwarp_module;
    mca_btl_base_module_t **btls;

    (void)enable_progress_threads;
    *num_btls = 0;
    if (!mca_btl_diwarp_params_check(module)) {
        return NULL;
    }
    btls = malloc(sizeof(*btls));
    if (NULL == btls || OPAL_SUCCESS != lists_init(module)) {
        MCA_BTL_DIWARP_HELP("out of memory", "starting up");
        free(btls);
        return NULL;
    }
    if (OPAL_SUCCESS != mca_btl_diwarp_module_open(module, enable_mpi_threads)) {
        free(btls);
        return NULL;
    }
    if (OPAL_SUCCESS != mca_btl_diwarp_modex_send(module)) {
        MCA_BTL_DIWARP_HELP("open failed", "publishing the address", "the modex refused it",
                            "none");
        mca_btl_diwarp_module_close(module);
        free(btls);
        return NULL;
    }
    if (MCA_BTL_DIWARP_RD == mca_btl_diwarp_params.transport) {
        mca_btl_diwarp_osc_init();
    }
    btls[0] = &module->super;
    *num_btls = 1;
    return btls;
}

static int component_progress(void)
{
    return mca_btl_diwarp_progress(&mca_btl_diwarp_module);
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
