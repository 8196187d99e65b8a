/* SPDX-License-Identifier: BSD-3-Clause */
/* What survivors do after a failure: MPI_Comm_revoke, MPI_Comm_shrink, and an end that comes. */
#ifndef DIWARP_TEST_MPI_ULFM_H
#define DIWARP_TEST_MPI_ULFM_H

#include "test/mpi/mpi_test.h"

#include <mpi-ext.h>

#define ULFM_AFTERWARDS 200 /* collective operations of the survivors */
#define ULFM_FINALIZE_S 5

/* The survivors' communicator takes the place of the one that has lost a process, and works. */
static inline void ulfm_shrink(MPI_Comm *comm)
{
    MPI_Comm left;
    int ones = 1, sum = 0, size, agreed = 1;

    MPIX_Comm_revoke(*comm);
    MT_CHECK(MPIX_Comm_shrink(*comm, &left) == MPI_SUCCESS, "MPIX_Comm_shrink");
    MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    MPI_Comm_free(comm);
    *comm = left;
    MPI_Comm_size(left, &size);
    MT_CHECK(MPIX_Comm_agree(left, &agreed) == MPI_SUCCESS && agreed == 1, "MPIX_Comm_agree");
    for (int i = 0; i < ULFM_AFTERWARDS; i++)
        MT_CHECK(MPI_Allreduce(&ones, &sum, 1, MPI_INT, MPI_SUM, left) == MPI_SUCCESS &&
                     sum == size,
                 "%d processes are left, not %d", sum, size);
}

static inline void ulfm_on_hung(int signal_number)
{
    static const char text[] = "ulfm: MPI_Finalize hangs\n";

    (void)signal_number;
    _exit(write(STDOUT_FILENO, text, sizeof text - 1) < 0);
}

/* In MPI_Finalize Open MPI 5.0.7 waits now and then for ever for a fence of its run-time system
 * with those who are dead, over tcp, too. */
static inline void ulfm_finalize(void)
{
    signal(SIGALRM, ulfm_on_hung);
    alarm(ULFM_FINALIZE_S);
    MPI_Finalize();
}

#endif
