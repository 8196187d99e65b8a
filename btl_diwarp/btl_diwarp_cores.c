/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether this process and others of the job take turns on its cores. mpirun knows only of slots,
 * and who bound the processes, mpirun, a batch system or the user, nobody says. So each tells the
 * others through the modex on which cores it may run, as a hash: who has the same ones shares them.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "btl_diwarp/btl_diwarp.h"

#include "opal/util/crc.h"

#include <sched.h>

void mca_btl_diwarp_cores_look(struct mca_btl_diwarp_cores *cores)
{
    cpu_set_t set;
    *cores = (struct mca_btl_diwarp_cores){.turns = 1};
    if (!sched_getaffinity(0, sizeof set, &set)) {
        cores->id = opal_uicrc(&set, sizeof set);
        cores->count = (unsigned)CPU_COUNT(&set);
    }
}

unsigned mca_btl_diwarp_cores_turns(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&module->cores.turns, __ATOMIC_RELAXED);
}

/* Another rank of this job on the same cores. */
static bool is_mate(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc)
{
    return OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) &&
           proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid &&
           proc->proc_name.vpid != OPAL_PROC_MY_NAME.vpid &&
           mca_btl_diwarp_modex_cores_id(module, proc) == module->cores.id;
}

void mca_btl_diwarp_cores_on_procs(struct mca_btl_diwarp_module *module, opal_proc_t **procs,
                                   size_t nprocs)
{
    struct mca_btl_diwarp_cores *cores = &module->cores;
    const unsigned before = cores->turns;
    if (!cores->count)
        return;
    for (size_t i = 0; i < nprocs; i++)
        cores->mates += is_mate(module, procs[i]);
    const unsigned turns = (cores->mates + cores->count) / cores->count;
    if (turns <= before)
        return;
    __atomic_store_n(&cores->turns, turns, __ATOMIC_RELAXED);
    MCA_BTL_DIWARP_VERBOSE(20, "%u ranks take turns on each core of this process", turns);
    if (before == 1 && module->qp)
        diwarp_qp_share_cores(module->qp);
}
