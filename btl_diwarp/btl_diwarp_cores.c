/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether this process and others of the job take turns on its cores. mpirun knows only of slots,
 * and who bound the processes, mpirun, a batch system or the user, nobody says. So each tells the
 * others through the modex on which cores it may run, as a hash: who has the same ones shares them.
 *
 * The helper thread, as MPI has it: the core runs the RNIC while the application is away from MPI's
 * progress, computing or blocked in the run-time system (MPI_Comm_spawn waits there for its
 * children). A peer may need what was sent to come to the point this process waits for.
 *
 * Where the PML is protected against a second thread (helper_calls_back) it hands completions on as
 * progress does, so that messages are matched, too; else these wait for the application.
 */
#define _GNU_SOURCE /* sched_getaffinity, sched_getcpu */
#include "btl_diwarp/btl_diwarp.h"

#include "opal/util/crc.h"

#include <errno.h>
#include <sched.h>

/* Between two looks whether the application is away; a tenth of it where the user asked for a
 * thread. On shared cores each look takes time from another rank, so with the ranks on a core, but
 * for the last that there is a bound of 20 ms for eight of them. */
#define LOOK_NS 500000u

void mca_btl_diwarp_cores_look(struct mca_btl_diwarp_cores *cores)
{
    cpu_set_t set;
    *cores = (struct mca_btl_diwarp_cores){.turns = 1};
    if (!sched_getaffinity(0, sizeof set, &set)) {
        cores->id = opal_uicrc(&set, sizeof set);
        cores->count = (unsigned)CPU_COUNT(&set);
    }
}

/* Another rank of this job on the same cores. */
static bool is_mate(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc)
{
    return OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) &&
           proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid &&
           proc->proc_name.vpid != OPAL_PROC_MY_NAME.vpid &&
           mca_btl_diwarp_modex_cores_id(module, proc) == module->cores.id;
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

static bool may_block(const struct mca_btl_diwarp_module *module)
{
    const int blocking = mca_btl_diwarp_params.blocking;
    return blocking != DIWARP_OFF && !module->threaded &&
           (blocking == DIWARP_ON || (module->cores.turns > 1 && is_alone()));
}

static bool wanted(void)
{
    return mca_btl_diwarp_params.progress_thread == DIWARP_ON;
}

static uint64_t look_ns(const struct mca_btl_diwarp_module *module)
{
    const unsigned tenths = module->cores.turns * (wanted() ? 1 : 10);
    return (uint64_t)(tenths < 50 ? tenths : 50) * (LOOK_NS / 10);
}

/* Once the BTLs are chosen. */
void mca_btl_diwarp_cores_on_procs(struct mca_btl_diwarp_module *module, opal_proc_t **procs,
                                   size_t nprocs)
{
    struct mca_btl_diwarp_cores *cores = &module->cores;
    const unsigned before = cores->turns;
    if (cores->count > 0) {
        for (size_t i = 0; i < nprocs; i++)
            cores->mates += is_mate(module, procs[i]);
        cores->turns = (cores->mates + cores->count) / cores->count;
    }
    if (cores->turns > before) {
        MCA_BTL_DIWARP_VERBOSE(20, "%u ranks take turns on each core of this process",
                               cores->turns);
        if (module->qp)
            diwarp_qp_share_cores(module->qp);
        if (module->helper)
            diwarp_helper_look_every(module->helper, look_ns(module));
    }
    __atomic_store_n(&module->blocking, may_block(module), __ATOMIC_RELAXED);
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

/*
 * The helper may hand completions to the PML where that takes its locks: in programs that asked for
 * MPI_THREAD_MULTIPLE, or when the user wants it, which makes it take them, as btl/tcp does for its
 * own thread. With FUNNELED and SERIALIZED opal_using_threads() holds, but ob1 does not guard
 * everything.
 */
int mca_btl_diwarp_helper_start(struct mca_btl_diwarp_module *module, bool multiple)
{
    const struct diwarp_helper_attr attr = {
        .cq = module->cq,
        .run = run,
        .arg = module,
        .all = wanted(),
        .look_ns = look_ns(module),
    };
    if (mca_btl_diwarp_params.progress_thread == DIWARP_OFF)
        return 0;
    module->helper_cpu = -1;
    module->helper_calls_back = wanted() || multiple;
    if (diwarp_start_helper(&attr, &module->helper) < 0) {
        module->helper_calls_back = false;
        MCA_BTL_DIWARP_VERBOSE(1, "no thread to be had; going on without the %s", "helper");
        return wanted() ? -EAGAIN : 0;
    }
    if (module->helper_calls_back) {
        module->super.btl_flags |= MCA_BTL_FLAGS_BTL_PROGRESS_THREAD_ENABLED;
        opal_set_using_threads(true);
    }
    return 0;
}
