/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP datagrams out of a capture file in the classic pcap format, either byte order. */
#ifndef PCAP_H
#define PCAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PCAP_MAX_PACKET 262144

enum pcap_kind {
    PCAP_OTHER,    /* not UDP */
    PCAP_UDP,      /* ports and payload are valid */
    PCAP_FRAGMENT, /* part of a fragmented UDP datagram */
    PCAP_CUT       /* UDP, but not whole in the file, or with contradicting lengths */
};

struct pcap_udp {
    enum pcap_kind kind;
    uint16_t source_port, destination_port;
    const uint8_t *payload; /* into the reader: valid until the next call */
    size_t payload_bytes;
};

struct pcap_reader {
    FILE *file;
    int swapped; /* the file's byte order is not this host's */
    uint32_t link_type;
    uint64_t packets;
    uint8_t packet[PCAP_MAX_PACKET];
};

/* 0, or -1: cannot be read, another format, or a link type not known here. */
int pcap_open(struct pcap_reader *reader, const char *path);
/* 1: the next packet is in `udp`; 0: end of the file; -1: the file is damaged. */
int pcap_next(struct pcap_reader *reader, struct pcap_udp *udp);
void pcap_close(struct pcap_reader *reader);

#endif
