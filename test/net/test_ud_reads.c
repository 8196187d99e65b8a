/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read over UD on real sockets of 127.0.0.1: what is read, by whom and how much of it at once,
 * what ends a read, and what is told of one that has expired. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/forge.h"
#include "test/net/node.h"
#include "common/include/diwarp_ud.h"

#define FORGER_RANK 9
#define REMOTE      (IBV_ACCESS_REMOTE_READ)
#define PIECE       1000

static uint8_t buf_a[1 << 20], buf_b[1 << 20];

struct pair {
    struct node a, b; /* a reads of b's buf_b */
    struct diwarp_ah *ab;
    struct diwarp_mr *mr;
};

static void pair_open_as(struct pair *pair, const struct diwarp_qp_attr *qp_attr,
                         enum diwarp_auth auth)
{
    struct diwarp_device_attr attr = loopback_attr(1);
    attr.datagram_max_bytes = 1472;
    attr.rcvbuf_bytes = 1 << 20;
    attr.auth = auth;
    node_open(&pair->a, &attr, qp_attr);
    attr.name.rank = 2;
    node_open(&pair->b, &attr, qp_attr);
    pair->ab = node_ah(&pair->a, &pair->b);
    pair->mr = diwarp_reg_mr(pair->b.pd, buf_b, sizeof buf_b, REMOTE);
    assert_non_null(pair->mr);
}

static struct diwarp_qp_attr attr_of(uint64_t read_time_ns)
{
    struct diwarp_qp_attr attr = qp_attr_of(DIWARP_QPT_UD);
    attr.read_time_ns = read_time_ns;
    return attr;
}

static void pair_open(struct pair *pair, uint64_t read_time_ns)
{
    const struct diwarp_qp_attr attr = attr_of(read_time_ns);
    pair_open_as(pair, &attr, DIWARP_AUTH_OFF);
}

static void pair_close(struct pair *pair)
{
    node_destroy_qp(&pair->a);
    node_destroy_qp(&pair->b);
    diwarp_destroy_ah(pair->ab);
    if (pair->mr)
        diwarp_dereg_mr(pair->mr);
    node_close(&pair->a);
    node_close(&pair->b);
}

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

/* ---- a responder that is a forger ----------------------------------------------------------- */

struct mute {
    struct pair pair; /* b is not used */
    struct forger forger;
    struct diwarp_ah *ah;
};

static void mute_open(struct mute *mute, const struct diwarp_qp_attr *attr)
{
    pair_open_as(&mute->pair, attr, DIWARP_AUTH_OFF);
    forger_open(&mute->forger, &mute->pair.a.address, DW_LLP_UD, FORGER_RANK);
    const struct diwarp_address address = forger_address(&mute->forger, &mute->pair.a.address);
    mute->forger.header.src_qpn = address.qpn;
    assert_int_equal(diwarp_create_ah(mute->pair.a.qp, &address, &mute->ah), 0);
}

static void mute_close(struct mute *mute)
{
    diwarp_destroy_ah(mute->ah);
    forger_close(&mute->forger);
    pair_close(&mute->pair);
}

static int mute_post(struct mute *mute, uint32_t bytes, uint64_t wr_id)
{
    return post(&mute->pair.a, mute->ah, IBV_WR_RDMA_READ, buf_a, bytes, 0, wr_id, mute->pair.mr,
                0);
}

static struct dw_read_request mute_hear(struct mute *mute)
{
    struct dw_read_request request;
    struct pollfd fd = {.fd = mute->forger.fd, .events = POLLIN};
    uint8_t buf[2048];
    assert_int_equal(poll(&fd, 1, 10000), 1);
    const ssize_t n = recv(mute->forger.fd, buf, sizeof buf, 0);
    const size_t at =
        DW_LLP_HEADER_BYTES + DW_INTRO_BYTES + DW_SEGMENT_LEN_BYTES + DW_DDP_UNTAGGED_BYTES;
    assert_int_equal(n, at + DW_READ_REQUEST_BYTES + DW_CRC_BYTES);
    assert_true(buf[1] & DW_LLP_INTRO);
    assert_int_equal(dw_read_request_get(&request, buf + at, DW_READ_REQUEST_BYTES), 0);
    return request;
}

static void mute_answer(struct mute *mute, const struct dw_read_request *request, uint32_t offset,
                        uint32_t total, uint32_t bytes)
{
    forge_begin(&mute->forger);
    forge_write_record(&mute->forger, request->record_id, request->sink_stag, request->sink_to,
                       offset, total, buf_b + offset, bytes);
    forge_send(&mute->forger);
}

