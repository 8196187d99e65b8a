/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One interface of this host and one of the peer's, as diwarp_ping tries them: a device of that
 * address alone with a UD and an RD queue pair, and what has come in over them. Knows nothing of
 * the control connection.
 */
#pragma once

#include "common/include/diwarp.h"

/* Of each message the first bytes: what to do with it, phase, 0, 0, serial (32). */
#define PING_MESSAGE_BYTES 8
enum ping_kind {
    PING_ECHO = 1, /* to be sent back as it is */
    PING_COUNT,    /* to be counted */
};

#define PING_STREAM_BYTES (1u << 20) /* of a write */
#define PING_SEND_BYTES   (8u << 10) /* of a Send in the stream of these */

struct ping_link {
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qps[2]; /* by enum diwarp_qp_type */
    struct diwarp_ah *ahs[2];
    struct diwarp_mr *mr;   /* for the peer's stream */
    uint8_t *memory;        /* of mr, then of UD's receives */
    uint32_t receive_bytes; /* of one of these */
    uint32_t ud_qpn;
    uint64_t completed;   /* signaled requests that have succeeded */
    bool failed;          /* a request, or the CQ */
    unsigned empty_polls; /* in a row */
    const char *gone;     /* why RD has given the peer up; NULL */
    const struct diwarp_counters *counters;
    void (*on_message)(void *arg, enum diwarp_qp_type service, const uint8_t *data, uint32_t bytes);
    void *arg;
};

struct ping_link_attr {
    const struct diwarp_interface *interface;
    uint32_t datagram_max_bytes; /* 0: as the MTU says */
    uint16_t port_min, port_max;
    struct diwarp_name name;
};

/* "10.0.0.1", "fd00::1"; buf of INET6_ADDRSTRLEN. */
const char *ping_format_ip(const struct diwarp_interface *interface, char *buf);

/* 0, or negative errno, explained; then nothing is left open. on_message and arg are kept. */
int ping_link_open(struct ping_link *link, const struct ping_link_attr *attr,
                   struct diwarp_diagnosis *why);
void ping_link_addresses(const struct ping_link *link, struct diwarp_address addresses[2]);
/* -ENETUNREACH: diwarp sees no way between these interfaces. */
int ping_link_meet(struct ping_link *link, const struct diwarp_address addresses[2]);
void ping_link_close(struct ping_link *link);

/* Of a Send, copied at once; negative errno. */
int ping_link_send(struct ping_link *link, enum diwarp_qp_type service, const void *data,
                   uint32_t bytes);
/* Runs the RNIC and hands messages on; returns how many completions there were. */
int ping_link_poll(struct ping_link *link);
