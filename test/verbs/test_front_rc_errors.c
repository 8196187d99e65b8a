/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong with RC queue pairs of the verbs front. */
#include <string.h>
#include <time.h>

#include "test/verbs/rc_pair.h"

static void assert_refused(struct pair *pair, struct ibv_send_wr *wr, enum ibv_wc_status status)
{
    struct ibv_send_wr *bad;
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    pair_receive(pair, 1, 20);
    wr->wr_id = 1;
    assert_int_equal(ibv_post_send(pair->qp[0], wr, &bad), 0);
    wr->wr_id = 2;
    (void)ibv_post_send(pair->qp[0], wr, &bad);
    assert_done(pair->send_cq[0], 1, status);
    assert_done(pair->send_cq[0], 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(pair->qp[0]->state, IBV_QPS_ERR);
    if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR) {
        assert_done(pair->recv_cq[1], 20,
                    status == IBV_WC_REM_INV_REQ_ERR ? IBV_WC_LOC_LEN_ERR : IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(pair->qp[1]->state, IBV_QPS_ERR);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(ibv_modify_qp(pair->qp[i], &reset, IBV_QP_STATE), 0);
}

static void rc__wrong_access(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *local = ibv_reg_mr(pair->pd, pair->memory[1], 4096, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = {(uintptr_t)pair->memory[0], 8, pair->mr->lkey};
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD};
    for (unsigned i = 0; i < 12; i++) {
        struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcodes[i % 3]};
        const bool atomic = wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
        uint64_t addr = (uintptr_t)pair->memory[1];
        uint32_t rkey = pair->mr->rkey;
        unsigned access = ALL_ACCESS;
        switch (i / 3) {
        case 0:
            rkey ^= 0x5a5a;
            break;
        case 1:
            addr += 1 << 20;
            break;
        case 2:
            rkey = local->rkey; /* without rights for others */
            break;
        default:
            access = 0; /* of the queue pair */
            break;
        }
        if (atomic) {
            wr.wr.atomic.remote_addr = addr;
            wr.wr.atomic.rkey = rkey;
        } else {
            wr.wr.rdma.remote_addr = addr;
            wr.wr.rdma.rkey = rkey;
        }
        wr.send_flags = IBV_SEND_SIGNALED;
        pair_connect(pair, access);
        assert_refused(pair, &wr, IBV_WC_REM_ACCESS_ERR);
    }
    assert_int_equal(ibv_dereg_mr(local), 0);
    pair_close(pair);
}

static void rc__rights_that_change(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_qp_attr attr = {.qp_access_flags = ALL_ACCESS};
    pair_connect(pair, 0);
    assert_int_equal(ibv_modify_qp(pair->qp[1], &attr, IBV_QP_ACCESS_FLAGS), 0);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 8);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    attr.qp_access_flags = 0;
    assert_int_equal(ibv_modify_qp(pair->qp[1], &attr, IBV_QP_ACCESS_FLAGS), 0);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 2, 8);
    assert_done(pair->send_cq[0], 2, IBV_WC_REM_ACCESS_ERR);
    pair_close(pair);
}

static void rc__wrong_local_key(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_sge sge = {(uintptr_t)pair->memory[0], 8, 0};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    pair_connect(pair, ALL_ACCESS);
    assert_refused(pair, &wr, IBV_WC_LOC_PROT_ERR);
    sge.lkey = pair->mr->lkey ^ 1;
    pair_connect(pair, ALL_ACCESS);
    assert_refused(pair, &wr, IBV_WC_LOC_PROT_ERR);
    pair_close(pair);
}

