/* SPDX-License-Identifier: BSD-3-Clause */
/* The LLP header and the trailer, against vectors written from WIRE.md. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"
#include "common/wire/rdmap.h"
#include "test/vectors/vectors.h"

static const struct {
    const char *name;
    struct dw_llp_header header;
} golden[] = {
    {"datagram_ud_send",
     {.type = DW_LLP_UD,
      .incarnation = 0xdeadbeef,
      .token = 0x0123456789abcdef,
      .job = 0x00010002,
      .rank = 3,
      .number = 0x5,
      .dst_qpn = 0xabcdef,
      .timestamp = 0x8000}},
    {"datagram_data_intro_coalesced",
     {.type = DW_LLP_DATA,
      .flags = DW_LLP_ACK_REQUEST | DW_LLP_INTRO,
      .credit_kib = 256,
      .incarnation = 7,
      .token = 0xfedcba9876543210,
      .job = 0x80000001,
      .rank = 1000,
      .number = 0xfffffffffffffffe,
      .path = 0x1,
      .ecn_echo = 0x2,
      .dst_qpn = 0x3,
      .src_qpn = 0xffffff,
      .timestamp = 0xffff,
      .timestamp_echo = 0x1,
      .psn = UINT32_MAX,
      .ack = 5,
      .sack = UINT64_C(1) << 63 | 1}},
    {"datagram_data_goes_on",
     {.type = DW_LLP_DATA,
      .flags = DW_LLP_INTRO | DW_LLP_GOES_ON,
      .credit_kib = 64,
      .incarnation = 10,
      .token = 0xff,
      .job = 1,
      .rank = 2,
      .number = 0x300,
      .dst_qpn = 2,
      .src_qpn = 1,
      .psn = 57,
      .ack = 31}},
    {"datagram_record",
     {.type = DW_LLP_RECORD,
      .credit_kib = 64,
      .incarnation = 1,
      .token = 0xff,
      .job = 1,
      .number = 0x100000000,
      .timestamp = 0x2,
      .timestamp_echo = 0x3,
      .ack = 16}},
    {"datagram_ack",
     {.type = DW_LLP_ACK,
      .credit_kib = UINT16_MAX,
      .incarnation = 1,
      .token = 0xff,
      .job = 1,
      .rank = 2,
      .number = 0x102030405060708,
      .dst_qpn = 0x2,
      .src_qpn = 0x3,
      .timestamp = 0x1234,
      .ack = 100,
      .sack = 0xb}},
    {"datagram_ack_refusing",
     {.type = DW_LLP_ACK,
      .flags = DW_LLP_REFUSING,
      .credit_kib = 256,
      .incarnation = 1,
      .token = 0xff,
      .job = 1,
      .rank = 2,
      .number = 0x1,
      .ack = 7}},
    {"datagram_probe",
     {.type = DW_LLP_PROBE,
      .flags = DW_LLP_ACK_REQUEST,
      .incarnation = 1,
      .token = 0xff,
      .job = 1,
      .rank = 2,
      .number = 0x65,
      .ecn_echo = 0xff,
      .timestamp = 0x1,
      .timestamp_echo = 0xffff,
      .psn = 0x65}},
    {"datagram_probe_reply_no_crc",
     {.type = DW_LLP_PROBE_REPLY,
      .flags = DW_LLP_NO_CRC,
      .credit_kib = 16,
      .incarnation = 9,
      .token = 0x1000000000000001,
      .job = 1,
      .rank = 3,
      .path = 0xff,
      .dst_qpn = 0xffffff,
      .timestamp_echo = 0x1,
      .psn = 0x65,
      .ack = 1}},
};
#define GOLDEN_COUNT (sizeof golden / sizeof golden[0])

static void assert_header_equal(const struct dw_llp_header *a, const struct dw_llp_header *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->credit_kib, b->credit_kib);
    assert_int_equal(a->incarnation, b->incarnation);
    assert_true(a->token == b->token);
    assert_int_equal(a->job, b->job);
    assert_int_equal(a->rank, b->rank);
    assert_true(a->number == b->number);
    assert_int_equal(a->path, b->path);
    assert_int_equal(a->ecn_echo, b->ecn_echo);
    assert_int_equal(a->dst_qpn, b->dst_qpn);
    assert_int_equal(a->src_qpn, b->src_qpn);
    assert_int_equal(a->timestamp, b->timestamp);
    assert_int_equal(a->timestamp_echo, b->timestamp_echo);
    assert_int_equal(a->psn, b->psn);
    assert_int_equal(a->ack, b->ack);
    assert_true(a->sack == b->sack);
}

static void llp_header_get__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct dw_llp_header header;
        struct vector v;

        vector_load(&v, golden[i].name);
        assert_int_equal(dw_llp_header_get(&header, v.bytes, v.len), 0);
        assert_header_equal(&header, &golden[i].header);
    }
}

static void llp_header_put__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        uint8_t buf[DW_LLP_HEADER_BYTES];
        struct vector v;

        vector_load(&v, golden[i].name);
        dw_llp_header_put(buf, &golden[i].header);
        assert_memory_equal(buf, v.bytes, sizeof buf);
    }
}

static void trailer__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        uint32_t expected;
        struct vector v;

        vector_load(&v, golden[i].name);
        expected = golden[i].header.flags & DW_LLP_NO_CRC
                       ? 0
                       : dw_crc32c(0, v.bytes, v.len - DW_CRC_BYTES);
        assert_int_equal(dw_get_be32(v.bytes + v.len - DW_CRC_BYTES), expected);
    }
}

/* The segments lie where WIRE.md says and fill the datagram to the trailer. */
static void segments__golden_lengths(void **state)
{
    static const struct {
        const char *name;
        unsigned segments;
    } cases[] = {{"datagram_ud_send", 1},
                 {"datagram_data_intro_coalesced", 2},
                 {"datagram_data_goes_on", 1},
                 {"datagram_record", 1},
                 {"datagram_ack", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_llp_header header;
        unsigned segments = 0;
        struct vector v;
        size_t at;

        vector_load(&v, cases[i].name);
        assert_int_equal(dw_llp_header_get(&header, v.bytes, v.len), 0);
        at = DW_LLP_HEADER_BYTES + (header.flags & DW_LLP_INTRO ? DW_INTRO_BYTES : 0);
        for (; at < v.len - DW_CRC_BYTES; segments++) {
            at += dw_segment_padding((uint32_t)at);
            bool tagged = v.bytes[at + DW_SEGMENT_LEN_BYTES] & 0x80;
            size_t head =
                tagged ? DW_DDP_TAGGED_BYTES + DW_WRITE_RECORD_BYTES : DW_DDP_UNTAGGED_BYTES;
            head += DW_SEGMENT_LEN_BYTES; /* the payload is aligned */
            assert_int_equal((at + head) % 8, 0);
            at += DW_SEGMENT_LEN_BYTES + dw_get_be16(v.bytes + at);
        }
        assert_int_equal(at, v.len - DW_CRC_BYTES);
        assert_int_equal(segments, cases[i].segments);
    }
}

static void llp_header_get__truncated(void **state)
{
    struct vector v;

    (void)state;
    vector_load(&v, "datagram_ack");
    assert_int_equal(v.len, DW_LLP_HEADER_BYTES + DW_CRC_BYTES);
    for (size_t len = 0; len < v.len; len++) {
        uint8_t *bytes = exact_copy(v.bytes, len);
        struct dw_llp_header header;

        assert_int_equal(dw_llp_header_get(&header, bytes, len), -EBADMSG);
        free(bytes);
    }
}

/* All values of the first byte: version and type. */
static void llp_header_get__version_and_type(void **state)
{
    struct vector v;

    (void)state;
    vector_load(&v, "datagram_ack");
    memset(v.bytes + 40, 0, 16); /* what UD must not use */
    memset(v.bytes + 2, 0, 2);
    for (unsigned byte = 0; byte < 256; byte++) {
        struct dw_llp_header header;
        int expected = byte >> 4 != DW_WIRE_VERSION   ? -EPROTONOSUPPORT
                       : (byte & 0xf) >= DW_LLP_TYPES ? -EPROTO
                                                      : 0;

        v.bytes[0] = (uint8_t)byte;
        assert_int_equal(dw_llp_header_get(&header, v.bytes, v.len), expected);
    }
}

/* All values, on each type of the reliable service. */
static void llp_header_get__flags(void **state)
{
    struct vector v;

    (void)state;
    vector_load(&v, "datagram_ack");
    for (unsigned type = DW_LLP_DATA; type < DW_LLP_TYPES; type++) {
        v.bytes[0] = (uint8_t)(DW_WIRE_VERSION << 4 | type);
        for (unsigned flags = 0; flags < 256; flags++) {
            struct dw_llp_header header;
            const bool sealed = flags & DW_LLP_SEALED;
            const bool misplaced = (flags & DW_LLP_GOES_ON && !(flags & DW_LLP_INTRO)) ||
                                   flags & (sealed ? DW_LLP_NO_CRC : DW_LLP_SOURCE_KEY);

            v.bytes[1] = (uint8_t)flags;
            assert_int_equal(dw_llp_header_get(&header, v.bytes, v.len + 12),
                             misplaced || flags & ~(unsigned)DW_LLP_FLAGS ? -EPROTO : 0);
            for (size_t len = v.len; sealed && len < v.len + 12; len++)
                assert_int_equal(dw_llp_header_get(&header, v.bytes, len), -EBADMSG);
        }
    }
}

/* Each bit of what is 0 on UD: REFUSING, GOES_ON, credit, ack, SACK. */
static void llp_header_get__ud_unused_fields(void **state)
{
    struct vector v;

    (void)state;
    vector_load(&v, "datagram_ud_send");
    static const uint8_t flags[] = {DW_LLP_REFUSING, DW_LLP_INTRO | DW_LLP_GOES_ON};
    for (size_t i = 0; i < sizeof flags; i++) {
        struct dw_llp_header flagged;

        v.bytes[1] ^= flags[i];
        assert_int_equal(dw_llp_header_get(&flagged, v.bytes, v.len), -EPROTO);
        v.bytes[1] ^= flags[i];
    }
    for (unsigned bit = 0; bit < 8 * DW_LLP_HEADER_BYTES; bit++) {
        unsigned byte = bit / 8;
        struct dw_llp_header header;

        if (byte < 1 || (byte == 1 && 1u << bit % 8 != DW_LLP_REFUSING)) {
            continue;
        }
        v.bytes[byte] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(dw_llp_header_get(&header, v.bytes, v.len),
                         byte < 4 || (byte >= 44 && byte < 56) ? -EPROTO : 0);
        v.bytes[byte] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llp_header_get__golden),
        cmocka_unit_test(llp_header_put__golden),
        cmocka_unit_test(trailer__golden),
        cmocka_unit_test(segments__golden_lengths),
        cmocka_unit_test(llp_header_get__truncated),
        cmocka_unit_test(llp_header_get__version_and_type),
        cmocka_unit_test(llp_header_get__flags),
        cmocka_unit_test(llp_header_get__ud_unused_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
