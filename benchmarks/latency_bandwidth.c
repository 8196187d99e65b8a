/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI micro benchmark between ranks 0 and 1: half round trip by size, streaming in one and in both
 * directions with a window of outstanding messages, and message rate. Each figure is the median of
 * many timed samples; one line of key=value pairs per figure.
 */
#include "benchmarks/samples.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_SIZES  32
#define MAX_WINDOW 256

struct options {
    int latency_bytes[MAX_SIZES], latency_sizes;
    int stream_bytes[MAX_SIZES], stream_sizes;
    int rate_bytes;
    int window;
    int samples;
    int one_buffer; /* receive all into one, hot buffer, as the OSU benchmarks do */
};

struct bench {
    struct options opt;
    int rank, peer;
    char *tx, *rx; /* rx: one slot per message of the window */
    double *times;
    MPI_Request requests[2 * MAX_WINDOW];
};

static bool parse_sizes(const char *text, int *sizes, int *count)
{
    for (*count = 0; *text && *count < MAX_SIZES; (*count)++) {
        char *end;
        long v = strtol(text, &end, 10);
        if (end == text || v < 0 || v > 1 << 28 || (*end && *end != ','))
            return false;
        sizes[*count] = (int)v;
        text = *end ? end + 1 : end;
    }
    return *count > 0 && !*text;
}

static bool parse_number(const char *text, int low, int high, int *out)
{
    char *end;
    long v = strtol(text, &end, 10);
    *out = (int)v;
    return end != text && !*end && v >= low && v <= high;
}

