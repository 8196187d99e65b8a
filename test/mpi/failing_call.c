/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Over rc, two calls that cross, and the one that wins fails: rank 0 calls first, but its MPA
 * request never leaves. Rank 1, which has called, too, must be answered then.
 */
#define _GNU_SOURCE /* syscall */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int rank = -1;

/* In place of libc's, for diwarp, too. */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *buf, size_t len, int flags)
{
    static const char request[] = "MPA ID Req Frame";

    if (rank == 0 && len >= sizeof request - 1 && !memcmp(buf, request, sizeof request - 1)) {
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
}

int main(int argc, char **argv)
{
    enum { LATER_US = 500000 };
    int sent, received = -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sent = rank;
    if (rank == 1)
        usleep(LATER_US);
    MPI_Sendrecv(&sent, 1, MPI_INT, 1 - rank, 0, &received, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (received != 1 - rank)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        puts("PASS failing_call");
    MPI_Finalize();
    return 0;
}
