/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: regions that change, and receives whose keys are no longer right. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/verbs/rc_pair.h"

static void reset(const struct pair *pair, unsigned i)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    assert_int_equal(ibv_modify_qp(pair->qp[i], &attr, IBV_QP_STATE), 0);
}

/* One after the other, each to RTS again. */
static void restart(const struct pair *pair)
{
    for (unsigned i = 2; i-- > 0;) {
        reset(pair, i);
        pair_init(pair->qp[i], ALL_ACCESS);
        pair_connect_to(pair, pair->qp[i], pair->qp[!i]->qp_num);
    }
}

/* A message of 8 bytes from 0 to 1 arrives. */
static void assert_works(struct pair *pair)
{
    pair_receive(pair, 1, 30);
    pair_post(pair, 0, IBV_WR_SEND, 31, 8);
    assert_done(pair->send_cq[0], 31, IBV_WC_SUCCESS);
    assert_done(pair->recv_cq[1], 30, IBV_WC_SUCCESS);
}

/* A message to 1, which is not placed: both sides are told. */
static void assert_not_received(struct pair *pair, uint64_t id)
{
    memset(pair->memory[1] + 8192, 0xaa, 4096);
    pair_post(pair, 0, IBV_WR_SEND, 40, 8);
    assert_done(pair->send_cq[0], 40, IBV_WC_REM_OP_ERR);
    assert_done(pair->recv_cq[1], id, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(state_of(pair->qp[1]), IBV_QPS_ERR);
    for (unsigned i = 0; i < 4096; i++)
        assert_int_equal(pair->memory[1][8192 + i], 0xaa);
}

static int rereg(struct pair *pair, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access)
{
    errno = 0;
    return ibv_rereg_mr(pair->mr, flags, pd, addr, length, access);
}

static void recv__wrong_key(void **state)
{
    (void)state;
    for (unsigned srq = 0; srq < 2; srq++) {
        struct pair *pair = pair_open(srq);
        struct ibv_mr *readable = ibv_reg_mr(pair->pd, pair->memory, sizeof pair->memory, 0);
        struct ibv_sge sge = {(uintptr_t)pair->memory[1] + 8192, 4096, readable->lkey};
        struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
        for (unsigned i = 0; i < 3; i++) {
            const uint32_t keys[] = {readable->lkey, pair->mr->lkey ^ 0x5a5a, pair->mr->lkey};
            sge.lkey = keys[i];
            if (i == 2) /* its first byte is the last of the region */
                sge.addr = (uintptr_t)pair->memory + sizeof pair->memory - 1;
            pair_connect(pair, ALL_ACCESS);
            assert_int_equal(srq ? ibv_post_srq_recv(pair->srq, &wr, &bad)
                                 : ibv_post_recv(pair->qp[1], &wr, &bad),
                             0);
            assert_not_received(pair, 1);
            reset(pair, 0);
            reset(pair, 1);
        }
        restart(pair);
        assert_works(pair);
        assert_int_equal(ibv_dereg_mr(readable), 0);
        pair_close(pair);
    }
}

static void rereg__access(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    const uint32_t rkey = pair->mr->rkey;
    assert_int_equal(rereg(pair, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
                     0);
    pair_connect(pair, ALL_ACCESS);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 8);
    assert_done(pair->send_cq[0], 1, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(rereg(pair, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS), 0);
    assert_int_equal(pair->mr->rkey, rkey);
    restart(pair);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 2, 8);
    assert_done(pair->send_cq[0], 2, IBV_WC_SUCCESS);
    pair_close(pair);
}

/* With a receive posted: it is of the old place. */
static void rereg__translation(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    void *before = pair->mr->addr;
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *other = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(other != MAP_FAILED);
    struct ibv_mr *kept = ibv_reg_mr(pair->pd, pair->memory, sizeof pair->memory, ALL_ACCESS);
    pair_connect(pair, ALL_ACCESS);
    pair_receive(pair, 1, 5);
    assert_int_equal(rereg(pair, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, bytes, 0), 0);
    assert_ptr_equal(pair->mr->addr, other);
    assert_int_equal(pair->mr->length, bytes);
    struct ibv_sge sge = {(uintptr_t)pair->memory[0], 8, kept->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.rkey = pair->mr->rkey;
    wr.wr.rdma.remote_addr = (uintptr_t)other;
    memset(pair->memory[0], 0x77, 8);
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_done(pair->send_cq[0], 0, IBV_WC_SUCCESS);
    assert_memory_equal(other, pair->memory[0], 8);
    wr.opcode = IBV_WR_SEND;
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_done(pair->send_cq[0], 0, IBV_WC_REM_OP_ERR);
    assert_done(pair->recv_cq[1], 5, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(
        rereg(pair, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, before, sizeof pair->memory, 0), 0);
    restart(pair);
    assert_works(pair);
    assert_int_equal(ibv_dereg_mr(kept), 0);
    assert_int_equal(munmap(other, bytes), 0);
    pair_close(pair);
}

static void rereg__pd(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_pd *other = ibv_alloc_pd(pair->context);
    struct ibv_mr *kept = ibv_reg_mr(pair->pd, pair->memory, sizeof pair->memory, ALL_ACCESS);
    assert_int_equal(rereg(pair, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
    assert_ptr_equal(pair->mr->pd, other);
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    pair_connect(pair, ALL_ACCESS);
    pair_receive(pair, 1, 5);
    struct ibv_sge sge = {(uintptr_t)pair->memory[0], 8, kept->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.opcode = IBV_WR_SEND;
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_done(pair->send_cq[0], 0, IBV_WC_REM_OP_ERR);
    assert_done(pair->recv_cq[1], 5, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(rereg(pair, IBV_REREG_MR_CHANGE_PD, pair->pd, NULL, 0, 0), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    restart(pair);
    assert_works(pair);
    assert_int_equal(ibv_dereg_mr(kept), 0);
    pair_close(pair);
}

static void rereg__bad_input(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_context *context = open_diwarp();
    struct ibv_pd *foreign = ibv_alloc_pd(context);
    const struct {
        int flags;
        struct ibv_pd *pd;
        void *addr;
        size_t length;
        int access, error;
    } cases[] = {
        {0, NULL, NULL, 0, 0, EINVAL},
        {8, NULL, NULL, 0, 0, EINVAL},
        {IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 8, 0, EINVAL},
        {IBV_REREG_MR_CHANGE_TRANSLATION, NULL, pair->memory, 0, 0, EINVAL},
        {IBV_REREG_MR_CHANGE_TRANSLATION, NULL, pair->memory, 8, 1, EINVAL},
        {IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)64, 8, 0, EFAULT},
        {IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, EINVAL},
        {IBV_REREG_MR_CHANGE_PD, foreign, NULL, 0, 0, EINVAL},
        {IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL},
        {IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 30, EINVAL},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rereg(pair, cases[i].flags, cases[i].pd, cases[i].addr, cases[i].length,
                               cases[i].access),
                         IBV_REREG_MR_ERR_INPUT);
        assert_int_equal(errno, cases[i].error);
    }
    pair_connect(pair, ALL_ACCESS); /* it is as it was */
    assert_works(pair);
    assert_int_equal(ibv_dealloc_pd(foreign), 0);
    assert_int_equal(ibv_close_device(context), 0);
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recv__wrong_key),    cmocka_unit_test(rereg__access),
        cmocka_unit_test(rereg__translation), cmocka_unit_test(rereg__pd),
        cmocka_unit_test(rereg__bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
