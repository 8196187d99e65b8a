/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tool of the usual kind to be preloaded: stands in for MPI_ names only and calls the PMPI_ ones.
 * Prints what it has seen, a line "other_tool: rank=R sends=N".
 */
#include <mpi.h>
#include <stdio.h>

static int sends;

int MPI_Send(const void *buffer, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buffer, n, type, to, tag, comm);
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("other_tool: rank=%d sends=%d\n", rank, sends);
    return PMPI_Finalize();
}
