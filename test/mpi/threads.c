/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE: several threads per rank send and receive at once, each with tags of its
 * own, eager and rendezvous mixed; then all increment counters through one window.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"
#include <pthread.h>

#define THREADS   4
#define IN_FLIGHT 6
#define LARGEST   1048576

static const size_t sizes[] = {8,     70000, 0,    1472,  300000, 64,     32712,
                               40000, 4096,  1000, 65536, 16,     LARGEST};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

static int rounds, increments;
static MPI_Win counter_win;

struct worker {
    pthread_t thread;
    int index;
    struct mt_buf out[IN_FLIGHT], in[IN_FLIGHT];
};

/* ---- messages ----------------------------------------------------------------------------- */

static size_t size_of(const struct worker *w, int round, int slot)
{
    return sizes[(size_t)(w->index * 3 + round * IN_FLIGHT + slot) % SIZE_COUNT];
}

/* One round: this thread and its twins on the neighbours, `step` ranks away. */
static void exchange_round(struct worker *w, int round)
{
    int step = 1 + round % (mt.size - 1);
    int dst = (mt.rank + step) % mt.size, src = (mt.rank - step + mt.size) % mt.size;
    MPI_Request requests[2 * IN_FLIGHT];
    MPI_Status statuses[2 * IN_FLIGHT];

    for (int i = 0; i < IN_FLIGHT; i++) {
        size_t size = size_of(w, round, i);
        int tag = w->index * 100 + i;

        mt_buf_arm(&w->out[i], size, 0);
        mt_buf_arm(&w->in[i], size, (size_t)i);
        mt_fill(w->out[i].data, size, (struct mt_key){mt.rank, dst, tag, (uint64_t)round});
        MPI_Isend(w->out[i].data, mt_count(size), MPI_BYTE, dst, tag, MPI_COMM_WORLD,
                  &requests[IN_FLIGHT + i]);
        MPI_Irecv(w->in[i].data, mt_count(size), MPI_BYTE, src, tag, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(2 * IN_FLIGHT, requests, statuses);
    for (int i = 0; i < IN_FLIGHT; i++) {
        size_t size = size_of(w, round, i);
        int tag = w->index * 100 + i;

        mt_check_status(&statuses[i], src, tag, size, "thread");
        mt_buf_verify(&w->in[i], (struct mt_key){src, mt.rank, tag, (uint64_t)round}, "thread");
    }
}

static void *exchange_all(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < IN_FLIGHT; i++) {
        mt_buf_init(&w->out[i], LARGEST);
        mt_buf_init(&w->in[i], LARGEST);
    }
    for (int round = 0; round < rounds; round++)
        exchange_round(w, round);
    for (int i = 0; i < IN_FLIGHT; i++) {
        mt_buf_fini(&w->out[i]);
        mt_buf_fini(&w->in[i]);
    }
    return NULL;
}

/* Blocking ping-pong: even ranks begin; each thread with its twin only. */
static void *ping_pong(void *arg)
{
    struct worker *w = arg;
    int peer = mt.rank ^ 1, tag = 1000 + w->index;
    unsigned char *out = mt_alloc(LARGEST), *in = mt_alloc(LARGEST);

    for (int round = 0; peer < mt.size && round < rounds * 4; round++) {
        size_t size = size_of(w, round, 0);
        int n = mt_count(size);

        mt_fill(out, size, (struct mt_key){mt.rank, peer, tag, (uint64_t)round});
        if (mt.rank % 2 == 0)
            MPI_Send(out, n, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
        MPI_Recv(in, n, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (mt.rank % 2 == 1)
            MPI_Send(out, n, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
        mt_verify(in, size, (struct mt_key){peer, mt.rank, tag, (uint64_t)round}, "ping-pong");
    }
    free(out);
    free(in);
    return NULL;
}

/* ---- one-sided ---------------------------------------------------------------------------- */

static void *increment(void *arg)
{
    struct worker *w = arg;
    uint64_t one = 1, got;

    for (int i = 0; i < increments; i++) {
        int target = (mt.rank + w->index + i) % mt.size;

        MPI_Fetch_and_op(&one, &got, MPI_UINT64_T, target, 0, MPI_SUM, counter_win);
        MPI_Win_flush(target, counter_win);
    }
    return NULL;
}

static void run(struct worker *workers, void *(*body)(void *), const char *what)
{
    mt_phase("%d threads, %s", THREADS, what);
    for (int i = 0; i < THREADS; i++) {
        workers[i].index = i;
        MT_CHECK(!pthread_create(&workers[i].thread, NULL, body, &workers[i]), "pthread_create");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void test_onesided(struct worker *workers)
{
    uint64_t *cell, mine, total = 0;
    uint64_t expected = (uint64_t)increments * THREADS * (uint64_t)mt.size;

    mt_phase("window");
    cell = mt_alloc(sizeof(*cell));
    *cell = 0;
    MPI_Win_create(cell, sizeof(*cell), sizeof(*cell), MPI_INFO_NULL, MPI_COMM_WORLD, &counter_win);
    MPI_Win_lock_all(0, counter_win);
    run(workers, increment, "increments");
    MPI_Win_unlock_all(counter_win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, mt.rank, 0, counter_win);
    mine = *cell;
    MPI_Win_unlock(mt.rank, counter_win);
    MPI_Allreduce(&mine, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_free(&counter_win);
    free(cell);
    MT_CHECK(total == expected, "%llu increments arrived of %llu", (unsigned long long)total,
             (unsigned long long)expected);
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS];

    mt_start(argc, argv, "threads", MPI_THREAD_MULTIPLE);
    MT_CHECK(mt.thread_level == MPI_THREAD_MULTIPLE, "thread level %d only", mt.thread_level);
    rounds = mt_scaled(40, 4);
    increments = mt_scaled(100, 10);
    run(workers, exchange_all, "exchange");
    run(workers, ping_pong, "ping-pong");
    if (!mt.no_onesided)
        test_onesided(workers);
    mt_finish("%d threads per rank, %d rounds%s", THREADS, rounds,
              mt.no_onesided ? "" : ", one-sided");
    return 0;
}
