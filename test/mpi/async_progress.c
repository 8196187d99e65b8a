/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages arrive though neither side calls MPI: each rank starts an exchange with its neighbour
 * and then only looks at its own receive buffer. For transports with a progress thread.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define PATIENCE_S 20.0
#define ROUNDS     5

static const size_t sizes[] = {1, 1000, 40000, 300000, 4194304};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Without MPI: another thread writes the buffer, if any does. */
static bool arrives(const unsigned char *buf, const unsigned char *expected, size_t size)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    double end = seconds() + PATIENCE_S;

    while (memcmp(buf, expected, size)) {
        if (seconds() > end)
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
    MT_CHECK(arrives(in.data, expected, size), "nothing came in %.0f s without MPI calls",
             PATIENCE_S);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    mt_buf_verify(&in, key_in, "exchange");
    mt_buf_fini(&in);
    free(expected);
    free(out);
}

int main(int argc, char **argv)
{
    mt_start(argc, argv, "async_progress", MPI_THREAD_SINGLE);
    for (int round = 0; round < (mt.quick ? 1 : ROUNDS); round++) {
        int peer = mt.rank ^ 1;

        MPI_Barrier(MPI_COMM_WORLD);
        for (size_t i = 0; i < SIZE_COUNT && peer < mt.size; i++)
            exchange(peer, sizes[i], round);
    }
    mt_phase("last barrier");
    MPI_Barrier(MPI_COMM_WORLD);
    mt_finish("messages up to %zu B, no MPI calls meanwhile", sizes[SIZE_COUNT - 1]);
    return 0;
}
