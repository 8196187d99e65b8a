/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA frames and FPDUs: against vectors written from RFC 5044 and 6581, and against a naive model
 * that writes a stream byte by byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/mpa.h"
#include "test/unit/random.h"
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
      .private_bytes = 6, (const uint8_t *)"\x80\x10\xbf\xff\xca\xfe"}},
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
        assert_ptr_equal(out.private_data, v.bytes + DW_MPA_FRAME_BYTES);
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
        struct dw_mpa_enhanced in = {.peer_to_peer = i & 1,
                                     .rtr_empty = i & 2,
                                     .rtr_write = i & 4,
                                     .rtr_read = i & 8,
                                     .ird = depths[i / 16 % COUNT(depths)],
                                     .ord = depths[i / 16 / COUNT(depths)]};
        uint8_t buf[DW_MPA_ENHANCED_BYTES];
        struct dw_mpa_enhanced out;

        dw_mpa_enhanced_put(buf, &in);
        assert_int_equal(dw_get_be16(buf), (i & 1) << 15 | (i & 2) << 13 | in.ird);
        assert_int_equal(dw_get_be16(buf + 2), (i & 4) << 13 | (i & 8) << 11 | in.ord);
        assert_int_equal(dw_mpa_enhanced_get(&out, buf, 3), -EBADMSG);
        assert_int_equal(dw_mpa_enhanced_get(&out, buf, sizeof buf), 0);
        assert_memory_equal(&out, &in, sizeof in);
    }
}

/* ---- the model ---------------------------------------------------------------------------- */

#define MODEL_BYTES (1 << 20)

struct model {
    bool markers, crc;
    uint64_t at;
    uint64_t length_at; /* position of the length field of this FPDU */
    bool length_known;
    uint16_t pointer_error; /* added to each FPDUPTR: for wrong ones */
    size_t fpdu;            /* where in bytes this FPDU begins */
    size_t len;
    uint8_t bytes[MODEL_BYTES];
};

static void model_byte(struct model *m, uint8_t byte)
{
    uint8_t marker[4] = {0};

    if (m->markers && m->at % 512 == 0) {
        dw_put_be16(marker + 2,
                    (uint16_t)((m->length_known ? m->at - m->length_at : 0) + m->pointer_error));
        memcpy(m->bytes + m->len, marker, 4);
        m->len += 4;
        m->at += 4;
    }
    if (!m->length_known) {
        m->length_at = m->at;
        m->length_known = true;
    }
    m->bytes[m->len++] = byte;
    m->at++;
}

static void model_fpdu(struct model *m, const uint8_t *ulpdu, size_t n)
{
    uint32_t crc;

    m->length_known = false;
    m->fpdu = m->len;
    model_byte(m, (uint8_t)(n >> 8));
    model_byte(m, (uint8_t)n);
    for (size_t i = 0; i < n; i++) {
        model_byte(m, ulpdu[i]);
    }
    for (size_t i = n + 2; i % 4 != 0; i++) {
        model_byte(m, 0);
    }
    /* A marker before the CRC counts, too: it is written with the first byte behind it. */
    model_byte(m, 0);
    m->len--;
    m->at--;
    crc = m->crc ? dw_crc32c(0, m->bytes + m->fpdu, m->len - m->fpdu) : 0;
    for (unsigned i = 0; i < 4; i++) {
        model_byte(m, (uint8_t)(crc >> 8 * i));
    }
}

static struct model *model_create(bool markers, bool crc, uint64_t at)
{
    struct model *m = calloc(1, sizeof *m);

    assert_non_null(m);
    m->markers = markers;
    m->crc = crc;
    m->at = at;
    return m;
}

static uint8_t *random_bytes(uint64_t *random, size_t n)
{
    uint8_t *bytes = malloc(n + 1);

    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)random_next(random);
    }
    return bytes;
}

/* ---- FPDUs, to the wire ------------------------------------------------------------------- */

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

static const struct {
    const char *name;
    struct dw_mpa_stream stream;
    size_t ulpdu_bytes;
    const char *ulpdu;
} fpdus[] = {
    {"fpdu_send", {false, true, 0}, 23, "\x41\x43\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0hello"},
    {"fpdu_empty", {false, true, 8}, 0, ""},
    {"fpdu_no_crc", {false, false, 100}, 23, "\x41\x43\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0hello"},
    /* ends where a marker is due: that leads the next one */
    {"fpdu_send", {true, true, 512 - 32}, 23, "\x41\x43\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0hello"},
    {"fpdu_marker_leads", {true, true, 0}, 23, "\x41\x43\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0hello"},
    {"fpdu_marker_within",
     {true, true, 500},
     22,
     "\xc1\x40\xa1\xa2\xa3\xa4\0\0\x70\0\0\0\x10\0\1\2\3\4\5\6\7\x8"},
    {"fpdu_marker_before_crc", {true, true, 492}, 18, "\x41\x45\0\0\0\0\0\0\0\0\0\0\0\7\0\0\0\0"},
    {"fpdu_marker_leads",
     {true, true, 512 * 7},
     23,
     "\x41\x43\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0hello"},
};

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

/* ---- FPDUs, from the wire ----------------------------------------------------------------- */

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
        cmocka_unit_test(frame_put__golden),
        cmocka_unit_test(frame_get__golden_in_any_part),
        cmocka_unit_test(frame_get__wrong_key),
        cmocka_unit_test(frame_get__fields),
        cmocka_unit_test(enhanced__round_trip),
        cmocka_unit_test(gather_fpdu__golden),
        cmocka_unit_test(gather_fpdu__as_model),
        cmocka_unit_test(gather_fpdu__pieces_of_a_train),
        cmocka_unit_test(gather_fpdu__no_space),
        cmocka_unit_test(mulpdu__formula),
        cmocka_unit_test(mulpdu__fits_and_fills),
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
