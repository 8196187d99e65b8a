/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI one-sided micro benchmark: rank 0 puts into, gets from and adds to (MPI_Accumulate of 8-byte
 * integers) a window of rank 1, in one passive epoch. Latency is one operation with its flush;
 * streaming is a window of operations, each at a place of its own, and one flush. Rank 1 waits
 * inside MPI meanwhile.
 *
 * The window is made of the program's own memory: what MPI_Win_allocate() gives to ranks of one
 * host is shared, and then no transport is used. A component that goes another way all the same is
 * found out by its speed.
 */
#include "benchmarks/mpi_bench.h"
#include "benchmarks/options.h"
#include "benchmarks/samples.h"
#include "benchmarks/turns.h"

#include <unistd.h>

#define TARGET      1
#define MAX_WINDOW  1024
#define MAX_REPEATS 10000

/* Seeds of the data: what rank 0 puts first and last, and what lies at rank 1. */
enum { FIRST_PUT = 1, LAST_PUT, HELD };

#define PROBE_BYTES 8
#define PROBE_CALLS 200

enum operation { PUT, GET, ACCUMULATE, OPERATIONS };

static const char *const names[OPERATIONS] = {"put", "get", "accumulate"};

struct options {
    struct size_list latency, stream;
    int window;
    int samples;
    bool wants[OPERATIONS];
};

struct bench {
    struct options opt;
    struct turns turns;
    MPI_Win win;
    char *exposed; /* this rank's part of the window */
    char *local;   /* the origin's data */
    size_t bytes;  /* of both */
    long adds;     /* ACCUMULATE: so often each word was added */
    double *times;
};

/* What is timed: `count` operations at a time, then a flush. */
struct action {
    enum operation operation;
    int bytes, count;
};

/* One of them alone. */
static bool parse_operation(const char *text, bool *wants)
{
    bool known = false;

    for (int i = 0; i < OPERATIONS; i++) {
        wants[i] = !strcmp(text, names[i]);
        known = known || wants[i];
    }
    return known;
}

static bool are_words(const struct size_list *list)
{
    for (int i = 0; i < list->count; i++)
        if ((size_t)list->bytes[i] % sizeof(uint64_t))
            return false;
    return true;
}

static bool parse_options(int argc, char **argv, struct options *opt)
{
    bool ok = true;
    int c;

    *opt = (struct options){.window = 64, .samples = 101, .wants = {true, true}};
    (void)options_sizes("8,1024,8192,65536", 1, &opt->latency);
    (void)options_sizes("1048576", 1, &opt->stream);
    opterr = 0;
    while (ok && (c = getopt(argc, argv, "l:s:w:r:o:")) != -1) {
        if (c == 'l')
            ok = options_sizes(optarg, 1, &opt->latency);
        else if (c == 's')
            ok = options_sizes(optarg, 1, &opt->stream);
        else if (c == 'w')
            ok = options_number(optarg, 1, MAX_WINDOW, &opt->window);
        else if (c == 'r')
            ok = options_number(optarg, 1, 100000, &opt->samples);
        else if (c == 'o')
            ok = parse_operation(optarg, opt->wants);
        else
            ok = false;
    }
    if (opt->wants[ACCUMULATE] && !(are_words(&opt->latency) && are_words(&opt->stream)))
        ok = false;
    return ok && optind == argc;
}

/* ---- the origin ---------------------------------------------------------------------------- */

static void begin(const struct bench *b, const struct action *a, size_t at)
{
    const int bytes = a->bytes, terms = bytes / (int)sizeof(uint64_t);
    const MPI_Aint there = (MPI_Aint)at;

    if (a->operation == PUT)
        MPI_Put(b->local + at, bytes, MPI_CHAR, TARGET, there, bytes, MPI_CHAR, b->win);
    else if (a->operation == GET)
        MPI_Get(b->local + at, bytes, MPI_CHAR, TARGET, there, bytes, MPI_CHAR, b->win);
    else
        MPI_Accumulate(b->local + at, terms, MPI_UINT64_T, TARGET, there, terms, MPI_UINT64_T,
                       MPI_SUM, b->win);
}

