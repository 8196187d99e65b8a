/* SPDX-License-Identifier: BSD-3-Clause */
/* What the MPI micro benchmarks share: data that can be checked, and how they end. */
#ifndef MPI_BENCH_H
#define MPI_BENCH_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each 8 bytes of a message differ from all others of it, and by the seed. */
static inline uint64_t mpi_bench_word(uint64_t seed, uint64_t index)
{
    return (seed * 0x100000000 + index + 1) * 0x9e3779b97f4a7c15;
}

static inline void mpi_bench_fill(void *data, size_t bytes, uint64_t seed)
{
    char *to = data;
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = mpi_bench_word(seed, at / sizeof word);
        memcpy(to + at, &word, bytes - at < sizeof word ? bytes - at : sizeof word);
    }
}

static inline void mpi_bench_fail(const char *what)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Ends the job when the data is not what mpi_bench_fill() wrote from its word `first` on. */
static inline void mpi_bench_check_from(const void *data, size_t bytes, uint64_t seed,
                                        uint64_t first, const char *what)
{
    const char *from = data;
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = mpi_bench_word(seed, first + at / sizeof word);
        size_t length = bytes - at < sizeof word ? bytes - at : sizeof word;
        if (memcmp(from + at, &word, length)) {
            char text[120];
            snprintf(text, sizeof text, "wrong data in %s of %zu bytes, at byte %zu", what, bytes,
                     at);
            mpi_bench_fail(text);
        }
    }
}

static inline void mpi_bench_check(const void *data, size_t bytes, uint64_t seed, const char *what)
{
    mpi_bench_check_from(data, bytes, seed, 0, what);
}

/* Memory whose pages are there. */
static inline void *mpi_bench_alloc(size_t bytes)
{
    void *data = malloc(bytes + 1);
    if (!data)
        mpi_bench_fail("out of memory");
    memset(data, 0x5a, bytes + 1);
    return data;
}

/* The longest time of all ranks, known to all. */
static inline double mpi_bench_slowest(double seconds)
{
    double slowest = seconds;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Combines the samples of all ranks at rank 0. */
static inline void mpi_bench_reduce(double *samples, int n, MPI_Op op)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : samples, samples, n, MPI_DOUBLE, op, 0, MPI_COMM_WORLD);
}

#endif
