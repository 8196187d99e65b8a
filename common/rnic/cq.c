/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues, and polling: the only place where the RNIC gets to run by itself. */
#define _GNU_SOURCE /* ppoll */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "common/rnic/cq.h"
#include "common/rnic/lock.h"
#include "common/rnic/runner.h"
#include "common/wire/rdmap.h"

static struct dw_runner *runner_at(struct dw_list *link)
{
    return dw_container(link, struct dw_runner, link);
}

/* Entries of a ring that has not been needed longer. */
#define CAPACITY_LEAST 64

struct diwarp_cq *diwarp_create_cq(struct diwarp_device *device, unsigned cqe)
{
    struct diwarp_cq *cq = calloc(1, sizeof *cq);
    if (!cq)
        return NULL;
    cq->device = device;
    cq->capacity = CAPACITY_LEAST;
    (void)cqe; /* it grows */
    cq->ring = calloc(cq->capacity, sizeof *cq->ring);
    if (!cq->ring) {
        free(cq);
        return NULL;
    }
    return cq;
}

/* What was handed out of it is used. */
static void release_held(struct diwarp_cq *cq)
{
    cq->device->held -= cq->held;
    cq->held = 0;
}

void diwarp_destroy_cq(struct diwarp_cq *cq)
{
    dw_list_foreach (it, &cq->device->runners) {
        struct dw_runner *runner = runner_at(it);
        if (runner->cq != cq)
            continue;
        dw_list_remove(it);
        runner->ops->destroy(runner);
    }
    release_held(cq);
    free(cq->ring);
    free(cq);
}

/* To one that holds what is in it. */
static bool resize(struct diwarp_cq *cq, uint32_t capacity)
{
    struct diwarp_wc *ring = malloc(capacity * sizeof *ring);
    if (!ring)
        return false;
    for (uint32_t i = 0; i < cq->count; i++)
        ring[i] = cq->ring[(cq->head + i) % cq->capacity];
    free(cq->ring);
    cq->ring = ring;
    cq->head = 0;
    cq->capacity = capacity;
    return true;
}

bool dw_cq_trim(struct diwarp_cq *cq)
{
    if (cq->capacity > CAPACITY_LEAST && cq->most <= cq->capacity / 4)
        (void)resize(cq, cq->capacity / 2);
    cq->most = cq->count;
    return cq->capacity > CAPACITY_LEAST;
}

/* The bound: one receive call's worth of Sends, and what the send queues may hold. Growing keeps
 * verbs' "CQ overrun" away from the application as long as there is memory. */
void dw_cq_push(struct diwarp_cq *cq, const struct diwarp_wc *wc)
{
    if (cq->count == cq->capacity && !resize(cq, cq->capacity * 2)) {
        cq->overrun = true;
        return;
    }
    cq->device->pushed++;
    cq->ring[(cq->head + cq->count++) % cq->capacity] = *wc;
    if (cq->count > cq->most)
        cq->most = cq->count;
}

/* Whose completions are dropped; 0 and NULL: nobody's. */
struct forgotten {
    uint32_t qp_num;
    const struct diwarp_rc_qp *rc_qp;
    const struct diwarp_connect_request *request;
};

static void forget(struct diwarp_cq *cq, const struct forgotten *of)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cq->count; i++) {
        const struct diwarp_wc *wc = &cq->ring[(cq->head + i) % cq->capacity];
        if ((!of->qp_num || wc->wc.qp_num != of->qp_num) &&
            (!of->rc_qp || wc->rc_qp != of->rc_qp) && (!of->request || wc->request != of->request))
            cq->ring[(cq->head + kept++) % cq->capacity] = *wc;
    }
    cq->count = kept;
}

void dw_cq_forget(struct diwarp_cq *cq, const struct diwarp_rc_qp *qp,
                  const struct diwarp_connect_request *request)
{
    const struct forgotten forgotten = {.rc_qp = qp, .request = request};
    forget(cq, &forgotten);
}

enum ibv_wc_status dw_wc_status(uint8_t wire_status)
{
    switch (wire_status) {
    case DW_STATUS_OK:
        return IBV_WC_SUCCESS;
    case DW_STATUS_BAD_STAG:
        return IBV_WC_REM_ACCESS_ERR;
    case DW_STATUS_NO_RESOURCE:
        return IBV_WC_RNR_RETRY_EXC_ERR;
    default:
        return IBV_WC_REM_ABORT_ERR;
    }
}

static int take(struct diwarp_cq *cq, unsigned n, struct diwarp_wc *wc)
{
    unsigned taken = 0;
    for (; taken < n && cq->count; taken++, cq->count--) {
        wc[taken] = cq->ring[cq->head];
        cq->head = cq->head + 1 == cq->capacity ? 0 : cq->head + 1;
    }
    return (int)taken;
}

static void recycle(struct diwarp_device *device)
{
    dw_list_foreach (it, &device->runners)
        if (runner_at(it)->ops->recycle)
            runner_at(it)->ops->recycle(runner_at(it));
}

