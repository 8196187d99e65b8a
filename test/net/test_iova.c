/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that requests call by other addresses than those of their memory: local elements, and
 * what peers read, write and change there, over RD, UD and RC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/include/diwarp_ud.h"
#include "test/net/rc_end.h"

#define BYTES 200000u
#define ACCESS                                                                   \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)
#define AT 24u /* where what is sent lies in either memory */

_Alignas(64) static uint8_t ours[BYTES], theirs[BYTES];

static const uint64_t iovas[] = {0, 8, UINT64_C(1) << 63, UINT64_MAX - BYTES - 7};
#define IOVAS (sizeof iovas / sizeof *iovas)

static struct diwarp_mr *reg(struct diwarp_pd *pd, uint8_t *memory, uint64_t iova)
{
    struct diwarp_mr *mr = diwarp_reg_mr_iova(pd, memory, BYTES, iova, ACCESS);
    assert_non_null(mr);
    assert_true(mr->iova == iova && mr->addr == memory);
    return mr;
}

/* Of `bytes` at AT of the region. */
static struct ibv_sge sge_of(const struct diwarp_mr *mr, uint32_t bytes)
{
    return (struct ibv_sge){.addr = mr->iova + AT, .length = bytes, .lkey = mr->stag};
}

/* remote: at AT of it; NULL: a Send. */
static struct ibv_send_wr wr_of(enum ibv_wr_opcode opcode, struct ibv_sge *sge,
                                const struct diwarp_mr *remote)
{
    struct ibv_send_wr wr = {
        .opcode = opcode, .sg_list = sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = remote->iova + AT;
        wr.wr.atomic.compare_add = 5;
        wr.wr.atomic.swap = 77;
        wr.wr.atomic.rkey = remote->stag;
    } else if (remote) {
        wr.wr.rdma.remote_addr = remote->iova + AT;
        wr.wr.rdma.rkey = remote->stag;
    }
    return wr;
}

static void prepare(uint32_t bytes, bool from_ours)
{
    memset(ours, 0xee, sizeof ours);
    memset(theirs, 0xee, sizeof theirs);
    fill((from_ours ? ours : theirs) + AT, bytes, bytes);
}

static void assert_came(uint32_t bytes, bool to_theirs)
{
    const uint8_t *to = to_theirs ? theirs : ours;
    assert_filled(to + AT, bytes, bytes);
    assert_int_equal(to[AT - 1], 0xee);
    assert_int_equal(to[AT + bytes], 0xee);
}

static uint64_t word_at(const uint8_t *memory)
{
    uint64_t word;
    memcpy(&word, memory + AT, sizeof word);
    return word;
}

static void put_word(uint8_t *memory, uint64_t word)
{
    memcpy(memory + AT, &word, sizeof word);
}

/* ---- datagrams ------------------------------------------------------------------------------ */

struct pair {
    struct node a, b;
    struct diwarp_ah *ah;
    struct diwarp_mr *local, *remote;
};

static void pair_open(struct pair *pair, enum diwarp_qp_type type, uint64_t iova)
{
    node_open_default(&pair->a, 1, type);
    node_open_default(&pair->b, 2, type);
    pair->ah = node_ah(&pair->a, &pair->b);
    pair->local = reg(pair->a.pd, ours, iova);
    pair->remote = reg(pair->b.pd, theirs, iova);
}

static void pair_close(struct pair *pair)
{
    node_destroy_qp(&pair->a);
    node_destroy_qp(&pair->b);
    diwarp_destroy_ah(pair->ah);
    diwarp_dereg_mr(pair->local);
    diwarp_dereg_mr(pair->remote);
    node_close(&pair->a);
    node_close(&pair->b);
}

static int pair_post(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t bytes)
{
    struct ibv_sge sge = sge_of(pair->local, bytes);
    const struct diwarp_send_wr wr = {
        .wr = wr_of(opcode, &sge, opcode == IBV_WR_SEND ? NULL : pair->remote), .ah = pair->ah};
    return diwarp_post_send(pair->a.qp, &wr);
}

