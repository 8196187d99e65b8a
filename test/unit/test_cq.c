/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: order, growth, several QPs on one, and what a poll leaves for the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/rnic/qp.h"
#include "common/wire/rdmap.h"
#include "test/net/node.h"

static void push(struct diwarp_cq *cq, uint64_t first, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct diwarp_wc wc = {.wc = {.wr_id = first + i}};
        dw_cq_push(cq, &wc);
    }
}

static void take(struct diwarp_cq *cq, uint64_t first, unsigned n)
{
    struct diwarp_wc wc[512];

    assert_int_equal(diwarp_poll_cq(cq, n, wc), n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(wc[i].wc.wr_id, first + i);
}

static void cq__keeps_the_order_while_it_grows(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_device *device;
    struct diwarp_wc wc;

    assert_int_equal(diwarp_open_device(&attr, &device, NULL), 0);
    struct diwarp_cq *cq = diwarp_create_cq(device, 1);
    assert_int_equal(diwarp_poll_cq(cq, 1, &wc), 0);
    push(cq, 0, 60);
    take(cq, 0, 50);
    push(cq, 60, 300); /* wraps, then grows twice */
    assert_int_equal(diwarp_poll_cq(cq, 0, &wc), 0);
    take(cq, 50, 200);
    take(cq, 250, 110);
    assert_int_equal(diwarp_poll_cq(cq, 1, &wc), 0);
    diwarp_destroy_cq(cq);
    diwarp_close_device(device);
}

static void wc_status__of_what_came_on_the_wire(void **state)
{
    (void)state;
    assert_int_equal(dw_wc_status(DW_STATUS_OK), IBV_WC_SUCCESS);
    assert_int_equal(dw_wc_status(DW_STATUS_BAD_STAG), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(dw_wc_status(DW_STATUS_NO_RESOURCE), IBV_WC_RNR_RETRY_EXC_ERR);
    assert_int_equal(dw_wc_status(DW_STATUS_CANCELLED), IBV_WC_REM_ABORT_ERR);
    assert_int_equal(dw_wc_status(200), IBV_WC_REM_ABORT_ERR);
}

/* Of a pair of QPs on one CQ one is never idle: the other gets its turn all the same, and the room
 * for more than its arena holds. */
static void cq__of_two_qps_serves_both(void **state)
{
    (void)state;
    enum { OTHERS = 100, BYTES = 20000 };
    static uint8_t message[BYTES];
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct diwarp_address address;
    struct diwarp_ah *to_busy, *to_other = NULL;
    struct diwarp_qp *other;
    struct diwarp_wc wc[16];
    struct node a, b, c;
    unsigned busy = 0, others = 0;

    node_open_default(&a, 1, DIWARP_QPT_RD);
    node_open_default(&b, 2, DIWARP_QPT_RD);
    node_open_default(&c, 3, DIWARP_QPT_RD);
    qp_attr.cq = b.cq;
    assert_int_equal(diwarp_create_qp(b.pd, &qp_attr, &other, NULL), 0);
    diwarp_query_address(other, &address);
    to_busy = node_ah(&a, &b);
    assert_int_equal(diwarp_create_ah(c.qp, &address, &to_other), 0);
    for (unsigned i = 0; i < OTHERS; i++)
        assert_int_equal(post(&c, to_other, IBV_WR_SEND, message, BYTES, 0, 0, NULL, 0), 0);
    for (unsigned round = 0; round < 200000 && !(others == OTHERS && busy > 1000); round++) {
        (void)post(&a, to_busy, IBV_WR_SEND, "busy", 4, 0, 0, NULL, 0);
        node_poll(&a);
        node_poll(&c);
        int n = diwarp_poll_cq(b.cq, 16, wc);
        for (int i = 0; i < n; i++) {
            busy += wc[i].wc.byte_len == 4;
            others += wc[i].wc.byte_len == BYTES;
        }
    }
    assert_true(busy > 1000);
    assert_int_equal(others, OTHERS);
    diwarp_destroy_ah(to_busy);
    diwarp_destroy_ah(to_other);
    diwarp_destroy_qp(other);
    node_close(&a);
    node_close(&b);
    node_close(&c);
}

/* What a completion points to stays until all of its poll was taken. */
static void poll__few_at_a_time(void **state)
{
    (void)state;
    struct diwarp_wc wc;
    struct node a, b;
    unsigned got = 0;

    node_open_default(&a, 1, DIWARP_QPT_RD);
    node_open_default(&b, 2, DIWARP_QPT_RD);
    struct diwarp_ah *ah = node_ah(&a, &b);
    for (uint32_t i = 0; i < 100; i++)
        assert_true(post(&a, ah, IBV_WR_SEND, &i, sizeof i, IBV_SEND_INLINE, 0, NULL, 0) == 0);
    for (uint64_t end_ns = clock_ns() + WAIT_NS; got < 100 && clock_ns() < end_ns;) {
        node_poll(&a);
        if (diwarp_poll_cq(b.cq, 1, &wc) == 1) {
            uint32_t i;
            assert_int_equal(wc.wc.byte_len, sizeof i);
            memcpy(&i, wc.data, sizeof i);
            assert_int_equal(i, got);
            got++;
        }
    }
    assert_int_equal(got, 100);
    diwarp_destroy_ah(ah);
    node_close(&a);
    node_close(&b);
}

/* Without polls the RNIC still runs, acknowledges, and keeps what came for the next poll. */
static void run_cq__hands_nothing_out(void **state)
{
    (void)state;
    static uint32_t messages[50][7500]; /* one datagram each */
    struct diwarp_wc wc;
    struct node a, b;

    node_open_default(&a, 1, DIWARP_QPT_RD);
    node_open_default(&b, 2, DIWARP_QPT_RD);
    struct diwarp_ah *ah = node_ah(&a, &b);
    for (uint32_t i = 0; i < 50; i++) {
        unsigned sends = a.sends;
        messages[i][0] = i;
        assert_int_equal(post(&a, ah, IBV_WR_SEND, messages[i], sizeof messages[i],
                              IBV_SEND_SIGNALED, 0, NULL, 0),
                         0);
        for (uint64_t end_ns = clock_ns() + WAIT_NS; a.sends == sends && clock_ns() < end_ns;) {
            (void)diwarp_run_cq(b.cq);
            node_poll(&a);
            if (i >= 30) /* beyond what it keeps: refused, to come again */
                break;
        }
        assert_true(a.sends == sends + 1 || i >= 30);
    }
    bool seen[50] = {false};
    for (uint32_t i = 0; i < 50; i++) { /* RD does not order */
        uint32_t value;
        do {
            node_poll(&a);
        } while (diwarp_poll_cq(b.cq, 1, &wc) == 0);
        memcpy(&value, wc.data, sizeof value);
        assert_true(value < 50 && !seen[value]);
        seen[value] = true;
    }
    assert_true(diwarp_query_counters(b.qp)->drop_no_buffer > 0);
    diwarp_destroy_ah(ah);
    node_close(&a);
    node_close(&b);
}

/* What they point to goes with their QP; those of the other QPs stay. */
static void destroy_qp__its_completions_go(void **state)
{
    (void)state;
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct diwarp_address address;
    struct diwarp_ah *to_b, *to_other = NULL;
    struct diwarp_qp *other;
    struct diwarp_wc wc[8];
    struct node a, b;

    node_open_default(&a, 1, DIWARP_QPT_RD);
    node_open_default(&b, 2, DIWARP_QPT_RD);
    qp_attr.cq = b.cq;
    assert_int_equal(diwarp_create_qp(b.pd, &qp_attr, &other, NULL), 0);
    diwarp_query_address(other, &address);
    to_b = node_ah(&a, &b);
    assert_int_equal(diwarp_create_ah(a.qp, &address, &to_other), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(post(&a, to_other, IBV_WR_SEND, "other", 5, 0, 0, NULL, 0), 0);
        assert_int_equal(post(&a, to_b, IBV_WR_SEND, "b", 1, 0, 0, NULL, 0), 0);
        for (uint64_t end_ns = clock_ns() + WAIT_NS;
             b.cq->ring.count < 2 * (i + 1) && clock_ns() < end_ns;) {
            (void)diwarp_run_cq(b.cq);
            node_poll(&a);
        }
    }
    assert_int_equal(b.cq->ring.count, 6);
    diwarp_destroy_qp(other);
    assert_int_equal(diwarp_poll_cq(b.cq, 8, wc), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_memory_equal(wc[i].data, "b", 1);
    diwarp_destroy_ah(to_b);
    diwarp_destroy_ah(to_other);
    node_close(&a);
    node_close(&b);
}

enum use { RUN, POLL, POST, RESERVE, USES };

static void use(struct node *a, struct diwarp_ah *ah, enum use how)
{
    uint64_t word = 0;
    struct diwarp_wc wc;

    if (how == RUN) {
        (void)diwarp_run_cq(a->cq);
    } else if (how == POLL) {
        (void)diwarp_poll_cq(a->cq, 1, &wc);
    } else if (how == POST) {
        assert_int_equal(post(a, ah, IBV_WR_SEND, &word, sizeof word, 0, 0, NULL, 0), 0);
    } else {
        assert_non_null(diwarp_send_reserve(a->qp, ah, sizeof word));
        diwarp_send_commit(a->qp, ah, 0);
    }
}

static void used__by_runs_polls_and_posts(void **state)
{
    (void)state;
    struct node a, b;

    node_open_default(&a, 1, DIWARP_QPT_RD);
    node_open_default(&b, 2, DIWARP_QPT_RD);
    struct diwarp_ah *ah = node_ah(&a, &b);
    const uint64_t end_ns = clock_ns() + WAIT_NS;
    for (enum use how = 0; how < USES; how++) {
        uint64_t run_ns, before_ns, used_ns;
        do { /* again where the thread was taken off its core in between: posts count for 1 ms */
            run_ns = clock_ns();
            use(&a, ah, RUN);
            before_ns = clock_ns();
            use(&a, ah, how);
            used_ns = clock_ns();
        } while (used_ns - run_ns > MS / 2 && used_ns < end_ns);
        assert_in_range(a.cq->used_ns, before_ns, used_ns);
    }
    diwarp_destroy_ah(ah);
    node_close(&a);
    node_close(&b);
}

/* Who only posts leaves the RNIC alone, and a helper has to see that. */
static void used__posts_without_a_run_count_for_a_while(void **state)
{
    (void)state;
    struct node a, b;

    node_open_default(&a, 1, DIWARP_QPT_RD);
    node_open_default(&b, 2, DIWARP_QPT_RD);
    struct diwarp_ah *ah = node_ah(&a, &b);
    use(&a, ah, RUN);
    for (uint64_t next_ns = clock_ns(), end_ns = next_ns + 3 * MS; next_ns < end_ns;) {
        use(&a, ah, POST);
        for (next_ns += MS / 20; clock_ns() < next_ns;)
            ;
    }
    assert_true(clock_ns() - a.cq->used_ns >= MS);
    diwarp_destroy_ah(ah);
    node_close(&a);
    node_close(&b);
}

/* The target of a write is told of nothing, but runs; when all is there, it may give way. */
static void busy__while_a_record_moves_without_completions(void **state)
{
    (void)state;
    static uint8_t from[16 << 20], to[16 << 20]; /* of many polls, however long each waits */
    struct diwarp_wc wc;
    struct node a, b;

    node_open_default(&a, 1, DIWARP_QPT_RD);
    node_open_default(&b, 2, DIWARP_QPT_RD);
    struct diwarp_ah *ah = node_ah(&a, &b);
    struct diwarp_mr *mr =
        diwarp_reg_mr(b.pd, to, sizeof to, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(mr);
    assert_false(diwarp_cq_busy(b.cq));
    memset(from, 7, sizeof from);
    assert_int_equal(
        post(&a, ah, IBV_WR_RDMA_WRITE, from, sizeof from, IBV_SEND_SIGNALED, 0, mr, 0), 0);
    unsigned busy = 0;
    for (uint64_t end_ns = clock_ns() + WAIT_NS; a.writes == 0 && clock_ns() < end_ns;) {
        node_poll(&a);
        assert_int_equal(diwarp_poll_cq(b.cq, 1, &wc), 0);
        busy += diwarp_cq_busy(b.cq);
    }
    assert_int_equal(a.writes, 1);
    assert_memory_equal(from, to, sizeof to);
    assert_true(busy > 1);
    for (uint64_t end_ns = clock_ns() + WAIT_NS; diwarp_cq_busy(b.cq) && clock_ns() < end_ns;) {
        node_poll(&a);
        assert_int_equal(diwarp_poll_cq(b.cq, 1, &wc), 0);
    }
    assert_false(diwarp_cq_busy(b.cq));
    diwarp_dereg_mr(mr);
    diwarp_destroy_ah(ah);
    node_close(&a);
    node_close(&b);
}

/* What waits for memory that others hold is nothing to keep the core for. */
static void busy__not_for_want_of_buffers(void **state)
{
    (void)state;
    enum { PEERS = 8, BYTES = 60000 };
    static uint8_t message[BYTES];
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct node a, peers[PEERS];
    struct diwarp_ah *ahs[PEERS];

    attr.send_pool_bytes = 256u << 10; /* four of these messages */
    node_open(&a, &attr, &qp_attr);
    for (unsigned i = 0; i < PEERS; i++) {
        node_open_default(&peers[i], 2 + i, DIWARP_QPT_RD);
        ahs[i] = node_ah(&a, &peers[i]);
        assert_int_equal(
            post(&a, ahs[i], IBV_WR_SEND, message, BYTES, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    }
    for (unsigned i = 0; i < 5; i++)
        node_poll(&a);
    assert_in_range(a.counters->tx_datagrams - a.counters->tx_probes, 1, PEERS - 1);
    assert_false(diwarp_cq_busy(a.cq));
    for (uint64_t end_ns = clock_ns() + WAIT_NS; a.sends < PEERS && clock_ns() < end_ns;) {
        node_poll(&a);
        for (unsigned i = 0; i < PEERS; i++)
            node_poll(&peers[i]);
    }
    assert_int_equal(a.sends, PEERS);
    for (unsigned i = 0; i < PEERS; i++) {
        diwarp_destroy_ah(ahs[i]);
        node_close(&peers[i]);
    }
    node_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(used__by_runs_polls_and_posts),
        cmocka_unit_test(cq__keeps_the_order_while_it_grows),
        cmocka_unit_test(wc_status__of_what_came_on_the_wire),
        cmocka_unit_test(cq__of_two_qps_serves_both),
        cmocka_unit_test(destroy_qp__its_completions_go),
        cmocka_unit_test(poll__few_at_a_time),
        cmocka_unit_test(run_cq__hands_nothing_out),
        cmocka_unit_test(busy__while_a_record_moves_without_completions),
        cmocka_unit_test(busy__not_for_want_of_buffers),
        cmocka_unit_test(used__posts_without_a_run_count_for_a_while),
    };

    return cmocka_run_group_tests_name("cq", tests, NULL, NULL);
}