static void once(struct bench *b, const struct action *a)
{
    b->adds++;
    for (int i = 0; i < a->count; i++)
        begin(b, a, (size_t)a->bytes * (size_t)i);
    MPI_Win_flush(TARGET, b->win);
}

static double timed(struct bench *b, const struct action *a, int repeats)
{
    double begin = samples_now();
    for (int i = 0; i < repeats; i++)
        once(b, a);
    return samples_now() - begin;
}

static int repeats_of(struct bench *b, const struct action *a)
{
    for (int count = 1;; count *= 2) {
        double seconds = timed(b, a, count);
        if (seconds >= SAMPLES_SECONDS / 2 || count >= MAX_REPEATS)
            return samples_repeats(count, seconds, MAX_REPEATS);
    }
}

/* Returns how often it is repeated within a sample. */
static int get_ready(struct bench *b, const struct action *a, size_t all)
{
    mpi_bench_fill(b->local, all, a->operation == ACCUMULATE ? LAST_PUT : FIRST_PUT);
    b->adds = 0;
    once(b, a);
    if (a->operation == GET)
        mpi_bench_check(b->local, all, HELD, "a first MPI_Get");
    int repeats = repeats_of(b, a);
    mpi_bench_fill(b->local, all, LAST_PUT);
    return repeats;
}

/* Seconds per repeat. */
static double sample(struct bench *b, const struct action *a, int repeats)
{
    double seconds = 0;
    for (int left = turns_samples(&b->turns); left > 0; left--)
        seconds = timed(b, a, repeats);
    return seconds / repeats;
}

static void print_figure(const struct bench *b, const struct action *a, bool stream)
{
    int n = b->opt.samples;
    double moved = (double)a->bytes * a->count / 1e6;

    if (turns_taken(&b->turns) && stream)
        samples_print_rates(b->times, n, moved);
    else if (turns_taken(&b->turns))
        samples_print_times(b->times, n, 1e6);
    samples_sort(b->times, n);
    double median = samples_quantile(b->times, n, 0.5), p90 = samples_quantile(b->times, n, 0.9);

    if (stream)
        printf("%s_stream bytes=%d window=%d MBps=%.1f max_MBps=%.1f p10_MBps=%.1f samples=%d\n",
               names[a->operation], a->bytes, a->count, moved / median, moved / b->times[0],
               moved / p90, n);
    else
        printf("%s_latency bytes=%d us=%.3f min_us=%.3f p90_us=%.3f samples=%d\n",
               names[a->operation], a->bytes, median * 1e6, b->times[0] * 1e6, p90 * 1e6, n);
    fflush(stdout);
}

/* ---- both ranks ---------------------------------------------------------------------------- */

static void check_target(const struct bench *b, const struct action *a, size_t all, long adds)
{
    MPI_Win_sync(b->win);
    if (a->operation == PUT)
        mpi_bench_check(b->exposed, all, LAST_PUT, "a last MPI_Put");
    else if (a->operation == GET)
        mpi_bench_check(b->exposed, all, HELD, "a window that was only read");
    for (size_t i = 0; a->operation == ACCUMULATE && i < all / sizeof(uint64_t); i++)
        if (((const uint64_t *)b->exposed)[i] !=
            mpi_bench_word(HELD, i) + (uint64_t)adds * mpi_bench_word(LAST_PUT, i))
            mpi_bench_fail("a sum by MPI_Accumulate is wrong");
}