static int run(struct diwarp_cq *cq)
{
    uint64_t now_ns = dw_device_now_ns(cq->device);
    int received = 0;
    bool more = false;
    cq->ran_ns = now_ns;
    dw_cq_on_use(cq, now_ns);
    if (!cq->count) {
        release_held(cq);
        if (!cq->device->held)
            recycle(cq->device);
    }
    dw_list_foreach (it, &cq->device->runners) {
        struct dw_runner *runner = runner_at(it);
        received += runner->ops->run(runner, now_ns);
        more |= runner->ops->has_more && runner->ops->has_more(runner);
    }
    __atomic_store_n(&cq->busy, received || more, __ATOMIC_RELAXED);
    return received;
}

static void flush(struct diwarp_cq *cq)
{
    dw_list_foreach (it, &cq->device->runners)
        if (runner_at(it)->ops->flush)
            runner_at(it)->ops->flush(runner_at(it));
}

int diwarp_run_cq(struct diwarp_cq *cq)
{
    dw_lock(cq->device);
    int received = run(cq);
    dw_unlock(cq->device);
    return received;
}

/* The RNIC runs only once the queue is empty: what is in it comes first. */
int diwarp_poll_cq(struct diwarp_cq *cq, unsigned n, struct diwarp_wc *wc)
{
    dw_lock(cq->device);
    if (!cq->count)
        (void)run(cq);
    else
        flush(cq);
    int taken = cq->overrun ? -ENOMEM : take(cq, n, wc);
    dw_unlock(cq->device);
    return taken;
}

uint64_t diwarp_cq_idle_ns(struct diwarp_cq *cq)
{
    dw_lock(cq->device);
    uint64_t next_ns = UINT64_MAX;
    dw_list_foreach (it, &cq->device->runners) {
        uint64_t deadline_ns = runner_at(it)->ops->next_deadline_ns(runner_at(it));
        if (deadline_ns < next_ns)
            next_ns = deadline_ns;
    }
    uint64_t now_ns = dw_device_now_ns(cq->device);
    dw_unlock(cq->device);
    if (next_ns == UINT64_MAX)
        return next_ns;
    return next_ns > now_ns ? next_ns - now_ns : 0;
}

uint64_t diwarp_cq_quiet_ns(const struct diwarp_cq *cq)
{
    uint64_t used_ns = __atomic_load_n(&cq->used_ns, __ATOMIC_RELAXED);
    uint64_t now_ns = dw_device_now_ns(cq->device);
    return now_ns > used_ns ? now_ns - used_ns : 0;
}

bool diwarp_cq_busy(const struct diwarp_cq *cq)
{
    return __atomic_load_n(&cq->busy, __ATOMIC_RELAXED);
}

uint64_t diwarp_cq_served(struct diwarp_cq *cq)
{
    dw_lock(cq->device);
    uint64_t served = cq->device->served;
    dw_unlock(cq->device);
    return served;
}

#define WAIT_MAX_FDS 16

/* Of one sleep; the shorter where a post of another thread, or a socket that did not fit the list,
 * may want us sooner than it knows of. */
#define WAIT_LONGEST_NS      1000000000u
#define WAIT_LONGEST_DEAF_NS 5000000u

/* Sleeps until a QP's socket is readable or a timer is due; false when it cannot sleep. */
static bool sleep_until(struct diwarp_cq *cq, uint64_t now_ns, uint64_t until_ns)
{
    struct pollfd fds[WAIT_MAX_FDS];
    nfds_t count = 0;
    bool deaf = cq->device->attr.threaded;
    dw_lock(cq->device);
    dw_list_foreach (it, &cq->device->runners) {
        const struct dw_runner *runner = runner_at(it);
        bool runner_deaf = false;
        const int fd = runner->ops->fd(runner, &runner_deaf);
        uint64_t deadline_ns = runner->ops->next_deadline_ns(runner);
        if (deadline_ns < until_ns)
            until_ns = deadline_ns;
        if (fd >= 0 && count < WAIT_MAX_FDS)
            fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
        else
            runner_deaf = true;
        deaf |= runner_deaf;
    }
    dw_unlock(cq->device);
    if (until_ns <= now_ns)
        return true;
    const uint64_t longest_ns = deaf ? WAIT_LONGEST_DEAF_NS : WAIT_LONGEST_NS;
    uint64_t wait_ns = until_ns - now_ns;
    if (wait_ns > longest_ns)
        wait_ns = longest_ns;
    struct timespec timeout = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                               .tv_nsec = (long)(wait_ns % 1000000000u)};
    return ppoll(fds, count, &timeout, NULL) >= 0 || errno == EINTR;
}

int diwarp_wait_cq(struct diwarp_cq *cq, unsigned n, struct diwarp_wc *wc, uint64_t timeout_ns)
{
    uint64_t start_ns = dw_device_now_ns(cq->device);
    uint64_t until_ns = start_ns + timeout_ns < start_ns ? UINT64_MAX : start_ns + timeout_ns;
    for (;;) {
        int taken = diwarp_poll_cq(cq, n, wc);
        uint64_t now_ns = dw_device_now_ns(cq->device);
        if (taken || now_ns >= until_ns || !sleep_until(cq, now_ns, until_ns))
            return taken;
    }
}

void dw_cq_forget_qp(struct diwarp_cq *cq, uint32_t qp_num)
{
    const struct forgotten forgotten = {.qp_num = qp_num};
    forget(cq, &forgotten);
}
