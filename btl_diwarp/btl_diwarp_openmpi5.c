/* SPDX-License-Identifier: BSD-3-Clause */
/* How Open MPI 5.0 and 6.0 take messages, and how its PML is told of an error. */
#include "btl_diwarp/btl_diwarp.h"

#include "ompi/communicator/communicator.h"
#include "ompi/group/group.h"
#include "ompi/mca/bml/base/base.h"
#include "ompi/proc/proc.h"
#include "ompi/runtime/params.h"

#include <stdlib.h>
#include <string.h>

#if !OPAL_ENABLE_FT_MPI
#define ompi_ftmpi_enabled        false
#define ompi_proc_is_active(proc) true
#endif

/* The one for a process that the BML has added to us, or NULL. */
static mca_btl_base_endpoint_t *endpoint_of(struct mca_btl_diwarp_module *module,
                                            const ompi_proc_t *proc)
{
    mca_bml_base_endpoint_t *all = proc ? proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_BML] : NULL;
    const mca_bml_base_btl_t *ours =
        all ? mca_bml_base_btl_array_find(&all->btl_send, &module->super) : NULL;
    return ours ? ours->btl_endpoint : NULL;
}

/* Messages that name a communicator by all of its number, as the first ones on one that was made
 * from a group do. ob1 keeps those that come before the communicator in a list that has no lock,
 * and looks there once, as it adds the communicator: what another thread brings just then it never
 * sees. So the helper leaves them to the application's threads (among which Open MPI still has that
 * race). Whatever comes behind one is delivered before it: a match header has a sequence number,
 * and the rest follows an answer. */
#define TAG_CID (MCA_BTL_TAG_PML + 10)
/* Of a message without content, which has the peer's RNIC answer: ask_other_jobs(). */
#define TAG_ASK (MCA_BTL_TAG_MAX + 1)

/* The data lives until the next poll only. */
static void hold(struct mca_btl_diwarp_module *module, const struct diwarp_name *from, uint32_t tag,
                 const void *data, size_t len)
{
    struct mca_btl_diwarp_held *held = malloc(sizeof *held + len);
    if (!held) {
        char info[] = "diwarp: out of memory: a message is lost";
        MCA_BTL_DIWARP_HELP("out of memory", "keeping a message for another thread");
        mca_btl_diwarp_fail(module, NULL, info);
        return;
    }
    held->from = *from;
    held->tag = tag;
    held->len = len;
    if (len)
        memcpy(held->data, data, len);
    STAILQ_INSERT_TAIL(&module->held, held, next);
    module->held_count++;
}

void mca_btl_diwarp_deliver(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint,
                            const struct diwarp_name *from, uint32_t tag, void *data, size_t len)
{
    const opal_process_name_t name = {.jobid = from->job, .vpid = from->rank};
    const mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = len};
    const mca_btl_active_message_callback_t *callback =
        tag < MCA_BTL_TAG_MAX ? &mca_btl_base_active_message_trigger[tag] : NULL;
    if (OPAL_UNLIKELY(tag == TAG_ASK))
        return;
    if (OPAL_UNLIKELY(tag == TAG_CID) && module->helper_polls) {
        hold(module, from, tag, data, len);
        return;
    }
    /* osc/rdma's accesses by messages, where a rank is reached by another BTL: it answers them. */
    if (!endpoint && tag >= MCA_BTL_BASE_TAG_RDMA && tag <= MCA_BTL_BASE_TAG_RDMA_RESP) {
        endpoint = endpoint_of(module, (ompi_proc_t *)opal_proc_for_name(name));
        callback = endpoint ? callback : NULL;
    }
    /* What a lost process answered, ACK to FIN, is about requests that ob1 has ended. */
    if (OPAL_UNLIKELY(ompi_ftmpi_enabled) && tag >= MCA_BTL_TAG_PML + 4 &&
        tag <= MCA_BTL_DIWARP_TAG_FIN && mca_btl_diwarp_known_lost(opal_proc_for_name(name)))
        callback = NULL;
    mca_btl_base_receive_descriptor_t descriptor = {.endpoint = endpoint,
                                                    .des_segments = &segment,
                                                    .des_segment_count = 1,
                                                    .tag = (mca_btl_base_tag_t)tag};
    if (OPAL_LIKELY(callback && callback->cbfunc)) {
        descriptor.cbdata = callback->cbdata;
        callback->cbfunc(&module->super, &descriptor);
    } else {
        module->counters.rx_unknown_tag++;
    }
}

static bool has_process(const ompi_group_t *group, opal_process_name_t name)
{
    for (int i = 0; group && i < ompi_group_size((ompi_group_t *)group); i++)
        if (!opal_compare_proc(ompi_group_get_proc_name(group, i), name))
            return true;
    return false;
}

