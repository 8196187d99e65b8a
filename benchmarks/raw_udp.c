/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What UDP itself can do on loopback, as the yardstick for the transports above it: two pinned
 * processes with connected sockets that spin. Half round trip of one datagram, and one-way
 * streaming in 1472-byte segments (GSO and GRO) and in single large datagrams, each datagram led
 * by headers that do not count as payload. A credit window keeps every byte within the receiver's
 * socket buffer, so nothing is ever lost. The data is received into one hot buffer and not copied
 * further.
 */
#include "benchmarks/samples.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define BUFFER_BYTES    65536
#define SOCKET_BYTES    (2 << 20)
#define SILENCE_SECONDS 5.0

struct options {
    int bytes, header; /* payload of the round trip; headers of every datagram */
    int window;        /* bytes in flight of a stream */
    int samples;
    int sample_bytes; /* streamed per sample */
};

struct mode {
    const char *name;
    int segment; /* UDP payload per datagram */
    int train;   /* bytes per send call */
    bool gso;
};

static char buffer[BUFFER_BYTES];
static cpu_set_t allowed_cpus; /* before the first pinning */

static void die(const char *what)
{
    fprintf(stderr, "raw_udp: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* ---- sockets ------------------------------------------------------------------------------- */

static int open_socket(struct sockaddr_in *address)
{
    socklen_t len = sizeof *address;
    int bytes = SOCKET_BYTES, fd = socket(AF_INET, SOCK_DGRAM, 0);

    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)address, sizeof *address) ||
        getsockname(fd, (struct sockaddr *)address, &len))
        die("socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    return fd;
}

static void connect_socket(int fd, const struct sockaddr_in *to)
{
    if (connect(fd, (const struct sockaddr *)to, sizeof *to))
        die("connect");
}

/* Spins until something is there; gives up when the peer has been silent for long. */
static size_t spin_recv(int fd)
{
    double deadline = 0;
    for (unsigned spins = 1;; spins++) {
        ssize_t n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n >= 0)
            return (size_t)n;
        if (errno != EAGAIN && errno != EINTR)
            die("recv");
        if (spins % 65536 == 0) {
            double now = samples_now();
            deadline = deadline > 0 ? deadline : now + SILENCE_SECONDS;
            if (now > deadline) {
                errno = ETIMEDOUT;
                die("recv");
            }
        }
    }
}

static void send_all(int fd, size_t bytes)
{
    ssize_t n;
    do
        n = send(fd, buffer, bytes, 0);
    while (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR));
    if (n != (ssize_t)bytes)
        die("send");
}

/* ---- round trip ---------------------------------------------------------------------------- */

#define TRIPS_PER_SAMPLE 500

static void echo(int fd, const struct options *opt)
{
    for (int i = 0; i < (opt->samples + 1) * TRIPS_PER_SAMPLE; i++)
        send_all(fd, spin_recv(fd));
}

static void round_trips(int fd, size_t bytes)
{
    for (int i = 0; i < TRIPS_PER_SAMPLE; i++) {
        send_all(fd, bytes);
        (void)spin_recv(fd);
    }
}

static void latency(int fd, const struct options *opt, double *times)
{
    size_t bytes = (size_t)(opt->bytes + opt->header);
    int n = opt->samples;

    round_trips(fd, bytes);
    for (int i = 0; i < n; i++) {
        double begin = samples_now();
        round_trips(fd, bytes);
        times[i] = (samples_now() - begin) / (2 * TRIPS_PER_SAMPLE) * 1e6;
    }
    samples_sort(times, n);
    printf("latency bytes=%d header=%d us=%.3f min_us=%.3f p90_us=%.3f samples=%d\n", opt->bytes,
           opt->header, samples_quantile(times, n, 0.5), times[0], samples_quantile(times, n, 0.9),
           n);
}

/* ---- streaming ----------------------------------------------------------------------------- */

/* The receiver tells its total whenever a quarter of the window has come, and at each sample's
 * end. */
static void sink(int fd, const struct options *opt)
{
    uint64_t sample = (uint64_t)opt->sample_bytes;
    uint64_t end = sample * (uint64_t)(opt->samples + 1), got = 0, told = 0;

    while (got < end) {
        uint64_t before = got / sample;
        got += spin_recv(fd);
        if (got - told < (uint64_t)opt->window / 4 && got / sample == before)
            continue;
        memcpy(buffer, &got, sizeof got);
        send_all(fd, sizeof got);
        told = got;
    }
}

