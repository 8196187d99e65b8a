/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: what diwarp_verbs.h has, between two contexts and within one. Its names are
 * looked up, as the test is linked with libibverbs alone. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "test/verbs/end.h"
#include "verbs_diwarp/diwarp_verbs.h"

#define ROOM  16
#define LARGE 200000
#define ALL_ACCESS                                                               \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

#define FOUND(name) __typeof__(diwarp_verbs_##name) *name = find("diwarp_verbs_" #name)

static void *find(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    assert_non_null(function);
    return function;
}

/* `side` 0 posts, 1 is the target; memory is registered with all rights. */
struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *ah; /* to the host, which both are on */
    _Alignas(8) uint8_t memory[LARGE];
};

static struct side *sides[2];
static uint64_t shift; /* requests call memory by addresses that are so much higher */

static uint64_t address_in(const struct side *side, uint32_t at)
{
    return (uintptr_t)side->memory + shift + at;
}

static struct ibv_qp_init_attr_ex attr_for(const struct side *side)
{
    return (struct ibv_qp_init_attr_ex){
        .send_cq = side->send_cq,
        .recv_cq = side->recv_cq,
        .cap = {.max_send_wr = ROOM,
                .max_recv_wr = ROOM,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 64},
        .qp_type = IBV_QPT_UD,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = side->pd,
        .send_ops_flags =
            IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ};
}

static struct side *side_open(bool rd)
{
    FOUND(create_rd_qp);
    struct side *side = calloc(1, sizeof *side);
    struct ibv_ah_attr ah = {.port_num = 1, .is_global = 1};
    assert_non_null(side);
    side->context = open_diwarp();
    side->pd = ibv_alloc_pd(side->context);
    side->send_cq = ibv_create_cq(side->context, 64, NULL, NULL, 0);
    side->recv_cq = ibv_create_cq(side->context, 64, NULL, NULL, 0);
    struct ibv_qp_init_attr_ex attr = attr_for(side);
    if (rd)
        attr.send_ops_flags |=
            IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
    side->qp = rd ? create_rd_qp(side->context, &attr) : ibv_create_qp_ex(side->context, &attr);
    assert_non_null(side->qp);
    assert_int_equal(side->qp->qp_type, rd ? IBV_QPT_DRIVER : IBV_QPT_UD);
    side->mr = ibv_reg_mr_iova(side->pd, side->memory, sizeof side->memory, address_in(side, 0),
                               ALL_ACCESS);
    assert_int_equal(ibv_query_gid(side->context, 1, 0, &ah.grh.dgid), 0);
    side->ah = ibv_create_ah(side->pd, &ah);
    assert_true(side->mr && side->ah);
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .qkey = QKEY, .port_num = 1};
    const int mask = IBV_QP_STATE;
    assert_int_equal(
        ibv_modify_qp(side->qp, &to, mask | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    to.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(side->qp, &to, mask), 0);
    to.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(side->qp, &to, mask | IBV_QP_SQ_PSN), 0);
    return side;
}

static void side_close(struct side *side)
{
    if (side->qp)
        assert_int_equal(ibv_destroy_qp(side->qp), 0);
    assert_int_equal(ibv_destroy_ah(side->ah), 0);
    assert_int_equal(ibv_dereg_mr(side->mr), 0);
    assert_int_equal(ibv_dealloc_pd(side->pd), 0);
    assert_int_equal(ibv_destroy_cq(side->send_cq), 0);
    assert_int_equal(ibv_destroy_cq(side->recv_cq), 0);
    assert_int_equal(ibv_close_device(side->context), 0);
    free(side);
}

static void open_both(bool rd)
{
    for (unsigned i = 0; i < 2; i++)
        sides[i] = side_open(rd);
    for (unsigned i = 0; i < LARGE; i++) {
        sides[0]->memory[i] = (uint8_t)(i * 7 + i / 251);
        sides[1]->memory[i] = (uint8_t)(i * 3 + i / 241);
    }
}

