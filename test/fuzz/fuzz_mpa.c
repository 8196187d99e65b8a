/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes MPA as a stream meets it: a start-up frame, then FPDUs. The first byte chooses kind,
 * markers, CRC and whether the rest is a stream or a ULPDU that is framed and must come back.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/mpa_bounds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REPLY = 0x01, MARKERS = 0x02, CRC = 0x04, FRAMED = 0x08, POSITION = 0xf0 };

#define FRAMED_MAX_BYTES 4096
#define PIECES           (DW_MPA_PIECES(FRAMED_MAX_BYTES, 3, 1))
#define ROOM_BYTES       (DW_MPA_ROOM_BYTES(FRAMED_MAX_BYTES, FRAMED_MAX_BYTES, 1))

static void require(int truth)
{
    if (!truth) {
        abort();
    }
}

/* Returns the bytes that were a frame. */
static size_t fuzz_frame(const uint8_t *data, size_t size, enum dw_mpa_kind kind)
{
    uint8_t buf[DW_MPA_FRAME_BYTES + DW_MPA_PRIVATE_MAX_BYTES];
    struct dw_mpa_frame frame;
    int len = dw_mpa_frame_get(&frame, kind, data, size);

    if (len < 0) {
        require(len == -EAGAIN || len == -EBADMSG || len == -EPROTO || len == -EPROTONOSUPPORT);
        return 0;
    }
    require((size_t)len <= size && (size_t)len <= sizeof buf);
    require(frame.private_data + frame.private_bytes == data + len);
    require(dw_mpa_frame_put(buf, &frame) == (size_t)len);
    require(memcmp(buf, data, 16) == 0 && (buf[16] | data[16]) == data[16]);
    require(memcmp(buf + 17, data + 17, (size_t)len - 17) == 0);
    return (size_t)len;
}

/* FPDUs until one is not whole or refused; each whole one lies in the stream. */
static void fuzz_stream(uint8_t *bytes, size_t size, struct dw_mpa_stream rx)
{
    size_t at = 0;
    uint64_t begin = rx.at;

    for (;;) {
        struct dw_mpa_fpdu fpdu;
        int verdict = dw_mpa_fpdu_get(&rx, &fpdu, bytes + at, size - at);

        require(fpdu.bytes <= DW_MPA_FPDU_MAX_BYTES);
        if (verdict != 0) {
            require(verdict == -EAGAIN || verdict == -EBADMSG || verdict == -EPROTO);
            require(verdict != -EAGAIN || fpdu.bytes == 0 || fpdu.bytes > size - at);
            break;
        }
        require(fpdu.ulpdu > bytes + at);
        require(fpdu.ulpdu + fpdu.ulpdu_bytes <= bytes + at + fpdu.bytes);
        at += fpdu.bytes;
        require(at <= size && rx.at == begin + at);
    }
}

/* Two FPDUs of the same ULPDU, cut and copied as the data says; flat, they are read back. */
static void fuzz_framed(const uint8_t *data, size_t size, struct dw_mpa_stream tx)
{
    static uint8_t room[2 * ROOM_BYTES], flat[2 * DW_MPA_FPDU_MAX_BYTES];
    struct iovec pieces[2 * PIECES];
    struct dw_mpa_gather gather = {
        .pieces = pieces, .max = 2 * PIECES, .room = room, .room_bytes = sizeof room};
    struct dw_mpa_stream rx = tx;
    size_t n = size < FRAMED_MAX_BYTES ? size : FRAMED_MAX_BYTES, at = 0;
    size_t first = n > 0 ? data[0] * n / 256 : 0, copied = n > 1 ? data[1] % 4 : 0;
    struct iovec ulpdu[] = {
        {(void *)(uintptr_t)data, first},
        {(void *)(uintptr_t)(data + first), (n - first) / 2},
        {(void *)(uintptr_t)(data + first + (n - first) / 2), n - first - (n - first) / 2}};

    for (unsigned i = 0; i < 2; i++) {
        require(dw_mpa_gather_fpdu(&tx, &gather, ulpdu, 3, copied) == 0);
    }
    for (size_t i = 0; i < gather.count; i++) {
        memcpy(flat + at, pieces[i].iov_base, pieces[i].iov_len);
        at += pieces[i].iov_len;
    }
    require(at == gather.bytes);
    for (size_t done = 0; done < at;) {
        struct dw_mpa_fpdu fpdu;

        require(dw_mpa_fpdu_get(&rx, &fpdu, flat + done, at - done) == 0);
        require(fpdu.ulpdu_bytes == n && memcmp(fpdu.ulpdu, data, n) == 0);
        done += fpdu.bytes;
    }
    require(rx.at == tx.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dw_mpa_stream stream;
    size_t frame, left;
    uint8_t *bytes;

    if (size < 1) {
        return 0;
    }
    stream = (struct dw_mpa_stream){
        .markers = data[0] & MARKERS, .crc = data[0] & CRC, .at = (data[0] & POSITION) * 2u};
    if (data[0] & FRAMED) {
        fuzz_framed(data + 1, size - 1, stream);
        return 0;
    }
    frame = fuzz_frame(data + 1, size - 1, data[0] & REPLY ? DW_MPA_REPLY : DW_MPA_REQUEST);
    left = size - 1 - frame;
    if (left == 0) {
        return 0;
    }
    bytes = malloc(left); /* no more, so that a read beyond it is seen */
    require(bytes != NULL);
    memcpy(bytes, data + 1 + frame, left);
    fuzz_stream(bytes, left, stream);
    free(bytes);
    return 0;
}