static void stream_until(int fd, const struct options *opt, const struct mode *mode, uint64_t end,
                         uint64_t *sent, uint64_t *acked)
{
    while (*acked < end) {
        uint64_t left = end - *sent;
        size_t train = left < (uint64_t)mode->train ? (size_t)left : (size_t)mode->train;
        if (left && *sent + train - *acked <= (uint64_t)opt->window) {
            send_all(fd, train);
            *sent += train;
        } else if (spin_recv(fd) == sizeof *acked) {
            memcpy(acked, buffer, sizeof *acked);
        }
    }
}

static void stream(int fd, const struct options *opt, const struct mode *mode, double *times)
{
    uint64_t sent = 0, acked = 0, sample = (uint64_t)opt->sample_bytes;
    double payload = (double)(mode->segment - opt->header) / mode->segment * opt->sample_bytes;
    int n = opt->samples;

    stream_until(fd, opt, mode, sample, &sent, &acked);
    for (int i = 0; i < n; i++) {
        double begin = samples_now();
        stream_until(fd, opt, mode, sample * (uint64_t)(i + 2), &sent, &acked);
        times[i] = samples_now() - begin;
    }
    samples_sort(times, n);
    printf("stream mode=%s segment=%d header=%d MBps=%.1f max_MBps=%.1f p10_MBps=%.1f "
           "samples=%d\n",
           mode->name, mode->segment, opt->header, payload / samples_quantile(times, n, 0.5) / 1e6,
           payload / times[0] / 1e6, payload / samples_quantile(times, n, 0.9) / 1e6, n);
}

/* ---- the two processes --------------------------------------------------------------------- */

/* Each on its own core, when there are two. */
static void pin(int which)
{
    cpu_set_t one;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed_cpus) || which-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

/* Runs one figure: mode NULL is the round trip. False when the other process failed. */
static bool measure(const struct options *opt, const struct mode *mode, double *times)
{
    struct sockaddr_in address[2];
    int fd[2] = {open_socket(&address[0]), open_socket(&address[1])}, status, one = 1;

    connect_socket(fd[0], &address[1]);
    connect_socket(fd[1], &address[0]);
    if (mode && mode->gso &&
        (setsockopt(fd[0], SOL_UDP, UDP_SEGMENT, &mode->segment, sizeof mode->segment) ||
         setsockopt(fd[1], SOL_UDP, UDP_GRO, &one, sizeof one))) {
        printf("stream mode=%s unsupported=1\n", mode->name);
        close(fd[0]);
        close(fd[1]);
        return true;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        pin(1);
        if (mode)
            sink(fd[1], opt);
        else
            echo(fd[1], opt);
        _exit(0);
    }
    pin(0);
    if (mode)
        stream(fd[0], opt, mode, times);
    else
        latency(fd[0], opt, times);
    fflush(stdout);
    close(fd[0]);
    close(fd[1]);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool parse_options(int argc, char **argv, struct options *opt)
{
    int c;
    *opt = (struct options){
        .bytes = 8, .header = 64, .window = 256 << 10, .samples = 51, .sample_bytes = 64 << 20};
    while ((c = getopt(argc, argv, "b:h:w:r:s:")) != -1) {
        int value = optarg ? atoi(optarg) : 0;
        if (c == 'b')
            opt->bytes = value;
        else if (c == 'h')
            opt->header = value;
        else if (c == 'w')
            opt->window = value << 10;
        else if (c == 'r')
            opt->samples = value;
        else if (c == 's')
            opt->sample_bytes = value << 20;
        else
            return false;
    }
    return optind == argc && opt->bytes >= 0 && opt->header >= 0 && opt->header <= 1024 &&
           opt->bytes + opt->header >= 1 && opt->bytes + opt->header <= 65000 &&
           opt->window >= BUFFER_BYTES && opt->window <= SOCKET_BYTES / 4 && opt->samples > 0 &&
           opt->samples <= 100000 && opt->sample_bytes > opt->window;
}

int main(int argc, char **argv)
{
    static const struct mode modes[] = {
        {.name = "gso_gro", .segment = 1472, .train = 44 * 1472, .gso = true},
        {.name = "large", .segment = 65000, .train = 65000, .gso = false},
    };
    struct options opt;
    double *times;
    bool ok;

    if (!parse_options(argc, argv, &opt)) {
        fprintf(stderr,
                "usage: %s [-b BYTES] [-h HEADER_BYTES] [-w WINDOW_KIB (64..512)] [-r SAMPLES] "
                "[-s SAMPLE_MIB]\n",
                argv[0]);
        return 2;
    }
    times = malloc((size_t)opt.samples * sizeof *times);
    if (!times || sched_getaffinity(0, sizeof allowed_cpus, &allowed_cpus))
        die("start");
    ok = measure(&opt, NULL, times);
    for (size_t i = 0; ok && i < sizeof modes / sizeof modes[0]; i++)
        ok = measure(&opt, &modes[i], times);
    free(times);
    return ok ? 0 : 1;
}
