/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a packet capture (pcap) and walks every diwarp datagram in it down to the last header, with
 * the product's decoders: LLP header, intro, DDP segments, what leads their payload, CRC. Counts
 * what it saw, and fails when a datagram is malformed or a FIN of the MPI layer was on the wire.
 *
 * All UDP in the capture is taken for diwarp, unless a range of ports is given: a datagram belongs
 * to it when either of its ports does. With --list first it says of each datagram what it read
 * instead, and has no verdict.
 */
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"
#include "common/wire/rdmap.h"
#include "test/net/pcap.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIN_TAG    0x49 /* MCA_PML_OB1_HDR_TYPE_FIN */
#define COMPLAINTS 10
#define OPCODES    16

struct census {
    uint64_t datagrams, bytes, foreign, malformed;
    uint64_t types[DW_LLP_TYPES];
    uint64_t intros, without_crc;
    uint64_t opcodes[OPCODES];
    uint64_t record_control[5];
    uint64_t sends_by_tag[256];
    uint64_t record_bytes;
    uint64_t packet; /* number of the packet being read, for messages */
    bool list;
    char segments[8192]; /* of the datagram, if they are listed: " OPCODE:LENGTH" of each */
};

static const char *const type_names[DW_LLP_TYPES] = {"UD",    "DATA",        "RECORD", "ACK",
                                                     "PROBE", "PROBE_REPLY", "RESET",  "PROOF"};
static const char *const opcode_names[OPCODES] = {
    "Write",           "Read Request", "Read Response",  "Send",
    "Send Invalidate", "Send SE",      "Send SE Inv",    "Terminate",
    "Immediate",       "Immediate SE", "Atomic Request", "Atomic Response",
    "Write-Record",    "Send Imm",     "Record Control", NULL};
static const char *const control_names[] = {NULL, "open", "status", "complete", "abort"};

static bool complain(struct census *c, const char *what)
{
    if (c->malformed++ < COMPLAINTS && !c->list)
        printf("packet %llu: %s\n", (unsigned long long)c->packet, what);
    return false;
}

/* ---- one segment --------------------------------------------------------------------------- */

static bool walk_record_control(struct census *c, const uint8_t *payload, size_t len)
{
    struct dw_record_control rc;
    if (dw_record_control_get(&rc, payload, len) < 0)
        return complain(c, "malformed record control");
    c->record_control[rc.kind]++;
    return true;
}

static bool walk_write_record(struct census *c, const uint8_t *payload, size_t len)
{
    struct dw_write_record wr;
    if (dw_write_record_get(&wr, payload, len) < 0)
        return complain(c, "malformed Write-Record header");
    if (len - DW_WRITE_RECORD_BYTES > wr.total - wr.offset)
        return complain(c, "Write-Record segment beyond its record's end");
    c->record_bytes += len - DW_WRITE_RECORD_BYTES;
    return true;
}

static bool walk_payload(struct census *c, const struct dw_ddp_header *ddp, const uint8_t *payload,
                         size_t len)
{
    union {
        struct dw_read_request read;
        struct dw_atomic_request atomic;
        struct dw_atomic_response response;
    } u;

    switch (ddp->opcode) {
    case DW_RDMAP_WRITE_RECORD:
        return walk_write_record(c, payload, len);
    case DW_RDMAP_RECORD_CONTROL:
        return walk_record_control(c, payload, len);
    case DW_RDMAP_READ_REQUEST:
        return dw_read_request_get(&u.read, payload, len) >= 0 ||
               complain(c, "malformed Read Request");
    case DW_RDMAP_ATOMIC_REQUEST:
        return dw_atomic_request_get(&u.atomic, payload, len) >= 0 ||
               complain(c, "malformed Atomic Request");
    case DW_RDMAP_ATOMIC_RESPONSE:
        return dw_atomic_response_get(&u.response, payload, len) >= 0 ||
               complain(c, "malformed Atomic Response");
    case DW_RDMAP_SEND_IMM:
        c->sends_by_tag[ddp->ulp & 0xff]++;
        return true;
    default:
        return true;
    }
}

