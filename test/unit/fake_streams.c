/* SPDX-License-Identifier: BSD-3-Clause */
/* See fake_streams.h. */
#include "test/unit/fake_streams.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/list.h"
#include "test/unit/random.h"

#define PORT    4000
#define BACKLOG 16

struct fake_set {
    struct dw_streams streams;
    struct fake_net *net;
    struct dw_list all;
};

struct fake_stream {
    struct dw_stream stream;
    struct fake_net *net;
    struct fake_set *set; /* NULL: the test's */
    struct dw_list link;
    struct fake_stream *other; /* NULL: closed, or a listener */
    unsigned watched;
    bool ended, broken; /* by the other side */
    uint8_t *in;
    size_t in_bytes, in_capacity;
    uint64_t position; /* of the first byte in `in` */
    struct fake_stream *calls[BACKLOG];
    unsigned call_count;
};

static struct fake_stream *of(struct dw_stream *stream)
{
    return (struct fake_stream *)(void *)stream;
}

static size_t piece(struct fake_net *net, size_t bytes)
{
    if (!net->most_bytes || !bytes)
        return bytes;
    size_t n = 1 + random_below(&net->random, net->most_bytes);
    return n < bytes ? n : bytes;
}

static size_t total(const struct iovec *iov, unsigned count)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

static void append(struct fake_stream *to, const void *buf, size_t bytes)
{
    if (to->in_bytes + bytes > to->in_capacity) {
        to->in_capacity = (to->in_bytes + bytes) * 2;
        to->in = realloc(to->in, to->in_capacity);
        assert(to->in);
    }
    if (bytes)
        memcpy(to->in + to->in_bytes, buf, bytes);
    to->in_bytes += bytes;
}

static void consume(struct fake_stream *stream, size_t bytes)
{
    stream->in_bytes -= bytes;
    stream->position += bytes;
    if (stream->in_bytes)
        memmove(stream->in, stream->in + bytes, stream->in_bytes);
}

static size_t room(const struct fake_stream *stream)
{
    size_t most = stream->net->room_bytes ? stream->net->room_bytes : 1u << 20;
    size_t used = stream->other->in_bytes;
    return used < most ? most - used : 0;
}

static ssize_t fake_send(struct dw_stream *base, const struct iovec *iov, unsigned count)
{
    struct fake_stream *stream = of(base);
    if (stream->broken || !stream->other)
        return -EPIPE;
    if (stream->net->send_error)
        return stream->net->send_error;
    if (stream->net->changing)
        ++*stream->net->changing;
    size_t n = total(iov, count);
    if (n > room(stream))
        n = room(stream);
    n = piece(stream->net, n);
    for (size_t left = n; left; iov++) {
        size_t here = iov->iov_len < left ? iov->iov_len : left;
        append(stream->other, iov->iov_base, here);
        left -= here;
    }
    return (ssize_t)n;
}

static ssize_t fake_recv(struct dw_stream *base, const struct iovec *iov, unsigned count)
{
    struct fake_stream *stream = of(base);
    struct fake_net *net = stream->net;
    if (stream->broken)
        return -ECONNRESET;
    if (!stream->in_bytes)
        return stream->ended ? -ENODATA : 0;
    size_t n = total(iov, count);
    if (n > stream->in_bytes)
        n = stream->in_bytes;
    n = piece(net, n);
    if (stream->position < net->cut && stream->position + n > net->cut)
        n = (size_t)(net->cut - stream->position);
    size_t done = 0;
    for (; done < n; iov++) {
        size_t here = iov->iov_len < n - done ? iov->iov_len : n - done;
        memcpy(iov->iov_base, stream->in + done, here);
        done += here;
    }
    consume(stream, n);
    net->delivered += n;
    return (ssize_t)n;
}

static void fake_watch(struct dw_stream *stream, unsigned what)
{
    of(stream)->watched = what;
}

static uint32_t fake_emss(struct dw_stream *stream)
{
    return of(stream)->net->emss ? of(stream)->net->emss : 65483;
}

static void fake_shutdown(struct dw_stream *stream)
{
    if (of(stream)->other)
        of(stream)->other->ended = true;
}

static void free_stream(struct fake_stream *stream)
{
    struct fake_net *net = stream->net;
    for (unsigned i = 0; i < net->listener_count; i++)
        if (net->listeners[i] == stream)
            net->listeners[i] = NULL;
    for (unsigned i = 0; i < stream->call_count; i++)
        free_stream(stream->calls[i]);
    if (stream->other) {
        stream->other->other = NULL;
        stream->other->ended = true;
    }
    dw_list_remove(&stream->link);
    free(stream->in);
    free(stream);
}

static void fake_close(struct dw_stream *stream)
{
    free_stream(of(stream));
}

static int fake_accept(struct dw_stream *base, struct dw_stream **accepted)
{
    struct fake_stream *listener = of(base);
    if (!listener->call_count)
        return -EAGAIN;
    struct fake_stream *stream = listener->calls[--listener->call_count];
    stream->set = listener->set;
    dw_list_append(&listener->set->all, &stream->link);
    *accepted = &stream->stream;
    return 0;
}

static const struct dw_stream_ops stream_ops = {
    .send = fake_send,
    .recv = fake_recv,
    .watch = fake_watch,
    .emss = fake_emss,
    .shutdown = fake_shutdown,
    .close = fake_close,
    .accept = fake_accept,
};

