/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that wait on cores which a few share have the time slice of btl_diwarp_slice_us, others the
 * one they had, and after MPI_Finalize all do.
 */
#define _GNU_SOURCE /* syscall */
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

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

/* Of this thread; 0: the kernel has none (before 6.12), or lets nobody change it. */
static uint64_t slice_us(void)
{
    struct thread_attr attr = {.size = sizeof(attr)};

    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0 ||
        syscall(SYS_sched_setattr, 0, &attr, 0) != 0)
        return 0;
    return attr.runtime_ns / 1000;
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
    const uint64_t before_us = slice_us();
    uint64_t asked_us, wanted_us = before_us;

    mt_start(argc, argv, "slices", MPI_THREAD_SINGLE);
    mt_tool_init();
    asked_us = mt_cvar_number("btl_diwarp_slice_us");
    MPI_T_finalize();
    if (before_us == 0) {
        mt_finish("NOT TESTED: this kernel has no time slices to ask for");
        return 0;
    }
    mt_phase("waiting");
    wait_for_each_other();
    if (mt.cores_shared && asked_us > 0 && asked_us < before_us)
        wanted_us = asked_us;
    MT_CHECK(slice_us() == wanted_us, "a slice of %llu us, not %llu; before MPI_Init %llu",
             (unsigned long long)slice_us(), (unsigned long long)wanted_us,
             (unsigned long long)before_us);
    mt_finish("%llu us, before MPI_Init %llu", (unsigned long long)wanted_us,
              (unsigned long long)before_us);
    if (slice_us() != before_us) {
        fprintf(stderr, "FAIL slices: %llu us after MPI_Finalize\n",
                (unsigned long long)slice_us());
        return 1;
    }
    return 0;
}
