/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls over rc that fail.
 *
 * killed: rank 0's MPA request does not leave. Two calls cross, rank 0's wins, and after two
 * seconds it is killed. Rank 1, whose call was rejected, must hear of it.
 *
 * held, late: rank 0 has called when it was initialized, nothing waits for that call, and it takes
 * too long, for the request does not leave, or because rank 1 computes. That must not matter to
 * anybody: then both talk.
 *
 * given_up: two calls cross, rank 0's wins, and it finds that of rank 1 only later. Then rank 1
 * leaves, and rank 0 answers a call that nobody makes any more. That must not matter, either.
 */
#define _GNU_SOURCE /* accept4, syscall */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool holds, holds_accept;
static atomic_uint held;

static bool is_rank_0(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    return rank && !strcmp(rank, "0");
}

/* In place of libc's, for diwarp, too. */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *buf, size_t len, int flags)
{
    static const char request[] = "MPA ID Req Frame";

    if (holds && len >= sizeof request - 1 && !memcmp(buf, request, sizeof request - 1)) {
        held++;
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
}

__attribute__((visibility("default"))) int accept4(int fd, struct sockaddr *restrict from,
                                                   socklen_t *restrict len, int flags)
{
    if (holds_accept) {
        held++;
        errno = EAGAIN;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, from, len, flags);
}

static void die(int number)
{
    (void)number;
    raise(SIGKILL);
}

/* One rank calls later than the other, and has not heard of its call. */
static void cross(int rank, bool killed)
{
    enum { LATER_US = 500000, LIFE_SECONDS = 2 };
    const int later = killed ? 1 : 0;

    if (rank == later)
        usleep(LATER_US);
    if (rank == 0 && killed) {
        signal(SIGALRM, die);
        alarm(LIFE_SECONDS);
    }
}

/* Inside MPI, so that the end of a call is noticed. Away from it between, when the helper thread
 * may run the RNIC: one event changes what the next, which is queued already, tells of. */
static void poll_for(double seconds)
{
    enum { PAUSE_US = 50000 };
    const double begin = MPI_Wtime();
    int flag;

    while (MPI_Wtime() - begin < seconds) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(PAUSE_US);
    }
}

/* late: the request leaves when rank 1 does not look any more, which finds it when its caller has
 * given up. */
static void let_the_call_fail(int rank, bool late)
{
    enum { TOO_LONG_SECONDS = 4 };

    if (late && rank == 1)
        sleep(TOO_LONG_SECONDS);
    else
        poll_for(late ? 1 : TOO_LONG_SECONDS);
    if (holds && !held)
        MPI_Abort(MPI_COMM_WORLD, 1);
    holds = false;
    poll_for(late && rank == 0 ? TOO_LONG_SECONDS : 1);
}

/* Rank 1 leaves when rank 0 has found its call. */
static void be_left(int rank)
{
    enum { FIND_SECONDS = 1, STAY_SECONDS = 3 };

    if (rank == 1) {
        sleep(FIND_SECONDS);
        return;
    }
    if (!held)
        MPI_Abort(MPI_COMM_WORLD, 1);
    holds_accept = false;
    poll_for(STAY_SECONDS);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    const bool killed = !strcmp(how, "killed"), late = !strcmp(how, "late");
    const bool given_up = !strcmp(how, "given_up");
    int rank, sent = 1, received = 0;

    holds = is_rank_0() && !given_up;
    holds_accept = is_rank_0() && given_up;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (killed || given_up)
        cross(rank, killed);
    else
        let_the_call_fail(rank, late);
    MPI_Sendrecv(&sent, 1, MPI_INT, 1 - rank, 0, &received, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (given_up)
        be_left(rank);
    if (received == sent && rank == 0)
        printf("PASS failing_call\n");
    MPI_Finalize();
    return 0;
}
