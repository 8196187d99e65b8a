/* SPDX-License-Identifier: BSD-3-Clause */
/* RC queue pairs and SRQs of the verbs front, as good programs use them. */
#include "test/verbs/rc_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void rc__each_operation(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    uint64_t *word = (uint64_t *)(void *)(pair->memory[1] + 4096);
    struct ibv_wc wc;
    memset(pair->memory[0], 1, 4096);
    pair_receive(pair, 1, 10);
    pair_post(pair, 0, IBV_WR_SEND_WITH_IMM, 1, 100);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    wc = take(pair->recv_cq[1]);
    assert_true(wc.wr_id == 10 && wc.byte_len == 100 && wc.qp_num == pair->qp[1]->qp_num);
    assert_true(wc.wc_flags == IBV_WC_WITH_IMM && ntohl(wc.imm_data) == 0x01020304);
    assert_memory_equal(pair->memory[1] + 8192, pair->memory[0], 100);

    pair_receive(pair, 1, 11);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 2, 3000);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 2000);
    assert_done(pair->send_cq[0], 2, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory[1] + 4096, pair->memory[0], 3000);
    assert_done(pair->send_cq[0], 3, IBV_WC_SUCCESS);
    wc = take(pair->recv_cq[1]);
    assert_true(wc.wr_id == 11 && wc.byte_len == 2000);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);

    memset(pair->memory[1] + 4096, 9, 4096);
    pair_post(pair, 0, IBV_WR_RDMA_READ, 4, 4096);
    assert_done(pair->send_cq[0], 4, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory[0], pair->memory[1] + 4096, 4096);

    *word = 5;
    pair_post(pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 8);
    wc = take(pair->send_cq[0]);
    assert_true(wc.wr_id == 5 && wc.opcode == IBV_WC_FETCH_ADD && *word == 10);
    pair_post(pair, 0, IBV_WR_ATOMIC_CMP_AND_SWP, 6, 8);
    assert_done(pair->send_cq[0], 6, IBV_WC_SUCCESS);
    assert_int_equal(*word, 10); /* not 5 */
    *word = 5;
    pair_post(pair, 0, IBV_WR_ATOMIC_CMP_AND_SWP, 7, 8);
    assert_done(pair->send_cq[0], 7, IBV_WC_SUCCESS);
    assert_int_equal(*word, 77);
    assert_int_equal(*(uint64_t *)(void *)pair->memory[0], 5);
    pair_close(pair);
}

static void rc__completions_in_order(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    for (unsigned i = 0; i < 4; i++)
        pair_receive(pair, 1, i);
    for (uint64_t i = 0; i < 12; i++)
        pair_post(pair, 0,
                  i % 3 == 0   ? IBV_WR_RDMA_READ
                  : i % 3 == 1 ? IBV_WR_SEND
                               : IBV_WR_RDMA_WRITE,
                  i, 4096);
    for (uint64_t i = 0; i < 12; i++)
        assert_done(pair->send_cq[0], i, IBV_WC_SUCCESS);
    for (uint64_t i = 0; i < 4; i++)
        assert_done(pair->recv_cq[1], i, IBV_WC_SUCCESS);
    pair_close(pair);
}

/* Either side may be ready first, post, and have a full queue. */
static void rc__one_side_is_late(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct pair *pair = pair_open(false);
        struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
        pair_init(pair->qp[!late], ALL_ACCESS);
        pair_connect_to(pair, pair->qp[!late], pair->qp[late]->qp_num);
        for (uint64_t i = 0; i < ROOM; i++)
            pair_post(pair, !late, IBV_WR_SEND, i, 4096);
        assert_int_equal(ibv_post_send(pair->qp[!late], &wr, &bad), ENOMEM);
        assert_empty(pair->send_cq[!late]);
        pair_init(pair->qp[late], ALL_ACCESS);
        for (uint64_t i = 0; i < ROOM; i++)
            pair_receive(pair, late, i);
        assert_empty(pair->send_cq[!late]);
        pair_connect_to(pair, pair->qp[late], pair->qp[!late]->qp_num);
        for (uint64_t i = 0; i < ROOM; i++) {
            assert_done(pair->send_cq[!late], i, IBV_WC_SUCCESS);
            assert_done(pair->recv_cq[late], i, IBV_WC_SUCCESS);
        }
        pair_close(pair);
    }
}

