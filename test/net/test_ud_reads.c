/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read over UD on real sockets of 127.0.0.1: what is read, by whom and how much of it at once,
 * and what ends it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/ud_read_pair.h"

static int post_read(struct pair *pair, uint32_t bytes, uint64_t wr_id, uint64_t offset)
{
    return post(&pair->a, pair->ab, IBV_WR_RDMA_READ, buf_a, bytes, IBV_SEND_SIGNALED, wr_id,
                pair->mr, offset);
}

/* ---- what is read --------------------------------------------------------------------------- */

static void check_sizes(struct pair *pair)
{
    static const uint32_t sizes[] = {1, 7, 1380, 1400, 20000, 200000};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const unsigned reads = pair->a.reads;
        fill(buf_b + 3, sizes[i], i);
        memset(buf_a, 0xee, sizes[i] + 1);
        assert_int_equal(post_read(pair, sizes[i], 100 + i, 3), 0);
        RUN_UNTIL(pair->a.reads == reads + 1, &pair->a, &pair->b);
        assert_int_equal(pair->a.last.wc.wr_id, 100 + i);
        assert_int_equal(pair->a.last.wc.byte_len, sizes[i]);
        assert_int_equal(pair->a.last.wc.opcode, IBV_WC_RDMA_READ);
        assert_filled(buf_a, sizes[i], i);
        assert_int_equal(buf_a[sizes[i]], 0xee);
        assert_int_equal(diwarp_query_read(pair->a.qp, 100 + i, &(struct diwarp_read_info){0}),
                         -ENOENT);
    }
    assert_int_equal(pair->b.counters->tx_answers, sizeof sizes / sizeof *sizes);
}

static void ud_read__of_one_and_many_datagrams(void **state)
{
    (void)state;
    static const enum diwarp_auth modes[] = {DIWARP_AUTH_OFF, DIWARP_AUTH_GMAC,
                                             DIWARP_AUTH_AES_GCM};
    const struct diwarp_qp_attr attr = attr_of(20000 * MS);
    for (unsigned i = 0; i < 3; i++) {
        struct pair pair;
        pair_open_as(&pair, &attr, modes[i]);
        check_sizes(&pair);
        pair_close(&pair);
    }
}

/* Elements that segments straddle, each with its own key. */
static void ud_read__into_several_elements(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 0, 1999, 700, 3300};
    struct pair pair;
    struct ibv_sge sges[5];
    uint32_t at = 0;
    pair_open(&pair, 20000 * MS);
    struct diwarp_mr *own = diwarp_reg_mr(pair.a.pd, buf_a, sizeof buf_a, IBV_ACCESS_LOCAL_WRITE);
    for (unsigned i = 0; i < 5; i++) {
        sges[i] = (struct ibv_sge){(uintptr_t)buf_a + at, lengths[i], own->stag};
        at += lengths[i] + 10;
    }
    const struct diwarp_send_wr wr = {
        .wr = {.wr_id = 5,
               .sg_list = sges,
               .num_sge = 5,
               .opcode = IBV_WR_RDMA_READ,
               .send_flags = IBV_SEND_SIGNALED,
               .wr.rdma = {.remote_addr = (uintptr_t)buf_b, .rkey = pair.mr->stag}},
        .ah = pair.ab};
    memset(buf_a, 0xee, at);
    fill(buf_b, 6000, 4);
    assert_int_equal(diwarp_post_send(pair.a.qp, &wr), 0);
    RUN_UNTIL(pair.a.reads == 1, &pair.a, &pair.b);
    const uint8_t *from = buf_b;
    for (unsigned i = 0; i < 5; i++) {
        const uint8_t *to = (const uint8_t *)(uintptr_t)sges[i].addr;
        assert_memory_equal(to, from, lengths[i]);
        assert_int_equal(to[lengths[i]], 0xee);
        from += lengths[i];
    }
    diwarp_dereg_mr(own);
    pair_close(&pair);
}

