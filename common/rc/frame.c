/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of MPA start-up (RFC 5044 7.1, RFC 6581): the calling and the called side read and write
 * the same. */
#include <errno.h>
#include <string.h>

#include "common/rc/qp.h"
#include "common/wire/bytes.h"

_Static_assert(DIWARP_PRIVATE_DATA_MAX_BYTES + DW_MPA_ENHANCED_BYTES + DW_RC_HELLO_BYTES <=
                   DW_MPA_PRIVATE_MAX_BYTES,
               "private data must fit a frame");

uint8_t dw_rc_frame_flags(const struct diwarp_rc_qp_attr *attr)
{
    return (uint8_t)((attr->markers ? DW_MPA_MARKERS : 0) | (attr->crc ? DW_MPA_CRC : 0));
}

bool dw_rc_frame_add(struct dw_rc_tail *tail, struct dw_mpa_frame *frame,
                     const struct dw_mpa_enhanced *enhanced, const struct dw_rc_hello *hello,
                     const void *data, size_t bytes)
{
    uint8_t private_data[DW_MPA_PRIVATE_MAX_BYTES], buf[DW_MPA_FRAME_BYTES + sizeof private_data];
    uint8_t *at = private_data;
    if (enhanced) {
        frame->flags |= DW_MPA_ENHANCED;
        dw_mpa_enhanced_put(at, enhanced);
        at += DW_MPA_ENHANCED_BYTES;
    }
    dw_rc_hello_put(at, hello);
    at += DW_RC_HELLO_BYTES;
    if (bytes)
        memcpy(at, data, bytes);
    frame->private_data = private_data;
    frame->private_bytes = (uint16_t)((size_t)(at - private_data) + bytes);
    struct iovec whole = {buf, dw_mpa_frame_put(buf, frame)};
    return dw_rc_tail_add(tail, &whole, 0, (uint32_t)whole.iov_len);
}

int dw_rc_frame_get(const struct dw_mpa_frame *frame, struct dw_mpa_enhanced *enhanced,
                    struct dw_rc_hello *hello, const uint8_t **data, uint32_t *bytes)
{
    uint32_t skip = frame->flags & DW_MPA_ENHANCED ? DW_MPA_ENHANCED_BYTES : 0;
    if (frame->private_bytes < skip ||
        dw_rc_hello_get(hello, frame->private_data + skip, frame->private_bytes - skip))
        return -EPROTO;
    *enhanced = (struct dw_mpa_enhanced){.ird = hello->ird};
    if (skip && dw_mpa_enhanced_get(enhanced, frame->private_data, skip))
        return -EPROTO;
    if (enhanced->ird == DW_MPA_DEPTH_MAX)
        enhanced->ird = hello->ird;
    *data = frame->private_data + skip + DW_RC_HELLO_BYTES;
    *bytes = frame->private_bytes - skip - DW_RC_HELLO_BYTES;
    return 0;
}

static uint32_t frame_bytes(const struct dw_rc_startup *startup)
{
    if (startup->bytes < DW_MPA_FRAME_BYTES)
        return DW_MPA_FRAME_BYTES;
    return DW_MPA_FRAME_BYTES + dw_get_be16(startup->buf + DW_MPA_FRAME_BYTES - 2);
}

int dw_rc_frame_read(struct dw_stream *stream, struct dw_rc_startup *startup, enum dw_mpa_kind kind,
                     struct dw_mpa_frame *frame)
{
    for (;;) {
        int length = dw_mpa_frame_get(frame, kind, startup->buf, startup->bytes);
        if (length != -EAGAIN)
            return length < 0 ? length : 0;
        /* What follows the frame belongs to others: no byte of it is read. */
        struct iovec rest = {startup->buf + startup->bytes, frame_bytes(startup) - startup->bytes};
        ssize_t n = stream->ops->recv(stream, &rest, 1);
        if (n <= 0)
            return n ? (int)n : -EAGAIN;
        startup->bytes += (uint32_t)n;
    }
}
