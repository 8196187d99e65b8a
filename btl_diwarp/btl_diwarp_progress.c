/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: completions in, BTL callbacks out. */
#define _GNU_SOURCE /* sched_getcpu, RUSAGE_THREAD */
#include "btl_diwarp/btl_diwarp_work.h"

#include <stdlib.h>
#include <sys/resource.h>

static struct mca_btl_diwarp_held *take_held(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_held *held = STAILQ_FIRST(&module->held);
    if (held) {
        STAILQ_REMOVE_HEAD(&module->held, next);
        module->held_count--;
    }
    return held;
}

static int deliver_held(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_held *held;
    const int count = (int)module->held_count;
    __atomic_store_n(&module->caller, pthread_self(), __ATOMIC_RELAXED);
    for (; (held = take_held(module)); free(held))
        mca_btl_diwarp_deliver(module, NULL, &held->from, held->tag, held->data, held->len);
    __atomic_store_n(&module->caller, (pthread_t)0, __ATOMIC_RELAXED); /* nobody's */
    return count;
}

void mca_btl_diwarp_drop_held(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_held *held;
    while ((held = take_held(module)))
        free(held);
}

int mca_btl_diwarp_poll_and_call_back(struct mca_btl_diwarp_module *module)
{
    static struct diwarp_wc wc[32]; /* more than a few; static, for stacks may be small */
    const bool has_held = module->held_count && !module->helper_polls;
    const int delivered = OPAL_UNLIKELY(has_held) ? deliver_held(module) : 0;
    mca_btl_diwarp_end_lost(module);
    const int count = diwarp_poll_cq(module->cq, sizeof wc / sizeof *wc, wc);
    if (OPAL_UNLIKELY(count < 0)) { /* the CQ had no memory to grow */
        char info[] = "diwarp: out of memory: what was sent or received cannot be told any more";
        MCA_BTL_DIWARP_HELP("out of memory", "queuing completions");
        mca_btl_diwarp_fail(module, NULL, info);
        return 0;
    }
    if (count > 0 || OPAL_UNLIKELY(mca_btl_diwarp_work_waits(module))) {
        __atomic_store_n(&module->caller, pthread_self(), __ATOMIC_RELAXED);
        module->transport->on_completions(module, wc, count);
        __atomic_store_n(&module->caller, (pthread_t)0, __ATOMIC_RELAXED); /* nobody's */
    }
    return count + delivered;
}

/* Processes that share a core take turns of a millisecond or more: at twice as much, the shortest
 * would not be seen; half as much would count more of what the system itself takes now and then. */
#define TAKEN_NS 500000u
/* A rank that sleeps is preempted no more, so that contention is not seen: for so long it goes on
 * to sleep, and then polls again until it loses the core, some milliseconds. */
#define CONTENDED_NS 10000000000u

/* After blocking_polls polls that found nothing, and `again` after as many more: whether another
 * process or thread had the core meanwhile. */
static bool is_contended(struct mca_btl_diwarp_module *module, uint64_t now_ns, bool again)
{
    struct mca_btl_diwarp_core_use *use = &module->core_use;
    struct rusage usage;
    if (now_ns < use->contended_until_ns)
        return true;
    if (getrusage(RUSAGE_THREAD, &usage))
        return false;
    /* Last: the kernel finds out here that the thread's turn is over, and takes the core, which is
     * to be seen at the next look, preemption and time. */
    const uint64_t cpu_ns = mca_btl_diwarp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const bool taken = again && use->thread == pthread_self() && !use->contended_until_ns &&
                       usage.ru_nivcsw > use->preemptions &&
                       now_ns - use->wall_ns >= cpu_ns - use->cpu_ns + TAKEN_NS;
    if (taken)
        MCA_BTL_DIWARP_VERBOSE(20, "another process wants this core: waits sleep for %u s",
                               (unsigned)(CONTENDED_NS / 1000000000u));
    *use = (struct mca_btl_diwarp_core_use){pthread_self(), now_ns, cpu_ns, usage.ru_nivcsw,
                                            taken ? now_ns + CONTENDED_NS : 0};
    return taken;
}

/* Nothing came for a while and others want this core: sleeps until something does, a timer is
 * due, or as long again as nothing has come. A program that polls between pieces of work cannot be
 * told from one that waits; so it loses no more than that share of its time. */
