/* SPDX-License-Identifier: BSD-3-Clause */
/* RC queue pairs over real TCP on 127.0.0.1, through the public API: messages of each kind, and how
 * they are posted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "common/rnic/cq.h"
#include "test/net/rc_traffic.h"

static const uint32_t sizes[] = {0,     1,     3,      100,    1460,   4096,   65000,
                                 65464, 65536, 100001, 262144, 300000, 1 << 20};
#define SIZES (sizeof sizes / sizeof *sizes)

/* ---- messages ------------------------------------------------------------------------------- */

static void check_write(struct rc_pair *pair, uint32_t bytes, const struct diwarp_mr *mr)
{
    unsigned writes = pair->a.writes, recvs = pair->b.recvs;
    uint8_t fin = 1;

    fill(buf_a, bytes, bytes + 1);
    memset(buf_b, 0xee, bytes + 10);
    assert_int_equal(rc_post_recv(&pair->b, &fin, 1, 1), 0);
    assert_int_equal(
        rc_post(&pair->a, IBV_WR_RDMA_WRITE, buf_a, bytes, IBV_SEND_SIGNALED, 5, mr, 3), 0);
    assert_int_equal(rc_post(&pair->a, IBV_WR_SEND, &fin, 1, 0, 6, NULL, 0), 0);
    RC_UNTIL(pair->b.recvs == recvs + 1 && pair->a.writes == writes + 1, &pair->a, &pair->b);
    assert_filled(buf_b + 3, bytes, bytes + 1);
    assert_int_equal(buf_b[2], 0xee);
    assert_int_equal(buf_b[3 + bytes], 0xee);
}

static void check_read(struct rc_pair *pair, uint32_t bytes, const struct diwarp_mr *mr)
{
    unsigned reads = pair->a.reads;

    fill(buf_b + 5, bytes, bytes + 2);
    memset(buf_a, 0xee, bytes + 10);
    assert_int_equal(rc_post(&pair->a, IBV_WR_RDMA_READ, buf_a, bytes, IBV_SEND_SIGNALED, 7, mr, 5),
                     0);
    RC_UNTIL(pair->a.reads == reads + 1, &pair->a, &pair->b);
    assert_int_equal(pair->a.last.wc.byte_len, bytes);
    assert_filled(buf_a, bytes, bytes + 2);
    assert_int_equal(buf_a[bytes], 0xee);
}

static void check_all(struct rc_pair *pair)
{
    struct diwarp_mr *mr = reg(
        &pair->b, buf_b, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

    rc_pair_connect(pair);
    for (unsigned i = 0; i < SIZES; i++) {
        check_send(pair, sizes[i], 0);
        check_write(pair, sizes[i], mr);
        check_read(pair, sizes[i], mr);
    }
    check_orderly_close(pair);
    diwarp_dereg_mr(mr);
}

static void rc__messages_of_all_sizes_in_each_mode(void **state)
{
    (void)state;
    for (unsigned mode = 0; mode < 32; mode++) {
        struct rc_pair pair;

        rc_pair_init(&pair);
        pair.a.attr.markers = mode & 1;
        pair.b.attr.markers = mode & 2;
        pair.a.attr.crc = mode & 4;
        pair.b.attr.crc = mode & 8;
        pair.a.attr.mpa_revision = mode & 16 ? 1 : 2;
        check_all(&pair);
        assert_int_equal(pair.a.errors + pair.b.errors, 0);
        assert_int_equal(diwarp_query_rc_counters(pair.a.cq)->rc_connections, 0);
        rc_pair_close(&pair);
    }
}

/* Posts n lazy sends of one byte each, and the receives for them. */
static void post_lazy(struct rc_pair *pair, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(rc_post_recv(&pair->b, buf_b + i, 1, i), 0);
        assert_int_equal(rc_post(&pair->a, IBV_WR_SEND, buf_a + i, 1,
                                 IBV_SEND_SIGNALED | DIWARP_SEND_LAZY, i, NULL, 0),
                         0);
    }
}

