/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI micro benchmark between pairs of ranks, i and i + n/2: half round trip by size, streaming in
 * one and in both directions with a window of outstanding messages, and message rate. Each figure
 * is the median of many timed samples; one line of key=value pairs per figure. The first half of
 * the ranks begins. Rank 0 times: with several pairs from barrier to barrier, because a rank that
 * waits for a core would begin to count only when it gets one.
 */
#include "benchmarks/mpi_bench.h"
#include "benchmarks/options.h"
#include "benchmarks/samples.h"
#include "benchmarks/turns.h"

#include <unistd.h>

#define MAX_WINDOW  256
#define MAX_REPEATS 1024 /* windows in one sample */
#define WORD_BYTES  8    /* of the data that is checked */

enum { TAG_TRIP, TAG_STREAM, TAG_ANSWER };

/* Who streams: bit 0 the first rank of a pair, bit 1 the second. */
enum { UNI = 1, BI = 3 };

struct options {
    struct size_list latency, stream, rate;
    bool uni, bi;
    int window;
    int samples;
    int trips;      /* of a sample, each timed alone for the quantiles; 0: all at once */
    int one_buffer; /* receive all into one, hot buffer, as the OSU benchmarks do */
};

struct bench {
    struct options opt;
    int pairs, rank, peer;
    bool first;          /* of the pair */
    unsigned side;       /* 0 the first of the pair, 1 the second */
    uint64_t generation; /* of the data */
    int apart;           /* words, from one message of a window to the next: 0 when it is timed */
    char *tx, *rx;       /* rx: one place for each message of the window */
    double *times;       /* rank 0's are what counts */
    double last_end;
    struct turns turns;
    MPI_Request requests[2 * MAX_WINDOW];
};

static bool parse_direction(const char *text, struct options *opt)
{
    bool both = !strcmp(text, "both");
    opt->uni = both || !strcmp(text, "uni");
    opt->bi = both || !strcmp(text, "bi");
    return opt->uni || opt->bi;
}

static bool parse_options(int argc, char **argv, struct options *opt)
{
    bool ok = true;
    int c;

    *opt = (struct options){.uni = true, .bi = true, .window = 64, .samples = 101};
    (void)options_sizes("8,64,512,4096,65536,1048576", 0, &opt->latency);
    (void)options_sizes("1048576", 1, &opt->stream);
    (void)options_sizes("8", 0, &opt->rate);
    opterr = 0;
    while (ok && (c = getopt(argc, argv, "l:s:d:m:w:r:t:o:")) != -1) {
        if (c == 'l')
            ok = options_sizes(optarg, 0, &opt->latency);
        else if (c == 's')
            ok = options_sizes(optarg, 1, &opt->stream);
        else if (c == 'd')
            ok = parse_direction(optarg, opt);
        else if (c == 'm')
            ok = options_sizes(optarg, 0, &opt->rate);
        else if (c == 'w')
            ok = options_number(optarg, 1, MAX_WINDOW, &opt->window);
        else if (c == 'r')
            ok = options_number(optarg, 1, 100000, &opt->samples);
        else if (c == 't')
            ok = options_number(optarg, 1, 100000, &opt->trips);
        else if (c == 'o')
            ok = options_number(optarg, 0, 1, &opt->one_buffer);
        else
            ok = false;
    }
    return ok && optind == argc;
}

/* ---- data ---------------------------------------------------------------------------------- */

/* Each rank sends something else, and nothing that it sent before. */
static void new_data(struct bench *b, int bytes)
{
    b->generation++;
    mpi_bench_fill(b->tx, (size_t)bytes + MAX_WINDOW * WORD_BYTES,
                   b->generation << 16 | (uint64_t)b->rank);
}

static void check_data(const struct bench *b, const char *place, int bytes, int message,
                       const char *what)
{
    mpi_bench_check_from(place, (size_t)bytes, b->generation << 16 | (uint64_t)b->peer,
                         (uint64_t)(message * b->apart), what);
}

/* ---- one sample each ----------------------------------------------------------------------- */