bool mca_btl_diwarp_in_communicator(opal_process_name_t name)
{
    for (int i = 0; i < ompi_comm_get_num_communicators(); i++) {
        const ompi_communicator_t *comm = ompi_comm_lookup((uint32_t)i);
        if (comm &&
            (has_process(comm->c_local_group, name) || has_process(comm->c_remote_group, name)))
            return true;
    }
    return false;
}

bool mca_btl_diwarp_job_goes_on(void)
{
    return ompi_ftmpi_enabled;
}

bool mca_btl_diwarp_known_lost(const opal_proc_t *proc)
{
    return proc && !ompi_proc_is_active((ompi_proc_t *)proc);
}

#if OPAL_ENABLE_FT_MPI
/* There is no group any more amid MPI_Finalize. */
bool mca_btl_diwarp_more_lost(const struct mca_btl_diwarp_module *module)
{
    const ompi_group_t *lost = __atomic_load_n(&ompi_group_all_failed_procs, __ATOMIC_RELAXED);
    return OPAL_UNLIKELY(ompi_ftmpi_enabled) && lost && lost != module->lost;
}

/* One that we have no endpoint of counts as ended. */
static bool end_process(struct mca_btl_diwarp_module *module, opal_process_name_t name)
{
    mca_btl_base_endpoint_t *endpoint = endpoint_of(module, (ompi_proc_t *)ompi_proc_lookup(name));
    return !endpoint || !module->transport->endpoint_give_up ||
           !module->transport->endpoint_give_up(endpoint);
}

/* No run-time system tells a job yet that a process of another one, spawned or connected, has
 * ended: who only waits for its messages would wait for ever. So those that we have an endpoint of
 * are sent an empty message each time, for ICMP to say that nobody has their port; over RC TCP
 * tells. Half: twice the messages; twice: heard of up to a second later. */
#define ASK_INTERVAL_NS 500000000u

static void ask_other_jobs(struct mca_btl_diwarp_module *module)
{
    const uint64_t now_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC_COARSE);
    size_t count = 0;
    if (now_ns < module->ask_ns || module->helper_polls || module->rc)
        return;
    module->ask_ns = now_ns + ASK_INTERVAL_NS;
    ompi_proc_t **procs = ompi_proc_all(&count);
    for (size_t i = 0; procs && i < count; i++) {
        const mca_btl_base_endpoint_t *endpoint =
            procs[i]->super.proc_name.jobid != OPAL_PROC_MY_NAME.jobid &&
                    ompi_proc_is_active(procs[i])
                ? endpoint_of(module, procs[i])
                : NULL;
        /* Without room something is under way, which asks, too. */
        if (endpoint && diwarp_send_reserve(module->qp, endpoint->ah, 0))
            diwarp_send_commit(module->qp, endpoint->ah, TAG_ASK);
        OBJ_RELEASE(procs[i]);
    }
    free(procs);
}

void mca_btl_diwarp_end_lost(struct mca_btl_diwarp_module *module)
{
    bool ended = true;
    if (OPAL_UNLIKELY(__atomic_load_n(&module->has_other_jobs, __ATOMIC_RELAXED)))
        ask_other_jobs(module);
    if (OPAL_LIKELY(!mca_btl_diwarp_more_lost(module)))
        return;
    opal_mutex_lock(&ompi_group_afp_mutex);
    ompi_group_t *lost = ompi_group_all_failed_procs;
    if (lost)
        OBJ_RETAIN(lost);
    opal_mutex_unlock(&ompi_group_afp_mutex);
    for (int i = 0; lost && i < ompi_group_size(lost); i++)
        ended &= end_process(module, ompi_group_get_proc_name(lost, i));
    if (ended && module->lost)
        OBJ_RELEASE(module->lost);
    if (ended)
        module->lost = lost;
    else /* no memory: again at the next poll */
        OBJ_RELEASE(lost);
}
#else
bool mca_btl_diwarp_more_lost(const struct mca_btl_diwarp_module *module)
{
    (void)module;
    return false;
}

void mca_btl_diwarp_end_lost(struct mca_btl_diwarp_module *module)
{
    (void)module;
}
#endif

bool mca_btl_diwarp_of_pml(struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                           const void *cbcontext)
{
    if (!ompi_ftmpi_enabled || !cbcontext)
        return false;
    mca_bml_base_endpoint_t *all = mca_bml_base_get_endpoint((ompi_proc_t *)proc);
    return all && mca_bml_base_btl_array_find(&all->btl_rdma, &module->super) == cbcontext;
}

void mca_btl_diwarp_fail(struct mca_btl_diwarp_module *module, opal_proc_t *proc, char *info)
{
    /* The PML prints info within a help message, which is lost where no file descriptor is left. */
    opal_output(0, "%s", info);
    if (!module->error_cb)
        abort();
    module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, proc, info);
}