/* One datagram, a record of several, and the atomics. */
static void rd__all_requests(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {8, 100, 150000};
    for (unsigned i = 0; i < IOVAS; i++) {
        struct pair pair;
        pair_open(&pair, DIWARP_QPT_RD, iovas[i]);
        for (unsigned k = 0; k < 3; k++) {
            prepare(sizes[k], true);
            assert_int_equal(pair_post(&pair, IBV_WR_RDMA_WRITE, sizes[k]), 0);
            RUN_UNTIL(pair.a.writes == k + 1, &pair.a, &pair.b);
            assert_came(sizes[k], true);
            prepare(sizes[k], false);
            assert_int_equal(pair_post(&pair, IBV_WR_RDMA_READ, sizes[k]), 0);
            RUN_UNTIL(pair.a.reads == k + 1, &pair.a, &pair.b);
            assert_came(sizes[k], false);
        }
        put_word(theirs, 37);
        assert_int_equal(pair_post(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 8), 0);
        RUN_UNTIL(pair.a.atomics == 1, &pair.a, &pair.b);
        assert_true(word_at(theirs) == 42 && word_at(ours) == 37);
        put_word(theirs, 5);
        assert_int_equal(pair_post(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, 8), 0);
        RUN_UNTIL(pair.a.atomics == 2, &pair.a, &pair.b);
        assert_true(word_at(theirs) == 77 && word_at(ours) == 5);
        fill(ours + AT, 100, 9);
        assert_int_equal(pair_post(&pair, IBV_WR_SEND, 100), 0);
        RUN_UNTIL(pair.b.recvs == 1, &pair.a, &pair.b);
        assert_filled(pair.b.data, 100, 9);
        assert_int_equal(pair.a.errors, 0);
        pair_close(&pair);
    }
}

/* Outside, by its memory's addresses, and around the end of all. */
static void rd__what_no_request_may_name(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, DIWARP_QPT_RD, 4096);
    const uint64_t wrong[] = {4095,       4096 + BYTES - 7, (uintptr_t)theirs, 0,
                              UINT64_MAX, UINT64_MAX - 7,   4096 + BYTES + 1};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ibv_sge sge = sge_of(pair.local, 8);
        struct diwarp_send_wr wr = {.wr = wr_of(IBV_WR_RDMA_WRITE, &sge, pair.remote),
                                    .ah = pair.ah};
        wr.wr.wr.rdma.remote_addr = wrong[i];
        assert_int_equal(diwarp_post_send(pair.a.qp, &wr), 0);
        RUN_UNTIL(pair.a.errors == i + 1, &pair.a, &pair.b);
        assert_int_equal(pair.a.last_error.wc.status, IBV_WC_REM_ACCESS_ERR);
        sge.addr = wrong[i] == (uintptr_t)theirs ? (uintptr_t)ours : wrong[i];
        wr.wr.wr.rdma.remote_addr = pair.remote->iova;
        assert_int_equal(diwarp_post_send(pair.a.qp, &wr), -EACCES);
    }
    pair_close(&pair);
}

static struct diwarp_record *take_record(struct pair *pair, unsigned count)
{
    RUN_UNTIL(pair->b.records == count, &pair->a, &pair->b);
    return pair->b.last.record;
}

