/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No file descriptors: those of the rank named on the command line are used up while rank 0 sends
 * it a first message, and given back a second later. The message arrives then, or the job has
 * ended.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST = 256, HELD_SECONDS = 1 };

static int held[MOST];

static int use_up(void)
{
    const struct rlimit limit = {.rlim_cur = MOST, .rlim_max = MOST};
    int count = 0;

    if (setrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    while (count < MOST && (held[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    return count;
}

int main(int argc, char **argv)
{
    int rank, arrived = 0, word = 7, count = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == (argc > 1 ? atoi(argv[1]) : 1))
        count = use_up();
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        double until = MPI_Wtime() + HELD_SECONDS;
        while (MPI_Wtime() < until)
            MPI_Iprobe(0, 0, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
        while (count > 0)
            close(held[--count]);
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("%s\n", arrived ? "arrived at once" : "arrived in the end");
    }
    MPI_Finalize();
    return 0;
}
