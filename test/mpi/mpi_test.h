/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of every MPI test: options, failing with a reason, a time limit that says what hung.
 * Knows MPI only, nothing of any transport.
 */
#ifndef DIWARP_TEST_MPI_TEST_H
#define DIWARP_TEST_MPI_TEST_H

#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the program's state ------------------------------------------------------------------ */

struct mt_state {
    const char *name;
    int rank, size; /* in MPI_COMM_WORLD */
    int thread_level;
    bool quick, large, verbose, expect_osc_rdma, no_onesided, child;
    uint64_t seed;
    long messages;  /* 0: the program's own choice */
    double seconds; /* that `steady' runs */
    unsigned time_limit_s;
    const char *sizes; /* "1,2,3", or NULL */
    double started_s;
    char phase[160];
    char hung_text[320]; /* made ahead, since a signal handler may not format */
    volatile sig_atomic_t hung_len;
};

static struct mt_state mt;

/* ---- failing ------------------------------------------------------------------------------ */

__attribute__((noreturn, format(printf, 1, 2))) static inline void mt_fail(const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(stderr, "FAIL %s rank %d of %d, in '%s': %s\n", mt.name, mt.rank, mt.size, mt.phase,
            text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

#define MT_CHECK(cond, ...)       \
    do {                          \
        if (!(cond))              \
            mt_fail(__VA_ARGS__); \
    } while (0)

static inline void mt_on_alarm(int sig)
{
    (void)sig;
    if (write(STDERR_FILENO, mt.hung_text, (size_t)mt.hung_len) < 0)
        _exit(125);
    _exit(124);
}

/* Names what the rank is doing, for the messages of mt_fail() and of the time limit. */
__attribute__((format(printf, 1, 2))) static inline void mt_phase(const char *fmt, ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    vsnprintf(mt.phase, sizeof(mt.phase), fmt, args);
    va_end(args);
    len = snprintf(mt.hung_text, sizeof(mt.hung_text),
                   "FAIL %s rank %d of %d: time limit of %u s, hung in '%s'\n", mt.name, mt.rank,
                   mt.size, mt.time_limit_s, mt.phase);
    mt.hung_len = len < (int)sizeof(mt.hung_text) ? len : (int)sizeof(mt.hung_text) - 1;
    if (mt.verbose && mt.rank == 0)
        fprintf(stderr, "%s: %8.3f s %s\n", mt.name, MPI_Wtime() - mt.started_s, mt.phase);
}

/* The same for all ranks of a host, which MPI_Wtime() need not be. */
static inline double mt_host_clock_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- start and end ------------------------------------------------------------------------ */

static inline const char *mt_option_value(int argc, char **argv, int *i)
{
    if (*i + 1 >= argc)
        mt_fail("option %s needs a value", argv[*i]);
    *i += 1;
    return argv[*i];
}

static inline void mt_parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];

        if (!strcmp(arg, "--quick"))
            mt.quick = true;
        else if (!strcmp(arg, "--large"))
            mt.large = true;
        else if (!strcmp(arg, "--verbose"))
            mt.verbose = true;
        else if (!strcmp(arg, "--expect-osc-rdma"))
            mt.expect_osc_rdma = true;
        else if (!strcmp(arg, "--no-onesided"))
            mt.no_onesided = true;
        else if (!strcmp(arg, "--child"))
            mt.child = true;
        else if (!strcmp(arg, "--seed"))
            mt.seed = strtoull(mt_option_value(argc, argv, &i), NULL, 0);
        else if (!strcmp(arg, "--messages"))
            mt.messages = strtol(mt_option_value(argc, argv, &i), NULL, 0);
        else if (!strcmp(arg, "--seconds"))
            mt.seconds = strtod(mt_option_value(argc, argv, &i), NULL);
        else if (!strcmp(arg, "--time-limit"))
            mt.time_limit_s = (unsigned)strtoul(mt_option_value(argc, argv, &i), NULL, 0);
        else if (!strcmp(arg, "--sizes"))
            mt.sizes = mt_option_value(argc, argv, &i);
        else
            mt_fail("unknown option '%s'", arg);
    }
}

static inline void mt_start(int argc, char **argv, const char *name, int thread_level)
{
    mt.name = name;
    mt.seed = 1;
    mt.time_limit_s = 120;
    snprintf(mt.phase, sizeof(mt.phase), "start");
    MPI_Init_thread(&argc, &argv, thread_level, &mt.thread_level);
    MPI_Comm_rank(MPI_COMM_WORLD, &mt.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mt.size);
    mt.started_s = MPI_Wtime();
    mt_parse(argc, argv);
    if (signal(SIGALRM, mt_on_alarm) == SIG_ERR)
        mt_fail("no handler for SIGALRM");
    alarm(mt.time_limit_s);
    mt_phase("start");
    if (mt.size < 2 && !mt.child)
        mt_fail("needs at least 2 ranks");
}

/* Finalizes and prints the PASS line; a rank that found a difference has aborted the job. */
__attribute__((format(printf, 1, 2))) static inline void mt_finish(const char *fmt, ...)
{
    char text[256];
    double elapsed_s = MPI_Wtime() - mt.started_s;
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    mt_phase("finalize");
    MPI_Finalize();
    if (mt.rank == 0 && !mt.child)
        printf("PASS %s %d ranks, %.2f s: %s\n", mt.name, mt.size, elapsed_s, text);
    fflush(stdout);
}

/* A count of iterations that shrinks as ranks grow, so that a job takes about as long. */
static inline int mt_scaled(int at_two_ranks, int least)
{
    int n = at_two_ranks * 2 / mt.size / (mt.quick ? 2 : 1);

    return n > least ? n : least;
}

static inline void mt_sleep_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

/* A length as MPI wants it. */
static inline int mt_count(size_t len)
{
    MT_CHECK(len <= INT_MAX, "length %zu does not fit an MPI count", len);
    return (int)len;
}

#endif