/* What came of it can be asked, before and after it has expired; what comes later is dropped. */
static void ud_read__partly_answered__map_tells(void **state)
{
    (void)state;
    static struct mute mute;
    struct node *a = &mute.pair.a;
    const struct diwarp_qp_attr attr = attr_of(300 * MS);
    struct diwarp_read_info info;
    struct diwarp_range ranges[4];
    mute_open(&mute, &attr);
    fill(buf_b, 4 * PIECE, 1);
    memset(buf_a, 0xee, 4 * PIECE);
    assert_int_equal(mute_post(&mute, 4 * PIECE, 8), 0);
    const struct dw_read_request request = mute_hear(&mute);
    assert_int_equal(request.size, 4 * PIECE);
    assert_int_equal(request.source_to, (uintptr_t)buf_b);
    mute_answer(&mute, &request, 0, 4 * PIECE, PIECE);
    mute_answer(&mute, &request, 2 * PIECE, 4 * PIECE, PIECE);
    mute_answer(&mute, &request, 2 * PIECE, 4 * PIECE, PIECE); /* twice */
    RUN_UNTIL(a->counters->rx_record_segments == 3, a);
    assert_int_equal(diwarp_query_read(a->qp, 8, &info), 0);
    assert_true(info.active && info.length == 4 * PIECE && info.valid_bytes == 2 * PIECE);
    assert_int_equal(diwarp_query_read(a->qp, 9, &info), -ENOENT);
    RUN_UNTIL(a->errors == 1, a);
    assert_int_equal(a->last_error.wc.status, IBV_WC_RESP_TIMEOUT_ERR);
    assert_int_equal(a->last_error.wc.byte_len, 2 * PIECE);
    mute_answer(&mute, &request, PIECE, 4 * PIECE, PIECE);
    RUN_UNTIL(a->counters->drop_stale_record == 1, a);
    assert_int_equal(buf_a[PIECE], 0xee);
    assert_int_equal(diwarp_query_read(a->qp, 8, &info), 0);
    assert_true(!info.active && info.valid_bytes == 2 * PIECE);
    assert_int_equal(diwarp_read_ranges(a->qp, 8, ranges, 1), 2);
    assert_int_equal(diwarp_read_ranges(a->qp, 8, ranges, 4), 2);
    assert_true(ranges[0].start == 0 && ranges[0].end == PIECE);
    assert_true(ranges[1].start == 2 * PIECE && ranges[1].end == 3 * PIECE);
    assert_memory_equal(buf_a, buf_b, PIECE);
    assert_memory_equal(buf_a + 2 * PIECE, buf_b + 2 * PIECE, PIECE);
    mute_close(&mute);
}

/* Only the one who was asked, by the key of this read, for the bytes of this read. */
static void ud_read__answer_of_another_kind__dropped(void **state)
{
    (void)state;
    static struct mute mute;
    struct node *a = &mute.pair.a;
    const struct diwarp_qp_attr attr = attr_of(20000 * MS);
    mute_open(&mute, &attr);
    memset(buf_a, 0xee, PIECE);
    fill(buf_b, PIECE, 2);
    assert_int_equal(mute_post(&mute, PIECE, 8), 0);
    const struct dw_read_request request = mute_hear(&mute);
    struct dw_read_request bad[] = {request, request, request};
    bad[0].sink_stag++;
    bad[1].sink_to++;
    bad[2].record_id++;
    for (unsigned i = 0; i < 3; i++)
        mute_answer(&mute, &bad[i], 0, PIECE, PIECE);
    mute_answer(&mute, &request, 0, PIECE + 1, PIECE);
    RUN_UNTIL(a->counters->drop_stag == 3 && a->counters->drop_stale_record == 1, a);
    mute.forger.header.rank++;
    mute_answer(&mute, &request, 0, PIECE, PIECE);
    mute.forger.header.rank--;
    mute.forger.header.src_qpn++;
    mute_answer(&mute, &request, 0, PIECE, PIECE);
    mute.forger.header.src_qpn--;
    RUN_UNTIL(a->counters->drop_stale_record == 3, a);
    assert_int_equal(buf_a[0] & buf_a[PIECE - 1], 0xee);
    assert_int_equal(a->reads + a->errors, 0);
    mute_answer(&mute, &request, 0, PIECE, PIECE);
    RUN_UNTIL(a->counters->rx_record_segments == 1, a);
    assert_filled(buf_a, PIECE, 2);
    mute_close(&mute);
}

/* max_reads of those that have expired are remembered, the newest. */
static void ud_read__expired__remembered_until_others_have(void **state)
{
    (void)state;
    static struct mute mute;
    struct node *a = &mute.pair.a;
    struct diwarp_qp_attr attr = attr_of(1);
    struct diwarp_read_info info;
    attr.max_reads = 2;
    mute_open(&mute, &attr);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(mute_post(&mute, PIECE, 8 + i), 0);
        RUN_UNTIL(a->errors == i + 1, a);
        assert_int_equal(diwarp_query_read(a->qp, 8 + i, &info), 0);
        assert_int_equal(info.valid_bytes, 0);
        assert_int_equal(diwarp_query_read(a->qp, 6 + i, &info), -ENOENT);
    }
    mute_close(&mute);
}

