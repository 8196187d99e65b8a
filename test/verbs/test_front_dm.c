/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: device memory. */
#include <errno.h>
#include <string.h>

#include "test/verbs/rc_pair.h"

#define ZERO_BASED (ALL_ACCESS | IBV_ACCESS_ZERO_BASED)

static uint64_t max_of(struct ibv_context *context)
{
    struct ibv_device_attr_ex attr;
    assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
    assert_true(attr.max_dm_size);
    return attr.max_dm_size;
}

static struct ibv_dm *alloc(struct ibv_context *context, size_t length, uint32_t log_align_req)
{
    struct ibv_alloc_dm_attr attr = {.length = length, .log_align_req = log_align_req};
    errno = 0;
    return ibv_alloc_dm(context, &attr);
}

static void assert_refused(struct ibv_context *context, size_t length, uint32_t log_align_req,
                           int error)
{
    assert_null(alloc(context, length, log_align_req));
    assert_int_equal(errno, error);
}

static void alloc__bounds(void **state)
{
    (void)state;
    struct ibv_context *context = open_diwarp();
    const uint64_t max = max_of(context);
    struct ibv_alloc_dm_attr later = {.length = 64, .comp_mask = 1};
    assert_refused(context, 0, 0, EINVAL);
    assert_refused(context, max + 1, 0, EINVAL);
    assert_refused(context, SIZE_MAX, 0, EINVAL);
    assert_refused(context, 64, 64, EINVAL);
    assert_null(ibv_alloc_dm(context, &later));
    struct ibv_dm *most = alloc(context, max - 8, 0);
    assert_non_null(most);
    assert_refused(context, 16, 0, ENOMEM);
    struct ibv_dm *rest = alloc(context, 8, 6);
    assert_non_null(rest);
    assert_refused(context, 1, 0, ENOMEM);
    assert_int_equal(ibv_close_device(context), EBUSY);
    assert_int_equal(ibv_free_dm(most), 0);
    assert_int_equal(ibv_free_dm(most), EINVAL);
    struct ibv_dm *again = alloc(context, max - 8, 0);
    assert_non_null(again);
    assert_int_equal(ibv_free_dm(again), 0);
    assert_int_equal(ibv_free_dm(rest), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void copy__bounds_and_words(void **state)
{
    (void)state;
    struct ibv_context *context = open_diwarp();
    struct ibv_dm *dm = alloc(context, 100, 0);
    const struct {
        uint64_t offset;
        size_t length;
        int error;
    } cases[] = {{0, 100, 0},
                 {96, 4, 0},
                 {100, 0, 0},
                 {0, 104, EINVAL},
                 {100, 4, EINVAL},
                 {104, 0, EINVAL},
                 {3, 4, EINVAL},
                 {4, 3, EINVAL},
                 {UINT64_MAX - 3, 4, EINVAL},
                 {UINT64_MAX - 3, 8, EINVAL},
                 {4, SIZE_MAX - 3, EINVAL}};
    uint8_t from[104], to[104];
    memset(to, 1, sizeof to);
    assert_int_equal(ibv_memcpy_from_dm(to, dm, 0, 100), 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(to[i], 0);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(from, (int)i + 1, sizeof from);
        assert_int_equal(ibv_memcpy_to_dm(dm, cases[i].offset, from, cases[i].length),
                         cases[i].error);
        assert_int_equal(ibv_memcpy_from_dm(to, dm, cases[i].offset, cases[i].length),
                         cases[i].error);
        if (!cases[i].error)
            assert_memory_equal(to, from, cases[i].length);
    }
    assert_int_equal(ibv_free_dm(dm), 0);
    assert_int_equal(ibv_memcpy_to_dm(dm, 0, from, 4), EINVAL);
    assert_int_equal(ibv_memcpy_from_dm(to, dm, 0, 4), EINVAL);
    assert_int_equal(ibv_close_device(context), 0);
}

static void reg__bounds(void **state)
{
    (void)state;
    struct ibv_context *context = open_diwarp(), *other = open_diwarp();
    struct ibv_pd *pd = ibv_alloc_pd(context), *foreign = ibv_alloc_pd(other);
    struct ibv_dm *dm = alloc(context, 100, 3);
    const struct {
        struct ibv_pd *pd;
        uint64_t offset;
        size_t length;
        unsigned access;
    } bad[] = {{pd, 0, 104, ZERO_BASED},
               {pd, 101, 0, ZERO_BASED},
               {pd, 96, 8, ZERO_BASED},
               {pd, UINT64_MAX - 3, 8, ZERO_BASED},
               {pd, 4, SIZE_MAX, ZERO_BASED},
               {pd, 0, 100, ALL_ACCESS},
               {pd, 0, 100, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE},
               {pd, 4, 8, ZERO_BASED}, /* atomics need words that are aligned */
               {foreign, 0, 100, ZERO_BASED}};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        assert_null(ibv_reg_dm_mr(bad[i].pd, dm, bad[i].offset, bad[i].length, bad[i].access));
        assert_int_equal(errno, EINVAL);
    }
    struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 8, 92, ZERO_BASED);
    struct ibv_mr *odd = ibv_reg_dm_mr(pd, dm, 4, 8, IBV_ACCESS_ZERO_BASED);
    assert_true(mr && odd);
    assert_null(mr->addr);
    assert_int_equal(mr->length, 92);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_free_dm(dm), EBUSY);
    assert_int_equal(ibv_dereg_mr(odd), 0);
    assert_int_equal(ibv_free_dm(dm), EBUSY);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, &dm, 64, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_ZERO_BASED), 0);
    assert_null(mr->addr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
    errno = 0;
    assert_null(ibv_reg_dm_mr(pd, dm, 0, 0, ZERO_BASED));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_dealloc_pd(foreign), 0);
    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(ibv_close_device(other), 0);
}

