/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a transfer from rank 0 to rank 1 is hidden behind work without MPI calls: the time of
 * the transfer alone, of the work alone (about 1.5 times as long), and of the transfer begun before
 * the work and waited for after it. The three are measured in turn, so that a disturbance falls on
 * all alike. The work is arithmetic, or sleep, which stands for work that needs no core.
 */
#include "benchmarks/mpi_bench.h"
#include "benchmarks/options.h"
#include "benchmarks/samples.h"

#include <sys/prctl.h>
#include <unistd.h>

#define WORK_SHARE      1.5 /* of the transfer's time */
#define WARM_UP         10
#define CALIBRATE_STEPS 4000000

/* Of work that was measured; shorter work could not hide the transfer. */
#define LEAST_SHARE 1.25
#define MOST_SHARE  2.0
#define ATTEMPTS    32

enum { COMM, COMP, TOTAL, KINDS };

struct options {
    int bytes;
    int samples;
    bool sleep;
    bool receiver_only; /* the sender goes straight to MPI_Wait */
};

struct bench {
    struct options opt;
    int rank;
    char *data;
    double work_seconds;
    uint64_t work_steps;
    double *times[KINDS];
};

static bool parse_options(int argc, char **argv, struct options *opt)
{
    bool ok = true;
    int c;

    *opt = (struct options){.bytes = 4 << 20, .samples = 51};
    opterr = 0;
    while (ok && (c = getopt(argc, argv, "b:c:r:1")) != -1) {
        if (c == 'b') {
            ok = options_number(optarg, 1, OPTIONS_MAX_BYTES, &opt->bytes);
        } else if (c == 'c') {
            opt->sleep = !strcmp(optarg, "sleep");
            ok = opt->sleep || !strcmp(optarg, "spin");
        } else if (c == 'r') {
            ok = options_number(optarg, 1, 100000, &opt->samples);
        } else if (c == '1') {
            opt->receiver_only = true;
        } else {
            ok = false;
        }
    }
    return ok && optind == argc;
}

/* ---- work ---------------------------------------------------------------------------------- */

static void spin(uint64_t steps)
{
    uint64_t x = steps;
    for (uint64_t i = 0; i < steps; i++) {
        x = x * 6364136223846793005 + 1442695040888963407;
        __asm__ volatile("" : "+r"(x));
    }
}

static void doze(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left))
        ;
}

static void work(const struct bench *b)
{
    if (b->opt.receiver_only && b->rank == 0)
        return;
    if (b->opt.sleep)
        doze(b->work_seconds);
    else
        spin(b->work_steps);
}

/* Sets the work to a number of seconds; a fixed number of steps from then on, so that the work
 * does not shrink when something else takes cycles. */
static void set_work(struct bench *b, double seconds)
{
    double fastest = 1;
    for (int i = 0; i < 5; i++) {
        double begin = samples_now();
        spin(CALIBRATE_STEPS);
        double took = samples_now() - begin;
        fastest = took < fastest ? took : fastest;
    }
    b->work_seconds = seconds;
    b->work_steps = (uint64_t)(seconds / fastest * CALIBRATE_STEPS);
}

/* ---- samples ------------------------------------------------------------------------------- */

