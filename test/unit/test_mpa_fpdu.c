/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA's FPDUs, from the wire: against vectors, and against the model. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/mpa_bounds.h"
#include "test/unit/mpa_model.h"

static void fpdu_get__golden_in_any_part(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(fpdus); i++) {
        struct dw_mpa_stream rx = fpdus[i].stream;
        struct dw_mpa_fpdu fpdu;
        struct vector v;

        vector_load(&v, fpdus[i].name);
        for (size_t len = 0; len < v.len; len++) {
            uint8_t *bytes = exact_copy(v.bytes, len);
            size_t known_at = rx.markers && rx.at % 512 == 0 ? 6 : 2;

            assert_int_equal(dw_mpa_fpdu_get(&rx, &fpdu, bytes, len), -EAGAIN);
            assert_int_equal(fpdu.bytes, len < known_at ? 0 : v.len);
            assert_int_equal(rx.at, fpdus[i].stream.at);
            free(bytes);
        }
        assert_int_equal(dw_mpa_fpdu_get(&rx, &fpdu, v.bytes, v.len), 0);
        assert_int_equal(fpdu.bytes, v.len);
        assert_int_equal(fpdu.ulpdu_bytes, fpdus[i].ulpdu_bytes);
        assert_memory_equal(fpdu.ulpdu, fpdus[i].ulpdu, fpdu.ulpdu_bytes);
        assert_int_equal(rx.at, fpdus[i].stream.at + v.len);
    }
}

/* A stream of the model, read in pieces of any size from where it arrived. */
static void fpdu_get__as_model(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 600; seed++) {
        uint64_t random = seed;
        struct dw_mpa_stream rx = {.markers = seed & 1, .crc = seed & 2};
        uint8_t *sent[12];
        size_t sizes[12], have = 0, at = 0;
        unsigned count = 0;
        struct model *m = model_create(rx.markers, rx.crc, 0);

        for (unsigned i = 0; i < COUNT(sent); i++) {
            sizes[i] = random_below(&random, i % 4 == 3 ? 30000 : 600);
            sent[i] = random_bytes(&random, sizes[i]);
            model_fpdu(m, sent[i], sizes[i]);
        }
        while (at < m->len) {
            struct dw_mpa_fpdu fpdu;
            int verdict = dw_mpa_fpdu_get(&rx, &fpdu, m->bytes + at, have - at);

            if (verdict == -EAGAIN) {
                assert_for_seed(seed, have < m->len);
                have += 1 + random_below(&random, 4000);
                have = have < m->len ? have : m->len;
                continue;
            }
            assert_for_seed(seed, verdict == 0 && fpdu.ulpdu_bytes == sizes[count]);
            assert_memory_equal(fpdu.ulpdu, sent[count], sizes[count]);
            at += fpdu.bytes;
            assert_for_seed(seed, rx.at == at);
            count++;
        }
        assert_int_equal(count, COUNT(sent));
        for (unsigned i = 0; i < COUNT(sent); i++) {
            free(sent[i]);
        }
        free(m);
    }
}

/* The largest FPDU there is, at each alignment of the markers: pointers stay 16 bits. */
static void fpdu_get__largest(void **state)
{
    uint64_t random = 1;
    uint8_t *ulpdu = random_bytes(&random, DW_MPA_ULPDU_MAX_BYTES);

    (void)state;
    for (uint64_t at = 0; at < 512; at += 4) {
        struct dw_mpa_stream rx = {.markers = true, .crc = true, .at = at};
        size_t n = at % 8 ? dw_mpa_mulpdu(65535, true) : DW_MPA_ULPDU_MAX_BYTES;
        struct model *m = model_create(true, true, at);
        struct dw_mpa_fpdu fpdu;

        model_fpdu(m, ulpdu, n);
        assert_true(m->len <= DW_MPA_FPDU_MAX_BYTES);
        assert_int_equal(dw_mpa_fpdu_get(&rx, &fpdu, m->bytes, m->len), 0);
        assert_int_equal(fpdu.ulpdu_bytes, n);
        assert_memory_equal(fpdu.ulpdu, ulpdu, n);
        free(m);
    }
    free(ulpdu);
}

