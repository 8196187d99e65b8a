/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI numbers the messages between two ranks by 16 bits. Here pairs of ranks, i and i + n/2, send
 * so many short ones that the number begins anew again and again; they arrive in order, and all of
 * them, whatever the network loses.
 */
#include "test/mpi/mpi_test.h"

#define NUMBERS 65536

static void send_all(int to, int messages)
{
    for (int i = 0; i < messages; i++)
        MPI_Send(&i, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
}

static void receive_all(int from, int messages)
{
    int got = -1;

    for (int i = 0; i < messages; i++) {
        MPI_Recv(&got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MT_CHECK(got == i, "message %d comes as number %d", got, i);
    }
}

int main(int argc, char **argv)
{
    mt_start(argc, argv, "rollover", MPI_THREAD_SINGLE);
    const int pairs = mt.size / 2, rounds = mt.quick ? 20 : 100;

    for (int round = 0; round < rounds; round++) {
        mt_phase("round %d of %d", round, rounds);
        if (mt.rank < pairs)
            send_all(mt.rank + pairs, NUMBERS);
        else if (mt.rank < 2 * pairs)
            receive_all(mt.rank - pairs, NUMBERS);
    }
    mt_finish("%d times %d messages", rounds, NUMBERS);
    return 0;
}