static void close_both(void)
{
    for (unsigned i = 0; i < 2; i++)
        side_close(sides[i]);
}

/* The first bytes of side 0's memory; RDMA is with those of side 1 from `at` on, by that key. */
static int post_keyed(enum ibv_wr_opcode opcode, uint64_t id, uint32_t bytes, uint32_t at,
                      uint32_t rkey, unsigned flags)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    const uint64_t remote = address_in(sides[1], at);
    ibv_wr_start(ex);
    ex->wr_id = id;
    ex->wr_flags = flags;
    if (opcode == IBV_WR_RDMA_WRITE)
        ibv_wr_rdma_write(ex, rkey, remote);
    else if (opcode == IBV_WR_RDMA_READ)
        ibv_wr_rdma_read(ex, rkey, remote);
    else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        ibv_wr_atomic_fetch_add(ex, rkey, remote, 5);
    else
        ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num, QKEY);
    ibv_wr_set_sge(ex, sides[0]->mr->lkey, address_in(sides[0], 0), bytes);
    return ibv_wr_complete(ex);
}

static int post(enum ibv_wr_opcode opcode, uint64_t id, uint32_t bytes, uint32_t at)
{
    return post_keyed(opcode, id, bytes, at, sides[1]->mr->rkey, IBV_SEND_SIGNALED);
}

/* Of side 0's send queue, while side 1 runs, too. */
static struct ibv_wc done(uint64_t id, enum ibv_wc_status status)
{
    struct ibv_wc wc;
    for (unsigned i = 0; i < 100000; i++) {
        assert_int_equal(ibv_poll_cq(sides[1]->send_cq, 1, &wc), 0);
        const int n = ibv_poll_cq(sides[0]->send_cq, 1, &wc);
        assert_true(n >= 0);
        if (!n)
            continue;
        assert_int_equal(wc.wr_id, id);
        assert_int_equal(wc.status, status);
        return wc;
    }
    wc = take(sides[0]->send_cq);
    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.status, status);
    return wc;
}

static int receive(uint64_t id, uint32_t at, uint32_t bytes)
{
    struct ibv_sge sge = {address_in(sides[1], at), bytes, sides[1]->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    return ibv_post_recv(sides[1]->qp, &wr, &bad);
}

/* ---- UD ---- */

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

/* ---- RD ---- */

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

static void rd__creation_is_checked(void **state)
{
    (void)state;
    FOUND(create_rd_qp);
    open_both(true);
    struct ibv_qp_init_attr_ex attr = attr_for(sides[0]);
    attr.cap.max_send_sge = 5;
    assert_null(create_rd_qp(sides[0]->context, &attr));
    assert_int_equal(errno, EINVAL);
    attr = attr_for(sides[0]);
    attr.send_ops_flags |= IBV_QP_EX_WITH_SEND_WITH_INV;
    assert_null(create_rd_qp(sides[0]->context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr = attr_for(sides[0]);
    attr.qp_type = IBV_QPT_DRIVER;
    assert_null(ibv_create_qp_ex(sides[0]->context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    close_both();
}

static int shift_all(void **state)
{
    (void)state;
    shift = UINT64_C(1) << 40;
    return 0;
}

static int shift_none(void **state)
{
    (void)state;
    shift = 0;
    return 0;
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
        cmocka_unit_test(rd__sends_writes_reads_atomics),
        cmocka_unit_test(rd__without_receives__sends_wait),
        cmocka_unit_test_setup_teardown(rd__sends_writes_reads_atomics, shift_all, shift_none),
        cmocka_unit_test_setup_teardown(rd__without_receives__sends_wait, shift_all, shift_none),
        cmocka_unit_test(rd__bad_requests__end_alone),
        cmocka_unit_test(rd__in_error__all_is_flushed),
        cmocka_unit_test(rd__within_a_process),
        cmocka_unit_test(rd__creation_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
