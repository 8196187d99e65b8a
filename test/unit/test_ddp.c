/* SPDX-License-Identifier: BSD-3-Clause */
/* DDP segment headers, against vectors written from WIRE.md. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/wire/bytes.h"
#include "common/wire/ddp.h"
#include "test/vectors/vectors.h"

#define ANY_TAGGED UINT32_MAX

/* The queue of each opcode as WIRE.md has it; ANY_TAGGED: a tagged one. */
static const uint32_t queue_of[16] = {
    [DW_RDMAP_WRITE] = ANY_TAGGED,
    [DW_RDMAP_READ_REQUEST] = 1,
    [DW_RDMAP_READ_RESPONSE] = ANY_TAGGED,
    [DW_RDMAP_SEND] = 0,
    [DW_RDMAP_SEND_INVALIDATE] = 0,
    [DW_RDMAP_SEND_SE] = 0,
    [DW_RDMAP_SEND_SE_INVALIDATE] = 0,
    [DW_RDMAP_TERMINATE] = 2,
    [DW_RDMAP_IMMEDIATE] = 0,
    [DW_RDMAP_IMMEDIATE_SE] = 0,
    [DW_RDMAP_ATOMIC_REQUEST] = 1,
    [DW_RDMAP_ATOMIC_RESPONSE] = 3,
    [DW_RDMAP_WRITE_RECORD] = ANY_TAGGED,
    [DW_RDMAP_SEND_IMM] = 0,
    [DW_RDMAP_RECORD_CONTROL] = 4,
    [DW_RDMAP_SEND_SE_IMM] = 0,
};
#define OPCODE_COUNT (sizeof queue_of / sizeof queue_of[0])

static bool has_ulp(unsigned opcode)
{
    return opcode == DW_RDMAP_SEND_INVALIDATE || opcode == DW_RDMAP_SEND_SE_INVALIDATE ||
           opcode == DW_RDMAP_SEND_IMM || opcode == DW_RDMAP_SEND_SE_IMM;
}

static const struct {
    const char *name;
    size_t offset; /* of the segment in the datagram */
    struct dw_ddp_header header;
} golden[] = {
    {"datagram_ud_send", 62, {.last = true, .opcode = DW_RDMAP_SEND, .msn = 1}},
    {"datagram_data_intro_coalesced",
     94,
     {.last = true, .opcode = DW_RDMAP_SEND_IMM, .ulp = 0xcafef00d, .msn = 42}},
    {"datagram_data_intro_coalesced",
     118,
     {.last = true, .opcode = DW_RDMAP_READ_REQUEST, .qn = DW_QN_REQUEST, .msn = 9}},
    {"datagram_record",
     62,
     {.tagged = true,
      .last = true,
      .opcode = DW_RDMAP_WRITE_RECORD,
      .stag = 0xa1a2a3a4,
      .to = 0x0000700012445674}},
};
#define GOLDEN_COUNT (sizeof golden / sizeof golden[0])

static void assert_header_equal(const struct dw_ddp_header *a, const struct dw_ddp_header *b)
{
    assert_int_equal(a->tagged, b->tagged);
    assert_int_equal(a->last, b->last);
    assert_int_equal(a->opcode, b->opcode);
    assert_int_equal(a->stag, b->stag);
    assert_true(a->to == b->to);
    assert_int_equal(a->ulp, b->ulp);
    assert_int_equal(a->qn, b->qn);
    assert_int_equal(a->msn, b->msn);
    assert_int_equal(a->mo, b->mo);
}

static int bytes_of(const struct dw_ddp_header *header)
{
    return header->tagged ? DW_DDP_TAGGED_BYTES : DW_DDP_UNTAGGED_BYTES;
}

/* A header that is right for the opcode, each field distinct. */
static struct dw_ddp_header header_of(unsigned opcode)
{
    struct dw_ddp_header header = {.opcode = (uint8_t)opcode};

    header.tagged = queue_of[opcode] == ANY_TAGGED;
    if (header.tagged) {
        header.stag = 0x01020304;
        header.to = 0x05060708090a0b0c;
    } else {
        header.qn = queue_of[opcode];
        header.ulp = has_ulp(opcode) ? 0x11121314 : 0;
        header.msn = 0x21222324;
        header.mo = 0x31323334;
    }
    return header;
}

static void ddp_get__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct dw_ddp_header header;
        struct vector v;

        vector_load(&v, golden[i].name);
        assert_int_equal(dw_ddp_get(&header, v.bytes + golden[i].offset, v.len - golden[i].offset),
                         bytes_of(&golden[i].header));
        assert_header_equal(&header, &golden[i].header);
    }
}

