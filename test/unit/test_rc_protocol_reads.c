/* SPDX-License-Identifier: BSD-3-Clause */
/* A QP against a forged other side: RDMA reads that cannot go, or that are not answered (RFC 5040
 * 4.8, RFC 6581 9). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/unit/rc_segments.h"

/* ---- the other side answers none ------------------------------------------------------------ */

/* It was posted before that was known: what is behind it must not wait for ever. */
static void rc_reads__none_may_go(void **state)
{
    (void)state;
    struct forged f;

    call_forged(&f);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, 0, 1, NULL, 0), 0);
    assert_int_equal(rc_post(&f.end, IBV_WR_RDMA_READ, f.recv, 3, 0, 2, f.mr, 0), 0);
    answer_call(&f, 0);
    expect_terminate(&f, 0x2006);
    assert_int_equal(f.end.connects, 0);
    assert_int_equal(f.end.flushed, 2);
    assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_rejects, 1);
    close_end(&f);
}

static void rc_reads__none_is_asked_for(void **state)
{
    (void)state;
    struct forged f;

    call_forged(&f);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, IBV_SEND_SIGNALED, 1, NULL, 0), 0);
    answer_call(&f, 0);
    assert_int_equal(f.end.connects, 1);
    assert_int_equal(f.end.sends, 1);
    assert_int_equal(rc_post(&f.end, IBV_WR_RDMA_READ, f.recv, 3, 0, 2, f.mr, 0), -EINVAL);
    close_end(&f);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void post_read(struct forged *f, uint64_t wr_id, uint32_t bytes)
{
    assert_int_equal(
        rc_post(&f->end, IBV_WR_RDMA_READ, f->recv, bytes, IBV_SEND_SIGNALED, wr_id, f->mr, 0), 0);
}

/* STag and TO that its response has to go to. */
static struct dw_ddp_header read_request(struct forged *f)
{
    struct dw_ddp_header ddp;
    struct dw_read_request request;
    uint8_t payload[1024];

    int bytes = read_segment(f, &ddp, payload);
    assert_int_equal(ddp.opcode, DW_RDMAP_READ_REQUEST);
    assert_int_equal(dw_read_request_get_stream(&request, payload, (size_t)bytes), 0);
    return (struct dw_ddp_header){.tagged = true,
                                  .opcode = DW_RDMAP_READ_RESPONSE,
                                  .stag = request.sink_stag,
                                  .to = request.sink_to};
}

/* Nothing comes any more: neither what was asked for nor what still waits its turn will be
 * answered, and what is behind it goes. */
static void rc_reads__an_end_answers_none(void **state)
{
    (void)state;
    struct forged f;
    struct dw_ddp_header ddp;
    uint8_t payload[1024];

    open_forged(&f, false);
    send_rtr(&f);
    for (unsigned i = 0; i < 3; i++) /* the third one waits: the other side's IRD is 2 */
        post_read(&f, i, 10);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 5, IBV_SEND_SIGNALED, 9, NULL, 0), 0);
    post_read(&f, 3, 10);
    for (unsigned i = 0; i < 2; i++)
        (void)read_request(&f);
    fake_end(f.stream);
    assert_int_equal(read_segment(&f, &ddp, payload), 5);
    assert_int_equal(ddp.opcode, DW_RDMAP_SEND);
    assert_true(fake_is_over(f.stream));
    assert_int_equal(f.end.flushed, 4);
    assert_int_equal(f.end.sends, 1);
    assert_int_equal(f.end.disconnects, 1);
    assert_int_equal(f.end.disconnected.wc.status, IBV_WC_SUCCESS);
    close_end(&f);
}

/* It goes: in order, but for what it began and did not end. */
static void expect_end(struct forged *f, enum ibv_wc_status status, unsigned flushed)
{
    poll_some(f);
    fake_end(f->stream);
    poll_some(f);
    assert_int_equal(f->end.disconnects, 1);
    assert_int_equal(f->end.disconnected.wc.status, status);
    assert_int_equal(f->end.flushed, flushed);
    close_end(f);
}

static void rc_reads__an_end_in_a_response_is_no_order(void **state)
{
    (void)state;
    struct forged f;

    for (unsigned whole = 0; whole < 2; whole++) {
        open_forged(&f, false);
        send_rtr(&f);
        post_read(&f, 1, 10);
        struct dw_ddp_header ddp = read_request(&f);
        ddp.last = whole;
        send_segment(&f, &ddp, f.region, whole ? 10 : 4);
        expect_end(&f, whole ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR, !whole);
    }
}

/* The segment seen last may have no payload. */
static void rc_reads__an_end_in_a_write_is_no_order(void **state)
{
    (void)state;
    struct forged f;

    for (uint32_t bytes = 0; bytes < 2; bytes++) {
        for (unsigned whole = 0; whole < 2; whole++) {
            open_forged(&f, false);
            send_rtr(&f);
            struct dw_ddp_header ddp = {
                .tagged = true, .stag = f.mr->stag, .to = (uint64_t)(uintptr_t)f.region};
            send_segment(&f, &ddp, f.recv, bytes);
            ddp.to += bytes;
            ddp.last = true;
            if (whole)
                send_segment(&f, &ddp, f.recv, bytes);
            expect_end(&f, whole ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_reads__none_may_go),
        cmocka_unit_test(rc_reads__none_is_asked_for),
        cmocka_unit_test(rc_reads__an_end_answers_none),
        cmocka_unit_test(rc_reads__an_end_in_a_response_is_no_order),
        cmocka_unit_test(rc_reads__an_end_in_a_write_is_no_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
