/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread: runs the RNIC while the application is away from MPI's progress, in a long
 * computation or blocked in the run-time system (MPI_Comm_spawn waits there for its children). What
 * the application has sent must leave, and be repeated when lost, all the same: a peer may need it
 * to come to the point this process waits for.
 *
 * It never calls back into the PML: completions wait for the application's next progress.
 */
#include "btl_diwarp/btl_diwarp.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

/* How often it looks whether the application makes progress by itself. */
#define LOOK_NS     5000000L
#define SHORTEST_NS 100000L

static void sleep_until_look(void)
{
    const struct timespec period = {.tv_nsec = LOOK_NS};

    (void)nanosleep(&period, NULL);
}

/* Until a datagram comes, a timer of the RNIC is due, or it is time to look again. A full socket
 * buffer makes the RNIC due at once for as long as it is full: hence a shortest sleep. */
static void sleep_until_due(struct mca_btl_diwarp_module *module, int fd)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    uint64_t idle_ns = diwarp_cq_idle_ns(module->cq);
    struct timespec period = {.tv_nsec = idle_ns < LOOK_NS ? (long)idle_ns : LOOK_NS};

    if (period.tv_nsec < SHORTEST_NS) {
        period.tv_nsec = SHORTEST_NS;
    }
    (void)ppoll(&pollfd, 1, &period, NULL);
}

/* One run, unless the application came back. */
static void run_once(struct mca_btl_diwarp_module *module)
{
    if (mca_btl_diwarp_polling_begin(module)) {
        (void)diwarp_run_cq(module->cq);
        mca_btl_diwarp_polling_end(module);
    }
}

static bool stopping(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&module->helper_stop, __ATOMIC_ACQUIRE);
}

static void *helper_main(void *arg)
{
    struct mca_btl_diwarp_module *module = arg;
    struct diwarp_qp_info info;
    unsigned long seen = 0;

    diwarp_query_qp(module->qp, &info);
    while (!stopping(module)) {
        unsigned long polls = __atomic_load_n(&module->polls, __ATOMIC_RELAXED);

        if (polls != seen) {
            seen = polls;
            sleep_until_look();
        } else {
            run_once(module);
            sleep_until_due(module, info.fd);
        }
    }
    return NULL;
}

/* Signals are the application's. */
static int create_without_signals(struct mca_btl_diwarp_module *module)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&module->helper, NULL, helper_main, module);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int mca_btl_diwarp_helper_start(struct mca_btl_diwarp_module *module)
{
    module->helper_stop = false;
    if (0 != create_without_signals(module)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    module->helper_running = true;
    return OPAL_SUCCESS;
}

void mca_btl_diwarp_helper_stop(struct mca_btl_diwarp_module *module)
{
    if (module->helper_running) {
        __atomic_store_n(&module->helper_stop, true, __ATOMIC_RELEASE);
        pthread_join(module->helper, NULL);
        module->helper_running = false;
    }
}
