/* SPDX-License-Identifier: BSD-3-Clause */
/* A receiver that vanishes: rank 1 stops for good, or, with an argument, is killed; rank 0 sends to
 * it and must be told. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    enum { BYTES = 1 << 20 };
    int rank;
    char *data = calloc(1, BYTES);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        raise(argc > 1 ? SIGKILL : SIGSTOP);
    else if (rank == 0)
        MPI_Send(data, BYTES, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    free(data);
    MPI_Finalize();
    return 0;
}
