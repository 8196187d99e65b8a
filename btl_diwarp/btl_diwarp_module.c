/* SPDX-License-Identifier: BSD-3-Clause */
/* The module: function table, peers, and the verbs objects behind it. */
#include "btl_diwarp/btl_diwarp_work.h"

#include "opal/util/show_help.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bound of requests to one peer that the core queues, each of which takes 300 bytes there; more
 * wait in btl_diwarp_work.c. */
#define SEND_QUEUE_WRS 8192
#define CQ_ENTRIES     4096

/* Below this a socket loses a burst of even two large datagrams; and the usual system default. */
#define RCVBUF_TINY_BYTES  (64u << 10)
#define RCVBUF_USUAL_BYTES 212992u

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
    switch (mca_btl_diwarp_params.blocking) {
    case DIWARP_OFF:
        return false;
    case DIWARP_ON:
        return !module->threaded;
    default:
        return mca_btl_diwarp_cores_turns(module) > 1 && !module->threaded && is_alone();
    }
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
            opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "out of memory", true,
                           opal_process_info.nodename, "adding peers");
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
    mca_btl_diwarp_memory_note((struct mca_btl_diwarp_module *)btl);
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
    const char *host = opal_process_info.nodename;

    MCA_BTL_DIWARP_SAY("not used on %s: %s failed: %s%s%s", host, what, strerror(-rc),
                       '\0' != why->text[0] ? ": " : "", why->text);
    switch (rc) {
    case -ENODEV:
        opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "no usable interface", true, host,
                       NULL != params->if_include ? params->if_include : "",
                       NULL != params->if_exclude ? params->if_exclude : "", why->text);
        return;
    case -EINVAL:
        opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "bad interface", true, host, why->text);
        return;
    case -EADDRINUSE:
        opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "port in use", true, host, params->port_min,
                       params->port_max > 0 ? params->port_max : params->port_min, why->text);
        return;
    case -ENOMEM:
        opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "out of memory", true, host, what);
        return;
    default:
        opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "open failed", true, host, what, strerror(-rc),
                       why->text);
        return;
    }
}

static void check_rcvbuf(const struct mca_btl_diwarp_module *module)
{
    const unsigned asked = mca_btl_diwarp_params.rcvbuf_bytes;
    struct diwarp_device_info device;
    struct diwarp_qp_info qp;

    diwarp_query_device(module->device, &device);
    diwarp_query_qp(module->qp, &qp);
    if (qp.rcvbuf_bytes < RCVBUF_TINY_BYTES) {
        opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "socket buffer small", true,
                       opal_process_info.nodename, qp.rcvbuf_bytes, device.rmem_max_bytes);
    } else if (qp.rcvbuf_bytes < asked || qp.rcvbuf_bytes < RCVBUF_USUAL_BYTES) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl:diwarp: receive buffer of %u B granted (asked for %u, "
                            "net.core.rmem_max is %u); a larger one loses less under load",
                            qp.rcvbuf_bytes, asked, device.rmem_max_bytes);
    }
}

static void show_opened(const struct mca_btl_diwarp_module *module)
{
    struct diwarp_device_info device;
    struct diwarp_qp_info qp;
    struct diwarp_address address;
    char interfaces[512];
    const char *gro;

    diwarp_query_device(module->device, &device);
    diwarp_query_qp(module->qp, &qp);
    diwarp_query_address(module->qp, &address);
    mca_btl_diwarp_format_interfaces(device.interfaces, device.interface_count, interfaces,
                                     sizeof(interfaces));
    gro = qp.gro ? "on" : DIWARP_AUTO == mca_btl_diwarp_params.gro ? "on demand" : "off";
    opal_output_verbose(20, opal_btl_base_framework.framework_output,
                        "btl:diwarp: port %u on %s; gso %s, gro %s, crc %s, rcvbuf %u, sndbuf %u",
                        address.port, interfaces, qp.gso ? "on" : "off", gro, device.crc_path,
                        qp.rcvbuf_bytes, qp.sndbuf_bytes);
}

