/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that is not of the job wants a rank's core: the rank, which waits for a message, leaves
 * it to that one, by sleeping, instead of polling in vain until it is taken away. Not so where the
 * user wants no sleeps: OMPI_MCA_btl_diwarp_blocking=off.
 */
#define _GNU_SOURCE /* sched_getcpu, RUSAGE_THREAD */
#include "test/mpi/mpi_test.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define WAIT_MS 1000
/* Each lasts a millisecond, and then others may have the core for many more. */
#define SLEEPS_LEAST 20

static void stay_here(void)
{
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    MT_CHECK(!sched_setaffinity(0, sizeof(here), &here), "sched_setaffinity");
}

/* Until it is killed, as it is with the rank. */
static pid_t start_stranger(void)
{
    const pid_t pid = fork();

    MT_CHECK(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile unsigned long n = 0;; n++)
            ;
    }
    return pid;
}

static long sleeps(void)
{
    struct rusage usage;

    MT_CHECK(!getrusage(RUSAGE_THREAD, &usage), "getrusage");
    return usage.ru_nvcsw;
}

int main(int argc, char **argv)
{
    const char *blocking = getenv("OMPI_MCA_btl_diwarp_blocking");
    const bool off = blocking && !strcmp(blocking, "off");
    long slept = 0;
    int token = 0;

    mt_start(argc, argv, "busy_core", MPI_THREAD_SINGLE);
    mt_phase("waiting beside a busy process");
    MPI_Barrier(MPI_COMM_WORLD);
    if (mt.rank == 0) {
        pid_t stranger;

        stay_here();
        stranger = start_stranger();
        slept = sleeps();
        MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        slept = sleeps() - slept;
        kill(stranger, SIGKILL);
        waitpid(stranger, NULL, 0);
        MT_CHECK((slept >= SLEEPS_LEAST) != off, "slept %ld times in %d ms", slept, WAIT_MS);
    } else if (mt.rank == 1) {
        mt_sleep_ms(WAIT_MS);
        MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    mt_finish("slept %ld times", slept);
    return 0;
}
