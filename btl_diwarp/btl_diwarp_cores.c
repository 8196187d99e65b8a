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
#include <unistd.h>

static unsigned per_core(unsigned ranks, unsigned cores)
{
    return (ranks + cores - 1) / cores;
}

static void set_turns(struct mca_btl_diwarp_cores *cores, unsigned turns)
{
    __atomic_store_n(&cores->turns, turns, __ATOMIC_RELAXED);
    if (turns > 1)
        MCA_BTL_DIWARP_VERBOSE(20, "%u ranks take turns on each core of this process", turns);
}

void mca_btl_diwarp_cores_look(struct mca_btl_diwarp_cores *cores)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    *cores = (struct mca_btl_diwarp_cores){.turns = 1};
    if (online > 0) {
        set_turns(cores,
                  per_core((unsigned)opal_process_info.num_local_peers + 1, (unsigned)online));
    }
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
    unsigned turns;
    if (!cores->count)
        return;
    for (size_t i = 0; i < nprocs; i++)
        cores->mates += is_mate(module, procs[i]);
    turns = per_core(cores->mates + 1, cores->count);
    if (turns <= before)
        return;
    set_turns(cores, turns);
    if (before == 1 && module->qp)
        diwarp_qp_share_cores(module->qp);
}
