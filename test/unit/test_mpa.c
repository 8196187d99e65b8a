/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA's request and reply frames, against vectors written from RFC 5044 and 6581, and the largest
 * ULPDU that fits a segment. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/bytes.h"
#include "test/unit/mpa_bounds.h"
#include "test/vectors/vectors.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- request and reply frames ------------------------------------------------------------- */

static const struct {
    const char *name;
    struct dw_mpa_frame frame;
} frames[] = {
    {"mpa_request",
     {DW_MPA_REQUEST, DW_MPA_CRC, .revision = 1, .private_bytes = 5, (const uint8_t *)"hello"}},
    {"mpa_reply_enhanced",
     {DW_MPA_REPLY, DW_MPA_MARKERS | DW_MPA_CRC | DW_MPA_ENHANCED, .revision = 2,
      DW_MPA_PEER_TO_PEER | DW_MPA_RTR_WRITE, .ird = 16, .ord = 0x3fff, .private_bytes = 2,
      (const uint8_t *)"\xca\xfe"}},
    {"mpa_reply_reject", {DW_MPA_REPLY, DW_MPA_REJECT, .revision = 1, .private_bytes = 0, NULL}},
};

static void frame_put__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(frames); i++) {
        uint8_t buf[DW_MPA_FRAME_BYTES + DW_MPA_PRIVATE_MAX_BYTES];
        struct vector v;

        vector_load(&v, frames[i].name);
        assert_int_equal(dw_mpa_frame_put(buf, &frames[i].frame), v.len);
        assert_memory_equal(buf, v.bytes, v.len);
    }
}

/* Whole, each beginning of it, and with the first FPDU behind it. */
static void frame_get__golden_in_any_part(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(frames); i++) {
        const struct dw_mpa_frame *in = &frames[i].frame;
        struct dw_mpa_frame out;
        struct vector v;

        vector_load(&v, frames[i].name);
        for (size_t len = 0; len < v.len; len++) {
            uint8_t *bytes = exact_copy(v.bytes, len);

            assert_int_equal(dw_mpa_frame_get(&out, in->kind, bytes, len), -EAGAIN);
            free(bytes);
        }
        memset(v.bytes + v.len, 0xff, 8);
        assert_int_equal(dw_mpa_frame_get(&out, in->kind, v.bytes, v.len + 8), v.len);
        assert_int_equal(out.kind, in->kind);
        assert_int_equal(out.flags, in->flags);
        assert_int_equal(out.revision, in->revision);
        assert_int_equal(out.private_bytes, in->private_bytes);
        assert_int_equal(out.control, in->control);
        assert_int_equal(out.ird, in->ird);
        assert_int_equal(out.ord, in->ord);
        assert_ptr_equal(out.private_data, v.bytes + v.len - in->private_bytes);
    }
}

/* A stranger is known by the first byte that differs. */
static void frame_get__wrong_key(void **state)
{
    struct dw_mpa_frame out;
    struct vector v;

    (void)state;
    vector_load(&v, "mpa_request");
    assert_int_equal(dw_mpa_frame_get(&out, DW_MPA_REPLY, v.bytes, v.len), -EBADMSG);
    assert_int_equal(dw_mpa_frame_get(&out, DW_MPA_REPLY, v.bytes, 9), -EAGAIN);
    assert_int_equal(dw_mpa_frame_get(&out, DW_MPA_REPLY, v.bytes, 10), -EBADMSG);
    for (size_t at = 0; at < 16; at++) {
        v.bytes[at] ^= 0x20;
        assert_int_equal(dw_mpa_frame_get(&out, DW_MPA_REQUEST, v.bytes, at), -EAGAIN);
        assert_int_equal(dw_mpa_frame_get(&out, DW_MPA_REQUEST, v.bytes, at + 1), -EBADMSG);
        v.bytes[at] ^= 0x20;
    }
}

