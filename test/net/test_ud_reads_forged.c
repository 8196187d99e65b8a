/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read over UD of a responder that is a forger: what is placed of its answers, when a read
 * expires, and what is told of one that has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/ud_read_pair.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ud_read__partly_answered__map_tells),
        cmocka_unit_test(ud_read__answer_of_another_kind__dropped),
        cmocka_unit_test(ud_read__expired__remembered_until_others_have),
        cmocka_unit_test(ud_read__sleeper_wakes_for_the_first_deadline),
        cmocka_unit_test(ud_read__absent_reader__takes_what_has_come),
        cmocka_unit_test(ud_read__into_memory_deregistered_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
