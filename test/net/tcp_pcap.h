/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a capture (pcap, raw IPv4) of TCP connections from the bytes that crossed them, one
 * connection after the other, so that any tool reads it as if it had been captured: handshake,
 * segments, acknowledgements, end.
 */
#ifndef TCP_PCAP_H
#define TCP_PCAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tcp_pcap_side { TCP_PCAP_CALLER, TCP_PCAP_LISTENER };

#define TCP_PCAP_SEGMENT_MAX_BYTES 65495 /* what an IPv4 packet holds */

struct tcp_pcap {
    FILE *file;
    uint16_t ports[2];
    uint32_t next[2]; /* sequence numbers */
    uint64_t time_us; /* one per packet */
};

/* 0, or -1. */
int tcp_pcap_create(struct tcp_pcap *pcap, const char *path);
/* The handshake of the next connection. */
void tcp_pcap_connect(struct tcp_pcap *pcap, uint16_t caller_port, uint16_t listener_port);
/* One segment, at most TCP_PCAP_SEGMENT_MAX_BYTES. */
void tcp_pcap_segment(struct tcp_pcap *pcap, enum tcp_pcap_side from, const uint8_t *bytes,
                      size_t len);
/* The FINs. */
void tcp_pcap_disconnect(struct tcp_pcap *pcap);
/* 0, or -1: not all could be written. */
int tcp_pcap_close(struct tcp_pcap *pcap);

#endif
