/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks exchange messages of each kind, while of what diwarp's component asks the system for in
 * rank 1 one thing, the DIWARP_TEST_REFUSE-th, is refused. The program ends well, or diwarp says
 * what it lacked. (Where all is refused from there on, ob1 tries again for ever, over any BTL.)
 * Rank 1 tells how often was asked. Run by test/net/faults.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "test/mpi/mpi_test.h"

#include <dlfcn.h>

#include "test/net/refusing_libc.h"

#define COMPONENT   "mca_btl_diwarp"
#define LARGE_BYTES (4 << 20)

/* Open MPI loads its components in MPI_Init. */
__attribute__((visibility("default"))) void *dlopen(const char *path, int flags)
{
    void *(*const real)(const char *, int) =
        (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *refuse = getenv("DIWARP_TEST_REFUSE");
    void *object = real(path, flags);

    if (path && strstr(path, COMPONENT) && rank && !strcmp(rank, "1") && refuse) {
        refusing.at = (unsigned)strtoul(refuse, NULL, 10);
        refusing_find(COMPONENT);
    }
    return object;
}

static void exchange(char *from, char *into, int bytes)
{
    const int other = 1 - mt.rank;

    memset(from, 1 + mt.rank, (size_t)bytes);
    MPI_Sendrecv(from, bytes, MPI_CHAR, other, 3, into, bytes, MPI_CHAR, other, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; i++)
        MT_CHECK(into[i] == 1 + other, "byte %d of %d is %d", i, bytes, into[i]);
}

/* Each reads and writes the other's. */
static void access_window(char *from, char *into)
{
    MPI_Win window;
    char *memory;

    MPI_Win_allocate(LARGE_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 7, LARGE_BYTES);
    MPI_Win_fence(0, window);
    MPI_Get(into, LARGE_BYTES / 2, MPI_CHAR, 1 - mt.rank, 0, LARGE_BYTES / 2, MPI_CHAR, window);
    MPI_Put(from, LARGE_BYTES / 2, MPI_CHAR, 1 - mt.rank, LARGE_BYTES / 2, LARGE_BYTES / 2,
            MPI_CHAR, window);
    MPI_Win_fence(0, window);
    MT_CHECK(into[0] == 7 && into[LARGE_BYTES / 2 - 1] == 7, "what was got");
    MT_CHECK(memory[LARGE_BYTES - 1] == 2 - mt.rank, "what was put");
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    mt_start(argc, argv, "no_memory", MPI_THREAD_SINGLE);
    char *from = malloc(LARGE_BYTES), *into = malloc(LARGE_BYTES);
    MT_CHECK(from && into && mt.size == 2, "memory and two ranks");
    for (unsigned i = 0; i < 20; i++) {
        exchange(from, into, 8);
        exchange(from, into, 20000);
        exchange(from, into, LARGE_BYTES);
    }
    access_window(from, into);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (mt.rank == 1)
        printf("PASS no_memory, asked %u times\n", refusing.asked);
    return 0;
}
