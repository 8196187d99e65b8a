/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues, and polling: the only place where the RNIC gets to run by itself. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/rnic/cq.h"
#include "common/wire/rdmap.h"

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
    cq->waiter = (struct dw_sleeper){.cq = cq, .for_completions = true, .event_fd = -1};
    dw_list_init(&cq->waiter.link);
    return cq;
}

void dw_cq_release_held(struct diwarp_cq *cq)
{
    cq->device->held -= cq->held;
    cq->held = 0;
}

void diwarp_destroy_cq(struct diwarp_cq *cq)
{
    dw_foreach (runner, struct dw_runner, link, &cq->device->runners) {
        if (runner->cq != cq)
            continue;
        dw_list_remove(&runner->link);
        runner->ops->destroy(runner);
    }
    dw_cq_release_held(cq);
    if (cq->waiter.event_fd >= 0)
        close(cq->waiter.event_fd);
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
    return cq->capacity > CAPACITY_LEAST && (cq->count || !resize(cq, CAPACITY_LEAST));
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
}

void dw_cq_forget(struct diwarp_cq *cq, uint32_t qp_num, const struct diwarp_rc_qp *rc_qp,
                  const struct diwarp_connect_request *request)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cq->count; i++) {
        const struct diwarp_wc *wc = &cq->ring[(cq->head + i) % cq->capacity];
        if ((!qp_num || wc->wc.qp_num != qp_num) && (!rc_qp || wc->rc_qp != rc_qp) &&
            (!request || wc->request != request))
            cq->ring[(cq->head + kept++) % cq->capacity] = *wc;
    }
    cq->count = kept;
}

enum ibv_wc_status dw_wc_status(uint8_t wire_status)
{
    static const enum ibv_wc_status statuses[] = {
        [DW_STATUS_OK] = IBV_WC_SUCCESS,
        [DW_STATUS_BAD_STAG] = IBV_WC_REM_ACCESS_ERR,
        [DW_STATUS_NO_RESOURCE] = IBV_WC_RNR_RETRY_EXC_ERR,
    };
    const bool known = wire_status < sizeof statuses / sizeof *statuses;
    return known ? statuses[wire_status] : IBV_WC_REM_ABORT_ERR;
}

static int run_once(struct diwarp_cq *cq, uint64_t now_ns)
{
    int received = 0;
    bool more = false;
    if (!cq->count)
        dw_cq_release_held(cq);
    dw_foreach (runner, struct dw_runner, link, &cq->device->runners) {
        received += runner->ops->run(runner, now_ns);
        more |= runner->more;
    }
    __atomic_store_n(&cq->busy, received || more, __ATOMIC_RELAXED);
    return received;
}

/* After an absence, for those who poll rarely have no other time in which transfers go on: runs
 * until there is nothing to do, or a completion to hand out, for as long as nobody ran it before.
 */
static int run(struct diwarp_cq *cq)
{
    const uint64_t start_ns = dw_device_now_ns(cq->device), away_ns = start_ns - cq->ran_ns;
    const uint64_t longest_ns = away_ns < DW_RUN_LONGEST_NS ? away_ns : DW_RUN_LONGEST_NS;
    int received = 0;
    cq->ran_ns = start_ns;
    dw_cq_on_use(cq, start_ns);
    do {
        received += run_once(cq, cq->ran_ns);
        if (away_ns < DW_AWAY_NS || !cq->busy || cq->count)
            break;
        cq->ran_ns = dw_device_now_ns(cq->device);
    } while (cq->ran_ns - start_ns < longest_ns);
    return received;
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
        dw_foreach (runner, struct dw_runner, link, &cq->device->runners)
            if (runner->ops->flush)
                runner->ops->flush(runner);
    unsigned taken = 0;
    const bool overrun = cq->overrun;
    for (; taken < n && cq->count && !overrun; taken++, cq->count--) {
        wc[taken] = cq->ring[cq->head];
        cq->head = cq->head + 1 == cq->capacity ? 0 : cq->head + 1;
    }
    dw_unlock(cq->device);
    return overrun ? -ENOMEM : (int)taken;
}

bool diwarp_cq_busy(const struct diwarp_cq *cq)
{
    return __atomic_load_n(&cq->busy, __ATOMIC_RELAXED);
}

/* ---- who sleeps ---- */

uint64_t dw_cq_next_deadline_ns(const struct diwarp_cq *cq)
{
    uint64_t next_ns = UINT64_MAX;
    dw_foreach (runner, struct dw_runner, link, &cq->device->runners) {
        uint64_t deadline_ns = runner->ops->next_deadline_ns(runner);
        if (deadline_ns < next_ns)
            next_ns = deadline_ns;
    }
    return next_ns;
}

unsigned dw_cq_fds(const struct diwarp_cq *cq, struct pollfd *fds, unsigned n, bool *all)
{
    unsigned count = 0;
    *all = true;
    dw_foreach (runner, struct dw_runner, link, &cq->device->runners) {
        bool deaf = false;
        const int fd = runner->ops->fd(runner, &deaf);
        *all &= !deaf;
        if (fd >= 0 && count++ < n)
            fds[count - 1] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return count;
}

void dw_wake_sleepers(struct diwarp_device *device)
{
    const uint64_t one = 1;
    dw_foreach (sleeper, struct dw_sleeper, link, &device->sleepers) {
        const struct diwarp_cq *cq = sleeper->cq;
        bool all;
        if (!sleeper->until_ns || !((sleeper->for_completions && cq->count) ||
                                    dw_cq_next_deadline_ns(cq) < sleeper->until_ns ||
                                    dw_cq_fds(cq, NULL, 0, &all) != sleeper->fd_count))
            continue;
        sleeper->until_ns = 0;
        (void)!write(sleeper->event_fd, &one, sizeof one);
    }
}
