/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads pcap files and finds the UDP payload: Ethernet (with VLAN tags), Linux cooked and raw IP
 * frames; IPv4, and IPv6 without extension headers other than the fragment header.
 */
#include "test/net/pcap.h"

#include "common/wire/bytes.h"

#include <stdlib.h>

#define LINK_ETHERNET 1
#define LINK_RAW      101
#define LINK_COOKED   113
#define LINK_COOKED_2 276

#define FILE_HEADER_BYTES   24
#define PACKET_HEADER_BYTES 16
#define MAGIC_MICROSECONDS  0xA1B2C3D4u
#define MAGIC_NANOSECONDS   0xA1B23C4Du

#define ETHERTYPE_V4   0x0800
#define ETHERTYPE_V6   0x86DD
#define ETHERTYPE_VLAN 0x8100
#define PROTOCOL_UDP   17
#define PROTOCOL_FRAG6 44

/* A part of the packet that still has to be read. */
struct rest {
    const uint8_t *p;
    size_t len;
};

static uint32_t get_file_u32(const struct pcap_reader *reader, const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return reader->swapped ? __builtin_bswap32(v) : v;
}

int pcap_open(struct pcap_reader *reader, const char *path)
{
    uint8_t header[FILE_HEADER_BYTES];
    uint32_t magic;

    reader->packets = 0;
    reader->swapped = 0;
    reader->file = fopen(path, "rb");
    if (!reader->file)
        return -1;
    if (fread(header, sizeof header, 1, reader->file) != 1)
        goto close;
    magic = get_file_u32(reader, header);
    if (magic != MAGIC_MICROSECONDS && magic != MAGIC_NANOSECONDS) {
        reader->swapped = 1;
        magic = get_file_u32(reader, header);
    }
    reader->link_type = get_file_u32(reader, header + 20) & 0xffff;
    if (magic != MAGIC_MICROSECONDS && magic != MAGIC_NANOSECONDS)
        goto close;
    if (reader->link_type == LINK_ETHERNET || reader->link_type == LINK_RAW ||
        reader->link_type == LINK_COOKED || reader->link_type == LINK_COOKED_2)
        return 0;
close:
    fclose(reader->file);
    return -1;
}

void pcap_close(struct pcap_reader *reader)
{
    fclose(reader->file);
}

/* Takes n bytes off the front; NULL when there are fewer. */
static const uint8_t *take(struct rest *rest, size_t n)
{
    const uint8_t *p = rest->p;
    if (rest->len < n)
        return NULL;
    rest->p += n;
    rest->len -= n;
    return p;
}

/* Takes the link header off; the ethertype of what follows, 0 when there is none. */
static uint16_t take_link(uint32_t link_type, struct rest *rest)
{
    const uint8_t *p;
    uint16_t type;

    if (link_type == LINK_RAW)
        return !rest->len ? 0 : rest->p[0] >> 4 == 4 ? ETHERTYPE_V4 : ETHERTYPE_V6;
    if (link_type == LINK_COOKED_2)
        return (p = take(rest, 20)) ? dw_get_be16(p) : 0;
    if (link_type == LINK_COOKED)
        return (p = take(rest, 16)) ? dw_get_be16(p + 14) : 0;
    p = take(rest, 14);
    type = p ? dw_get_be16(p + 12) : 0;
    while (type == ETHERTYPE_VLAN) {
        p = take(rest, 4);
        type = p ? dw_get_be16(p + 2) : 0;
    }
    return type;
}

/* Shortens the rest to the length that a header gives; the tail is padding of the link. */
static enum pcap_kind clip(struct rest *rest, size_t len)
{
    if (len > rest->len)
        return PCAP_CUT;
    rest->len = len;
    return PCAP_UDP;
}

static enum pcap_kind take_ipv4(struct rest *rest)
{
    const uint8_t *p = take(rest, 20);
    size_t header, total;

    if (!p || p[0] >> 4 != 4 || p[9] != PROTOCOL_UDP)
        return PCAP_OTHER;
    header = (size_t)(p[0] & 15) * 4;
    total = dw_get_be16(p + 2);
    if (dw_get_be16(p + 6) & 0x3fff)
        return PCAP_FRAGMENT;
    if (header < 20 || total < header || !take(rest, header - 20))
        return PCAP_CUT;
    return clip(rest, total - header);
}

static enum pcap_kind take_ipv6(struct rest *rest)
{
    const uint8_t *p = take(rest, 40);

    if (!p || p[0] >> 4 != 6)
        return PCAP_OTHER;
    if (p[6] == PROTOCOL_FRAG6)
        return rest->len && rest->p[0] == PROTOCOL_UDP ? PCAP_FRAGMENT : PCAP_OTHER;
    if (p[6] != PROTOCOL_UDP)
        return PCAP_OTHER;
    return clip(rest, dw_get_be16(p + 4));
}

static void parse(const struct pcap_reader *reader, struct rest rest, struct pcap_udp *udp)
{
    const uint8_t *p;

    *udp = (struct pcap_udp){.kind = PCAP_OTHER};
    switch (take_link(reader->link_type, &rest)) {
    case ETHERTYPE_V4:
        udp->kind = take_ipv4(&rest);
        break;
    case ETHERTYPE_V6:
        udp->kind = take_ipv6(&rest);
        break;
    default:
        break;
    }
    if (udp->kind != PCAP_UDP)
        return;
    p = take(&rest, 8);
    if (!p || dw_get_be16(p + 4) != rest.len + 8) {
        udp->kind = PCAP_CUT;
        return;
    }
    udp->source_port = dw_get_be16(p);
    udp->destination_port = dw_get_be16(p + 2);
    udp->payload = rest.p;
    udp->payload_bytes = rest.len;
}

int pcap_next(struct pcap_reader *reader, struct pcap_udp *udp)
{
    uint8_t header[PACKET_HEADER_BYTES];
    size_t got = fread(header, 1, sizeof header, reader->file);
    uint32_t len;

    if (got == 0)
        return ferror(reader->file) ? -1 : 0;
    if (got != sizeof header)
        return -1;
    len = get_file_u32(reader, header + 8);
    if (len > sizeof reader->packet || fread(reader->packet, 1, len, reader->file) != len)
        return -1;
    reader->packets++;
    parse(reader, (struct rest){reader->packet, len}, udp);
    return 1;
}
