/* SPDX-License-Identifier: BSD-3-Clause */
/* One sleep in the kernel. What it waits for is read under the device's lock, and another thread
 * that changes that does so under the lock, too, and then writes to the sleeper's eventfd
 * (dw_unlock()): whichever comes first, no wake is lost. */
#define _GNU_SOURCE /* ppoll */
#include "common/progress/sleep.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* That are watched, one for each CQ with RC QPs and one for datagrams; of more than so many, the
 * rest is like those that cannot be watched. */
#define WATCHED_MOST 64
/* Of one sleep. Peers take a process that did not run for 2 s for one that was stopped (STOPPED_NS
 * in rd/service.c). Where a socket cannot be watched, what comes there waits for a 200th of it. */
#define SLEEP_LONGEST_NS 1000000000u

int dw_sleeper_init(struct dw_sleeper *sleeper, struct diwarp_cq *cq)
{
    *sleeper = (struct dw_sleeper){.cq = cq, .event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    dw_list_init(&sleeper->link);
    return sleeper->event_fd < 0 ? -errno : 0;
}

void dw_sleeper_fini(struct dw_sleeper *sleeper)
{
    close(sleeper->event_fd);
}

void dw_sleeper_wake(struct dw_sleeper *sleeper)
{
    const uint64_t one = 1;
    (void)!write(sleeper->event_fd, &one, sizeof one);
}

/* What to wait for. */
struct watch {
    struct pollfd fds[1 + WATCHED_MOST]; /* the sleeper's eventfd, then the sockets */
    unsigned count;
    bool all;
    uint64_t until_ns;
};

/* With the device's lock held; returns how many there are. */
static unsigned list_sockets(const struct diwarp_cq *cq, struct watch *watch)
{
    const unsigned count = dw_cq_fds(cq, watch->fds + 1, WATCHED_MOST, &watch->all);
    watch->all &= count <= WATCHED_MOST;
    watch->count = 1 + (count < WATCHED_MOST ? count : WATCHED_MOST);
    return count;
}

/* Likewise. */
static void fall_asleep(struct dw_sleeper *sleeper, struct watch *watch, uint64_t least_ns,
                        uint64_t longest_ns)
{
    struct diwarp_device *device = sleeper->cq->device;
    const uint64_t now_ns = dw_device_now_ns(device);
    sleeper->fd_count = list_sockets(sleeper->cq, watch);
    const uint64_t most_ns = watch->all ? SLEEP_LONGEST_NS : SLEEP_LONGEST_NS / 200;
    watch->fds[0] = (struct pollfd){.fd = sleeper->event_fd, .events = POLLIN};
    watch->until_ns = now_ns + (longest_ns < most_ns ? longest_ns : most_ns);
    sleeper->until_ns = dw_cq_next_deadline_ns(sleeper->cq);
    if (sleeper->until_ns < watch->until_ns)
        watch->until_ns =
            sleeper->until_ns > now_ns + least_ns ? sleeper->until_ns : now_ns + least_ns;
    if (sleeper->for_completions && sleeper->cq->count)
        watch->until_ns = sleeper->until_ns = 0;
    if (device->attr.threaded)
        dw_list_append(&device->sleepers, &sleeper->link);
}

static void take_event(struct dw_sleeper *sleeper)
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

int dw_sleep(struct dw_sleeper *sleeper, uint64_t least_ns, uint64_t longest_ns)
{
    struct diwarp_device *device = sleeper->cq->device;
    struct watch watch;
    dw_lock(device);
    fall_asleep(sleeper, &watch, least_ns, longest_ns);
    dw_unlock(device);
    const uint64_t now_ns = dw_device_now_ns(device);
    int rc =
        watch.until_ns > now_ns ? wait_for(watch.fds, watch.count, watch.until_ns - now_ns) : 0;
    dw_lock(device);
    dw_list_remove(&sleeper->link);
    dw_unlock(device);
    /* Only those that were asleep are written to: no event is left behind, but of who stops it. */
    take_event(sleeper);
    return rc;
}

bool dw_sockets_readable(const struct diwarp_cq *cq)
{
    struct watch watch;
    dw_lock(cq->device);
    (void)list_sockets(cq, &watch);
    dw_unlock(cq->device);
    return poll(watch.fds + 1, watch.count - 1, 0) > 0;
}

void dw_sleep_deeply(struct dw_sleeper *sleeper, uint64_t ns)
{
    struct pollfd event = {.fd = sleeper->event_fd, .events = POLLIN};
    (void)wait_for(&event, 1, ns);
    take_event(sleeper);
}

/* ---- whoever polls ---- */

int diwarp_block_cq(struct diwarp_cq *cq, uint64_t timeout_ns)
{
    /* From the first sleep on it stays with the CQ. */
    if (cq->waiter.event_fd < 0 && cq->device->attr.threaded)
        cq->waiter.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (cq->waiter.event_fd < 0 && cq->device->attr.threaded)
        return -errno;
    return dw_sleep(&cq->waiter, 0, timeout_ns);
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
