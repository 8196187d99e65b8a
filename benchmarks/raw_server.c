/* SPDX-License-Identifier: BSD-3-Clause */
/* The passive process of the raw benchmark; see raw_server.h. */
#include "benchmarks/raw_server.h"
#include "benchmarks/raw_link.h"
#include "benchmarks/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char raw_buffer[RAW_CHUNK_BYTES];

/* Of a datagram that only acknowledges: others have a multiple of 8 bytes. */
#define ACK_BYTES 9

/* Of one datagram in memory: GRO joins no more. */
#define PLACE_BYTES (64u << 10)

struct raw_memory raw_memory_get(size_t bytes)
{
    struct raw_memory memory = {.bytes = bytes / PLACE_BYTES * PLACE_BYTES};

    if (memory.bytes) {
        memory.base = malloc(memory.bytes);
        if (!memory.base)
            raw_die("out of memory");
        memset(memory.base, 1, memory.bytes);
    }
    return memory;
}

void raw_memory_put(struct raw_memory *memory)
{
    free(memory->base);
}

char *raw_memory_next(struct raw_memory *memory)
{
    if (!memory->bytes)
        return raw_buffer;
    if (memory->at == memory->bytes)
        memory->at = 0;
    memory->at += PLACE_BYTES;
    return memory->base + memory->at - PLACE_BYTES;
}

void raw_send_message(int fd, const struct raw_request *r)
{
    size_t most = r->protocol == RAW_UDP ? RAW_DATAGRAM_BYTES : RAW_CHUNK_BYTES;
    for (size_t left = r->bytes; left > 0;) {
        size_t part = left < most ? left : most;
        raw_spin_send(fd, raw_buffer, part);
        left -= part;
    }
}

void raw_receive_bytes(int fd, size_t bytes)
{
    while (bytes > 0) {
        size_t got =
            raw_spin_recv(fd, raw_buffer, bytes < RAW_CHUNK_BYTES ? bytes : RAW_CHUNK_BYTES);
        bytes -= got < bytes ? got : bytes;
    }
}

static void send_exchanged(int fd, size_t bytes, struct raw_exchange *x)
{
    char *from = bytes == ACK_BYTES ? raw_buffer : raw_memory_next(&x->from);

    memcpy(from, &x->got, sizeof x->got);
    raw_spin_send(fd, from, bytes);
    x->told = x->got;
}

void raw_exchange(int fd, const struct raw_request *r, uint64_t end, struct raw_exchange *x)
{
    while (x->acked < end || x->told < end) {
        uint64_t left = end - x->sent, acked;
        size_t part = left < r->segment ? (size_t)left : r->segment;

        if (left && x->sent + part - x->acked <= r->window) {
            x->sent += part;
            send_exchanged(fd, part, x);
            continue;
        }
        if (x->got - x->told >= r->window / 4 || (x->got >= end && x->told < end)) {
            send_exchanged(fd, ACK_BYTES, x);
            continue;
        }
        char *into = raw_memory_next(&x->into);
        part = raw_spin_recv(fd, into, PLACE_BYTES);
        memcpy(&acked, into, sizeof acked);
        x->acked = acked > x->acked ? acked : x->acked;
        x->got += part != ACK_BYTES ? part : 0;
    }
}

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
static void exchange(int fd, const struct raw_request *r, struct pace *pace)
{
    struct raw_exchange x = {.from = raw_memory_get(r->memory_bytes),
                             .into = raw_memory_get(r->memory_bytes)};

    for (uint64_t i = 0; i <= r->samples; i++) {
        before_sample(pace, i);
        raw_exchange(fd, r, (i + 1) * r->sample_bytes, &x);
        after_sample(pace, i);
    }
    raw_memory_put(&x.from);
    raw_memory_put(&x.into);
}

static void echo(int fd, const struct raw_request *r, struct pace *pace)
{
    for (uint64_t i = 0; i <= r->samples; i++) {
        before_sample(pace, i);
        for (uint32_t trip = 0; trip < r->trips; trip++) {
            raw_receive_bytes(fd, r->bytes);
            raw_send_message(fd, r);
        }
        after_sample(pace, i);
    }
}

/* Tells its total whenever a quarter of the window has come, and at each sample's end. */
static void sink_datagrams(int fd, const struct raw_request *r, struct pace *pace)
{
    uint64_t sample = r->sample_bytes, end = sample * (r->samples + 1), got = 0, told = 0;
    struct raw_memory into = raw_memory_get(r->memory_bytes);

    before_sample(pace, 0);
    while (got < end) {
        uint64_t before = got / sample;
        got += raw_spin_recv(fd, raw_memory_next(&into), PLACE_BYTES);
        bool sample_ended = got / sample != before;
        if (!sample_ended && got - told < r->window / 4)
            continue;
        raw_spin_send(fd, &got, sizeof got);
        told = got;
        if (sample_ended) {
            after_sample(pace, before);
            if (got < end)
                before_sample(pace, before + 1);
        }
    }
    raw_memory_put(&into);
}

static void sink_bytes(int fd, const struct raw_request *r, struct pace *pace)
{
    for (uint32_t i = 0; i <= r->samples; i++) {
        before_sample(pace, i);
        raw_receive_bytes(fd, r->sample_bytes);
        raw_spin_send(fd, &i, sizeof i);
        after_sample(pace, i);
    }
}

/* The server's socket for a measure; announced to the client, which then uses it. */
static int answer_udp(int control, struct raw_request *r)
{
    struct raw_address at = raw_local(control), peer = raw_remote(control);
    int fd = raw_udp(&at, (int)r->socket_bytes);
    size_t window = raw_receive_limit(fd) / 2;
    struct raw_reply reply = {.usable = !r->gso || raw_set_gro(fd)};

    r->window = r->window < window ? r->window : (uint32_t)window;
    if (r->window < r->segment || r->window < r->bytes)
        reply.usable = 0; /* a small net.core.rmem_max, or no GSO: nothing could ever be sent */
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
           r->socket_bytes <= RAW_SOCKET_BYTES && r->memory_bytes <= RAW_MEMORY_MAX;
}

void raw_serve(int control, struct turns *turns)
{
    for (;;) {
        struct pace pace = {.turns = turns, .per_turn = (uint64_t)turns_samples(turns)};
        struct raw_request r;

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
        if (r.what == RAW_ROUND_TRIPS)
            echo(fd, &r, &pace);
        else if (r.what == RAW_EXCHANGE)
            exchange(fd, &r, &pace);
        else if (r.protocol == RAW_UDP)
            sink_datagrams(fd, &r, &pace);
        else
            sink_bytes(fd, &r, &pace);
        raw_tell(control, &pace.cpu, sizeof pace.cpu);
        close(fd);
        turns_begin(turns);
        turns_end(turns);
    }
}
