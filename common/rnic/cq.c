/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues, and polling: the only place where the RNIC gets to run by itself. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/rnic/cq.h"
#include "common/wire/rdmap.h"

/* Entries of a ring that has not been needed longer. */
#define CAPACITY_LEAST 64

static struct diwarp_wc *wc_at(const struct diwarp_cq *cq, uint32_t index)
{
    return dw_ring_at(&cq->ring, sizeof(struct diwarp_wc), index);
}

struct diwarp_cq *diwarp_create_cq(struct diwarp_device *device, unsigned cqe)
{
    struct diwarp_cq *cq = calloc(1, sizeof *cq);
    (void)cqe; /* it grows */
    if (!cq)
        return NULL;
    *cq = (struct diwarp_cq){.device = device, .waiter = {.cq = cq, .event_fd = -1}};
    dw_list_init(&cq->waiter.link);
    return cq;
}

void dw_cq_release(struct diwarp_cq *cq)
{
    cq->device->held -= cq->held;
    cq->held = 0;
}

void dw_cq_drop(struct diwarp_cq *cq)
{
    cq->ring.count = 0;
    dw_cq_release(cq);
}

void diwarp_destroy_cq(struct diwarp_cq *cq)
{
    if (cq->rc) {
        dw_list_remove(&cq->rc->link);
        cq->rc->ops->destroy(cq->rc);
    }
    dw_cq_release(cq);
    if (cq->waiter.event_fd >= 0)
        close(cq->waiter.event_fd);
    dw_ring_fini(&cq->ring);
    free(cq);
}

bool dw_cq_trim(struct diwarp_cq *cq)
{
    if (!cq->ring.count && cq->ring.capacity > CAPACITY_LEAST)
        dw_ring_fini(&cq->ring);
    return cq->ring.capacity > CAPACITY_LEAST;
}

/* The bound: one receive call's worth of Sends, and what the send queues may hold. Growing keeps
 * verbs' "CQ overrun" away from the application as long as there is memory. */
struct diwarp_wc *dw_cq_slot(struct diwarp_cq *cq)
{
    struct diwarp_wc *slot = dw_ring_push(&cq->ring, sizeof *slot, UINT32_MAX);
    if (slot)
        cq->device->pushed++;
    else
        cq->overrun = true;
    return slot;
}

void dw_cq_push(struct diwarp_cq *cq, const struct diwarp_wc *wc)
{
    struct diwarp_wc *slot = dw_cq_slot(cq);
    if (slot)
        *slot = *wc;
}

void dw_cq_forget(struct diwarp_cq *cq, uint32_t qp_num, const void *rc_whose)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cq->ring.count; i++) {
        const struct diwarp_wc *wc = wc_at(cq, i);
        if ((!qp_num || wc->wc.qp_num != qp_num) &&
            (!rc_whose || (wc->rc_qp != rc_whose && wc->request != rc_whose)))
            *wc_at(cq, kept++) = *wc;
    }
    cq->ring.count = kept;
}

unsigned dw_cq_take(struct diwarp_cq *cq, const struct diwarp_rc_qp *whose, unsigned n,
                    struct diwarp_wc *wc)
{
    uint32_t kept = 0;
    unsigned taken = 0;
    for (uint32_t i = 0; i < cq->ring.count; i++)
        if (taken < n && wc_at(cq, i)->rc_qp == whose)
            wc[taken++] = *wc_at(cq, i);
        else
            *wc_at(cq, kept++) = *wc_at(cq, i);
    cq->ring.count = kept;
    return taken;
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
    if (!cq->ring.count)
        dw_cq_release(cq);
    dw_foreach (runner, struct dw_runner, link, &cq->device->runners) {
        received += runner->ops->run(runner, now_ns);
        more |= runner->more;
    }
    __atomic_store_n(&cq->busy, received || more, __ATOMIC_RELAXED);
    return received;
}

/* After an absence, as transfers of those who poll rarely go on at no other time: runs until there
 * is nothing to do, or a completion to hand out, for as long as nobody ran it before. */
static int run(struct diwarp_cq *cq)
{
    const uint64_t start_ns = dw_device_now_ns(cq->device), away_ns = start_ns - cq->ran_ns;
    const uint64_t longest_ns = away_ns < DW_RUN_LONGEST_NS ? away_ns : DW_RUN_LONGEST_NS;
    int received = 0;
    cq->ran_ns = start_ns;
    dw_cq_on_use(cq, start_ns);
    do {
        received += run_once(cq, cq->ran_ns);
        if (away_ns < DW_AWAY_NS || !cq->busy || cq->ring.count)
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
    if (!cq->ring.count)
        (void)run(cq);
    else if (cq->rc)
        cq->rc->ops->flush(cq->rc);
    unsigned taken = 0;
    const bool overrun = cq->overrun;
    /* Not by dw_ring_pop(), which gives memory back each time that the ring runs empty. */
    for (; taken < n && cq->ring.count && !overrun; taken++, cq->ring.count--) {
        wc[taken] = *wc_at(cq, 0);
        cq->ring.head = cq->ring.head + 1 == cq->ring.capacity ? 0 : cq->ring.head + 1;
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

unsigned dw_cq_fds(const struct diwarp_cq *cq, struct pollfd *fds, unsigned n)
{
    unsigned count = 0;
    dw_foreach (runner, const struct dw_runner, link, &cq->device->runners)
        for (size_t i = 0; i < sizeof runner->fds / sizeof *runner->fds; i++)
            if (runner->fds[i] >= 0 && count++ < n)
                fds[count - 1] = (struct pollfd){.fd = runner->fds[i], .events = POLLIN};
    return count;
}

void dw_wake_sleepers(struct diwarp_device *device)
{
    const uint64_t one = 1;
    dw_foreach (sleeper, struct dw_sleeper, link, &device->sleepers) {
        const struct diwarp_cq *cq = sleeper->cq;
        if (!sleeper->until_ns || !((sleeper == &cq->waiter && cq->ring.count) ||
                                    dw_cq_next_deadline_ns(cq) < sleeper->until_ns ||
                                    dw_cq_fds(cq, NULL, 0) != sleeper->fd_count))
            continue;
        sleeper->until_ns = 0;
        (void)!write(sleeper->event_fd, &one, sizeof one);
    }
}
