/* SPDX-License-Identifier: BSD-3-Clause */
/* What peers have put into the modex, with Open MPI 5.0 and 6.0. Where the job goes on without lost
 * processes, one may have ended before it was spoken with, and the run-time system have forgotten
 * what it put there: PMIx_Get() would then wait for ever, whatever time-out it is given (PMIx 5.0).
 */
#define _GNU_SOURCE /* dladdr */
#include "btl_diwarp/btl_diwarp.h"

#include "ompi/runtime/params.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if !OPAL_ENABLE_FT_MPI
#define ompi_ftmpi_enabled false
#endif

/* After this the process is taken for ended. Half: a run-time system that was cut off for a moment
 * costs a live one; twice: the survivors of one that was spawned hear of its end as much later. */
#define TIMEOUT_S 5

/* A request of PMIx, freed by its answer or by who waited for that, whichever is last. */
struct request {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool answered, abandoned;
    pmix_proc_t name; /* PMIx reads this and the key until it answers */
    char *key;
    unsigned char *bytes; /* NULL: there is nothing */
    size_t len;
};

static void request_free(struct request *request)
{
    pthread_cond_destroy(&request->changed);
    pthread_mutex_destroy(&request->lock);
    free(request->key);
    free(request->bytes);
    free(request);
}

/* In PMIx's thread. */
static void on_answer(pmix_status_t status, pmix_value_t *value, void *context)
{
    struct request *request = context;
    pthread_mutex_lock(&request->lock);
    if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT)
        request->bytes = malloc(value->data.bo.size);
    if (request->bytes) {
        request->len = value->data.bo.size;
        memcpy(request->bytes, value->data.bo.bytes, request->len);
    }
    request->answered = true;
    const bool abandoned = request->abandoned;
    pthread_cond_signal(&request->changed);
    pthread_mutex_unlock(&request->lock);
    if (abandoned)
        request_free(request);
}

static struct request *request_start(const mca_base_component_t *component,
                                     const opal_process_name_t *name)
{
    struct request *request = calloc(1, sizeof *request);
    pthread_condattr_t attr;
    if (!request)
        return NULL;
    pthread_mutex_init(&request->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&request->changed, &attr);
    pthread_condattr_destroy(&attr);
    request->key = mca_base_component_to_string(component);
    OPAL_PMIX_CONVERT_NAME(&request->name, name);
    if (request->key &&
        PMIx_Get_nb(&request->name, request->key, NULL, 0, on_answer, request) == PMIX_SUCCESS)
        return request;
    request_free(request);
    return NULL;
}

/* The name of the last process for which none came, as it is asked for more than once; at first, of
 * none. */
static uint64_t ended = UINT64_MAX;

/* An answer may still come when Open MPI has closed the component. */
static void keep_loaded(void)
{
    Dl_info info;
    if (dladdr(&ended, &info))
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static int request_wait(struct request *request, unsigned char **bytes, size_t *len)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += TIMEOUT_S;
    pthread_mutex_lock(&request->lock);
    while (!request->answered && !pthread_cond_timedwait(&request->changed, &request->lock, &until))
        ;
    *bytes = request->bytes;
    *len = request->len;
    request->bytes = NULL;
    const bool answered = request->answered;
    request->abandoned = !answered;
    if (!answered)
        keep_loaded();
    pthread_mutex_unlock(&request->lock);
    if (!answered)
        return -ESHUTDOWN;
    request_free(request);
    return *bytes ? 0 : -ENOENT;
}

int mca_btl_diwarp_modex_recv(const mca_base_component_t *component, const opal_proc_t *proc,
                              unsigned char **bytes, size_t *len)
{
    uint64_t name;
    int rc;
    _Static_assert(sizeof name == sizeof proc->proc_name, "a name is a word");
    memcpy(&name, &proc->proc_name, sizeof name);
    if (!ompi_ftmpi_enabled) {
        OPAL_MODEX_RECV(rc, component, &proc->proc_name, bytes, len);
        return rc == OPAL_SUCCESS && *bytes ? 0 : -ENOENT;
    }
    if (name == __atomic_load_n(&ended, __ATOMIC_RELAXED))
        return -ESHUTDOWN;
    struct request *request = request_start(component, &proc->proc_name);
    rc = request ? request_wait(request, bytes, len) : -ENOENT;
    if (rc == -ESHUTDOWN)
        __atomic_store_n(&ended, name, __ATOMIC_RELAXED);
    return rc;
}