static void ddp_put__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        uint8_t buf[DW_DDP_UNTAGGED_BYTES];
        struct vector v;
        size_t len;

        vector_load(&v, golden[i].name);
        len = dw_ddp_put(buf, &golden[i].header);
        assert_int_equal(len, bytes_of(&golden[i].header));
        assert_memory_equal(buf, v.bytes + golden[i].offset, len);
    }
}

static void ddp__round_trip_of_each_opcode(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * OPCODE_COUNT; i++) {
        struct dw_ddp_header in = header_of(i / 2), out;
        uint8_t buf[DW_DDP_UNTAGGED_BYTES];

        in.last = i % 2;
        assert_int_equal(dw_ddp_put(buf, &in), bytes_of(&in));
        assert_int_equal(dw_ddp_get(&out, buf, (size_t)bytes_of(&in)), bytes_of(&in));
        assert_header_equal(&out, &in);
    }
}

static void ddp_get__truncated(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < OPCODE_COUNT; opcode++) {
        struct dw_ddp_header in = header_of(opcode), out;
        uint8_t buf[DW_DDP_UNTAGGED_BYTES];
        size_t whole = dw_ddp_put(buf, &in);

        for (size_t len = 0; len < whole; len++) {
            uint8_t *bytes = exact_copy(buf, len);

            assert_int_equal(dw_ddp_get(&out, bytes, len), -EBADMSG);
            free(bytes);
        }
    }
}

/* All values of the two control bytes: only the assigned combinations are taken. */
static void ddp_get__control_bytes(void **state)
{
    (void)state;
    for (unsigned control = 0; control < 65536; control++) {
        unsigned first = control >> 8, second = control & 0xff, opcode = second & 0xf;
        bool tagged = first & 0x80;
        bool good = (first & 0x3f) == 0x01 && (second & 0xf0) == 0x40 && opcode < OPCODE_COUNT &&
                    (queue_of[opcode] == ANY_TAGGED) == tagged;
        uint8_t buf[DW_DDP_UNTAGGED_BYTES] = {(uint8_t)first, (uint8_t)second};
        struct dw_ddp_header header;

        if (!tagged && opcode < OPCODE_COUNT) {
            dw_put_be32(buf + 6, queue_of[opcode]);
        }
        assert_int_equal(dw_ddp_get(&header, buf, sizeof buf), !good    ? -EPROTO
                                                               : tagged ? DW_DDP_TAGGED_BYTES
                                                                        : DW_DDP_UNTAGGED_BYTES);
    }
}

static void ddp_get__queue_of_each_opcode(void **state)
{
    static const uint32_t queues[] = {0, 1, 2, 3, 4, 5, 0x80000000, 0x01000000, UINT32_MAX};

    (void)state;
    for (unsigned i = 0; i < OPCODE_COUNT * (sizeof queues / sizeof queues[0]); i++) {
        unsigned opcode = i % OPCODE_COUNT;
        struct dw_ddp_header in = header_of(opcode), out;
        uint8_t buf[DW_DDP_UNTAGGED_BYTES];

        if (in.tagged) {
            continue;
        }
        in.qn = queues[i / OPCODE_COUNT];
        dw_ddp_put(buf, &in);
        assert_int_equal(dw_ddp_get(&out, buf, sizeof buf),
                         in.qn == queue_of[opcode] ? DW_DDP_UNTAGGED_BYTES : -EPROTO);
    }
}

/* Each bit of the ulp field, where it is reserved and where it is not. */
static void ddp_get__ulp_bits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < OPCODE_COUNT * 32; i++) {
        unsigned opcode = i / 32;
        struct dw_ddp_header in = header_of(opcode), out;
        uint8_t buf[DW_DDP_UNTAGGED_BYTES];

        if (in.tagged) {
            continue;
        }
        in.ulp = 1u << i % 32;
        dw_ddp_put(buf, &in);
        assert_int_equal(dw_ddp_get(&out, buf, sizeof buf),
                         has_ulp(opcode) ? DW_DDP_UNTAGGED_BYTES : -EPROTO);
    }
}

/* ---- on an RC stream ---------------------------------------------------------------------- */

/* What is ours goes over datagrams alone, but for Sends with immediate data. */
static bool is_of_streams(unsigned opcode)
{
    return opcode <= DW_RDMAP_ATOMIC_RESPONSE || opcode == DW_RDMAP_SEND_IMM ||
           opcode == DW_RDMAP_SEND_SE_IMM;
}

static int get_stream(const uint8_t *buf, size_t len, uint16_t *cause)
{
    struct dw_ddp_header header;
    int verdict = dw_ddp_get_stream(&header, buf, len, cause);

    assert_true(verdict == -EPROTO || verdict == -EBADMSG || is_of_streams(header.opcode));
    return verdict;
}

