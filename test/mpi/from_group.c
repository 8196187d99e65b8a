/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators made from a group, one after the other, in a program that asks for
 * MPI_THREAD_MULTIPLE. A rank is in the run-time system while it makes one, and the first messages
 * of those that have it already come meanwhile, to the helper thread.
 */
#include "test/mpi/mpi_test.h"

#define ROUNDS       200
#define QUICK_ROUNDS 60
#define NAMES        3 /* that follow each other: one may still be in use by a rank that is late */

static MPI_Comm make(MPI_Group group, const char *name)
{
    MPI_Comm comm;

    MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    return comm;
}

/* Rank 0 waits in the run-time system for rank 1, which waits there until rank 0 has matched its
 * message, though the first one of rank 2 on a new communicator came before that. */
static void match_behind_first(MPI_Group world)
{
    MPI_Comm first = make(world, "first"), second;
    MPI_Request request;
    int token = 0, other = 0;

    if (mt.rank == 0)
        MPI_Irecv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
    else if (mt.rank == 2)
        MPI_Send(&token, 1, MPI_INT, 0, 0, first);
    if (mt.rank == 1) {
        mt_sleep_ms(100);
        MPI_Ssend(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    second = make(world, "second");
    if (mt.rank == 0) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Recv(&other, 1, MPI_INT, 2, 0, first, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&second);
    MPI_Comm_free(&first);
}

int main(int argc, char **argv)
{
    MPI_Group world;
    int rounds;

    mt_start(argc, argv, "from_group", MPI_THREAD_MULTIPLE);
    rounds = mt.quick ? QUICK_ROUNDS : ROUNDS;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int round = 0; round < rounds; round++) {
        char name[32];
        MPI_Comm comm;
        int sum, rank = mt.rank;

        mt_phase("communicator %d", round);
        snprintf(name, sizeof(name), "from_group %d", round % NAMES);
        comm = make(world, name);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        MT_CHECK(sum == mt.size * (mt.size - 1) / 2, "the ranks' sum is %d", sum);
        MPI_Comm_free(&comm);
    }
    mt_phase("a message behind the first of a communicator");
    if (mt.size > 2)
        match_behind_first(world);
    MPI_Group_free(&world);
    mt_finish("%d communicators", rounds);
    return 0;
}
