/* SPDX-License-Identifier: BSD-3-Clause */
/* The helper thread: runs the RNIC while the application is away from it, in a long computation or
 * blocked elsewhere. What the application has sent must leave, and be repeated when lost, all the
 * same, and a large transfer goes on behind a computation.
 *
 * It looks now and then whether the application has polled or posted just before. If not, it takes
 * over: runs the RNIC and sleeps in the kernel until a datagram comes or a timer is due, as long as
 * that serves peers, for each wake costs the computation. What merely came may wait for the next
 * look. An application that comes back and goes again between two wakes does not end that. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "common/progress/sleep.h"

/* A look costs the application 4 microseconds, on a virtual machine 25. Each that brings nothing
 * doubles the time to the next, up to so many times attr.look_ns: half looks twice as often at an
 * application that never goes away, twice comes as much later when it does. An absence that was of
 * use may go on after a single poll: the first look after it is as soon as one can tell. */
#define LOOKS_APART_MOST 8
/* Runs in a row that bring nothing though a socket is readable: over RC, the streams that are not
 * read in every run are asked within so many (WAIT_EVERY_BUSY in rc/run.c). */
#define EMPTY_RUNS_MOST 32
/* A full socket buffer makes the RNIC due at once for as long as it is full. */
#define SLEEP_LEAST_NS 100000u

struct diwarp_helper {
    struct diwarp_helper_attr attr;
    struct dw_sleeper sleeper;
    pthread_t thread;
    atomic_ullong look_ns;
    atomic_bool stop;
};

static uint64_t used_ns(const struct diwarp_helper *helper)
{
    return __atomic_load_n(&helper->attr.cq->used_ns, __ATOMIC_RELAXED);
}

/* An application whose last poll brought nothing is likely to wait, and on a core that it shares
 * others run meanwhile: a helper would only be one more. It is away when that lasts. */
static bool is_away(const struct diwarp_helper *helper)
{
    const struct diwarp_cq *cq = helper->attr.cq;
    const uint64_t last_ns = used_ns(helper), now_ns = dw_device_now_ns(cq->device);
    const uint64_t away_ns = diwarp_cq_busy(cq) ? DW_AWAY_NS : helper->look_ns;
    return now_ns > last_ns && now_ns - last_ns >= away_ns;
}

static uint64_t served_by(struct diwarp_device *device)
{
    dw_lock(device);
    uint64_t served = device->served;
    dw_unlock(device);
    return served;
}

/* Runs until nothing more comes. False: the application is back. */
static bool run_until_empty(struct diwarp_helper *helper, bool *served)
{
    const struct diwarp_helper_attr *attr = &helper->attr;
    const uint64_t before = served_by(attr->cq->device);
    int taken = 0;
    for (unsigned empty = 0; taken >= 0 && !helper->stop;) {
        taken = attr->run(attr->arg);
        *served |= attr->all && taken > 0;
        if (taken > 0 || diwarp_cq_busy(attr->cq))
            empty = 0;
        else if (++empty == EMPTY_RUNS_MOST || !dw_sockets_readable(attr->cq))
            break;
    }
    *served |= served_by(attr->cq->device) != before;
    return taken >= 0;
}

/* Runs the RNIC until the application is back, or wakes serve nobody: the first, or three in a row.
 * Returns whether any did. */
static bool take_over(struct diwarp_helper *helper)
{
    bool useful = false;
    for (unsigned idle_wakes = 2; !helper->stop;) {
        bool served = false, alone = run_until_empty(helper, &served);
        useful |= served;
        idle_wakes = served ? 0 : idle_wakes + 1;
        if (!alone || (!helper->attr.all && idle_wakes == 3))
            break;
        uint64_t before_ns = used_ns(helper);
        if (dw_sleep(&helper->sleeper, SLEEP_LEAST_NS, UINT64_MAX) ||
            (used_ns(helper) != before_ns && !is_away(helper)))
            break;
    }
    return useful;
}

static void *helper_main(void *arg)
{
    struct diwarp_helper *helper = arg;
    unsigned apart = 1;
    /* Else the kernel adds 50 us to each sleep. */
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    while (!helper->stop) {
        dw_sleep_deeply(&helper->sleeper, apart ? apart * helper->look_ns : DW_AWAY_NS);
        if (is_away(helper) && take_over(helper))
            apart = 0;
        else if (apart < LOOKS_APART_MOST)
            apart = apart ? 2 * apart : 1;
    }
    return NULL;
}

/* Signals are the application's. */
static int create_without_signals(struct diwarp_helper *helper)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&helper->thread, NULL, helper_main, helper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}

int diwarp_start_helper(const struct diwarp_helper_attr *attr, struct diwarp_helper **out)
{
    if (!attr->cq->device->attr.threaded || !attr->run || !attr->look_ns)
        return -EINVAL;
    struct diwarp_helper *helper = calloc(1, sizeof *helper);
    if (!helper)
        return -ENOMEM;
    helper->attr = *attr;
    helper->look_ns = attr->look_ns;
    int rc = dw_sleeper_init(&helper->sleeper, attr->cq);
    if (!rc) {
        rc = create_without_signals(helper);
        if (rc)
            dw_sleeper_fini(&helper->sleeper);
    }
    if (rc) {
        free(helper);
        return rc;
    }
    *out = helper;
    return 0;
}

void diwarp_helper_look_every(struct diwarp_helper *helper, uint64_t look_ns)
{
    helper->look_ns = look_ns;
}

void diwarp_stop_helper(struct diwarp_helper *helper)
{
    helper->stop = true;
    dw_sleeper_wake(&helper->sleeper);
    pthread_join(helper->thread, NULL);
    dw_sleeper_fini(&helper->sleeper);
    free(helper);
}