/* All values of the two control bytes: which are taken, and what the others are terminated with. */
static void ddp_get_stream__control_bytes(void **state)
{
    (void)state;
    for (unsigned control = 0; control < 65536; control++) {
        unsigned first = control >> 8, second = control & 0xff, opcode = second & 0xf;
        bool tagged = first & 0x80;
        bool known = is_of_streams(opcode) && (queue_of[opcode] == ANY_TAGGED) == tagged;
        uint8_t buf[DW_DDP_UNTAGGED_BYTES] = {(uint8_t)first, (uint8_t)second};
        uint16_t cause = 0, expected = 0;

        if (!tagged && known) {
            dw_put_be32(buf + 6, queue_of[opcode]);
        }
        if ((first & 3) != 1) {
            expected = tagged ? DW_TERM_DDP_TAGGED_VERSION : DW_TERM_DDP_UNTAGGED_VERSION;
        } else if ((second & 0xc0) != 0x40) {
            expected = DW_TERM_RDMAP_VERSION;
        } else if (!known) {
            expected = DW_TERM_RDMAP_OPCODE;
        }
        assert_int_equal(get_stream(buf, sizeof buf, &cause), expected ? -EPROTO
                                                              : tagged ? DW_DDP_TAGGED_BYTES
                                                                       : DW_DDP_UNTAGGED_BYTES);
        assert_int_equal(cause, expected);
    }
}

static void ddp_get_stream__queues(void **state)
{
    static const uint32_t queues[] = {0, 1, 2, 3, 4, 0x01000000, UINT32_MAX};

    (void)state;
    for (unsigned i = 0; i < 16 * (sizeof queues / sizeof queues[0]); i++) {
        const unsigned opcode = i % 16;
        if (!is_of_streams(opcode)) {
            continue;
        }
        struct dw_ddp_header in = header_of(opcode);
        uint8_t buf[DW_DDP_UNTAGGED_BYTES];
        uint16_t cause = 0;

        if (in.tagged) {
            continue;
        }
        in.qn = queues[i / 16];
        dw_ddp_put(buf, &in);
        assert_int_equal(get_stream(buf, sizeof buf, &cause),
                         in.qn == queue_of[opcode] ? DW_DDP_UNTAGGED_BYTES : -EPROTO);
        assert_int_equal(cause, in.qn == queue_of[opcode] ? 0
                                : in.qn > 3               ? DW_TERM_DDP_QN
                                                          : DW_TERM_RDMAP_OPCODE);
    }
}

/* What another stack may leave in reserved bits changes nothing. */
static void ddp_get_stream__reserved_bits(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 16; opcode++) {
        if (!is_of_streams(opcode)) {
            continue;
        }
        struct dw_ddp_header in = header_of(opcode), out;
        uint8_t buf[DW_DDP_UNTAGGED_BYTES];
        size_t len = dw_ddp_put(buf, &in);
        uint16_t cause;

        buf[0] |= 0x3c;
        buf[1] |= 0x30;
        if (!in.tagged && !has_ulp(opcode)) {
            dw_put_be32(buf + 2, UINT32_MAX);
        }
        assert_int_equal(dw_ddp_get_stream(&out, buf, len, &cause), len);
        assert_header_equal(&out, &in);
        assert_int_equal(dw_ddp_get(&out, buf, len), -EPROTO);
    }
}

static void ddp_get_stream__truncated(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 16; opcode++) {
        if (!is_of_streams(opcode)) {
            continue;
        }
        struct dw_ddp_header in = header_of(opcode);
        uint8_t buf[DW_DDP_UNTAGGED_BYTES];
        size_t whole = dw_ddp_put(buf, &in);

        for (size_t len = 0; len < whole; len++) {
            uint8_t *bytes = exact_copy(buf, len);
            uint16_t cause = 0;

            assert_int_equal(get_stream(bytes, len, &cause), -EBADMSG);
            assert_int_equal(cause, DW_TERM_RDMAP_UNSPECIFIED);
            free(bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ddp_get__golden),
        cmocka_unit_test(ddp_put__golden),
        cmocka_unit_test(ddp__round_trip_of_each_opcode),
        cmocka_unit_test(ddp_get__truncated),
        cmocka_unit_test(ddp_get__control_bytes),
        cmocka_unit_test(ddp_get__queue_of_each_opcode),
        cmocka_unit_test(ddp_get__ulp_bits),
        cmocka_unit_test(ddp_get_stream__control_bytes),
        cmocka_unit_test(ddp_get_stream__queues),
        cmocka_unit_test(ddp_get_stream__reserved_bits),
        cmocka_unit_test(ddp_get_stream__truncated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