static void ud__sends_records_and_reads(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {8, 20000};
    for (unsigned i = 0; i < IOVAS; i++) {
        struct diwarp_record_info info;
        struct pair pair;
        pair_open(&pair, DIWARP_QPT_UD, iovas[i]);
        for (unsigned k = 0; k < 2; k++) {
            struct ibv_sge sge = sge_of(pair.remote, sizes[k]);
            const struct ibv_recv_wr recv = {.wr_id = k, .sg_list = &sge, .num_sge = 1};
            prepare(sizes[k], true);
            assert_int_equal(diwarp_post_recv(pair.b.qp, &recv), 0);
            assert_int_equal(pair_post(&pair, IBV_WR_SEND, sizes[k]), 0);
            RUN_UNTIL(pair.b.recvs == k + 1, &pair.a, &pair.b);
            assert_came(sizes[k], true);
            prepare(sizes[k], true);
            assert_int_equal(pair_post(&pair, IBV_WR_RDMA_WRITE, sizes[k]), 0);
            struct diwarp_record *record = take_record(&pair, k + 1);
            diwarp_query_record(record, &info);
            assert_true(info.full && info.addr == theirs + AT);
            assert_came(sizes[k], true);
            diwarp_release_record(record);
            prepare(sizes[k], false);
            assert_int_equal(pair_post(&pair, IBV_WR_RDMA_READ, sizes[k]), 0);
            RUN_UNTIL(pair.a.reads == k + 1, &pair.a, &pair.b);
            assert_came(sizes[k], false);
        }
        pair_close(&pair);
    }
}

/* Where the PD has lost a region since the post, or this one has moved. */
static void ud__receives_are_looked_at_again(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, DIWARP_QPT_UD, 64);
    struct ibv_sge sge = sge_of(pair.remote, 100);
    const struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
    prepare(100, true);
    assert_int_equal(diwarp_post_recv(pair.b.qp, &recv), 0);
    diwarp_dereg_mr(reg(pair.b.pd, theirs, 0));
    assert_int_equal(pair_post(&pair, IBV_WR_SEND, 100), 0);
    RUN_UNTIL(pair.b.recvs == 1, &pair.a, &pair.b);
    assert_came(100, true);

    assert_int_equal(diwarp_post_recv(pair.b.qp, &recv), 0);
    assert_int_equal(diwarp_rereg_mr(pair.remote, pair.b.pd, theirs + 800, BYTES - 800, 64, ACCESS),
                     0);
    assert_true(pair.remote->iova == 64 && pair.remote->addr == theirs + 800);
    memset(theirs, 0xee, sizeof theirs);
    assert_int_equal(pair_post(&pair, IBV_WR_SEND, 100), 0);
    RUN_UNTIL(pair.b.recvs == 2, &pair.a, &pair.b);
    assert_filled(theirs + 800 + AT, 100, 100);
    assert_int_equal(theirs[AT], 0xee);

    assert_int_equal(diwarp_post_recv(pair.b.qp, &recv), 0);
    assert_int_equal(diwarp_rereg_mr(pair.remote, pair.b.pd, theirs, BYTES, 128, ACCESS), 0);
    assert_int_equal(pair_post(&pair, IBV_WR_SEND, 100), 0);
    RUN_UNTIL(pair.b.errors == 1, &pair.a, &pair.b);
    assert_int_equal(pair.b.last_error.wc.status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(theirs[AT], 0xee);
    pair_close(&pair);
}

/* ---- streams -------------------------------------------------------------------------------- */

static struct diwarp_wc rc_next(struct rc_end *end, struct rc_end *other)
{
    const uint64_t until_ns = clock_ns() + WAIT_NS;
    struct diwarp_wc wc;
    while (diwarp_poll_cq(end->cq, 1, &wc) != 1) {
        rc_end_poll(other);
        if (clock_ns() > until_ns)
            fail_msg("nothing has completed");
    }
    assert_int_equal(wc.wc.status, IBV_WC_SUCCESS);
    return wc;
}

static void rc_do(struct rc_pair *pair, const struct diwarp_mr *local,
                  const struct diwarp_mr *remote, enum ibv_wr_opcode opcode, uint32_t bytes)
{
    struct ibv_sge sge = sge_of(local, bytes);
    const struct ibv_send_wr wr = wr_of(opcode, &sge, remote);
    const struct ibv_send_wr fence = {.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};
    assert_int_equal(diwarp_rc_post_send(pair->a.qp, &wr), 0);
    (void)rc_next(&pair->a, &pair->b);
    assert_int_equal(diwarp_rc_post_send(pair->a.qp, &fence), 0); /* a write has come then */
    (void)rc_next(&pair->a, &pair->b);
}

