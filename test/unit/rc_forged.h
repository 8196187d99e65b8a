/* SPDX-License-Identifier: BSD-3-Clause */
/* For cmocka tests of RC QPs: an end whose other side is forged, byte by byte, by the test. After
 * <cmocka.h>. */
#ifndef DW_TEST_RC_FORGED_H
#define DW_TEST_RC_FORGED_H

#include <stdlib.h>

#include "common/rc/qp.h"
#include "test/net/rc_end.h"
#include "test/unit/fake_streams.h"

#define RIGHTS       (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define REGION_BYTES 1000

struct forged {
    struct fake_net net;
    struct rc_end end;
    struct fake_stream *stream;
    struct dw_mpa_stream tx, rx;
    struct diwarp_mr *mr, *read_only;
    uint8_t region[REGION_BYTES], recv[100];
    uint8_t in[4096];
    size_t in_bytes;
};

static void poll_some(struct forged *f)
{
    for (unsigned i = 0; i < 40; i++)
        rc_end_poll(&f->end);
    f->in_bytes += fake_read(f->stream, f->in + f->in_bytes, sizeof f->in - f->in_bytes);
}

static void open_end_only(struct forged *f)
{
    struct dw_env env;

    memset(f, 0, sizeof *f);
    fake_env(&f->net, &env);
    rc_end_open(&f->end, 1, &env);
    f->mr = diwarp_reg_mr(f->end.pd, f->region, REGION_BYTES, RIGHTS);
    f->read_only = diwarp_reg_mr(f->end.pd, f->region, REGION_BYTES, IBV_ACCESS_REMOTE_READ);
    assert_non_null(f->mr);
    assert_non_null(f->read_only);
}

static void open_end(struct forged *f)
{
    open_end_only(f);
    f->stream = fake_call(&f->net, f->end.address.port);
}

static void close_end(struct forged *f)
{
    fake_hang_up(f->stream, true);
    rc_end_destroy_qp(&f->end);
    diwarp_dereg_mr(f->mr);
    diwarp_dereg_mr(f->read_only);
    rc_end_close(&f->end);
}

static inline void write_frame(const struct forged *f, struct dw_mpa_frame frame, uint64_t token,
                               const char *data)
{
    struct dw_rc_tail tail = {0};

    frame.control = DW_MPA_PEER_TO_PEER | DW_MPA_RTR_WRITE;
    frame.private_data = (const uint8_t *)data;
    frame.private_bytes = strlen(data);
    assert_int_equal(dw_rc_frame_add(&tail, f->end.device, token, frame), 0);
    fake_write(f->stream, tail.buf, tail.bytes);
    free(tail.buf);
}

static void write_request(struct forged *f, uint8_t flags, uint8_t revision, uint64_t token)
{
    const struct dw_mpa_frame frame = {.kind = DW_MPA_REQUEST,
                                       .flags = flags | (revision >= 2 ? DW_MPA_ENHANCED : 0),
                                       .revision = revision,
                                       .ird = 2,
                                       .ord = 2};

    write_frame(f, frame, token, "hi");
}

#endif