static void ud_read__posts_are_checked(void **state)
{
    (void)state;
    struct pair pair;
    struct diwarp_qp_attr attr = attr_of(20000 * MS);
    attr.max_reads = 3;
    pair_open_as(&pair, &attr, DIWARP_AUTH_OFF);
    struct diwarp_mr *constant = diwarp_reg_mr(pair.a.pd, buf_a, 10, 0);
    struct ibv_sge sge = {.addr = (uintptr_t)buf_a, .length = 10, .lkey = constant->stag};
    struct diwarp_send_wr wr = {.wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ},
                                .ah = pair.ab};
    assert_int_equal(diwarp_post_send(pair.a.qp, &wr), -EACCES);
    assert_int_equal(post_read(&pair, 0, 0, 0), -EINVAL);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(post_read(&pair, 10, i, 0), 0);
    assert_int_equal(post_read(&pair, 10, 3, 0), -ENOMEM);
    RUN_UNTIL(pair.a.reads == 3, &pair.a, &pair.b);
    assert_int_equal(post_read(&pair, 10, 3, 0), 0);
    RUN_UNTIL(pair.a.reads == 4, &pair.a, &pair.b);
    diwarp_dereg_mr(constant);
    pair_close(&pair);
}

/* Each other's, which need not be the same. */
static void ud_read__queue_pairs_with_other_q_keys(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, 50 * MS);
    diwarp_set_qkey(pair.a.qp, 0x80000001);
    diwarp_set_qkey(pair.b.qp, 77);
    struct ibv_sge sge = {.addr = (uintptr_t)buf_a, .length = 5000};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = IBV_WR_RDMA_READ,
               .imm_data = 77,
               .send_flags = IBV_SEND_SIGNALED | DIWARP_SEND_QKEY,
               .wr.rdma = {.remote_addr = (uintptr_t)buf_b, .rkey = pair.mr->stag}},
        .ah = pair.ab};
    diwarp_set_read_time(pair.a.qp, 20000 * MS);
    fill(buf_b, 5000, 9);
    assert_int_equal(diwarp_post_send(pair.a.qp, &wr), 0);
    RUN_UNTIL(pair.a.reads == 1, &pair.a, &pair.b);
    assert_filled(buf_a, 5000, 9);
    diwarp_set_read_time(pair.a.qp, 50 * MS);
    assert_int_equal(post_read(&pair, 10, 3, 0), 0); /* by its own */
    RUN_UNTIL(pair.a.errors == 1, &pair.a, &pair.b);
    assert_int_equal(pair.b.counters->drop_qkey, 1);
    pair_close(&pair);
}

/* ---- what is not ---------------------------------------------------------------------------- */

/* Who asks for what it may not read is not told: its time-out is. */
static void ud_read__without_the_right__expires(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, 30 * MS);
    struct diwarp_mr *own = pair.mr;
    struct diwarp_mr *closed =
        diwarp_reg_mr(pair.b.pd, buf_b, PIECE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct diwarp_mr *bound = diwarp_reg_mr(pair.b.pd, buf_b, PIECE, REMOTE);
    const struct diwarp_mr unknown = {.addr = buf_b, .stag = own->stag + 1};
    diwarp_bind_mr(bound, (struct diwarp_name){7, 3});
    const struct diwarp_mr *const mrs[] = {closed, bound, &unknown, own};
    memset(buf_a, 0xee, PIECE);
    for (unsigned i = 0; i < 4; i++) {
        const uint64_t offset = mrs[i] == own ? sizeof buf_b - PIECE + 1 : 0;
        assert_int_equal(
            post(&pair.a, pair.ab, IBV_WR_RDMA_READ, buf_a, PIECE, 0, i, mrs[i], offset), 0);
        RUN_UNTIL(pair.a.errors == i + 1, &pair.a, &pair.b);
        assert_int_equal(pair.a.last_error.wc.status, IBV_WC_RESP_TIMEOUT_ERR);
        assert_int_equal(pair.a.last_error.wc.wr_id, i);
        assert_int_equal(pair.b.counters->drop_stag, i + 1);
    }
    assert_int_equal(buf_a[0] & buf_a[PIECE - 1], 0xee);
    assert_int_equal(pair.a.counters->reads_expired, 4);
    diwarp_dereg_mr(closed);
    diwarp_dereg_mr(bound);
    pair_close(&pair);
}