static void rc__lazy_sends_share_a_call(void **state)
{
    (void)state;
    enum { FEW = 10, MANY = 80 };
    const struct diwarp_rc_counters *counters;
    struct rc_pair pair;
    uint64_t calls;

    rc_pair_init(&pair);
    rc_pair_connect(&pair);
    counters = diwarp_query_rc_counters(pair.a.cq);
    calls = counters->rc_tx_syscalls;
    fill(buf_a, MANY, 1);
    memset(buf_b, 0xee, MANY);
    post_lazy(&pair, FEW);
    assert_int_equal(counters->rc_tx_syscalls, calls);
    assert_int_equal(dw_cq_next_deadline_ns(pair.a.cq), 0);
    RC_UNTIL(pair.b.recvs == FEW && pair.a.sends == FEW, &pair.a, &pair.b);
    assert_int_equal(counters->rc_tx_syscalls, calls + 1);
    assert_filled(buf_b, FEW, 1);

    post_lazy(&pair, FEW); /* what is not lazy makes them leave, and leaves itself */
    assert_int_equal(rc_post_recv(&pair.b, buf_b + FEW, 1, FEW), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a + FEW, 1, IBV_SEND_INLINE, 1, NULL, 0), 0);
    assert_int_equal(counters->rc_tx_syscalls, calls + 3);
    RC_UNTIL(pair.b.recvs == 2 * FEW + 1 && pair.a.sends == 2 * FEW, &pair.a, &pair.b);
    assert_filled(buf_b, FEW + 1, 1);

    post_lazy(&pair, MANY); /* so many do not wait */
    assert_int_equal(counters->rc_tx_syscalls, calls + 4);
    check_orderly_close(&pair); /* nor does the end overtake them */
    assert_int_equal(pair.b.recvs, 2 * FEW + 1 + MANY);
    assert_filled(buf_b, MANY, 1);
    rc_pair_close(&pair);
}

/* One call to send and one to receive for each message. */
static void rc__ping_pong_takes_two_calls(void **state)
{
    (void)state;
    struct rc_pair pair;
    const struct diwarp_rc_counters *counters;

    rc_pair_init(&pair);
    rc_pair_connect(&pair);
    counters = diwarp_query_rc_counters(pair.a.cq);
    uint64_t sends = counters->rc_tx_syscalls, recvs = counters->rc_rx_syscalls;
    for (unsigned i = 0; i < 100; i++) {
        struct rc_end *from = i & 1 ? &pair.b : &pair.a, *to = i & 1 ? &pair.a : &pair.b;
        unsigned before = to->recvs;

        assert_int_equal(rc_post_recv(to, buf_b, 64, i), 0);
        assert_int_equal(rc_post(from, IBV_WR_SEND, buf_a, 64, IBV_SEND_INLINE, i, NULL, 0), 0);
        RC_UNTIL(to->recvs == before + 1, &pair.a, &pair.b);
    }
    assert_int_equal(counters->rc_tx_syscalls - sends, 50);
    assert_int_equal(counters->rc_rx_syscalls - recvs, 50);
    rc_pair_close(&pair);
}

/* ---- how Sends are posted ------------------------------------------------------------------- */

