/* SPDX-License-Identifier: BSD-3-Clause */
/* Timed samples and their order statistics, for the micro benchmarks. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdlib.h>
#include <time.h>

static inline double samples_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static inline int samples_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void samples_sort(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, samples_compare);
}

/* The fraction q (0..1) of sorted samples; q = 0.5 is the median. */
static inline double samples_quantile(const double *sorted, int n, double q)
{
    return sorted[(int)(q * (n - 1) + 0.5)];
}

#endif
