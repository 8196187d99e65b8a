/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong with RC queue pairs of the verbs front. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "test/verbs/rc_pair.h"

static bool has_async_event(const struct pair *pair, int wait_ms)
{
    struct pollfd readable = {.fd = pair->context->async_fd, .events = POLLIN};
    return poll(&readable, 1, wait_ms) == 1;
}

/* The next one, not acknowledged. */
static struct ibv_async_event take_event(struct pair *pair, struct ibv_qp *qp,
                                         enum ibv_event_type type)
{
    struct ibv_async_event event;
    assert_true(has_async_event(pair, 2000));
    assert_int_equal(ibv_get_async_event(pair->context, &event), 0);
    assert_int_equal(event.event_type, type);
    assert_ptr_equal(event.element.qp, qp);
    return event;
}

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
    assert_int_equal(pair->qp[0]->state, IBV_QPS_RTS); /* the program has not been told */
    assert_int_equal(state_of(pair->qp[0]), IBV_QPS_ERR);
    if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR) {
        assert_done(pair->recv_cq[1], 20,
                    status == IBV_WC_REM_INV_REQ_ERR ? IBV_WC_LOC_LEN_ERR : IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(state_of(pair->qp[1]), IBV_QPS_ERR);
        struct ibv_async_event event = take_event(
            pair, pair->qp[1],
            status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
        ibv_ack_async_event(&event);
    }
    assert_false(has_async_event(pair, 0));
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

/* A write without right there; queue pair 1 has failed then. */
static void write_without_right(struct pair *pair)
{
    pair_connect(pair, 0);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 8);
    assert_done(pair->send_cq[0], 1, IBV_WC_REM_ACCESS_ERR);
    assert_empty(pair->recv_cq[1]);
}

static void rc__event_before_that_of_the_srq(void **state)
{
    (void)state;
    struct pair *pair = pair_open(true);
    write_without_right(pair);
    struct ibv_async_event first = take_event(pair, pair->qp[1], IBV_EVENT_QP_ACCESS_ERR);
    struct ibv_async_event last = take_event(pair, pair->qp[1], IBV_EVENT_QP_LAST_WQE_REACHED);
    ibv_ack_async_event(&first);
    ibv_ack_async_event(&last);
    pair_close(pair);
}

static void rc__destroyed_with_its_event(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    write_without_right(pair);
    assert_true(has_async_event(pair, 2000));
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = NULL;
    assert_false(has_async_event(pair, 0));
    pair_close(pair);
}

static atomic_bool destroyed;

static void *destroy(void *qp)
{
    const int rc = ibv_destroy_qp(qp);
    destroyed = true;
    return rc ? qp : NULL;
}

static void rc__destroyed_amid_its_event(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pthread_t thread;
    void *failed;
    write_without_right(pair);
    struct ibv_async_event event = take_event(pair, pair->qp[1], IBV_EVENT_QP_ACCESS_ERR);
    assert_int_equal(pthread_create(&thread, NULL, destroy, pair->qp[1]), 0);
    poll(NULL, 0, 50);
    assert_false(destroyed);
    ibv_ack_async_event(&event);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    pair->qp[1] = NULL;
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

/* Which of both calls the other differs in who says first how often it tries again. The side that
 * has no receive goes on, until it sends. */
static void rc__tries_so_often(void **state)
{
    (void)state;
    static const struct {
        uint8_t retry, timer;
        uint64_t least_ns, most_ns;
    } cases[] = {
        {0, 0, 20000000, 300000000},
        {1, 28, 163840000, 1000000000}, /* 163.84 ms each */
        {3, 26, 245760000, 1000000000}, /* 81.92 ms */
    };
    for (unsigned i = 0; i < 6; i++) {
        struct pair *pair = pair_open(false);
        const unsigned from = i % 2, to = !from;
        pair->rnr_retry = cases[i / 2].retry;
        pair->min_rnr_timer = cases[i / 2].timer;
        pair->timeout = 10;
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
        assert_int_equal(state_of(pair->qp[from]), IBV_QPS_ERR);
        assert_int_equal(state_of(pair->qp[to]), IBV_QPS_RTS);
        pair_post(pair, to, IBV_WR_SEND, 4, 8);
        assert_done(pair->send_cq[to], 4, IBV_WC_RETRY_EXC_ERR);
        assert_false(has_async_event(pair, 0));
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

/* Not even with rnr_retry 0 does it fail before the receiver's process can have had its turn. */
static void rc__is_received_a_moment_later(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_wc wc;
    pair->rnr_retry = 0;
    pair_connect(pair, ALL_ACCESS);
    pair_receive(pair, 1, 1);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_done(pair->recv_cq[1], 1, IBV_WC_SUCCESS);
    pair_post(pair, 0, IBV_WR_SEND, 2, 8);
    assert_int_equal(ibv_poll_cq(pair->recv_cq[1], 1, &wc), 0);
    poll(NULL, 0, 2);
    pair_receive(pair, 1, 2);
    assert_done(pair->recv_cq[1], 2, IBV_WC_SUCCESS);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    assert_done(pair->send_cq[0], 2, IBV_WC_SUCCESS);
    pair_close(pair);
}

/* Side 1 took a Send before. */
static void connect_and_destroy_other(struct pair *pair)
{
    pair_connect(pair, ALL_ACCESS);
    pair_receive(pair, 1, 5);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = NULL;
}

/* Nobody is told before he sends. */
static void rc__other_side_is_destroyed(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair->timeout = 10;
    connect_and_destroy_other(pair);
    pair_receive(pair, 0, 6);
    assert_empty(pair->recv_cq[0]);
    assert_int_equal(state_of(pair->qp[0]), IBV_QPS_RTS);
    pair_post(pair, 0, IBV_WR_RDMA_READ, 2, 8);
    assert_done(pair->send_cq[0], 2, IBV_WC_RETRY_EXC_ERR);
    assert_done(pair->recv_cq[0], 6, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(state_of(pair->qp[0]), IBV_QPS_ERR);
    pair_close(pair);
}

/* With a timeout of 0 a request is tried for ever. */
static void rc__other_side_is_waited_for(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    connect_and_destroy_other(pair);
    pair_post(pair, 0, IBV_WR_SEND, 2, 8);
    assert_empty(pair->send_cq[0]);
    assert_int_equal(state_of(pair->qp[0]), IBV_QPS_RTS);
    pair_close(pair);
}

/* What is this side's own fault is told although the other side is gone. */
static void rc__other_side_is_gone__wrong_local_key(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_sge sge = {(uintptr_t)pair->memory[0], 8, 0};
    struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_send_wr *bad;
    connect_and_destroy_other(pair);
    assert_empty(pair->send_cq[0]);
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_done(pair->send_cq[0], 2, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(state_of(pair->qp[0]), IBV_QPS_ERR);
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

static int post_flushed_send(struct ibv_qp *qp, uint64_t id)
{
    struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_SEND}, *bad;
    return ibv_post_send(qp, &wr, &bad);
}

static int post_flushed_recv(struct ibv_qp *qp, uint64_t id)
{
    struct ibv_recv_wr wr = {.wr_id = id}, *bad;
    return ibv_post_recv(qp, &wr, &bad);
}

/* Each flushed request has its place in the queue until its completion is polled. */
static void rc__error_has_a_bound(void **state)
{
    (void)state;
    static int (*const post[])(struct ibv_qp *, uint64_t) = {post_flushed_send, post_flushed_recv};
    struct pair *pair = pair_open(false);
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp *qp = pair->qp[0];
    pair_connect(pair, 0);
    pair_receive(pair, 0, 0);
    assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
    assert_int_equal(post_flushed_send(qp, 0), 0);
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_cq *cq = i ? pair->recv_cq[0] : pair->send_cq[0];
        for (uint64_t id = 1; id < ROOM; id++)
            assert_int_equal(post[i](qp, id), 0);
        assert_int_equal(post[i](qp, ROOM), ENOMEM);
        assert_done(cq, 0, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(post[i](qp, ROOM), 0);
        assert_int_equal(post[i](qp, ROOM + 1), ENOMEM);
        for (uint64_t id = 1; id <= ROOM; id++)
            assert_done(cq, id, IBV_WC_WR_FLUSH_ERR);
    }
    pair_close(pair);
}

static void rc__no_receives_beside_an_srq(void **state)
{
    (void)state;
    struct pair *pair = pair_open(true);
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(post_flushed_recv(pair->qp[1], 1), EINVAL);
    pair_connect(pair, 0);
    assert_int_equal(post_flushed_recv(pair->qp[1], 1), EINVAL);
    assert_int_equal(ibv_modify_qp(pair->qp[1], &error, IBV_QP_STATE), 0);
    assert_int_equal(post_flushed_recv(pair->qp[1], 1), EINVAL);
    assert_empty(pair->recv_cq[1]);
    pair_close(pair);
}

static void rc__misaligned_atomic(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_sge sge = {(uintptr_t)pair->memory[0], 8, pair->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 2,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.atomic = {.remote_addr = (uintptr_t)pair->memory[1] + 4,
                                           .rkey = pair->mr->rkey}},
                       *bad;
    pair_connect(pair, ALL_ACCESS);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 8);
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    assert_done(pair->send_cq[0], 2, IBV_WC_REM_INV_REQ_ERR);
    assert_int_equal(state_of(pair->qp[0]), IBV_QPS_ERR);
    pair_close(pair);
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
        cmocka_unit_test(rc__event_before_that_of_the_srq),
        cmocka_unit_test(rc__destroyed_with_its_event),
        cmocka_unit_test(rc__destroyed_amid_its_event),
        cmocka_unit_test(rc__wrong_local_key),
        cmocka_unit_test(rc__too_long),
        cmocka_unit_test(rc__waits_for_a_receive),
        cmocka_unit_test(rc__tries_so_often),
        cmocka_unit_test(rc__is_received_at_a_later_try),
        cmocka_unit_test(rc__is_received_a_moment_later),
        cmocka_unit_test(rc__other_side_is_destroyed),
        cmocka_unit_test(rc__other_side_is_waited_for),
        cmocka_unit_test(rc__other_side_is_gone__wrong_local_key),
        cmocka_unit_test(rc__error_flushes),
        cmocka_unit_test(rc__error_has_a_bound),
        cmocka_unit_test(rc__no_receives_beside_an_srq),
        cmocka_unit_test(rc__misaligned_atomic),
        cmocka_unit_test(rc__strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