static double sample(const struct bench *b, int kind)
{
    MPI_Request request = MPI_REQUEST_NULL;

    MPI_Barrier(MPI_COMM_WORLD);
    double begin = samples_now();
    if (kind != COMP && b->rank == 0)
        MPI_Isend(b->data, b->opt.bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
    else if (kind != COMP)
        MPI_Irecv(b->data, b->opt.bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
    if (kind != COMM)
        work(b);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return samples_now() - begin;
}

static void new_data(const struct bench *b, uint64_t seed)
{
    if (b->rank == 0)
        mpi_bench_fill(b->data, (size_t)b->opt.bytes, seed);
}

static double alone_seconds(const struct bench *b, int kind)
{
    double times[WARM_UP];
    for (int i = 0; i < WARM_UP; i++)
        times[i] = mpi_bench_slowest(sample(b, kind));
    samples_sort(times, WARM_UP);
    return samples_quantile(times, WARM_UP, 0.5);
}

/* On a disturbed machine the two times found first may not fit together; then again. False: they
 * never did. */
static bool calibrate(struct bench *b)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        set_work(b, alone_seconds(b, COMM) * WORK_SHARE);
        double share = alone_seconds(b, COMP) / alone_seconds(b, COMM);
        MPI_Bcast(&share, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (share >= LEAST_SHARE && share <= MOST_SHARE)
            return true;
    }
    return false;
}

/* The work is the same each time: medians far above the minima tell of a disturbed machine, where
 * the share means nothing. */
static void print_figure(const struct bench *b)
{
    int n = b->opt.samples;
    double us[KINDS], min_us[KINDS], hidden;

    for (int kind = 0; kind < KINDS; kind++) {
        samples_sort(b->times[kind], n);
        us[kind] = samples_quantile(b->times[kind], n, 0.5) * 1e6;
        min_us[kind] = b->times[kind][0] * 1e6;
    }
    hidden = (us[COMM] + us[COMP] - us[TOTAL]) / us[COMM];
    hidden = hidden < 0 ? 0 : hidden > 1 ? 1 : hidden;
    printf("overlap bytes=%d kind=%s computes=%s comm_us=%.2f comp_us=%.2f total_us=%.2f "
           "hidden=%.3f comm_min_us=%.2f comp_min_us=%.2f total_min_us=%.2f samples=%d\n",
           b->opt.bytes, b->opt.sleep ? "sleep" : "spin",
           b->opt.receiver_only ? "receiver" : "both", us[COMM], us[COMP], us[TOTAL], hidden,
           min_us[COMM], min_us[COMP], min_us[TOTAL], n);
    fflush(stdout);
}

static void measure(struct bench *b)
{
    int n = b->opt.samples;

    new_data(b, 2);
    for (int i = 0; i < n; i++)
        for (int kind = 0; kind < KINDS; kind++)
            b->times[kind][i] = sample(b, kind);
    mpi_bench_check(b->data, (size_t)b->opt.bytes, 2, "a last message");
    for (int kind = 0; kind < KINDS; kind++)
        mpi_bench_reduce(b->times[kind], n, MPI_MAX);
    if (b->rank == 0)
        print_figure(b);
}

/* False: no work was found to hide the transfer behind. */
static bool run(struct bench *b)
{
    b->data = mpi_bench_alloc((size_t)b->opt.bytes);
    for (int kind = 0; kind < KINDS; kind++)
        b->times[kind] = mpi_bench_alloc((size_t)b->opt.samples * sizeof *b->times[kind]);
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    new_data(b, 1);
    (void)sample(b, COMM);
    mpi_bench_check(b->data, (size_t)b->opt.bytes, 1, "a first message");
    (void)alone_seconds(b, COMM);
    const bool calibrated = calibrate(b);
    if (calibrated)
        measure(b);
    else if (b->rank == 0)
        fprintf(stderr, "overlap: the machine is too busy: work and transfer never took times "
                        "that fit together\n");
    for (int kind = 0; kind < KINDS; kind++)
        free(b->times[kind]);
    free(b->data);
    return calibrated;
}

int main(int argc, char **argv)
{
    static struct bench b;
    int ranks, rc = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || !parse_options(argc, argv, &b.opt)) {
        if (b.rank == 0)
            fprintf(stderr,
                    "usage: mpirun -np 2 %s [-b BYTES] [-c spin|sleep] [-1] [-r SAMPLES]\n"
                    "  -c: what the work is; -1: only the receiver works\n",
                    argv[0]);
        rc = 2;
    } else {
        rc = run(&b) ? 0 : 1;
    }
    MPI_Finalize();
    return rc;
}