static void show_left_out(const struct mca_btl_diwarp_module *module)
{
    struct diwarp_device_info device;

    diwarp_query_device(module->device, &device);
    if (device.left_out_count > 0) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl:diwarp: %u interfaces are left out, for no more than %u can be "
                            "used; btl_diwarp_if_include says which",
                            device.left_out_count, device.interface_count);
    }
}

static int open_rd(struct mca_btl_diwarp_module *module, const char **what,
                   struct diwarp_diagnosis *why)
{
    struct diwarp_qp_attr attr;
    int rc;

    *what = "creating the queue pair";
    diwarp_qp_attr_init(&attr);
    attr.type = DIWARP_QPT_RD;
    attr.cq = module->cq;
    attr.max_send_wr = SEND_QUEUE_WRS;
    attr.max_msg_bytes = mca_btl_diwarp_longest_send(module);
    rc = diwarp_create_qp(module->pd, &attr, &module->qp, why);
    if (rc < 0) {
        return rc;
    }
    check_rcvbuf(module);
    show_opened(module);
    return 0;
}

static void close_rd(struct mca_btl_diwarp_module *module)
{
    uint64_t timeout_ns = mca_btl_diwarp_params.finalize_timeout_ms * 1000000ull;

    if (NULL == module->qp) {
        return;
    }
    (void)diwarp_drain_qp(module->qp, timeout_ns);
    mca_btl_diwarp_work_forget_all(module);
    if (mca_btl_diwarp_params.stats) {
        mca_btl_diwarp_counters_dump(module);
    }
    diwarp_destroy_qp(module->qp);
    module->qp = NULL;
}

static void query_rd_address(const struct mca_btl_diwarp_module *module,
                             struct diwarp_address *address)
{
    diwarp_query_address(module->qp, address);
}

const struct mca_btl_diwarp_transport mca_btl_diwarp_transport_rd = {
    .open = open_rd,
    .close = close_rd,
    .query_address = query_rd_address,
    .endpoint_create = mca_btl_diwarp_endpoint_create,
    .endpoint_destroy = mca_btl_diwarp_endpoint_destroy,
    .on_completions = mca_btl_diwarp_on_completions,
};

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
    module->cq = diwarp_create_cq(module->device, CQ_ENTRIES);
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
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl:diwarp: no thread to be had; going on without the helper");
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
        show_left_out(module);
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

/*
 * The function table is that of the RD transport; that of RC changes it when it opens.
 * btl_flush stays NULL: osc/rdma then counts its own operations, while a flush would have to wait
 * for every read in the module, ob1's included, and would make progress for this BTL only.
 * btl_atomic_op stays NULL: osc/rdma uses the fetching form.
 */
struct mca_btl_diwarp_module mca_btl_diwarp_module = {
    .transport = &mca_btl_diwarp_transport_rd,
    .super =
        {
            .btl_add_procs = add_procs,
            .btl_del_procs = del_procs,
            .btl_finalize = finalize,
            .btl_alloc = mca_btl_diwarp_alloc,
            .btl_free = mca_btl_diwarp_free,
            .btl_prepare_src = mca_btl_diwarp_prepare_src,
            .btl_send = mca_btl_diwarp_send,
            .btl_sendi = mca_btl_diwarp_sendi,
            .btl_put = mca_btl_diwarp_put,
            .btl_get = mca_btl_diwarp_get,
            .btl_atomic_fop = mca_btl_diwarp_atomic_fop,
            .btl_atomic_cswap = mca_btl_diwarp_atomic_cswap,
            .btl_register_mem = mca_btl_diwarp_register_mem,
            .btl_deregister_mem = mca_btl_diwarp_deregister_mem,
            .btl_register_error = register_error,
            .btl_dump = mca_btl_base_dump,
            .btl_ft_event = ft_event,
        },
};