static void round_trips(struct bench *b, int bytes, int count)
{
    for (int i = 0; i < count; i++) {
        if (b->first)
            MPI_Send(b->tx, bytes, MPI_CHAR, b->peer, TAG_TRIP, MPI_COMM_WORLD);
        MPI_Recv(b->rx, bytes, MPI_CHAR, b->peer, TAG_TRIP, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!b->first)
            MPI_Send(b->tx, bytes, MPI_CHAR, b->peer, TAG_TRIP, MPI_COMM_WORLD);
    }
}

static char *place_of(const struct bench *b, int bytes, int message)
{
    return b->rx + (b->opt.one_buffer ? 0 : (size_t)bytes * (size_t)message);
}

/* A window of messages from each of `senders`, ended by a short answer of each receiver, so that
 * time stops when all has arrived. */
static void one_window(struct bench *b, int bytes, int window, unsigned senders)
{
    bool sends = senders >> b->side & 1, receives = senders >> (1 - b->side) & 1;
    int n = 0;
    char answer = 0;

    for (int i = 0; receives && i < window; i++)
        MPI_Irecv(place_of(b, bytes, i), bytes, MPI_CHAR, b->peer, TAG_STREAM, MPI_COMM_WORLD,
                  &b->requests[n++]);
    for (int i = 0; sends && i < window; i++)
        MPI_Isend(b->tx + i * b->apart * WORD_BYTES, bytes, MPI_CHAR, b->peer, TAG_STREAM,
                  MPI_COMM_WORLD, &b->requests[n++]);
    MPI_Waitall(n, b->requests, MPI_STATUSES_IGNORE);
    if (receives)
        MPI_Send(&answer, 1, MPI_CHAR, b->peer, TAG_ANSWER, MPI_COMM_WORLD);
    if (sends)
        MPI_Recv(&answer, 1, MPI_CHAR, b->peer, TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* A sample ends when all pairs have done their part; the next one begins there. A single pair needs
 * no barrier: rank 0 hears of its end. */
static void begin_samples(struct bench *b)
{
    if (b->pairs > 1)
        MPI_Barrier(MPI_COMM_WORLD);
    b->last_end = samples_now();
}

static double end_sample(struct bench *b)
{
    if (b->pairs > 1)
        MPI_Barrier(MPI_COMM_WORLD);
    double begin = b->last_end;
    b->last_end = samples_now();
    return b->last_end - begin;
}

static double timed_windows(struct bench *b, int bytes, int window, unsigned senders, int count)
{
    for (int i = 0; i < count; i++)
        one_window(b, bytes, window, senders);
    return end_sample(b);
}

/* ---- figures ------------------------------------------------------------------------------- */

/* Each round trip of rank 0 by itself. */
static void lone_trips(struct bench *b, int bytes, int count, double *each)
{
    for (int i = 0; i < count; i++) {
        double begin = samples_now();
        round_trips(b, bytes, 1);
        each[i] = (samples_now() - begin) / 2 * 1e6;
    }
}

static int trips_of_sample(const struct bench *b, int bytes)
{
    const int trips = bytes <= 65536 ? 100 : 10;

    if (b->opt.trips)
        return b->opt.trips;
    /* Against the barriers, and the time slices of a crowded machine; in turns, the sleep. */
    return b->pairs > 1 || (turns_taken(&b->turns) && bytes <= 8192) ? 10 * trips : trips;
}

static void print_latency(struct bench *b, int bytes)
{
    const int n = b->opt.samples;

    if (b->opt.trips) {
        printf("tail bytes=%d pairs=%d ", bytes, b->pairs);
        samples_print_tail(b->times, n * b->opt.trips);
        return;
    }
    if (turns_taken(&b->turns))
        samples_print_times(b->times, n, 1);
    samples_sort(b->times, n);
    printf("latency bytes=%d pairs=%d us=%.3f min_us=%.3f p90_us=%.3f samples=%d\n", bytes,
           b->pairs, samples_quantile(b->times, n, 0.5), b->times[0],
           samples_quantile(b->times, n, 0.9), n);
}

static void latency(struct bench *b, int bytes)
{
    const int trips = trips_of_sample(b, bytes);

    turns_begin(&b->turns);
    new_data(b, bytes);
    round_trips(b, bytes, 2 * trips);
    check_data(b, b->rx, bytes, 0, "a first message");
    new_data(b, bytes);
    begin_samples(b);
    turns_end(&b->turns);
    for (int i = 0; i < b->opt.samples; i++) {
        turns_begin(&b->turns);
        for (int left = turns_samples(&b->turns); left > 0; left--) {
            if (b->opt.trips) {
                lone_trips(b, bytes, trips, b->times + i * trips);
                continue;
            }
            round_trips(b, bytes, trips);
            b->times[i] = end_sample(b) / (2 * trips) * 1e6;
        }
        turns_end(&b->turns);
    }
    turns_begin(&b->turns);
    check_data(b, b->rx, bytes, 0, "a last message");
    if (b->rank == 0)
        print_latency(b, bytes);
    fflush(stdout);
    turns_end(&b->turns);
}

static void check_window(const struct bench *b, int bytes, int window, unsigned senders,
                         const char *what)
{
    if (!(senders >> (1 - b->side) & 1))
        return;
    for (int i = 0; i < (b->opt.one_buffer ? 1 : window); i++)
        check_data(b, place_of(b, bytes, i), bytes, i, what);
}

/* How many windows make a sample; the same for all ranks. */
static int windows_per_sample(struct bench *b, int bytes, int window, unsigned senders)
{
    for (int count = 1;; count *= 2) {
        begin_samples(b);
        double seconds = mpi_bench_slowest(timed_windows(b, bytes, window, senders, count));
        if (seconds >= SAMPLES_SECONDS / 2 || count >= MAX_REPEATS)
            return samples_repeats(count, seconds / b->pairs, MAX_REPEATS);
    }
}

struct window_times {
    int windows;        /* in one sample */
    double cpu_seconds; /* of all ranks, for one window */
};

/* Fills rank 0's b->times with the seconds per window of all pairs. Its last turn is to be ended.
 */
static struct window_times time_windows(struct bench *b, int bytes, int window, unsigned senders)
{
    struct window_times t;
    int n = b->opt.samples;

    turns_begin(&b->turns);
    new_data(b, bytes);
    b->apart = !b->opt.one_buffer;
    (void)timed_windows(b, bytes, window, senders, 2);
    check_window(b, bytes, window, senders, "a first window's message");
    b->apart = 0;
    t.windows = windows_per_sample(b, bytes, window, senders);
    new_data(b, bytes);
    begin_samples(b);
    turns_end(&b->turns);
    t.cpu_seconds = 0;
    for (int i = 0; i < n; i++) {
        turns_begin(&b->turns);
        double cpu_seconds = 0;
        for (int left = turns_samples(&b->turns); left > 0; left--) {
            cpu_seconds = samples_cpu_seconds();
            b->times[i] = timed_windows(b, bytes, window, senders, t.windows) / t.windows;
        }
        t.cpu_seconds += samples_cpu_seconds() - cpu_seconds;
        turns_end(&b->turns);
    }
    turns_begin(&b->turns);
    t.cpu_seconds /= n * t.windows;
    check_window(b, bytes, window, senders, "a last window's message");
    mpi_bench_reduce(&t.cpu_seconds, 1, MPI_SUM);
    return t;
}

/* `amount` of something in a window; rank 0 prints how much in a second, of each sample. */
static void end_windows(struct bench *b, double amount)
{
    if (b->rank == 0 && turns_taken(&b->turns))
        samples_print_rates(b->times, b->opt.samples, amount);
    samples_sort(b->times, b->opt.samples);
}

static void stream(struct bench *b, int bytes, unsigned senders, const char *direction)
{
    int n = b->opt.samples, window = options_window(b->opt.window, bytes);
    struct window_times t = time_windows(b, bytes, window, senders);
    double moved = (double)bytes * window * (senders == BI ? 2 : 1) * b->pairs / 1e6;

    end_windows(b, moved);
    if (b->rank == 0)
        printf("stream bytes=%d window=%d pairs=%d direction=%s MBps=%.1f max_MBps=%.1f "
               "p10_MBps=%.1f cpu_s_per_GB=%.4f samples=%d windows=%d\n",
               bytes, window, b->pairs, direction, moved / samples_quantile(b->times, n, 0.5),
               moved / b->times[0], moved / samples_quantile(b->times, n, 0.9),
               t.cpu_seconds / moved * 1e3, n, t.windows);
    fflush(stdout);
    turns_end(&b->turns);
}

static void rate(struct bench *b, int bytes)
{
    int n = b->opt.samples, window = options_window(b->opt.window, bytes);
    struct window_times t = time_windows(b, bytes, window, UNI);
    double messages = window * b->pairs / 1e6;

    end_windows(b, messages);
    if (b->rank == 0)
        printf("rate bytes=%d window=%d pairs=%d Mmsgps=%.4f max_Mmsgps=%.4f p10_Mmsgps=%.4f "
               "samples=%d windows=%d\n",
               bytes, window, b->pairs, messages / samples_quantile(b->times, n, 0.5),
               messages / b->times[0], messages / samples_quantile(b->times, n, 0.9), n, t.windows);
    fflush(stdout);
    turns_end(&b->turns);
}

static void allocate(struct bench *b)
{
    const struct size_list *lists[] = {&b->opt.latency, &b->opt.stream, &b->opt.rate};
    size_t tx = 0, rx = 0;

    for (int i = 0; i < 3; i++) {
        size_t message = options_largest(lists[i]);
        size_t all = i ? options_window_bytes(b->opt.window, lists[i]) : message;
        tx = message > tx ? message : tx;
        rx = all > rx ? all : rx;
    }
    b->tx = mpi_bench_alloc(tx + MAX_WINDOW * WORD_BYTES);
    b->rx = mpi_bench_alloc(rx);
    b->times = mpi_bench_alloc((size_t)(b->opt.samples * (b->opt.trips ? b->opt.trips : 1)) *
                               sizeof *b->times);
}

static void run(struct bench *b)
{
    for (int i = 0; i < b->opt.latency.count; i++)
        latency(b, b->opt.latency.bytes[i]);
    for (int i = 0; i < b->opt.stream.count; i++) {
        if (b->opt.uni)
            stream(b, b->opt.stream.bytes[i], UNI, "uni");
        if (b->opt.bi)
            stream(b, b->opt.stream.bytes[i], BI, "bi");
    }
    for (int i = 0; i < b->opt.rate.count; i++)
        rate(b, b->opt.rate.bytes[i]);
}

int main(int argc, char **argv)
{
    static struct bench b;
    int ranks, rc = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    b.pairs = ranks / 2;
    b.first = b.rank < b.pairs;
    b.side = !b.first;
    b.peer = b.first ? b.rank + b.pairs : b.rank - b.pairs;
    if (ranks < 2 || ranks % 2 || !parse_options(argc, argv, &b.opt)) {
        if (b.rank == 0)
            fprintf(
                stderr,
                "usage: mpirun -np 2 %s [-l LATENCY_SIZES] [-s STREAM_SIZES] [-d uni|bi|both]\n"
                "       [-m RATE_SIZES] [-w WINDOW] [-r SAMPLES] [-t TRIPS] [-o 0|1]\n"
                "  any even number of ranks: i and i + n/2 are a pair\n"
                "  sizes: comma separated, in bytes, or none; -o 1: receive into one hot buffer\n"
                "  -t: times so many round trips of a sample each, and prints their quantiles\n",
                argv[0]);
        rc = 2;
    } else {
        allocate(&b);
        turns_open(&b.turns, b.rank == 0);
        turns_end(&b.turns);
        run(&b);
    }
    free(b.tx);
    free(b.rx);
    free(b.times);
    MPI_Finalize();
    return rc;
}
