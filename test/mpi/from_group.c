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
        MPI_Comm_create_from_group(world, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        MT_CHECK(sum == mt.size * (mt.size - 1) / 2, "the ranks' sum is %d", sum);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&world);
    mt_finish("%d communicators", rounds);
    return 0;
}
