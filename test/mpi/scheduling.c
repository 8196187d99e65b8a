/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the application's threads are scheduled is the application's and Open MPI's affair: after
 * MPI_Init and some waits a thread has the scheduling attributes that it had before, and Open MPI
 * yields when idle if its own parameter says so, and only then.
 */
#define _GNU_SOURCE /* syscall, RTLD_DEFAULT */
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What sched_getattr(2) gives, as its first version has it. */
struct thread_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

static struct thread_attr attr_of_this_thread(void)
{
    struct thread_attr attr = {.size = sizeof(attr)};

    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0) {
        perror("sched_getattr");
        exit(1);
    }
    return attr;
}

/* Open MPI tells what it does only to who sets it. */
static bool yields_when_idle(void)
{
    bool (*set)(bool) = (bool (*)(bool))dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle");
    bool yields;

    MT_CHECK(set, "no opal_progress_set_yield_when_idle in this Open MPI");
    yields = set(false);
    set(yields);
    return yields;
}

static bool is_to_yield_when_idle(void)
{
    MPI_Datatype type;
    bool yields = false;

    mt_tool_init();
    MT_CHECK(mt_cvar_read(mt_cvar_find("mpi_yield_when_idle", &type), &yields, sizeof(yields)),
             "no parameter mpi_yield_when_idle");
    MPI_T_finalize();
    return yields;
}

/* All others find nothing to do meanwhile. */
static void wait_for_each_other(void)
{
    for (int late = 0; late < mt.size; late++) {
        if (mt.rank == late)
            mt_sleep_ms(20);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    const struct thread_attr before = attr_of_this_thread();
    struct thread_attr after;
    bool wanted;

    mt_start(argc, argv, "scheduling", MPI_THREAD_SINGLE);
    wanted = is_to_yield_when_idle();
    mt_phase("waiting");
    wait_for_each_other();
    after = attr_of_this_thread();
    MT_CHECK(!memcmp(&before, &after, sizeof(before)),
             "before MPI_Init: policy %u, nice %d, slice %llu ns; now %u, %d, %llu ns",
             before.policy, before.nice, (unsigned long long)before.runtime_ns, after.policy,
             after.nice, (unsigned long long)after.runtime_ns);
    MT_CHECK(yields_when_idle() == wanted, "%s when idle against mpi_yield_when_idle",
             wanted ? "does not yield" : "yields");
    mt_finish("%s when idle, as it is to", wanted ? "yields" : "does not yield");
    return 0;
}
