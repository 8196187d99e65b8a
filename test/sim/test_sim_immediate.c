/* SPDX-License-Identifier: BSD-3-Clause */
/* Over RD: writes that the other side is told of, and Sends that take rights back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define BYTES 200000u

static struct fixture *open_two(void)
{
    struct fixture *f = fixture_new();
    fixture_open(f);
    return f;
}

static const struct diwarp_wc *find_received(const struct fixture *f, int opcode, unsigned nth)
{
    for (unsigned i = 0; i < f->wc_count; i++)
        if (f->wc_node[i] == 1 && (int)f->wcs[i].wc.opcode == opcode && !nth--)
            return &f->wcs[i];
    return NULL;
}

static void write_imm__target_is_told_once_all_is_placed(void **state)
{
    (void)state;
    const uint32_t lengths[] = {1, 100, 5000, BYTES};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct fixture *f = open_two();
        uint8_t *from = fixture_payload(1, BYTES), *to = fixture_payload(2, BYTES);
        struct diwarp_mr *mr = fixture_reg(f, 1, to, BYTES);
        const unsigned flags = i % 2 ? IBV_SEND_SOLICITED : 0;
        assert_int_equal(
            fixture_post(f, 0, 1, 7, IBV_WR_RDMA_WRITE_WITH_IMM, flags, from, lengths[i], mr), 0);
        fixture_run(f, SECOND);
        const struct diwarp_wc *told = find_received(f, IBV_WC_RECV_RDMA_WITH_IMM, 0);
        assert_non_null(told);
        assert_int_equal(told->wc.imm_data, 7);
        assert_int_equal(told->wc.byte_len, lengths[i]);
        assert_int_equal(told->wc.wc_flags,
                         IBV_WC_WITH_IMM | (flags ? (unsigned)DIWARP_WC_SOLICITED : 0));
        assert_int_equal(told->src.rank, 0);
        assert_true(sim_pattern_matches(1, 0, to, lengths[i]));
        fixture_assert_status(f, 0, 7, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
        assert_int_equal(fixture_find(f, 0, 7, IBV_WC_RDMA_WRITE)->wc.byte_len, lengths[i]);
        fixture_close(f);
        free(from);
        free(to);
    }
}

static void write_imm__of_no_bytes__is_told(void **state)
{
    (void)state;
    struct fixture *f = open_two();
    assert_int_equal(fixture_post(f, 0, 1, 9, IBV_WR_RDMA_WRITE_WITH_IMM, 0, NULL, 0, NULL), 0);
    fixture_run(f, SECOND);
    const struct diwarp_wc *told = find_received(f, IBV_WC_RECV_RDMA_WITH_IMM, 0);
    assert_non_null(told);
    assert_true(told->wc.imm_data == 9 && told->wc.byte_len == 0);
    fixture_assert_status(f, 0, 9, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    fixture_close(f);
}

static void write_imm__refused__nobody_is_told(void **state)
{
    (void)state;
    struct fixture *f = open_two();
    uint8_t *from = fixture_payload(1, 100), *to = fixture_payload(2, 100);
    struct diwarp_mr *mr = diwarp_reg_mr(f->world.nodes[1].pd, to, 100, IBV_ACCESS_REMOTE_READ);
    assert_int_equal(fixture_post(f, 0, 1, 7, IBV_WR_RDMA_WRITE_WITH_IMM, 0, from, 100, mr), 0);
    fixture_run(f, SECOND);
    fixture_assert_status(f, 0, 7, IBV_WC_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR);
    assert_null(find_received(f, IBV_WC_RECV_RDMA_WITH_IMM, 0));
    fixture_close(f);
    free(from);
    free(to);
}

/* The write is there; its message waits at its sender. */
static void write_imm__without_a_receive__waits(void **state)
{
    (void)state;
    struct fixture *f = open_two();
    uint8_t *from = fixture_payload(1, BYTES), *to = fixture_payload(2, BYTES);
    struct diwarp_mr *mr = fixture_reg(f, 1, to, BYTES);
    diwarp_add_recv_room(f->world.nodes[1].qp, 0);
    assert_int_equal(fixture_post(f, 0, 1, 7, IBV_WR_RDMA_WRITE_WITH_IMM, 0, from, BYTES, mr), 0);
    sim_world_run_for(&f->world, SECOND);
    assert_true(sim_pattern_matches(1, 0, to, BYTES));
    assert_int_equal(f->wc_count, 0);
    diwarp_add_recv_room(f->world.nodes[1].qp, 1);
    fixture_run(f, 2 * SECOND);
    assert_non_null(find_received(f, IBV_WC_RECV_RDMA_WITH_IMM, 0));
    fixture_assert_status(f, 0, 7, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    fixture_close(f);
    free(from);
    free(to);
}

/* All of it is there; whom it is for is lost before it can be told. */
static void write_imm__peer_is_lost_meanwhile__fails(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.device.peer_timeout_ns = SECOND;
    fixture_open(f);
    uint8_t *from = fixture_payload(1, BYTES), *to = fixture_payload(2, BYTES);
    struct diwarp_mr *mr = fixture_reg(f, 1, to, BYTES);
    diwarp_add_recv_room(f->world.nodes[1].qp, 0);
    assert_int_equal(fixture_post(f, 0, 1, 7, IBV_WR_RDMA_WRITE_WITH_IMM, 0, from, BYTES, mr), 0);
    sim_world_run_for(&f->world, 100 * MS);
    assert_true(sim_pattern_matches(1, 0, to, BYTES));
    assert_int_equal(f->wc_count, 0);
    f->world.nodes[1].paused_until_ns = DW_NEVER;
    fixture_run(f, 10 * SECOND);
    fixture_assert_status(f, 0, 7, IBV_WC_RDMA_WRITE, IBV_WC_RETRY_EXC_ERR);
    fixture_close(f);
    free(from);
    free(to);
}

static int invalidate(struct fixture *f, unsigned node, uint32_t stag)
{
    static uint8_t byte;
    struct ibv_sge sge = {.addr = (uintptr_t)&byte, .length = 1};
    struct diwarp_send_wr post = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = IBV_WR_SEND_WITH_INV,
               .invalidate_rkey = stag},
        .ah = f->world.nodes[node].ahs[1],
    };
    return diwarp_post_send(f->world.nodes[node].qp, &post);
}

