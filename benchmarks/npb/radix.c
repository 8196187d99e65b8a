/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Radix: a distributed sort of 32-bit integers as in SPLASH-2, digit by digit from the lowest. For
 * each digit: a histogram, its prefix sums over all ranks, and a permutation in which every rank
 * sends keys to every other.
 */
#include "benchmarks/npb/npb_common.h"
#include "benchmarks/npb/npb_random.h"
#include "benchmarks/npb/radix_digit.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BITS           32
#define KEYS_PER_RANK      (1 << 20)
#define DIGIT_BITS_MAX     16
#define DEFAULT_BITS       8
#define DEFAULT_ITERATIONS 10

/* Keys of the classes S, W, A, B: those of the NAS kernel IS. */
static const int class_keys[] = {1 << 16, 1 << 20, 1 << 23, 1 << 25};

struct options {
    char class;
    int keys, bits, iterations;
    uint64_t seed;
};

/* Keys and the arrays of a pass; `n` keys are here. */
struct sorter {
    int rank, ranks, total, n, bits;
    uint32_t *keys, *spare;
    int *counts, *totals, *first;     /* for each value of a digit */
    int *send, *send_at, *in, *in_at; /* for each rank */
};

/* Equal for equal sets of keys, whatever their order. */
struct checksum {
    uint64_t sum, mixed;
};

/* ---- keys --------------------------------------------------------------------------------------
 */

static void sorter_init(struct sorter *s, const struct options *opt)
{
    size_t values = (size_t)1 << opt->bits, ranks;

    memset(s, 0, sizeof *s);
    s->rank = npb_rank();
    s->ranks = npb_ranks();
    s->total = opt->keys;
    s->bits = opt->bits;
    s->n = radix_share(s->total, s->rank + 1, s->ranks) - radix_share(s->total, s->rank, s->ranks);
    s->keys = npb_alloc((size_t)s->n, sizeof *s->keys);
    s->spare = npb_alloc((size_t)s->n, sizeof *s->spare);
    s->counts = npb_alloc(values, sizeof(int));
    s->totals = npb_alloc(values, sizeof(int));
    s->first = npb_alloc(values, sizeof(int));
    ranks = (size_t)s->ranks;
    s->send = npb_alloc(ranks, sizeof(int));
    s->send_at = npb_alloc(ranks, sizeof(int));
    s->in = npb_alloc(ranks, sizeof(int));
    s->in_at = npb_alloc(ranks, sizeof(int));
}

static void sorter_fini(struct sorter *s)
{
    free(s->keys);
    free(s->spare);
    free(s->counts);
    free(s->totals);
    free(s->first);
    free(s->send);
    free(s->send_at);
    free(s->in);
    free(s->in_at);
}

/* The same keys at the same positions, whatever the number of ranks. */
static void make_keys(struct sorter *s, uint64_t seed)
{
    int first = radix_share(s->total, s->rank, s->ranks);
    uint64_t random = npb_random_skip(seed, (uint64_t)first);

    for (int i = 0; i < s->n; i++) {
        npb_random_next(&random, NPB_RANDOM_A);
        s->keys[i] = (uint32_t)(random >> (NPB_RANDOM_BITS - KEY_BITS));
    }
}

static struct checksum checksum(const struct sorter *s)
{
    struct checksum c = {0, 0};

