/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec of MPA: start-up frames and FPDUs. Knows lengths, pads, markers and CRCs; nothing of what
 * is in a ULPDU, nor of TCP. */
#include "common/wire/mpa.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

/* ---- request and reply frames ---- */

#define KEY_BYTES 16

static const char keys[][KEY_BYTES + 1] = {
    [DW_MPA_REQUEST] = "MPA ID Req Frame",
    [DW_MPA_REPLY] = "MPA ID Rep Frame",
};

#define REVISION_S 2 /* knows S; the highest */

static size_t enhanced_bytes(const struct dw_mpa_frame *frame)
{
    return frame->flags & DW_MPA_ENHANCED ? DW_MPA_ENHANCED_BYTES : 0;
}

size_t dw_mpa_frame_put(uint8_t *buf, const struct dw_mpa_frame *frame)
{
    const size_t skip = enhanced_bytes(frame), behind = skip + frame->private_bytes;
    assert(behind <= DW_MPA_PRIVATE_MAX_BYTES && !(frame->flags & ~DW_MPA_FLAGS));
    assert(frame->ird <= DW_MPA_DEPTH_MAX && frame->ord <= DW_MPA_DEPTH_MAX);
    memcpy(buf, keys[frame->kind], KEY_BYTES);
    buf[16] = frame->flags;
    buf[17] = frame->revision;
    dw_put_be16(buf + 18, (uint16_t)behind);
    if (skip) {
        dw_put_be16(buf + 20, (uint16_t)(frame->control >> 2 << 14 | frame->ird));
        dw_put_be16(buf + 22, (uint16_t)(frame->control << 14 | frame->ord));
    }
    if (frame->private_bytes)
        memcpy(buf + DW_MPA_FRAME_BYTES + skip, frame->private_data, frame->private_bytes);
    return DW_MPA_FRAME_BYTES + behind;
}

int dw_mpa_frame_get(struct dw_mpa_frame *frame, enum dw_mpa_kind kind, const uint8_t *buf,
                     size_t len)
{
    if (memcmp(buf, keys[kind], len < KEY_BYTES ? len : KEY_BYTES) != 0)
        return -EBADMSG;
    if (len < DW_MPA_FRAME_BYTES)
        return -EAGAIN;
    const uint8_t known = DW_MPA_MARKERS | DW_MPA_CRC | (kind == DW_MPA_REPLY ? DW_MPA_REJECT : 0) |
                          (buf[17] == REVISION_S ? DW_MPA_ENHANCED : 0);
    *frame = (struct dw_mpa_frame){.kind = kind, .flags = buf[16] & known, .revision = buf[17]};
    const size_t skip = enhanced_bytes(frame), behind = dw_get_be16(buf + 18);
    if (frame->revision < 1 || frame->revision > REVISION_S)
        return -EPROTONOSUPPORT;
    if (behind > DW_MPA_PRIVATE_MAX_BYTES || behind < skip)
        return -EPROTO;
    if (len < DW_MPA_FRAME_BYTES + behind)
        return -EAGAIN;
    if (skip) {
        const uint16_t first = dw_get_be16(buf + 20), second = dw_get_be16(buf + 22);
        frame->control = (uint8_t)(first >> 14 << 2 | second >> 14);
        frame->ird = first & DW_MPA_DEPTH_MAX;
        frame->ord = second & DW_MPA_DEPTH_MAX;
    }
    frame->private_bytes = behind - skip;
    frame->private_data = buf + DW_MPA_FRAME_BYTES + skip;
    return (int)(DW_MPA_FRAME_BYTES + behind);
}

/* ---- where markers fall ---- */

#define BETWEEN_BYTES  (DW_MPA_MARKER_INTERVAL - DW_MPA_MARKER_BYTES)
#define EMSS_MAX_BYTES 65535

size_t dw_mpa_mulpdu(size_t emss, bool markers)
{
    if (emss > EMSS_MAX_BYTES)
        emss = EMSS_MAX_BYTES;
    size_t overhead = DW_MPA_LENGTH_BYTES + DW_MPA_CRC_BYTES + emss % 4;
    if (markers)
        overhead +=
            DW_MPA_MARKER_BYTES * ((emss + DW_MPA_MARKER_INTERVAL - 1) / DW_MPA_MARKER_INTERVAL);
    return emss < overhead + DW_MPA_MULPDU_MIN_BYTES ? DW_MPA_MULPDU_MIN_BYTES : emss - overhead;
}

