/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What UDP and TCP sockets themselves can do, as the yardstick for the transports above them: two
 * pinned processes that spin on connected sockets, on one host or in two network namespaces. Half
 * round trip by size, and streaming: in one direction UDP in segments of one MTU (GSO and GRO) and
 * in single large datagrams, TCP in large writes; in both directions UDP in large datagrams.
 *
 * Each datagram and each message of a round trip is led by headers that do not count as payload. A
 * credit window keeps every byte of a UDP stream within the receiver's socket buffer. Data is sent
 * from and received into one hot buffer, or as much memory as asked for, and not copied further.
 * Nothing is repeated: when the network loses a datagram, both processes give up after a silence.
 *
 * The client decides what is measured, and tells the server over a control connection. Both must be
 * the same program on the same architecture.
 */
#include "benchmarks/options.h"
#include "benchmarks/raw_link.h"
#include "benchmarks/raw_server.h"
#include "benchmarks/samples.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SEGMENTS   64 /* of one GSO train, in all kernels that have it */
#define SHORT_TRIPS    500
#define LONG_TRIPS     20 /* from TCP's first message beyond LONG_BYTES on */
#define LONG_BYTES     (128 << 10)
#define ACCEPT_SECONDS 60.0

struct options {
    bool protocol[2];
    struct size_list latency;
    int header;  /* of every datagram */
    int window;  /* bytes in flight of a UDP stream */
    int segment; /* of a GSO train */
    int samples;
    int sample_bytes; /* streamed per sample and direction; 0 for no streams */
    int memory_bytes; /* of UDP's streams; 0: one hot buffer */
    bool uni, bi;     /* streams in one direction, in both */
    bool gso, large;  /* UDP's in one direction in trains, in single datagrams */
    struct raw_address own, listen, connect;
    bool listens, connects;
};

struct client {
    struct options opt;
    int control;
    double *times;
    struct turns turns;
};

static const char *const protocol_names[] = {"udp", "tcp"};

/* Whether the kernel lists a CPU as the first hardware thread of its core that may be used; where
 * it lists nothing, it is alone. */
static bool leads_its_core(size_t cpu, const cpu_set_t *allowed)
{
    char path[96];
    size_t first, last;
    char sign;
    bool leads = true;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
             cpu);
    FILE *list = fopen(path, "r");
    if (!list)
        return true;
    /* "0-1,4": ranges, parted by commas. */
    for (int got; leads && (got = fscanf(list, "%zu%c", &first, &sign)) >= 1;) {
        last = first;
        if (got == 2 && sign == '-' && fscanf(list, "%zu%c", &last, &sign) < 1)
            break;
        for (; leads && first <= last && first < cpu; first++)
            leads = !CPU_ISSET(first, allowed);
    }
    fclose(list);
    return leads;
}

/* Each process on its own core, when there are two. */
static void pin(int which)
{
    cpu_set_t allowed, one;
    int before = which;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || !leads_its_core(cpu, &allowed) || before-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one);
        return;
    }
    fprintf(stderr, "raw_sockets: one core for two spinning processes: no limit of the sockets is "
                    "measured\n");
}

/* ---- the client ---------------------------------------------------------------------------- */

/* The client's socket for a measure, or -1 when the kernels cannot do it. */
static int ask(const struct client *c, struct raw_request *r)
{
    struct raw_address at = raw_local(c->control), to = raw_remote(c->control);
    struct raw_reply reply;
    int fd = -1;

    r->magic = RAW_MAGIC;
    if (r->protocol == RAW_UDP) {
        fd = raw_udp(&at, (int)r->socket_bytes);
        if (r->gso && !raw_set_gso(fd, (int)r->segment))
            r->window = 0; /* for the server to refuse it, too */
        at = raw_local(fd);
        r->port = raw_port(&at);
    }
    raw_tell(c->control, r, sizeof *r);
    raw_hear(c->control, &reply, sizeof reply);
    raw_set_port(&to, (uint16_t)reply.port);
    if (!reply.usable) {
        close(fd);
        return -1;
    }
    if (r->protocol == RAW_TCP)
        return raw_dial(&to, (int)r->socket_bytes, RAW_DIAL_SECONDS);
    r->window = reply.window;
    raw_connect(fd, &to);
    return fd;
}

