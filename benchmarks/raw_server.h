/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The passive process of the raw benchmark, and what both processes agree on: the client asks over
 * the control connection for one measure after the other.
 */
#ifndef RAW_SERVER_H
#define RAW_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "benchmarks/turns.h"

#define RAW_DATAGRAM_BYTES 65000
#define RAW_CHUNK_BYTES    (256 << 10) /* of one call for TCP */
#define RAW_SOCKET_BYTES   (2 << 20)
#define RAW_MAGIC          0x64695734
#define RAW_DIAL_SECONDS   15.0
#define RAW_MEMORY_MAX     (1u << 30)

enum { RAW_UDP, RAW_TCP };
enum { RAW_ROUND_TRIPS, RAW_STREAM, RAW_EXCHANGE, RAW_END };

/* What is measured next; `train` is what one send call takes, `segment` what one datagram has. */
struct raw_request {
    uint32_t magic, what, protocol;
    uint32_t bytes; /* of a message of a round trip, with headers */
    uint32_t trips; /* of a sample */
    uint32_t window, segment, train, gso;
    uint32_t sample_bytes;
    uint32_t samples;      /* one more, to warm up, comes first; in turns two make a turn */
    uint32_t socket_bytes; /* 0: as the kernel has it */
    uint32_t port;         /* of the client's UDP socket */
    uint32_t memory_bytes; /* datagrams' data is spread over; 0: all in raw_buffer */
};

struct raw_reply {
    uint32_t port;   /* of the server's UDP socket, or of its TCP listener */
    uint32_t usable; /* 0: no GSO or GRO, or more than the receive buffer can take */
    uint32_t window; /* what the receive buffer can take of it */
};

/* All is sent from and received into this, but for UDP's streams with memory of their own. */
extern char raw_buffer[RAW_CHUNK_BYTES];

/* Memory that datagrams are sent from, or received into, one behind the other and round again. */
struct raw_memory {
    char *base;
    size_t bytes, at; /* 0 bytes: raw_buffer */
};

struct raw_memory raw_memory_get(size_t bytes);
void raw_memory_put(struct raw_memory *memory);
/* The place of the next datagram. */
char *raw_memory_next(struct raw_memory *memory);

/* A message of a round trip, in datagrams of RAW_DATAGRAM_BYTES when it is UDP. */
void raw_send_message(int fd, const struct raw_request *r);
void raw_receive_bytes(int fd, size_t bytes);

/* A stream of datagrams in both directions. Bytes since its beginning: sent, of these acknowledged
 * by the peer, received, and of these acknowledged to the peer. */
struct raw_exchange {
    uint64_t sent, acked, got, told;
    struct raw_memory from, into;
};

/* Goes on until both directions have come to `end` bytes, a multiple of 8 as is r->segment; the
 * peer does the same. Every datagram begins with how much has been received. */
void raw_exchange(int fd, const struct raw_request *r, uint64_t end, struct raw_exchange *x);

/* Serves one client until it has had enough. */
void raw_serve(int control, struct turns *turns);

#endif
