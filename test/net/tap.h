/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tap in a TCP connection on 127.0.0.1: callers call its port, it calls the real one, hands the
 * bytes on in pieces of its own sizes and keeps all of them. Run by the loop of the test.
 */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/net/tcp_pcap.h"

/* Bytes that came from one side without any of the other's in between. */
struct tap_run {
    enum tcp_pcap_side from;
    size_t len;
};

struct tap {
    uint16_t port, target_port;
    uint32_t mss; /* that both sides are told; 0: what the interface has */
    int listener;
    int ends[2];
    struct {
        uint8_t *bytes;
        size_t len, size, forwarded;
        bool ended, end_forwarded;
    } from[2];
    struct tap_run *runs;
    size_t run_count, run_size;
    uint64_t random;
};

/* 0, or a negative errno value. */
int tap_open(struct tap *tap, uint16_t target_port, uint32_t mss);
/* Hands on what has come. 0, or a negative errno value: the tap is broken. Never blocks. */
int tap_run(struct tap *tap);
void tap_close(struct tap *tap);

#endif
