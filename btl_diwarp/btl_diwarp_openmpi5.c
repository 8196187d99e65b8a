/* SPDX-License-Identifier: BSD-3-Clause */
/* How Open MPI 5.0 and 6.0 take messages, and how its PML is told of an error. */
#include "btl_diwarp/btl_diwarp.h"

#include "ompi/group/group.h"
#include "ompi/mca/bml/base/base.h"
#include "ompi/proc/proc.h"
#include "ompi/runtime/params.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
/* Of a message without content, which has the peer's RNIC answer: ask_others(). */
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

/* Where the job goes on the process may have ended, and the run-time system have forgotten what it
 * put there: PMIx_Get() would wait for ever, whatever time-out it is given (PMIx 5.0). What a live
 * one put there is had within milliseconds. */
#define MODEX_SECONDS 2

/* Freed by who comes last: who asked, or the answer. */
struct answer {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool came, late;
    pmix_proc_t name; /* the library reads this and the key until it has answered */
    char *key;
    unsigned char *bytes; /* NULL: there is nothing */
    size_t len;
};

static void answer_free(struct answer *answer)
{
    pthread_cond_destroy(&answer->changed);
    pthread_mutex_destroy(&answer->lock);
    free(answer->key);
    free(answer->bytes);
    free(answer);
}

/* In PMIx's thread. */
static void on_answer(pmix_status_t status, pmix_value_t *value, void *context)
{
    struct answer *answer = context;
    pthread_mutex_lock(&answer->lock);
    if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT)
        answer->bytes = malloc(value->data.bo.size);
    if (answer->bytes) {
        answer->len = value->data.bo.size;
        memcpy(answer->bytes, value->data.bo.bytes, answer->len);
    }
    answer->came = true;
    const bool late = answer->late;
    pthread_cond_signal(&answer->changed);
    pthread_mutex_unlock(&answer->lock);
    if (late)
        answer_free(answer);
}

static struct answer *ask(const mca_base_component_t *component, const opal_process_name_t *of)
{
    struct answer *answer = calloc(1, sizeof *answer);
    pthread_condattr_t attr;
    if (!answer)
        return NULL;
    pthread_mutex_init(&answer->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&answer->changed, &attr);
    pthread_condattr_destroy(&attr);
    answer->key = mca_base_component_to_string(component);
    OPAL_PMIX_CONVERT_NAME(&answer->name, of);
    if (answer->key &&
        PMIx_Get_nb(&answer->name, answer->key, NULL, 0, on_answer, answer) == PMIX_SUCCESS)
        return answer;
    answer_free(answer);
    return NULL;
}

static int wait_for(struct answer *answer, unsigned char **bytes, size_t *len)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += MODEX_SECONDS;
    pthread_mutex_lock(&answer->lock);
    while (!answer->came && !pthread_cond_timedwait(&answer->changed, &answer->lock, &until))
        ;
    *bytes = answer->bytes;
    *len = answer->len;
    answer->bytes = NULL;
    const bool came = answer->came;
    answer->late = !came;
    pthread_mutex_unlock(&answer->lock);
    if (!came)
        return -ESHUTDOWN;
    answer_free(answer);
    return *bytes ? 0 : -ENOENT;
}

int mca_btl_diwarp_modex_recv(const mca_base_component_t *component, const opal_proc_t *proc,
                              unsigned char **bytes, size_t *len)
{
    int rc;
    if (!ompi_ftmpi_enabled) {
        OPAL_MODEX_RECV(rc, component, &proc->proc_name, bytes, len);
        return rc == OPAL_SUCCESS && *bytes ? 0 : -ENOENT;
    }
    struct answer *answer = ask(component, &proc->proc_name);
    return answer ? wait_for(answer, bytes, len) : -ENOENT;
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

/* The run-time system tells the processes of a job of the ends of those of others, spawned or
 * connected, in no version so far, and who only waits for their messages would wait for ever. So
 * those that we have an endpoint of are asked now and then, over RC by TCP. */
#define ASK_NS 500000000u

static void ask_others(struct mca_btl_diwarp_module *module)
{
    const uint64_t now_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC_COARSE);
    size_t count = 0;
    if (now_ns < module->ask_ns || module->helper_polls || module->rc)
        return;
    module->ask_ns = now_ns + ASK_NS;
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
    if (OPAL_UNLIKELY(module->has_others))
        ask_others(module);
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
