/* SPDX-License-Identifier: BSD-3-Clause */
/* A QP against a forged other side: RDMA reads that cannot go, or that are not answered (RFC 5040
 * 4.8, RFC 6581 9). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/unit/rc_segments.h"

/* ---- the other side answers none ------------------------------------------------------------ */

/* It was posted before that was known: what is behind it must not wait for ever. */
static void rc_reads__none_may_go(void **state)
{
    (void)state;
    struct forged f;

    call_forged(&f);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, 0, 1, NULL, 0), 0);
    assert_int_equal(rc_post(&f.end, IBV_WR_RDMA_READ, f.recv, 3, 0, 2, f.mr, 0), 0);
    answer_call(&f, 0);
    expect_terminate(&f, 0x2006);
    assert_int_equal(f.end.connects, 0);
    assert_int_equal(f.end.flushed, 2);
    assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_rejects, 1);
    close_end(&f);
}

static void rc_reads__none_is_asked_for(void **state)
{
    (void)state;
    struct forged f;

    call_forged(&f);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, IBV_SEND_SIGNALED, 1, NULL, 0), 0);
    answer_call(&f, 0);
    assert_int_equal(f.end.connects, 1);
    assert_int_equal(f.end.sends, 1);
    assert_int_equal(rc_post(&f.end, IBV_WR_RDMA_READ, f.recv, 3, 0, 2, f.mr, 0), -EINVAL);
    close_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_reads__none_may_go),
        cmocka_unit_test(rc_reads__none_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
