/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of RC traffic as captures, whole and broken. */
#include "test/net/rc_record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/mpa.h"

static const char *const opcode_names[RC_RECORD_OPCODES] = {
    "Write",           "Read Request", "Read Response", "Send",
    "Send Invalidate", "Send SE",      "Send SE Inv",   "Terminate"};

void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("rc_wire_check: ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    exit(1);
}

void must(bool truth, const char *what)
{
    if (!truth)
        die("%s failed", what);
}

/* ---- captures ----------------------------------------------------------------------------- */

#define CALLER_PORT 40000

/* How far the bytes of one side are in the capture. */
struct cutter {
    const uint8_t *bytes; /* that say where the segments end */
    const uint8_t *sent;  /* that are in the capture: the same, or a broken copy */
    size_t len, done;
    bool framed; /* the request or reply is behind it */
    enum dw_mpa_kind kind;
    struct dw_mpa_stream stream;
};

static struct cutter cutter_of(const struct rc_record *record, int side,
                               const uint8_t *caller_bytes)
{
    return (struct cutter){.bytes = record->tap.from[side].bytes,
                           .sent = side ? record->tap.from[side].bytes : caller_bytes,
                           .kind = side ? DW_MPA_REPLY : DW_MPA_REQUEST,
                           .stream.markers = record->markers};
}

/* Bytes of the frame or FPDU that is next; 0 when it has not all come. */
static size_t next_unit(struct cutter *c)
{
    struct dw_mpa_frame frame;

    if (!c->framed) {
        int n = dw_mpa_frame_get(&frame, c->kind, c->bytes + c->done, c->len - c->done);
        must(n > 0 || n == -EAGAIN, "reading a start-up frame");
        c->framed = n > 0;
        return n > 0 ? (size_t)n : 0;
    }
    size_t length_at = c->done + (c->stream.markers && c->stream.at % 512 == 0 ? 4 : 0);
    if (c->len < length_at + DW_MPA_LENGTH_BYTES)
        return 0;
    size_t bytes = dw_mpa_fpdu_bytes(&c->stream, dw_get_be16(c->bytes + length_at));
    if (bytes > c->len - c->done)
        return 0;
    c->stream.at += bytes;
    must(bytes <= TCP_PCAP_SEGMENT_MAX_BYTES, "an FPDU in one segment");
    return bytes;
}

static void write_segment(struct tcp_pcap *pcap, struct cutter *c, enum tcp_pcap_side side,
                          size_t len)
{
    tcp_pcap_segment(pcap, side, c->sent + c->done, len);
    c->done += len;
}

/* Where a segment ends with fewer bytes of an FPDU, tshark 4.0 takes what follows for another one.
 */
#define FPDU_MIN_BYTES 8

/*
 * Bytes of the next segment; 0 when more has to come. `fpdus` is where the first FPDU begins that
 * is not wholly in the capture.
 */
static size_t next_segment(const struct cutter *c, struct cutter *fpdus)
{
    size_t n = c->len - c->done;

    n = n < TCP_PCAP_SEGMENT_MAX_BYTES ? n : TCP_PCAP_SEGMENT_MAX_BYTES;
    fpdus->len = c->done + n;
    for (size_t fpdu; (fpdu = next_unit(fpdus)) > 0;)
        fpdus->done += fpdu;
    size_t begun = fpdus->len - fpdus->done;
    return begun < FPDU_MIN_BYTES ? n - begun : n;
}

/* As the tap saw it: frames apart, then whatever came at once. */
static void write_runs(struct tcp_pcap *pcap, const struct rc_record *record,
                       const uint8_t *caller_bytes, size_t run_count)
{
    struct cutter sides[2] = {cutter_of(record, 0, caller_bytes), cutter_of(record, 1, NULL)};
    struct cutter fpdus[2] = {sides[0], sides[1]};

    tcp_pcap_connect(pcap, CALLER_PORT, record->tap.target_port);
    for (size_t i = 0; i < run_count; i++) {
        enum tcp_pcap_side from = record->tap.runs[i].from;
        struct cutter *c = &sides[from];
        size_t n;

        c->len += record->tap.runs[i].len;
        while ((n = c->framed ? next_segment(c, &fpdus[from]) : next_unit(c)) > 0)
            write_segment(pcap, c, from, n);
    }
    tcp_pcap_disconnect(pcap);
}

/* Takes a message out of what tshark is to find. */
static void leave_out(struct rc_ledger *ledger, const struct cutter *c, size_t bytes)
{
    struct dw_mpa_stream before = c->stream;
    struct dw_ddp_header ddp;
    struct dw_mpa_fpdu fpdu;
    uint8_t *copy = malloc(bytes);
    uint16_t cause;
    int header;

    must(copy != NULL, "copying an FPDU");
    memcpy(copy, c->bytes + c->done, bytes);
    before.at -= bytes;
    must(!dw_mpa_fpdu_get(&before, &fpdu, copy, bytes), "reading an FPDU");
    header = dw_ddp_get_stream(&ddp, fpdu.ulpdu, fpdu.ulpdu_bytes, &cause);
    must(header > 0, "reading a header");
    ledger->messages[ddp.opcode] -= ddp.last;
    ledger->bytes[ddp.opcode] -= fpdu.ulpdu_bytes - (size_t)header;
    ledger->left_out++;
    free(copy);
}

