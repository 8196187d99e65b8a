/* SPDX-License-Identifier: BSD-3-Clause */
/* Several queue pairs on one port, of which one goes: what was asked of it, and the others. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/mman.h>

#include "common/rd/rd.h"
#include "test/net/queue_pairs.h"

static const struct dw_rd *rd_of(unsigned s)
{
    return sides[s].qps[0]->state;
}

static bool nothing_is_open(void)
{
    for (unsigned s = 0; s < 2; s++) {
        const struct dw_rd *rd = rd_of(s);
        if (rd->records.ends.count || rd->assembly_count || rd->work_count)
            return false;
    }
    return true;
}

/* After so many polls, when requests are anywhere between not sent and done, or never polled. */
static void destroy_amid(unsigned polls, uint32_t datagram_bytes)
{
    open_sides(DIWARP_QPT_RD, datagram_bytes);
    fill_all();
    for (unsigned op = OPS; op-- > 0;)
        for (unsigned s = 0; s < 2; s++)
            for (unsigned i = 0; i < QPS; i++)
                for (unsigned j = 0; j < QPS; j++)
                    post_op(s, i, j, op);
    for (unsigned n = 0; n < polls; n++)
        poll_side(n & 1);
    diwarp_destroy_qp(sides[1].qps[1]);
    diwarp_destroy_qp(sides[0].qps[2]);
    sides[1].qps[1] = sides[0].qps[2] = NULL;
    /* Of those that are gone the memory may be gone, too. */
    for (unsigned j = 0; j < QPS; j++)
        memset(sides[0].with[2][j].sink, 0xee, LARGE);
    run_until_done(OPS, 1);
    for (unsigned j = 0; j < QPS; j++)
        for (unsigned at = 0; at < LARGE; at++)
            assert_int_equal(sides[0].with[2][j].sink[at], 0xee);
    /* New requests to those that are gone end in error, all but Sends; the others go on. */
    for (unsigned op = 0; op < OPS; op++)
        for (unsigned i = 0; i < 2; i++)
            for (unsigned j = 0; j < QPS; j++)
                post_op(0, i, j, op);
    for (uint64_t end_ns = clock_ns() + WAIT_NS;;) {
        unsigned ended = 0;
        for (unsigned i = 0; i < 2; i++)
            for (unsigned j = 0; j < QPS; j++)
                ended += done(&sides[0].with[i][j]) == 2 * OPS;
        if (ended == 2 * QPS && nothing_is_open())
            break;
        poll_side(0);
        poll_side(1);
        if (clock_ns() > end_ns)
            fail_msg("after %u polls: %u pairs ended, records %zu %zu", polls, ended,
                     rd_of(0)->records.ends.count, rd_of(1)->records.ends.count);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_true(sides[0].with[i][1].errors >= OPS - 1);
        assert_int_equal(sides[0].with[i][0].errors + sides[0].with[i][2].errors, 0);
    }
    assert_true(diwarp_query_counters(sides[1].qps[0])->drop_qpn > 0);
    close_sides();
}

static void rd__one_goes_the_others_stay(void **state)
{
    (void)state;
    for (unsigned polls = 0; polls < 40; polls++) {
        destroy_amid(polls, 0);
        destroy_amid(polls, 1472);
    }
}

/* The peer has had part of a message when its QP goes: it gets the rest, and holds nothing back. */
static void rd__goes_amid_a_long_send(void **state)
{
    (void)state;
    enum { BYTES = 60000, SENDS = 40 };
    static uint8_t message[BYTES];
    open_sides(DIWARP_QPT_RD, 1472);
    struct ibv_sge sge = {.addr = (uintptr_t)message, .length = BYTES};
    struct diwarp_send_wr wr = {.wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                                .ah = sides[0].ahs[1][0]};
    fill(message, BYTES, 1);
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(diwarp_post_send(sides[0].qps[1], &wr), 0);
    diwarp_destroy_qp(sides[0].qps[1]);
    sides[0].qps[1] = NULL;
    memset(message, 0, BYTES);
    unsigned got = 0;
    for (uint64_t end_ns = clock_ns() + WAIT_NS; !got || !nothing_is_open();) {
        struct diwarp_wc wc;
        poll_side(0);
        if (diwarp_poll_cq(sides[1].cqs[0], 1, &wc) == 1) {
            assert_int_equal(wc.wc.byte_len, BYTES);
            assert_filled(wc.data, BYTES, 1);
            got++;
        }
        if (clock_ns() > end_ns)
            fail_msg("%u messages, %u still open", got, rd_of(1)->assembly_count);
    }
    assert_true(got < SENDS);
    close_sides();
}

