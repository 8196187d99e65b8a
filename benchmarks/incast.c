/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Incast: all other ranks stream to rank 0, each with a window of messages outstanding, for a fixed
 * time. Rank 0 keeps a window of receives posted for each sender and counts what each gets through:
 * the goodput, and how evenly it is shared. Two ranks give the reference without contention. It
 * waits for the oldest receive of each sender only: to look through whole windows for every small
 * message would take the longer the more senders there are, whatever the transport.
 *
 * Sends are synchronous: the library may complete a small one before the receiver has taken it, and
 * then no window would hold a sender back from filling the receiver's memory.
 *
 * The end is bounded: when told to stop, a sender finishes its window and then sends as many empty
 * messages. Messages of one sender are matched in order, so these fill exactly the receives that
 * are then posted for it.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include "benchmarks/mpi_bench.h"
#include "benchmarks/options.h"
#include "benchmarks/samples.h"

#include <sched.h>
#include <unistd.h>

#define MAX_WINDOW 256
#define MAX_RANKS  4096
#define WARM_UP    0.25 /* seconds at most */

enum { TAG_DATA, TAG_STOP };

struct options {
    int bytes;
    int window;
    double seconds;
    int samples;
    bool own_core;
};

struct receiver {
    const struct options *opt;
    int senders;
    char *data;            /* one place for each message of each sender */
    MPI_Request *requests; /* as many; sender s has s * window .., a ring */
    MPI_Request *oldest;   /* of each sender, taken from its ring: what is waited for */
    int *turn;             /* where in its ring that one is */
    int *completed;        /* of MPI_Waitsome */
    MPI_Status *statuses;
    bool *filled;       /* which places ever got data */
    uint64_t *messages; /* received from each sender since `since` */
    double since;
};

static bool parse_options(int argc, char **argv, struct options *opt)
{
    bool ok = true;
    int c;

    *opt = (struct options){.bytes = 1 << 20, .window = 16, .seconds = 2, .samples = 1};
    opterr = 0;
    while (ok && (c = getopt(argc, argv, "b:w:t:r:c")) != -1) {
        if (c == 'b')
            ok = options_number(optarg, 1, OPTIONS_MAX_BYTES, &opt->bytes);
        else if (c == 'w')
            ok = options_number(optarg, 1, MAX_WINDOW, &opt->window);
        else if (c == 't')
            ok = options_seconds(optarg, &opt->seconds);
        else if (c == 'r')
            ok = options_number(optarg, 1, 10000, &opt->samples);
        else if (c == 'c')
            opt->own_core = true;
        else
            ok = false;
    }
    return ok && optind == argc;
}

/* A receiver on a host of its own is not kept off its core by those who send to it. Of this process
 * the calling thread moves; who is bound to one core already stays there. */
static void part_from_senders(int rank)
{
    cpu_set_t cores, own;
    size_t first = 0;

    if (sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) < 2)
        return;
    while (!CPU_ISSET(first, &cores))
        first++;
    CPU_ZERO(&own);
    CPU_SET(first, &own);
    CPU_CLR(first, &cores);
    if (sched_setaffinity(0, sizeof cores, rank == 0 ? &own : &cores) != 0)
        mpi_bench_fail("a rank could not be bound to a core");
}

/* ---- senders ------------------------------------------------------------------------------- */

