/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that does not look holds up nobody but itself: rank 0 posts more sends to rank 1 than any
 * queue takes, then plays ping-pong with rank 2. Rank 1 sleeps until it is told that this is over.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define SENDS       20000
#define ROUNDS      100
#define ROUND_BYTES 1024
#define SLEEP_MAX_S 20
/* Of what arrives, so much is looked at. */
#define VERIFY_EVERY 50

enum { TAG_FLOOD, TAG_PID, TAG_ROUND };

static struct mt_key key_of(int src, int dst, size_t bytes)
{
    return (struct mt_key){src, dst, TAG_FLOOD, bytes};
}

static void flood(size_t bytes, int sends)
{
    unsigned char *data = mt_alloc(bytes), round[ROUND_BYTES] = {0};
    MPI_Request *requests = mt_alloc(sizeof(*requests) * (size_t)sends);
    long pid;

    MPI_Recv(&pid, 1, MPI_LONG, 1, TAG_PID, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mt_fill(data, bytes, key_of(0, 1, bytes));
    mt_phase("%d sends of %zu bytes to rank 1, which sleeps", sends, bytes);
    for (int i = 0; i < sends; i++)
        MPI_Isend(data, mt_count(bytes), MPI_BYTE, 1, TAG_FLOOD, MPI_COMM_WORLD, &requests[i]);
    mt_phase("ping-pong with rank 2, rank 1 has been sent %zu bytes each", bytes);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Send(round, ROUND_BYTES, MPI_BYTE, 2, TAG_ROUND, MPI_COMM_WORLD);
        MPI_Recv(round, ROUND_BYTES, MPI_BYTE, 2, TAG_ROUND, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    mt_phase("waking rank 1");
    MT_CHECK(0 == kill((pid_t)pid, SIGUSR1), "rank 1 cannot be woken");
    MPI_Waitall(sends, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(data);
}

static void sleep_and_receive(const sigset_t *wake, size_t bytes, int sends)
{
    const struct timespec longest = {.tv_sec = SLEEP_MAX_S};
    unsigned char *data = mt_alloc(bytes);
    long pid = (long)getpid();

    MPI_Send(&pid, 1, MPI_LONG, 0, TAG_PID, MPI_COMM_WORLD);
    mt_phase("asleep");
    MT_CHECK(SIGUSR1 == sigtimedwait(wake, NULL, &longest),
             "rank 0 was kept from rank 2 for %d s by what it had sent here", SLEEP_MAX_S);
    mt_phase("receiving %d messages of %zu bytes", sends, bytes);
    for (int i = 0; i < sends; i++) {
        MPI_Recv(data, mt_count(bytes), MPI_BYTE, 0, TAG_FLOOD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (0 == i % VERIFY_EVERY)
            mt_verify(data, bytes, key_of(0, 1, bytes), "after the sleep");
        memset(data, 0, bytes < 64 ? bytes : 64);
    }
    free(data);
}

static void play(void)
{
    unsigned char round[ROUND_BYTES];

    mt_phase("ping-pong with rank 0");
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Recv(round, ROUND_BYTES, MPI_BYTE, 0, TAG_ROUND, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(round, ROUND_BYTES, MPI_BYTE, 0, TAG_ROUND, MPI_COMM_WORLD);
    }
}

static void run(const sigset_t *wake, size_t bytes, int sends)
{
    mt_phase("at the start");
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == mt.rank)
        flood(bytes, sends);
    else if (1 == mt.rank)
        sleep_and_receive(wake, bytes, sends);
    else if (2 == mt.rank)
        play();
    mt_phase("at the end");
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    sigset_t wake;

    /* Of all threads that MPI makes, too: whichever got the signal would end the process. */
    sigemptyset(&wake);
    sigaddset(&wake, SIGUSR1);
    sigprocmask(SIG_BLOCK, &wake, NULL);
    mt_start(argc, argv, "busy_rank", MPI_THREAD_SINGLE);
    MT_CHECK(mt.size >= 3, "needs at least 3 ranks");
    run(&wake, 8, SENDS);
    run(&wake, 1024, SENDS);
    run(&wake, 100000, mt.quick ? SENDS / 2 : SENDS);
    mt_finish("%d rounds while another rank slept", ROUNDS);
    return 0;
}
