/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI collective micro benchmark over all ranks. A sample is the mean of a batch of calls, back to
 * back after a barrier, on the slowest rank; a figure is the median of the samples.
 */
#include "benchmarks/mpi_bench.h"
#include "benchmarks/options.h"
#include "benchmarks/samples.h"
#include "benchmarks/turns.h"

#include <unistd.h>

#define MAX_REPEATS 1000

struct options {
    struct size_list allreduce, alltoall, bcast;
    int samples;
};

struct bench {
    struct options opt;
    int rank, ranks;
    char *in, *out;
    double *times;
    struct turns turns;
};

struct collective {
    const char *name;
    void (*prepare)(const struct bench *b, int bytes, uint64_t seed);
    void (*call)(const struct bench *b, int bytes);
    void (*check)(const struct bench *b, int bytes, uint64_t seed);
};

/* ---- the collectives ----------------------------------------------------------------------- */

/* Small numbers, whose sums are exact. */
static int64_t term(int rank, int64_t index, uint64_t seed)
{
    return (rank + 1) * (index % 1000 + (int64_t)seed);
}

static void allreduce_prepare(const struct bench *b, int bytes, uint64_t seed)
{
    int64_t *in = (int64_t *)b->in;
    for (int i = 0; i < bytes / 8; i++)
        in[i] = term(b->rank, i, seed);
    memset(b->out, 0, (size_t)bytes);
}