static void put_request(struct forger *forger, uint32_t msn, uint32_t stag, uint32_t size,
                        uint32_t id, size_t bytes)
{
    const struct dw_read_request request = {.sink_stag = 1,
                                            .size = size,
                                            .source_stag = stag,
                                            .source_to = (uintptr_t)buf_b,
                                            .record_id = id};
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_READ_REQUEST, .qn = DW_QN_REQUEST, .msn = msn};
    uint8_t buf[DW_READ_REQUEST_BYTES + 1] = {0};
    dw_read_request_put(buf, &request);
    forge_begin(forger);
    forge_segment(forger, &ddp, buf, bytes, NULL, 0);
    forge_send(forger);
}

static void ud_request__malformed__dropped_and_counted(void **state)
{
    (void)state;
    static struct forger forger;
    struct dw_llp_header header;
    struct pair pair;
    pair_open(&pair, 50 * MS);
    forger_open(&forger, &pair.b.address, DW_LLP_UD, FORGER_RANK);
    uint64_t dropped = 0;
    const struct {
        uint32_t size, id;
        size_t bytes;
        bool intro;
    } cases[] = {
        {1, 1, DW_READ_REQUEST_BYTES, false},      {0, 1, DW_READ_REQUEST_BYTES, true},
        {1, 0, DW_READ_REQUEST_BYTES, true},       {1, 1u << 31, DW_READ_REQUEST_BYTES, true},
        {1, 1, DW_READ_REQUEST_BYTES - 1, true},   {1, 1, DW_READ_REQUEST_BYTES + 1, true},
        {1u << 31, 1, DW_READ_REQUEST_BYTES, true}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        forger.header.flags = cases[i].intro ? DW_LLP_INTRO : 0;
        put_request(&forger, i, pair.mr->stag, cases[i].size, cases[i].id, cases[i].bytes);
        RUN_UNTIL(pair.b.counters->drop_header == dropped + 1, &pair.b);
        dropped++;
    }
    put_request(&forger, 20, pair.mr->stag, 1, 1, DW_READ_REQUEST_BYTES);
    RUN_UNTIL(pair.b.counters->tx_answers == 1, &pair.b);
    assert_true(forger_hear(&forger, &header, 10000));
    assert_int_equal(header.type, DW_LLP_UD);
    assert_int_equal(header.dst_qpn, forger.header.src_qpn);
    /* The same once more. */
    put_request(&forger, 20, pair.mr->stag, 1, 1, DW_READ_REQUEST_BYTES);
    RUN_UNTIL(pair.b.counters->rx_dup_datagrams == 1, &pair.b);
    assert_int_equal(pair.b.counters->tx_answers, 1);
    forger_close(&forger);
    pair_close(&pair);
}

/* One that asks for much keeps neither room nor turns from another. Nothing is polled between. */
static void ud_request__greedy_source__leaves_room(void **state)
{
    (void)state;
    static struct forger greedy, other;
    struct diwarp_qp_attr attr = attr_of(50 * MS);
    struct pair pair;
    attr.max_answers = 8;
    pair_open_as(&pair, &attr, DIWARP_AUTH_OFF);
    forger_open(&greedy, &pair.b.address, DW_LLP_UD, FORGER_RANK);
    forger_open(&other, &pair.b.address, DW_LLP_UD, FORGER_RANK + 1);
    greedy.header.flags = other.header.flags = DW_LLP_INTRO;
    for (uint32_t i = 0; i < 40; i++) {
        greedy.header.number = i;
        put_request(&greedy, i, pair.mr->stag, sizeof buf_b, i + 1, DW_READ_REQUEST_BYTES);
    }
    RUN_UNTIL(pair.b.counters->drop_read, &pair.b);
    put_request(&other, 1, pair.mr->stag, 10, 1, DW_READ_REQUEST_BYTES);
    struct dw_llp_header header;
    RUN_UNTIL(forger_hear(&other, &header, 0), &pair.b);
    RUN_UNTIL(pair.b.counters->tx_answers + pair.b.counters->drop_read == 41, &pair.b);
    forger_close(&greedy);
    forger_close(&other);
    pair_close(&pair);
}