/* Any one bit wrong: refused, or (in the length) the FPDU seems longer; nothing is written. */
static void fpdu_get__bit_flips(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(fpdus); i++) {
        struct vector v, copy;

        vector_load(&v, fpdus[i].name);
        for (size_t bit = 0; bit < 8 * v.len && fpdus[i].stream.crc; bit++) {
            struct dw_mpa_stream rx = fpdus[i].stream;
            struct dw_mpa_fpdu fpdu;
            int verdict;

            v.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            copy = v;
            verdict = dw_mpa_fpdu_get(&rx, &fpdu, copy.bytes, v.len);
            assert_true(verdict == -EBADMSG || (verdict == -EAGAIN && fpdu.bytes > v.len));
            assert_memory_equal(copy.bytes, v.bytes, v.len);
            assert_int_equal(rx.at, fpdus[i].stream.at);
            v.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

/* A marker that points elsewhere, under a right CRC and without CRC. */
static void fpdu_get__wrong_marker(void **state)
{
    static const uint16_t errors[] = {4, 8, 512, 0x8000, (uint16_t)-4};
    uint8_t ulpdu[1200] = {0};

    (void)state;
    for (unsigned i = 0; i < 2 * COUNT(errors) * 128; i++) {
        struct dw_mpa_stream rx = {.markers = true, .crc = i & 1, .at = i / 2 % 128 * 4};
        struct model *m = model_create(true, rx.crc, rx.at);
        struct dw_mpa_stream at = rx;
        struct dw_mpa_fpdu fpdu;
        uint8_t *before;

        m->pointer_error = errors[i / 256];
        model_fpdu(m, ulpdu, sizeof ulpdu);
        before = exact_copy(m->bytes, m->len);
        assert_int_equal(dw_mpa_fpdu_get(&rx, &fpdu, m->bytes, m->len), -EPROTO);
        assert_memory_equal(before, m->bytes, m->len);
        assert_int_equal(rx.at, at.at);
        free(before);
        free(m);
    }
}

static void fpdu_get__wrong_marker_leads(void **state)
{
    (void)state;
    for (unsigned error = 4; error < 65536; error *= 2) {
        struct dw_mpa_stream rx = {.markers = true};
        struct dw_mpa_fpdu fpdu;
        struct vector v;

        vector_load(&v, "fpdu_marker_leads");
        dw_put_be16(v.bytes + 2, (uint16_t)error);
        assert_int_equal(dw_mpa_fpdu_get(&rx, &fpdu, v.bytes, v.len), -EPROTO);
    }
}

/* RFC 5044 4.3: the two lowest bits of FPDUPTR count as 0, the reserved half is not looked at. */
static void fpdu_get__marker_bits_not_looked_at(void **state)
{
    struct dw_mpa_stream rx = {.markers = true, .at = 500};
    struct dw_mpa_fpdu fpdu;
    struct vector v;

    (void)state;
    vector_load(&v, "fpdu_marker_within");
    v.bytes[12] = 0xff;
    v.bytes[13] = 0xff;
    v.bytes[15] |= 3;
    assert_int_equal(dw_mpa_fpdu_get(&rx, &fpdu, v.bytes, v.len), 0);
    v.bytes[15] ^= 4;
    rx.at = 500;
    assert_int_equal(dw_mpa_fpdu_get(&rx, &fpdu, v.bytes, v.len), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fpdu_get__golden_in_any_part),
        cmocka_unit_test(fpdu_get__as_model),
        cmocka_unit_test(fpdu_get__largest),
        cmocka_unit_test(fpdu_get__bit_flips),
        cmocka_unit_test(fpdu_get__wrong_marker),
        cmocka_unit_test(fpdu_get__wrong_marker_leads),
        cmocka_unit_test(fpdu_get__marker_bits_not_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
