/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codec of MPA: start-up frames and FPDUs. Knows lengths, pads, markers and CRCs; nothing of what
 * is in a ULPDU, nor of TCP.
 */
#include "common/wire/mpa.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

/* ---- request and reply frames ------------------------------------------------------------- */

#define KEY_BYTES 16

static const char keys[][KEY_BYTES + 1] = {
    [DW_MPA_REQUEST] = "MPA ID Req Frame",
    [DW_MPA_REPLY] = "MPA ID Rep Frame",
};

#define CONTROL_A       0x8000 /* and C, of the second half */
#define CONTROL_B       0x4000 /* and D */
#define REVISION_LOWEST 1
#define REVISION_S      2 /* knows S */

size_t dw_mpa_frame_put(uint8_t *buf, const struct dw_mpa_frame *frame)
{
    assert(frame->private_bytes <= DW_MPA_PRIVATE_MAX_BYTES);
    assert(!(frame->flags & ~DW_MPA_FLAGS));
    memcpy(buf, keys[frame->kind], KEY_BYTES);
    buf[16] = frame->flags;
    buf[17] = frame->revision;
    dw_put_be16(buf + 18, frame->private_bytes);
    if (frame->private_bytes > 0) {
        memcpy(buf + DW_MPA_FRAME_BYTES, frame->private_data, frame->private_bytes);
    }
    return DW_MPA_FRAME_BYTES + (size_t)frame->private_bytes;
}

static uint8_t flags_in_use(enum dw_mpa_kind kind, uint8_t revision)
{
    uint8_t flags = DW_MPA_MARKERS | DW_MPA_CRC;

    if (kind == DW_MPA_REPLY) {
        flags |= DW_MPA_REJECT;
    }
    if (revision == REVISION_S) {
        flags |= DW_MPA_ENHANCED;
    }
    return flags;
}

int dw_mpa_frame_get(struct dw_mpa_frame *frame, enum dw_mpa_kind kind, const uint8_t *buf,
                     size_t len)
{
    size_t whole;

    if (memcmp(buf, keys[kind], len < KEY_BYTES ? len : KEY_BYTES) != 0) {
        return -EBADMSG;
    }
    if (len < DW_MPA_FRAME_BYTES) {
        return -EAGAIN;
    }
    *frame = (struct dw_mpa_frame){
        .kind = kind,
        .flags = buf[16] & flags_in_use(kind, buf[17]),
        .revision = buf[17],
        .private_bytes = dw_get_be16(buf + 18),
        .private_data = buf + DW_MPA_FRAME_BYTES,
    };
    if (frame->revision < REVISION_LOWEST || frame->revision > REVISION_S) {
        return -EPROTONOSUPPORT;
    }
    if (frame->private_bytes > DW_MPA_PRIVATE_MAX_BYTES ||
        ((frame->flags & DW_MPA_ENHANCED) && frame->private_bytes < DW_MPA_ENHANCED_BYTES)) {
        return -EPROTO;
    }
    whole = DW_MPA_FRAME_BYTES + (size_t)frame->private_bytes;
    return len < whole ? -EAGAIN : (int)whole;
}

void dw_mpa_enhanced_put(uint8_t *buf, const struct dw_mpa_enhanced *enhanced)
{
    assert(enhanced->ird <= DW_MPA_DEPTH_MAX && enhanced->ord <= DW_MPA_DEPTH_MAX);
    dw_put_be16(buf, (uint16_t)((enhanced->peer_to_peer ? CONTROL_A : 0) |
                                (enhanced->rtr_empty ? CONTROL_B : 0) | enhanced->ird));
    dw_put_be16(buf + 2, (uint16_t)((enhanced->rtr_write ? CONTROL_A : 0) |
                                    (enhanced->rtr_read ? CONTROL_B : 0) | enhanced->ord));
}

int dw_mpa_enhanced_get(struct dw_mpa_enhanced *enhanced, const uint8_t *buf, size_t len)
{
    uint16_t first, second;

    if (len < DW_MPA_ENHANCED_BYTES) {
        return -EBADMSG;
    }
    first = dw_get_be16(buf);
    second = dw_get_be16(buf + 2);
    *enhanced = (struct dw_mpa_enhanced){
        .peer_to_peer = (first & CONTROL_A) != 0,
        .rtr_empty = (first & CONTROL_B) != 0,
        .rtr_write = (second & CONTROL_A) != 0,
        .rtr_read = (second & CONTROL_B) != 0,
        .ird = first & DW_MPA_DEPTH_MAX,
        .ord = second & DW_MPA_DEPTH_MAX,
    };
    return 0;
}

/* ---- where markers fall ------------------------------------------------------------------- */

#define ALIGNMENT      4
#define BETWEEN_BYTES  (DW_MPA_MARKER_INTERVAL - DW_MPA_MARKER_BYTES)
#define EMSS_MAX_BYTES 65535
#define FPDUPTR_MASK   0xfffcu /* the lowest two bits count as 0 */

