/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether this process and others of the job take turns on its cores. mpirun knows only of slots,
 * and who bound the processes, mpirun, a batch system or the user, nobody says. So each tells the
 * others through the modex on which cores it may run, as a hash: who has the same ones shares them.
 *
 * Who takes turns asks the kernel for short time slices: a rank that yields, or is woken, then gets
 * its core back at the next tick or wake, and those that wait for what it sends wait less.
 */
#define _GNU_SOURCE /* sched_getaffinity, syscall */
#include "btl_diwarp/btl_diwarp.h"

#include "opal/util/crc.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Ranks on a core: more of them gain nothing by short slices and switch the more often. */
#define SLICE_TURNS_MOST 4

/* What sched_setattr(2) takes. The kernel's header and older C libraries' <sched.h> exclude each
 * other. */
struct thread_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

/* Of the calling thread. */
static _Thread_local struct {
    bool asked;
    uint64_t before_ns, ours_ns; /* 0: it was not changed */
} slice;

static unsigned per_core(unsigned ranks, unsigned cores)
{
    return (ranks + cores - 1) / cores;
}

static void set_turns(struct mca_btl_diwarp_cores *cores, unsigned turns)
{
    __atomic_store_n(&cores->turns, turns, __ATOMIC_RELAXED);
    if (turns > 1) {
        opal_output_verbose(20, opal_btl_base_framework.framework_output,
                            "btl:diwarp: %u ranks take turns on each core of this process", turns);
    }
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
    if (0 == sched_getaffinity(0, sizeof(set), &set)) {
        cores->id = opal_uicrc(&set, sizeof(set));
        cores->count = (unsigned)CPU_COUNT(&set);
    }
}

unsigned mca_btl_diwarp_cores_turns(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&module->cores.turns, __ATOMIC_RELAXED);
}

static int thread_attr_get(struct thread_attr *attr)
{
    return (int)syscall(SYS_sched_getattr, 0, attr, sizeof(*attr), 0);
}

static int thread_attr_set(struct thread_attr *attr, uint64_t runtime_ns)
{
    attr->runtime_ns = runtime_ns;
    return (int)syscall(SYS_sched_setattr, 0, attr, 0);
}

/* Says how that went. */
static const char *shorten_slice(uint64_t ns)
{
    struct thread_attr attr;

    if (0 != thread_attr_get(&attr)) {
        return strerror(errno);
    }
    if (SCHED_OTHER != attr.policy && SCHED_BATCH != attr.policy) {
        return "of another scheduling policy";
    }
    if (0 == attr.runtime_ns) {
        return "not before Linux 6.12";
    }
    if (attr.runtime_ns <= ns) {
        return "is as short";
    }
    slice.before_ns = attr.runtime_ns;
    if (0 != thread_attr_set(&attr, ns)) {
        slice.before_ns = 0;
        return strerror(errno);
    }
    slice.ours_ns = ns;
    return "is shorter now";
}

void mca_btl_diwarp_cores_ask_slice(const struct mca_btl_diwarp_module *module)
{
    const uint64_t ns = mca_btl_diwarp_component.params.slice_us * UINT64_C(1000);
    const unsigned turns = mca_btl_diwarp_cores_turns(module);
    const char *result;

    if (slice.asked || 0 == ns || 1 == turns || turns > SLICE_TURNS_MOST ||
        !__atomic_load_n(&module->blocking, __ATOMIC_RELAXED)) {
        return;
    }
    slice.asked = true;
    result = shorten_slice(ns);
    opal_output_verbose(20, opal_btl_base_framework.framework_output,
                        "btl:diwarp: time slice of a thread: %s", result);
}

/* Without a runtime it is the kernel's own, which may change, and most often was that before. */
void mca_btl_diwarp_cores_return_slice(void)
{
    struct thread_attr attr;

    if (slice.before_ns > 0 && 0 == thread_attr_get(&attr) && attr.runtime_ns == slice.ours_ns &&
        0 == thread_attr_set(&attr, 0) && 0 == thread_attr_get(&attr) &&
        attr.runtime_ns != slice.before_ns) {
        (void)thread_attr_set(&attr, slice.before_ns);
    }
    memset(&slice, 0, sizeof(slice));
}

/* Another rank of this job on the same cores. */
static bool is_mate(const struct mca_btl_diwarp_cores *cores, const opal_proc_t *proc)
{
    return OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) &&
           proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid &&
           proc->proc_name.vpid != OPAL_PROC_MY_NAME.vpid &&
           mca_btl_diwarp_modex_cores_id(proc) == cores->id;
}

void mca_btl_diwarp_cores_on_procs(struct mca_btl_diwarp_module *module, opal_proc_t **procs,
                                   size_t nprocs)
{
    struct mca_btl_diwarp_cores *cores = &module->cores;
    const unsigned before = cores->turns;
    unsigned turns;

    if (0 == cores->count) {
        return;
    }
    for (size_t i = 0; i < nprocs; i++) {
        cores->mates += is_mate(cores, procs[i]);
    }
    turns = per_core(cores->mates + 1, cores->count);
    if (turns <= before) {
        return;
    }
    set_turns(cores, turns);
    if (1 == before && NULL != module->qp) {
        diwarp_qp_share_cores(module->qp);
    }
}