static void on_empty_poll(struct mca_btl_diwarp_module *module)
{
    const unsigned polls = module->empty_polls++, many = mca_btl_diwarp_params.blocking_polls;
    const bool sleeps = module->blocking || module->core_use.contended_until_ns;
    if (polls % many || (!polls && !sleeps))
        return;
    const uint64_t now_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC);
    if (!polls || (polls == many && !sleeps))
        module->empty_since_ns = now_ns;
    if (!polls)
        return;
    if (module->blocking || is_contended(module, now_ns, polls > many)) {
        const uint64_t ns = now_ns - module->empty_since_ns;
        (void)diwarp_block_cq(module->cq,
                              ns < MCA_BTL_DIWARP_SLEEP_NS ? ns : MCA_BTL_DIWARP_SLEEP_NS);
    }
}

/* A thread that comes back to MPI may take the core from the helper amid its work. It would poll in
 * vain until its time slice ends, some milliseconds. */
static void let_helper_end(struct mca_btl_diwarp_module *module)
{
    const int cpu = __atomic_load_n(&module->helper_cpu, __ATOMIC_RELAXED);
    if (cpu < 0) /* another thread of the application polls */
        return;
    __atomic_store_n(&module->kept_out, true, __ATOMIC_RELAXED);
    if (cpu == sched_getcpu()) {
        (void)__atomic_add_fetch(&module->counters.helper_yields, 1, __ATOMIC_RELAXED);
        (void)sched_yield();
    }
}

/* Where another BTL may be waited for, too, a look at an empty socket, 0.25 us, would double the
 * time of a message by shared memory. So after RARE_AFTER looks that found nothing, since something
 * was posted, there is one in RARE_NS: a third of that makes 8 B by shared memory 1.4 instead of
 * 1.2 times as long as alone, twice as much lets what comes wait longer than it was under way. Less
 * than RARE_AFTER looks, 80 us, would count the answer to a long message as not awaited. Over RC a
 * look does not ask all streams. */
#define RARE_AFTER 256u
#define RARE_NS    3000u

static bool is_early(struct mca_btl_diwarp_module *module)
{
    if (module->alone || module->may_block || module->rc ||
        __atomic_load_n(&module->vain_looks, __ATOMIC_RELAXED) < RARE_AFTER)
        return false;
    const uint64_t now_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC);
    if (now_ns - module->looked_ns < RARE_NS)
        return true;
    module->looked_ns = now_ns;
    return false;
}

static void note_look(struct mca_btl_diwarp_module *module, bool in_vain)
{
    const unsigned looks = __atomic_load_n(&module->vain_looks, __ATOMIC_RELAXED);
    if (in_vain && looks < RARE_AFTER)
        __atomic_store_n(&module->vain_looks, looks + 1, __ATOMIC_RELAXED);
    else if (!in_vain)
        mca_btl_diwarp_look_soon(module);
}

/* Returns how many completions there were. *idle: nor is anything half done. */
static int poll_and_note(struct mca_btl_diwarp_module *module, bool *idle)
{
    const int count = mca_btl_diwarp_poll_and_call_back(module);
    *idle = !count && !diwarp_cq_busy(module->cq);
    if (*idle && module->transport->on_nothing)
        module->transport->on_nothing(module);
    note_look(module, *idle);
    if (!*idle)
        module->empty_polls = 0;
    return count;
}

static int poll_once(struct mca_btl_diwarp_module *module)
{
    bool idle;
    const int count = poll_and_note(module, &idle);
    if (idle && module->may_block)
        on_empty_poll(module);
    /* Open MPI gives the core away when nothing is said to have happened: not amid a record. */
    return !count && !idle ? 1 : count;
}

void mca_btl_diwarp_look(struct mca_btl_diwarp_module *module)
{
    bool idle;
    if (opal_atomic_trylock(&module->polling))
        return;
    (void)poll_and_note(module, &idle);
    opal_atomic_unlock(&module->polling);
}

int mca_btl_diwarp_progress(struct mca_btl_diwarp_module *module)
{
    if (OPAL_UNLIKELY(!module->cq))
        return 0;
    __atomic_store_n(&module->polls, module->polls + 1, __ATOMIC_RELAXED);
    if (OPAL_UNLIKELY(opal_atomic_trylock(&module->polling))) {
        let_helper_end(module);
        return 0;
    }
    const int count = is_early(module) ? 0 : poll_once(module);
    opal_atomic_unlock(&module->polling);
    return count;
}