/*
 * With markers tshark 4.0 wants each FPDU in a segment of its own, as RFC 5044 5 does. It takes the
 * marker behind an FPDU that ends at a multiple of 512 for a part of it, and is lost then: such an
 * FPDU is left out, and the next one, which a marker leads as at the beginning of a stream, begins
 * another connection. Sides one after the other, for they get there at different times.
 */
static void write_fpdus(struct tcp_pcap *pcap, const struct rc_record *record,
                        const uint8_t *caller_bytes, struct rc_ledger *ledger)
{
    uint16_t port = CALLER_PORT;

    for (int side = 0; side < 2; side++) {
        struct cutter c = cutter_of(record, side, caller_bytes);
        bool connected = false;
        size_t n;

        c.len = record->tap.from[side].len;
        c.done = next_unit(&c);
        while ((n = next_unit(&c)) > 0) {
            if (!connected) {
                struct cutter frames[2] = {cutter_of(record, 0, caller_bytes),
                                           cutter_of(record, 1, NULL)};

                tcp_pcap_connect(pcap, port++, record->tap.target_port);
                for (int i = 0; i < 2; i++) {
                    frames[i].len = record->tap.from[i].len;
                    write_segment(pcap, &frames[i], (enum tcp_pcap_side)i, next_unit(&frames[i]));
                }
                connected = true;
            }
            if (c.stream.markers && c.stream.at % 512 == 0) {
                leave_out(ledger, &c, n);
                c.done += n;
                tcp_pcap_disconnect(pcap);
                connected = false;
                continue;
            }
            write_segment(pcap, &c, (enum tcp_pcap_side)side, n);
        }
        if (connected)
            tcp_pcap_disconnect(pcap);
        must(c.done == c.len, "reading all FPDUs");
    }
}

static void write_expectation(const char *path, const struct rc_record *record,
                              const struct rc_ledger *ledger)
{
    FILE *file = fopen(path, "w");

    must(file != NULL, "creating an expectation");
    fprintf(file, "revision %u\nmarkers %d\ncrc %d\ncause %u\nleft_out %u\n", record->revision,
            record->markers, record->crc, record->cause, ledger->left_out);
    for (int i = 0; i < RC_RECORD_OPCODES; i++)
        fprintf(file, "opcode %d %llu %llu %s\n", i, (unsigned long long)ledger->messages[i],
                (unsigned long long)ledger->bytes[i], opcode_names[i]);
    must(!fclose(file), "writing an expectation");
}

/* The first runs of the tap; what the caller said is replaced by a copy of it. */
static void write_as(const char *dir, const char *prefix, const char *name,
                     const struct rc_record *record, const uint8_t *caller_bytes, size_t run_count)
{
    struct rc_ledger ledger = record->ledger;
    struct tcp_pcap pcap;
    char path[1024];

    snprintf(path, sizeof path, "%s/%s%s.pcap", dir, prefix, name);
    must(!tcp_pcap_create(&pcap, path), "creating a capture");
    if (record->markers)
        write_fpdus(&pcap, record, caller_bytes, &ledger);
    else
        write_runs(&pcap, record, caller_bytes, run_count);
    must(!tcp_pcap_close(&pcap), "writing a capture");
    snprintf(path, sizeof path, "%s/%s%s.expect", dir, prefix, name);
    write_expectation(path, record, &ledger);
}

void rc_record_write(const struct rc_record *record, const char *dir)
{
    write_as(dir, "", record->name, record, record->tap.from[0].bytes, record->tap.run_count);
}

/* ---- broken copies ------------------------------------------------------------------------ */

/* Where in the FPDU, counted from its length field. */
enum { LENGTH = 1, DDP = 2, RDMAP = 3, QN = 11, MSN = 15, MO = 19, PAYLOAD = 20, PAD = 37 };
enum what { BYTE, CRC_FIELD, CRC_ORDER, MARKER, MARKER_RESERVED, REQUEST };

#define SEND_17  7 /* FPDUs of the caller: the Sends of 17 and 100 bytes */
#define SEND_100 8

