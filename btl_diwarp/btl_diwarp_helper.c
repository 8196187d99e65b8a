/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread, as MPI has it: the core runs the RNIC while the application is away from MPI's
 * progress, computing or blocked in the run-time system (MPI_Comm_spawn waits there for its
 * children). A peer may need what was sent to come to the point this process waits for.
 *
 * Where the PML is protected against a second thread (helper_calls_back) it hands completions on as
 * progress does, so that messages are matched, too; else these wait for the application.
 */
#define _GNU_SOURCE /* sched_getcpu */
#include "btl_diwarp/btl_diwarp.h"

#include <errno.h>
#include <sched.h>

/* Between two looks whether the application is away; a tenth of it where the user asked for a
 * thread. On shared cores each look takes time from another rank, so with the ranks on a core, but
 * for the last that there is a bound of 20 ms for eight of them. */
#define LOOK_NS 500000u

static bool wanted(void)
{
    return mca_btl_diwarp_params.progress_thread == DIWARP_ON;
}

static uint64_t look_ns(const struct mca_btl_diwarp_module *module)
{
    const unsigned turns = mca_btl_diwarp_cores_turns(module), tenths = turns * (wanted() ? 1 : 10);
    return (uint64_t)(tenths < 50 ? tenths : 50) * (LOOK_NS / 10);
}

/* ob1 registers the FIN last, when it has added the peers. */
static bool pml_takes_messages(const struct mca_btl_diwarp_module *module)
{
    const mca_btl_active_message_callback_t *fin =
        &mca_btl_base_active_message_trigger[MCA_BTL_DIWARP_TAG_FIN];
    return __atomic_load_n(&module->endpoints, __ATOMIC_RELAXED) > 0 &&
           __atomic_load_n(&fin->cbfunc, __ATOMIC_ACQUIRE);
}

/* Whoever polls has the RNIC: the helper never waits for it and is never waited for. */
static int run(void *arg)
{
    struct mca_btl_diwarp_module *module = arg;
    int taken = 0;
    if (__atomic_exchange_n(&module->kept_out, false, __ATOMIC_RELAXED) ||
        !mca_btl_diwarp_polling_begin(module))
        return -EBUSY;
    __atomic_store_n(&module->helper_cpu, sched_getcpu(), __ATOMIC_RELAXED);
    if (module->helper_calls_back && pml_takes_messages(module))
        taken = mca_btl_diwarp_poll_and_call_back(module);
    else
        (void)diwarp_run_cq(module->cq);
    __atomic_store_n(&module->helper_cpu, -1, __ATOMIC_RELAXED);
    mca_btl_diwarp_polling_end(module);
    return taken;
}

int mca_btl_diwarp_helper_start(struct mca_btl_diwarp_module *module)
{
    const struct diwarp_helper_attr attr = {
        .cq = module->cq,
        .run = run,
        .arg = module,
        .all = wanted(),
        .look_ns = look_ns(module),
    };
    module->helper_cpu = -1;
    return diwarp_start_helper(&attr, &module->helper);
}

void mca_btl_diwarp_helper_on_turns(struct mca_btl_diwarp_module *module)
{
    if (module->helper)
        diwarp_helper_look_every(module->helper, look_ns(module));
}

void mca_btl_diwarp_helper_stop(struct mca_btl_diwarp_module *module)
{
    if (module->helper) {
        diwarp_stop_helper(module->helper);
        module->helper = NULL;
    }
}
