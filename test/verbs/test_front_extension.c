/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: what diwarp_verbs.h has of UD, between two contexts. */
#include <errno.h>

#include "test/verbs/sides.h"

static void ud_write__record_is_handed_over(void **state)
{
    (void)state;
    FOUND(query_record);
    FOUND(record_ranges);
    FOUND(release_record);
    struct diwarp_verbs_record record;
    struct diwarp_verbs_range range;
    unsigned count;
    union ibv_gid gid;
    open_both(false);
    assert_int_equal(post(IBV_WR_RDMA_WRITE, 1, 5000, 8), 0);
    assert_int_equal(done(1, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
    const struct ibv_wc wc = take(sides[1]->recv_cq);
    assert_int_equal(wc.opcode, DIWARP_VERBS_WC_RECORD);
    assert_int_equal(wc.byte_len, 5000);
    assert_int_equal(wc.qp_num, sides[1]->qp->qp_num);
    assert_int_equal(query_record(sides[1]->qp, wc.wr_id, &record), 0);
    assert_int_equal(ibv_query_gid(sides[0]->context, 1, 0, &gid), 0);
    assert_memory_equal(&record.gid, &gid, sizeof gid);
    assert_int_equal(record.src_qp, sides[0]->qp->qp_num);
    assert_ptr_equal(record.addr, sides[1]->memory + 8);
    assert_true(record.length == 5000 && record.valid_bytes == 5000);
    assert_int_equal(record_ranges(sides[1]->qp, wc.wr_id, &range, 1, &count), 0);
    assert_true(count == 1 && range.start == 0 && range.end == 5000);
    assert_memory_equal(sides[1]->memory + 8, sides[0]->memory, 5000);
    assert_int_equal(query_record(sides[1]->qp, wc.wr_id + 1, &record), EINVAL);
    assert_int_equal(release_record(sides[1]->qp, wc.wr_id), 0);
    assert_int_equal(release_record(sides[1]->qp, wc.wr_id), EINVAL);
    assert_int_equal(query_record(sides[1]->qp, wc.wr_id, &record), EINVAL);
    /* One that is never released goes with its queue pair. */
    assert_int_equal(post(IBV_WR_RDMA_WRITE, 2, 10, 0), 0);
    assert_int_equal(done(2, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
    assert_int_equal(take(sides[1]->recv_cq).opcode, DIWARP_VERBS_WC_RECORD);
    close_both();
}

/* A program that has not asked for records has none. */
static void ud_write__to_others__is_not_told(void **state)
{
    (void)state;
    open_both(false);
    struct ibv_qp *asked = sides[1]->qp;
    struct ibv_qp_init_attr_ex attr = attr_for(sides[1]);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    sides[1]->qp = ibv_create_qp_ex(sides[1]->context, &attr);
    assert_non_null(sides[1]->qp);
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .qkey = QKEY, .port_num = 1};
    assert_int_equal(ibv_modify_qp(sides[1]->qp, &to,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                     0);
    to.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(sides[1]->qp, &to, IBV_QP_STATE), 0);
    assert_int_equal(post(IBV_WR_RDMA_WRITE, 1, 100, 0), 0);
    (void)done(1, IBV_WC_SUCCESS);
    assert_empty(sides[1]->recv_cq);
    assert_memory_equal(sides[1]->memory, sides[0]->memory, 100);
    assert_int_equal(ibv_destroy_qp(asked), 0);
    close_both();
}

static void ud_read__whole_or_expired(void **state)
{
    (void)state;
    FOUND(query_read);
    FOUND(read_ranges);
    FOUND(set_read_time);
    struct diwarp_verbs_read read;
    unsigned count;
    open_both(false);
    assert_int_equal(set_read_time(sides[0]->qp, 20000000000ull), 0);
    assert_int_equal(post(IBV_WR_RDMA_READ, 1, 30000, 9), 0);
    const struct ibv_wc wc = done(1, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
    assert_int_equal(wc.byte_len, 30000);
    assert_memory_equal(sides[0]->memory, sides[1]->memory + 9, 30000);
    assert_int_equal(query_read(sides[0]->qp, 1, &read), ENOENT);
    assert_int_equal(set_read_time(sides[0]->qp, 30000000), 0);
    const uint32_t wrong = sides[1]->mr->rkey + 1;
    assert_int_equal(post_keyed(IBV_WR_RDMA_READ, 2, 100, 0, wrong, IBV_SEND_SIGNALED), 0);
    assert_int_equal(query_read(sides[0]->qp, 2, &read), 0);
    assert_true(read.active && read.length == 100);
    assert_int_equal(done(2, IBV_WC_RESP_TIMEOUT_ERR).byte_len, 0);
    assert_int_equal(query_read(sides[0]->qp, 2, &read), 0);
    assert_true(!read.active && !read.valid_bytes);
    assert_int_equal(read_ranges(sides[0]->qp, 2, NULL, 0, &count), 0);
    assert_int_equal(count, 0);
    /* The queue pair goes on; unsignaled ones say nothing but that they failed. */
    assert_int_equal(post_keyed(IBV_WR_RDMA_READ, 3, 100, 0, wrong, 0), 0);
    (void)done(3, IBV_WC_RESP_TIMEOUT_ERR);
    assert_int_equal(set_read_time(sides[0]->qp, 20000000000ull), 0);
    for (unsigned i = 0; i < 5 * ROOM; i++)
        while (post_keyed(IBV_WR_RDMA_READ, 4, 100, 0, sides[1]->mr->rkey, 0) == ENOMEM)
            assert_int_equal(ibv_poll_cq(sides[0]->send_cq, 0, NULL) |
                                 ibv_poll_cq(sides[1]->send_cq, 0, NULL),
                             0);
    while (query_read(sides[0]->qp, 4, &read) != ENOENT)
        assert_int_equal(
            ibv_poll_cq(sides[0]->send_cq, 0, NULL) | ibv_poll_cq(sides[1]->send_cq, 0, NULL), 0);
    assert_empty(sides[0]->send_cq);
    close_both();
}

/* test/verbs/run prohibits this address: what never left fails. */
static void ud_read__to_where_none_may_go(void **state)
{
    (void)state;
    struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1};
    open_both(false);
    struct ibv_ah *good = sides[0]->ah;
    attr.grh.dgid = gid_of((const uint8_t[]){127, 99, 0, 1});
    sides[0]->ah = ibv_create_ah(sides[0]->pd, &attr);
    assert_non_null(sides[0]->ah);
    for (unsigned i = 0; i < 2 * ROOM; i++) {
        const unsigned flags = i % 2 ? IBV_SEND_SIGNALED : 0;
        assert_int_equal(post_keyed(IBV_WR_RDMA_READ, 5, 100, 0, sides[1]->mr->rkey, flags), 0);
        (void)done(5, IBV_WC_RESP_TIMEOUT_ERR);
    }
    assert_int_equal(ibv_destroy_ah(sides[0]->ah), 0);
    sides[0]->ah = good;
    assert_int_equal(post(IBV_WR_RDMA_READ, 6, 100, 0), 0);
    (void)done(6, IBV_WC_SUCCESS);
    close_both();
}

static void ud_rdma__bad_requests(void **state)
{
    (void)state;
    FOUND(set_read_time);
    FOUND(query_read);
    struct diwarp_verbs_read read;
    open_both(false);
    struct ibv_sge sge = {(uintptr_t)sides[0]->memory, 10, sides[0]->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ,
                             .wr.rdma = {(uintptr_t)sides[1]->memory, sides[1]->mr->rkey}},
                       *bad;
    assert_int_equal(ibv_post_send(sides[0]->qp, &wr, &bad), EINVAL); /* to whom? */
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    ibv_wr_start(ex);
    ibv_wr_rdma_read(ex, sides[1]->mr->rkey, (uintptr_t)sides[1]->memory);
    ibv_wr_set_sge(ex, sides[0]->mr->lkey, (uintptr_t)sides[0]->memory, 10);
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    assert_int_equal(post(IBV_WR_RDMA_READ, 1, 0, 0), 0);
    (void)done(1, IBV_WC_LOC_LEN_ERR);
    /* One that waits is flushed once its time is over. */
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_RTS};
    assert_int_equal(ibv_modify_qp(sides[0]->qp, &to, IBV_QP_STATE), 0);
    assert_int_equal(set_read_time(sides[0]->qp, 100000000), 0);
    assert_int_equal(post_keyed(IBV_WR_RDMA_READ, 2, 10, 0, 1, IBV_SEND_SIGNALED), 0);
    to.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(sides[0]->qp, &to, IBV_QP_STATE), 0);
    (void)done(2, IBV_WC_WR_FLUSH_ERR);
    /* Of queue pairs that have no reads. */
    struct ibv_qp_init_attr_ex attr = attr_for(sides[0]);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    struct ibv_qp *plain = ibv_create_qp_ex(sides[0]->context, &attr);
    assert_non_null(plain);
    assert_int_equal(set_read_time(plain, 1), EINVAL);
    assert_int_equal(query_read(plain, 1, &read), EINVAL);
    assert_int_equal(ibv_destroy_qp(plain), 0);
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ud_write__record_is_handed_over),
        cmocka_unit_test(ud_write__to_others__is_not_told),
        cmocka_unit_test(ud_read__whole_or_expired),
        cmocka_unit_test(ud_read__to_where_none_may_go),
        cmocka_unit_test_setup_teardown(ud_write__record_is_handed_over, shift_all, shift_none),
        cmocka_unit_test_setup_teardown(ud_read__whole_or_expired, shift_all, shift_none),
        cmocka_unit_test(ud_rdma__bad_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
