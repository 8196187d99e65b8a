/* SPDX-License-Identifier: BSD-3-Clause */
/* UD: lazy Sends share send calls, and none stays behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

enum { SENDS = 100, SEND_BYTES = 1000, SHORT_BYTES = 10, PEER = 1 };

static uint8_t received[SENDS][SEND_BYTES];

static struct fixture *lazy_open(void)
{
    struct fixture *f = fixture_new();
    f->config.qp.type = DIWARP_QPT_UD;
    f->config.qp.max_recv_wr = SENDS;
    fixture_open(f);
    memset(received, 0, sizeof received);
    for (unsigned i = 0; i < SENDS; i++) {
        struct ibv_sge sge = {.addr = (uintptr_t)received[i], .length = SEND_BYTES};
        struct ibv_recv_wr wr = {.wr_id = 1000 + i, .sg_list = &sge, .num_sge = 1};
        assert_int_equal(diwarp_post_recv(f->world.nodes[PEER].qp, &wr), 0);
    }
    return f;
}

static int send_one(struct fixture *f, unsigned id, uint32_t bytes, unsigned flags)
{
    uint8_t *local = fixture_payload(id, bytes);
    const int rc = fixture_post(f, 0, PEER, id, IBV_WR_SEND, flags, local, bytes, NULL);
    free(local); /* it has been copied */
    return rc;
}

static uint64_t calls(const struct fixture *f)
{
    return sim_counters(&f->world, 0)->tx_syscalls;
}

static void lazy__equally_long__one_call_at_the_next_poll(void **state)
{
    (void)state;
    struct fixture *f = lazy_open();
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(send_one(f, i, SEND_BYTES, DIWARP_SEND_LAZY), 0);
    assert_int_equal(calls(f), 0);
    fixture_run(f, SECOND);
    assert_int_equal(calls(f), 1);
    assert_int_equal(fixture_count(f, PEER, IBV_WC_RECV), 20);
    assert_int_equal(fixture_count(f, 0, IBV_WC_SEND), 20);
    for (unsigned i = 0; i < 20; i++)
        assert_true(sim_pattern_matches(i, 0, received[i], SEND_BYTES));
    fixture_close(f);
}

static void lazy__as_many_as_a_train_takes__they_leave(void **state)
{
    (void)state;
    struct fixture *f = lazy_open();
    for (unsigned i = 0; i < DW_LLP_TRAIN_DATAGRAMS; i++)
        assert_int_equal(send_one(f, i, SHORT_BYTES, DIWARP_SEND_LAZY), 0);
    assert_int_equal(calls(f), 1);
    assert_int_equal(sim_counters(&f->world, 0)->tx_datagrams, DW_LLP_TRAIN_DATAGRAMS);
    fixture_run(f, SECOND);
    fixture_close(f);
}

static void lazy__shorter_one__ends_the_train(void **state)
{
    (void)state;
    struct fixture *f = lazy_open();
    assert_int_equal(send_one(f, 0, SEND_BYTES, DIWARP_SEND_LAZY), 0);
    assert_int_equal(send_one(f, 1, SEND_BYTES, DIWARP_SEND_LAZY), 0);
    assert_int_equal(send_one(f, 2, SHORT_BYTES, DIWARP_SEND_LAZY), 0);
    assert_int_equal(calls(f), 1);
    assert_int_equal(send_one(f, 3, SHORT_BYTES, DIWARP_SEND_LAZY), 0);
    assert_int_equal(send_one(f, 4, SEND_BYTES, DIWARP_SEND_LAZY), 0); /* too long for that train */
    assert_int_equal(calls(f), 2);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, PEER, IBV_WC_RECV), 5);
    assert_true(sim_pattern_matches(4, 0, received[4], SEND_BYTES));
    fixture_close(f);
}

static void lazy__post_that_is_not__takes_them_along(void **state)
{
    (void)state;
    struct fixture *f = lazy_open();
    assert_int_equal(send_one(f, 0, SEND_BYTES, DIWARP_SEND_LAZY), 0);
    assert_int_equal(send_one(f, 1, SEND_BYTES, 0), 0);
    assert_int_equal(calls(f), 1);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, PEER, IBV_WC_RECV), 2);
    fixture_close(f);
}

static void lazy__socket_full__next_is_told_and_none_is_lost(void **state)
{
    (void)state;
    struct fixture *f = lazy_open();
    unsigned taken = 0;
    f->world.net.full_host = 1 + PEER;
    while (!send_one(f, taken, SHORT_BYTES, DIWARP_SEND_LAZY))
        taken++;
    assert_int_equal(taken, DW_LLP_TRAIN_DATAGRAMS);
    assert_int_equal(send_one(f, taken, SHORT_BYTES, 0), -EAGAIN);
    sim_world_run_for(&f->world, 10 * MS);
    assert_int_equal(fixture_count(f, PEER, IBV_WC_RECV), 0);
    f->world.net.full_host = 0;
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, PEER, IBV_WC_RECV), taken);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lazy__equally_long__one_call_at_the_next_poll),
        cmocka_unit_test(lazy__as_many_as_a_train_takes__they_leave),
        cmocka_unit_test(lazy__shorter_one__ends_the_train),
        cmocka_unit_test(lazy__post_that_is_not__takes_them_along),
        cmocka_unit_test(lazy__socket_full__next_is_told_and_none_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
