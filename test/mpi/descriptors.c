/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptors RANK FILE: without file descriptors in RANK, 0 or 1, rank 0 sends rank 1 its first
 * message. Rank 1 gives its own back after two seconds, and the message must arrive then, not
 * before. FILE, empty at first, holds a byte when they are used up, two when rank 0 sends.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 256 };

#define HELD_S 2.0
#define WAIT_S 30.0

static int file, held[MOST], count;

static void use_up(void)
{
    const struct rlimit limit = {.rlim_cur = MOST, .rlim_max = MOST};

    if (setrlimit(RLIMIT_NOFILE, &limit))
        return;
    while (count < MOST && (held[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
}

static void say(void)
{
    if (write(file, "x", 1) != 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void wait_for(off_t bytes)
{
    const double until = MPI_Wtime() + WAIT_S;
    struct stat is;

    while (!fstat(file, &is) && is.st_size < bytes && MPI_Wtime() < until)
        usleep(1000);
}

int main(int argc, char **argv)
{
    int rank, arrived = 0, word = 7;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3 || (file = open(argv[2], O_WRONLY | O_APPEND)) < 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == atoi(argv[1])) {
        use_up();
        say();
    }
    if (rank == 0) {
        wait_for(1);
        say();
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        wait_for(2);
        const double until = MPI_Wtime() + HELD_S;
        while (MPI_Wtime() < until)
            MPI_Iprobe(0, 0, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
        while (count > 0)
            close(held[--count]);
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("%s\n", arrived ? "arrived at once" : "arrived in the end");
    }
    MPI_Finalize();
    return arrived;
}
