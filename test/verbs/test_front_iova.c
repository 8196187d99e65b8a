/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: regions whose addresses are not those of their memory. */
#include <errno.h>
#include <string.h>

#include "test/verbs/rc_pair.h"

/* No enumerator: rdma-core's macro of ibv_reg_mr_iova() mixes it with those of another type. */
static const int local_write = IBV_ACCESS_LOCAL_WRITE;

#define SIZE   sizeof(((struct pair *)0)->memory[0])
#define AT     4096u /* of what requests name, in either region */
#define WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static const uint64_t iovas[] = {0, UINT64_C(1) << 40, UINT64_MAX - SIZE - 7};
#define IOVAS (sizeof iovas / sizeof *iovas)

/* Regions of each memory of a pair. */
static void reg_both(struct pair *pair, struct ibv_mr *mrs[2], uint64_t iova)
{
    for (unsigned i = 0; i < 2; i++) {
        mrs[i] =
            ibv_reg_mr_iova(pair->pd, pair->memory[i], SIZE, iova, ALL_ACCESS | IBV_ACCESS_MW_BIND);
        assert_non_null(mrs[i]);
        assert_ptr_equal(mrs[i]->addr, pair->memory[i]);
        assert_int_equal(mrs[i]->length, SIZE);
    }
}

/* By queue pair 0; RDMA is at `remote`, by that key. */
static void request(struct pair *pair, enum ibv_wr_opcode opcode, const struct ibv_sge *from,
                    uint64_t remote, uint32_t rkey, enum ibv_wc_status status)
{
    struct ibv_sge sge = *from;
    struct ibv_send_wr wr = {.wr_id = 9,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = remote;
        wr.wr.atomic.compare_add = 5;
        wr.wr.atomic.rkey = rkey;
    } else if (opcode != IBV_WR_SEND) {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = rkey;
    }
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_done(pair->send_cq[0], 9, status);
}

static void connect_anew(struct pair *pair)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(ibv_modify_qp(pair->qp[i], &reset, IBV_QP_STATE), 0);
    pair_connect(pair, ALL_ACCESS);
}

static void rc__all_requests(void **state)
{
    (void)state;
    for (unsigned i = 0; i < IOVAS; i++) {
        struct pair *pair = pair_open(i == 1); /* with an SRQ */
        uint8_t *ours = pair->memory[0] + AT, *theirs = pair->memory[1] + AT;
        struct ibv_mr *mrs[2];
        reg_both(pair, mrs, iovas[i]);
        struct ibv_sge sge = {iovas[i] + AT, 2000, mrs[0]->lkey};
        struct ibv_sge to = {iovas[i] + AT, 2000, mrs[1]->lkey};
        struct ibv_recv_wr recv = {.wr_id = 4, .sg_list = &to, .num_sge = 1}, *bad;
        pair_connect(pair, ALL_ACCESS);
        memset(ours, 1, 2000);
        request(pair, IBV_WR_RDMA_WRITE, &sge, iovas[i] + AT, mrs[1]->rkey, IBV_WC_SUCCESS);
        assert_memory_equal(theirs, ours, 2000);
        memset(theirs, 2, 2000);
        request(pair, IBV_WR_RDMA_READ, &sge, iovas[i] + AT, mrs[1]->rkey, IBV_WC_SUCCESS);
        assert_memory_equal(theirs, ours, 2000);
        memset(ours, 3, 2000);
        assert_int_equal(pair->srq ? ibv_post_srq_recv(pair->srq, &recv, &bad)
                                   : ibv_post_recv(pair->qp[1], &recv, &bad),
                         0);
        request(pair, IBV_WR_SEND, &sge, 0, 0, IBV_WC_SUCCESS);
        assert_done(pair->recv_cq[1], 4, IBV_WC_SUCCESS);
        assert_memory_equal(theirs, ours, 2000);
        sge.length = 8;
        request(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, iovas[i] + AT, mrs[1]->rkey,
                IBV_WC_SUCCESS);
        assert_true(theirs[0] == 8 && theirs[1] == 3 && ours[0] == 3);
        assert_true(!pair->memory[0][AT - 1] && !pair->memory[1][AT - 1]);
        assert_int_equal(ibv_dereg_mr(mrs[0]), 0);
        assert_int_equal(ibv_dereg_mr(mrs[1]), 0);
        pair_close(pair);
    }
}

