/* SPDX-License-Identifier: BSD-3-Clause */
/* A QP against a forged other side: what becomes of what is posted where TCP, or the memory, does
 * not take it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/unit/rc_segments.h"

static size_t refused_bytes; /* no memory of this size */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return bytes == refused_bytes ? NULL : __real_malloc(bytes);
}

/* Its memory is the caller's again when the post returns: it cannot wait for the next poll. */
static void rc_sends__inline_is_never_lazy(void **state)
{
    (void)state;
    struct forged f;

    open_forged(&f, false);
    send_rtr(&f);
    assert_int_equal(
        rc_post(&f.end, IBV_WR_SEND, f.recv, 3, IBV_SEND_INLINE | DIWARP_SEND_LAZY, 1, NULL, 0),
        -EAGAIN);
    poll_some(&f);
    assert_int_equal(f.in_bytes, 0);
    assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_tx_send_msgs, 0);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, IBV_SEND_INLINE, 1, NULL, 0), 0);
    close_end(&f);
}

/* They share a call, which a flush makes at once. */
static void rc_sends__lazy_ones_leave_with_a_flush(void **state)
{
    (void)state;
    enum { SENDS = 3 };
    struct forged f;

    open_forged(&f, false);
    send_rtr(&f);
    const struct diwarp_rc_counters *counters = diwarp_query_rc_counters(f.end.cq);
    uint64_t before = counters->rc_tx_syscalls;
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, DIWARP_SEND_LAZY, 1 + i, NULL, 0),
                         0);
    assert_int_equal(counters->rc_tx_syscalls, before);
    diwarp_rc_flush(f.end.cq);
    assert_int_equal(counters->rc_tx_syscalls, before + 1);
    assert_int_equal(counters->rc_tx_send_msgs, SENDS);
    diwarp_rc_flush(f.end.cq);
    assert_int_equal(counters->rc_tx_syscalls, before + 1);
    close_end(&f);
}

/* The kernel cannot read what was posted: no other try will do. */
static void rc_sends__memory_that_is_not_there(void **state)
{
    (void)state;
    struct forged f;

    open_forged(&f, false);
    send_rtr(&f);
    f.net.send_error = -EFAULT;
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, 0, 1, NULL, 0), 0);
    poll_some(&f);
    assert_int_equal(f.end.flushed, 1);
    assert_int_equal(f.end.disconnects, 1);
    assert_int_equal(f.end.disconnected.wc.status, IBV_WC_LOC_PROT_ERR);
    close_end(&f);
}

/* TCP has its request, and nothing can remember what the response is for. */
static void rc_sends__no_memory_for_a_read(void **state)
{
    (void)state;
    struct forged f;

    open_forged(&f, false);
    send_rtr(&f);
    /* The queue of requests has its memory, that of reads has none yet. */
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, 0, 1, NULL, 0), 0);
    refused_bytes = 4 * dw_rc_work_bytes(f.end.attr.max_sge);
    assert_int_equal(rc_post(&f.end, IBV_WR_RDMA_READ, f.recv, 3, 0, 77, f.mr, 0), 0);
    refused_bytes = 0;
    struct diwarp_wc wc;
    assert_int_equal(diwarp_poll_cq(f.end.cq, 1, &wc), 1);
    assert_int_equal(wc.wc.wr_id, 77);
    assert_int_equal(wc.wc.status, IBV_WC_WR_FLUSH_ERR);
    poll_some(&f);
    assert_int_equal(f.end.flushed, 0);
    assert_int_equal(f.end.disconnects, 1);
    assert_int_equal(f.end.disconnected.wc.status, IBV_WC_LOC_QP_OP_ERR);
    close_end(&f);
}

/* What the CRC is of is what goes, whatever is stored there meanwhile: by a virtual machine that
 * goes on while its memory is taken to another host, or by the owner of a region, who is not told
 * of reads. */
static void rc_sends__memory_that_changes(void **state)
{
    (void)state;
    enum { BYTES = 3000 }; /* short ones are copied anyway */
    static uint8_t memory[BYTES], payload[BYTES], body[DW_READ_REQUEST_STREAM_BYTES];
    struct forged f;
    struct dw_ddp_header ddp;

    open_forged(&f, false);
    send_rtr(&f);
    struct diwarp_mr *mr = diwarp_reg_mr(f.end.pd, memory, BYTES, RIGHTS);
    f.net.changing = memory + BYTES / 2;
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, memory, BYTES, 0, 1, NULL, 0), 0);
    assert_int_equal(read_segment(&f, &ddp, payload), BYTES);
    assert_int_equal(rc_post(&f.end, IBV_WR_RDMA_WRITE, memory, BYTES, 0, 2, mr, 0), 0);
    assert_int_equal(read_segment(&f, &ddp, payload), BYTES);
    const struct dw_read_request request = {
        .size = BYTES, .source_stag = mr->stag, .source_to = (uintptr_t)memory};
    dw_read_request_put_stream(body, &request);
    ddp = (struct dw_ddp_header){
        .last = true, .opcode = DW_RDMAP_READ_REQUEST, .qn = DW_QN_REQUEST, .msn = 1};
    send_segment(&f, &ddp, body, sizeof body);
    assert_int_equal(read_segment(&f, &ddp, payload), BYTES);
    assert_true(memory[BYTES / 2] >= 3);
    diwarp_dereg_mr(mr);
    close_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_sends__inline_is_never_lazy),
        cmocka_unit_test(rc_sends__lazy_ones_leave_with_a_flush),
        cmocka_unit_test(rc_sends__memory_that_is_not_there),
        cmocka_unit_test(rc_sends__no_memory_for_a_read),
        cmocka_unit_test(rc_sends__memory_that_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
