/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every rank talks to every other: what a transport needs for that in memory is measured from
 * outside, by mpi_memory.so. The program's own memory does not depend on the number of ranks.
 *
 * In step i each rank sends to the rank i after it and receives from the rank i before it, so that
 * all pairs meet, and in both directions.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/mpi_bench.h"
#include "benchmarks/options.h"

struct options {
    int bytes, large_bytes, rounds;
    bool none; /* as much memory, but no message */
};

static void usage(void)
{
    fprintf(stderr, "usage: all_to_all [-b BYTES] [-l BYTES] [-r ROUNDS] [-p all|none]\n"
                    "  -b  bytes of a message (4096)\n"
                    "  -l  bytes of a second, large message to each rank; 0: none (0)\n"
                    "  -r  how often (3)\n"
                    "  -p  pattern: all, or none: the same program without a message (all)\n");
}

static bool parse(int argc, char **argv, struct options *opt)
{
    *opt = (struct options){.bytes = 4096, .rounds = 3};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool good = false;
        if (!strcmp(argv[i], "-b"))
            good = options_number(value, 0, OPTIONS_MAX_BYTES, &opt->bytes);
        else if (!strcmp(argv[i], "-l"))
            good = options_number(value, 0, OPTIONS_MAX_BYTES, &opt->large_bytes);
        else if (!strcmp(argv[i], "-r"))
            good = options_number(value, 1, 1000000, &opt->rounds);
        else if (!strcmp(argv[i], "-p"))
            good = (opt->none = !strcmp(value, "none")) || !strcmp(value, "all");
        if (!good)
            return false;
    }
    return true;
}

static void meet_all(char *out, char *in, int bytes, int rank, int ranks)
{
    for (int step = 1; step < ranks; step++) {
        const int to = (rank + step) % ranks, from = (rank - step + ranks) % ranks;
        MPI_Status status;
        int received;
        memset(in, 0, (size_t)bytes);
        MPI_Sendrecv(out, bytes, MPI_BYTE, to, step, in, bytes, MPI_BYTE, from, step,
                     MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &received);
        if (received != bytes)
            mpi_bench_fail("a message of the wrong size");
        mpi_bench_check(in, (size_t)bytes, (uint64_t)from, "a message");
    }
}

static void run(const struct options *opt, int rank, int ranks)
{
    const int most = opt->bytes > opt->large_bytes ? opt->bytes : opt->large_bytes;
    char *out = mpi_bench_alloc((size_t)most), *in = mpi_bench_alloc((size_t)most);
    mpi_bench_fill(out, (size_t)most, (uint64_t)rank);
    for (int round = 0; round < opt->rounds && !opt->none; round++) {
        meet_all(out, in, opt->bytes, rank, ranks);
        if (opt->large_bytes)
            meet_all(out, in, opt->large_bytes, rank, ranks);
    }
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    struct options opt;
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!parse(argc, argv, &opt)) {
        if (rank == 0)
            usage();
        MPI_Finalize();
        return 2;
    }
    run(&opt, rank, ranks);
    if (rank == 0)
        printf("all_to_all: ranks=%d bytes=%d large_bytes=%d rounds=%d messages=%lld\n", ranks,
               opt.bytes, opt.large_bytes, opt.rounds,
               opt.none ? 0 : (long long)opt.rounds * (ranks - 1) * (1 + (opt.large_bytes > 0)));
    MPI_Finalize();
    return 0;
}
