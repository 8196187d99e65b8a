/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a flood of short messages leaves behind: rank 0, which sends them, is hardly larger
 * afterwards than it was before.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define SENDS 200000
/* Meanwhile the transport gives back what it does not need any more. */
#define SETTLE_MS   300
#define LEFT_MAX_KB 2048

static const int sizes[] = {8, 32, 64};

static long resident_kb(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    MT_CHECK(NULL != file && 1 == fscanf(file, "%*d %ld", &pages), "statm cannot be read");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* MPI lets the transport run only within its calls. */
static void settle(void)
{
    double end = MPI_Wtime() + SETTLE_MS / 1000.0;
    int flag;

    while (MPI_Wtime() < end)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

static void flood(int bytes, int sends)
{
    unsigned char data[64] = {0};

    for (int i = 0; i < sends && mt.rank < 2; i++) {
        if (0 == mt.rank)
            MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    settle();
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    long before_kb, left_kb = 0;

    mt_start(argc, argv, "flood_memory", MPI_THREAD_SINGLE);
    flood(sizes[0], 100); /* what any message needs */
    before_kb = resident_kb();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        mt_phase("messages of %d bytes", sizes[i]);
        flood(sizes[i], mt.quick ? SENDS / 2 : SENDS);
    }
    if (0 == mt.rank) {
        left_kb = resident_kb() - before_kb;
        MT_CHECK(left_kb <= LEFT_MAX_KB, "%ld KiB are left of it, more than %d", left_kb,
                 LEFT_MAX_KB);
    }
    mt_finish("%ld KiB are left of a flood", left_kb);
    return 0;
}
