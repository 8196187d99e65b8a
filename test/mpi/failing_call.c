/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls over rc that fail, for rank 0's MPA request does not leave.
 *
 * Without an argument: two calls cross, rank 0's wins, and after two seconds it is killed. Rank 1,
 * whose call was rejected, must hear of it.
 *
 * With one: rank 0 called when it was initialized, and nothing waits for that call, which must not
 * matter to anybody. Its request leaves after four seconds, and then both talk.
 */
#define _GNU_SOURCE /* syscall */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool held = true;

static bool is_rank_0(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    return rank && !strcmp(rank, "0");
}

/* In place of libc's, for diwarp, too. */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *buf, size_t len, int flags)
{
    static const char request[] = "MPA ID Req Frame";

    if (held && len >= sizeof request - 1 && !memcmp(buf, request, sizeof request - 1) &&
        is_rank_0()) {
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

static void cross(int rank)
{
    enum { LATER_US = 500000, LIFE_SECONDS = 2 };

    if (rank == 0) {
        signal(SIGALRM, die);
        alarm(LIFE_SECONDS);
    } else {
        usleep(LATER_US);
    }
}

/* Inside MPI, so that the end of the call is noticed. */
static void let_the_call_fail(void)
{
    enum { SECONDS = 4 };
    const double begin = MPI_Wtime();
    int flag;

    while (MPI_Wtime() - begin < SECONDS)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    held = false;
}

int main(int argc, char **argv)
{
    int rank, sent = 1, received = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1)
        let_the_call_fail();
    else
        cross(rank);
    MPI_Sendrecv(&sent, 1, MPI_INT, 1 - rank, 0, &received, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (received == sent && rank == 0)
        printf("PASS failing_call\n");
    MPI_Finalize();
    return 0;
}