static bool parse_options(char **argv, struct options *opt)
{
    *opt = (struct options){.rate_bytes = 8, .window = 64, .samples = 101};
    (void)parse_sizes("8,64,512,4096,65536,1048576", opt->latency_bytes, &opt->latency_sizes);
    (void)parse_sizes("1048576", opt->stream_bytes, &opt->stream_sizes);
    for (int i = 1; argv[i]; i += 2) {
        const char *value = argv[i + 1];
        bool ok = false;
        if (!value)
            return false;
        if (!strcmp(argv[i], "-l"))
            ok = parse_sizes(value, opt->latency_bytes, &opt->latency_sizes);
        else if (!strcmp(argv[i], "-s"))
            ok = parse_sizes(value, opt->stream_bytes, &opt->stream_sizes);
        else if (!strcmp(argv[i], "-m"))
            ok = parse_number(value, 0, 1 << 20, &opt->rate_bytes);
        else if (!strcmp(argv[i], "-w"))
            ok = parse_number(value, 1, MAX_WINDOW, &opt->window);
        else if (!strcmp(argv[i], "-r"))
            ok = parse_number(value, 1, 100000, &opt->samples);
        else if (!strcmp(argv[i], "-o"))
            ok = parse_number(value, 0, 1, &opt->one_buffer);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- one sample each ----------------------------------------------------------------------- */

static void round_trips(struct bench *b, int bytes, int count)
{
    for (int i = 0; i < count; i++) {
        if (b->rank == 0)
            MPI_Send(b->tx, bytes, MPI_CHAR, b->peer, 0, MPI_COMM_WORLD);
        MPI_Recv(b->rx, bytes, MPI_CHAR, b->peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (b->rank == 1)
            MPI_Send(b->tx, bytes, MPI_CHAR, b->peer, 0, MPI_COMM_WORLD);
    }
}

/* A window of messages from each rank in `senders` (bit 0: rank 0, bit 1: rank 1), ended by a
 * short answer of each receiver, so that time stops when all has arrived. */
static void one_window(struct bench *b, int bytes, unsigned senders)
{
    bool sends = senders >> b->rank & 1, receives = senders >> b->peer & 1;
    size_t slot = b->opt.one_buffer ? 0 : (size_t)bytes;
    int n = 0;
    char answer = 0;

    for (int i = 0; receives && i < b->opt.window; i++)
        MPI_Irecv(b->rx + slot * (size_t)i, bytes, MPI_CHAR, b->peer, 1, MPI_COMM_WORLD,
                  &b->requests[n++]);
    for (int i = 0; sends && i < b->opt.window; i++)
        MPI_Isend(b->tx, bytes, MPI_CHAR, b->peer, 1, MPI_COMM_WORLD, &b->requests[n++]);
    MPI_Waitall(n, b->requests, MPI_STATUSES_IGNORE);
    if (receives)
        MPI_Send(&answer, 1, MPI_CHAR, b->peer, 2, MPI_COMM_WORLD);
    if (sends)
        MPI_Recv(&answer, 1, MPI_CHAR, b->peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ---- figures ------------------------------------------------------------------------------- */

static void latency(struct bench *b, int bytes)
{
    int per_sample = bytes <= 65536 ? 100 : 10, n = b->opt.samples;

    round_trips(b, bytes, 2 * per_sample);
    for (int i = 0; i < n; i++) {
        double begin = samples_now();
        round_trips(b, bytes, per_sample);
        b->times[i] = (samples_now() - begin) / (2 * per_sample) * 1e6;
    }
    if (b->rank != 0)
        return;
    samples_sort(b->times, n);
    printf("latency bytes=%d us=%.3f min_us=%.3f p90_us=%.3f samples=%d\n", bytes,
           samples_quantile(b->times, n, 0.5), b->times[0], samples_quantile(b->times, n, 0.9), n);
    fflush(stdout);
}

/* Fills b->times with the sorted seconds per window. */
static void time_windows(struct bench *b, int bytes, unsigned senders, int windows_per_sample)
{
    one_window(b, bytes, senders);
    one_window(b, bytes, senders);
    for (int i = 0; i < b->opt.samples; i++) {
        double begin = samples_now();
        for (int k = 0; k < windows_per_sample; k++)
            one_window(b, bytes, senders);
        b->times[i] = (samples_now() - begin) / windows_per_sample;
    }
    samples_sort(b->times, b->opt.samples);
}

static void stream(struct bench *b, int bytes, unsigned senders, const char *direction)
{
    int n = b->opt.samples;
    double moved = (double)bytes * b->opt.window * (senders == 3 ? 2 : 1) / 1e6;

    time_windows(b, bytes, senders, 1);
    if (b->rank != 0)
        return;
    printf("stream bytes=%d window=%d direction=%s MBps=%.1f max_MBps=%.1f p10_MBps=%.1f "
           "samples=%d\n",
           bytes, b->opt.window, direction, moved / samples_quantile(b->times, n, 0.5),
           moved / b->times[0], moved / samples_quantile(b->times, n, 0.9), n);
    fflush(stdout);
}

static void rate(struct bench *b)
{
    int n = b->opt.samples;
    double messages = b->opt.window / 1e6;

    time_windows(b, b->opt.rate_bytes, 1, 100);
    if (b->rank != 0)
        return;
    printf("rate bytes=%d window=%d Mmsgps=%.4f max_Mmsgps=%.4f p10_Mmsgps=%.4f samples=%d\n",
           b->opt.rate_bytes, b->opt.window, messages / samples_quantile(b->times, n, 0.5),
           messages / b->times[0], messages / samples_quantile(b->times, n, 0.9), n);
    fflush(stdout);
}

static bool allocate(struct bench *b)
{
    size_t most = (size_t)b->opt.rate_bytes, tx = most;
    for (int i = 0; i < b->opt.stream_sizes; i++)
        if (most < (size_t)b->opt.stream_bytes[i])
            most = (size_t)b->opt.stream_bytes[i];
    tx = most;
    for (int i = 0; i < b->opt.latency_sizes; i++)
        if (tx < (size_t)b->opt.latency_bytes[i])
            tx = (size_t)b->opt.latency_bytes[i];
    size_t rx = most * (size_t)b->opt.window;
    if (rx < tx)
        rx = tx;
    b->tx = malloc(tx + 1);
    b->rx = malloc(rx + (size_t)b->opt.window);
    b->times = malloc((size_t)b->opt.samples * sizeof *b->times);
    if (!b->tx || !b->rx || !b->times)
        return false;
    memset(b->tx, 1, tx + 1);
    memset(b->rx, 2, rx + (size_t)b->opt.window);
    return true;
}

static void run(struct bench *b)
{
    for (int i = 0; i < b->opt.latency_sizes; i++)
        latency(b, b->opt.latency_bytes[i]);
    for (int i = 0; i < b->opt.stream_sizes; i++) {
        stream(b, b->opt.stream_bytes[i], 1, "uni");
        stream(b, b->opt.stream_bytes[i], 3, "bi");
    }
    rate(b);
}

int main(int argc, char **argv)
{
    static struct bench b;
    int ranks, rc = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    b.peer = 1 - b.rank;
    if (ranks != 2 || !parse_options(argv, &b.opt)) {
        if (b.rank == 0)
            fprintf(stderr,
                    "usage: mpirun -np 2 %s [-l LATENCY_SIZES] [-s STREAM_SIZES] [-m RATE_BYTES]\n"
                    "       [-w WINDOW] [-r SAMPLES] [-o 0|1]\n"
                    "  sizes: comma separated, in bytes; -o 1: receive into one hot buffer\n",
                    argv[0]);
        rc = 2;
    } else if (!allocate(&b)) {
        fprintf(stderr, "%s: out of memory\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    } else {
        run(&b);
    }
    free(b.tx);
    free(b.rx);
    free(b.times);
    MPI_Finalize();
    return rc;
}
