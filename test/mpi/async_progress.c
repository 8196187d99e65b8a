/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages arrive though neither side calls MPI: each rank starts an exchange with its neighbour
 * and then only looks at its own receive buffer. For transports with a progress thread. --threads:
 * asks for MPI_THREAD_MULTIPLE.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

#define PATIENCE_S 20.0
#define ROUNDS     5

/* Who takes a few of them in each sleep of milliseconds has not all of them by then. */
#define BACKLOG            50000
#define BACKLOG_PATIENCE_S 2.0 /* for each rank: they may share cores */

/* Transfers that are under way when the rank comes back, to the core on which the helper runs where
 * each rank has one. */
#define RETURNS      200
#define RETURN_BYTES 4194304
#define AWAY_NS      400000
/* Progress calls for each: the helper ends what it does. In a time slice of 4 ms are 150000. */
#define YIELDS_MOST 200

static const size_t sizes[] = {1, 1000, 40000, 300000, 4194304};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

/* Without MPI: another thread writes the buffer, if any does. */
static bool arrives(const unsigned char *buf, const unsigned char *expected, size_t size,
                    double patience_s)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    double end = mt_host_clock_s() + patience_s;

    while (memcmp(buf, expected, size)) {
        if (mt_host_clock_s() > end)
            return false;
        nanosleep(&pause, NULL);
        __asm__ volatile("" ::: "memory");
    }
    return true;
}

static void exchange(int peer, size_t size, int round)
{
    struct mt_key key_in = {peer, mt.rank, round, size}, key_out = {mt.rank, peer, round, size};
    unsigned char *out = mt_alloc(size), *expected = mt_alloc(size);
    MPI_Request requests[2];
    struct mt_buf in;

    mt_buf_init(&in, size);
    mt_buf_arm(&in, size, 0);
    mt_fill(out, size, key_out);
    mt_fill(expected, size, key_in);
    mt_phase("exchange of %zu B with rank %d, round %d", size, peer, round);
    MPI_Irecv(in.data, mt_count(size), MPI_BYTE, peer, round, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, mt_count(size), MPI_BYTE, peer, round, MPI_COMM_WORLD, &requests[1]);
    MT_CHECK(arrives(in.data, expected, size, PATIENCE_S),
             "nothing came in %.0f s without MPI calls", PATIENCE_S);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    mt_buf_verify(&in, key_in, "exchange");
    mt_buf_fini(&in);
    free(expected);
    free(out);
}

/* Many small messages at once: they share datagrams, so all are there long before all have been
 * handed on. */
static void exchange_many(int peer)
{
    MPI_Request *requests = mt_alloc(2 * BACKLOG * sizeof(*requests));
    uint64_t *in = mt_alloc(BACKLOG * sizeof(*in)), *out = mt_alloc(BACKLOG * sizeof(*out));
    const uint64_t last = BACKLOG;
    const double patience_s = BACKLOG_PATIENCE_S * mt.size;

    mt_phase("%d messages with rank %d", BACKLOG, peer);
    for (int i = 0; i < BACKLOG; i++) {
        in[i] = 0;
        out[i] = (uint64_t)i + 1;
        MPI_Irecv(&in[i], 1, MPI_UINT64_T, peer, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, 1, NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < BACKLOG; i++)
        MPI_Isend(&out[i], 1, MPI_UINT64_T, peer, 0, MPI_COMM_WORLD, &requests[BACKLOG + i]);
    MT_CHECK(arrives((const unsigned char *)&in[BACKLOG - 1], (const unsigned char *)&last,
                     sizeof(last), patience_s),
             "the last of %d messages did not come in %.0f s without MPI calls", BACKLOG,
             patience_s);
    MPI_Waitall(2 * BACKLOG, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < BACKLOG; i++)
        MT_CHECK(in[i] == out[i], "message %d is %llu", i, (unsigned long long)in[i]);
    free(out);
    free(in);
    free(requests);
}

/* Who comes back while the helper runs the RNIC lets it end. */
static void come_back(int peer)
{
    const struct timespec away = {.tv_nsec = AWAY_NS};
    const int returns = mt.quick ? RETURNS / 4 : RETURNS;
    unsigned char *buf = mt_alloc(RETURN_BYTES);
    struct mt_pvar_set set;
    uint64_t yields;

    mt_phase("%d returns during transfers with rank %d", returns, peer);
    mt_pvar_set_init(&set, "btl_diwarp_helper_yields");
    yields = mt_pvar_value(&set, "btl_diwarp_helper_yields");
    for (int i = 0; i < returns; i++) {
        MPI_Request request;

        if (mt.rank < peer)
            MPI_Isend(buf, RETURN_BYTES, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request);
        else
            MPI_Irecv(buf, RETURN_BYTES, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request);
        nanosleep(&away, NULL);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    yields = mt_pvar_value(&set, "btl_diwarp_helper_yields") - yields;
    mt_pvar_set_fini(&set);
    MT_CHECK(yields <= (uint64_t)returns * YIELDS_MOST,
             "%llu yields in %d returns: the helper was kept off its core",
             (unsigned long long)yields, returns);
    free(buf);
}

int main(int argc, char **argv)
{
    const bool threads = argc > 1 && 0 == strcmp(argv[argc - 1], "--threads");

    mt_start(argc - threads, argv, "async_progress",
             threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    mt_tool_init();
    for (int round = 0; round < (mt.quick ? 1 : ROUNDS); round++) {
        int peer = mt.rank ^ 1;

        MPI_Barrier(MPI_COMM_WORLD);
        for (size_t i = 0; i < SIZE_COUNT && peer < mt.size; i++)
            exchange(peer, sizes[i], round);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if ((mt.rank ^ 1) < mt.size) {
        exchange_many(mt.rank ^ 1);
        come_back(mt.rank ^ 1);
    }
    mt_phase("last barrier");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_T_finalize();
    mt_finish("messages up to %zu B, no MPI calls meanwhile", sizes[SIZE_COUNT - 1]);
    return 0;
}
