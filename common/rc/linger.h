/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams that linger after their QP, so that the other side can read what was sent last. */
#ifndef DW_RC_LINGER_H
#define DW_RC_LINGER_H

#include "common/rc/rc.h"

/* Takes the stream, and `rest` (malloc'ed, may be NULL), which TCP has not taken yet. */
void dw_rc_linger(struct dw_rc *rc, struct dw_stream *stream, uint8_t *rest, uint32_t bytes);
void dw_rc_lingers_free(struct dw_rc *rc);

#endif
