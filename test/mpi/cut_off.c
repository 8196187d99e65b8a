/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts that are cut off from each other for good (Open MPI 5.0, mpirun --with-ft ulfm): ranks
 * exchange messages around a ring. When two_hosts reads "running", it has packets between the hosts
 * dropped, and the ranks of each host go on by themselves.
 */
#include "test/mpi/ulfm.h"

#define BYTES (32 << 10)

int main(int argc, char **argv)
{
    static char from[BYTES], into[BYTES];
    int rc = MPI_SUCCESS, class, here, left;
    MPI_Comm comm, host;

    mt_start(argc, argv, "cut_off", MPI_THREAD_SINGLE);
    const int next = (mt.rank + 1) % mt.size, last = (mt.rank + mt.size - 1) % mt.size;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &here);
    MPI_Comm_free(&host);
    MPI_Barrier(comm);
    printf("cut_off: running\n");
    fflush(stdout);
    mt_phase("exchange");
    double exchanged_s = MPI_Wtime();
    while ((rc = MPI_Sendrecv(from, BYTES, MPI_CHAR, next, 3, into, BYTES, MPI_CHAR, last, 3, comm,
                              MPI_STATUS_IGNORE)) == MPI_SUCCESS)
        exchanged_s = MPI_Wtime();
    MPI_Error_class(rc, &class);
    MT_CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "an error of class %d",
             class);
    printf("cut_off: rank %d heard of it after %.1f s\n", mt.rank, MPI_Wtime() - exchanged_s);
    mt_phase("shrink");
    ulfm_shrink(&comm);
    MPI_Comm_size(comm, &left);
    MT_CHECK(left == here, "%d processes are left, %d are on this host", left, here);
    printf("PASS cut_off rank %d: %d processes go on\n", mt.rank, left);
    fflush(stdout);
    ulfm_finalize();
    return 0;
}