static void rc__too_long(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_sge sge = {(uintptr_t)pair->memory[0], 4097, pair->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    pair_connect(pair, ALL_ACCESS);
    assert_refused(pair, &wr, IBV_WC_REM_INV_REQ_ERR);
    pair_close(pair);
}

static void rc__waits_for_a_receive(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_empty(pair->send_cq[0]);
    pair_receive(pair, 1, 2);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    assert_done(pair->recv_cq[1], 2, IBV_WC_SUCCESS);
    pair_close(pair);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Which of both calls the other differs in who says first how often it tries again. The side that
 * has no receive goes on, until it sends. */
static void rc__tries_so_often(void **state)
{
    (void)state;
    static const struct {
        uint8_t retry, timer;
        uint64_t least_ns, most_ns;
    } cases[] = {
        {0, 0, 0, 300000000},
        {1, 28, 163840000, 1000000000}, /* 163.84 ms each */
        {3, 26, 245760000, 1000000000}, /* 81.92 ms */
    };
    for (unsigned i = 0; i < 6; i++) {
        struct pair *pair = pair_open(false);
        const unsigned from = i % 2, to = !from;
        pair->rnr_retry = cases[i / 2].retry;
        pair->min_rnr_timer = cases[i / 2].timer;
        pair_connect(pair, ALL_ACCESS);
        pair_receive(pair, to, 30);
        pair_post(pair, from, IBV_WR_SEND, 1, 8);
        assert_done(pair->recv_cq[to], 30, IBV_WC_SUCCESS);
        const uint64_t begun_ns = now_ns();
        pair_post(pair, from, IBV_WR_SEND, 2, 8);
        pair_post(pair, from, IBV_WR_RDMA_WRITE, 3, 8);
        assert_done(pair->send_cq[from], 1, IBV_WC_SUCCESS);
        assert_done(pair->send_cq[from], 2, IBV_WC_RNR_RETRY_EXC_ERR);
        assert_in_range(now_ns() - begun_ns, cases[i / 2].least_ns, cases[i / 2].most_ns);
        assert_done(pair->send_cq[from], 3, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(pair->qp[from]->state, IBV_QPS_ERR);
        assert_int_equal(pair->qp[to]->state, IBV_QPS_RTS);
        pair_post(pair, to, IBV_WR_SEND, 4, 8);
        assert_done(pair->send_cq[to], 4, IBV_WC_RETRY_EXC_ERR);
        pair_close(pair);
    }
}

/* In time. */
static void rc__is_received_at_a_later_try(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair->rnr_retry = 6;
    pair->min_rnr_timer = 0; /* 655.36 ms */
    pair_connect(pair, ALL_ACCESS);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_empty(pair->send_cq[0]);
    pair_receive(pair, 1, 2);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    pair_close(pair);
}

/* Nobody is told before he sends. */
static void rc__other_side_is_destroyed(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    pair_receive(pair, 1, 5);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = NULL;
    pair_receive(pair, 0, 6);
    assert_empty(pair->recv_cq[0]);
    assert_int_equal(pair->qp[0]->state, IBV_QPS_RTS);
    pair_post(pair, 0, IBV_WR_RDMA_READ, 2, 8);
    assert_done(pair->send_cq[0], 2, IBV_WC_RETRY_EXC_ERR);
    assert_done(pair->recv_cq[0], 6, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(pair->qp[0]->state, IBV_QPS_ERR);
    pair_close(pair);
}

static void rc__error_flushes(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    pair_init(pair->qp[0], 0);
    pair_connect_to(pair, pair->qp[0], pair->qp[1]->qp_num);
    for (uint64_t i = 0; i < 4; i++) {
        pair_receive(pair, 0, i);
        pair_post(pair, 0, IBV_WR_SEND, i, 8);
    }
    assert_int_equal(ibv_modify_qp(pair->qp[0], &error, IBV_QP_STATE), 0);
    for (uint64_t i = 0; i < 4; i++) {
        assert_done(pair->recv_cq[0], i, IBV_WC_WR_FLUSH_ERR);
        assert_done(pair->send_cq[0], i, IBV_WC_WR_FLUSH_ERR);
    }
    pair_close(pair);
}

/* Of whichever calls the other: a Send waits for it, and not for ever. */
static void rc__other_side_is_never_ready(void **state)
{
    (void)state;
    struct pair *pairs[2] = {pair_open(false), pair_open(false)};
    struct ibv_wc wc;
    for (unsigned i = 0; i < 2; i++) {
        struct pair *pair = pairs[i];
        pair->timeout = 10;
        pair_init(pair->qp[0], ALL_ACCESS);
        pair_init(pair->qp[1], ALL_ACCESS);
        pair_connect_to(pair, pair->qp[i], pair->qp[!i]->qp_num);
        pair_post(pair, i, IBV_WR_SEND, 1, 8);
        pair_post(pair, i, IBV_WR_SEND, 2, 8);
    }
    const time_t begin = time(NULL);
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_cq *cq = pairs[i]->send_cq[i];
        while (!ibv_poll_cq(cq, 1, &wc))
            assert_true(time(NULL) - begin < 30);
        assert_true(wc.wr_id == 1 && wc.status == IBV_WC_RETRY_EXC_ERR);
        assert_done(cq, 2, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(pairs[i]->qp[i]->state, IBV_QPS_ERR);
        pair_close(pairs[i]);
    }
    assert_true(time(NULL) - begin >= 2);
}

static void end_other(struct pair *pair, unsigned way)
{
    struct ibv_qp_attr attr = {.qp_state = way ? IBV_QPS_ERR : IBV_QPS_RESET};
    if (way == 2)
        assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    else
        assert_int_equal(ibv_modify_qp(pair->qp[1], &attr, IBV_QP_STATE), 0);
    if (way == 2)
        pair->qp[1] = NULL;
}

/* What the other side has taken is done, in whatever way it ends; what it has not fails, be it a
 * Send that waits there for a receive, a Write behind that, or what comes when it is gone. */
static void rc__other_side_ends__only_what_it_took_is_done(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        struct pair *pair = pair_open(false);
        const bool taken = i / 3 & 1, late = i >= 6;
        pair_connect(pair, ALL_ACCESS);
        pair_receive(pair, 1, 7);
        pair_post(pair, 0, IBV_WR_SEND, 1, 8);
        assert_done(pair->recv_cq[1], 7, IBV_WC_SUCCESS);
        if (!late && taken) { /* told at the end, or before */
            end_other(pair, i % 3);
            assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
            pair_close(pair);
            continue;
        }
        assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
        memset(pair->memory[1] + 4096, 0xee, 8);
        if (late)
            end_other(pair, i % 3);
        pair_post(pair, 0, taken ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, 2, 8);
        pair_post(pair, 0, IBV_WR_RDMA_WRITE, 3, 8);
        if (!late) {
            assert_empty(pair->recv_cq[1]);
            end_other(pair, i % 3);
        }
        assert_done(pair->send_cq[0], 2, IBV_WC_RETRY_EXC_ERR);
        assert_done(pair->send_cq[0], 3, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(pair->qp[0]->state, IBV_QPS_ERR);
        assert_int_equal(pair->memory[1][4096], 0xee);
        pair_close(pair);
    }
}

/* A third queue pair that claims nothing of the two, and one that calls a number nobody has. */
static void rc__strangers(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false), *third = pair_open(false);
    pair_init(pair->qp[1], 0);
    pair_connect_to(pair, pair->qp[1], pair->qp[0]->qp_num);
    pair_init(third->qp[0], 0);
    pair_connect_to(third, third->qp[0], pair->qp[1]->qp_num);
    pair_init(third->qp[1], 0);
    pair_connect_to(third, third->qp[1], (pair->qp[1]->qp_num & ~0x3fffu) + 5000);
    pair_post(third, 0, IBV_WR_SEND, 1, 8);
    pair_post(third, 1, IBV_WR_SEND, 2, 8);
    pair_init(pair->qp[0], 0);
    pair_connect_to(pair, pair->qp[0], pair->qp[1]->qp_num);
    pair_receive(pair, 1, 3);
    pair_post(pair, 0, IBV_WR_SEND, 4, 8);
    assert_done(pair->recv_cq[1], 3, IBV_WC_SUCCESS);
    assert_empty(pair->recv_cq[1]);
    pair_close(third);
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__wrong_access),
        cmocka_unit_test(rc__rights_that_change),
        cmocka_unit_test(rc__wrong_local_key),
        cmocka_unit_test(rc__too_long),
        cmocka_unit_test(rc__waits_for_a_receive),
        cmocka_unit_test(rc__tries_so_often),
        cmocka_unit_test(rc__is_received_at_a_later_try),
        cmocka_unit_test(rc__other_side_is_destroyed),
        cmocka_unit_test(rc__other_side_ends__only_what_it_took_is_done),
        cmocka_unit_test(rc__other_side_is_never_ready),
        cmocka_unit_test(rc__error_flushes),
        cmocka_unit_test(rc__strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
