/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of a TCP connection that never crossed an interface. */
#include "test/net/tcp_pcap.h"

#include "common/wire/bytes.h"

#include <assert.h>
#include <string.h>

#define MAGIC_MICROSECONDS 0xA1B2C3D4u
#define LINK_RAW           101
#define SNAP_BYTES         65535

#define IP_BYTES  20
#define TCP_BYTES 20
#define LOOPBACK  0x7f000001u

enum { FIN = 0x01, SYN = 0x02, PSH = 0x08, ACK = 0x10 };

static const uint32_t first[2] = {1000, 500000000};

static uint32_t sum_words(uint32_t sum, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        sum += (uint32_t)p[i] << (i % 2 ? 0 : 8);
    return sum;
}

static uint16_t checksum(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

static void put_ip(uint8_t *ip, size_t bytes)
{
    memset(ip, 0, IP_BYTES);
    ip[0] = 0x45;
    dw_put_be16(ip + 2, (uint16_t)bytes);
    ip[6] = 0x40; /* do not fragment */
    ip[8] = 64;
    ip[9] = 6; /* TCP */
    dw_put_be32(ip + 12, LOOPBACK);
    dw_put_be32(ip + 16, LOOPBACK);
    dw_put_be16(ip + 10, checksum(sum_words(0, ip, IP_BYTES)));
}

static void put_tcp(const struct tcp_pcap *pcap, enum tcp_pcap_side from, uint8_t flags,
                    uint8_t *tcp, const uint8_t *bytes, size_t len)
{
    uint32_t sum = 2 * (LOOPBACK >> 16) + 2 * (LOOPBACK & 0xffff) + 6 + TCP_BYTES + (uint32_t)len;

    memset(tcp, 0, TCP_BYTES);
    dw_put_be16(tcp, pcap->ports[from]);
    dw_put_be16(tcp + 2, pcap->ports[!from]);
    dw_put_be32(tcp + 4, pcap->next[from]);
    dw_put_be32(tcp + 8, flags & ACK ? pcap->next[!from] : 0);
    tcp[12] = TCP_BYTES / 4 << 4;
    tcp[13] = flags;
    dw_put_be16(tcp + 14, 65535);
    dw_put_be16(tcp + 16, checksum(sum_words(sum_words(sum, tcp, TCP_BYTES), bytes, len)));
}

static void packet(struct tcp_pcap *pcap, enum tcp_pcap_side from, uint8_t flags,
                   const uint8_t *bytes, size_t len)
{
    uint32_t size = (uint32_t)(IP_BYTES + TCP_BYTES + len);
    uint32_t record[4] = {(uint32_t)(pcap->time_us / 1000000), (uint32_t)(pcap->time_us % 1000000),
                          size, size};
    uint8_t headers[IP_BYTES + TCP_BYTES];

    assert(len <= TCP_PCAP_SEGMENT_MAX_BYTES);
    put_ip(headers, size);
    put_tcp(pcap, from, flags, headers + IP_BYTES, bytes, len);
    fwrite(record, sizeof record, 1, pcap->file);
    fwrite(headers, sizeof headers, 1, pcap->file);
    if (len)
        fwrite(bytes, 1, len, pcap->file);
    pcap->next[from] += (uint32_t)len + (flags & (SYN | FIN) ? 1 : 0);
    pcap->time_us++;
}

int tcp_pcap_create(struct tcp_pcap *pcap, const char *path)
{
    const uint32_t header[6] = {MAGIC_MICROSECONDS, 4u << 16 | 2, 0, 0, SNAP_BYTES, LINK_RAW};

    *pcap = (struct tcp_pcap){.file = fopen(path, "wb"), .time_us = 1000000};
    if (!pcap->file)
        return -1;
    fwrite(header, sizeof header, 1, pcap->file);
    return 0;
}

void tcp_pcap_connect(struct tcp_pcap *pcap, uint16_t caller_port, uint16_t listener_port)
{
    pcap->ports[TCP_PCAP_CALLER] = caller_port;
    pcap->ports[TCP_PCAP_LISTENER] = listener_port;
    memcpy(pcap->next, first, sizeof first);
    packet(pcap, TCP_PCAP_CALLER, SYN, NULL, 0);
    packet(pcap, TCP_PCAP_LISTENER, SYN | ACK, NULL, 0);
    packet(pcap, TCP_PCAP_CALLER, ACK, NULL, 0);
}

void tcp_pcap_segment(struct tcp_pcap *pcap, enum tcp_pcap_side from, const uint8_t *bytes,
                      size_t len)
{
    packet(pcap, from, ACK | PSH, bytes, len);
}

void tcp_pcap_disconnect(struct tcp_pcap *pcap)
{
    packet(pcap, TCP_PCAP_CALLER, FIN | ACK, NULL, 0);
    packet(pcap, TCP_PCAP_LISTENER, FIN | ACK, NULL, 0);
    packet(pcap, TCP_PCAP_CALLER, ACK, NULL, 0);
}

int tcp_pcap_close(struct tcp_pcap *pcap)
{
    int failed = ferror(pcap->file);

    return fclose(pcap->file) || failed ? -1 : 0;
}