/* Its completion was handed out, and its CQ is not polled again: the others receive on, though what
 * they get lies behind that. */
static void rd__goes_with_a_completion_handed_out(void **state)
{
    (void)state;
    enum { BYTES = 60000, SENDS = 60 };
    static uint8_t message[BYTES];
    struct diwarp_wc wc;
    unsigned got = 0;
    open_sides(DIWARP_QPT_RD, 0);
    fill_all();
    post_op(0, 0, 1, OP_SEND);
    const uint64_t end_ns = clock_ns() + WAIT_NS;
    while (diwarp_poll_cq(sides[1].cqs[1], 1, &wc) != 1)
        assert_true(clock_ns() < end_ns);
    diwarp_destroy_qp(sides[1].qps[1]);
    sides[1].qps[1] = NULL;
    struct ibv_sge sge = {.addr = (uintptr_t)message, .length = BYTES};
    const struct diwarp_send_wr wr = {.wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                                      .ah = sides[0].ahs[0][0]};
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(diwarp_post_send(sides[0].qps[0], &wr), 0);
    while (got < SENDS) {
        (void)diwarp_poll_cq(sides[0].cqs[0], 1, &wc);
        got += diwarp_poll_cq(sides[1].cqs[0], 1, &wc) == 1;
        if (clock_ns() > end_ns)
            fail_msg("%u of %u messages", got, SENDS);
    }
    close_sides();
}

/* By a handle to one of its queue pairs: nothing goes to any of them. */
static void rd__peer_given_up(void **state)
{
    (void)state;
    struct ibv_sge sge = {.addr = (uintptr_t)sides[0].with, .length = SMALL};
    const struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    open_sides(DIWARP_QPT_RD, 0);
    fill_all();
    for (unsigned i = 0; i < QPS; i++)
        for (unsigned j = 0; j < QPS; j++)
            post_op(0, i, j, OP_READ);
    assert_int_equal(diwarp_give_up_ah(sides[0].ahs[1][2]), 0);
    for (unsigned i = 0; i < QPS; i++)
        for (unsigned j = 0; j < QPS; j++) {
            const struct diwarp_send_wr to = {.wr = wr, .ah = sides[0].ahs[i][j]};
            assert_int_equal(diwarp_post_send(sides[0].qps[i], &to), -EHOSTUNREACH);
        }
    close_sides();
}

/* The last of its kind goes, another comes: peers go on with it. */
static void rd__none_for_a_while(void **state)
{
    (void)state;
    struct diwarp_qp_attr attr = qp_attr_of(DIWARP_QPT_UD);
    struct diwarp_qp *ud;
    open_sides(DIWARP_QPT_RD, 0);
    fill_all();
    attr.cq = sides[1].cqs[0];
    assert_int_equal(diwarp_create_qp(sides[1].pd, &attr, &ud, NULL), 0);
    for (unsigned i = 0; i < QPS; i++)
        post_op(0, i, i, OP_SEND);
    for (unsigned i = 0; i < QPS; i++) {
        diwarp_destroy_qp(sides[1].qps[i]);
        sides[1].qps[i] = NULL;
    }
    post_op(0, 0, 0, OP_READ);
    for (uint64_t end_ns = clock_ns() + WAIT_NS;
         !sides[0].with[0][0].errors && clock_ns() < end_ns;) {
        poll_side(0);
        poll_side(1);
    }
    assert_int_equal(sides[0].with[0][0].errors, 1);
    open_qp(&sides[1], DIWARP_QPT_RD, 0);
    diwarp_destroy_ah(sides[0].ahs[0][0]);
    assert_int_equal(diwarp_create_ah(sides[0].qps[0], &sides[1].addresses[0], &sides[0].ahs[0][0]),
                     0);
    post_op(0, 0, 0, OP_SEND);
    for (uint64_t end_ns = clock_ns() + WAIT_NS;
         !sides[1].with[0][0].recvs && clock_ns() < end_ns;) {
        poll_side(0);
        poll_side(1);
    }
    assert_int_equal(sides[1].with[0][0].recvs, 1);
    diwarp_destroy_qp(ud);
    close_sides();
}