static void rc__inline_and_buffered(void **state)
{
    (void)state;
    struct rc_pair pair;
    unsigned sent = 0;
    int rc;

    rc_pair_init(&pair);
    pair.b.attr.rnr_timeout_ns = UINT64_MAX;
    rc_pair_connect(&pair);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 8, DIWARP_SEND_BUFFERED, 1, NULL, 0), 1);
    /* Until TCP takes no more. What it took of the last one counts as taken. */
    do {
        memset(buf_a, (int)(sent & 0xff), 100000);
        rc = rc_post(&pair.a, IBV_WR_SEND, buf_a, 100000, IBV_SEND_INLINE, 1, NULL, 0);
        sent += rc == 0;
    } while (rc == 0 && sent < 1000);
    assert_int_equal(rc, -EAGAIN);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 8,
                             DIWARP_SEND_BUFFERED | IBV_SEND_SIGNALED, 77, NULL, 0),
                     0);
    memset(buf_a, 0xee, 100000);
    for (unsigned i = 0; i < sent + 2; i++) {
        assert_int_equal(rc_post_recv(&pair.b, buf_b, 100000, i), 0);
        RC_UNTIL(pair.b.recvs == i + 1, &pair.a, &pair.b);
        if (i > 0 && i <= sent)
            assert_true(buf_b[0] == ((i - 1) & 0xff) && buf_b[99999] == ((i - 1) & 0xff));
    }
    RC_UNTIL(pair.a.sends == 1, &pair.a, &pair.b);
    assert_int_equal(pair.a.last.wc.wr_id, 77);
    rc_pair_close(&pair);
}

static void rc__solicited_and_invalidate(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    struct diwarp_mr *mr = reg(&pair.b, buf_b, IBV_ACCESS_REMOTE_READ);
    rc_pair_connect(&pair);
    assert_int_equal(rc_post_recv(&pair.b, buf_b, 10, 1), 0);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV,
                             .send_flags = IBV_SEND_SOLICITED,
                             .invalidate_rkey = mr->stag};
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), 0);
    RC_UNTIL(pair.b.recvs, &pair.a, &pair.b);
    assert_int_equal(pair.b.last_recv.wc.wc_flags, IBV_WC_WITH_INV | DIWARP_WC_SOLICITED);
    assert_int_equal(pair.b.last_recv.wc.invalidated_rkey, mr->stag);
    assert_int_equal(rc_post(&pair.a, IBV_WR_RDMA_READ, buf_a, 10, 0, 1, mr, 0), 0);
    RC_UNTIL(pair.a.disconnects && pair.b.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.vendor_err, 0x0100);
    diwarp_dereg_mr(mr);
    rc_pair_close(&pair);
}

static void rc__malformed_requests(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    pair.a.attr.max_rd_atomic = 0;
    pair.a.attr.max_recv_wr = 1;
    rc_pair_connect(&pair);
    struct ibv_sge sge[5] = {{.addr = (uintptr_t)buf_a, .length = 1, .lkey = 12345}};
    struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), -EACCES);
    wr.num_sge = 5;
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), -EINVAL);
    wr = (struct ibv_send_wr){.opcode = IBV_WR_ATOMIC_CMP_AND_SWP};
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), -EINVAL);
    wr.opcode = IBV_WR_RDMA_READ;
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), -EINVAL);
    assert_int_equal(rc_post_recv(&pair.a, buf_a, 1, 1), 0);
    assert_int_equal(rc_post_recv(&pair.a, buf_a, 1, 1), -ENOMEM);
    rc_pair_close(&pair);
}

/* Without CRC only the kernel reads what is sent. */
static void rc__memory_that_is_not_there(void **state)
{
    (void)state;
    struct rc_pair pair;
    enum { BYTES = 20000 }; /* one FPDU, of which we copy nothing */
    void *none = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(none, MAP_FAILED);
    rc_pair_init(&pair);
    pair.a.attr.crc = pair.b.attr.crc = false;
    rc_pair_connect(&pair);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, none, BYTES, 0, 1, NULL, 0), 0);
    RC_UNTIL(pair.a.disconnects && pair.b.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.flushed, 1);
    assert_int_equal(pair.a.disconnected.wc.status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(munmap(none, BYTES), 0);
    rc_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__messages_of_all_sizes_in_each_mode),
        cmocka_unit_test(rc__lazy_sends_share_a_call),
        cmocka_unit_test(rc__ping_pong_takes_two_calls),
        cmocka_unit_test(rc__inline_and_buffered),
        cmocka_unit_test(rc__solicited_and_invalidate),
        cmocka_unit_test(rc__malformed_requests),
        cmocka_unit_test(rc__memory_that_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
