/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams in memory instead of TCP, that take and give bytes in pieces of any size. One thread.
 */
#ifndef TEST_FAKE_STREAMS_H
#define TEST_FAKE_STREAMS_H

#include "common/open.h"

#define FAKE_LISTENERS 4

struct fake_stream;

/* All zero: whole pieces, 1 MiB in flight, segments of 65483 bytes. */
struct fake_net {
    uint64_t random;     /* state of the pieces' sizes */
    uint32_t most_bytes; /* in one call, at most and at random; 0: no limit */
    uint64_t cut;        /* no read crosses this position of a stream; 0: none */
    uint32_t room_bytes; /* in flight per direction */
    uint32_t emss;
    int send_error;    /* of every send call; 0: none */
    uint8_t *changing; /* its owner stores there before each send call; NULL: nowhere */
    uint64_t now_ns;
    struct fake_stream *listeners[FAKE_LISTENERS];
    unsigned listener_count;
    uint64_t delivered; /* bytes, to all */
};

/* An environment of this net; interfaces: one, loopback. */
void fake_env(struct fake_net *net, struct dw_env *env);

/* The test is the other side: calls a listener. */
struct fake_stream *fake_call(struct fake_net *net, uint16_t port);
/* The test is the other side of a call that the listener has not taken yet; NULL: there is none. */
struct fake_stream *fake_take_call(struct fake_net *net, uint16_t port);
/* Appends to what the other side may read. */
void fake_write(struct fake_stream *stream, const void *buf, size_t bytes);
/* Takes what it has sent, at most len; returns how many. */
size_t fake_read(struct fake_stream *stream, void *buf, size_t len);
/* It has closed, or ended its sending. */
bool fake_is_over(const struct fake_stream *stream);
/* Writes no more; it may still read. */
void fake_end(struct fake_stream *stream);
/* In order, or as a reset. Frees it. */
void fake_hang_up(struct fake_stream *stream, bool reset);

#endif
