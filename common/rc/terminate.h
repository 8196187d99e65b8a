/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdict on what came: Terminate (RFC 5040 4.8, 5.5). */
#ifndef DW_RC_TERMINATE_H
#define DW_RC_TERMINATE_H

#include "common/rc/qp.h"
#include "common/wire/ddp.h"
#include "common/wire/terminate.h"

enum dw_rc_verdict {
    DW_RC_DONE,
    DW_RC_WAIT, /* no receive is posted: the ULPDU comes again */
    DW_RC_DEAD, /* the QP is closed */
};

/* A ULPDU of a good FPDU. */
struct dw_rc_segment {
    const uint8_t *ulpdu;
    uint32_t bytes, head_bytes; /* the head is part of bytes */
    struct dw_ddp_header ddp;
};

/* Sends Terminate about a ULPDU (NULL: none) and closes. Always DW_RC_DEAD. */
enum dw_rc_verdict dw_rc_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu,
                                   uint32_t bytes);
/* About a segment. */
enum dw_rc_verdict dw_rc_fail(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment,
                              uint16_t cause);
enum dw_rc_verdict dw_rc_on_terminate(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment);

#endif
