/* SPDX-License-Identifier: BSD-3-Clause */
/* When nobody polls: sleeping in the kernel until the RNIC has work, and the helper thread.
 *
 * What a sleep waits for is read under the device's lock, and a thread that changes it does so
 * under the lock, too, and then writes to the sleeper's eventfd (dw_unlock()): no wake is lost.
 *
 * The helper runs the RNIC while the application computes or is blocked elsewhere: what was sent
 * leaves, and is repeated when lost, and large transfers go on. It looks now and then whether the
 * application has polled or posted just before. If not, it takes over: runs the RNIC and sleeps
 * until a datagram comes or a timer is due, as long as that serves peers, for each wake costs the
 * computation. What merely came may wait for the next look. An application that comes back and goes
 * again between two wakes does not end that. */
#define _GNU_SOURCE /* ppoll */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "common/base/heap.h"
#include "common/include/diwarp_helper.h"
#include "common/rnic/cq.h"

/* Sockets that are watched, one for each CQ with RC QPs and one for datagrams. */
#define WATCHED_MOST 64
/* Of one sleep. Peers take a process that did not run for 2 s for one that was stopped (STOPPED_NS
 * in rd/service.c). Where there are more sockets, what comes there waits for a 200th of it. */
#define SLEEP_LONGEST_NS 1000000000u
/* Of the helper's. A full socket buffer makes the RNIC due at once for as long as it is full. */
#define SLEEP_LEAST_NS 100000u
/* A look costs the application 4 microseconds, on a virtual machine 25. Each that brings nothing
 * doubles the time to the next, up to so many times attr.look_ns: half looks twice as often at an
 * application that never goes away, twice comes as much later when it does. After an absence that
 * was of use, which may go on after a single poll, the next look is as soon as one can tell. */
#define LOOKS_APART_MOST 8

struct diwarp_helper {
    struct diwarp_helper_attr attr;
    struct dw_sleeper sleeper;
    pthread_t thread;
    atomic_ullong look_ns;
    atomic_bool stop;
};

/* ---- one sleep ---- */

static void take_event(const struct dw_sleeper *sleeper)
{
    uint64_t wakes;
    (void)!read(sleeper->event_fd, &wakes, sizeof wakes);
}

static int wait_for(struct pollfd *fds, unsigned count, uint64_t ns)
{
    const struct timespec period = {.tv_sec = (time_t)(ns / 1000000000u),
                                    .tv_nsec = (long)(ns % 1000000000u)};
    return ppoll(fds, count, &period, NULL) < 0 && errno != EINTR ? -errno : 0;
}

/* Until a socket of the CQ is readable, a timer of the RNIC is due, or another thread makes
 * something due; for least_ns even if something is due already, and longest_ns at most. It may wake
 * for nothing. 0 or negative errno. */
static int sleep_until_due(struct dw_sleeper *sleeper, uint64_t least_ns, uint64_t longest_ns)
{
    struct diwarp_device *device = sleeper->cq->device;
    struct pollfd fds[1 + WATCHED_MOST] = {{.fd = sleeper->event_fd, .events = POLLIN}};
    dw_lock(device);
    const uint64_t now_ns = dw_device_now_ns(device);
    const unsigned count = dw_cq_fds(sleeper->cq, fds + 1, WATCHED_MOST);
    const bool all = count <= WATCHED_MOST;
    const uint64_t most_ns = all ? SLEEP_LONGEST_NS : SLEEP_LONGEST_NS / 200;
    const bool completed = sleeper == &sleeper->cq->waiter && sleeper->cq->ring.count;
    uint64_t until_ns = now_ns + (longest_ns < most_ns ? longest_ns : most_ns);
    sleeper->fd_count = count;
    sleeper->until_ns = completed ? 0 : dw_cq_next_deadline_ns(sleeper->cq);
    if (sleeper->until_ns < until_ns)
        until_ns = sleeper->until_ns > now_ns + least_ns ? sleeper->until_ns : now_ns + least_ns;
    if (device->attr.threaded)
        dw_list_append(&device->sleepers, &sleeper->link);
    dw_unlock(device);
    int rc = 0;
    if (until_ns > now_ns)
        rc = wait_for(fds, 1 + (all ? count : WATCHED_MOST), until_ns - now_ns);
    dw_lock(device);
    dw_list_remove(&sleeper->link);
    dw_unlock(device);
    /* Only those that were asleep are written to: no event is left behind, but of who stops it. */
    take_event(sleeper);
    return rc;
}

/* ---- whoever polls ---- */

int diwarp_block_cq(struct diwarp_cq *cq, uint64_t timeout_ns)
{
    /* From the first sleep on it stays with the CQ. */
    if (cq->waiter.event_fd < 0 && cq->device->attr.threaded) {
        cq->waiter.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (cq->waiter.event_fd < 0)
            return -errno;
    }
    return sleep_until_due(&cq->waiter, 0, timeout_ns);
}

int diwarp_wait_cq(struct diwarp_cq *cq, unsigned n, struct diwarp_wc *wc, uint64_t timeout_ns)
{
    const uint64_t until_ns = dw_deadline_ns(dw_device_now_ns(cq->device), timeout_ns);
    for (;;) {
        int taken = diwarp_poll_cq(cq, n, wc);
        uint64_t now_ns = dw_device_now_ns(cq->device);
        if (taken || now_ns >= until_ns || diwarp_block_cq(cq, until_ns - now_ns))
            return taken;
    }
}

/* ---- the helper ---- */

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
    int taken;
    do {
        taken = attr->run(attr->arg);
        *served |= attr->all && taken > 0;
    } while ((taken > 0 || (!taken && diwarp_cq_busy(attr->cq))) && !helper->stop);
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
        if (sleep_until_due(&helper->sleeper, SLEEP_LEAST_NS, UINT64_MAX) ||
            (used_ns(helper) != before_ns && !is_away(helper)))
            break;
    }
    return useful;
}

static void *helper_main(void *arg)
{
    struct diwarp_helper *helper = arg;
    struct pollfd event = {.fd = helper->sleeper.event_fd, .events = POLLIN};
    unsigned apart = 1;
    /* Else the kernel adds 50 us to each sleep. */
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    while (!helper->stop) {
        (void)wait_for(&event, 1, apart ? apart * helper->look_ns : DW_AWAY_NS);
        take_event(&helper->sleeper);
        if (is_away(helper) && take_over(helper))
            apart = 0;
        else if (apart < LOOKS_APART_MOST)
            apart = apart ? 2 * apart : 1;
    }
    return NULL;
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
    helper->sleeper =
        (struct dw_sleeper){.cq = attr->cq, .event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    dw_list_init(&helper->sleeper.link);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the application's */
    int rc = helper->sleeper.event_fd < 0
                 ? errno
                 : pthread_create(&helper->thread, NULL, helper_main, helper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        if (helper->sleeper.event_fd >= 0)
            close(helper->sleeper.event_fd);
        free(helper);
        return -rc;
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
    const uint64_t one = 1;
    helper->stop = true;
    (void)!write(helper->sleeper.event_fd, &one, sizeof one);
    pthread_join(helper->thread, NULL);
    close(helper->sleeper.event_fd);
    free(helper);
}