/* Bytes from a position of a stream to the next marker; 0: one is there. */
static size_t before_marker(uint64_t at)
{
    return (size_t)(-at % DW_MPA_MARKER_INTERVAL);
}

/* A marker that would fall behind the last byte leads the next FPDU, and is part of that. */
size_t dw_mpa_fpdu_bytes(const struct dw_mpa_stream *stream, size_t ulpdu_bytes)
{
    const size_t bytes = DW_MPA_FPDU_BYTES(ulpdu_bytes), before = before_marker(stream->at);
    if (!stream->markers || bytes <= before)
        return bytes;
    return bytes + DW_MPA_MARKER_BYTES * (1 + (bytes - before - 1) / BETWEEN_BYTES);
}

/* Where the length field of the next FPDU is: behind the marker, if one leads the FPDU. */
static size_t length_offset(const struct dw_mpa_stream *stream)
{
    return stream->markers && before_marker(stream->at) == 0 ? DW_MPA_MARKER_BYTES : 0;
}

/* FPDUPTR of a marker at that position: bytes since the length field; 0 where the marker leads. */
static uint16_t pointer_at(const struct dw_mpa_stream *stream, uint64_t at)
{
    return at == stream->at ? 0 : (uint16_t)(at - stream->at - length_offset(stream));
}

/* ---- FPDUs, to the wire ---- */

/* The FPDU that is being appended. */
struct writer {
    struct dw_mpa_gather *gather;
    const struct dw_mpa_stream *tx; /* as it was before the FPDU */
    uint64_t at;                    /* position of the next byte */
    uint32_t crc;
};

static void append(struct dw_mpa_gather *gather, const void *base, size_t len)
{
    struct iovec *last = gather->count > 0 ? &gather->pieces[gather->count - 1] : NULL;
    gather->bytes += len;
    if (last && (const uint8_t *)last->iov_base + last->iov_len == base) {
        last->iov_len += len;
        return;
    }
    assert(gather->count < gather->max);
    gather->pieces[gather->count++] = (struct iovec){(void *)(uintptr_t)base, len};
}

static uint8_t *take_room(struct dw_mpa_gather *gather, size_t len)
{
    uint8_t *room = gather->room + gather->room_used;
    assert(len <= gather->room_bytes - gather->room_used);
    gather->room_used += len;
    append(gather, room, len);
    return room;
}

static void write_due_marker(struct writer *w)
{
    if (!w->tx->markers || before_marker(w->at) > 0)
        return;
    uint8_t *marker = take_room(w->gather, DW_MPA_MARKER_BYTES);
    dw_put_be32(marker, pointer_at(w->tx, w->at));
    if (w->tx->crc)
        w->crc = dw_crc32c(w->crc, marker, DW_MPA_MARKER_BYTES);
    w->at += DW_MPA_MARKER_BYTES;
}

static void write_bytes(struct writer *w, const uint8_t *p, size_t len, bool copied)
{
    for (size_t run; len > 0; p += run, len -= run) {
        write_due_marker(w);
        run = w->tx->markers && len > before_marker(w->at) ? before_marker(w->at) : len;
        w->at += run;
        if (copied && w->tx->crc)
            w->crc = dw_crc32c_copy(w->crc, take_room(w->gather, run), p, run, false);
        else if (copied)
            memcpy(take_room(w->gather, run), p, run);
        else
            append(w->gather, p, run);
        if (!copied && w->tx->crc)
            w->crc = dw_crc32c(w->crc, p, run);
    }
}

static size_t sum(const struct iovec *pieces, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    return bytes;
}