static void rc__all_requests(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {8, 100, 150000};
    for (unsigned i = 0; i < IOVAS; i++) {
        struct rc_pair pair;
        rc_pair_init(&pair);
        struct diwarp_mr *local = reg(pair.a.pd, ours, iovas[i]);
        struct diwarp_mr *remote = reg(pair.b.pd, theirs, iovas[i]);
        rc_pair_connect(&pair);
        for (unsigned k = 0; k < 3; k++) {
            struct ibv_sge sge = sge_of(remote, sizes[k]);
            const struct ibv_recv_wr recv = {.wr_id = k, .sg_list = &sge, .num_sge = 1};
            prepare(sizes[k], true);
            rc_do(&pair, local, remote, IBV_WR_RDMA_WRITE, sizes[k]);
            assert_came(sizes[k], true);
            prepare(sizes[k], false);
            rc_do(&pair, local, remote, IBV_WR_RDMA_READ, sizes[k]);
            assert_came(sizes[k], false);
            prepare(sizes[k], true);
            assert_int_equal(diwarp_rc_post_recv(pair.b.qp, &recv), 0);
            diwarp_dereg_mr(reg(pair.b.pd, theirs, 0)); /* it is looked at again */
            rc_do(&pair, local, NULL, IBV_WR_SEND, sizes[k]);
            assert_came(sizes[k], true);
        }
        put_word(theirs, 37);
        rc_do(&pair, local, remote, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
        assert_true(word_at(theirs) == 42 && word_at(ours) == 37);
        put_word(theirs, 5);
        rc_do(&pair, local, remote, IBV_WR_ATOMIC_CMP_AND_SWP, 8);
        assert_true(word_at(theirs) == 77 && word_at(ours) == 5);
        diwarp_dereg_mr(local);
        diwarp_dereg_mr(remote);
        rc_pair_close(&pair);
    }
}

/* A window into a region, by the region's addresses or by its own. */
static void rc__windows(void **state)
{
    (void)state;
    for (unsigned zero_based = 0; zero_based < 2; zero_based++) {
        const int access = IBV_ACCESS_REMOTE_WRITE | (zero_based ? (int)IBV_ACCESS_ZERO_BASED : 0);
        struct rc_pair pair;
        rc_pair_init(&pair);
        struct diwarp_mr *local = reg(pair.a.pd, ours, 0);
        struct diwarp_mr *remote = reg(pair.b.pd, theirs, 1u << 20);
        assert_null(diwarp_open_window(remote, 0x5a5a5a5a, (uintptr_t)theirs, 8, access, NULL));
        assert_null(diwarp_open_window(remote, 0x5a5a5a5a, (1u << 20) - 1, 8, access, NULL));
        assert_null(
            diwarp_open_window(remote, 0x5a5a5a5a, (1u << 20) + BYTES - 7, 8, access, NULL));
        struct diwarp_mr *window =
            diwarp_open_window(remote, 0x5a5a5a5a, (1u << 20) + 4096, 4096, access, NULL);
        assert_non_null(window);
        assert_int_equal(window->iova, zero_based ? 0 : (1u << 20) + 4096);
        assert_ptr_equal(window->addr, theirs + 4096);
        rc_pair_connect(&pair);
        prepare(100, true);
        rc_do(&pair, local, window, IBV_WR_RDMA_WRITE, 100);
        assert_filled(theirs + 4096 + AT, 100, 100);
        assert_int_equal(theirs[4096 + AT - 1], 0xee);
        diwarp_dereg_mr(window);
        diwarp_dereg_mr(remote);
        diwarp_dereg_mr(local);
        rc_pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__all_requests),
        cmocka_unit_test(rd__what_no_request_may_name),
        cmocka_unit_test(ud__sends_records_and_reads),
        cmocka_unit_test(ud__receives_are_looked_at_again),
        cmocka_unit_test(rc__all_requests),
        cmocka_unit_test(rc__windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
