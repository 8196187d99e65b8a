/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_check [ROUNDS [BYTES [FILE]]]: moves checked data between every pair of ranks: first a short
 * and a long message, which tells how soon all have met; single messages of each size class in both
 * directions at once, then ROUNDS (8) of bursts of small messages with large ones in between, so
 * that eager and rendezvous traffic share the way, and more of them as long as FILE is there; none
 * of all these when ROUNDS is 0. At last one message of BYTES from the first rank to the last. The
 * exit status is 0 when all was right.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LARGEST (4 << 20)
#define BURST   64
/* Several datagrams of any MTU. */
#define MEETING_BYTES (256 << 10)

static int rank, ranks;
static uint64_t errors, moved_bytes;

/* The byte at an offset of a message: any byte out of place, of another message or of another
 * sender shows. */
static uint8_t pattern(int source, int tag, int offset)
{
    uint32_t x = (uint32_t)source * 0x9E3779B1u + (uint32_t)tag * 0x85EBCA77u + (uint32_t)offset;
    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    return (uint8_t)(x >> 24);
}

static void fill(uint8_t *buf, int tag, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf[i] = pattern(rank, tag, i);
}

static void check(const uint8_t *buf, int source, int tag, int bytes, const MPI_Status *status)
{
    int count, wrong = 0, first = -1;

    MPI_Get_count(status, MPI_BYTE, &count);
    for (int i = 0; i < bytes && i < count; i++) {
        if (buf[i] == pattern(source, tag, i))
            continue;
        first = wrong++ ? first : i;
    }
    moved_bytes += (uint64_t)bytes;
    if (count == bytes && !wrong)
        return;
    if (errors++ < 10)
        fprintf(stderr,
                "net_check: rank %d from %d tag %d: %d bytes of %d, %d wrong, the first at %d\n",
                rank, source, tag, count, bytes, wrong, first);
}

static uint8_t *allocate(size_t bytes)
{
    uint8_t *p = malloc(bytes ? bytes : 1);
    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

static void exchange(int peer, int tag, int bytes, uint8_t *tx, uint8_t *rx)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];

    fill(tx, tag, bytes);
    MPI_Irecv(rx, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(tx, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    check(rx, peer, tag, bytes, &statuses[0]);
}

static void exchange_sizes(int peer)
{
    uint8_t *tx = allocate(LARGEST + 1), *rx = allocate(LARGEST + 1);
    int tag = 0;

    exchange(peer, tag++, 0, tx, rx);
    for (int bytes = 1; bytes <= LARGEST; bytes *= 2) {
        exchange(peer, tag++, bytes - 1, tx, rx);
        exchange(peer, tag++, bytes, tx, rx);
        exchange(peer, tag++, bytes + 1, tx, rx);
    }
    free(rx);
    free(tx);
}

static int burst_bytes(int i)
{
    return i % 16 == 15 ? 300000 + 1000 * i : 8 + 37 * i;
}

static void exchange_burst(int peer, int round)
{
    MPI_Request requests[2 * BURST];
    MPI_Status statuses[2 * BURST];
    uint8_t *tx[BURST], *rx[BURST];
    int tag = 1000 * (round + 1);

    for (int i = 0; i < BURST; i++) {
        rx[i] = allocate((size_t)burst_bytes(i));
        MPI_Irecv(rx[i], burst_bytes(i), MPI_BYTE, peer, tag + i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < BURST; i++) {
        tx[i] = allocate((size_t)burst_bytes(i));
        fill(tx[i], tag + i, burst_bytes(i));
        MPI_Isend(tx[i], burst_bytes(i), MPI_BYTE, peer, tag + i, MPI_COMM_WORLD,
                  &requests[BURST + i]);
    }
    MPI_Waitall(2 * BURST, requests, statuses);
    for (int i = 0; i < BURST; i++) {
        check(rx[i], peer, tag + i, burst_bytes(i), &statuses[i]);
        free(rx[i]);
        free(tx[i]);
    }
}

/* In each step every rank talks to one other: ranks whose sum is the step's number, so that both
 * sides agree. */
static void meet_all(void (*talk)(int peer, int round), int round)
{
    for (int step = 0; step < ranks; step++) {
        int peer = (step - rank + ranks) % ranks;
        if (peer != rank)
            talk(peer, round);
    }
}

static void talk_sizes(int peer, int round)
{
    (void)round;
    exchange_sizes(peer);
}

static void talk_first(int peer, int round)
{
    uint8_t *tx = allocate(MEETING_BYTES), *rx = allocate(MEETING_BYTES);

    (void)round;
    exchange(peer, 0, 8, tx, rx);
    exchange(peer, 1, MEETING_BYTES, tx, rx);
    free(rx);
    free(tx);
}

/* What is printed tells at once how far the job has come. */
static void meet(double begin)
{
    double met, last_met;

    if (rank == 0) {
        printf("net_check: begins\n");
        fflush(stdout);
    }
    meet_all(talk_first, 0);
    met = MPI_Wtime() - begin;
    MPI_Reduce(&met, &last_met, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("net_check: all have met after %.2f s\n", last_met);
        fflush(stdout);
    }
}

static void transfer(int bytes)
{
    uint8_t *buf;
    MPI_Status status;

    if (bytes == 0 || (rank > 0 && rank < ranks - 1))
        return;
    buf = allocate((size_t)bytes);
    if (rank == 0) {
        fill(buf, 0, bytes);
        MPI_Send(buf, bytes, MPI_BYTE, ranks - 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(buf, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &status);
        check(buf, 0, 0, bytes, &status);
    }
    free(buf);
}

/* The first rank sees for all. */
static int is_there(const char *file)
{
    int there = 0;

    if (!file)
        return 0;
    if (rank == 0)
        there = access(file, F_OK) == 0;
    MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return there;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 8;
    int bytes = argc > 2 ? atoi(argv[2]) : 0;
    const char *file = argc > 3 ? argv[3] : NULL;
    uint64_t sum[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double begin = MPI_Wtime();
    meet(begin);
    if (rounds > 0)
        meet_all(talk_sizes, 0);
    for (int round = 0; round < rounds || is_there(file); round++)
        meet_all(exchange_burst, round);
    transfer(bytes);
    MPI_Allreduce((uint64_t[2]){errors, moved_bytes}, sum, 2, MPI_UINT64_T, MPI_SUM,
                  MPI_COMM_WORLD);
    if (rank == 0)
        printf("net_check: ranks=%d errors=%llu moved_mib=%.1f seconds=%.2f\n", ranks,
               (unsigned long long)sum[0], (double)sum[1] / 1048576, MPI_Wtime() - begin);
    MPI_Finalize();
    return sum[0] ? 1 : 0;
}