static void frame_get__fields(void **state)
{
    static const struct {
        uint8_t flags, revision;
        uint16_t private_bytes;
        int expected;
        uint8_t flags_out;
    } cases[] = {
        {0x00, 1, 0, 20, 0x00},
        {0xff, 1, 0, 20, 0xe0}, /* the lower half is reserved, and S in revision 1 */
        {0x8f, 1, 512, 532, 0x80},
        {0xff, 2, 4, 24, 0xf0},
        {0xff, 2, 512, 532, 0xf0},
        {0x10, 2, 3, -EPROTO, 0},
        {0x10, 2, 0, -EPROTO, 0},
        {0x10, 1, 3, 23, 0x00},
        {0x00, 2, 0, 20, 0x00},
        {0x00, 1, 513, -EPROTO, 0},
        {0x00, 2, 0xffff, -EPROTO, 0},
        {0x40, 0, 0, -EPROTONOSUPPORT, 0},
        {0x40, 3, 0, -EPROTONOSUPPORT, 0},
        {0x40, 255, 0xffff, -EPROTONOSUPPORT, 0},
    };

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        enum dw_mpa_kind kind = i % 2 ? DW_MPA_REPLY : DW_MPA_REQUEST;
        uint8_t buf[DW_MPA_FRAME_BYTES + DW_MPA_PRIVATE_MAX_BYTES] = {0};
        uint8_t reject = i % 2 ? 0 : DW_MPA_REJECT; /* reserved in a request */
        struct dw_mpa_frame out;

        dw_mpa_frame_put(buf, &(struct dw_mpa_frame){.kind = kind});
        buf[16] = cases[i / 2].flags;
        buf[17] = cases[i / 2].revision;
        dw_put_be16(buf + 18, cases[i / 2].private_bytes);
        assert_int_equal(dw_mpa_frame_get(&out, kind, buf, sizeof buf), cases[i / 2].expected);
        assert_int_equal(out.revision, cases[i / 2].revision);
        if (cases[i / 2].expected > 0) {
            assert_int_equal(out.flags, cases[i / 2].flags_out & ~reject);
        }
    }
}

static void enhanced__round_trip(void **state)
{
    static const uint16_t depths[] = {0, 1, 0x1fff, 0x2000, DW_MPA_DEPTH_MAX};

    (void)state;
    for (unsigned i = 0; i < 16 * COUNT(depths) * COUNT(depths); i++) {
        const struct dw_mpa_frame in = {.flags = DW_MPA_ENHANCED,
                                        .revision = 2,
                                        .control = i % 16,
                                        .ird = depths[i / 16 % COUNT(depths)],
                                        .ord = depths[i / 16 / COUNT(depths)]};
        uint8_t buf[DW_MPA_FRAME_BYTES + DW_MPA_ENHANCED_BYTES];
        struct dw_mpa_frame out;

        assert_int_equal(dw_mpa_frame_put(buf, &in), sizeof buf);
        assert_int_equal(dw_get_be16(buf + 20), (i & 8) << 12 | (i & 4) << 12 | in.ird);
        assert_int_equal(dw_get_be16(buf + 22), (i & 2) << 14 | (i & 1) << 14 | in.ord);
        assert_int_equal(dw_mpa_frame_get(&out, DW_MPA_REQUEST, buf, sizeof buf), sizeof buf);
        assert_int_equal(out.control, in.control);
        assert_int_equal(out.ird, in.ird);
        assert_int_equal(out.ord, in.ord);
    }
}

/* ---- MULPDU ------------------------------------------------------------------------------- */

static void mulpdu__formula(void **state)
{
    static const struct {
        size_t emss, plain, markers;
    } cases[] =
        {
            {0, 128, 128},         {100, 128, 128},         {136, 130, 128},
            {139, 130, 128},       {140, 134, 130},         {536, 530, 522},
            {1448, 1442, 1430},    {1460, 1454, 1442},      {1461, 1454, 1442},
            {8960, 8954, 8882},    {65483, 65474, 64962}, /* the loopback interface */
            {65535, 65526, 65014}, {1000000, 65526, 65014},
        };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(dw_mpa_mulpdu(cases[i].emss, false), cases[i].plain);
        assert_int_equal(dw_mpa_mulpdu(cases[i].emss, true), cases[i].markers);
    }
}

/* Its FPDU fits the segment wherever it begins, and fills it somewhere, but for the one marker that
 * the formula counts too many when little is left behind a multiple of 512. */
static void mulpdu__fits_and_fills(void **state)
{
    (void)state;
    for (size_t emss = 144; emss < 3000; emss++) {
        size_t plain = dw_mpa_mulpdu(emss, false), marked = dw_mpa_mulpdu(emss, true), most = 0;

        assert_true(DW_MPA_FPDU_BYTES(plain) == emss - emss % 4);
        for (uint64_t at = 0; at < 512; at += 4) {
            struct dw_mpa_stream tx = {.markers = true, .at = at};
            size_t bytes = dw_mpa_fpdu_bytes(&tx, marked);

            assert_true(bytes <= emss);
            most = bytes > most ? bytes : most;
        }
        assert_true(most >= emss - emss % 4 - 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_put__golden),      cmocka_unit_test(frame_get__golden_in_any_part),
        cmocka_unit_test(frame_get__wrong_key),   cmocka_unit_test(frame_get__fields),
        cmocka_unit_test(enhanced__round_trip),   cmocka_unit_test(mulpdu__formula),
        cmocka_unit_test(mulpdu__fits_and_fills),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
