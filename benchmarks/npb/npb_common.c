/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/npb/npb_common.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char classes[] = "SWAB";

int npb_class_index(char class)
{
    const char *at = class ? strchr(classes, class) : NULL;
    return at ? (int)(at - classes) : -1;
}

int npb_rank(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int npb_ranks(void)
{
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return ranks;
}

int npb_log2(int n)
{
    int log = 0;
    while (n >>= 1)
        log++;
    return log;
}

bool npb_is_power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

void npb_print(const char *format, ...)
{
    va_list args;

    if (npb_rank() != 0)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
}

void npb_fail(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "rank %d: ", npb_rank());
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

void *npb_alloc(size_t count, size_t bytes)
{
    void *data = calloc(count ? count : 1, bytes);
    if (!data)
        npb_fail("out of memory: %zu elements of %zu bytes", count, bytes);
    return data;
}

bool npb_verify(const char *what, double computed, double reference, double epsilon)
{
    double error = fabs(computed - reference) / fabs(reference);
    /* Not a number is not verified. */
    bool good = error <= epsilon;

    npb_print(" %-8s %-12s %21.13E, reference %21.13E, relative error %.2E\n",
              good ? "verified" : "FAILURE:", what, computed, reference, error);
    return good;
}

double npb_timer_start(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

double npb_timer_stop(double start)
{
    double seconds = MPI_Wtime() - start, slowest = seconds;

    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return slowest;
}

static void print_field(const char *name, const char *value)
{
    npb_print(" %-16s= %24s\n", name, value);
}

static void print_integer(const char *name, int value)
{
    npb_print(" %-16s= %24d\n", name, value);
}

static void print_real(const char *name, double value)
{
    npb_print(" %-16s= %24.6f\n", name, value);
}

static void print_size(const int size[3])
{
    char text[64];

    if (!size[1] && !size[2])
        snprintf(text, sizeof text, "%d", size[0]);
    else
        snprintf(text, sizeof text, "%4dx%4dx%4d", size[0], size[1], size[2]);
    print_field("Size", text);
}

int npb_report(const struct npb_kernel *kernel, char class, const struct npb_result *result)
{
    double mops = result->seconds > 0 ? 1e-6 * result->operations / result->seconds : 0;
    int verified = result->verified;

    npb_print("\n\n %s Benchmark Completed.\n", kernel->name);
    print_field("Class", (char[]){class, 0});
    print_size(result->size);
    print_integer("Iterations", result->iterations);
    print_real("Time in seconds", result->seconds);
    print_integer("Total processes", npb_ranks());
    print_real("Mop/s total", mops);
    print_real("Mop/s/process", mops / npb_ranks());
    print_field("Operation type", kernel->operation);
    print_field("Verification", verified ? "SUCCESSFUL" : "UNSUCCESSFUL");
    print_field("Version", NPB_VERSION);
    fflush(stdout);
    MPI_Bcast(&verified, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return verified ? 0 : 1;
}

static void usage(FILE *to, const char *program, const struct npb_kernel *kernel)
{
    fprintf(to,
            "usage: %s CLASS\n"
            "The NAS kernel %s; CLASS is S, W, A or B. Run it under mpirun; the number of ranks\n"
            "must be a power of two. Exit status: 0 verified, 1 not verified, 2 wrong arguments.\n",
            program, kernel->name);
}

static const char *refusal(const struct npb_kernel *kernel, char class, int ranks)
{
    if (kernel->refuses)
        return kernel->refuses(class, ranks);
    return npb_is_power_of_two(ranks) ? NULL : "the number of ranks is not a power of two";
}

static int run_kernel(const char *program, const char *argument, const struct npb_kernel *kernel)
{
    char class = argument[0];
    struct npb_result result = {0};
    const char *reason;

    if (npb_class_index(class) < 0 || argument[1]) {
        if (npb_rank() == 0)
            fprintf(stderr, "%s: no class '%s'\n", program, argument);
        return 2;
    }
    reason = refusal(kernel, class, npb_ranks());
    if (reason) {
        if (npb_rank() == 0)
            fprintf(stderr, "%s: class %c on %d ranks: %s\n", program, class, npb_ranks(), reason);
        return 2;
    }
    kernel->run(class, &result);
    return npb_report(kernel, class, &result);
}

int npb_main(int argc, char **argv, const struct npb_kernel *kernel)
{
    int status = 2;

    MPI_Init(&argc, &argv);
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        if (npb_rank() == 0)
            usage(stdout, argv[0], kernel);
        status = 0;
    } else if (argc == 2) {
        status = run_kernel(argv[0], argv[1], kernel);
    } else if (npb_rank() == 0) {
        usage(stderr, argv[0], kernel);
    }
    MPI_Finalize();
    return status;
}
