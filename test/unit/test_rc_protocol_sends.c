/* SPDX-License-Identifier: BSD-3-Clause */
/* A QP against a forged other side: what becomes of what is posted where TCP, or the memory, does
 * not take it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/unit/rc_segments.h"

/* Its memory is the caller's again when the post returns: it cannot wait for the next poll. */
static void rc_sends__inline_is_never_lazy(void **state)
{
    (void)state;
    struct forged f;

    open_forged(&f, false);
    send_rtr(&f);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, IBV_SEND_INLINE | DIWARP_SEND_LAZY, 1,
                             NULL, 0),
                     -EAGAIN);
    poll_some(&f);
    assert_int_equal(f.in_bytes, 0);
    assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_tx_send_msgs, 0);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, IBV_SEND_INLINE, 1, NULL, 0), 0);
    close_end(&f);
}

/* The kernel cannot read what was posted: no other try will do. */
static void rc_sends__memory_that_is_not_there(void **state)
{
    (void)state;
    struct forged f;

    open_forged(&f, false);
    send_rtr(&f);
    f.net.send_error = -EFAULT;
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, 0, 1, NULL, 0), 0);
    poll_some(&f);
    assert_int_equal(f.end.flushed, 1);
    assert_int_equal(f.end.disconnects, 1);
    assert_int_equal(f.end.disconnected.wc.status, IBV_WC_LOC_PROT_ERR);
    close_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_sends__inline_is_never_lazy),
        cmocka_unit_test(rc_sends__memory_that_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
