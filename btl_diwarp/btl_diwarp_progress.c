/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: completions in, BTL callbacks out. */
#define _GNU_SOURCE /* sched_getcpu */
#include "btl_diwarp/btl_diwarp_work.h"

int mca_btl_diwarp_poll_and_call_back(struct mca_btl_diwarp_module *module)
{
    static struct diwarp_wc wc[32]; /* more than a few; static, for stacks may be small */
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
    return count;
}

/* Nothing came for a while and other ranks want this core: sleeps until something does, a timer is
 * due, or as long again as nothing has come. A program that polls between pieces of work cannot be
 * told from one that waits; so it loses no more than that share of its time. */
static void block_if_idle(struct mca_btl_diwarp_module *module, bool idle)
{
    if (!idle) {
        module->empty_polls = 0;
    } else if (!module->empty_polls++) {
        module->empty_since_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC);
    } else if (module->empty_polls % mca_btl_diwarp_params.blocking_polls == 0) {
        const uint64_t ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC) - module->empty_since_ns;
        (void)diwarp_block_cq(module->cq,
                              ns < MCA_BTL_DIWARP_SLEEP_NS ? ns : MCA_BTL_DIWARP_SLEEP_NS);
    }
}

/* A thread that comes back to MPI may take the core from the helper amid its work. It would poll in
 * vain until its time slice ends, some milliseconds. */
static void let_helper_end(struct mca_btl_diwarp_module *module)
{
    int cpu = __atomic_load_n(&module->helper_cpu, __ATOMIC_RELAXED);
    __atomic_store_n(&module->kept_out, true, __ATOMIC_RELAXED);
    if (cpu >= 0 && cpu == sched_getcpu()) {
        (void)__atomic_add_fetch(&module->counters.helper_yields, 1, __ATOMIC_RELAXED);
        (void)sched_yield();
    }
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
    const int count = mca_btl_diwarp_poll_and_call_back(module);
    const bool idle = !count && !diwarp_cq_busy(module->cq);
    if (idle && module->transport->on_nothing)
        module->transport->on_nothing(module);
    if (OPAL_UNLIKELY(module->blocking))
        block_if_idle(module, idle);
    opal_atomic_unlock(&module->polling);
    /* Open MPI gives the core away when nothing is said to have happened: not amid a record. */
    return !count && !idle ? 1 : count;
}