/* Nothing is copied for peers that will not be told any more: the message is out of reach. */
static void rd__last_goes_amid_a_long_send(void **state)
{
    (void)state;
    enum { BYTES = 60000, SENDS = 40 };
    open_device(&sides[0], 1, 1472);
    open_device(&sides[1], 2, 1472);
    open_qp(&sides[0], DIWARP_QPT_RD, 0);
    open_qp(&sides[1], DIWARP_QPT_RD, 0);
    struct diwarp_ah *ah;
    uint8_t *message =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(message, MAP_FAILED);
    assert_int_equal(diwarp_create_ah(sides[0].qps[0], &sides[1].addresses[0], &ah), 0);
    const struct ibv_sge sge = {.addr = (uintptr_t)message, .length = BYTES};
    const struct diwarp_send_wr wr = {
        .wr = {.sg_list = (struct ibv_sge *)&sge, .num_sge = 1, .opcode = IBV_WR_SEND}, .ah = ah};
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(diwarp_post_send(sides[0].qps[0], &wr), 0);
    assert_true(rd_of(0)->work_count > 0);
    assert_int_equal(mprotect(message, BYTES, PROT_NONE), 0);
    close_device(&sides[0]);
    diwarp_destroy_ah(ah);
    close_device(&sides[1]);
    munmap(message, BYTES);
}

/* ---- one is drained ---- */

static int drain(unsigned i, unsigned timeout_ms, uint64_t *took_ns)
{
    const uint64_t start_ns = clock_ns();
    const int rc = diwarp_drain_qp(sides[0].qps[i], timeout_ms * MS);
    *took_ns = clock_ns() - start_ns;
    return rc;
}

/* The other end does not run: what one QP has asked of it another does not wait for. */
static void drain__waits_for_its_own(void **state)
{
    (void)state;
    uint64_t took_ns;
    for (unsigned op = 0; op < OPS; op++) {
        open_sides(DIWARP_QPT_RD, 0);
        fill_all();
        post_op(0, 1, 1, op);
        assert_int_equal(drain(0, 5000, &took_ns), 0);
        assert_true(took_ns < 1000 * MS);
        assert_int_equal(drain(1, 20, &took_ns), -ETIMEDOUT);
        for (unsigned n = 0; n < 2; n++)
            poll_side(1);
        assert_int_equal(drain(0, 5000, &took_ns), 0);
        close_sides();
    }
}

static bool stop;

/* Writes of the other end without end. */
static void *write_on(void *arg)
{
    (void)arg;
    for (unsigned posted = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED);) {
        for (; posted < sides[1].with[1][1].writes + 8; posted++)
            post_op(1, 1, 1, OP_SMALL);
        poll_side(1);
    }
    return NULL;
}

static void drain__another_is_written_to__ends(void **state)
{
    (void)state;
    uint64_t took_ns;
    pthread_t thread;
    stop = false;
    open_sides(DIWARP_QPT_RD, 0);
    assert_int_equal(pthread_create(&thread, NULL, write_on, NULL), 0);
    const int rc = drain(0, 5000, &took_ns);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_int_equal(rc, 0);
    assert_true(took_ns < 1000 * MS);
    close_sides();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__one_goes_the_others_stay),
        cmocka_unit_test(rd__goes_amid_a_long_send),
        cmocka_unit_test(rd__goes_with_a_completion_handed_out),
        cmocka_unit_test(rd__peer_given_up),
        cmocka_unit_test(rd__none_for_a_while),
        cmocka_unit_test(rd__last_goes_amid_a_long_send),
        cmocka_unit_test(drain__waits_for_its_own),
        cmocka_unit_test(drain__another_is_written_to__ends),
    };

    return cmocka_run_group_tests_name("queue pairs end", tests, NULL, NULL);
}