/* Ends a measure; returns the server's CPU time. */
static double finish(const struct client *c, int fd)
{
    double cpu;
    raw_hear(c->control, &cpu, sizeof cpu);
    close(fd);
    return cpu;
}

static uint32_t samples_taken(const struct client *c)
{
    return (uint32_t)(c->opt.samples * turns_samples(&c->turns));
}

static double round_trips(int fd, const struct raw_request *r, int count)
{
    double begin = samples_now();
    for (int i = 0; i < count; i++) {
        raw_send_message(fd, r);
        raw_receive_bytes(fd, r->bytes);
    }
    return samples_now() - begin;
}

static void latency(struct client *c, uint32_t protocol, int bytes)
{
    int n = c->opt.samples, trips = bytes > LONG_BYTES ? LONG_TRIPS : SHORT_TRIPS;
    int payload = protocol == RAW_UDP ? RAW_DATAGRAM_BYTES - c->opt.header : INT32_MAX;
    int parts = bytes > payload ? (bytes + payload - 1) / payload : 1;
    struct raw_request r = {.what = RAW_ROUND_TRIPS,
                            .protocol = protocol,
                            .bytes = (uint32_t)bytes + (uint32_t)(parts * c->opt.header),
                            .trips = (uint32_t)trips,
                            .samples = samples_taken(c),
                            .window = (uint32_t)c->opt.window,
                            .socket_bytes = protocol == RAW_UDP ? RAW_SOCKET_BYTES : 0};

    turns_begin(&c->turns);
    int fd = ask(c, &r);
    if (fd < 0) {
        printf("latency protocol=udp bytes=%d unsupported=1\n", bytes);
        turns_pass(&c->turns, n);
        return;
    }
    (void)round_trips(fd, &r, trips);
    turns_end(&c->turns);
    for (int i = 0; i < n; i++) {
        turns_begin(&c->turns);
        for (int left = turns_samples(&c->turns); left > 0; left--)
            c->times[i] = round_trips(fd, &r, trips) / (2 * trips) * 1e6;
        turns_end(&c->turns);
    }
    turns_begin(&c->turns);
    (void)finish(c, fd);
    if (turns_taken(&c->turns))
        samples_print_times(c->times, n, 1);
    samples_sort(c->times, n);
    printf("latency protocol=%s bytes=%d header=%d us=%.3f min_us=%.3f p90_us=%.3f samples=%d\n",
           protocol_names[protocol], bytes, c->opt.header, samples_quantile(c->times, n, 0.5),
           c->times[0], samples_quantile(c->times, n, 0.9), n);
    fflush(stdout);
    turns_end(&c->turns);
}

struct progress {
    uint64_t sent, acked;
    struct raw_memory from;
    struct raw_exchange exchange;
    uint64_t exchange_end;
};

static void stream_until(int fd, const struct raw_request *r, uint64_t end, struct progress *p)
{
    while (p->acked < end) {
        uint64_t left = end - p->sent, told;
        size_t train = left < r->train ? (size_t)left : r->train;
        if (left && p->sent + train - p->acked <= r->window) {
            raw_spin_send(fd, raw_memory_next(&p->from), train);
            p->sent += train;
        } else if (raw_spin_recv(fd, &told, sizeof told) == sizeof told && told > p->acked) {
            p->acked = told;
        }
    }
}

static void stream_sample(int fd, const struct raw_request *r, struct progress *p)
{
    uint32_t answer;

    if (r->what == RAW_EXCHANGE) {
        p->exchange_end += r->sample_bytes;
        raw_exchange(fd, r, p->exchange_end, &p->exchange);
        return;
    }
    if (r->protocol == RAW_UDP) {
        stream_until(fd, r, p->acked + r->sample_bytes, p);
        return;
    }
    for (size_t left = r->sample_bytes; left > 0;) {
        size_t part = left < RAW_CHUNK_BYTES ? left : RAW_CHUNK_BYTES;
        raw_spin_send(fd, raw_buffer, part);
        left -= part;
    }
    for (size_t got = 0; got < sizeof answer;)
        got += raw_spin_recv(fd, &answer, sizeof answer - got);
}

