/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control connection of diwarp_ping: frames over TCP, each bounded in length and time. What a
 * peer sends is hostile until decoded here; nothing else of the tool sees its bytes.
 */
#pragma once

#include "common/include/diwarp.h"

#define PING_PORT           "7475"
#define PING_INTERFACES_MAX (2 * DIWARP_MAX_INTERFACES) /* of both families */
#define PING_PHASES         8

/* What is asked of the peer within one frame's time. */
#define PING_ANSWER_NS 5000000000ull

enum ping_frame {
    PING_HELLO = 1, /* client: begin */
    PING_HOST,      /* listener: what is there */
    PING_TRY,       /* client: open that interface, for this peer */
    PING_READY,     /* listener: its addresses, or why not */
    PING_ASK,       /* client: what has come? */
    PING_COUNTS,    /* listener */
};

/* One of the two hosts. Names hold nothing but letters, digits and "._-:". */
struct ping_host {
    char name[64];
    uint32_t wire_version, rmem_max_bytes, wmem_max_bytes;
    unsigned interface_count;
    struct diwarp_interface interfaces[PING_INTERFACES_MAX];
};

/* What a listener says whose diwarp sees no way between two interfaces. */
#define PING_UNREACHABLE "diwarp does not use this pair"

/* In the order of enum diwarp_qp_type. */
struct ping_try {
    unsigned interface; /* of the listener's */
    uint32_t datagram_max_bytes;
    struct diwarp_address addresses[2];
};

struct ping_ready {
    char error[200]; /* "": the rest is valid */
    struct diwarp_address addresses[2];
    uint32_t stag; /* of memory for the stream, which begins at `to` */
    uint64_t to;
};

struct ping_counts {
    uint32_t received[PING_PHASES]; /* messages */
    uint32_t send_error;            /* errno of the last answer that its host refused to send; 0 */
    uint32_t rcvbuf_bytes, sndbuf_bytes, gso, gro;
};

uint64_t ping_now_ns(void);

/* The descriptor of a listening socket, or negative errno. */
int ping_listen(const char *port);
/* A client's connection, or negative errno; `who` is where it is from. */
int ping_accept(int listener, char *who, size_t len);
/* Tries each address of the host. A descriptor, or -1 with `why` for people. */
int ping_connect(const char *host, const char *port, char *who, size_t who_len, char *why,
                 size_t why_len);

/* One frame with its body, of NULL for those without. 0; or negative errno: -ETIMEDOUT, -EPIPE (the
 * peer has closed), -EPROTO (what came is no such frame). */
int ping_send(int fd, enum ping_frame type, const void *body);
int ping_receive(int fd, enum ping_frame type, void *body, uint64_t limit_ns);
/* Whichever comes, of those that a client sends; its type. */
int ping_receive_any(int fd, struct ping_try *body, uint64_t limit_ns);