int dw_mpa_gather_fpdu(struct dw_mpa_stream *tx, struct dw_mpa_gather *gather,
                       const struct iovec *ulpdu, size_t pieces, size_t copied)
{
    static const uint8_t pad[3];
    const size_t n = sum(ulpdu, pieces), bare = DW_MPA_FPDU_BYTES(n);
    const size_t markers = dw_mpa_fpdu_bytes(tx, n) - bare;
    struct writer w = {.gather = gather, .tx = tx, .at = tx->at};
    uint8_t length[DW_MPA_LENGTH_BYTES];

    assert(copied <= pieces);
    assert(n <= (tx->markers ? dw_mpa_mulpdu(EMSS_MAX_BYTES, true) : DW_MPA_ULPDU_MAX_BYTES));
    if (bare - n + sum(ulpdu, copied) + markers > gather->room_bytes - gather->room_used ||
        2 + pieces - copied + 2 * (markers / DW_MPA_MARKER_BYTES) > gather->max - gather->count)
        return -ENOSPC;
    dw_put_be16(length, (uint16_t)n);
    write_bytes(&w, length, sizeof length, true);
    for (size_t i = 0; i < pieces; i++)
        write_bytes(&w, ulpdu[i].iov_base, ulpdu[i].iov_len, i < copied);
    write_bytes(&w, pad, bare - DW_MPA_LENGTH_BYTES - n - DW_MPA_CRC_BYTES, true);
    write_due_marker(&w);
    /* Like all CRC32C of the IETF's: the reflected register leaves lowest byte first. */
    const uint32_t crc = htole32(w.crc);
    memcpy(take_room(gather, sizeof crc), &crc, sizeof crc);
    tx->at = w.at + sizeof crc;
    return 0;
}

/* ---- FPDUs, from the wire ---- */

/* Checks the markers, the lowest two bits of whose pointers count as 0, then moves what is behind
 * each up to what is before it. */
static bool remove_markers(const struct dw_mpa_stream *rx, uint8_t *buf, size_t bytes)
{
    const size_t first = before_marker(rx->at);
    size_t end = first;
    for (size_t at = first; at < bytes; at += DW_MPA_MARKER_INTERVAL)
        if ((dw_get_be16(buf + at + 2) ^ pointer_at(rx, rx->at + at)) & 0xfffc)
            return false;
    for (size_t at = first; at < bytes; at += DW_MPA_MARKER_INTERVAL) {
        const size_t rest = bytes - at - DW_MPA_MARKER_BYTES;
        const size_t run = rest < BETWEEN_BYTES ? rest : BETWEEN_BYTES;
        memmove(buf + end, buf + at + DW_MPA_MARKER_BYTES, run);
        end += run;
    }
    return true;
}

int dw_mpa_fpdu_get(struct dw_mpa_stream *rx, struct dw_mpa_fpdu *fpdu, uint8_t *buf, size_t len)
{
    const size_t length_at = length_offset(rx);
    *fpdu = (struct dw_mpa_fpdu){0};
    if (len < length_at + DW_MPA_LENGTH_BYTES)
        return -EAGAIN;
    fpdu->ulpdu_bytes = dw_get_be16(buf + length_at);
    fpdu->bytes = dw_mpa_fpdu_bytes(rx, fpdu->ulpdu_bytes);
    if (len < fpdu->bytes)
        return -EAGAIN;
    const size_t covered = fpdu->bytes - DW_MPA_CRC_BYTES;
    uint32_t crc;
    memcpy(&crc, buf + covered, sizeof crc);
    if (rx->crc && le32toh(crc) != dw_crc32c(0, buf, covered))
        return -EBADMSG;
    if (rx->markers && !remove_markers(rx, buf, fpdu->bytes))
        return -EPROTO;
    fpdu->ulpdu = buf + DW_MPA_LENGTH_BYTES;
    rx->at += fpdu->bytes;
    return 0;
}

/* ---- our private data ---- */

/* 'd', 'w', version 1, 0 */
#define MAGIC     0x64770100u
#define FIELDS(X) X(32, 4, name.job) X(32, 8, name.rank) X(64, 12, token) X(16, 20, ird)

void dw_rc_hello_put(uint8_t *buf, const struct dw_rc_hello *h)
{
    dw_put_be32(buf, MAGIC);
    FIELDS(DW_PUT_FIELD)
    dw_put_be16(buf + 22, 0);
}

int dw_rc_hello_get(struct dw_rc_hello *h, const uint8_t *buf, size_t len)
{
    if (len < DW_RC_HELLO_BYTES)
        return -EBADMSG;
    if ((dw_get_be32(buf) ^ MAGIC) >> 8) /* the last byte is reserved */
        return -EPROTO;
    FIELDS(DW_GET_FIELD)
    return 0;
}
