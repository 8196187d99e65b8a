/* SPDX-License-Identifier: BSD-3-Clause */
/* For cmocka tests of RC QPs whose other side is forged: that side accepted, and its FPDUs. After
 * <cmocka.h>. */
#ifndef DW_TEST_RC_SEGMENTS_H
#define DW_TEST_RC_SEGMENTS_H

#include "test/unit/rc_forged.h"
#include "test/unit/terminate.h"

static inline void accept_call(struct forged *f)
{
    struct dw_mpa_frame frame;

    poll_some(f);
    assert_int_equal(f->end.requests, 1);
    assert_int_equal(f->end.data_bytes, 2);
    assert_int_equal(diwarp_accept(f->end.request, f->end.pd, &f->end.attr, "yo", 2, &f->end.qp),
                     0);
    poll_some(f);
    int length = dw_mpa_frame_get(&frame, DW_MPA_REPLY, f->in, f->in_bytes);
    assert_int_equal(length, f->in_bytes); /* nothing before our first FPDU: RFC 5044 7.1.2 */
    assert_int_equal(frame.flags & DW_MPA_REJECT, 0);
    f->in_bytes = 0;
}

/* Our QP calls, and the test takes the call. */
static inline void call_forged(struct forged *f)
{
    open_end_only(f);
    f->end.attr.max_rd_atomic = 2;
    f->tx = f->rx = (struct dw_mpa_stream){.crc = true};
    assert_int_equal(
        diwarp_connect(f->end.pd, &f->end.attr, &f->end.address, NULL, 0, &f->end.qp, NULL), 0);
    f->stream = fake_take_call(&f->net, f->end.address.port);
    assert_non_null(f->stream);
}

/* Its request, answered by one that answers `ird` reads at once. */
static inline void answer_call(struct forged *f, uint16_t ird)
{
    struct dw_mpa_frame frame;

    poll_some(f);
    assert_int_equal(dw_mpa_frame_get(&frame, DW_MPA_REQUEST, f->in, f->in_bytes), f->in_bytes);
    f->in_bytes = 0;
    frame = (struct dw_mpa_frame){.kind = DW_MPA_REPLY,
                                  .flags = DW_MPA_CRC | DW_MPA_ENHANCED,
                                  .revision = frame.revision,
                                  .ird = ird};
    write_frame(f, frame, f->end.address.token, "");
    poll_some(f);
}

static inline void open_forged(struct forged *f, bool markers)
{
    open_end(f);
    f->end.attr.markers = markers;
    f->end.attr.max_rd_atomic = 2;
    f->end.attr.rnr_timeout_ns = 0;
    f->tx = (struct dw_mpa_stream){.markers = markers, .crc = true};
    f->rx = (struct dw_mpa_stream){.crc = true};
    write_request(f, DW_MPA_CRC, 2, f->end.address.token);
    accept_call(f);
}

static inline size_t seal(struct forged *f, uint8_t *out, const void *ulpdu, size_t bytes)
{
    uint8_t room[2048];
    struct iovec pieces[16], whole = {(void *)(uintptr_t)ulpdu, bytes};
    struct dw_mpa_gather gather = {
        .pieces = pieces, .max = 16, .room = room, .room_bytes = sizeof room};
    size_t at = 0;

    assert_int_equal(dw_mpa_gather_fpdu(&f->tx, &gather, &whole, 1, 1), 0);
    for (size_t i = 0; i < gather.count; i++) {
        memcpy(out + at, pieces[i].iov_base, pieces[i].iov_len);
        at += pieces[i].iov_len;
    }
    return at;
}

static inline void send_ulpdu(struct forged *f, const void *ulpdu, size_t bytes)
{
    uint8_t out[2048];

    fake_write(f->stream, out, seal(f, out, ulpdu, bytes));
}

static inline void send_segment(struct forged *f, const struct dw_ddp_header *ddp,
                                const void *payload, size_t bytes)
{
    uint8_t ulpdu[1024];
    size_t head = dw_ddp_put(ulpdu, ddp);

    if (bytes)
        memcpy(ulpdu + head, payload, bytes);
    send_ulpdu(f, ulpdu, head + bytes);
}

static inline void send_rtr(struct forged *f)
{
    send_segment(f, &(struct dw_ddp_header){.tagged = true, .last = true}, NULL, 0);
    poll_some(f);
    assert_int_equal(f->end.disconnects, 0);
}

/* The next FPDU that it has sent. */
static inline int read_segment(struct forged *f, struct dw_ddp_header *ddp, uint8_t *payload)
{
    struct dw_mpa_fpdu fpdu;
    uint16_t cause;

    poll_some(f);
    assert_int_equal(dw_mpa_fpdu_get(&f->rx, &fpdu, f->in, f->in_bytes), 0);
    int head = dw_ddp_get_stream(ddp, fpdu.ulpdu, fpdu.ulpdu_bytes, &cause);
    assert_true(head > 0);
    int bytes = (int)fpdu.ulpdu_bytes - head;
    memcpy(payload, fpdu.ulpdu + head, (size_t)bytes);
    f->in_bytes -= fpdu.bytes;
    memmove(f->in, f->in + fpdu.bytes, f->in_bytes);
    return bytes;
}

static inline void expect_terminate(struct forged *f, uint16_t cause)
{
    struct dw_ddp_header ddp;
    struct terminate terminate;
    uint8_t payload[1024];

    int bytes = read_segment(f, &ddp, payload);
    assert_int_equal(ddp.opcode, DW_RDMAP_TERMINATE);
    assert_int_equal(ddp.qn, 2);
    assert_int_equal(ddp.msn, 1);
    assert_int_equal(terminate_get(&terminate, payload, (size_t)bytes), 0);
    assert_int_equal(terminate.cause, cause);
    assert_int_equal(f->in_bytes, 0);
    assert_true(fake_is_over(f->stream));
    assert_int_equal(f->end.disconnects, 1);
    assert_int_equal(f->end.disconnected.wc.status, IBV_WC_REM_OP_ERR);
    assert_int_equal(f->end.disconnected.wc.vendor_err, cause);
    assert_int_equal(diwarp_query_rc_counters(f->end.cq)->rc_tx_terminates, 1);
}

#endif
