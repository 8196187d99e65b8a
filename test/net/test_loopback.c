/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The services of the RNIC over real sockets on 127.0.0.1, through the public API: two devices in
 * one process that poll in turns, or one that talks to itself; all of RD under each set of
 * switches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "test/net/rd_pair.h"

/* ---- RD: sends ---------------------------------------------------------------------------- */

static const uint32_t send_sizes[] = {0,    1,    7,    64,    1023,  1400,  1408,  1409,
                                      1472, 2048, 4096, 16384, 32768, 64999, 65000, 65536};
#define SEND_SIZES (sizeof send_sizes / sizeof *send_sizes)

/* The immediate data says which message it is: they come in any order. */
static void check_message(struct node *node, const struct diwarp_wc *wc)
{
    unsigned *seen = node->arg;

    if (wc->wc.opcode != IBV_WC_RECV)
        return;
    uint32_t id = wc->wc.imm_data;
    assert_true(wc->wc.wc_flags & IBV_WC_WITH_IMM);
    assert_true(id < SEND_SIZES);
    assert_int_equal(wc->wc.byte_len, send_sizes[id]);
    assert_int_equal(wc->src.rank, 1);
    assert_filled(wc->data, wc->wc.byte_len, id);
    seen[id]++;
}

static int post_message(struct pair *pair, uint32_t id, uint8_t *buf, unsigned flags)
{
    struct ibv_sge sge[2] = {{.addr = (uintptr_t)buf, .length = send_sizes[id] / 3},
                             {.addr = (uintptr_t)buf + send_sizes[id] / 3,
                              .length = send_sizes[id] - send_sizes[id] / 3}};
    struct diwarp_send_wr wr = {
        .wr = {.wr_id = id,
               .sg_list = sge,
               .num_sge = 2,
               .opcode = IBV_WR_SEND_WITH_IMM,
               .send_flags = flags,
               .imm_data = id},
        .ah = pair->ab,
    };

    fill(buf, send_sizes[id], id);
    return diwarp_post_send(pair->a.qp, &wr);
}

/* Each size by each way of sending it. */
static void check_sends(struct pair *pair)
{
    unsigned seen[SEND_SIZES] = {0}, expected = 0;
    struct node *a = &pair->a, *b = pair->b;

    b->on_wc = check_message;
    b->arg = seen;
    for (uint32_t id = 0; id < SEND_SIZES; id++) {
        unsigned sent = a->sends;
        assert_int_equal(post_message(pair, id, source, IBV_SEND_SIGNALED), 0);
        RUN_UNTIL(a->sends == sent + 1, a, b);
        assert_int_equal(post_message(pair, id, source, 0), 0);
        expected += 2;
        RUN_UNTIL(b->recvs == expected, a, b);
        int rc = post_message(pair, id, source, IBV_SEND_SIGNALED | (unsigned)DIWARP_SEND_BUFFERED);
        assert_true(rc == 0 || rc == 1);
        RUN_UNTIL(a->sends == sent + 1 + (rc == 0) && b->recvs == expected + 1, a, b);
        expected++;
        uint8_t *room = diwarp_send_reserve(a->qp, pair->ab, send_sizes[id]);
        if (room) {
            fill(room, send_sizes[id], id);
            diwarp_send_commit(a->qp, pair->ab, id);
            expected++;
        }
        rc = post_message(pair, id, sink, IBV_SEND_INLINE);
        assert_true(rc == 0 || rc == -EAGAIN || rc == -EMSGSIZE);
        memset(sink, 0xee, send_sizes[id]);
        expected += rc == 0;
        RUN_UNTIL(b->recvs == expected, a, b);
    }
    for (uint32_t id = 0; id < SEND_SIZES; id++)
        assert_true(seen[id] >= 3);
    b->on_wc = NULL;
}

/* Many small messages at once: some share datagrams. */
static void check_coalescing(struct pair *pair)
{
    struct node *a = &pair->a, *b = pair->b;
    unsigned before = b->recvs, posted = 0;
    uint8_t buf[24];

    for (unsigned i = 0; i < 2000; i++) {
        int rc = post(a, pair->ab, IBV_WR_SEND, buf, sizeof buf, (unsigned)DIWARP_SEND_BUFFERED, i,
                      NULL, 0);
        assert_true(rc == 0 || rc == 1);
        posted++;
    }
    RUN_UNTIL(b->recvs == before + posted, a, b);
    assert_true(a->counters->tx_coalesced_msgs > 1000);
}