    for (int i = 0; i < s->n; i++) {
        uint64_t mixed = (s->keys[i] + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
        c.sum += s->keys[i];
        c.mixed += mixed ^ (mixed >> 29);
    }
    MPI_Allreduce(MPI_IN_PLACE, &c.sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &c.mixed, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return c;
}

/* ---- sorting -----------------------------------------------------------------------------------
 */

/* first[d]: the position of this rank's first key with digit d among those of all ranks. */
static void find_positions(struct sorter *s, int values)
{
    /* The first rank's result of MPI_Exscan is undefined. */
    memset(s->first, 0, (size_t)values * sizeof *s->first);
    MPI_Exscan(s->counts, s->first, values, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (s->rank == 0)
        memset(s->first, 0, (size_t)values * sizeof *s->first);
    MPI_Allreduce(s->counts, s->totals, values, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    radix_prefix(s->totals, values, s->totals);
    for (int d = 0; d < values; d++)
        s->first[d] += s->totals[d];
}

/* Each rank's share, ordered by sender, and within what one sent by digit: a stable sort completes
 * the pass. */
static void permute(struct sorter *s, struct radix_digit digit)
{
    int values = radix_digit_values(digit);

    radix_destinations(s->counts, s->first, values, s->total, s->ranks, s->send);
    MPI_Alltoall(s->send, 1, MPI_INT, s->in, 1, MPI_INT, MPI_COMM_WORLD);
    radix_prefix(s->send, s->ranks, s->send_at);
    if (radix_prefix(s->in, s->ranks, s->in_at) != s->n)
        npb_fail("the histograms do not fit together");
    radix_order(digit, s->keys, s->n, s->counts, s->spare);
    MPI_Alltoallv(s->spare, s->send, s->send_at, MPI_UINT32_T, s->keys, s->in, s->in_at,
                  MPI_UINT32_T, MPI_COMM_WORLD);
    radix_count(digit, s->keys, s->n, s->counts);
    radix_order(digit, s->keys, s->n, s->counts, s->spare);
}

static void sort(struct sorter *s)
{
    for (int shift = 0; shift < KEY_BITS; shift += s->bits) {
        int left = KEY_BITS - shift;
        struct radix_digit digit = {shift, s->bits < left ? s->bits : left};
        uint32_t *sorted;

        radix_count(digit, s->keys, s->n, s->counts);
        find_positions(s, radix_digit_values(digit));
        permute(s, digit);
        sorted = s->spare;
        s->spare = s->keys;
        s->keys = sorted;
    }
}

/* Whether the keys rise here and from the rank before to this one. Collective. */
static bool rises(const struct sorter *s)
{
    int after = s->rank + 1 < s->ranks ? s->rank + 1 : MPI_PROC_NULL;
    int before = s->rank > 0 ? s->rank - 1 : MPI_PROC_NULL;
    uint32_t low = 0;
    int good = 1;

    MPI_Sendrecv(&s->keys[s->n - 1], 1, MPI_UINT32_T, after, 0, &low, 1, MPI_UINT32_T, before, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < s->n; i++) {
        good &= low <= s->keys[i];
        low = s->keys[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return good;
}

/* Sorts new keys; whether the outcome is right. The time of the sort is added to `seconds`. */
static bool sort_and_check(struct sorter *s, uint64_t seed, double *seconds)
{
    struct checksum made, sorted;
    double start;
    bool same;

    make_keys(s, seed);
    made = checksum(s);
    start = npb_timer_start();
    sort(s);
    *seconds += npb_timer_stop(start);
    sorted = checksum(s);
    same = made.sum == sorted.sum && made.mixed == sorted.mixed;
    if (!same)
        npb_print(" FAILURE: the keys are not those that were there before\n");
    if (!rises(s)) {
        npb_print(" FAILURE: the keys are not sorted\n");
        return false;
    }
    return same;
}

static int run(const struct options *opt)
{
    const struct npb_kernel kernel = {.name = "Radix", .operation = "keys sorted"};
    struct npb_result result = {.size = {opt->keys}, .iterations = opt->iterations};
    struct sorter s;
    double warm_up = 0;

    npb_print("\n Radix sort, class %c\n\n Keys: %d of %d bits\n Bits of a digit: %d\n"
              " Iterations: %d\n Processes: %d\n\n",
              opt->class, opt->keys, KEY_BITS, opt->bits, opt->iterations, npb_ranks());
    sorter_init(&s, opt);
    result.verified = sort_and_check(&s, opt->seed, &warm_up);
    for (int i = 0; i < opt->iterations; i++)
        result.verified &= sort_and_check(&s, opt->seed, &result.seconds);
    result.operations = (double)opt->keys * opt->iterations;
    sorter_fini(&s);
    return npb_report(&kernel, opt->class, &result);
}

/* ---- command line ------------------------------------------------------------------------------
 */

static void usage(FILE *to, const char *program)
{
    fprintf(to,
            "usage: %s [-k KEYS] [-r BITS] [-s SEED] [-n ITERATIONS] [CLASS]\n"
            "Sorts random 32-bit keys over all ranks of an MPI job.\n"
            "  CLASS          S, W, A or B: 2^16, 2^20, 2^23 or 2^25 keys in all\n"
            "  -k KEYS        keys in all (default %d for each rank)\n"
            "  -r BITS        bits of a digit, 1 to %d (default %d)\n"
            "  -s SEED        of the keys, odd (default %llu)\n"
            "  -n ITERATIONS  timed sorts (default %d)\n"
            "Exit status: 0 verified, 1 not verified, 2 wrong arguments.\n",
            program, KEYS_PER_RANK, DIGIT_BITS_MAX, DEFAULT_BITS,
            (unsigned long long)NPB_RANDOM_SEED, DEFAULT_ITERATIONS);
}

static bool parse_number(const char *text, long low, long high, long *out)
{
    char *end;

    errno = 0;
    *out = strtol(text, &end, 10);
    return end != text && !*end && !errno && *out >= low && *out <= high;
}

static bool parse_option(int option, const char *text, struct options *opt)
{
    long value;

    switch (option) {
    case 'k':
        if (!parse_number(text, npb_ranks(), INT_MAX, &value))
            return false;
        opt->keys = (int)value;
        opt->class = 'U';
        return true;
    case 'r':
        if (!parse_number(text, 1, DIGIT_BITS_MAX, &value))
            return false;
        opt->bits = (int)value;
        return true;
    case 's':
        if (!parse_number(text, 1, LONG_MAX, &value) || value % 2 == 0)
            return false;
        opt->seed = (uint64_t)value & NPB_RANDOM_MASK;
        return true;
    case 'n':
        if (!parse_number(text, 1, INT_MAX, &value))
            return false;
        opt->iterations = (int)value;
        return true;
    default:
        return false;
    }
}

static bool parse_class(const char *text, struct options *opt)
{
    int index = npb_class_index(text[0]);

    if (index < 0 || text[1] || opt->keys)
        return false;
    opt->class = text[0];
    opt->keys = class_keys[index];
    return opt->keys >= npb_ranks();
}

static bool parse_options(int argc, char **argv, struct options *opt)
{
    int option;

    *opt = (struct options){'U', 0, DEFAULT_BITS, DEFAULT_ITERATIONS, NPB_RANDOM_SEED};
    opterr = 0;
    while ((option = getopt(argc, argv, "k:r:s:n:")) != -1)
        if (!parse_option(option, optarg, opt))
            return false;
    if (optind < argc && !parse_class(argv[optind++], opt))
        return false;
    if (!opt->keys && npb_ranks() <= INT_MAX / KEYS_PER_RANK)
        opt->keys = KEYS_PER_RANK * npb_ranks();
    return optind == argc && opt->keys;
}

int main(int argc, char **argv)
{
    struct options opt;
    int status = 2;

    MPI_Init(&argc, &argv);
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        if (npb_rank() == 0)
            usage(stdout, argv[0]);
        status = 0;
    } else if (parse_options(argc, argv, &opt)) {
        status = run(&opt);
    } else if (npb_rank() == 0) {
        usage(stderr, argv[0]);
    }
    MPI_Finalize();
    return status;
}
