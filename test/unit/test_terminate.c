/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMAP Terminate, against vectors written from RFC 5040 4.8. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/bytes.h"
#include "common/wire/ddp.h"
#include "test/unit/terminate.h"
#include "test/vectors/vectors.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* What it says, with the length of the segment and which headers are with it. */
static const struct {
    const char *name;
    uint16_t cause, segment_bytes;
    bool ddp, rdmap;
} golden[] = {
    {"terminate_ddp_stag", DW_TERM_DDP_STAG, 40, true, false},
    {"terminate_read_bounds", DW_TERM_RDMAP_BOUNDS, 46, true, true},
    {"terminate_mpa_crc", DW_TERM_MPA_CRC, 0, false, false},
};

static const uint8_t *pointer(const struct vector *v, size_t offset, bool there)
{
    return there ? v->bytes + offset : NULL;
}

static void terminate_get__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(golden); i++) {
        struct terminate out;
        struct vector v;

        vector_load(&v, golden[i].name);
        assert_int_equal(terminate_get(&out, v.bytes, v.len), 0);
        assert_int_equal(out.cause, golden[i].cause);
        assert_int_equal(out.has_length, golden[i].ddp);
        assert_int_equal(out.segment_bytes, golden[i].segment_bytes);
        assert_ptr_equal(out.ddp, pointer(&v, 6, golden[i].ddp));
        assert_ptr_equal(out.rdmap, pointer(&v, 6 + 18, golden[i].rdmap));
    }
}

/* The same from the segment in error, which is in the vector but for its payload. */
static void terminate_put__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(golden); i++) {
        uint8_t buf[DW_TERMINATE_MAX_BYTES], segment[64] = {0};
        struct vector v;

        vector_load(&v, golden[i].name);
        assert_true(v.len <= sizeof buf && golden[i].segment_bytes <= sizeof segment);
        if (golden[i].ddp) {
            memcpy(segment, v.bytes + 6, v.len - 6);
        }
        assert_int_equal(dw_terminate_put(buf, golden[i].cause, segment, golden[i].segment_bytes),
                         v.len);
        assert_memory_equal(buf, v.bytes, v.len);
    }
}

/* Which headers go along, by cause and segment. */
static void terminate_put__what_goes_along(void **state)
{
    static const struct {
        uint16_t cause;
        uint8_t first, second; /* control bytes of the segment */
        size_t len;
        bool ddp, rdmap;
    } cases[] = {
        {DW_TERM_RDMAP_RIGHTS, 0x41, 0x41, 46, true, true},
        {DW_TERM_RDMAP_RIGHTS, 0x41, 0x41, 45, true, false}, /* not all of a Read Request */
        {DW_TERM_RDMAP_OPCODE, 0x41, 0x43, 60, true, false},
        {DW_TERM_RDMAP_OPCODE, 0xc1, 0x41, 60, true, false}, /* tagged: not a Read Request */
        {DW_TERM_DDP_MSN, 0x41, 0x41, 46, true, false},
        {DW_TERM_DDP_NO_BUFFER, 0x41, 0x43, 18, true, false},
        {DW_TERM_DDP_BOUNDS, 0xc1, 0x40, 14, true, false},
        {DW_TERM_DDP_QN, 0x41, 0x43, 17, false, false},
        {DW_TERM_DDP_STAG, 0xc1, 0x40, 13, false, false},
        {DW_TERM_RDMAP_UNSPECIFIED, 0, 0, 0, false, false},
        {DW_TERM_RDMAP_CATASTROPHIC, 0x41, 0x41, 46, false, false},
        {DW_TERM_DDP_CATASTROPHIC, 0x41, 0x43, 46, false, false},
        {DW_TERM_MPA_MARKER, 0x41, 0x43, 46, false, false},
        {0x2102, 0x41, 0x43, 46, false, false}, /* another LLP than MPA */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t buf[64] = {cases[i].first, cases[i].second};
        uint8_t *segment = exact_copy(buf, cases[i].len);
        uint8_t put[DW_TERMINATE_MAX_BYTES];
        struct terminate out;

        size_t bytes = dw_terminate_put(put, cases[i].cause, segment, cases[i].len);
        assert_int_equal(terminate_get(&out, put, bytes), 0);
        assert_int_equal(bytes, 4 + (cases[i].ddp ? 2 + (cases[i].first & 0x80 ? 14 : 18) : 0) +
                                    (cases[i].rdmap ? 28 : 0));
        assert_int_equal(out.cause, cases[i].cause);
        assert_int_equal(out.has_length, cases[i].ddp);
        assert_int_equal(out.segment_bytes, cases[i].ddp ? cases[i].len : 0);
        assert_true((out.ddp != NULL) == cases[i].ddp && (out.rdmap != NULL) == cases[i].rdmap);
        if (out.ddp)
            assert_memory_equal(put + 6, segment, bytes - 6);
        assert_int_equal(dw_terminate_put(put, cases[i].cause, NULL, 0), 4);
        free(segment);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminate_get__golden),
        cmocka_unit_test(terminate_put__golden),
        cmocka_unit_test(terminate_put__what_goes_along),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
