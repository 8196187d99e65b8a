/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: RD, between two contexts and within one. */
#include <errno.h>
#include <string.h>

#include "test/verbs/sides.h"

static void rd__sends_writes_reads_atomics(void **state)
{
    (void)state;
    open_both(true);
    assert_int_equal(receive(7, 1000, 40 + 3000), 0);
    assert_int_equal(post(IBV_WR_SEND, 1, 3000, 0), 0);
    assert_int_equal(done(1, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
    const struct ibv_wc wc = take(sides[1]->recv_cq);
    assert_true(wc.wr_id == 7 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 40 + 3000);
    assert_int_equal(wc.src_qp, sides[0]->qp->qp_num);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH);
    assert_memory_equal(sides[1]->memory + 1040, sides[0]->memory, 3000);
    struct ibv_wc from = wc;
    struct ibv_ah *back = ibv_create_ah_from_wc(
        sides[1]->pd, &from, (struct ibv_grh *)(void *)(sides[1]->memory + 1000), 1);
    assert_non_null(back);
    assert_int_equal(ibv_destroy_ah(back), 0);
    assert_int_equal(post(IBV_WR_RDMA_WRITE, 2, LARGE, 0), 0);
    assert_int_equal(done(2, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
    assert_memory_equal(sides[1]->memory, sides[0]->memory, LARGE);
    memset(sides[1]->memory, 0x11, LARGE);
    assert_int_equal(post(IBV_WR_RDMA_READ, 3, LARGE, 0), 0);
    assert_int_equal(done(3, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_READ);
    assert_memory_equal(sides[1]->memory, sides[0]->memory, LARGE);
    uint64_t value = 37, before;
    memcpy(sides[1]->memory, &value, sizeof value);
    assert_int_equal(post(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 8, 0), 0);
    assert_int_equal(done(4, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
    memcpy(&before, sides[0]->memory, sizeof before);
    memcpy(&value, sides[1]->memory, sizeof value);
    assert_true(before == 37 && value == 42);
    close_both();
}

/* What comes waits at its sender, and in part here; nothing is lost, nothing comes twice. */
static void rd__without_receives__sends_wait(void **state)
{
    (void)state;
    bool seen[ROOM] = {false};
    struct ibv_wc wc;
    open_both(true);
    for (unsigned i = 0; i < ROOM; i++) {
        sides[0]->memory[0] = (uint8_t)i; /* it is copied at once */
        struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
        ibv_wr_start(ex);
        ex->wr_id = i;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(ex);
        ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num, QKEY);
        ibv_wr_set_inline_data(ex, sides[0]->memory, 1);
        assert_int_equal(ibv_wr_complete(ex), 0);
    }
    assert_int_equal(post(IBV_WR_SEND, 99, 10, 0), ENOMEM);
    assert_empty(sides[1]->recv_cq);
    for (unsigned i = 0; i < ROOM; i++) {
        assert_int_equal(receive(i, 64 * i, 41), 0);
        wc = take(sides[1]->recv_cq);
        assert_true(wc.wr_id == i && wc.status == IBV_WC_SUCCESS && wc.byte_len == 41);
        const uint8_t id = sides[1]->memory[64 * i + 40];
        assert_true(id < ROOM && !seen[id]);
        seen[id] = true;
    }
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_SUCCESS);
    assert_empty(sides[1]->recv_cq);
    close_both();
}

static void rd__bad_requests__end_alone(void **state)
{
    (void)state;
    open_both(true);
    const uint32_t wrong = sides[1]->mr->rkey + 1;
    assert_int_equal(post_keyed(IBV_WR_RDMA_READ, 1, 100, 0, wrong, 0), 0);
    (void)done(1, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(post_keyed(IBV_WR_RDMA_WRITE, 2, 100, 0, wrong, IBV_SEND_SIGNALED), 0);
    (void)done(2, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(post(IBV_WR_SEND, 3, DIWARP_VERBS_RD_SEND_BYTES + 1, 0), 0);
    (void)done(3, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(receive(9, 0, 41), 0);
    assert_int_equal(post(IBV_WR_SEND, 4, 2, 0), 0);
    (void)done(4, IBV_WC_SUCCESS);
    assert_int_equal(take(sides[1]->recv_cq).status, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(receive(10, 0, 42), 0);
    assert_int_equal(post(IBV_WR_SEND, 5, 2, 0), 0);
    (void)done(5, IBV_WC_SUCCESS);
    assert_int_equal(take(sides[1]->recv_cq).status, IBV_WC_SUCCESS);
    close_both();
}

static void rd__in_error__all_is_flushed(void **state)
{
    (void)state;
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    open_both(true);
    assert_int_equal(post(IBV_WR_SEND, 1, 10, 0), 0); /* waits for a receive */
    struct ibv_qp *target = sides[1]->qp;
    assert_int_equal(ibv_modify_qp(sides[0]->qp, &to, IBV_QP_STATE), 0);
    (void)done(1, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(post(IBV_WR_SEND, 2, 10, 0), 0);
    (void)done(2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(receive(5, 0, 100), 0);
    assert_int_equal(ibv_modify_qp(target, &to, IBV_QP_STATE), 0);
    const struct ibv_wc wc = take(sides[1]->recv_cq);
    /* Unless what waited came before. */
    assert_true(wc.wr_id == 5 && (wc.status == IBV_WC_WR_FLUSH_ERR || wc.status == IBV_WC_SUCCESS));
    to.qp_state = IBV_QPS_RESET;
    assert_int_equal(ibv_modify_qp(target, &to, IBV_QP_STATE), 0);
    assert_empty(sides[1]->recv_cq);
    close_both();
}

/* A queue pair's sender may be itself, or another of its own process. */
static void rd__within_a_process(void **state)
{
    (void)state;
    open_both(true);
    struct side *other = sides[1];
    sides[1] = sides[0];
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(receive(i, 4096, 100), 0);
        assert_int_equal(post(IBV_WR_SEND, i, 60, 0), 0);
        assert_int_equal(take(sides[0]->recv_cq).status, IBV_WC_SUCCESS);
        const struct ibv_wc wc = take(sides[0]->send_cq);
        assert_true(wc.wr_id == i && wc.status == IBV_WC_SUCCESS);
        assert_memory_equal(sides[0]->memory + 4136, sides[0]->memory, 60);
    }
    sides[1] = other;
    close_both();
}

/* `count` elements of `bytes` each, every other 2 x bytes of side 0's memory from `at` on. */
static int post_pieces(enum ibv_wr_opcode opcode, uint64_t id, unsigned count, uint32_t bytes,
                       uint32_t at)
{
    struct ibv_sge sges[32];
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    for (unsigned i = 0; i < count; i++)
        sges[i] =
            (struct ibv_sge){address_in(sides[0], at + 2 * bytes * i), bytes, sides[0]->mr->lkey};
    ibv_wr_start(ex);
    ex->wr_id = id;
    ex->wr_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_RDMA_WRITE)
        ibv_wr_rdma_write(ex, sides[1]->mr->rkey, address_in(sides[1], 0));
    else if (opcode == IBV_WR_RDMA_READ)
        ibv_wr_rdma_read(ex, sides[1]->mr->rkey, address_in(sides[1], 0));
    else
        ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num, QKEY);
    ibv_wr_set_sge_list(ex, count, sges);
    return ibv_wr_complete(ex);
}

static void assert_pieces(const uint8_t *whole, unsigned count, uint32_t bytes, uint32_t at)
{
    for (unsigned i = 0; i < count; i++)
        assert_memory_equal(sides[0]->memory + at + 2 * bytes * i, whole + bytes * i, bytes);
}

static int shift_all_of_32(void **state)
{
    sge_max = 32;
    return shift_all(state);
}

static int of_32(void **state)
{
    (void)state;
    sge_max = 32;
    return 0;
}

static int of_2(void **state)
{
    sge_max = 2;
    return shift_none(state);
}

static void rd__requests_of_32_elements(void **state)
{
    (void)state;
    open_both(true);
    for (unsigned count = 1; count <= 32; count++) {
        assert_int_equal(receive(count, 50000, 40 + 1000 * count), 0);
        assert_int_equal(post_pieces(IBV_WR_SEND, 1, count, 1000, 4), 0);
        (void)done(1, IBV_WC_SUCCESS);
        assert_int_equal(take(sides[1]->recv_cq).byte_len, 40 + 1000 * count);
        assert_pieces(sides[1]->memory + 50040, count, 1000, 4);
        assert_int_equal(post_pieces(IBV_WR_RDMA_WRITE, 2, count, 3000, 8), 0);
        assert_int_equal(done(2, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
        assert_pieces(sides[1]->memory, count, 3000, 8);
        memset(sides[1]->memory, (int)count, LARGE);
        assert_int_equal(post_pieces(IBV_WR_RDMA_READ, 3, count, 3000, 8), 0);
        assert_int_equal(done(3, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_READ);
        assert_pieces(sides[1]->memory, count, 3000, 8);
        for (uint32_t bytes = 0; bytes <= 8; bytes += 4) {
            assert_int_equal(post_pieces(IBV_WR_RDMA_WRITE, 4, count, bytes, 12), 0);
            assert_int_equal(done(4, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
            assert_pieces(sides[1]->memory, count, bytes, 12);
            assert_int_equal(post_pieces(IBV_WR_RDMA_READ, 5, count, bytes, 4000), 0);
            (void)done(5, IBV_WC_SUCCESS);
            assert_pieces(sides[1]->memory, count, bytes, 4000);
        }
    }
    close_both();
}

/* Of elements that are not registered, when it is posted or when its answer comes. */
static void rd__requests_of_32_elements__keys_are_checked(void **state)
{
    (void)state;
    open_both(true);
    assert_int_equal(post_pieces(IBV_WR_RDMA_WRITE, 1, 32, 3000, LARGE - 3000 - 62 * 3000), 0);
    (void)done(1, IBV_WC_SUCCESS);
    assert_int_equal(post_pieces(IBV_WR_RDMA_WRITE, 2, 32, 3000, LARGE - 2999 - 62 * 3000), 0);
    (void)done(2, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(post_pieces(IBV_WR_RDMA_READ, 3, 32, 3000, LARGE - 2999 - 62 * 3000), 0);
    (void)done(3, IBV_WC_LOC_PROT_ERR);
    /* The helper thread may have the answer before the region goes. */
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    for (unsigned i = 0; status != IBV_WC_LOC_PROT_ERR; i++) {
        assert_true(i < 100);
        assert_int_equal(post_pieces(IBV_WR_RDMA_READ, 4, 32, 3000, 0), 0);
        assert_int_equal(ibv_dereg_mr(sides[0]->mr), 0);
        status = take(sides[0]->send_cq).status;
        assert_true(status == IBV_WC_SUCCESS || status == IBV_WC_LOC_PROT_ERR);
        sides[0]->mr = ibv_reg_mr_iova(sides[0]->pd, sides[0]->memory, sizeof sides[0]->memory,
                                       address_in(sides[0], 0), ALL_ACCESS);
        assert_non_null(sides[0]->mr);
    }
    close_both();
}

/* What has not ended goes with the queue pair: flushed, forgotten, or destroyed. Elements of no
 * bytes need no key. */
static void rd__requests_of_32_elements__given_up(void **state)
{
    (void)state;
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    struct ibv_sge sges[6] = {{0}};
    open_both(true);
    sges[3] = (struct ibv_sge){address_in(sides[0], 0), 100, sides[0]->mr->lkey};
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num, QKEY);
    ibv_wr_set_sge_list(ex, 6, sges);
    assert_int_equal(ibv_wr_complete(ex), 0);
    for (unsigned i = 2; i < ROOM; i++) /* they wait for receives */
        assert_int_equal(post_pieces(IBV_WR_SEND, i, 32, 100, 0), 0);
    assert_int_equal(ibv_modify_qp(sides[0]->qp, &to, IBV_QP_STATE), 0);
    for (unsigned i = 1; i < ROOM; i++) {
        const struct ibv_wc wc = take(sides[0]->send_cq);
        assert_true(wc.status == IBV_WC_WR_FLUSH_ERR || wc.status == IBV_WC_SUCCESS);
    }
    close_both();
    open_both(true);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(post_pieces(IBV_WR_SEND, i, 32, 100, 0), 0);
    to.qp_state = IBV_QPS_RESET;
    assert_int_equal(ibv_modify_qp(sides[0]->qp, &to, IBV_QP_STATE), 0);
    assert_empty(sides[0]->send_cq);
    close_both();
    open_both(true);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(post_pieces(IBV_WR_RDMA_READ, i, 32, 100, 0), 0);
    close_both();
}

static void rd__creation_is_checked(void **state)
{
    (void)state;
    FOUND(create_rd_qp);
    open_both(true);
    struct ibv_qp_init_attr_ex attr = attr_for(sides[0]);
    attr.cap.max_send_sge = 33;
    assert_null(create_rd_qp(sides[0]->context, &attr));
    assert_int_equal(errno, EINVAL);
    attr = attr_for(sides[0]);
    attr.send_ops_flags |= IBV_QP_EX_WITH_BIND_MW;
    assert_null(create_rd_qp(sides[0]->context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr = attr_for(sides[0]);
    attr.qp_type = IBV_QPT_DRIVER;
    assert_null(ibv_create_qp_ex(sides[0]->context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__sends_writes_reads_atomics),
        cmocka_unit_test(rd__without_receives__sends_wait),
        cmocka_unit_test_setup_teardown(rd__sends_writes_reads_atomics, shift_all, shift_none),
        cmocka_unit_test_setup_teardown(rd__without_receives__sends_wait, shift_all, shift_none),
        cmocka_unit_test(rd__bad_requests__end_alone),
        cmocka_unit_test(rd__in_error__all_is_flushed),
        cmocka_unit_test(rd__within_a_process),
        cmocka_unit_test_setup_teardown(rd__requests_of_32_elements, of_32, of_2),
        cmocka_unit_test_setup_teardown(rd__requests_of_32_elements, shift_all_of_32, of_2),
        cmocka_unit_test_setup_teardown(rd__requests_of_32_elements__keys_are_checked, of_32, of_2),
        cmocka_unit_test_setup_teardown(rd__requests_of_32_elements__given_up, of_32, of_2),
        cmocka_unit_test(rd__creation_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
