/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks; rank 0 lets rank 1 wait for as long as the argument says, in milliseconds: in a
 * receive, in a wait, in a barrier, each once. Both print what they spent in each by their own
 * clock, a line "blocked: rank=R pt2pt_seconds=S wait_seconds=S collective_seconds=S".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double pt2pt, wait, collective;
static char byte;

/* The call's time by this program's clock is added to `sum`. */
#define TIMED(sum, call)                        \
    do {                                        \
        const double timed_begin = MPI_Wtime(); \
        call;                                   \
        (sum) += MPI_Wtime() - timed_begin;     \
    } while (0)

static void sleeper(long ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    for (int tag = 1; tag <= 3; tag++) {
        TIMED(pt2pt, MPI_Recv(&byte, 1, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        nanosleep(&t, NULL);
        if (tag < 3)
            TIMED(pt2pt, MPI_Send(&byte, 1, MPI_BYTE, 1, tag, MPI_COMM_WORLD));
    }
}

static void waiter(void)
{
    MPI_Request request;
    TIMED(pt2pt, MPI_Send(&byte, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
    TIMED(pt2pt, MPI_Recv(&byte, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TIMED(pt2pt, MPI_Irecv(&byte, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request));
    TIMED(pt2pt, MPI_Send(&byte, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD));
    TIMED(wait, MPI_Wait(&request, MPI_STATUS_IGNORE));
    TIMED(pt2pt, MPI_Send(&byte, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        sleeper(argc > 1 ? strtol(argv[1], NULL, 10) : 200);
    else
        waiter();
    TIMED(collective, MPI_Barrier(MPI_COMM_WORLD));
    printf("blocked: rank=%d pt2pt_seconds=%.6f wait_seconds=%.6f collective_seconds=%.6f\n", rank,
           pt2pt, wait, collective);
    MPI_Finalize();
    return 0;
}
