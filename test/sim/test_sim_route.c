/* SPDX-License-Identifier: BSD-3-Clause */
/* No route to a peer, for a while or for ever. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define TIMEOUT_NS    (60 * SECOND)
#define FIRST_SENT_NS (10 * SECOND) /* for so long nothing of a peer's may leave at first */

static struct fixture *fixture_with_timeout(uint64_t timeout_ns)
{
    struct fixture *f = fixture_new();
    f->config.device.peer_timeout_ns = timeout_ns;
    fixture_open(f);
    return f;
}

/* The route to node 1 is gone for a while. */
static void lose_route(struct fixture *f, uint64_t for_ns)
{
    f->world.net.no_route_host = 2;
    sim_world_run_for(&f->world, for_ns);
    f->world.net.no_route_host = 0;
}

static void assert_not_sent(const struct fixture *f, uint64_t wr_id)
{
    fixture_assert_status(f, 0, wr_id, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 1);
    const struct diwarp_wc *gone = fixture_find(f, 0, 0, DIWARP_WC_PEER_GONE);
    assert_int_equal(gone->wc.vendor_err, DIWARP_GONE_NOT_SENT);
    assert_int_equal(gone->wc.byte_len, ENETUNREACH);
}

static void no_route__never_heard__gone_soon(void **state)
{
    (void)state;
    struct fixture *f = fixture_with_timeout(TIMEOUT_NS);
    f->world.net.no_route_host = 2;
    fixture_post_small(f, 1);
    lose_route(f, FIRST_SENT_NS - SECOND);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
    lose_route(f, 2 * SECOND);
    assert_not_sent(f, 1);
    fixture_close(f);
}

/* For ever, or until something has left: then it may just be late. */
static void no_route__for_a_while__is_there(void **state)
{
    (void)state;
    static const struct {
        uint64_t timeout_ns, lost_ns;
        bool heard, sent;
    } cases[] = {
        {0, 100 * SECOND, .heard = false},
        {TIMEOUT_NS, FIRST_SENT_NS - SECOND, .heard = false},
        {TIMEOUT_NS, 2 * FIRST_SENT_NS, .sent = true},
        {TIMEOUT_NS, 2 * FIRST_SENT_NS, .heard = true},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *f = fixture_with_timeout(cases[i].timeout_ns);
        if (cases[i].sent)
            f->world.nodes[1].paused_until_ns = f->world.net.now_ns + cases[i].lost_ns;
        if (cases[i].sent || cases[i].heard)
            fixture_post_small(f, 1);
        sim_world_run_for(&f->world, SECOND);
        f->world.net.no_route_host = 2;
        fixture_post_small(f, 2);
        lose_route(f, cases[i].lost_ns);
        fixture_run(f, SECOND);
        fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
        assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
        fixture_close(f);
    }
}

/* The reason is not its silence. */
static void no_route__to_one_heard__gone_after_the_timeout(void **state)
{
    (void)state;
    struct fixture *f = fixture_with_timeout(TIMEOUT_NS);
    fixture_post_small(f, 1);
    fixture_run(f, SECOND);
    f->world.net.no_route_host = 2;
    fixture_post_small(f, 2);
    lose_route(f, TIMEOUT_NS - SECOND);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
    lose_route(f, 3 * SECOND);
    assert_not_sent(f, 2);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_route__never_heard__gone_soon),
        cmocka_unit_test(no_route__for_a_while__is_there),
        cmocka_unit_test(no_route__to_one_heard__gone_after_the_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