static void rc__what_no_request_may_name(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mrs[2];
    reg_both(pair, mrs, 1u << 20);
    const struct ibv_sge good = {1u << 20, 8, mrs[0]->lkey};
    const uint64_t wrong[] = {(uintptr_t)pair->memory[1], 0, (1u << 20) - 1, (1u << 20) + SIZE - 7,
                              UINT64_MAX - 3};
    pair_connect(pair, ALL_ACCESS);
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct ibv_sge bad = {i ? wrong[i] : (uintptr_t)pair->memory[0], 8, mrs[0]->lkey};
        request(pair, IBV_WR_RDMA_WRITE, &good, wrong[i], mrs[1]->rkey, IBV_WC_REM_ACCESS_ERR);
        connect_anew(pair);
        request(pair, IBV_WR_RDMA_WRITE, &bad, 1u << 20, mrs[1]->rkey, IBV_WC_LOC_PROT_ERR);
        connect_anew(pair);
    }
    assert_int_equal(ibv_dereg_mr(mrs[0]), 0);
    assert_int_equal(ibv_dereg_mr(mrs[1]), 0);
    pair_close(pair);
}

static void reg__refuses(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    const struct {
        uint64_t iova;
        unsigned access;
    } bad[] = {{UINT64_MAX - SIZE + 1, 0}, {UINT64_MAX, 0}, {4, ALL_ACCESS}};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        assert_null(ibv_reg_mr_iova(pair->pd, pair->memory[0], SIZE, bad[i].iova, bad[i].access));
        assert_int_equal(errno, EINVAL);
    }
    errno = 0;
    assert_null(ibv_reg_mr_iova(pair->pd, (void *)4096, SIZE, 0, 0));
    assert_int_equal(errno, EFAULT);
    pair_close(pair);
}

static void reg__zero_based(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mr =
        ibv_reg_mr(pair->pd, pair->memory[1], SIZE, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
    const struct ibv_sge from = {(uintptr_t)pair->memory[0], 64, pair->mr->lkey};
    struct ibv_sge sge = {AT, 64, mr->lkey};
    assert_ptr_equal(mr->addr, pair->memory[1]);
    pair_connect(pair, ALL_ACCESS);
    memset(pair->memory[0], 7, 64);
    request(pair, IBV_WR_RDMA_WRITE, &from, AT, mr->rkey, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory[1] + AT, pair->memory[0], 64);
    assert_int_equal(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), 0);
    sge.addr = (uintptr_t)pair->memory[1];
    assert_int_equal(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(pair);
}

/* Its rights alone leave the addresses; a new place brings its own, or 0. */
static void rereg__addresses(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_pd *other = ibv_alloc_pd(pair->context);
    struct ibv_mr *mr = ibv_reg_mr_iova(pair->pd, pair->memory[1], 8192, 512, ALL_ACCESS);
    const struct ibv_sge from = {(uintptr_t)pair->memory[0], 64, pair->mr->lkey};
    uint8_t *const moved = pair->memory[1] + 16384;
    pair_connect(pair, ALL_ACCESS);
    memset(pair->memory[0], 7, 64);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS, pair->pd,
                                  NULL, 0, WRITES),
                     0);
    request(pair, IBV_WR_RDMA_WRITE, &from, 512 + 100, mr->rkey, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory[1] + 100, pair->memory[0], 64);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, moved, 4096, 0), 0);
    request(pair, IBV_WR_RDMA_WRITE, &from, (uintptr_t)moved, mr->rkey, IBV_WC_SUCCESS);
    assert_memory_equal(moved, pair->memory[0], 64);
    request(pair, IBV_WR_RDMA_WRITE, &from, 512, mr->rkey, IBV_WC_REM_ACCESS_ERR);
    connect_anew(pair);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS,
                                  NULL, moved + 4096, 4096, WRITES | IBV_ACCESS_ZERO_BASED),
                     0);
    request(pair, IBV_WR_RDMA_WRITE, &from, 32, mr->rkey, IBV_WC_SUCCESS);
    assert_memory_equal(moved + 4096 + 32, pair->memory[0], 64);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(pair);
}

/* ---- windows ---- */

/* By queue pair 1, to 4096 bytes from AT of the region on. */
static struct ibv_mw *bind(struct pair *pair, struct ibv_mr *mr, uint64_t addr, unsigned access,
                           enum ibv_wc_status status)
{
    struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {
        .wr_id = 3,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = {.mr = mr, .addr = addr, .length = 4096, .mw_access_flags = access}};
    assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), 0);
    assert_done(pair->send_cq[1], 3, status);
    return mw;
}

