/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of MPA start-up. */
#ifndef DW_RC_FRAME_H
#define DW_RC_FRAME_H

#include "common/rc/qp.h"
#include "common/wire/mpa.h"

/* Reads a frame no further than to its end: 0, -EAGAIN (more must come), or why not. */
int dw_rc_frame_read(struct dw_stream *stream, struct dw_rc_startup *startup, enum dw_mpa_kind kind,
                     struct dw_mpa_frame *frame);
/* Writes a frame with RFC 6581's block (NULL: without), ours and the application's data
 * (frame->private_data is not looked at); returns its bytes. */
uint32_t dw_rc_frame_put(uint8_t *buf, struct dw_mpa_frame *frame,
                         const struct dw_mpa_enhanced *enhanced, const struct dw_rc_hello *hello,
                         const void *data, size_t bytes);
/* The blocks in a frame that was read; *data is the application's part. -EPROTO: ours is not there.
 * Without RFC 6581's, and where that leaves it to others, the IRD is the one of ours. */
int dw_rc_frame_get(const struct dw_mpa_frame *frame, struct dw_mpa_enhanced *enhanced,
                    struct dw_rc_hello *hello, const uint8_t **data, uint32_t *bytes);
uint8_t dw_rc_frame_flags(const struct diwarp_rc_qp_attr *attr);

#endif