/* A completion has its place in the send queue until it is polled. */
static void rc__full_until_polled(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    pair_connect(pair, ALL_ACCESS);
    for (uint64_t i = 0; i < ROOM; i++) {
        pair_receive(pair, 1, i);
        pair_post(pair, 0, IBV_WR_SEND, i, 8);
    }
    for (uint64_t i = 0; i < ROOM; i++)
        assert_done(pair->recv_cq[1], i, IBV_WC_SUCCESS);
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), ENOMEM);
    assert_done(pair->send_cq[0], 0, IBV_WC_SUCCESS);
    pair_receive(pair, 1, ROOM);
    pair_post(pair, 0, IBV_WR_SEND, ROOM, 8);
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), ENOMEM);
    for (uint64_t i = 1; i <= ROOM; i++)
        assert_done(pair->send_cq[0], i, IBV_WC_SUCCESS);
    pair_close(pair);
}

static void rc__with_itself(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair_init(pair->qp[0], ALL_ACCESS);
    pair_receive(pair, 0, 3);
    pair_connect_to(pair, pair->qp[0], pair->qp[0]->qp_num);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    assert_done(pair->recv_cq[0], 3, IBV_WC_SUCCESS);
    pair_close(pair);
}

static void rc__many_elements_and_inline(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_sge out[SGES + 1], in[SGES];
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = out, .num_sge = SGES + 1}, *bad;
    struct ibv_recv_wr recv = {.sg_list = in, .num_sge = SGES}, *bad_recv;
    pair_connect(pair, 0);
    for (unsigned i = 0; i < 4096; i++)
        pair->memory[0][i] = (uint8_t)(i * 7);
    for (unsigned i = 0; i < SGES; i++) {
        out[i] = (struct ibv_sge){(uintptr_t)pair->memory[0] + 100 * i, 100, pair->mr->lkey};
        in[SGES - 1 - i] =
            (struct ibv_sge){(uintptr_t)pair->memory[1] + 200 * i, 200, pair->mr->lkey};
    }
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
    wr.num_sge = SGES;
    assert_int_equal(ibv_post_recv(pair->qp[1], &recv, &bad_recv), 0);
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_int_equal(take(pair->recv_cq[1]).byte_len, 100 * SGES);
    assert_memory_equal(pair->memory[1] + 200 * (SGES - 1), pair->memory[0], 200);

    wr.num_sge = 2;
    out[0] = (struct ibv_sge){(uintptr_t)pair->memory[0], 30, 0};
    out[1] = (struct ibv_sge){(uintptr_t)pair->memory[0] + 1000, 34, 0};
    wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    pair_receive(pair, 1, 0);
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    memset(pair->memory[0], 0, 30);
    assert_int_equal(take(pair->recv_cq[1]).byte_len, 64);
    assert_int_equal(pair->memory[1][8192 + 29], (uint8_t)(29 * 7));
    assert_memory_equal(pair->memory[1] + 8192 + 30, pair->memory[0] + 1000, 34);
    out[1].length++;
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
    pair_close(pair);
}

static void rc__again_after_reset(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    for (unsigned round = 0; round < 3; round++) {
        pair_connect(pair, ALL_ACCESS);
        pair_receive(pair, round % 2, 1);
        pair_receive(pair, 1, 2); /* stays */
        pair_post(pair, !(round % 2), IBV_WR_SEND, 3, 10);
        assert_done(pair->recv_cq[round % 2], 1, IBV_WC_SUCCESS);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(ibv_modify_qp(pair->qp[i], &reset, IBV_QP_STATE), 0);
        assert_empty(pair->recv_cq[1]);
    }
    pair_close(pair);
}

