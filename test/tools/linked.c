/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that mpi_time.c is linked into: two ranks, each of which sends and receives three
 * times. Prints how many calls were counted, a line "linked: rank=R calls=N".
 */
#include <mpi.h>
#include <stdio.h>

#include "benchmarks/mpi_time.h"

int main(int argc, char **argv)
{
    char out = 0, in;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 3; i++) {
        MPI_Request request;
        MPI_Irecv(&in, 1, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &request);
        MPI_Send(&out, 1, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    printf("linked: rank=%d calls=%d\n", rank, (int)mpi_time_calls());
    MPI_Finalize();
    return 0;
}
