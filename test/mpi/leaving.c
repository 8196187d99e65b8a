/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways to leave a job, run by test/net/faults. slow: all ranks but the last, which computes for
 * some seconds first, are in MPI_Finalize. abort: the last rank calls MPI_Abort while the others
 * wait for its message.
 */
#include "test/mpi/mpi_test.h"

#define SLOW_SECONDS 4
#define ABORT_STATUS 42

int main(int argc, char **argv)
{
    const bool aborts = argc > 1 && !strcmp(argv[1], "abort");
    char *no_options[] = {argv[0], NULL};
    int data = 0;

    mt_start(1, no_options, "leaving", MPI_THREAD_SINGLE);
    const int last = mt.size - 1;
    mt_phase(aborts ? "abort" : "slow");
    /* All have spoken with the last one. */
    MPI_Bcast(&data, 1, MPI_INT, last, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (aborts && mt.rank == last) {
        mt_sleep_ms(500);
        MPI_Abort(MPI_COMM_WORLD, ABORT_STATUS);
    } else if (aborts) {
        MPI_Recv(&data, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (mt.rank == last) {
        /* What it is sent last arrives while it computes, and is taken after that. */
        mt_sleep_ms(SLOW_SECONDS * 1000L);
        for (int i = 0; i < last; i++)
            MPI_Recv(&data, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&data, 1, MPI_INT, last, 2, MPI_COMM_WORLD);
    }
    mt_finish("%d s", SLOW_SECONDS);
    return 0;
}
