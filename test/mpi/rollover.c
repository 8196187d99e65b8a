/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ob1 numbers the messages between two ranks by 16 bits. Here pairs of ranks, i and i + n/2, send
 * so many that the number begins anew again and again, each time with a message of another length,
 * and right after one of another communicator, whose messages have no numbers; they arrive in
 * order, and all of them, whatever the network loses.
 */
#include "test/mpi/mpi_test.h"

#define NUMBERS 65536

static MPI_Comm numbered, unnumbered;

/* Ints of the last message of a round, which has the number 0: of each way that messages go. */
static const int last_ints[] = {1, 100, 600, 4000, 50000};

static int ints_of(int message, int round)
{
    const int kinds = (int)(sizeof last_ints / sizeof *last_ints);
    return message == NUMBERS - 1 ? last_ints[round % kinds] : 1;
}

/* Of which no message has a number. */
static MPI_Comm make_unnumbered(void)
{
    const char *key = "mpi_assert_allow_overtaking";
    char value[8] = "";
    int there = 0;
    MPI_Comm comm;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, key, "true");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get(info, key, (int)sizeof value - 1, value, &there);
    MPI_Info_free(&info);
    MT_CHECK(there && !strcmp(value, "true"), "%s is '%s'", key, value);
    return comm;
}

static void send_all(int to, int round, int *buf)
{
    for (int i = 0; i < NUMBERS; i++) {
        if (i == NUMBERS - 1)
            MPI_Send(NULL, 0, MPI_INT, to, 0, unnumbered);
        buf[0] = i;
        MPI_Send(buf, ints_of(i, round), MPI_INT, to, 0, numbered);
    }
}

static void receive_all(int from, int round, int *buf)
{
    for (int i = 0; i < NUMBERS; i++) {
        if (i == NUMBERS - 1)
            MPI_Recv(NULL, 0, MPI_INT, from, 0, unnumbered, MPI_STATUS_IGNORE);
        MPI_Recv(buf, ints_of(i, round), MPI_INT, from, 0, numbered, MPI_STATUS_IGNORE);
        MT_CHECK(buf[0] == i, "message %d comes as number %d", buf[0], i);
    }
}

int main(int argc, char **argv)
{
    static int buf[50000];

    mt_start(argc, argv, "rollover", MPI_THREAD_SINGLE);
    const int pairs = mt.size / 2, rounds = mt.quick ? 20 : 100;

    MPI_Comm_dup(MPI_COMM_WORLD, &numbered); /* of its own: messages of dup() itself have numbers */
    unnumbered = make_unnumbered();
    for (int round = 0; round < rounds; round++) {
        mt_phase("round %d of %d", round, rounds);
        if (mt.rank < pairs)
            send_all(mt.rank + pairs, round, buf);
        else if (mt.rank < 2 * pairs)
            receive_all(mt.rank - pairs, round, buf);
    }
    MPI_Comm_free(&unnumbered);
    MPI_Comm_free(&numbered);
    mt_finish("%d times %d messages", rounds, NUMBERS);
    return 0;
}
