/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application that calls MPI rarely: each rank has large messages under way to its neighbours
 * and, until all are there, calls MPI_Testall and sleeps for a millisecond in turns. Counts the
 * turns: what moves in one of them does not depend on how busy the machine is.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define MESSAGES      4
#define MESSAGE_BYTES (16u << 20)
#define WARM_UP       1 /* rounds: connections, windows */
#define ROUNDS        3

/* 512 KiB in each, both ways: most of what a receiver lets be under way, not what one look at a
 * socket brings. */
#define TURNS_MOST 128

/* Returns how many turns it took. */
static int exchange(unsigned char **in, unsigned char **out)
{
    const int next = (mt.rank + 1) % mt.size, previous = (mt.rank + mt.size - 1) % mt.size;
    const struct timespec pause = {.tv_nsec = 1000000};
    MPI_Request requests[2 * MESSAGES];
    int turns = 0, done = 0;

    for (int i = 0; i < MESSAGES; i++) {
        MPI_Irecv(in[i], MESSAGE_BYTES, MPI_BYTE, previous, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Isend(out[i], MESSAGE_BYTES, MPI_BYTE, next, i, MPI_COMM_WORLD,
                  &requests[MESSAGES + i]);
    }
    for (;; turns++) {
        MPI_Testall(2 * MESSAGES, requests, &done, MPI_STATUSES_IGNORE);
        if (done)
            return turns;
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv)
{
    unsigned char *in[MESSAGES], *out[MESSAGES];
    int fewest = INT_MAX, most;
    double best_s = 1e9;

    mt_start(argc, argv, "rare_polls", MPI_THREAD_SINGLE);
    for (int i = 0; i < MESSAGES; i++) {
        in[i] = mt_alloc(MESSAGE_BYTES);
        out[i] = mt_alloc(MESSAGE_BYTES);
        mt_fill(out[i], MESSAGE_BYTES, (struct mt_key){mt.rank, 0, i, MESSAGE_BYTES});
        memset(in[i], 0, MESSAGE_BYTES);
    }
    for (int round = 0; round < WARM_UP + ROUNDS; round++) {
        double began_s;
        int turns;

        mt_phase("round %d", round);
        MPI_Barrier(MPI_COMM_WORLD);
        began_s = mt_host_clock_s();
        turns = exchange(in, out);
        if (round >= WARM_UP && turns < fewest) {
            fewest = turns;
            best_s = mt_host_clock_s() - began_s;
        }
    }
    for (int i = 0; i < MESSAGES; i++) {
        const int previous = (mt.rank + mt.size - 1) % mt.size;

        mt_verify(in[i], MESSAGE_BYTES, (struct mt_key){previous, 0, i, MESSAGE_BYTES}, "received");
        free(in[i]);
        free(out[i]);
    }
    MPI_Allreduce(&fewest, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &best_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    /* What is injected as lost is asked for, and comes, in turns of its own. */
    MT_CHECK(most <= TURNS_MOST * (getenv("DIWARP_FAULTS") ? 2 : 1),
             "%d turns for %d messages of %u B, in %.3f s", most, MESSAGES, MESSAGE_BYTES, best_s);
    mt_finish("%d turns, %.3f s", most, best_s);
    return 0;
}
