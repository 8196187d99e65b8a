/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded: prints the memory of this rank after MPI_Init and before MPI_Finalize, and of
 * the peak between, if asked for. The PMPI_ names are those that Open MPI's Fortran bindings call.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "benchmarks/memory_sample.h"
#include "benchmarks/tool_output.h"

static struct {
    pthread_t thread;
    bool running;
    atomic_bool stop;
    unsigned long period_ms;
    struct memory_sample sample; /* the thread's, until it has ended */
} peak;

static void print_sample(const char *point, const struct memory_sample *sample, bool first)
{
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {
#define X(name) {#name, sample->name},
        MEMORY_SAMPLE_FIELDS(X)
#undef X
    };
    char line[2048];
    int rank = 0, ranks = 0;
    size_t n;
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    n = (size_t)snprintf(line, sizeof line, "mpi_memory: rank=%d ranks=%d point=%s", rank, ranks,
                         point);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, " %s=%" PRIu64, fields[i].name,
                              fields[i].value);
    snprintf(line + n, sizeof line - n, "\n");
    tool_output_write("DIWARP_MPI_MEMORY_OUTPUT", rank, line, first);
}

static void *watch(void *nothing)
{
    const struct timespec period = {.tv_sec = (time_t)(peak.period_ms / 1000),
                                    .tv_nsec = (long)(peak.period_ms % 1000) * 1000000};
    (void)nothing;
    while (!atomic_load(&peak.stop)) {
        struct memory_sample now = {0};
        memory_sample_take_pages(&now);
        if (now.private_bytes > peak.sample.private_bytes)
            peak.sample = now;
        (void)nanosleep(&period, NULL);
    }
    return NULL;
}

static void start_watching(void)
{
    const char *wanted = getenv("DIWARP_MPI_MEMORY_PEAK_MS");
    pthread_attr_t attr;
    peak.period_ms = wanted ? strtoul(wanted, NULL, 10) : 0;
    if (!peak.period_ms || pthread_attr_init(&attr))
        return;
    (void)pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + (32u << 10));
    peak.running = pthread_create(&peak.thread, &attr, watch, NULL) == 0;
    (void)pthread_attr_destroy(&attr);
}

/* The sockets of the peak are those of its end: counting them is too slow to be done often. */
static void print_peak(const struct memory_sample *end)
{
    if (!peak.running)
        return;
    atomic_store(&peak.stop, true);
    (void)pthread_join(peak.thread, NULL);
    struct memory_sample shown = *end;
    if (peak.sample.private_bytes > end->private_bytes) {
        shown.private_bytes = peak.sample.private_bytes;
        shown.pss_bytes = peak.sample.pss_bytes;
        shown.rss_bytes = peak.sample.rss_bytes;
        shown.anonymous_bytes = peak.sample.anonymous_bytes;
        shown.heap_bytes = peak.sample.heap_bytes;
    }
    print_sample("peak", &shown, false);
}

static void on_initialized(int rc)
{
    struct memory_sample sample;
    if (rc != MPI_SUCCESS)
        return;
    memory_sample_take(&sample);
    print_sample("init", &sample, true);
    start_watching();
}

int MPI_Init(int *argc, char ***argv)
{
    __typeof__(MPI_Init) *const library = dlsym(RTLD_NEXT, "PMPI_Init");
    const int rc = library(argc, argv);
    on_initialized(rc);
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    __typeof__(MPI_Init_thread) *const library = dlsym(RTLD_NEXT, "PMPI_Init_thread");
    const int rc = library(argc, argv, required, provided);
    on_initialized(rc);
    return rc;
}

int MPI_Finalize(void)
{
    __typeof__(MPI_Finalize) *const library = dlsym(RTLD_NEXT, "PMPI_Finalize");
    struct memory_sample sample;
    memory_sample_take(&sample);
    print_sample("finalize", &sample, false);
    print_peak(&sample);
    return library();
}

extern __typeof__(MPI_Init) PMPI_Init __attribute__((alias("MPI_Init")));
extern __typeof__(MPI_Init_thread) PMPI_Init_thread __attribute__((alias("MPI_Init_thread")));
extern __typeof__(MPI_Finalize) PMPI_Finalize __attribute__((alias("MPI_Finalize")));
