/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks with children, amid traffic: children that exit, at once or through exit(), that exec, that
 * a shell starts, and one that lives on with copies of all descriptors while its parent goes on.
 * A child must not disturb: what its parent sends and receives is right, and the parent ends.
 */
#include <sys/wait.h>

#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define ROUNDS_LEAST 20
#define BYTES_MAX    300000
/* Of the child that stays: long enough for what its parent's death would change, short enough to
 * end with the job. */
#define CHILD_SECONDS 2

static void exchange(int round)
{
    static const size_t sizes[] = {16, 4000, BYTES_MAX};
    static unsigned char out[BYTES_MAX];
    const size_t bytes = sizes[round % 3];
    const int to = (mt.rank + 1) % mt.size, from = (mt.rank + mt.size - 1) % mt.size;
    struct mt_buf in;

    mt_buf_init(&in, bytes);
    mt_buf_arm(&in, bytes, 0);
    mt_fill(out, bytes, (struct mt_key){mt.rank, to, 0, (uint64_t)round});
    MPI_Sendrecv(out, mt_count(bytes), MPI_BYTE, to, 0, in.data, mt_count(bytes), MPI_BYTE, from, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mt_buf_verify(&in, (struct mt_key){from, mt.rank, 0, (uint64_t)round}, "beside a child");
    mt_buf_fini(&in);
}

static void leave_at_once(void)
{
    _exit(7);
}

/* As a child does that was not written with MPI in mind: what is registered with atexit() runs. */
static void leave_in_order(void)
{
    exit(7);
}

static void become_another(void)
{
    execlp("sh", "sh", "-c", "exit 7", (char *)NULL);
    _exit(1);
}

static pid_t start(void (*child)(void))
{
    fflush(stdout);
    const pid_t pid = fork();

    MT_CHECK(pid >= 0, "fork");
    if (pid == 0)
        child();
    return pid;
}

static void stay(void)
{
    alarm(0);
    mt_sleep_ms(CHILD_SECONDS * 1000L);
    _exit(7);
}

static void await_child(pid_t pid, const char *what)
{
    int status = 0;

    MT_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7,
             "%s: status %d", what, status);
}

/* A child of each kind, while both neighbours go on with messages; every second one is awaited only
 * after the next exchange. */
static void round_of_children(int round)
{
    static void (*const kinds[])(void) = {leave_at_once, leave_in_order, become_another};
    const pid_t pid = start(kinds[round / 2 % 3]);

    if (round % 2)
        exchange(round);
    await_child(pid, "child");
    if (round % 2 == 0)
        exchange(round);
    const int status = system("exit 7");
    MT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "system: status %d", status);
}

int main(int argc, char **argv)
{
    mt_start(argc, argv, "children", MPI_THREAD_SINGLE);
    const int rounds = mt_scaled(ROUNDS_LEAST * 3, ROUNDS_LEAST);
    mt_phase("children");
    exchange(0);
    const pid_t stays = start(stay);
    for (int i = 0; i < rounds; i++)
        round_of_children(i);
    MPI_Barrier(MPI_COMM_WORLD);
    await_child(stays, "child that stayed");
    exchange(0);
    /* Outlives MPI_Finalize, with all descriptors. */
    (void)start(stay);
    mt_finish("%d children of each rank", rounds);
    return 0;
}