struct stream_figure {
    double median, best, p90; /* seconds of a sample */
    double cpu_seconds;       /* of a sample, both processes */
};

/* `payload` is that of a sample. False: it cannot be measured here. */
static bool stream(struct client *c, struct raw_request *r, double payload,
                   struct stream_figure *figure)
{
    struct progress p = {0};
    int fd, n = c->opt.samples;
    double cpu = 0;
    const bool exchanges = r->what == RAW_EXCHANGE;

    r->memory_bytes = r->protocol == RAW_UDP ? (uint32_t)c->opt.memory_bytes : 0;
    r->sample_bytes = (uint32_t)c->opt.sample_bytes;
    r->samples = samples_taken(c);
    turns_begin(&c->turns);
    fd = ask(c, r);
    if (fd < 0) {
        turns_pass(&c->turns, n);
        return false;
    }
    r->train = r->train < r->window ? r->train : r->window / r->segment * r->segment;
    p.from = raw_memory_get(exchanges ? 0 : r->memory_bytes);
    p.exchange.from = raw_memory_get(exchanges ? r->memory_bytes : 0);
    p.exchange.into = raw_memory_get(exchanges ? r->memory_bytes : 0);
    stream_sample(fd, r, &p);
    turns_end(&c->turns);
    for (int i = 0; i < n; i++) {
        double cpu_seconds = 0;
        turns_begin(&c->turns);
        for (int left = turns_samples(&c->turns); left > 0; left--) {
            cpu_seconds = samples_cpu_seconds();
            double begin = samples_now();
            stream_sample(fd, r, &p);
            c->times[i] = samples_now() - begin;
        }
        cpu += samples_cpu_seconds() - cpu_seconds;
        turns_end(&c->turns);
    }
    turns_begin(&c->turns);
    cpu += finish(c, fd);
    if (turns_taken(&c->turns))
        samples_print_rates(c->times, n, payload / 1e6);
    raw_memory_put(&p.from);
    raw_memory_put(&p.exchange.from);
    raw_memory_put(&p.exchange.into);
    samples_sort(c->times, n);
    *figure = (struct stream_figure){.median = samples_quantile(c->times, n, 0.5),
                                     .best = c->times[0],
                                     .p90 = samples_quantile(c->times, n, 0.9),
                                     .cpu_seconds = cpu / n};
    turns_end(&c->turns);
    return true;
}

/* The numbers at the end of a stream's line; `payload` is that of a sample. */
static void print_stream(const struct stream_figure *f, double payload, int samples)
{
    printf(" MBps=%.1f max_MBps=%.1f p10_MBps=%.1f cpu_s_per_GB=%.4f samples=%d\n",
           payload / f->median / 1e6, payload / f->best / 1e6, payload / f->p90 / 1e6,
           f->cpu_seconds / payload * 1e9, samples);
    fflush(stdout);
}

static void stream_udp(struct client *c, bool gso)
{
    int segment = gso ? c->opt.segment : RAW_DATAGRAM_BYTES,
        segments = RAW_DATAGRAM_BYTES / segment;
    const char *mode = gso ? "gso_gro" : "large";
    struct raw_request r = {.what = RAW_STREAM,
                            .protocol = RAW_UDP,
                            .gso = gso,
                            .segment = (uint32_t)segment,
                            .window = (uint32_t)c->opt.window,
                            .socket_bytes = RAW_SOCKET_BYTES};
    struct stream_figure figure;
    const double payload = (double)(segment - c->opt.header) / segment * c->opt.sample_bytes;

    r.train = r.segment * (uint32_t)(segments < MAX_SEGMENTS ? segments : MAX_SEGMENTS);
    if (!stream(c, &r, payload, &figure)) {
        printf("stream protocol=udp mode=%s unsupported=1\n", mode);
        return;
    }
    printf("stream protocol=udp mode=%s segment=%d header=%d window=%u", mode, segment,
           c->opt.header, r.window);
    print_stream(&figure, payload, c->opt.samples);
}