static struct fake_stream *make(struct fake_net *net, struct fake_set *set)
{
    struct fake_stream *stream = calloc(1, sizeof *stream);
    assert(stream);
    stream->stream.ops = &stream_ops;
    stream->stream.peer =
        (struct dw_llp_addr){.family = AF_INET, .port = PORT, .ip = {127, 0, 0, 1}};
    stream->net = net;
    stream->set = set;
    dw_list_init(&stream->link);
    if (set)
        dw_list_append(&set->all, &stream->link);
    return stream;
}

struct fake_stream *fake_call(struct fake_net *net, uint16_t port)
{
    struct fake_stream *caller = make(net, NULL);
    struct fake_stream *listener =
        port >= PORT && port < PORT + net->listener_count ? net->listeners[port - PORT] : NULL;
    if (!listener || listener->call_count == BACKLOG) {
        caller->broken = true;
        return caller;
    }
    struct fake_stream *called = make(net, NULL);
    caller->other = called;
    called->other = caller;
    listener->calls[listener->call_count++] = called;
    return caller;
}

struct fake_stream *fake_take_call(struct fake_net *net, uint16_t port)
{
    struct fake_stream *listener = net->listeners[port - PORT];
    return listener->call_count ? listener->calls[--listener->call_count] : NULL;
}

static int fake_connect(struct dw_streams *streams, const struct dw_llp_addr *from,
                        const struct dw_llp_addr *to, struct dw_stream **stream)
{
    struct fake_set *set = (struct fake_set *)(void *)streams;
    struct fake_stream *caller = fake_call(set->net, to->port);
    (void)from;
    caller->set = set;
    dw_list_append(&set->all, &caller->link);
    *stream = &caller->stream;
    return 0;
}

static int fake_listen(struct dw_streams *streams, const struct dw_llp_addr *at, uint16_t port_max,
                       struct dw_stream **listener, uint16_t *port, struct diwarp_diagnosis *why)
{
    struct fake_set *set = (struct fake_set *)(void *)streams;
    (void)at;
    (void)port_max;
    (void)why;
    assert(set->net->listener_count < FAKE_LISTENERS);
    struct fake_stream *stream = make(set->net, set);
    *port = (uint16_t)(PORT + set->net->listener_count);
    set->net->listeners[set->net->listener_count++] = stream;
    *listener = &stream->stream;
    return 0;
}

static unsigned fake_wait(struct dw_streams *streams, struct dw_stream_event *events, unsigned n)
{
    struct fake_set *set = (struct fake_set *)(void *)streams;
    unsigned count = 0;
    dw_list_foreach (it, &set->all) {
        struct fake_stream *stream = dw_container(it, struct fake_stream, link);
        bool readable = stream->in_bytes || stream->ended || stream->broken || stream->call_count;
        bool writable = stream->broken || !stream->other || room(stream);
        unsigned what =
            stream->watched & ((readable ? DW_STREAM_IN : 0u) | (writable ? DW_STREAM_OUT : 0u));
        if (what && count < n)
            events[count++] = (struct dw_stream_event){&stream->stream, what};
    }
    return count;
}

static void fake_close_set(struct dw_streams *streams)
{
    struct fake_set *set = (struct fake_set *)(void *)streams;
    assert(dw_list_empty(&set->all)); /* nothing leaked */
    free(set);
}

static const struct dw_streams_ops streams_ops = {
    .listen = fake_listen,
    .connect = fake_connect,
    .wait = fake_wait,
    .close = fake_close_set,
};

static int open_streams(void *arg, uint64_t silence_ns, struct dw_streams **streams)
{
    struct fake_set *set = calloc(1, sizeof *set);
    (void)silence_ns;
    if (!set)
        return -ENOMEM;
    set->streams = (struct dw_streams){.ops = &streams_ops, .fd = -1};
    set->net = arg;
    dw_list_init(&set->all);
    *streams = &set->streams;
    return 0;
}

static uint64_t now_ns(void *arg)
{
    return ((struct fake_net *)arg)->now_ns += 1000;
}

static const struct diwarp_interface interfaces[] = {
    {.name = "fake",
     .family = AF_INET,
     .prefix_bits = 8,
     .loopback = true,
     .mtu_bytes = 65536,
     .ip = {127, 0, 0, 1}},
};

void fake_env(struct fake_net *net, struct dw_env *env)
{
    *env = (struct dw_env){.now_ns = now_ns,
                           .open_streams = open_streams,
                           .arg = net,
                           .seed = 1 + net->random,
                           .interfaces = interfaces,
                           .interface_count = 1};
}

void fake_write(struct fake_stream *stream, const void *buf, size_t bytes)
{
    if (stream->other)
        append(stream->other, buf, bytes);
}

size_t fake_read(struct fake_stream *stream, void *buf, size_t len)
{
    size_t n = stream->in_bytes < len ? stream->in_bytes : len;
    if (n)
        memcpy(buf, stream->in, n);
    consume(stream, n);
    return n;
}

bool fake_is_over(const struct fake_stream *stream)
{
    return stream->broken || stream->ended;
}

void fake_end(struct fake_stream *stream)
{
    fake_shutdown(&stream->stream);
}

void fake_hang_up(struct fake_stream *stream, bool reset)
{
    if (stream->other && reset)
        stream->other->broken = true;
    free_stream(stream);
}
