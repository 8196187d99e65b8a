/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault tolerance with processes of another job, here spawned ones. First one ends well, which is
 * no failure. Then each is killed before most ranks have spoken with it, so that they first look
 * for its address as they revoke the communicator that it is in; with Open MPI 5.0.7 and its tcp
 * BTL they may wait for that address for ever.
 */
#include "test/mpi/ulfm.h"

#include <string.h>

#define ROUNDS  3
#define LEAVE_S 3
/* Of the address of one, of its end, and on a loaded machine. */
#define HEARD_MOST_S 12

/* With the child as the last rank; errors are returned. */
static MPI_Comm merge(MPI_Comm bridge, int is_child)
{
    MPI_Comm all;

    MPI_Intercomm_merge(bridge, is_child, &all);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    return all;
}

/* The child of the first round, whose parents send it something, leaves. */
static void be_child(MPI_Comm parent)
{
    int round, parents;

    MPI_Comm_remote_size(parent, &parents);
    MPI_Bcast(&round, 1, MPI_INT, 0, parent);
    if (round) {
        MPI_Send(NULL, 0, MPI_CHAR, 0, 1, merge(parent, 1));
        (void)raise(SIGKILL);
    }
    for (int i = 0; i < parents; i++)
        MPI_Recv(NULL, 0, MPI_CHAR, i, 2, parent, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    exit(0);
}

static MPI_Comm spawn(char *program, int round)
{
    char limit[16], *args[] = {"--child", "--time-limit", limit, NULL};
    MPI_Comm bridge;

    mt_phase("round %d", round);
    snprintf(limit, sizeof limit, "%u", mt.time_limit_s);
    MPI_Comm_spawn(program, args, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &bridge,
                   MPI_ERRCODES_IGNORE);
    MPI_Bcast(&round, 1, MPI_INT, mt.rank ? MPI_PROC_NULL : MPI_ROOT, bridge);
    return bridge;
}

/* test/mpi/run looks for what diwarp says meanwhile. */
static void let_one_leave(char *program)
{
    MPI_Comm bridge = spawn(program, 0);
    const double began = MPI_Wtime();
    int arrived;

    MPI_Send(NULL, 0, MPI_CHAR, 0, 2, bridge);
    MPI_Comm_disconnect(&bridge);
    while (MPI_Wtime() - began < LEAVE_S)
        MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
    if (mt.rank == 0)
        printf("ulfm_unmet: killing begins\n");
    fflush(stdout);
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

static void kill_one(char *program, int round)
{
    MPI_Comm bridge = spawn(program, round), all = merge(bridge, 0);
    int size;

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
    let_one_leave(argv[0]);
    for (int round = 1; round <= ROUNDS; round++)
        kill_one(argv[0], round);
    if (mt.rank == 0)
        printf("PASS ulfm_unmet %d ranks, %d killed\n", mt.size, ROUNDS);
    fflush(stdout);
    ulfm_finalize();
    return 0;
}
