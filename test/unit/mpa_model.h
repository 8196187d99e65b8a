/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of FPDUs, to the wire and from it, hold MPA against: vectors written from RFC 5044
 * and 6581, and a naive model that writes a stream byte by byte. After <cmocka.h>. */
#ifndef DW_TEST_MPA_MODEL_H
#define DW_TEST_MPA_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/mpa.h"
#include "test/unit/random.h"
#include "test/vectors/vectors.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

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

#endif