/* ---- RD: reads, writes, atomics ----------------------------------------------------------- */

static const uint32_t rdma_sizes[] = {1, 64, 1408, 4096, 16384, 16385, 65000, 262144, 1000003, BIG};
#define RDMA_SIZES (sizeof rdma_sizes / sizeof *rdma_sizes)

static void check_reads(struct pair *pair)
{
    struct node *a = &pair->a, *b = pair->b;
    uint8_t *target = malloc(BIG);

    for (unsigned i = 0; i < RDMA_SIZES; i++) {
        uint32_t length = rdma_sizes[i];
        unsigned flags = IBV_SEND_SIGNALED | (i % 2 ? (unsigned)DIWARP_SEND_HOLD : 0);
        unsigned reads = a->reads, releases = b->releases;
        fill(source, length, i);
        assert_int_equal(
            post(a, pair->ab, IBV_WR_RDMA_READ, target, length, flags, 100 + i, pair->mr_source, 0),
            0);
        RUN_UNTIL(a->reads == reads + 1, a, b);
        assert_int_equal(a->last.wc.wr_id, 100 + i);
        assert_int_equal(a->last.wc.byte_len, length);
        assert_filled(target, length, i);
        if (!(i % 2))
            continue;
        char release[DIWARP_RELEASE_MAX_BYTES] = "thank you";
        assert_int_equal(diwarp_post_release(a->qp, a->last.read_id, release, sizeof release + 1),
                         -EMSGSIZE);
        assert_int_equal(diwarp_post_release(a->qp, a->last.read_id, release, sizeof release), 0);
        RUN_UNTIL(b->releases == releases + 1, a, b);
        assert_memory_equal(b->data, release, sizeof release);
    }
    free(target);
}

static void check_writes(struct pair *pair)
{
    struct node *a = &pair->a, *b = pair->b;

    for (unsigned i = 0; i < RDMA_SIZES; i++) {
        uint32_t length = rdma_sizes[i] < BIG ? rdma_sizes[i] : BIG - 2;
        unsigned writes = a->writes;
        fill(source, length, i + 50);
        memset(sink, 0, length + 2);
        assert_int_equal(post(a, pair->ab, IBV_WR_RDMA_WRITE, source, length, IBV_SEND_SIGNALED, i,
                              pair->mr_sink, 1),
                         0);
        RUN_UNTIL(a->writes == writes + 1, a, b);
        assert_filled(sink + 1, length, i + 50);
        assert_int_equal(sink[0] | sink[length + 1], 0);
    }
}

static void atomic(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t add, uint64_t swap,
                   uint64_t *result)
{
    struct ibv_sge sge = {.addr = (uintptr_t)result, .length = sizeof *result};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = opcode,
               .send_flags = IBV_SEND_SIGNALED,
               .wr.atomic = {.remote_addr = (uintptr_t)pair->mr_sink->addr,
                             .rkey = pair->mr_sink->stag,
                             .compare_add = add,
                             .swap = swap}},
        .ah = pair->ab,
    };
    unsigned before = pair->a.atomics;

    assert_int_equal(diwarp_post_send(pair->a.qp, &wr), 0);
    RUN_UNTIL(pair->a.atomics == before + 1, &pair->a, pair->b);
}

static void check_atomics(struct pair *pair)
{
    uint64_t value = 40, old = 0;

    memcpy(sink, &value, sizeof value);
    atomic(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, &old);
    assert_int_equal(old, 40);
    atomic(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 7, &old);
    assert_int_equal(old, 42);
    atomic(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 9, &old);
    assert_int_equal(old, 7);
    memcpy(&value, sink, sizeof value);
    assert_int_equal(value, 7);
}

