/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the raw benchmark and the memory they are sent from and received into. Over UDP a
 * message is cut into datagrams or GSO trains, and a window that the receiver's acknowledgements
 * open keeps what is under way within the receiver's socket buffer. Nothing is repeated.
 *
 * Sealed, data takes the way that a checked datagram transport has to take: copied behind its
 * header with its CRC32C in one pass, and again where it comes, from one receive buffer to its
 * place.
 */
#ifndef RAW_MESSAGE_H
#define RAW_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define RAW_DATAGRAM_BYTES 65000
#define RAW_CHUNK_BYTES    (256 << 10) /* of one call for TCP */
#define RAW_SOCKET_BYTES   (4 << 20)   /* as diwarp asks for */
#define RAW_MEMORY_MAX     (1u << 30)
#define RAW_CRC_BYTES      4

enum { RAW_UDP, RAW_TCP };
enum { RAW_ROUND_TRIPS, RAW_STREAM, RAW_EXCHANGE, RAW_END };

/* One measure, as the client asks the server for it. `segment` is what one datagram has, `train`
 * what one call sends. Sizes of messages, samples and windows count headers. */
struct raw_request {
    uint32_t magic, what, protocol;
    uint32_t message; /* bytes of one; 0: a stream without messages */
    uint32_t trips;   /* of a sample */
    uint32_t window, segment, train, gso;
    uint32_t sample_bytes;
    uint32_t samples;      /* one more, to warm up, comes first; in turns two make a turn */
    uint32_t socket_bytes; /* 0: as the kernel has it */
    uint32_t port;         /* of the client's UDP socket */
    uint32_t sealed;       /* what leads the data of each segment, CRC aside; 0: not sealed */
    uint32_t memory_bytes; /* data is taken from and put into; 0: one hot buffer */
};

/* Memory that is gone through from the beginning to the end and round again. */
struct raw_memory {
    char *base;
    size_t bytes, at; /* 0 bytes: one hot buffer */
};

/* Where the next data is; RAW_CHUNK_BYTES are there. */
char *raw_memory_at(const struct raw_memory *memory);
void raw_memory_pass(struct raw_memory *memory, size_t bytes);

/* One socket's data. Bytes since the beginning: sent, of these acknowledged by the peer, received,
 * and of these acknowledged to the peer. */
struct raw_flow {
    int fd;
    const struct raw_request *r;
    struct raw_memory from, into;
    uint64_t sent, acked, got, told;
};

/* The window becomes part of the request once the server has answered; then a train fits it. */
void raw_fit_train(struct raw_request *r);

struct raw_flow raw_flow_open(int fd, const struct raw_request *r);
void raw_flow_close(struct raw_flow *flow);

/* Receives data of at most `most` bytes, or in turns an acknowledgement, to where the next data is.
 */
size_t raw_take(struct raw_flow *flow, size_t most);

/* One message in turns with the peer: who sends has received the peer's last message, which so
 * acknowledges all that was sent before. */
void raw_send_message(struct raw_flow *flow);
void raw_receive_message(struct raw_flow *flow);

/* A stream in one direction, until `end` bytes are acknowledged; the receiver's half is in the
 * server. */
void raw_stream_until(struct raw_flow *flow, uint64_t end);

/* A stream of datagrams in both directions, until both have come to `end` bytes, a multiple of 8 as
 * is r->segment; the peer does the same. Every datagram begins with how much has been received. */
void raw_exchange(struct raw_flow *flow, uint64_t end);

#endif
