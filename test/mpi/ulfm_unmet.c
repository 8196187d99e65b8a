/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault tolerance: a process that was spawned is killed before most ranks have spoken with it, so
 * that they first look for its address as they revoke the communicator that it is in. With Open MPI
 * 5.0.7 and its tcp BTL they then wait for that address for ever.
 */
#include "test/mpi/ulfm.h"

#include <string.h>

#define ROUNDS 4
#define HEARD_MOST_S \
    8 /* two seconds for each of two that may be looked for, and four on a loaded machine */

/* With the child as the last rank; errors are returned. */
static MPI_Comm merge(MPI_Comm bridge, int is_child)
{
    MPI_Comm all;

    MPI_Intercomm_merge(bridge, is_child, &all);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    return all;
}

__attribute__((noreturn)) static void be_child(MPI_Comm parent)
{
    MPI_Comm all = merge(parent, 1);

    MPI_Send(NULL, 0, MPI_CHAR, 0, 1, all);
    (void)raise(SIGKILL);
    for (;;)
        ;
}

/* Rank 0 hears of the child's end and revokes; the others wait for rank 0, and hear of that. */
static void survive(MPI_Comm all)
{
    const int victim = mt.size;
    int class = MPI_SUCCESS;
    const double began = MPI_Wtime();

    if (mt.rank == 0) {
        int rc = MPI_SUCCESS;
        while (rc == MPI_SUCCESS)
            rc = MPI_Recv(NULL, 0, MPI_CHAR, victim, 1, all, MPI_STATUS_IGNORE);
        MPI_Error_class(rc, &class);
        MPIX_Comm_revoke(all);
    } else {
        MPI_Error_class(MPI_Recv(NULL, 0, MPI_CHAR, 0, 2, all, MPI_STATUS_IGNORE), &class);
    }
    MT_CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "an error of class %d",
             class);
    MT_CHECK(MPI_Wtime() - began <= HEARD_MOST_S, "heard of it after %.1f s", MPI_Wtime() - began);
}

static void play_round(char *program, unsigned round)
{
    char limit[16], *args[] = {"--child", "--time-limit", limit, NULL};
    MPI_Comm bridge, all;
    int size;

    mt_phase("round %u", round);
    snprintf(limit, sizeof limit, "%u", mt.time_limit_s);
    MPI_Comm_spawn(program, args, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &bridge,
                   MPI_ERRCODES_IGNORE);
    all = merge(bridge, 0);
    survive(all);
    ulfm_shrink(&all);
    MPI_Comm_size(all, &size);
    MT_CHECK(size == mt.size, "%d processes are left, not %d", size, mt.size);
    MPI_Comm_free(&all);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    mt_start(argc, argv, "ulfm_unmet", MPI_THREAD_SINGLE);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        be_child(parent);
    for (unsigned i = 0; i < ROUNDS; i++)
        play_round(argv[0], i);
    if (mt.rank == 0)
        printf("PASS ulfm_unmet %d ranks, %d killed\n", mt.size, ROUNDS);
    fflush(stdout);
    ulfm_finalize();
    return 0;
}
