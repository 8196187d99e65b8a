/* SPDX-License-Identifier: BSD-3-Clause */
/* The passive process of the raw benchmark; see raw_server.h. */
#include "benchmarks/raw_server.h"
#include "benchmarks/raw_link.h"
#include "benchmarks/samples.h"

#include <errno.h>
#include <unistd.h>

/* The kernel charges a datagram with its bytes and less than this. */
#define MOST_OVERHEAD_BYTES 2048

/* Of samples, one after the other: their turns, and the CPU time of those that count. */
struct pace {
    struct turns *turns;
    uint64_t per_turn;
    double begun, cpu;
};

/* The first sample, which warms up, has a turn to itself. */
static bool begins_turn(const struct pace *p, uint64_t sample)
{
    return sample == 0 || (sample - 1) % p->per_turn == 0;
}

static bool counts(const struct pace *p, uint64_t sample)
{
    return sample > 0 && sample % p->per_turn == 0;
}

static void before_sample(struct pace *p, uint64_t sample)
{
    if (begins_turn(p, sample))
        turns_begin(p->turns);
    if (counts(p, sample))
        p->begun = samples_cpu_seconds();
}

static void after_sample(struct pace *p, uint64_t sample)
{
    if (counts(p, sample))
        p->cpu += samples_cpu_seconds() - p->begun;
    if (sample == 0 || counts(p, sample))
        turns_end(p->turns);
}

/* The server's half, as all below. */
static void exchange(struct raw_flow *flow, struct pace *pace)
{
    for (uint64_t i = 0; i <= flow->r->samples; i++) {
        before_sample(pace, i);
        raw_exchange(flow, (i + 1) * flow->r->sample_bytes);
        after_sample(pace, i);
    }
}

static void echo(struct raw_flow *flow, struct pace *pace)
{
    for (uint64_t i = 0; i <= flow->r->samples; i++) {
        before_sample(pace, i);
        for (uint32_t trip = 0; trip < flow->r->trips; trip++) {
            raw_receive_message(flow);
            raw_send_message(flow);
        }
        after_sample(pace, i);
    }
}

static size_t sink_part(struct raw_flow *flow, size_t most)
{
    size_t n = raw_take(flow, most);

    raw_memory_pass(&flow->into, n);
    flow->got += n;
    return n;
}

/* Tells its total whenever a quarter of the window has come, and at each sample's end. */
static void sink_datagrams(struct raw_flow *flow, struct pace *pace)
{
    const uint64_t sample = flow->r->sample_bytes, end = sample * (flow->r->samples + 1);

    before_sample(pace, 0);
    while (flow->got < end) {
        uint64_t before = flow->got / sample;
        (void)sink_part(flow, RAW_CHUNK_BYTES);
        bool sample_ended = flow->got / sample != before;
        if (!sample_ended && flow->got - flow->told < flow->r->window / 4)
            continue;
        raw_spin_send(flow->fd, &flow->got, sizeof flow->got);
        flow->told = flow->got;
        if (sample_ended) {
            after_sample(pace, before);
            if (flow->got < end)
                before_sample(pace, before + 1);
        }
    }
}

static void sink_bytes(struct raw_flow *flow, struct pace *pace)
{
    for (uint32_t i = 0; i <= flow->r->samples; i++) {
        before_sample(pace, i);
        for (size_t left = flow->r->sample_bytes; left > 0;)
            left -= sink_part(flow, left < RAW_CHUNK_BYTES ? left : RAW_CHUNK_BYTES);
        raw_spin_send(flow->fd, &i, sizeof i);
        after_sample(pace, i);
    }
}

/* What the receive buffer surely holds of such datagrams. */
static uint32_t window_of(int fd, const struct raw_request *r)
{
    const size_t limit = raw_receive_limit(fd);
    const size_t bytes = r->message && r->message < r->segment ? r->message : r->segment;
    const size_t fit = limit * bytes / (bytes + MOST_OVERHEAD_BYTES);
    const size_t window = fit < limit / 2 ? fit : limit / 2;

    return r->window < window ? r->window : (uint32_t)window;
}

/* The server's socket for a measure; announced to the client, which then uses it. */
static int answer_udp(int control, struct raw_request *r)
{
    struct raw_address at = raw_local(control), peer = raw_remote(control);
    int fd = raw_udp(&at, (int)r->socket_bytes);
    struct raw_reply reply = {.usable = !r->gso || raw_set_gro(fd)};

    if (r->gso && r->what == RAW_ROUND_TRIPS)
        reply.usable = reply.usable && raw_set_gso(fd, (int)r->segment);
    r->window = window_of(fd, r);
    if (r->window < r->segment)
        reply.usable = 0; /* a small net.core.rmem_max, or no GSO: nothing could ever be sent */
    else
        raw_fit_train(r);
    raw_set_port(&peer, (uint16_t)r->port);
    raw_connect(fd, &peer);
    at = raw_local(fd);
    reply.port = raw_port(&at);
    reply.window = r->window;
    raw_tell(control, &reply, sizeof reply);
    if (reply.usable)
        return fd;
    close(fd);
    return -1;
}

static int answer_tcp(int control, const struct raw_request *r)
{
    struct raw_address at = raw_local(control);
    struct raw_reply reply = {.usable = 1};
    int listener, fd;

    raw_set_port(&at, 0);
    listener = raw_listen(&at, (int)r->socket_bytes);
    at = raw_local(listener);
    reply.port = raw_port(&at);
    raw_tell(control, &reply, sizeof reply);
    fd = raw_accept(listener, RAW_DIAL_SECONDS);
    close(listener);
    return fd;
}

static bool valid(const struct raw_request *r)
{
    bool streams = r->what == RAW_STREAM || r->what == RAW_EXCHANGE;
    return r->magic == RAW_MAGIC && r->what <= RAW_END && r->protocol <= RAW_TCP &&
           r->port <= UINT16_MAX && (!streams || r->sample_bytes > 0) &&
           (r->protocol == RAW_TCP || r->what == RAW_END || r->segment > 0) &&
           r->socket_bytes <= RAW_SOCKET_BYTES && r->memory_bytes <= RAW_MEMORY_MAX;
}

void raw_serve(int control, struct turns *turns)
{
    for (;;) {
        struct pace pace = {.turns = turns, .per_turn = (uint64_t)turns_samples(turns)};
        struct raw_request r;
        char done;

        raw_hear(control, &r, sizeof r);
        errno = 0;
        if (!valid(&r))
            raw_die("the client is another program");
        if (r.what == RAW_END)
            return;
        int fd = r.protocol == RAW_UDP ? answer_udp(control, &r) : answer_tcp(control, &r);
        if (fd < 0) {
            turns_pass(turns, (int)(r.samples / pace.per_turn));
            continue;
        }
        struct raw_flow flow = raw_flow_open(fd, &r);
        if (r.what == RAW_ROUND_TRIPS)
            echo(&flow, &pace);
        else if (r.what == RAW_EXCHANGE)
            exchange(&flow, &pace);
        else if (r.protocol == RAW_UDP)
            sink_datagrams(&flow, &pace);
        else
            sink_bytes(&flow, &pace);
        raw_flow_close(&flow);
        /* A socket that is closed refuses the last acknowledgements. */
        raw_hear(control, &done, sizeof done);
        raw_tell(control, &pace.cpu, sizeof pace.cpu);
        close(fd);
        turns_begin(turns);
        turns_end(turns);
    }
}
