/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Over rc, two calls that cross, and the one that wins fails: rank 0 calls first, its MPA request
 * never leaves, and after two seconds it is killed. Rank 1, whose call was rejected, must hear of
 * it.
 */
#define _GNU_SOURCE /* syscall */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
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

static void die(int number)
{
    (void)number;
    raise(SIGKILL);
}

int main(int argc, char **argv)
{
    enum { LATER_US = 500000, LIFE_SECONDS = 2 };
    int sent = 1, received;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        signal(SIGALRM, die);
        alarm(LIFE_SECONDS);
    } else {
        usleep(LATER_US);
    }
    MPI_Sendrecv(&sent, 1, MPI_INT, 1 - rank, 0, &received, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