/* One figure. The target's memory is prepared before and, when it was written to, checked after. */
static void figure(struct bench *b, int rank, enum operation operation, int bytes, bool stream)
{
    struct action a = {.operation = operation, .bytes = bytes, .count = 1};
    int repeats = 0;

    if (stream)
        a.count = options_window(b->opt.window, bytes);
    size_t all = (size_t)bytes * (size_t)a.count;

    /* The target waits in the barriers, and so within MPI. */
    turns_begin(&b->turns);
    if (rank == TARGET) {
        mpi_bench_fill(b->exposed, all, HELD);
        MPI_Win_sync(b->win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != TARGET)
        repeats = get_ready(b, &a, all);
    MPI_Barrier(MPI_COMM_WORLD);
    turns_end(&b->turns);
    for (int i = 0; i < b->opt.samples; i++) {
        turns_begin(&b->turns);
        if (rank != TARGET)
            b->times[i] = sample(b, &a, repeats);
        MPI_Barrier(MPI_COMM_WORLD);
        turns_end(&b->turns);
    }
    turns_begin(&b->turns);
    if (rank != TARGET && operation == GET)
        mpi_bench_check(b->local, all, HELD, "a last MPI_Get");
    if (rank != TARGET)
        print_figure(b, &a, stream);
    long adds = b->adds;
    MPI_Bcast(&adds, 1, MPI_LONG, 1 - TARGET, MPI_COMM_WORLD);
    if (rank == TARGET)
        check_target(b, &a, all, adds);
    turns_end(&b->turns);
}

/* The least seconds of half a round trip by messages. */
static double probe_messages(int rank)
{
    char data[PROBE_BYTES] = {0};
    double least = 0;

    for (int i = 0; i < PROBE_CALLS; i++) {
        double begin = samples_now();
        if (rank != TARGET)
            MPI_Send(data, PROBE_BYTES, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD);
        MPI_Recv(data, PROBE_BYTES, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == TARGET)
            MPI_Send(data, PROBE_BYTES, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD);
        double half = (samples_now() - begin) / 2;
        least = i == 0 || half < least ? half : least;
    }
    return least;
}

/* A put that is known to have arrived took a message there and one back. Ends the job when it was
 * faster than one of them: the figures would not be those of the transport. */
static void check_transport(struct bench *b, int rank)
{
    struct action a = {.operation = PUT, .bytes = PROBE_BYTES, .count = 1};
    double half = probe_messages(rank), least = 0;

    for (int i = 0; rank != TARGET && i < PROBE_CALLS; i++) {
        double seconds = timed(b, &a, 1);
        least = i == 0 || seconds < least ? seconds : least;
    }
    if (rank != TARGET && least < half)
        mpi_bench_fail("MPI_Put is faster than half a round trip: this one-sided component does "
                       "not use the transport; choose another by --mca osc");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run(struct bench *b, int rank)
{
    const struct options *opt = &b->opt;
    size_t most = options_largest(&opt->latency);
    size_t streamed = options_window_bytes(opt->window, &opt->stream);

    b->bytes = streamed > most ? streamed : most;
    b->bytes = b->bytes > PROBE_BYTES ? b->bytes : PROBE_BYTES;
    b->local = mpi_bench_alloc(b->bytes);
    b->times = mpi_bench_alloc((size_t)opt->samples * sizeof *b->times);
    b->exposed = mpi_bench_alloc(b->bytes);
    MPI_Win_create(b->exposed, (MPI_Aint)b->bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &b->win);
    MPI_Win_lock_all(0, b->win);
    turns_open(&b->turns, rank != TARGET);
    check_transport(b, rank);
    turns_end(&b->turns);
    for (int o = 0; o < OPERATIONS; o++)
        for (int i = 0; opt->wants[o] && i < opt->latency.count; i++)
            figure(b, rank, (enum operation)o, opt->latency.bytes[i], false);
    for (int o = 0; o < OPERATIONS; o++)
        for (int i = 0; opt->wants[o] && i < opt->stream.count; i++)
            figure(b, rank, (enum operation)o, opt->stream.bytes[i], true);
    MPI_Win_unlock_all(b->win);
    MPI_Win_free(&b->win);
    free(b->exposed);
    free(b->local);
    free(b->times);
}

int main(int argc, char **argv)
{
    static struct bench b;
    int rank, ranks, rc = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || !parse_options(argc, argv, &b.opt)) {
        if (rank == 0)
            fprintf(stderr,
                    "usage: mpirun -np 2 %s [-l LATENCY_SIZES] [-s STREAM_SIZES] [-w WINDOW]\n"
                    "       [-r SAMPLES] [-o put|get|accumulate]\n"
                    "  sizes: comma separated, in bytes, or none, for accumulate multiples of 8;\n"
                    "  WINDOW: operations in a flush; -o: that one, not MPI_Put and MPI_Get\n",
                    argv[0]);
        rc = 2;
    } else {
        run(&b, rank);
    }
    MPI_Finalize();
    return rc;
}