static void exchange_udp(struct client *c)
{
    struct raw_request r = {.what = RAW_EXCHANGE,
                            .protocol = RAW_UDP,
                            .segment = RAW_DATAGRAM_BYTES,
                            .train = RAW_DATAGRAM_BYTES,
                            .window = (uint32_t)c->opt.window,
                            .socket_bytes = RAW_SOCKET_BYTES};
    struct stream_figure figure;
    const double payload =
        2.0 * (RAW_DATAGRAM_BYTES - c->opt.header) / RAW_DATAGRAM_BYTES * c->opt.sample_bytes;

    if (!stream(c, &r, payload, &figure)) {
        printf("stream protocol=udp mode=large direction=bi unsupported=1\n");
        return;
    }
    printf("stream protocol=udp mode=large direction=bi segment=%u header=%d window=%u", r.segment,
           c->opt.header, r.window);
    print_stream(&figure, payload, c->opt.samples);
}

/* The kernel's own tuning of the socket buffers, or a fixed large size, whichever is better. */
static void stream_tcp(struct client *c)
{
    struct stream_figure tuned, large;
    struct raw_request r = {.what = RAW_STREAM, .protocol = RAW_TCP, .segment = 1};
    bool better;

    (void)stream(c, &r, c->opt.sample_bytes, &tuned);
    r.socket_bytes = RAW_SOCKET_BYTES;
    (void)stream(c, &r, c->opt.sample_bytes, &large);
    better = large.median < tuned.median;
    printf("stream protocol=tcp mode=stream buffers=%s header=0", better ? "large" : "default");
    print_stream(better ? &large : &tuned, c->opt.sample_bytes, c->opt.samples);
}

static void measure(struct client *c)
{
    struct raw_request end = {.magic = RAW_MAGIC, .what = RAW_END};

    for (uint32_t protocol = RAW_UDP; protocol <= RAW_TCP; protocol++)
        for (int i = 0; c->opt.protocol[protocol] && i < c->opt.latency.count; i++)
            latency(c, protocol, c->opt.latency.bytes[i]);
    const bool udp = c->opt.sample_bytes && c->opt.protocol[RAW_UDP];
    if (udp && c->opt.uni && c->opt.gso)
        stream_udp(c, true);
    if (udp && c->opt.uni && c->opt.large)
        stream_udp(c, false);
    if (udp && c->opt.bi)
        exchange_udp(c);
    if (c->opt.sample_bytes && c->opt.protocol[RAW_TCP])
        stream_tcp(c);
    raw_tell(c->control, &end, sizeof end);
}

/* ---- the two processes --------------------------------------------------------------------- */

static void run_server(int listener)
{
    int control = raw_accept(listener, ACCEPT_SECONDS);
    struct turns turns;
    close(listener);
    pin(1);
    turns_open(&turns, false);
    turns_end(&turns);
    raw_serve(control, &turns);
    close(control);
}

static void run_client(struct client *c, const struct raw_address *server)
{
    c->times = malloc((size_t)c->opt.samples * sizeof *c->times);
    if (!c->times)
        raw_die("out of memory");
    c->control = raw_dial(server, 0, RAW_DIAL_SECONDS);
    pin(0);
    turns_open(&c->turns, true);
    turns_end(&c->turns);
    measure(c);
    close(c->control);
    free(c->times);
}

