/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether this process and others of the job take turns on its cores. mpirun knows only of slots,
 * and who bound the processes, mpirun, a batch system or the user, nobody says. So each tells the
 * others through the modex on which cores it may run, as a hash: who has the same ones shares them.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "btl_diwarp/btl_diwarp.h"

#include <sched.h>
#include <unistd.h>

/* Of this process; 0: not to be had. */
static unsigned get_cores(cpu_set_t *set)
{
    return 0 == sched_getaffinity(0, sizeof(*set), set) ? (unsigned)CPU_COUNT(set) : 0;
}

uint32_t mca_btl_diwarp_cores_id(void)
{
    cpu_set_t set;
    const unsigned char *bytes = (const unsigned char *)&set;
    uint32_t hash = 2166136261u; /* FNV-1a */

    if (0 == get_cores(&set)) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(set); i++) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }
    return 0 != hash ? hash : 1;
}

static unsigned share(unsigned ranks, unsigned cores)
{
    return (ranks + cores - 1) / cores;
}

unsigned mca_btl_diwarp_cores_guess(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return cores > 0 ? share((unsigned)opal_process_info.num_local_peers + 1, (unsigned)cores) : 1;
}

unsigned mca_btl_diwarp_cores_turns(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&module->core_turns, __ATOMIC_RELAXED);
}

/* Another rank on the same cores. */
static bool is_mate(const opal_proc_t *proc, uint32_t id)
{
    return OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) &&
           0 != opal_compare_proc(proc->proc_name, OPAL_PROC_MY_NAME) &&
           mca_btl_diwarp_modex_cores_id(proc) == id;
}

void mca_btl_diwarp_cores_on_procs(struct mca_btl_diwarp_module *module, opal_proc_t **procs,
                                   size_t nprocs)
{
    const uint32_t id = mca_btl_diwarp_cores_id();
    const unsigned before = mca_btl_diwarp_cores_turns(module);
    cpu_set_t set;
    unsigned cores = get_cores(&set), turns;

    if (0 == cores) {
        return;
    }
    for (size_t i = 0; i < nprocs; i++) {
        module->core_mates += is_mate(procs[i], id);
    }
    turns = share(module->core_mates + 1, cores);
    if (turns <= before) {
        return;
    }
    __atomic_store_n(&module->core_turns, turns, __ATOMIC_RELAXED);
    if (1 == before && NULL != module->qp) {
        diwarp_qp_share_cores(module->qp);
    }
}