static const struct breakage {
    const char *name;
    bool markers;
    enum what what;
    unsigned fpdu; /* MARKER: the first one with a marker inside */
    size_t offset;
    uint8_t flip;
    bool crc_repaired; /* so that nothing but the fault is to be seen */
} breakages[] = {
    {"payload", false, BYTE, SEND_100, PAYLOAD + 50, 0x01, false},
    {"payload_with_markers", true, BYTE, SEND_100, PAYLOAD, 0x01, false},
    {"crc", false, CRC_FIELD, SEND_100, 3, 0x80, false},
    {"crc_order", false, CRC_ORDER, SEND_100, 0, 0, false},
    {"pad", false, BYTE, SEND_17, PAD, 0x01, true},
    {"length_short", false, BYTE, SEND_100, LENGTH, 0x04, false},
    {"length_long", false, BYTE, SEND_100, LENGTH, 0x08, false},
    {"length_huge", false, BYTE, SEND_100, LENGTH - 1, 0x40, false},
    {"length_with_pad", false, BYTE, SEND_17, LENGTH, 0x05, true},
    {"last_flag", false, BYTE, SEND_100, DDP, 0x40, true},
    {"tagged_flag", false, BYTE, SEND_100, DDP, 0x80, true},
    {"ddp_reserved", false, BYTE, SEND_100, DDP, 0x04, true},
    {"ddp_version", false, BYTE, SEND_100, DDP, 0x01, true},
    {"rdmap_version", false, BYTE, SEND_100, RDMAP, 0xc0, true},
    {"rdmap_reserved", false, BYTE, SEND_100, RDMAP, 0x10, true},
    {"opcode_unknown", false, BYTE, SEND_100, RDMAP, 0x0c, true},
    {"opcode_other", false, BYTE, SEND_100, RDMAP, 0x06, true},
    {"queue", false, BYTE, SEND_100, QN, 0x04, true},
    {"msn", false, BYTE, SEND_100, MSN, 0x40, true},
    {"mo", false, BYTE, SEND_100, MO, 0x04, true},
    {"marker", true, MARKER, 0, 3, 0x08, false},
    {"marker_crc_repaired", true, MARKER, 0, 3, 0x08, true},
    {"marker_high", true, MARKER, 0, 2, 0x80, true},
    {"marker_reserved", true, MARKER, 0, 1, 0x01, true},
    {"marker_leading", true, BYTE, 0, (size_t)-1, 0x04, true},
    {"request_key", false, REQUEST, 0, 5, 0x01, false},
    {"request_revision", false, REQUEST, 0, 17, 0x01, false},
    {"request_markers", false, REQUEST, 0, 16, 0x80, false},
};
#define BREAKAGES (sizeof breakages / sizeof *breakages)

/* The FPDU that the breakage wants: where it begins; its size; the stream before it. */
static size_t find_fpdu(const struct rc_record *record, const struct breakage *breakage,
                        size_t *bytes, struct dw_mpa_stream *before)
{
    struct cutter c = {.bytes = record->tap.from[0].bytes,
                       .len = record->tap.from[0].len,
                       .stream.markers = record->markers};

    c.done = next_unit(&c);
    for (unsigned i = 0;; i++) {
        *before = c.stream;
        *bytes = next_unit(&c);
        must(*bytes > 0, "finding an FPDU to break");
        bool inside = before->at % 512 != 0 && before->at % 512 + *bytes > 512;
        if (breakage->what == MARKER ? inside : i == breakage->fpdu)
            return c.done;
        c.done += *bytes;
    }
}

static void repair_crc(uint8_t *fpdu, size_t bytes)
{
    uint32_t crc = dw_crc32c(0, fpdu, bytes - 4);

    for (unsigned i = 0; i < 4; i++)
        fpdu[bytes - 4 + i] = (uint8_t)(crc >> 8 * i);
}

static void break_fpdu(const struct rc_record *record, const struct breakage *breakage,
                       uint8_t *stream)
{
    struct dw_mpa_stream before;
    size_t bytes, begin = find_fpdu(record, breakage, &bytes, &before);
    size_t length_at = before.markers && before.at % 512 == 0 ? 4 : 0;
    uint8_t *fpdu = stream + begin, *crc = fpdu + bytes - 4;

    if (breakage->what == MARKER)
        fpdu[512 - before.at % 512 + breakage->offset] ^= breakage->flip;
    else if (breakage->what == CRC_FIELD)
        crc[breakage->offset] ^= breakage->flip;
    else if (breakage->what == CRC_ORDER)
        dw_put_be32(crc, dw_crc32c(0, fpdu, bytes - 4));
    else
        fpdu[length_at + breakage->offset] ^= breakage->flip;
    if (breakage->crc_repaired)
        repair_crc(fpdu, bytes);
}

void rc_record_write_broken(const struct rc_record *record, const char *dir)
{
    size_t len = record->tap.from[0].len;
    uint8_t *copy = malloc(len);

    must(copy != NULL, "copying a stream");
    for (size_t i = 0; i < BREAKAGES; i++) {
        if (breakages[i].markers != record->markers)
            continue;
        memcpy(copy, record->tap.from[0].bytes, len);
        if (breakages[i].what == REQUEST)
            copy[breakages[i].offset] ^= breakages[i].flip;
        else
            break_fpdu(record, &breakages[i], copy);
        write_as(dir, "broken-", breakages[i].name, record, copy, record->tap.run_count);
    }
    free(copy);
    if (!record->markers) {
        write_as(dir, "broken-", "cut", record, record->tap.from[0].bytes,
                 record->tap.run_count - 1);
    }
}