/* ---- shared receives ---- */

static struct ibv_async_event next_event(struct ibv_context *context)
{
    struct ibv_async_event event;
    assert_int_equal(ibv_get_async_event(context, &event), 0);
    ibv_ack_async_event(&event);
    return event;
}

static void srq__limit_and_last(void **state)
{
    (void)state;
    struct pair *pair = pair_open(true);
    struct ibv_srq_attr attr = {.srq_limit = 2};
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct ibv_recv_wr wr = {0}, *bad;
    pair_connect(pair, ALL_ACCESS);
    for (uint64_t i = 0; i < 4; i++)
        pair_receive(pair, 1, i);
    assert_int_equal(ibv_post_recv(pair->qp[1], &wr, &bad), EINVAL);
    assert_int_equal(ibv_modify_srq(pair->srq, &attr, IBV_SRQ_LIMIT), 0);
    assert_int_equal(ibv_destroy_srq(pair->srq), EBUSY);
    for (uint64_t i = 0; i < 3; i++) {
        pair_post(pair, 0, IBV_WR_SEND, i, 8);
        assert_done(pair->recv_cq[1], i, IBV_WC_SUCCESS);
    }
    struct ibv_async_event event = next_event(pair->context);
    assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(event.element.srq, pair->srq);
    assert_int_equal(ibv_query_srq(pair->srq, &attr), 0);
    assert_true(attr.max_wr == ROOM && !attr.srq_limit);
    attr.srq_limit = 2; /* fewer are posted already */
    assert_int_equal(ibv_modify_srq(pair->srq, &attr, IBV_SRQ_LIMIT), 0);
    assert_int_equal(next_event(pair->context).event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_int_equal(ibv_modify_qp(pair->qp[1], &error, IBV_QP_STATE), 0);
    event = next_event(pair->context);
    assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    assert_ptr_equal(event.element.qp, pair->qp[1]);
    assert_empty(pair->recv_cq[1]); /* what is left is the SRQ's */
    pair_close(pair);
}

/* Either side is ready anew while the other one is in its old connection, or in error. */
static void rc__connects_anew_though_one_is_late(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, error = {.qp_state = IBV_QPS_ERR};
    pair_connect(pair, ALL_ACCESS);
    pair_receive(pair, 1, 9);
    pair_post(pair, 0, IBV_WR_SEND, 9, 8);
    assert_done(pair->send_cq[0], 9, IBV_WC_SUCCESS);
    for (unsigned round = 0; round < 8; round++) {
        const unsigned late = round & 1;
        if (round & 2)
            assert_int_equal(ibv_modify_qp(pair->qp[late], &error, IBV_QP_STATE), 0);
        assert_int_equal(ibv_modify_qp(pair->qp[!late], &reset, IBV_QP_STATE), 0);
        pair_init(pair->qp[!late], ALL_ACCESS);
        pair_connect_to(pair, pair->qp[!late], pair->qp[late]->qp_num);
        assert_empty(pair->recv_cq[0]);
        if (round & 4)
            assert_int_equal(ibv_modify_qp(pair->qp[late], &error, IBV_QP_STATE), 0);
        assert_int_equal(ibv_modify_qp(pair->qp[late], &reset, IBV_QP_STATE), 0);
        pair_init(pair->qp[late], ALL_ACCESS);
        pair_receive(pair, late, round);
        pair_connect_to(pair, pair->qp[late], pair->qp[!late]->qp_num);
        pair_post(pair, !late, IBV_WR_SEND, round, 8);
        assert_done(pair->send_cq[!late], round, IBV_WC_SUCCESS);
        assert_done(pair->recv_cq[late], round, IBV_WC_SUCCESS);
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
        assert_int_equal(state_of(pairs[i]->qp[i]), IBV_QPS_ERR);
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

/* What the other side has taken is done, in whatever way it ends; what it has not fails when it has
 * been silent for long enough, be it a Send that waits there for a receive, a Write behind that, or
 * what comes when it is gone. */
static void rc__other_side_ends__only_what_it_took_is_done(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        struct pair *pair = pair_open(false);
        const bool taken = i / 3 & 1, late = i >= 6;
        pair->timeout = 13; /* 33.55 ms */
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
        const uint64_t begun_ns = now_ns();
        pair_post(pair, 0, taken ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, 2, 8);
        pair_post(pair, 0, IBV_WR_RDMA_WRITE, 3, 8);
        if (!late) {
            assert_empty(pair->recv_cq[1]);
            end_other(pair, i % 3);
        }
        assert_done(pair->send_cq[0], 2, IBV_WC_RETRY_EXC_ERR);
        assert_in_range(now_ns() - begun_ns, 33000000, 2000000000);
        assert_done(pair->send_cq[0], 3, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(state_of(pair->qp[0]), IBV_QPS_ERR);
        assert_int_equal(pair->memory[1][4096], 0xee);
        pair_close(pair);
    }
}

static unsigned listening(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int listens = 0;
        socklen_t len = sizeof listens;
        count += !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && listens;
    }
    return count;
}

/* A process without queue pairs of RC can not be called, and does not ask whether it is. */
static void rc__is_called_while_there_is_one(void **state)
{
    (void)state;
    const unsigned before = listening();
    struct pair *pair = pair_open(false);
    for (unsigned round = 0; round < 3; round++) {
        pair_connect(pair, ALL_ACCESS);
        pair_receive(pair, 1, round);
        pair_post(pair, 0, IBV_WR_SEND, round, 8);
        assert_done(pair->recv_cq[1], round, IBV_WC_SUCCESS);
        assert_int_equal(listening(), before + 1);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(ibv_destroy_qp(pair->qp[i]), 0);
        assert_int_equal(listening(), before);
        pair_open_qps(pair);
    }
    pair_close(pair);
}

/* A context takes a port that is free for calls, too. */
static void rc__another_program_listens(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    const uint32_t port = 20480 + (pair->qp[0]->qp_num >> 14);
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    pair_close(pair);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    pair_receive(pair, 1, 1);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_done(pair->recv_cq[1], 1, IBV_WC_SUCCESS);
    pair_close(pair);
    close(fd);
}

/* A queue pair that has called, and is gone before the other knows whom it waits for. */
static void rc__is_called_by_the_next_one(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_qp *gone = pair->qp[0], *next = pair->qp[1];
    pair_open_qps(pair); /* of higher numbers: these are called */
    pair_init(pair->qp[1], 0);
    pair_init(gone, 0);
    pair_connect_to(pair, gone, pair->qp[1]->qp_num);
    assert_empty(pair->recv_cq[1]);
    assert_int_equal(ibv_destroy_qp(gone), 0);
    assert_int_equal(ibv_destroy_qp(pair->qp[0]), 0);
    pair->qp[0] = next;
    pair_init(next, 0);
    pair_connect_to(pair, next, pair->qp[1]->qp_num);
    assert_empty(pair->recv_cq[1]);
    pair_connect_to(pair, pair->qp[1], next->qp_num);
    pair_receive(pair, 1, 2);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_done(pair->recv_cq[1], 2, IBV_WC_SUCCESS);
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__each_operation),
        cmocka_unit_test(rc__completions_in_order),
        cmocka_unit_test(rc__one_side_is_late),
        cmocka_unit_test(rc__full_until_polled),
        cmocka_unit_test(rc__with_itself),
        cmocka_unit_test(rc__many_elements_and_inline),
        cmocka_unit_test(rc__again_after_reset),
        cmocka_unit_test(rc__connects_anew_though_one_is_late),
        cmocka_unit_test(rc__other_side_is_never_ready),
        cmocka_unit_test(rc__other_side_ends__only_what_it_took_is_done),
        cmocka_unit_test(rc__is_called_while_there_is_one),
        cmocka_unit_test(rc__is_called_by_the_next_one),
        cmocka_unit_test(rc__another_program_listens),
        cmocka_unit_test(srq__limit_and_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