static void allreduce_call(const struct bench *b, int bytes)
{
    MPI_Allreduce(b->in, b->out, bytes / 8, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void allreduce_check(const struct bench *b, int bytes, uint64_t seed)
{
    const int64_t *out = (const int64_t *)b->out;
    int64_t ranks = (int64_t)b->ranks * (b->ranks + 1) / 2;
    for (int i = 0; i < bytes / 8; i++)
        if (out[i] != ranks * term(0, i, seed))
            mpi_bench_fail("wrong sum in MPI_Allreduce");
}

static uint64_t alltoall_seed(const struct bench *b, uint64_t seed, int from, int to)
{
    return (seed * (uint64_t)b->ranks + (uint64_t)from) * (uint64_t)b->ranks + (uint64_t)to;
}

static void alltoall_prepare(const struct bench *b, int bytes, uint64_t seed)
{
    size_t size = (size_t)bytes;
    for (int to = 0; to < b->ranks; to++)
        mpi_bench_fill(b->in + size * (size_t)to, size, alltoall_seed(b, seed, b->rank, to));
    memset(b->out, 0, size * (size_t)b->ranks);
}

static void alltoall_call(const struct bench *b, int bytes)
{
    MPI_Alltoall(b->in, bytes, MPI_CHAR, b->out, bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static void alltoall_check(const struct bench *b, int bytes, uint64_t seed)
{
    size_t size = (size_t)bytes;
    for (int from = 0; from < b->ranks; from++)
        mpi_bench_check(b->out + size * (size_t)from, size, alltoall_seed(b, seed, from, b->rank),
                        "MPI_Alltoall");
}

static void bcast_prepare(const struct bench *b, int bytes, uint64_t seed)
{
    memset(b->out, 0, (size_t)bytes);
    if (b->rank == 0)
        mpi_bench_fill(b->out, (size_t)bytes, seed);
}

static void bcast_call(const struct bench *b, int bytes)
{
    MPI_Bcast(b->out, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void bcast_check(const struct bench *b, int bytes, uint64_t seed)
{
    mpi_bench_check(b->out, (size_t)bytes, seed, "MPI_Bcast");
}

/* ---- figures ------------------------------------------------------------------------------- */

static double batch(const struct bench *b, const struct collective *c, int bytes, int repeats)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = samples_now();
    for (int i = 0; i < repeats; i++)
        c->call(b, bytes);
    return samples_now() - begin;
}

static int repeats_of(const struct bench *b, const struct collective *c, int bytes)
{
    for (int count = 1;; count *= 2) {
        double seconds = mpi_bench_slowest(batch(b, c, bytes, count));
        if (seconds >= SAMPLES_SECONDS / 2 || count >= MAX_REPEATS)
            return samples_repeats(count, seconds, MAX_REPEATS);
    }
}

/* Rank 0 is done before others are. */
static void end_turn(struct bench *b)
{
    if (turns_taken(&b->turns))
        MPI_Barrier(MPI_COMM_WORLD);
    turns_end(&b->turns);
}

static void figure(struct bench *b, const struct collective *c, int bytes)
{
    int n = b->opt.samples, repeats;

    turns_begin(&b->turns);
    c->prepare(b, bytes, 1);
    (void)batch(b, c, bytes, 1);
    c->check(b, bytes, 1);
    repeats = repeats_of(b, c, bytes);
    c->prepare(b, bytes, 2);
    end_turn(b);
    for (int i = 0; i < n; i++) {
        turns_begin(&b->turns);
        for (int left = turns_samples(&b->turns); left > 0; left--)
            b->times[i] = batch(b, c, bytes, repeats) / repeats * 1e6;
        end_turn(b);
    }
    turns_begin(&b->turns);
    c->check(b, bytes, 2);
    mpi_bench_reduce(b->times, n, MPI_MAX);
    if (b->rank == 0 && turns_taken(&b->turns))
        samples_print_times(b->times, n, 1);
    samples_sort(b->times, n);
    if (b->rank == 0)
        printf("%s bytes=%d ranks=%d us=%.3f min_us=%.3f p90_us=%.3f samples=%d batch=%d\n",
               c->name, bytes, b->ranks, samples_quantile(b->times, n, 0.5), b->times[0],
               samples_quantile(b->times, n, 0.9), n, repeats);
    fflush(stdout);
    end_turn(b);
}

static bool parse_options(int argc, char **argv, struct options *opt)
{
    bool ok = true;
    int c;

    *opt = (struct options){.samples = 51};
    (void)options_sizes("8", 8, &opt->allreduce);
    (void)options_sizes("4096", 1, &opt->alltoall);
    (void)options_sizes("1048576", 1, &opt->bcast);
    opterr = 0;
    while (ok && (c = getopt(argc, argv, "a:t:b:r:")) != -1) {
        if (c == 'a')
            ok = options_sizes(optarg, 8, &opt->allreduce);
        else if (c == 't')
            ok = options_sizes(optarg, 1, &opt->alltoall);
        else if (c == 'b')
            ok = options_sizes(optarg, 1, &opt->bcast);
        else if (c == 'r')
            ok = options_number(optarg, 1, 100000, &opt->samples);
        else
            ok = false;
    }
    for (int i = 0; i < opt->allreduce.count; i++)
        ok = ok && opt->allreduce.bytes[i] % 8 == 0;
    return ok && optind == argc;
}

static void run(struct bench *b)
{
    static const struct collective collectives[] = {
        {"allreduce", allreduce_prepare, allreduce_call, allreduce_check},
        {"alltoall", alltoall_prepare, alltoall_call, alltoall_check},
        {"bcast", bcast_prepare, bcast_call, bcast_check},
    };
    const struct size_list *sizes[] = {&b->opt.allreduce, &b->opt.alltoall, &b->opt.bcast};
    size_t most = options_largest(sizes[1]) * (size_t)b->ranks;

    for (int i = 0; i < 3; i++)
        most = options_largest(sizes[i]) > most ? options_largest(sizes[i]) : most;
    b->in = mpi_bench_alloc(most);
    b->out = mpi_bench_alloc(most);
    b->times = mpi_bench_alloc((size_t)b->opt.samples * sizeof *b->times);
    turns_open(&b->turns, b->rank == 0);
    turns_end(&b->turns);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < sizes[i]->count; k++)
            figure(b, &collectives[i], sizes[i]->bytes[k]);
    free(b->in);
    free(b->out);
    free(b->times);
}

int main(int argc, char **argv)
{
    static struct bench b;
    int rc = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
    if (b.ranks < 2 || !parse_options(argc, argv, &b.opt)) {
        if (b.rank == 0)
            fprintf(stderr,
                    "usage: mpirun -np RANKS %s [-a ALLREDUCE_SIZES] [-t ALLTOALL_SIZES]\n"
                    "       [-b BCAST_SIZES] [-r SAMPLES]\n"
                    "  two ranks at least; sizes: comma separated, in bytes, or none;\n"
                    "  those of allreduce are multiples of 8\n",
                    argv[0]);
        rc = 2;
    } else {
        run(&b);
    }
    MPI_Finalize();
    return rc;
}
