/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA's FPDUs, to the wire: against vectors, and against the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/mpa_bounds.h"
#include "test/unit/mpa_model.h"

#define PIECES_MAX 2000
#define ROOM_MAX   (1 << 18)

struct output {
    struct iovec pieces[PIECES_MAX];
    uint8_t room[ROOM_MAX];
    struct dw_mpa_gather gather;
};

static struct output *output_create(void)
{
    struct output *o = malloc(sizeof *o);

    assert_non_null(o);
    o->gather = (struct dw_mpa_gather){
        .pieces = o->pieces, .max = PIECES_MAX, .room = o->room, .room_bytes = ROOM_MAX};
    return o;
}

static void assert_output(const struct output *o, const uint8_t *bytes, size_t len)
{
    size_t at = 0;

    for (size_t i = 0; i < o->gather.count; i++) {
        assert_true(o->pieces[i].iov_len > 0 && o->pieces[i].iov_len <= len - at);
        assert_memory_equal(o->pieces[i].iov_base, bytes + at, o->pieces[i].iov_len);
        at += o->pieces[i].iov_len;
    }
    assert_int_equal(at, len);
    assert_int_equal(o->gather.bytes, len);
}

static void gather_fpdu__golden(void **state)
{
    struct output *o = output_create();

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(fpdus); i++) {
        struct iovec ulpdu = {(void *)(uintptr_t)fpdus[i / 2].ulpdu, fpdus[i / 2].ulpdu_bytes};
        struct dw_mpa_stream tx = fpdus[i / 2].stream;
        struct vector v;

        vector_load(&v, fpdus[i / 2].name);
        o->gather.count = o->gather.room_used = o->gather.bytes = 0;
        assert_int_equal(dw_mpa_fpdu_bytes(&tx, ulpdu.iov_len), v.len);
        assert_int_equal(dw_mpa_gather_fpdu(&tx, &o->gather, &ulpdu, 1, i % 2), 0);
        assert_output(o, v.bytes, v.len);
        assert_int_equal(tx.at, fpdus[i / 2].stream.at + v.len);
    }
    free(o);
}

/* Appends one ULPDU cut at random, and checks what was promised of pieces and room. */
static void gather_cut(struct dw_mpa_stream *tx, struct output *o, uint64_t *random,
                       const uint8_t *bytes, size_t n)
{
    struct dw_mpa_gather before = o->gather;
    struct iovec cuts[6];
    size_t pieces = 1 + random_below(random, COUNT(cuts) - 1), at = 0, n_copied = 0;
    size_t copied = random_below(random, (uint32_t)pieces + 1);
    uint64_t position = tx->at;

    for (size_t i = 0; i < pieces; i++) {
        size_t len = i + 1 == pieces ? n - at : random_below(random, (uint32_t)(n - at) + 1);

        cuts[i] = (struct iovec){(void *)(uintptr_t)(bytes + at), len};
        n_copied += i < copied ? len : 0;
        at += len;
    }
    o->gather.max = before.count + DW_MPA_PIECES(n, pieces, tx->markers);
    o->gather.room_bytes = before.room_used + DW_MPA_ROOM_BYTES(n, n_copied, tx->markers);
    assert_int_equal(dw_mpa_gather_fpdu(tx, &o->gather, cuts, pieces, copied), 0);
    assert_int_equal(o->gather.bytes - before.bytes, tx->at - position);
}

/* Trains of FPDUs that begin anywhere in a stream, cut anywhere, against the model. */
static void gather_fpdu__as_model(void **state)
{
    struct output *o = output_create();

    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        uint64_t random = seed;
        struct dw_mpa_stream tx = {.markers = seed & 1, .crc = seed & 2};
        uint8_t *kept[8];
        unsigned count = 1 + random_below(&random, 8);
        struct model *m;

        tx.at = (uint64_t)random_below(&random, 1024) * 4;
        m = model_create(tx.markers, tx.crc, tx.at);
        o->gather = (struct dw_mpa_gather){.pieces = o->pieces, .room = o->room};
        for (unsigned i = 0; i < count; i++) {
            size_t n = random_below(&random, i % 4 == 3 ? 20000 : 1100);
            size_t expected = dw_mpa_fpdu_bytes(&tx, n);

            kept[i] = random_bytes(&random, n);
            model_fpdu(m, kept[i], n);
            assert_for_seed(seed, m->len - m->fpdu == expected);
            gather_cut(&tx, o, &random, kept[i], n);
            assert_for_seed(seed, tx.at == m->at);
        }
        assert_output(o, m->bytes, m->len);
        for (unsigned i = 0; i < count; i++) {
            free(kept[i]);
        }
        free(m);
    }
    free(o);
}

/* Header copied, payload in place: one piece more than twice the FPDUs; all copied: one piece. */
static void gather_fpdu__pieces_of_a_train(void **state)
{
    uint8_t header[18] = {0}, payload[3][100] = {{0}};
    struct dw_mpa_stream tx = {.crc = true};
    struct output *o = output_create();

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct iovec ulpdu[] = {{header, sizeof header}, {payload[i], 90}};

        assert_int_equal(dw_mpa_gather_fpdu(&tx, &o->gather, ulpdu, 2, 1), 0);
    }
    assert_int_equal(o->gather.count, 7);
    o->gather.count = o->gather.room_used = o->gather.bytes = 0;
    tx.markers = true;
    for (unsigned i = 0; i < 20; i++) {
        struct iovec ulpdu[] = {{header, sizeof header}, {payload[0], 90}};

        assert_int_equal(dw_mpa_gather_fpdu(&tx, &o->gather, ulpdu, 2, 2), 0);
    }
    assert_int_equal(o->gather.count, 1);
    free(o);
}

static void gather_fpdu__no_space(void **state)
{
    uint8_t payload[2000] = {0};
    struct iovec ulpdu[] = {{payload, 18}, {payload + 18, 1800}};
    struct output *o = output_create();

    (void)state;
    for (unsigned markers = 0; markers < 2; markers++) {
        size_t room = DW_MPA_ROOM_BYTES(1818, 18, markers), max = DW_MPA_PIECES(1818, 2, markers);
        unsigned refused = 0;

        for (unsigned short_of = 1; short_of < 40; short_of++) {
            struct dw_mpa_stream tx = {.markers = markers, .crc = true};
            struct dw_mpa_gather gather = {
                .pieces = o->pieces, .max = max, .room = o->room, .room_bytes = room};

            if (short_of % 2 != 0) {
                gather.room_bytes = short_of < room ? room - short_of : 0;
            } else {
                gather.max = short_of / 2 < max ? max - short_of / 2 : 0;
            }
            if (dw_mpa_gather_fpdu(&tx, &gather, ulpdu, 2, 1) == 0) {
                assert_true(gather.count <= gather.max && gather.room_used <= gather.room_bytes);
                continue;
            }
            refused++;
            assert_int_equal(gather.count + gather.room_used + gather.bytes + tx.at, 0);
        }
        assert_true(refused > 0);
    }
    free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather_fpdu__golden),
        cmocka_unit_test(gather_fpdu__as_model),
        cmocka_unit_test(gather_fpdu__pieces_of_a_train),
        cmocka_unit_test(gather_fpdu__no_space),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