/* ---- what ends it --------------------------------------------------------------------------- */

/* A run sends part of an answer; all of it, perhaps, where none has run for long, as when its
 * process was without a core: then there is another read. */
static void answer_in_part(struct pair *pair)
{
    for (unsigned i = 0; i < 100; i++) {
        node_poll(&pair->b);
        const uint64_t before = pair->b.counters->tx_bytes;
        assert_int_equal(post_read(pair, sizeof buf_b, 1, 0), 0);
        RUN_UNTIL(pair->b.counters->tx_bytes > before, &pair->b);
        if (pair->b.counters->tx_bytes - before < sizeof buf_b)
            return;
        RUN_UNTIL(pair->a.reads + pair->a.errors == i + 1, &pair->a);
    }
    fail_msg("every answer went whole");
}

/* The answer ends where the key does. */
static void ud_answer__of_memory_deregistered_meanwhile(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, 100 * MS);
    answer_in_part(&pair);
    const uint64_t sent = pair.b.counters->tx_bytes;
    const unsigned errors = pair.a.errors;
    diwarp_dereg_mr(pair.mr);
    pair.mr = NULL;
    RUN_UNTIL(pair.a.errors > errors, &pair.a, &pair.b);
    assert_int_equal(pair.a.last_error.wc.status, IBV_WC_RESP_TIMEOUT_ERR);
    assert_int_equal(pair.b.counters->tx_bytes, sent);
    assert_int_equal(pair.b.counters->drop_stag, 1);
    pair_close(&pair);
}

/* Queue pairs that go amid reads and answers, while others of their ports stay. */
static void ud_read__queue_pairs_destroyed_amid_it(void **state)
{
    (void)state;
    struct diwarp_qp_attr attr = attr_of(20000 * MS);
    struct diwarp_qp *others[2];
    struct pair pair;
    pair_open(&pair, 20000 * MS);
    attr.cq = pair.a.cq;
    assert_int_equal(diwarp_create_qp(pair.a.pd, &attr, &others[0], NULL), 0);
    attr.cq = pair.b.cq;
    assert_int_equal(diwarp_create_qp(pair.b.pd, &attr, &others[1], NULL), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(post_read(&pair, sizeof buf_b, i, 0), 0);
    RUN_UNTIL(pair.b.counters->tx_datagrams, &pair.b);
    node_destroy_qp(&pair.b);
    node_destroy_qp(&pair.a);
    RUN_FOR(20 * MS, &pair.a, &pair.b);
    assert_int_equal(pair.a.reads + pair.a.errors, 0);
    diwarp_destroy_qp(others[0]);
    diwarp_destroy_qp(others[1]);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ud_read__of_one_and_many_datagrams),
        cmocka_unit_test(ud_read__into_several_elements),
        cmocka_unit_test(ud_read__posts_are_checked),
        cmocka_unit_test(ud_read__queue_pairs_with_other_q_keys),
        cmocka_unit_test(ud_read__without_the_right__expires),
        cmocka_unit_test(ud_request__malformed__dropped_and_counted),
        cmocka_unit_test(ud_request__greedy_source__leaves_room),
        cmocka_unit_test(ud_answer__of_memory_deregistered_meanwhile),
        cmocka_unit_test(ud_read__queue_pairs_destroyed_amid_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
