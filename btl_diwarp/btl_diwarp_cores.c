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

bool mca_btl_diwarp_cores_are_few(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return cores > 0 && opal_process_info.num_local_peers + 1 > cores;
}

bool mca_btl_diwarp_cores_shared(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&module->shared_cores, __ATOMIC_RELAXED);
}

/* Others of this job on the same cores, so that somebody has to wait. */
static bool is_one_too_many(struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                            uint32_t id, unsigned cores)
{
    return OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) &&
           0 != opal_compare_proc(proc->proc_name, OPAL_PROC_MY_NAME) &&
           mca_btl_diwarp_modex_cores_id(proc) == id && ++module->core_mates + 1 > cores;
}

void mca_btl_diwarp_cores_on_procs(struct mca_btl_diwarp_module *module, opal_proc_t **procs,
                                   size_t nprocs)
{
    const uint32_t id = mca_btl_diwarp_cores_id();
    cpu_set_t set;
    unsigned cores = get_cores(&set);

    for (size_t i = 0; i < nprocs && cores > 0 && !mca_btl_diwarp_cores_shared(module); i++) {
        if (is_one_too_many(module, procs[i], id, cores)) {
            __atomic_store_n(&module->shared_cores, true, __ATOMIC_RELAXED);
            if (NULL != module->qp) {
                diwarp_qp_share_cores(module->qp);
            }
        }
    }
    opal_output_verbose(20, opal_btl_base_framework.framework_output,
                        "btl:diwarp: cores of this process: %u, %s", cores,
                        mca_btl_diwarp_cores_shared(module) ? "on which ranks take turns"
                                                            : "enough for its ranks");
}
