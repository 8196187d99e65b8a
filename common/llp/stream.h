/* SPDX-License-Identifier: BSD-3-Clause */
/* The lower layer protocol of connections: byte streams, knows nothing of what is in them.
 *
 * TCP (tcp.c) and the streams of the tests are equals behind this interface. Nothing blocks. Not
 * thread-safe: the caller holds the device's lock. */
#pragma once

#include <poll.h>
#include <sys/types.h>

#include "common/llp/llp.h"

/* What a stream is watched for, and what was found. An error is told as both. */
enum { DW_STREAM_IN = POLLIN, DW_STREAM_OUT = POLLOUT };

struct dw_stream;
struct dw_streams;

struct dw_stream_ops {
    /* Bytes taken, perhaps fewer than offered; 0: none now. Negative: the stream is broken. */
    ssize_t (*send)(struct dw_stream *stream, const struct iovec *iov, unsigned count);
    /* Bytes received; 0: nothing waits. -ENODATA: the other side has closed in order; another
     * negative value: the stream is broken. */
    ssize_t (*recv)(struct dw_stream *stream, const struct iovec *iov, unsigned count);
    /* Replaces what it is watched for; 0: nothing, not even errors. */
    void (*watch)(struct dw_stream *stream, unsigned what);
    /* Payload bytes of the largest segment, RFC 5044 5.1 (EMSS). */
    uint32_t (*emss)(struct dw_stream *stream);
    /* No more is sent; the other side reads to the end of what was. */
    void (*shutdown)(struct dw_stream *stream);
    void (*close)(struct dw_stream *stream); /* frees it */
    /* A listener: the next connection made, owned by the caller, not watched. -EAGAIN: none;
     * -EMFILE: there is one, but no descriptor or memory for it. */
    int (*accept)(struct dw_stream *stream, struct dw_stream **accepted);
    /* Adds what it holds, peer_bytes and its socket. NULL: nothing to tell. */
    void (*add_memory)(const struct dw_stream *stream, struct diwarp_memory *memory);
};

/* Implementations embed this first. */
struct dw_stream {
    const struct dw_stream_ops *ops;
    void *owner; /* the caller's, and what it does where wait() finds the stream ready */
    void (*ready)(void *owner, unsigned what, uint64_t now_ns);
    struct dw_llp_addr peer; /* the other side's */
};

struct dw_stream_event {
    struct dw_stream *stream;
    unsigned what;
};

struct dw_streams_ops {
    /* At the first free port from that of `at` (IP 0: any) to port_max. -EADDRINUSE, -EACCES...;
     * `why` is set then. */
    int (*listen)(struct dw_streams *streams, const struct dw_llp_addr *at, uint16_t port_max,
                  struct dw_stream **listener, uint16_t *port, struct diwarp_diagnosis *why);
    /* Begins to connect; not watched. DW_STREAM_OUT: it is done; if it failed the stream is broken.
     * from->port 0: any. */
    int (*connect)(struct dw_streams *streams, const struct dw_llp_addr *from,
                   const struct dw_llp_addr *to, struct dw_stream **stream);
    /* At most n watched streams that are ready, without blocking. */
    unsigned (*wait)(struct dw_streams *streams, struct dw_stream_event *events, unsigned n);
    void (*close)(struct dw_streams *streams); /* its streams are closed */
};

/* A set of streams that are watched together. */
struct dw_streams {
    const struct dw_streams_ops *ops;
    int fd; /* readable when a watched stream is ready; -1: cannot be polled */
};

/* silence_ns: a peer that is silent on an idle connection is asked whether it is there after half
 * of that, and gone when it does not answer; in whole seconds, 2 at least; 0: never. While data is
 * owed, the system's limits hold. */
int dw_tcp_open(uint64_t silence_ns, struct dw_streams **streams);
