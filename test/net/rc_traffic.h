/* SPDX-License-Identifier: BSD-3-Clause */
/* For cmocka tests of RC QPs: buffers, and a message and an orderly end that are checked. After
 * <cmocka.h>. */
#ifndef TEST_RC_TRAFFIC_H
#define TEST_RC_TRAFFIC_H

#include "test/net/rc_end.h"

static uint8_t buf_a[1 << 21], buf_b[1 << 21];

static inline struct diwarp_mr *reg(struct rc_end *end, uint8_t *buf, int access)
{
    struct diwarp_mr *mr = diwarp_reg_mr(end->pd, buf, sizeof buf_a, access);

    assert_non_null(mr);
    return mr;
}

static inline void check_send(struct rc_pair *pair, uint32_t bytes, unsigned flags)
{
    unsigned sends = pair->a.sends, recvs = pair->b.recvs;

    fill(buf_a, bytes, bytes);
    memset(buf_b, 0xee, bytes + 1);
    assert_int_equal(rc_post_recv(&pair->b, buf_b, bytes + 7, 1000 + bytes), 0);
    assert_int_equal(
        rc_post(&pair->a, IBV_WR_SEND, buf_a, bytes, IBV_SEND_SIGNALED | flags, bytes, NULL, 0), 0);
    RC_UNTIL(pair->b.recvs == recvs + 1 && pair->a.sends == sends + 1, &pair->a, &pair->b);
    assert_int_equal(pair->b.last_recv.wc.wr_id, 1000 + bytes);
    assert_int_equal(pair->b.last_recv.wc.byte_len, bytes);
    assert_filled(buf_b, bytes, bytes);
    assert_int_equal(buf_b[bytes], 0xee);
}

static inline void check_orderly_close(struct rc_pair *pair)
{
    diwarp_disconnect(pair->a.qp);
    RC_UNTIL(pair->a.disconnects && pair->b.disconnects, &pair->a, &pair->b);
    assert_int_equal(pair->a.disconnected.wc.status, IBV_WC_SUCCESS);
    assert_int_equal(pair->b.disconnected.wc.status, IBV_WC_SUCCESS);
}

#endif