static bool walk_segment(struct census *c, const uint8_t *segment, size_t len)
{
    struct dw_ddp_header ddp;
    int header = dw_ddp_get(&ddp, segment, len);
    if (header < 0)
        return complain(c, "malformed DDP segment");
    c->opcodes[ddp.opcode % OPCODES]++;
    if (c->list) {
        const size_t used = strlen(c->segments);
        snprintf(c->segments + used, sizeof c->segments - used, " %d:%zu", ddp.opcode, len);
    }
    return walk_payload(c, &ddp, segment + header, len - (size_t)header);
}

/* ---- one datagram -------------------------------------------------------------------------- */

static bool crc_right(struct census *c, const struct dw_llp_header *llp, const uint8_t *data,
                      size_t len)
{
    if (llp->flags & DW_LLP_NO_CRC) {
        c->without_crc++;
        return true;
    }
    return dw_crc32c(0, data, len - DW_CRC_BYTES) == dw_get_be32(data + len - DW_CRC_BYTES) ||
           complain(c, "CRC32C wrong");
}

/* The bytes at [at, end). */
static bool walk_segments(struct census *c, const uint8_t *data, size_t at, size_t end)
{
    while (at < end) {
        for (uint32_t pad = dw_segment_padding((uint32_t)at); pad && at < end; pad--)
            if (data[at++])
                return complain(c, "padding that is not 0");
        if (end - at < DW_SEGMENT_LEN_BYTES)
            return complain(c, "bytes after the last segment");
        size_t segment = dw_get_be16(data + at);
        at += DW_SEGMENT_LEN_BYTES;
        if (segment > end - at)
            return complain(c, "segment longer than its datagram");
        if (!walk_segment(c, data + at, segment))
            return false;
        at += segment;
    }
    return true;
}

static bool walk_body(struct census *c, const struct dw_llp_header *llp, const uint8_t *data,
                      size_t at, size_t end)
{
    switch (llp->type) {
    case DW_LLP_PROBE:
        return true; /* what follows is padding */
    case DW_LLP_RESET:
        return end - at == DW_RESET_BYTES || complain(c, "length of a RESET");
    case DW_LLP_PROOF:
        return ((llp->flags & DW_LLP_INTRO) && end - at == DW_PROOF_BYTES) ||
               complain(c, "length of a PROOF, or no intro");
    case DW_LLP_ACK:
    case DW_LLP_PROBE_REPLY:
        return at == end || complain(c, "bytes behind the header");
    default:
        return walk_segments(c, data, at, end);
    }
}

static bool walk_datagram(struct census *c, struct dw_llp_header *llp, const uint8_t *data,
                          size_t len)
{
    struct dw_intro intro;
    size_t at = DW_LLP_HEADER_BYTES, end = len - DW_CRC_BYTES;

    c->datagrams++;
    c->bytes += len;
    if (dw_llp_header_get(llp, data, len) < 0)
        return complain(c, "malformed LLP header");
    c->types[llp->type]++;
    if (!crc_right(c, llp, data, len))
        return false;
    if (llp->flags & DW_LLP_INTRO) {
        if (dw_intro_get(&intro, data + at, end - at) < 0)
            return complain(c, "malformed intro");
        c->intros++;
        at += DW_INTRO_BYTES;
    }
    return walk_body(c, llp, data, at, end);
}

/* "PACKET good|bad TYPE PSN ACK OPCODE:LENGTH..." */
static void read_datagram(struct census *c, const uint8_t *data, size_t len)
{
    struct dw_llp_header llp = {.type = 0};
    c->segments[0] = '\0';
    const bool good = walk_datagram(c, &llp, data, len);
    if (c->list)
        printf("%llu %s %d %u %u%s\n", (unsigned long long)c->packet, good ? "good" : "bad",
               llp.type, llp.psn, llp.ack, c->segments);
}