static void check_all(struct pair *pair)
{
    pair_open(pair);
    check_sends(pair);
    check_coalescing(pair);
    /* The second time with sockets of their own. */
    for (unsigned i = 0; i < 2; i++) {
        check_reads(pair);
        check_writes(pair);
    }
    check_atomics(pair);
    assert_int_equal(pair->a.errors + pair->b->errors, 0);
    assert_int_equal(pair->b->counters->drop_header + pair->b->counters->drop_stag +
                         pair->b->counters->drop_crc + pair->b->counters->drop_token,
                     0);
    assert_int_equal(pair->a.counters->paths_narrowed + pair->b->counters->paths_narrowed, 0);
    pair_close(pair);
}

static void rd__everything_by_default(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    check_all(&pair);
}

static void rd__everything_in_datagrams_of_mtu_1500(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair.attr.datagram_max_bytes = 1472;
    check_all(&pair);
}

static void rd__everything_without_gso_gro_crc(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair.attr.datagram_max_bytes = 1472;
    pair.attr.gso = pair.attr.gro = pair.attr.crc = DIWARP_OFF;
    check_all(&pair);
}

static void rd__everything_to_itself(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0), .self = true};
    check_all(&pair);
}

static void rd__everything_with_a_small_window(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair.attr.send_window_datagrams = 2;
    pair.attr.record_window_bytes = 20000;
    pair.attr.send_pool_bytes = 256 << 10;
    pair.attr.datagram_max_bytes = 512;
    check_all(&pair);
}

/* A buffer for the longest message is kept from one to the next, not mapped and faulted in anew. */
static void rd__sends_of_several_datagrams__take_no_new_memory(void **state)
{
    enum { BYTES = 32768, ROUNDS = 200 };
    (void)state;
    struct pair pair = {.attr = loopback_attr(0), .max_msg_bytes = 4u << 20};
    struct rusage before, after;
    pair.attr.datagram_max_bytes = 1472;
    pair_open(&pair);
    for (unsigned round = 0; round <= 2 * ROUNDS; round++) {
        if (round == ROUNDS)
            assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
        const unsigned sends = pair.a.sends;
        assert_int_equal(
            post(&pair.a, pair.ab, IBV_WR_SEND, source, BYTES, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
        RUN_UNTIL(pair.a.sends == sends + 1, &pair.a, pair.b);
    }
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    /* Anew it would be eight pages in each round; a few the kernel takes from whoever waits. */
    assert_true(after.ru_minflt - before.ru_minflt < 4 * ROUNDS);
    pair_close(&pair);
}

static void send_in_turn(struct pair *pair, uint32_t bytes)
{
    const unsigned recvs = pair->b->recvs;
    assert_int_equal(post(&pair->a, pair->ab, IBV_WR_SEND, source, bytes, 0, 0, NULL, 0), 0);
    RUN_UNTIL(pair->b->recvs == recvs + 1, &pair->a, pair->b);
}

/* Its two datagrams are the train of a sender with GSO; small messages in turn are none. */
static void rd__a_message_of_two_datagrams__brings_gro_into_use(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair.attr.datagram_max_bytes = 1472;
    pair.attr.gro = DIWARP_ON;
    pair_open(&pair);
    const bool possible = node_uses_gro(pair.b);
    pair_close(&pair);
    pair.attr.gro = DIWARP_AUTO;
    pair_open(&pair);
    send_in_turn(&pair, 700);
    send_in_turn(&pair, 700);
    assert_false(node_uses_gro(pair.b));
    send_in_turn(&pair, 2048);
    send_in_turn(&pair, 8);
    assert_int_equal(node_uses_gro(pair.b), possible);
    assert_false(node_uses_gro(&pair.a));
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__everything_by_default),
        cmocka_unit_test(rd__everything_in_datagrams_of_mtu_1500),
        cmocka_unit_test(rd__everything_without_gso_gro_crc),
        cmocka_unit_test(rd__everything_to_itself),
        cmocka_unit_test(rd__everything_with_a_small_window),
        cmocka_unit_test(rd__sends_of_several_datagrams__take_no_new_memory),
        cmocka_unit_test(rd__a_message_of_two_datagrams__brings_gro_into_use),
    };

    return cmocka_run_group_tests_name("loopback", tests, NULL, NULL);
}