size_t dw_mpa_mulpdu(size_t emss, bool markers)
{
    size_t overhead;

    if (emss > EMSS_MAX_BYTES) {
        emss = EMSS_MAX_BYTES;
    }
    overhead = DW_MPA_LENGTH_BYTES + DW_MPA_CRC_BYTES + emss % ALIGNMENT;
    if (markers) {
        overhead +=
            DW_MPA_MARKER_BYTES * ((emss + DW_MPA_MARKER_INTERVAL - 1) / DW_MPA_MARKER_INTERVAL);
    }
    return emss < overhead + DW_MPA_MULPDU_MIN_BYTES ? DW_MPA_MULPDU_MIN_BYTES : emss - overhead;
}

/* Bytes of the next FPDU before the first marker that falls into it. */
static size_t before_marker(const struct dw_mpa_stream *stream)
{
    size_t into = (size_t)(stream->at % DW_MPA_MARKER_INTERVAL);

    return into == 0 ? 0 : DW_MPA_MARKER_INTERVAL - into;
}

/* A marker that would fall behind the last byte leads the next FPDU, and is part of that. */
static size_t count_markers(const struct dw_mpa_stream *stream, size_t fpdu_bytes)
{
    size_t before = before_marker(stream);

    if (!stream->markers || fpdu_bytes <= before) {
        return 0;
    }
    return 1 + (fpdu_bytes - before - 1) / BETWEEN_BYTES;
}

size_t dw_mpa_fpdu_bytes(const struct dw_mpa_stream *tx, size_t ulpdu_bytes)
{
    size_t bytes = DW_MPA_FPDU_BYTES(ulpdu_bytes);

    return bytes + count_markers(tx, bytes) * DW_MPA_MARKER_BYTES;
}

/* ---- FPDUs, to the wire ------------------------------------------------------------------- */

/* The FPDU that is being appended. */
struct writer {
    struct dw_mpa_gather *gather;
    bool markers, crc_on;
    uint32_t crc;
    size_t until_marker; /* bytes; with markers */
    size_t from_length;  /* bytes since the first of the length field, for FPDUPTR */
};

static void append(struct dw_mpa_gather *gather, const void *base, size_t len)
{
    struct iovec *last = gather->count > 0 ? &gather->pieces[gather->count - 1] : NULL;

    gather->bytes += len;
    if (last != NULL && (const uint8_t *)last->iov_base + last->iov_len == base) {
        last->iov_len += len;
        return;
    }
    assert(gather->count < gather->max);
    gather->pieces[gather->count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)base, .iov_len = len};
}

static uint8_t *take_room(struct dw_mpa_gather *gather, size_t len)
{
    uint8_t *room = gather->room + gather->room_used;

    assert(len <= gather->room_bytes - gather->room_used);
    gather->room_used += len;
    append(gather, room, len);
    return room;
}

static void write_marker(struct writer *w)
{
    uint8_t *marker = take_room(w->gather, DW_MPA_MARKER_BYTES);

    dw_put_be16(marker, 0);
    dw_put_be16(marker + 2, (uint16_t)w->from_length);
    if (w->crc_on) {
        w->crc = dw_crc32c(w->crc, marker, DW_MPA_MARKER_BYTES);
    }
    w->until_marker = BETWEEN_BYTES;
    /* The one that leads an FPDU does not count: the length field follows it. */
    w->from_length += w->from_length > 0 ? DW_MPA_MARKER_BYTES : 0;
}

static void write_run(struct writer *w, const uint8_t *bytes, size_t len, bool copied)
{
    if (copied && w->crc_on) {
        w->crc = dw_crc32c_copy(w->crc, take_room(w->gather, len), bytes, len);
    } else if (copied) {
        memcpy(take_room(w->gather, len), bytes, len);
    } else {
        append(w->gather, bytes, len);
        w->crc = w->crc_on ? dw_crc32c(w->crc, bytes, len) : 0;
    }
}

static void write_bytes(struct writer *w, const void *bytes, size_t len, bool copied)
{
    const uint8_t *p = bytes;

    while (len > 0) {
        size_t run = len;

        if (w->markers && w->until_marker == 0) {
            write_marker(w);
        }
        if (w->markers && run > w->until_marker) {
            run = w->until_marker;
        }
        write_run(w, p, run, copied);
        w->until_marker -= w->markers ? run : 0;
        w->from_length += run;
        p += run;
        len -= run;
    }
}

static void write_trailer(struct writer *w, size_t pad_bytes)
{
    static const uint8_t zeros[ALIGNMENT];
    uint32_t crc;

    write_bytes(w, zeros, pad_bytes, true);
    if (w->markers && w->until_marker == 0) {
        write_marker(w);
    }
    /* Like all CRC32C of the IETF's: the reflected register goes out least significant byte first.
     */
    crc = htole32(w->crc_on ? w->crc : 0);
    memcpy(take_room(w->gather, sizeof crc), &crc, sizeof crc);
}

static size_t sum(const struct iovec *pieces, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        bytes += pieces[i].iov_len;
    }
    return bytes;
}

