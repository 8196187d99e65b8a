/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the NAS kernels share: the life of the program, the report in the benchmarks' usual fields,
 * verification, memory and time. A kernel is a struct npb_kernel, and its main() is npb_main().
 */
#ifndef NPB_COMMON_H
#define NPB_COMMON_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* What a run was, and how it ended. Rank 0's values are reported. */
struct npb_result {
    int size[3]; /* size[1] and size[2] are 0 where the problem has one dimension */
    int iterations;
    double seconds;    /* timed part, the slowest rank's */
    double operations; /* of all ranks in that time */
    bool verified;
};

struct npb_kernel {
    const char *name;      /* as in " CG Benchmark Completed." */
    const char *operation; /* what `operations` counts: "floating point" */
    /* Why this many ranks cannot run the class, or NULL. May be NULL: powers of two. */
    const char *(*refuses)(char class, int ranks);
    /* Collective. Sets up, warms up, runs the class and fills the result. */
    void (*run)(char class, struct npb_result *result);
};

/* Reads "PROGRAM CLASS", runs, reports. Returns the exit status: 0 verified, 1 not, 2 usage. */
int npb_main(int argc, char **argv, const struct npb_kernel *kernel);

/* The report alone, for a program with a command line of its own. Collective; returns the exit
 * status, the same at every rank. `class` is 'U' for a problem that is of none. */
int npb_report(const struct npb_kernel *kernel, char class, const struct npb_result *result);

/* Index of a class in tables ordered S, W, A, B; -1 for another letter. */
int npb_class_index(char class);

int npb_rank(void);
int npb_ranks(void);

/* Base 2 logarithm, rounded down; n > 0. */
int npb_log2(int n);
bool npb_is_power_of_two(int n);

/* Prints at rank 0 only. */
__attribute__((format(printf, 1, 2))) void npb_print(const char *format, ...);

/* Ends the whole job. */
_Noreturn __attribute__((format(printf, 1, 2))) void npb_fail(const char *format, ...);

/* Zeroed memory for `count` elements of `bytes` each, to be freed; without, the job ends. */
void *npb_alloc(size_t count, size_t bytes);

/* Whether |computed - reference| <= epsilon |reference|; says so at rank 0. */
bool npb_verify(const char *what, double computed, double reference, double epsilon);

/* Begins a timed part: every rank together. */
double npb_timer_start(void);
/* Seconds since then; rank 0 has the slowest rank's. Collective. */
double npb_timer_stop(double start);

#endif
