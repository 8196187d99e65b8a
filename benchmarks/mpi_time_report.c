/* SPDX-License-Identifier: BSD-3-Clause */
/* The preloaded form of mpi_time.c: prints what this rank spent in MPI, in MPI_Finalize. */
#include <dlfcn.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "benchmarks/mpi_time.h"
#include "benchmarks/tool_output.h"

/* More than all functions and the summary need. */
#define REPORT_BYTES (64u << 10)

static double init_seconds, initialized_at;

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct report {
    char text[REPORT_BYTES];
    size_t bytes;
};

__attribute__((format(printf, 2, 3))) static void add(struct report *report, const char *format,
                                                      ...)
{
    const size_t room = sizeof report->text - report->bytes;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(report->text + report->bytes, room, format, arguments);
    va_end(arguments);
    if (n > 0)
        report->bytes += (size_t)n < room ? (size_t)n : room - 1;
}

static double seconds(const struct mpi_time_sum *sum)
{
    return 1e-9 * (double)sum->ns;
}

static void add_summary(struct report *report, int rank, int ranks, double wall_seconds)
{
    static const char *const classes[MPI_TIME_CLASSES] = {
        [PT2PT] = "pt2pt",       [COLLECTIVE] = "collective", [WAIT] = "wait",
        [ONESIDED] = "onesided", [OTHER] = "other",
    };
    struct mpi_time_sum sums[MPI_TIME_CLASSES], all = {0};
    for (enum mpi_time_class class = 0; class < MPI_TIME_CLASSES; class ++) {
        mpi_time_class_sum(class, &sums[class]);
        all.calls += sums[class].calls;
        all.ns += sums[class].ns;
        all.sent_bytes += sums[class].sent_bytes;
        all.received_bytes += sums[class].received_bytes;
    }
    add(report, "mpi_time: rank=%d ranks=%d wall_seconds=%.6f mpi_seconds=%.6f calls=%" PRIu64,
        rank, ranks, wall_seconds, seconds(&all), all.calls);
    add(report, " sent_bytes=%" PRIu64 " received_bytes=%" PRIu64, all.sent_bytes,
        all.received_bytes);
    for (enum mpi_time_class class = 0; class < MPI_TIME_CLASSES; class ++)
        add(report, " %s_seconds=%.6f", classes[class], seconds(&sums[class]));
    add(report, " init_seconds=%.6f threads=%u\n", init_seconds, mpi_time_threads());
}

static void add_calls(struct report *report, int rank)
{
    struct mpi_time_sum sum;
    const char *name;
    for (unsigned i = 0; (name = mpi_time_call_sum(i, &sum)); i++)
        if (sum.calls)
            add(report,
                "mpi_time_call: rank=%d call=%s calls=%" PRIu64 " seconds=%.6f sent_bytes=%" PRIu64
                " received_bytes=%" PRIu64 "\n",
                rank, name, sum.calls, seconds(&sum), sum.sent_bytes, sum.received_bytes);
}

static void print_report(void)
{
    const double wall_seconds = now_seconds() - initialized_at;
    const char *wanted = getenv("DIWARP_MPI_TIME_CALLS");
    static struct report report;
    int rank, ranks;
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    add_summary(&report, rank, ranks, wall_seconds);
    if (wanted && atoi(wanted))
        add_calls(&report, rank);
    tool_output_write("DIWARP_MPI_TIME_OUTPUT", rank, report.text, true);
}

/* ---- the calls; of the C and, through the PMPI_ names, of the Fortran bindings ---- */

static double begin_init(void)
{
    mpi_time_pause();
    return now_seconds();
}

static void end_init(double begin)
{
    mpi_time_resume();
    initialized_at = now_seconds();
    init_seconds = initialized_at - begin;
}

int MPI_Init(int *argc, char ***argv)
{
    __typeof__(MPI_Init) *const library = dlsym(RTLD_NEXT, "PMPI_Init");
    const double begin = begin_init();
    const int rc = library(argc, argv);
    end_init(begin);
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    __typeof__(MPI_Init_thread) *const library = dlsym(RTLD_NEXT, "PMPI_Init_thread");
    const double begin = begin_init();
    const int rc = library(argc, argv, required, provided);
    end_init(begin);
    return rc;
}

int MPI_Finalize(void)
{
    __typeof__(MPI_Finalize) *const library = dlsym(RTLD_NEXT, "PMPI_Finalize");
    print_report();
    mpi_time_pause();
    return library();
}

extern __typeof__(MPI_Init) PMPI_Init __attribute__((alias("MPI_Init")));
extern __typeof__(MPI_Init_thread) PMPI_Init_thread __attribute__((alias("MPI_Init_thread")));
extern __typeof__(MPI_Finalize) PMPI_Finalize __attribute__((alias("MPI_Finalize")));
