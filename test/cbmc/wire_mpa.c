/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA: any bytes of a stream are read, and moved, inside their buffer. The CRC may be anything. */
#include <errno.h>

#include "common/wire/crc32c.h"
#include "common/wire/mpa.h"
#include "test/cbmc/any.h"

#ifndef STREAM_MAX_BYTES
#define STREAM_MAX_BYTES 24
#endif

void *memmove(void *to, const void *from, size_t bytes);
void frame_get(void);
void fpdu_get(void);
void fpdu_bytes(void);
void hello_put_get(void);

uint32_t dw_crc32c(uint32_t crc, const void *data, size_t len)
{
    (void)crc;
    require(__CPROVER_r_ok(data, len), "the CRC's bytes");
    return nondet_u32();
}

uint32_t dw_crc32c_copy(uint32_t crc, void *to, const void *from, size_t len, bool past)
{
    (void)crc, (void)past;
    require(__CPROVER_w_ok(to, len) && __CPROVER_r_ok(from, len), "the copy's bytes");
    return nondet_u32();
}

/* What is moved is of no matter here, but where. */
void *memmove(void *to, const void *from, size_t bytes)
{
    require(__CPROVER_r_ok(from, bytes) && __CPROVER_w_ok(to, bytes), "bytes behind a marker");
    return to;
}

void frame_get(void)
{
    const size_t len = any_length(DW_MPA_FRAME_BYTES + 8);
    uint8_t *buf = any_bytes(len);
    struct dw_mpa_frame frame;
    const int bytes =
        dw_mpa_frame_get(&frame, any_bool() ? DW_MPA_REQUEST : DW_MPA_REPLY, buf, len);
    require(bytes > 0 || bytes == -EAGAIN || bytes == -EBADMSG || bytes == -EPROTO ||
                bytes == -EPROTONOSUPPORT,
            "verdict");
    if (bytes < 0)
        return;
    require((size_t)bytes <= len, "inside");
    require(frame.private_data + frame.private_bytes == buf + bytes, "private data");
    require(frame.ird <= DW_MPA_DEPTH_MAX || !(frame.flags & DW_MPA_ENHANCED), "domain");
}

/* At any position of the stream. */
void fpdu_get(void)
{
    const size_t len = any_length(STREAM_MAX_BYTES);
    uint8_t *buf = any_bytes(len);
    struct dw_mpa_stream rx = {.markers = any_bool(), .crc = any_bool(), .at = nondet_u64()};
    struct dw_mpa_fpdu fpdu;
    given(rx.at % 4 == 0 && rx.at < UINT64_MAX / 2);
    const uint64_t before = rx.at;
    const int verdict = dw_mpa_fpdu_get(&rx, &fpdu, buf, len);
    require(verdict == 0 || verdict == -EAGAIN || verdict == -EBADMSG || verdict == -EPROTO,
            "verdict");
    require(verdict == 0 || rx.at == before, "an error does not move the stream");
    if (verdict)
        return;
    require(fpdu.bytes <= len && rx.at == before + fpdu.bytes, "inside");
    require(fpdu.ulpdu > buf && fpdu.ulpdu + fpdu.ulpdu_bytes <= buf + fpdu.bytes, "ULPDU inside");
}

/* Of every length: no overflow, and the next FPDU begins at a multiple of 4. */
void fpdu_bytes(void)
{
    const struct dw_mpa_stream stream = {.markers = any_bool(), .at = nondet_u64()};
    const size_t n = any_length(DW_MPA_ULPDU_MAX_BYTES);
    given(stream.at % 4 == 0);
    const size_t bytes = dw_mpa_fpdu_bytes(&stream, n);
    require(bytes % 4 == 0 && bytes >= n + DW_MPA_LENGTH_BYTES + DW_MPA_CRC_BYTES, "length");
    require(bytes <= DW_MPA_FPDU_BYTES(n) + DW_MPA_MARKER_BYTES * (n / 508 + 2), "markers");
}

void hello_put_get(void)
{
    const size_t len = any_length(DW_RC_HELLO_BYTES + 1);
    uint8_t buf[DW_RC_HELLO_BYTES], *bytes = any_bytes(len);
    const struct dw_rc_hello to = {
        .name = {nondet_u32(), nondet_u32()}, .token = nondet_u64(), .ird = nondet_u16()};
    struct dw_rc_hello from;
    (void)dw_rc_hello_get(&from, bytes, len);
    dw_rc_hello_put(buf, &to);
    require(!dw_rc_hello_get(&from, buf, sizeof buf), "got");
    require(from.name.job == to.name.job && from.name.rank == to.name.rank &&
                from.token == to.token && from.ird == to.ird,
            "same");
}