static void send_until_stopped(const struct options *opt, int rank)
{
    MPI_Request requests[MAX_WINDOW + 1];
    int completed[MAX_WINDOW + 1], count, window = opt->window;
    char *data = mpi_bench_alloc((size_t)opt->bytes), stop;
    bool stopped = false;

    mpi_bench_fill(data, (size_t)opt->bytes, (uint64_t)rank);
    for (int i = 0; i < window; i++)
        MPI_Issend(data, opt->bytes, MPI_CHAR, 0, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
    MPI_Irecv(&stop, 1, MPI_CHAR, 0, TAG_STOP, MPI_COMM_WORLD, &requests[window]);
    while (!stopped) {
        MPI_Waitsome(window + 1, requests, &count, completed, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; i++)
            stopped = stopped || completed[i] == window;
        for (int i = 0; !stopped && i < count; i++)
            MPI_Issend(data, opt->bytes, MPI_CHAR, 0, TAG_DATA, MPI_COMM_WORLD,
                       &requests[completed[i]]);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < window; i++)
        MPI_Isend(data, 0, MPI_CHAR, 0, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    free(data);
}

/* ---- the receiver -------------------------------------------------------------------------- */

static void receiver_init(struct receiver *r, const struct options *opt, int senders)
{
    size_t places = (size_t)senders * (size_t)opt->window;

    *r = (struct receiver){.opt = opt, .senders = senders};
    r->data = mpi_bench_alloc(places * (size_t)opt->bytes);
    r->requests = mpi_bench_alloc(places * sizeof *r->requests);
    r->oldest = mpi_bench_alloc((size_t)senders * sizeof *r->oldest);
    r->completed = mpi_bench_alloc((size_t)senders * sizeof *r->completed);
    r->statuses = mpi_bench_alloc((size_t)senders * sizeof *r->statuses);
    r->turn = calloc((size_t)senders, sizeof *r->turn);
    r->filled = calloc(places, sizeof *r->filled);
    r->messages = calloc((size_t)senders, sizeof *r->messages);
    if (!r->turn || !r->filled || !r->messages)
        mpi_bench_fail("out of memory");
}

static void receiver_fini(struct receiver *r)
{
    free(r->data);
    free(r->requests);
    free(r->oldest);
    free(r->turn);
    free(r->completed);
    free(r->statuses);
    free(r->filled);
    free(r->messages);
}

static char *place_of(const struct receiver *r, int place)
{
    return r->data + (size_t)place * (size_t)r->opt->bytes;
}

static void post(struct receiver *r, int place)
{
    MPI_Irecv(place_of(r, place), r->opt->bytes, MPI_CHAR, 1 + place / r->opt->window, TAG_DATA,
              MPI_COMM_WORLD, &r->requests[place]);
}

static void post_all(struct receiver *r)
{
    for (int place = 0; place < r->senders * r->opt->window; place++)
        post(r, place);
    for (int s = 0; s < r->senders; s++)
        r->oldest[s] = r->requests[s * r->opt->window];
}

/* Counts the message in a place and posts its receive again; an empty one ends it for good. Returns
 * whether it was empty. */
static bool take_message(struct receiver *r, int place, const MPI_Status *status)
{
    int bytes;

    MPI_Get_count(status, MPI_CHAR, &bytes);
    if (bytes == 0) {
        r->requests[place] = MPI_REQUEST_NULL;
        return true;
    }
    if (bytes != r->opt->bytes)
        mpi_bench_fail("a message has the wrong length");
    r->messages[place / r->opt->window]++;
    r->filled[place] = true;
    post(r, place);
    return false;
}

/* A sender's oldest receive is complete: takes it and what has come after it, at most a window.
 * Returns how many were empty. */
static int take_messages(struct receiver *r, int sender, MPI_Status status)
{
    int window = r->opt->window, first = sender * window, empty = 0, complete = 1;

    for (int i = 0; complete && i < window; i++) {
        empty += take_message(r, first + r->turn[sender], &status);
        r->turn[sender] = (r->turn[sender] + 1) % window;
        MPI_Request *next = &r->requests[first + r->turn[sender]];
        complete = 0;
        if (i + 1 < window && *next != MPI_REQUEST_NULL)
            MPI_Test(next, &complete, &status);
    }
    r->oldest[sender] = r->requests[first + r->turn[sender]];
    return empty;
}

/* Waits for messages. Returns how many were empty. */
static int receive_some(struct receiver *r)
{
    int count, empty = 0;

    MPI_Waitsome(r->senders, r->oldest, &count, r->completed, r->statuses);
    for (int i = 0; i < count; i++)
        empty += take_messages(r, r->completed[i], r->statuses[i]);
    return empty;
}

static void receive_for(struct receiver *r, double seconds)
{
    double end = samples_now() + seconds;
    while (samples_now() < end)
        if (receive_some(r))
            mpi_bench_fail("a sender ended early");
}

/* The stop messages have arrived when the empty ones that they cause have. */
static void stop_senders(struct receiver *r)
{
    int left = r->senders * r->opt->window;
    char stop = 0;

    for (int s = 0; s < r->senders; s++) {
        MPI_Request request;
        MPI_Isend(&stop, 1, MPI_CHAR, 1 + s, TAG_STOP, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    while (left > 0)
        left -= receive_some(r);
    for (int place = 0; place < r->senders * r->opt->window; place++)
        if (r->filled[place])
            mpi_bench_check(place_of(r, place), (size_t)r->opt->bytes,
                            (uint64_t)(1 + place / r->opt->window), "a last message");
}

/* Takes the MB/s since the last call. */
static double take_goodput(struct receiver *r, uint64_t *shares)
{
    double now = samples_now(), moved = 0;

    for (int s = 0; s < r->senders; s++) {
        moved += (double)r->messages[s] * r->opt->bytes;
        shares[s] += r->messages[s];
        r->messages[s] = 0;
    }
    moved /= (now - r->since) * 1e6;
    r->since = now;
    return moved;
}

static void print_figure(const struct receiver *r, double *goodput, const uint64_t *shares)
{
    double sum = 0, squares = 0, least = (double)shares[0], n = r->senders;
    int samples = r->opt->samples;

    for (int s = 0; s < r->senders; s++) {
        double share = (double)shares[s];
        sum += share;
        squares += share * share;
        least = share < least ? share : least;
    }
    samples_sort(goodput, samples);
    printf("incast senders=%d bytes=%d window=%d MBps=%.1f max_MBps=%.1f p10_MBps=%.1f jain=%.4f "
           "min_share=%.4f samples=%d\n",
           r->senders, r->opt->bytes, r->opt->window, samples_quantile(goodput, samples, 0.5),
           goodput[samples - 1], samples_quantile(goodput, samples, 0.1),
           squares > 0 ? sum * sum / (n * squares) : 0, sum > 0 ? least * n / sum : 0, samples);
    fflush(stdout);
}

static void receive_all(const struct options *opt, int senders)
{
    static uint64_t shares[MAX_RANKS];
    double *goodput = mpi_bench_alloc((size_t)opt->samples * sizeof *goodput);
    struct receiver r;

    receiver_init(&r, opt, senders);
    post_all(&r);
    MPI_Barrier(MPI_COMM_WORLD);
    receive_for(&r, opt->seconds < WARM_UP ? opt->seconds : WARM_UP);
    (void)take_goodput(&r, shares);
    memset(shares, 0, sizeof shares);
    for (int i = 0; i < opt->samples; i++) {
        receive_for(&r, opt->seconds);
        goodput[i] = take_goodput(&r, shares);
    }
    stop_senders(&r);
    print_figure(&r, goodput, shares);
    receiver_fini(&r);
    free(goodput);
}

int main(int argc, char **argv)
{
    struct options opt;
    int rank, ranks, rc = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2 || ranks > MAX_RANKS || !parse_options(argc, argv, &opt)) {
        if (rank == 0)
            fprintf(stderr,
                    "usage: mpirun -np RANKS %s [-b BYTES] [-w WINDOW] [-t SECONDS] [-r SAMPLES]\n"
                    "       [-c]\n"
                    "  rank 0 receives; SECONDS are those of one sample; -c: rank 0 has a core to "
                    "itself\n",
                    argv[0]);
        rc = 2;
    } else {
        if (opt.own_core)
            part_from_senders(rank);
        if (rank == 0) {
            receive_all(&opt, ranks - 1);
        } else {
            MPI_Barrier(MPI_COMM_WORLD);
            send_until_stopped(&opt, rank);
        }
    }
    MPI_Finalize();
    return rc;
}
