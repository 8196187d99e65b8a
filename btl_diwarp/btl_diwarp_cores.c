/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether this process and others of the job take turns on its cores. mpirun knows only of slots,
 * and nobody says who bound the processes. So each tells the others through the modex on which
 * cores it may run, as a hash: who has the same ones shares them.
 *
 * The helper thread, as MPI has it: the core runs the RNIC while the application is away from MPI's
 * progress, computing or blocked in the run-time system (MPI_Comm_spawn waits there for its
 * children, which may wait for what was sent). Where the PML is protected against a second thread
 * (helper_calls_back) the helper hands completions on as progress does, so that messages are
 * matched, too (but for the first ones of some communicators: btl_diwarp_openmpi5.c); else these
 * wait for the application.
 */
#define _GNU_SOURCE /* sched_getaffinity, sched_getcpu */
#include "btl_diwarp/btl_diwarp.h"

#include <errno.h>
#include <sched.h>

/* Between two looks of the helper thread whether the application is away, where the user asked for
 * the thread; elsewhere ten times as long. On shared cores each look takes time from another rank,
 * so the time is multiplied by the ranks on a core, up to LOOK_MAX_NS: progress.c waits up to eight
 * times as long, 20 ms, while the application polls. */
#define LOOK_NS     50000u
#define LOOK_MAX_NS 2500000u

/* Another rank of this job on the same cores. */
static bool is_mate(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc)
{
    return OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) &&
           proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid &&
           proc->proc_name.vpid != OPAL_PROC_MY_NAME.vpid &&
           mca_btl_diwarp_modex_cores_id(module, proc) == module->cores_id;
}

/* Another BTL would not be looked at meanwhile, but for self, which is never waited for. */
static bool is_alone(void)
{
    mca_btl_base_selected_module_t *other;
    OPAL_LIST_FOREACH(other, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        const char *name = other->btl_component->btl_version.mca_component_name;
        if (strcmp(name, "diwarp") != 0 && strcmp(name, "self") != 0)
            return false;
    }
    return true;
}

static bool wanted(void)
{
    return mca_btl_diwarp_params.progress_thread == DIWARP_ON;
}

static uint64_t look_ns(const struct mca_btl_diwarp_module *module)
{
    const uint64_t ns = (uint64_t)module->turns * (wanted() ? LOOK_NS : 10 * LOOK_NS);
    return ns < LOOK_MAX_NS ? ns : LOOK_MAX_NS;
}

/* Once the BTLs are chosen. */
void mca_btl_diwarp_cores_on_procs(struct mca_btl_diwarp_module *module, opal_proc_t **procs,
                                   size_t nprocs)
{
    const unsigned before = module->turns;
    const int blocking = mca_btl_diwarp_params.blocking;
    for (size_t i = 0; module->cores > 0 && i < nprocs; i++)
        module->mates += is_mate(module, procs[i]);
    if (module->cores > 0)
        module->turns = (module->mates + module->cores) / module->cores;
    if (module->turns > before) {
        MCA_BTL_DIWARP_VERBOSE(20, "%u ranks take turns on each core of this process",
                               module->turns);
        if (module->qp)
            diwarp_qp_share_cores(module->qp);
        if (module->helper)
            diwarp_helper_look_every(module->helper, look_ns(module));
    }
    const bool alone = is_alone();
    const bool may_block =
        !module->threaded && (blocking == DIWARP_ON || (blocking == DIWARP_AUTO && alone));
    __atomic_store_n(&module->alone, alone, __ATOMIC_RELAXED);
    __atomic_store_n(&module->may_block, may_block, __ATOMIC_RELAXED);
    __atomic_store_n(&module->blocking, may_block && (blocking == DIWARP_ON || module->turns > 1),
                     __ATOMIC_RELAXED);
}

/* Whoever polls has the RNIC: the helper never waits for it and is never waited for. */
static int run(void *arg)
{
    struct mca_btl_diwarp_module *module = arg;
    /* ob1 registers this last, when it has added the peers: then it takes messages. */
    const mca_btl_active_message_callback_t *fin =
        &mca_btl_base_active_message_trigger[MCA_BTL_DIWARP_TAG_FIN];
    int taken = 0;
    /* Of a program without threads Open MPI's objects are not the helper's to touch. */
    if (__atomic_exchange_n(&module->kept_out, false, __ATOMIC_RELAXED) ||
        (!module->helper_calls_back && mca_btl_diwarp_more_lost(module)) ||
        opal_atomic_trylock(&module->polling))
        return -EBUSY;
    module->helper_polls = true;
    __atomic_store_n(&module->helper_cpu, sched_getcpu(), __ATOMIC_RELAXED);
    if (module->helper_calls_back && __atomic_load_n(&module->endpoints, __ATOMIC_RELAXED) > 0 &&
        __atomic_load_n(&fin->cbfunc, __ATOMIC_ACQUIRE) &&
        module->held_count < MCA_BTL_DIWARP_HELD_MOST)
        taken = mca_btl_diwarp_poll_and_call_back(module);
    else
        (void)diwarp_run_cq(module->cq);
    __atomic_store_n(&module->helper_cpu, -1, __ATOMIC_RELAXED);
    module->helper_polls = false;
    opal_atomic_unlock(&module->polling);
    return taken;
}

/* FNV-1a. */
static uint32_t hash_of(const cpu_set_t *set)
{
    const uint8_t *bytes = (const uint8_t *)set;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *set; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

/* The helper may hand completions to the PML where that takes its locks: in programs that asked for
 * MPI_THREAD_MULTIPLE, or when the user wants it, which makes it take them, as btl/tcp does for its
 * own thread. With FUNNELED and SERIALIZED ob1 does not guard everything. */
int mca_btl_diwarp_cores_init(struct mca_btl_diwarp_module *module, bool multiple)
{
    cpu_set_t set;
    module->turns = 1;
    module->helper_cpu = -1;
    if (!sched_getaffinity(0, sizeof set, &set)) {
        module->cores_id = hash_of(&set);
        module->cores = (unsigned)CPU_COUNT(&set);
    }
    if (mca_btl_diwarp_params.progress_thread == DIWARP_OFF)
        return 0;
    const struct diwarp_helper_attr attr = {
        .cq = module->cq, .run = run, .arg = module, .all = wanted(), .look_ns = look_ns(module)};
    module->helper_calls_back = wanted() || multiple;
    if (diwarp_start_helper(&attr, &module->helper) < 0) {
        MCA_BTL_DIWARP_VERBOSE(1, "no thread to be had; going on without the %s", "helper");
        return wanted() ? -EAGAIN : 0;
    }
    if (module->helper_calls_back) {
        module->super.btl_flags |= MCA_BTL_FLAGS_BTL_PROGRESS_THREAD_ENABLED;
        opal_set_using_threads(true);
    }
    return 0;
}