/* ---- report -------------------------------------------------------------------------------- */

static void print_count(const char *what, const char *name, uint64_t count)
{
    if (count && name)
        printf("%-16s %-18s %llu\n", what, name, (unsigned long long)count);
}

static void report(const struct census *c)
{
    char tag[8];
    printf("datagrams=%llu bytes=%llu foreign=%llu malformed=%llu intros=%llu without_crc=%llu "
           "record_bytes=%llu fins=%llu\n",
           (unsigned long long)c->datagrams, (unsigned long long)c->bytes,
           (unsigned long long)c->foreign, (unsigned long long)c->malformed,
           (unsigned long long)c->intros, (unsigned long long)c->without_crc,
           (unsigned long long)c->record_bytes, (unsigned long long)c->sends_by_tag[FIN_TAG]);
    for (int i = 0; i < DW_LLP_TYPES; i++)
        print_count("datagram", type_names[i], c->types[i]);
    for (int i = 0; i < OPCODES; i++)
        print_count("segment", opcode_names[i], c->opcodes[i]);
    for (int i = 1; i <= DW_RECORD_ABORT; i++)
        print_count("record control", control_names[i], c->record_control[i]);
    for (int i = 0; i < 256; i++) {
        snprintf(tag, sizeof tag, "0x%02x", (unsigned)i);
        print_count("send with tag", tag, c->sends_by_tag[i]);
    }
}

static int verdict(const struct census *c, int read_result, uint64_t least)
{
    if (read_result < 0) {
        printf("wire_check: FAILED: the capture is damaged\n");
        return 1;
    }
    if (c->malformed || c->sends_by_tag[FIN_TAG] || c->datagrams < least) {
        printf("wire_check: FAILED:%s%s%s\n", c->malformed ? " malformed datagrams" : "",
               c->sends_by_tag[FIN_TAG] ? " FIN messages on the wire" : "",
               c->datagrams < least ? " too few datagrams" : "");
        return 1;
    }
    printf("wire_check: ok\n");
    return 0;
}

int main(int argc, char **argv)
{
    static struct census c;
    struct pcap_reader reader;
    struct pcap_udp udp;
    unsigned low = 0, high = 65535;
    uint64_t least = 1;
    char junk;
    int rc;

    c.list = argc > 1 && strcmp(argv[1], "--list") == 0;
    argv += c.list;
    argc -= c.list;
    if (argc < 2 || argc > 4 || (argc > 2 && sscanf(argv[2], "%u-%u%c", &low, &high, &junk) != 2)) {
        fprintf(stderr,
                "usage: wire_check [--list] FILE.pcap [LOWPORT-HIGHPORT [LEAST_DATAGRAMS]]\n");
        return 2;
    }
    if (argc > 3)
        least = strtoull(argv[3], NULL, 10);
    if (pcap_open(&reader, argv[1]) < 0) {
        fprintf(stderr,
                "wire_check: %s is no capture in pcap format of Ethernet, Linux cooked "
                "or raw IP frames\n",
                argv[1]);
        return 2;
    }
    while ((rc = pcap_next(&reader, &udp)) > 0) {
        c.packet = reader.packets;
        bool ours = (udp.source_port >= low && udp.source_port <= high) ||
                    (udp.destination_port >= low && udp.destination_port <= high);
        if (udp.kind == PCAP_OTHER || (udp.kind == PCAP_UDP && !ours))
            c.foreign++;
        else if (udp.kind == PCAP_CUT)
            (void)complain(&c, "packet cut by the capture, or its lengths are wrong");
        else if (udp.kind == PCAP_FRAGMENT)
            (void)complain(&c, "IP fragment: a datagram larger than the path's MTU");
        else
            read_datagram(&c, udp.payload, udp.payload_bytes);
    }
    pcap_close(&reader);
    if (c.list)
        return rc < 0;
    report(&c);
    return verdict(&c, rc, least);
}