/* Both ends on this host; true when the server ended well, too. */
static bool run_both(struct client *c)
{
    int listener = raw_listen(&c->opt.own, 0), status;
    struct raw_address at = raw_local(listener);
    pid_t child = fork();

    if (child < 0)
        raw_die("fork");
    if (child == 0) {
        run_server(listener);
        _exit(0);
    }
    close(listener);
    run_client(c, &at);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool parse_protocol(const char *text, struct options *opt)
{
    bool both = !strcmp(text, "both");
    opt->protocol[RAW_UDP] = both || !strcmp(text, "udp");
    opt->protocol[RAW_TCP] = both || !strcmp(text, "tcp");
    return opt->protocol[RAW_UDP] || opt->protocol[RAW_TCP];
}

static bool parse_option(int c, const char *value, struct options *opt)
{
    switch (c) {
    case 'p':
        return parse_protocol(value, opt);
    case 'l':
        return options_sizes(value, 0, &opt->latency);
    case 'h':
        return options_number(value, 0, 1024, &opt->header);
    case 'w':
        return options_number(value, 64, RAW_SOCKET_BYTES >> 12, &opt->window);
    case 'm':
        return options_number(value, 1, RAW_DATAGRAM_BYTES, &opt->segment);
    case 'r':
        return options_number(value, 1, 100000, &opt->samples);
    case 's':
        return options_number(value, 0, 1024, &opt->sample_bytes);
    case 'b':
        return options_number(value, 0, RAW_MEMORY_MAX >> 20, &opt->memory_bytes);
    case 'd':
        opt->uni = strcmp(value, "bi") != 0;
        opt->bi = strcmp(value, "uni") != 0;
        return !(opt->uni && opt->bi) || !strcmp(value, "both");
    case 'g':
        opt->gso = !strcmp(value, "on");
        opt->large = !strcmp(value, "off");
        return opt->gso || opt->large;
    case 'a':
        return raw_parse_address(value, false, &opt->own);
    case 'L':
        opt->listens = true;
        return raw_parse_address(value, true, &opt->listen);
    case 'C':
        opt->connects = true;
        return raw_parse_address(value, true, &opt->connect);
    default:
        return false;
    }
}

static bool parse_options(int argc, char **argv, struct options *opt)
{
    bool ok = true;
    int c;

    *opt = (struct options){.protocol = {true, true},
                            .latency = {.bytes = {8}, .count = 1},
                            .header = 64,
                            .window = 256,
                            .segment = 1472,
                            .samples = 51,
                            .sample_bytes = 64,
                            .uni = true,
                            .gso = true,
                            .large = true};
    (void)raw_parse_address("127.0.0.1", false, &opt->own);
    opterr = 0;
    while (ok && (c = getopt(argc, argv, "p:l:h:w:m:r:s:b:d:g:a:L:C:")) != -1)
        ok = parse_option(c, optarg, opt);
    opt->window <<= 10;
    opt->sample_bytes <<= 20;
    opt->memory_bytes <<= 20;
    for (int i = 0; i < opt->latency.count; i++)
        ok = ok && opt->latency.bytes[i] + opt->header > 0;
    return ok && optind == argc && opt->segment > opt->header && !(opt->listens && opt->connects);
}

int main(int argc, char **argv)
{
    static struct client c;

    if (!parse_options(argc, argv, &c.opt)) {
        fprintf(stderr,
                "usage: %s [-p udp|tcp|both] [-l LATENCY_SIZES] [-h HEADER_BYTES]\n"
                "       [-w WINDOW_KIB (64..512)] [-m SEGMENT_BYTES] [-r SAMPLES] [-s SAMPLE_MIB]\n"
                "       [-b MEMORY_MIB] [-d uni|bi|both] [-g on|off]\n"
                "       [-a ADDRESS | -L ADDRESS:PORT | -C ADDRESS:PORT]\n"
                "  sizes: comma separated, in bytes, or none; -s 0 leaves the streams out\n"
                "  -d: streams in one direction (the default), UDP's in both directions, or all\n"
                "  -g: UDP's in one direction as GSO trains only, or as single datagrams only\n"
                "  -b: UDP's streams take and fill so much memory in turn, as a program's do,\n"
                "      and not one hot buffer\n"
                "  -m: UDP payload of a segment of a GSO train, the MTU less 28 (IPv6: 48)\n"
                "  -a: both processes here, on this address (default 127.0.0.1)\n"
                "  -L, -C: serve one client; measure against such a server\n",
                argv[0]);
        return 2;
    }
    if (c.opt.listens)
        run_server(raw_listen(&c.opt.listen, 0));
    else if (c.opt.connects)
        run_client(&c, &c.opt.connect);
    else if (!run_both(&c))
        return 1;
    return 0;
}