/* Deadlines that were told in another order are met in theirs; the sleep ends with the first. */
static void ud_read__sleeper_wakes_for_the_first_deadline(void **state)
{
    (void)state;
    static struct mute mute;
    static const uint64_t times_ns[] = {20000 * MS, 40 * MS, 400 * MS};
    struct node *a = &mute.pair.a;
    const struct diwarp_qp_attr attr = attr_of(1);
    struct diwarp_wc wc;
    mute_open(&mute, &attr);
    const uint64_t start_ns = clock_ns();
    for (unsigned i = 0; i < 3; i++) {
        diwarp_set_read_time(a->qp, times_ns[i]);
        assert_int_equal(mute_post(&mute, PIECE, i), 0);
    }
    assert_int_equal(diwarp_wait_cq(a->cq, 1, &wc, WAIT_NS), 1);
    assert_int_equal(wc.wc.wr_id, 1);
    assert_true(clock_ns() - start_ns >= 40 * MS && clock_ns() - start_ns < 20000 * MS);
    assert_int_equal(diwarp_wait_cq(a->cq, 1, &wc, WAIT_NS), 1);
    assert_int_equal(wc.wc.wr_id, 2);
    assert_true(clock_ns() - start_ns >= 400 * MS && clock_ns() - start_ns < 20000 * MS);
    mute_close(&mute);
}

/* What has come while nobody polled is read before a deadline is looked at. */
static void ud_read__absent_reader__takes_what_has_come(void **state)
{
    (void)state;
    static struct mute mute;
    struct node *a = &mute.pair.a;
    const struct diwarp_qp_attr attr = attr_of(10 * MS);
    struct dw_read_request requests[40];
    mute_open(&mute, &attr);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(mute_post(&mute, PIECE, i), 0);
        requests[i] = mute_hear(&mute);
    }
    for (unsigned i = 0; i < 40; i++)
        mute_answer(&mute, &requests[i], 0, PIECE, PIECE);
    const uint64_t start_ns = clock_ns();
    while (clock_ns() - start_ns < 50 * MS)
        ;
    RUN_UNTIL(a->counters->rx_record_segments == 40, a);
    assert_int_equal(a->errors, 0);
    assert_int_equal(diwarp_query_read(a->qp, 39, &(struct diwarp_read_info){0}), -ENOENT);
    mute_close(&mute);
}

/* ---- what ends it --------------------------------------------------------------------------- */

static void ud_read__into_memory_deregistered_meanwhile(void **state)
{
    (void)state;
    static struct mute mute;
    struct node *a = &mute.pair.a;
    const struct diwarp_qp_attr attr = attr_of(20000 * MS);
    mute_open(&mute, &attr);
    struct diwarp_mr *gone = diwarp_reg_mr(a->pd, buf_a, PIECE, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = {.addr = (uintptr_t)buf_a, .length = PIECE, .lkey = gone->stag};
    const struct diwarp_send_wr wr = {
        .wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ},
        .ah = mute.ah};
    memset(buf_a, 0xee, PIECE);
    assert_int_equal(diwarp_post_send(a->qp, &wr), 0);
    const struct dw_read_request request = mute_hear(&mute);
    diwarp_dereg_mr(gone);
    mute_answer(&mute, &request, 0, PIECE, PIECE / 2);
    RUN_UNTIL(a->errors == 1, a);
    assert_int_equal(a->last_error.wc.status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(buf_a[0], 0xee);
    mute_answer(&mute, &request, PIECE / 2, PIECE, PIECE / 2);
    RUN_UNTIL(a->counters->drop_stale_record == 1, a);
    mute_close(&mute);
}

/* The answer ends where the key does: a run sends no more than its part of it. */
static void ud_answer__of_memory_deregistered_meanwhile(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, 100 * MS);
    assert_int_equal(post_read(&pair, sizeof buf_b, 1, 0), 0);
    RUN_UNTIL(pair.b.counters->tx_datagrams, &pair.b);
    const uint64_t sent = pair.b.counters->tx_bytes;
    assert_true(sent < sizeof buf_b);
    diwarp_dereg_mr(pair.mr);
    pair.mr = NULL;
    RUN_UNTIL(pair.a.errors == 1, &pair.a, &pair.b);
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
        cmocka_unit_test(ud_read__partly_answered__map_tells),
        cmocka_unit_test(ud_read__answer_of_another_kind__dropped),
        cmocka_unit_test(ud_read__expired__remembered_until_others_have),
        cmocka_unit_test(ud_read__sleeper_wakes_for_the_first_deadline),
        cmocka_unit_test(ud_read__absent_reader__takes_what_has_come),
        cmocka_unit_test(ud_read__into_memory_deregistered_meanwhile),
        cmocka_unit_test(ud_answer__of_memory_deregistered_meanwhile),
        cmocka_unit_test(ud_read__queue_pairs_destroyed_amid_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
