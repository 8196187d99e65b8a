/* SPDX-License-Identifier: BSD-3-Clause */
/* Timed samples, their order statistics and CPU time, for the micro benchmarks. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* Seconds. */
static inline double samples_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* User and system seconds of all threads of this process. */
static inline double samples_cpu_seconds(void)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used))
        return 0;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
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

/* Sorts them. */
static inline double samples_median(double *v, int n)
{
    samples_sort(v, n);
    return samples_quantile(v, n, 0.5);
}

/* Before they are sorted, for who compares programs that measured in turns: each times `scale`. */
static inline void samples_print_times(const double *v, int n, double scale)
{
    printf("each values=");
    for (int i = 0; i < n; i++)
        printf("%s%.6g", i ? "," : "", scale * v[i]);
    printf("\n");
}

/* The same of rates: `amount` by each. */
static inline void samples_print_rates(const double *v, int n, double amount)
{
    printf("each values=");
    for (int i = 0; i < n; i++)
        printf("%s%.6g", i ? "," : "", amount / v[i]);
    printf("\n");
}

/* Their middle and what the slowest 1 and 0.1 % reach; sorts them. */
static inline void samples_print_tail(double *v, int n)
{
    samples_sort(v, n);
    printf("p50_us=%.3f p99_us=%.3f p999_us=%.3f max_us=%.3f trips=%d\n",
           samples_quantile(v, n, 0.5), samples_quantile(v, n, 0.99), samples_quantile(v, n, 0.999),
           v[n - 1], n);
}

/* What is too short to be timed alone is repeated within a sample, until a sample takes this long.
 * Finding the number of repeats stops at half of it. */
#define SAMPLES_SECONDS 0.01

/* The number of repeats that fills a sample, when `count` of them took `seconds`; 1 .. most. */
static inline int samples_repeats(int count, double seconds, int most)
{
    double repeats = seconds > 0 ? SAMPLES_SECONDS / seconds * count + 1 : most;
    return repeats < most ? (int)repeats : most;
}

#endif