static void mw__addresses(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mrs[2];
    reg_both(pair, mrs, 1u << 20);
    const struct ibv_sge from = {1u << 20, 64, mrs[0]->lkey};
    pair_connect(pair, ALL_ACCESS);
    memset(pair->memory[0], 7, 64);
    struct ibv_mw *mw =
        bind(pair, mrs[1], (1u << 20) + AT, IBV_ACCESS_REMOTE_WRITE, IBV_WC_SUCCESS);
    request(pair, IBV_WR_RDMA_WRITE, &from, (1u << 20) + AT + 8, mw->rkey, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory[1] + AT + 8, pair->memory[0], 64);
    request(pair, IBV_WR_RDMA_WRITE, &from, (1u << 20) + 8, mw->rkey, IBV_WC_REM_ACCESS_ERR);
    connect_anew(pair);
    struct ibv_mw *zero_based =
        bind(pair, mrs[1], (1u << 20) + 2 * AT, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED,
             IBV_WC_SUCCESS);
    request(pair, IBV_WR_RDMA_WRITE, &from, 4096 - 64, zero_based->rkey, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory[1] + 3 * AT - 64, pair->memory[0], 64);
    request(pair, IBV_WR_RDMA_WRITE, &from, 4096 - 63, zero_based->rkey, IBV_WC_REM_ACCESS_ERR);
    connect_anew(pair);
    struct ibv_mw *bad =
        bind(pair, mrs[1], (uintptr_t)pair->memory[1], IBV_ACCESS_REMOTE_WRITE, IBV_WC_MW_BIND_ERR);
    assert_int_equal(ibv_dereg_mr(mrs[1]), EBUSY);
    assert_int_equal(ibv_dealloc_mw(bad), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dealloc_mw(zero_based), 0);
    assert_int_equal(ibv_dereg_mr(mrs[0]), 0);
    assert_int_equal(ibv_dereg_mr(mrs[1]), 0);
    pair_close(pair);
}

/* ---- receives of UD: message and GRH ---- */

static struct ibv_qp *shared_qp(struct end *end, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr attr = attr_of(end);
    attr.srq = srq;
    return ibv_create_qp(end->pd, &attr);
}

static void ud__receives(void **state)
{
    (void)state;
    for (unsigned shared = 0; shared < 2; shared++) {
        struct end *end = open_end(16);
        struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 3}};
        struct ibv_srq *srq = ibv_create_srq(end->pd, &attr);
        if (shared) {
            assert_int_equal(ibv_destroy_qp(end->qp), 0);
            end->qp = shared_qp(end, srq);
        }
        make_ready(end);
        struct ibv_mr *mr = ibv_reg_mr_iova(end->pd, end->memory, sizeof end->memory,
                                            UINT64_C(1) << 50, local_write);
        const uint64_t start = UINT64_C(1) << 50;
        struct ibv_sge sges[] = {{start + 1024, 24, mr->lkey},
                                 {start + 1100, 16 + 60, mr->lkey},
                                 {start + 2048, BYTES, mr->lkey}};
        struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = sges, .num_sge = 3}, *bad;
        memset(end->memory, 0xaa, sizeof end->memory);
        memset(end->memory, 1, BYTES);
        assert_int_equal(
            shared ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(end->qp, &wr, &bad), 0);
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        const struct ibv_wc wc = take(end->recv_cq);
        assert_true(!wc.status && wc.byte_len == 40 + BYTES && wc.wc_flags & IBV_WC_GRH);
        struct ibv_grh grh;
        memcpy(&grh, end->memory + 1024, 24);
        memcpy((uint8_t *)&grh + 24, end->memory + 1100, 16);
        union ibv_gid gid;
        assert_int_equal(ibv_query_gid(end->context, 1, 0, &gid), 0);
        assert_memory_equal(&grh.sgid, &gid, sizeof gid);
        assert_memory_equal(end->memory + 1116, end->memory, 60);
        assert_memory_equal(end->memory + 2048, end->memory, BYTES - 60);
        assert_int_equal(end->memory[1024 + 24], 0xaa);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        if (shared) {
            assert_int_equal(ibv_destroy_qp(end->qp), 0);
            assert_int_equal(ibv_destroy_srq(srq), 0);
            end->qp = shared_qp(end, NULL);
        } else {
            assert_int_equal(ibv_destroy_srq(srq), 0);
        }
        close_end(end);
    }
}

/* A region that has moved since: by its old addresses nothing is written anywhere. */
static void ud__receive_of_a_region_that_moved(void **state)
{
    (void)state;
    struct end *end = open_end(16);
    make_ready(end);
    struct ibv_mr *mr = ibv_reg_mr_iova(end->pd, end->memory + 1024, 1024, 4096, local_write);
    struct ibv_sge sge = {4096, 40 + BYTES, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
    memset(end->memory, 0xaa, sizeof end->memory);
    assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, end->memory + 2048, 1024, 0), 0);
    memset(end->memory, 1, BYTES);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->recv_cq).status, IBV_WC_LOC_PROT_ERR);
    for (unsigned i = 1024; i < sizeof end->memory; i++)
        assert_int_equal(end->memory[i], 0xaa);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close_end(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__all_requests), cmocka_unit_test(rc__what_no_request_may_name),
        cmocka_unit_test(reg__refuses),     cmocka_unit_test(reg__zero_based),
        cmocka_unit_test(rereg__addresses), cmocka_unit_test(mw__addresses),
        cmocka_unit_test(ud__receives),     cmocka_unit_test(ud__receive_of_a_region_that_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