/* Between two regions of one device memory. */
static void rc__all_requests(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_dm *dm = alloc(pair->context, 4096, 6);
    struct ibv_mr *from = ibv_reg_dm_mr(pair->pd, dm, 64, 1024, ZERO_BASED);
    struct ibv_mr *to = ibv_reg_dm_mr(pair->pd, dm, 2048, 1024, ZERO_BASED);
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD};
    pair_connect(pair, ALL_ACCESS);
    for (unsigned i = 0; i < 4; i++) {
        const bool atomic = opcodes[i] == IBV_WR_ATOMIC_FETCH_AND_ADD;
        const bool inwards = atomic || opcodes[i] == IBV_WR_RDMA_READ;
        const uint32_t bytes = atomic ? 8 : 512;
        struct ibv_sge sge = {8, bytes, from->lkey}, room = {8, 512, to->lkey};
        struct ibv_recv_wr recv = {.wr_id = 4, .sg_list = &room, .num_sge = 1}, *bad_recv;
        struct ibv_send_wr wr = {.wr_id = 9,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = opcodes[i],
                                 .send_flags = IBV_SEND_SIGNALED},
                           *bad;
        uint8_t sent[512], got[512];
        if (atomic) {
            wr.wr.atomic.remote_addr = 8;
            wr.wr.atomic.rkey = to->rkey;
            wr.wr.atomic.compare_add = 5;
        } else if (opcodes[i] != IBV_WR_SEND) {
            wr.wr.rdma.remote_addr = 8;
            wr.wr.rdma.rkey = to->rkey;
        } else {
            assert_int_equal(ibv_post_recv(pair->qp[1], &recv, &bad_recv), 0);
        }
        memset(sent, (int)i + 1, sizeof sent);
        assert_int_equal(ibv_memcpy_to_dm(dm, inwards ? 2056 : 72, sent, bytes), 0);
        assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
        assert_done(pair->send_cq[0], 9, IBV_WC_SUCCESS);
        if (opcodes[i] == IBV_WR_SEND)
            assert_done(pair->recv_cq[1], 4, IBV_WC_SUCCESS);
        assert_int_equal(ibv_memcpy_from_dm(got, dm, inwards ? 72 : 2056, bytes), 0);
        assert_memory_equal(got, sent, bytes);
        if (!atomic)
            continue;
        uint64_t before, after;
        memcpy(&before, sent, sizeof before);
        assert_int_equal(ibv_memcpy_from_dm(&after, dm, 2056, sizeof after), 0);
        assert_int_equal(after, before + 5);
    }
    assert_int_equal(ibv_dereg_mr(from), 0);
    assert_int_equal(ibv_dereg_mr(to), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc__bounds),
        cmocka_unit_test(copy__bounds_and_words),
        cmocka_unit_test(reg__bounds),
        cmocka_unit_test(rc__all_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
