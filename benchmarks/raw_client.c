/* SPDX-License-Identifier: BSD-3-Clause */
/* The process of the raw benchmark that measures; see raw_client.h. */
#include "benchmarks/raw_client.h"
#include "benchmarks/raw_link.h"
#include "benchmarks/raw_server.h"
#include "benchmarks/samples.h"

#include <stdio.h>
#include <unistd.h>

#define MAX_SEGMENTS 64 /* of one GSO train, in all kernels that have it */
#define SHORT_TRIPS  500
#define LONG_TRIPS   20 /* of messages beyond LONG_BYTES */
#define LONG_BYTES   (128 << 10)
/* Messages of a stream have as much memory as those of latency_bandwidth, and a sample at most so
 * many: sending one takes a microsecond and more. */
#define WINDOW_MESSAGES 64
#define SAMPLE_MESSAGES 8192

struct client {
    const struct raw_plan *plan;
    int control;
    double *times; /* of the samples, or of all their round trips */
    struct turns *turns;
};

static const char *name_of(const struct client *c, uint32_t protocol)
{
    return protocol == RAW_TCP ? "tcp" : c->plan->sealed ? "udp-sealed" : "udp";
}

/* The client's socket for a measure, or -1 when the kernels cannot do it. */
static int ask(const struct client *c, struct raw_request *r)
{
    struct raw_address at = raw_local(c->control), to = raw_remote(c->control);
    struct raw_reply reply;
    int fd = -1;

    r->magic = RAW_MAGIC;
    if (r->protocol == RAW_UDP) {
        fd = raw_udp(&at, (int)r->socket_bytes);
        if (r->gso &&
            (!raw_set_gso(fd, (int)r->segment) || (r->what == RAW_ROUND_TRIPS && !raw_set_gro(fd))))
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
    raw_fit_train(r);
    raw_connect(fd, &to);
    return fd;
}

/* Ends a measure; returns the server's CPU time. */
static double finish(const struct client *c, int fd)
{
    const char done = 1;
    double cpu;

    raw_tell(c->control, &done, sizeof done);
    raw_hear(c->control, &cpu, sizeof cpu);
    close(fd);
    return cpu;
}

static uint32_t samples_taken(const struct client *c)
{
    return (uint32_t)(c->plan->samples * turns_samples(c->turns));
}

/* A request for messages of so many bytes of payload (0: a stream without messages): headers,
 * segments, trains and the window that fits them. */
static struct raw_request request_of(const struct client *c, uint32_t what, uint32_t protocol,
                                     bool gso, uint32_t bytes)
{
    const uint32_t header = (uint32_t)c->plan->header;
    struct raw_request r = {.what = what,
                            .protocol = protocol,
                            .message = bytes,
                            .samples = samples_taken(c),
                            .window = (uint32_t)c->plan->window,
                            .segment = gso ? (uint32_t)c->plan->segment : RAW_DATAGRAM_BYTES,
                            .train = RAW_CHUNK_BYTES};

    if (protocol == RAW_TCP) {
        r.message += bytes || what == RAW_ROUND_TRIPS ? header : 0;
        return r;
    }
    if (bytes || what == RAW_ROUND_TRIPS) {
        uint32_t payload = r.segment - header;
        uint32_t datagrams = bytes > payload ? (bytes + payload - 1) / payload : 1;
        r.message = bytes + datagrams * header;
        r.sealed = c->plan->sealed ? header - RAW_CRC_BYTES : 0;
    }
    uint32_t segments = RAW_DATAGRAM_BYTES / r.segment;
    r.train = r.segment * (segments < MAX_SEGMENTS ? segments : MAX_SEGMENTS);
    r.gso = gso && (!r.message || r.message > r.segment || what == RAW_STREAM);
    r.socket_bytes = RAW_SOCKET_BYTES;
    return r;
}

/* ---- round trips --------------------------------------------------------------------------- */

static double round_trips(struct raw_flow *flow, uint32_t count, double *each)
{
    double begin = samples_now(), last = begin;
    for (uint32_t i = 0; i < count; i++) {
        raw_send_message(flow);
        raw_receive_message(flow);
        if (each) {
            double now = samples_now();
            each[i] = (now - last) / 2 * 1e6;
            last = now;
        }
    }
    return samples_now() - begin;
}

static void print_latency(struct client *c, uint32_t protocol, int bytes)
{
    const int n = c->plan->samples, all = n * c->plan->trips;

    if (turns_taken(c->turns) && !all)
        samples_print_times(c->times, n, 1);
    if (all) {
        printf("tail protocol=%s bytes=%d ", name_of(c, protocol), bytes);
        samples_print_tail(c->times, all);
    } else {
        samples_sort(c->times, n);
        printf("latency protocol=%s bytes=%d header=%d us=%.3f min_us=%.3f p90_us=%.3f "
               "samples=%d\n",
               name_of(c, protocol), bytes, c->plan->header, samples_quantile(c->times, n, 0.5),
               c->times[0], samples_quantile(c->times, n, 0.9), n);
    }
    fflush(stdout);
}

static void latency(struct client *c, uint32_t protocol, int bytes)
{
    const int n = c->plan->samples, alone = c->plan->trips;
    const bool gso = c->plan->gso && !c->plan->large;
    struct raw_request r = request_of(c, RAW_ROUND_TRIPS, protocol, gso, (uint32_t)bytes);

    r.trips = alone ? (uint32_t)alone : bytes > LONG_BYTES ? LONG_TRIPS : SHORT_TRIPS;
    r.memory_bytes = (uint32_t)bytes;
    turns_begin(c->turns);
    int fd = ask(c, &r);
    if (fd < 0) {
        printf("latency protocol=udp bytes=%d unsupported=1\n", bytes);
        turns_pass(c->turns, n);
        return;
    }
    struct raw_flow flow = raw_flow_open(fd, &r);
    (void)round_trips(&flow, r.trips, NULL);
    turns_end(c->turns);
    for (int i = 0; i < n; i++) {
        turns_begin(c->turns);
        for (int left = turns_samples(c->turns); left > 0; left--) {
            double seconds = round_trips(&flow, r.trips, alone ? c->times + i * alone : NULL);
            if (!alone)
                c->times[i] = seconds / (2 * r.trips) * 1e6;
        }
        turns_end(c->turns);
    }
    turns_begin(c->turns);
    (void)finish(c, fd);
    raw_flow_close(&flow);
    print_latency(c, protocol, bytes);
    turns_end(c->turns);
}

/* ---- streams ------------------------------------------------------------------------------- */

static void stream_sample(struct raw_flow *flow, uint64_t number)
{
    const struct raw_request *r = flow->r;
    uint32_t answer;

    if (r->what == RAW_EXCHANGE) {
        raw_exchange(flow, number * r->sample_bytes);
        return;
    }
    if (r->protocol == RAW_UDP) {
        raw_stream_until(flow, number * r->sample_bytes);
        return;
    }
    for (size_t left = r->sample_bytes; left > 0;) {
        size_t message = r->message ? r->message - (r->sample_bytes - left) % r->message : left;
        size_t part = message < RAW_CHUNK_BYTES ? message : RAW_CHUNK_BYTES;
        raw_spin_send(flow->fd, raw_memory_at(&flow->from), part);
        raw_memory_pass(&flow->from, part);
        left -= part;
    }
    for (size_t got = 0; got < sizeof answer;)
        got += raw_spin_recv(flow->fd, &answer, sizeof answer - got);
}

struct stream_figure {
    double median, best, p90; /* seconds of a sample */
    double cpu_seconds;       /* of a sample, both processes */
};

/* `payload` is that of a sample. False: it cannot be measured here. */
static bool stream(struct client *c, struct raw_request *r, double payload,
                   struct stream_figure *figure)
{
    const int n = c->plan->samples;
    uint64_t number = 0;
    double cpu = 0;

    turns_begin(c->turns);
    int fd = ask(c, r);
    if (fd < 0) {
        turns_pass(c->turns, n);
        return false;
    }
    struct raw_flow flow = raw_flow_open(fd, r);
    stream_sample(&flow, ++number);
    turns_end(c->turns);
    for (int i = 0; i < n; i++) {
        double cpu_seconds = 0;
        turns_begin(c->turns);
        for (int left = turns_samples(c->turns); left > 0; left--) {
            cpu_seconds = samples_cpu_seconds();
            double begin = samples_now();
            stream_sample(&flow, ++number);
            c->times[i] = samples_now() - begin;
        }
        cpu += samples_cpu_seconds() - cpu_seconds;
        turns_end(c->turns);
    }
    turns_begin(c->turns);
    cpu += finish(c, fd);
    raw_flow_close(&flow);
    if (turns_taken(c->turns))
        samples_print_rates(c->times, n, payload / 1e6);
    samples_sort(c->times, n);
    *figure = (struct stream_figure){.median = samples_quantile(c->times, n, 0.5),
                                     .best = c->times[0],
                                     .p90 = samples_quantile(c->times, n, 0.9),
                                     .cpu_seconds = cpu / n};
    turns_end(c->turns);
    return true;
}

/* The numbers at the end of a stream's line; `payload` is that of a sample. */
static void print_stream(const struct stream_figure *f, double payload, int samples)
{
    printf(" MBps=%.3f max_MBps=%.3f p10_MBps=%.3f cpu_s_per_GB=%.4f samples=%d\n",
           payload / f->median / 1e6, payload / f->best / 1e6, payload / f->p90 / 1e6,
           f->cpu_seconds / payload * 1e9, samples);
    fflush(stdout);
}

/* Payload of a sample of UDP's streams without messages. */
static double share_of_payload(const struct client *c, const struct raw_request *r)
{
    return (double)(r->segment - (uint32_t)c->plan->header) / r->segment * c->plan->sample_bytes;
}

static void stream_udp(struct client *c, bool gso)
{
    const char *mode = gso ? "gso_gro" : "large";
    struct raw_request r = request_of(c, RAW_STREAM, RAW_UDP, gso, 0);
    struct stream_figure figure;
    const double payload = share_of_payload(c, &r);

    r.sample_bytes = (uint32_t)c->plan->sample_bytes;
    r.memory_bytes = (uint32_t)c->plan->memory_bytes;
    if (!stream(c, &r, payload, &figure)) {
        printf("stream protocol=udp mode=%s unsupported=1\n", mode);
        return;
    }
    printf("stream protocol=udp mode=%s segment=%u header=%d window=%u", mode, r.segment,
           c->plan->header, r.window);
    print_stream(&figure, payload, c->plan->samples);
}

static void exchange_udp(struct client *c)
{
    struct raw_request r = request_of(c, RAW_EXCHANGE, RAW_UDP, false, 0);
    struct stream_figure figure;
    const double payload = 2 * share_of_payload(c, &r);

    r.sample_bytes = (uint32_t)c->plan->sample_bytes;
    r.memory_bytes = (uint32_t)c->plan->memory_bytes;
    if (!stream(c, &r, payload, &figure)) {
        printf("stream protocol=udp mode=large direction=bi unsupported=1\n");
        return;
    }
    printf("stream protocol=udp mode=large direction=bi segment=%u header=%d window=%u", r.segment,
           c->plan->header, r.window);
    print_stream(&figure, payload, c->plan->samples);
}

/* The kernel's own tuning of the socket buffers, or a fixed large size, whichever is better. */
static void stream_tcp(struct client *c)
{
    struct stream_figure tuned, large;
    struct raw_request r = request_of(c, RAW_STREAM, RAW_TCP, false, 0);
    bool better;

    r.sample_bytes = (uint32_t)c->plan->sample_bytes;
    (void)stream(c, &r, c->plan->sample_bytes, &tuned);
    r.socket_bytes = RAW_SOCKET_BYTES;
    (void)stream(c, &r, c->plan->sample_bytes, &large);
    better = large.median < tuned.median;
    printf("stream protocol=tcp mode=stream buffers=%s header=0", better ? "large" : "default");
    print_stream(better ? &large : &tuned, c->plan->sample_bytes, c->plan->samples);
}

/* In messages, each of which has a call of its own, and from and into as much memory as the window
 * of an MPI program has. TCP's buffers are left to the kernel, as the tcp BTL leaves them. */
static void stream_messages(struct client *c, uint32_t protocol, int bytes)
{
    const bool gso = c->plan->gso;
    struct raw_request r = request_of(c, RAW_STREAM, protocol, gso, (uint32_t)bytes);
    struct stream_figure figure;
    int messages = c->plan->sample_bytes / bytes;

    messages = messages < 1 ? 1 : messages < SAMPLE_MESSAGES ? messages : SAMPLE_MESSAGES;
    r.sample_bytes = r.message * (uint32_t)messages;
    r.memory_bytes = (uint32_t)(options_window(WINDOW_MESSAGES, bytes) * bytes);
    const double payload = (double)bytes * messages;
    if (!stream(c, &r, payload, &figure)) {
        printf("stream protocol=udp bytes=%d unsupported=1\n", bytes);
        return;
    }
    printf("stream protocol=%s bytes=%d mode=messages", name_of(c, protocol), bytes);
    print_stream(&figure, payload, c->plan->samples);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void measure_streams(struct client *c)
{
    const struct raw_plan *plan = c->plan;

    if (plan->messages.count) {
        for (uint32_t protocol = RAW_UDP; protocol <= RAW_TCP; protocol++)
            for (int i = 0; plan->protocol[protocol] && i < plan->messages.count; i++)
                stream_messages(c, protocol, plan->messages.bytes[i]);
        return;
    }
    if (plan->protocol[RAW_UDP] && plan->uni && plan->gso)
        stream_udp(c, true);
    if (plan->protocol[RAW_UDP] && plan->uni && plan->large)
        stream_udp(c, false);
    if (plan->protocol[RAW_UDP] && plan->bi)
        exchange_udp(c);
    if (plan->protocol[RAW_TCP])
        stream_tcp(c);
}

void raw_measure(int control, const struct raw_plan *plan, struct turns *turns)
{
    struct raw_request end = {.magic = RAW_MAGIC, .what = RAW_END};
    struct client c = {.plan = plan, .control = control, .turns = turns};
    const int values = plan->samples * (plan->trips ? plan->trips : 1);

    c.times = malloc((size_t)values * sizeof *c.times);
    if (!c.times)
        raw_die("out of memory");
    for (uint32_t protocol = RAW_UDP; protocol <= RAW_TCP; protocol++)
        for (int i = 0; plan->protocol[protocol] && i < plan->latency.count; i++)
            latency(&c, protocol, plan->latency.bytes[i]);
    if (plan->sample_bytes)
        measure_streams(&c);
    raw_tell(control, &end, sizeof end);
    free(c.times);
}