int dw_mpa_gather_fpdu(struct dw_mpa_stream *tx, struct dw_mpa_gather *gather,
                       const struct iovec *ulpdu, size_t pieces, size_t copied)
{
    size_t n = sum(ulpdu, pieces), fpdu_bytes = DW_MPA_FPDU_BYTES(n);
    size_t marker_count = count_markers(tx, fpdu_bytes);
    size_t room = fpdu_bytes - n + sum(ulpdu, copied) + marker_count * DW_MPA_MARKER_BYTES;
    struct writer w = {.gather = gather,
                       .markers = tx->markers,
                       .crc_on = tx->crc,
                       .until_marker = before_marker(tx)};
    uint8_t length[DW_MPA_LENGTH_BYTES];

    assert(copied <= pieces);
    assert(n <= (tx->markers ? dw_mpa_mulpdu(EMSS_MAX_BYTES, true) : DW_MPA_ULPDU_MAX_BYTES));
    if (room > gather->room_bytes - gather->room_used ||
        2 + pieces - copied + 2 * marker_count > gather->max - gather->count) {
        return -ENOSPC;
    }
    dw_put_be16(length, (uint16_t)n);
    write_bytes(&w, length, sizeof length, true);
    for (size_t i = 0; i < pieces; i++) {
        write_bytes(&w, ulpdu[i].iov_base, ulpdu[i].iov_len, i < copied);
    }
    write_trailer(&w, fpdu_bytes - DW_MPA_LENGTH_BYTES - n - DW_MPA_CRC_BYTES);
    tx->at += fpdu_bytes + marker_count * DW_MPA_MARKER_BYTES;
    return 0;
}

/* ---- FPDUs, from the wire ----------------------------------------------------------------- */

/* Where the length field is: behind the marker, if one leads the FPDU. */
static size_t length_offset(const struct dw_mpa_stream *rx)
{
    return rx->markers && before_marker(rx) == 0 ? DW_MPA_MARKER_BYTES : 0;
}

int dw_mpa_fpdu_peek(const struct dw_mpa_stream *rx, struct dw_mpa_fpdu *fpdu, const uint8_t *buf,
                     size_t len)
{
    size_t offset = length_offset(rx);

    *fpdu = (struct dw_mpa_fpdu){0};
    if (len < offset + DW_MPA_LENGTH_BYTES) {
        return -EAGAIN;
    }
    fpdu->ulpdu_bytes = dw_get_be16(buf + offset);
    fpdu->bytes = dw_mpa_fpdu_bytes(rx, fpdu->ulpdu_bytes);
    return 0;
}

static bool crc_right(const uint8_t *buf, size_t bytes)
{
    uint32_t crc;

    memcpy(&crc, buf + bytes - DW_MPA_CRC_BYTES, sizeof crc);
    return le32toh(crc) == dw_crc32c(0, buf, bytes - DW_MPA_CRC_BYTES);
}

static bool markers_right(const struct dw_mpa_stream *rx, const uint8_t *buf, size_t bytes)
{
    size_t length_at = length_offset(rx);
    /* The one that leads the FPDU points at what follows it: 0. */
    bool right = length_at == 0 || (dw_get_be16(buf + 2) & FPDUPTR_MASK) == 0;
    size_t marker = length_at == 0 ? before_marker(rx) : DW_MPA_MARKER_INTERVAL;

    for (; right && marker < bytes; marker += DW_MPA_MARKER_INTERVAL) {
        right = (dw_get_be16(buf + marker + 2) & FPDUPTR_MASK) == ((marker - length_at) & 0xffff);
    }
    return right;
}

/* Moves what is behind each marker up to what is before it. */
static void remove_markers(const struct dw_mpa_stream *rx, uint8_t *buf, size_t bytes)
{
    size_t marker = length_offset(rx) == 0 ? before_marker(rx) : DW_MPA_MARKER_INTERVAL;
    size_t end = marker;

    for (; marker < bytes; marker += DW_MPA_MARKER_INTERVAL) {
        size_t rest = bytes - marker - DW_MPA_MARKER_BYTES;
        size_t run = rest < BETWEEN_BYTES ? rest : BETWEEN_BYTES;

        memmove(buf + end, buf + marker + DW_MPA_MARKER_BYTES, run);
        end += run;
    }
}

int dw_mpa_fpdu_get(struct dw_mpa_stream *rx, struct dw_mpa_fpdu *fpdu, uint8_t *buf, size_t len)
{
    int verdict = dw_mpa_fpdu_peek(rx, fpdu, buf, len);

    if (verdict != 0) {
        return verdict;
    }
    if (len < fpdu->bytes) {
        return -EAGAIN;
    }
    if (rx->crc && !crc_right(buf, fpdu->bytes)) {
        return -EBADMSG;
    }
    fpdu->ulpdu = buf + length_offset(rx) + DW_MPA_LENGTH_BYTES;
    if (rx->markers) {
        if (!markers_right(rx, buf, fpdu->bytes)) {
            return -EPROTO;
        }
        remove_markers(rx, buf, fpdu->bytes);
    }
    rx->at += fpdu->bytes;
    return 0;
}