/* What others have under way ends, too; the owner's own use does not. */
static void send_inv__ends_the_rights_of_all_peers(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.node_count = 3;
    f->config.device.record_window_bytes = 64u << 10;
    fixture_open(f);
    uint8_t *to = fixture_payload(1, BYTES), *from = fixture_payload(2, BYTES);
    struct diwarp_mr *mr = fixture_reg(f, 1, to, BYTES);
    assert_int_equal(fixture_post(f, 2, 1, 5, IBV_WR_RDMA_READ, 0, from, BYTES, mr), 0);
    sim_world_run_for(&f->world, 12000);
    assert_int_equal(invalidate(f, 0, mr->stag), 0);
    fixture_run(f, 2 * SECOND);
    const struct diwarp_wc *came = find_received(f, IBV_WC_RECV, 0);
    assert_non_null(came);
    assert_int_equal(came->wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(came->wc.invalidated_rkey, mr->stag);
    assert_int_equal(mr->access, IBV_ACCESS_LOCAL_WRITE);
    fixture_assert_status(f, 2, 5, IBV_WC_RDMA_READ, IBV_WC_REM_ABORT_ERR);
    assert_int_equal(fixture_post(f, 0, 1, 6, IBV_WR_RDMA_WRITE, 0, from, 100, mr), 0);
    assert_int_equal(invalidate(f, 0, mr->stag), 0);
    fixture_run(f, 2 * SECOND);
    fixture_assert_status(f, 0, 6, IBV_WC_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR);
    came = find_received(f, IBV_WC_RECV, 1);
    assert_non_null(came);
    assert_int_equal(came->wc.wc_flags, 0);
    assert_int_equal(sim_counters(&f->world, 1)->drop_stag, 2); /* the write, and the Send's STag */
    fixture_close(f);
    free(from);
    free(to);
}

static void send_inv__of_what_is_bound_to_another__has_no_effect(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.node_count = 3;
    fixture_open(f);
    uint8_t *to = fixture_payload(1, 100);
    struct diwarp_mr *mr = fixture_reg(f, 1, to, 100);
    const int access = mr->access;
    diwarp_bind_mr(mr, sim_handle(&f->world.nodes[1], 2)->ah.name);
    for (unsigned node = 0; node <= 2; node += 2) {
        assert_int_equal(invalidate(f, node, mr->stag), 0);
        fixture_run(f, 2 * SECOND);
        const struct diwarp_wc *came = find_received(f, IBV_WC_RECV, node / 2);
        assert_non_null(came);
        assert_int_equal(came->src.rank, node);
        assert_int_equal(came->wc.wc_flags, node ? IBV_WC_WITH_INV : 0);
        assert_int_equal(mr->access, node ? IBV_ACCESS_LOCAL_WRITE : access);
    }
    fixture_close(f);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_imm__target_is_told_once_all_is_placed),
        cmocka_unit_test(write_imm__of_no_bytes__is_told),
        cmocka_unit_test(write_imm__refused__nobody_is_told),
        cmocka_unit_test(write_imm__without_a_receive__waits),
        cmocka_unit_test(write_imm__peer_is_lost_meanwhile__fails),
        cmocka_unit_test(send_inv__ends_the_rights_of_all_peers),
        cmocka_unit_test(send_inv__of_what_is_bound_to_another__has_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
