/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An access that the target refuses: rank 0 attaches memory to a dynamic window while rank 1 reads
 * from another place of it, until Open MPI's osc/rdma, whose list of what is attached moves under
 * it, takes the wrong place's registration. The reader must be told, since MPI_Get itself succeeds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 4096, ATTEMPTS = 200000 };

static void attach_and_detach(MPI_Win win, char *low)
{
    int over = 0;

    while (!over) {
        MPI_Win_attach(win, low, PAGE);
        MPI_Win_detach(win, low);
        MPI_Iprobe(1, 0, MPI_COMM_WORLD, &over, MPI_STATUS_IGNORE);
    }
    MPI_Recv(NULL, 0, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void read_until_refused(MPI_Win win, MPI_Aint place)
{
    long value = 1;

    for (int i = 0; i < ATTEMPTS && value == 1; i++) {
        value = 0;
        MPI_Get(&value, 1, MPI_LONG, 0, place, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
    }
    if (value == 1)
        printf("never refused\n");
    MPI_Send(NULL, 0, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Aint place;
    MPI_Win win;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *memory = aligned_alloc(PAGE, 8 * PAGE);
    long *high = (long *)(memory + 4 * PAGE);
    *high = 1;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, high, PAGE);
    MPI_Get_address(high, &place);
    MPI_Bcast(&place, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    if (rank == 0)
        attach_and_detach(win, memory);
    else
        read_until_refused(win, place);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(win, high);
    MPI_Win_free(&win);
    free(memory);
    MPI_Finalize();
    return 0;
}
