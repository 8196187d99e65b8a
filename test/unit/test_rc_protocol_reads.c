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

/* A Send that invalidates what is read must not overtake the response. */
static void rc_reads__a_fence_waits_for_them(void **state)
{
    (void)state;
    struct forged f;
    struct dw_ddp_header ddp;
    uint8_t payload[1024];

    open_forged(&f, false);
    send_rtr(&f);
    post_read(&f, 1, 10);
    ddp = read_request(&f);
    assert_int_equal(
        rc_post(&f.end, IBV_WR_SEND, f.recv, 5, IBV_SEND_FENCE | IBV_SEND_INLINE, 2, NULL, 0),
        -EAGAIN);
    for (unsigned fence = 2; fence-- > 0;) /* nor does what is behind it */
        assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 5 + fence,
                                 IBV_SEND_SIGNALED | (fence ? IBV_SEND_FENCE : 0), 3, NULL, 0),
                         0);
    poll_some(&f);
    assert_int_equal(f.in_bytes, 0);
    assert_int_equal(f.end.sends, 0);
    ddp.last = true;
    send_segment(&f, &ddp, "0123456789", 10);
    assert_int_equal(read_segment(&f, &ddp, payload), 6);
    assert_int_equal(read_segment(&f, &ddp, payload), 5);
    assert_int_equal(f.end.reads, 1);
    assert_int_equal(f.end.sends, 2);
    close_end(&f);
}

/* A read that comes after our end goes without response, and holds up nothing. */
static void rc_reads__after_our_end__not_answered(void **state)
{
    (void)state;
    struct forged f;
    uint8_t body[DW_READ_REQUEST_STREAM_BYTES];

    open_forged(&f, false);
    send_rtr(&f);
    diwarp_disconnect(f.end.qp);
    const struct dw_read_request request = {.size = 10,
                                            .sink_stag = 77,
                                            .source_stag = f.mr->stag,
                                            .source_to = (uint64_t)(uintptr_t)f.region};
    dw_read_request_put_stream(body, &request);
    send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 1, .qn = 1, .msn = 1}, body,
                 sizeof body);
    poll_some(&f);
    assert_int_equal(f.end.disconnects, 0);
    fake_end(f.stream);
    poll_some(&f);
    assert_int_equal(f.end.disconnects, 1);
    assert_int_equal(f.end.disconnected.wc.status, IBV_WC_SUCCESS);
    assert_int_equal(f.in_bytes, 0);
    close_end(&f);
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

/* Nor does what a queue pair that goes tells of itself end the Write that it leaves undone. */
static void rc_reads__an_end_in_a_write_and_a_note_is_no_order(void **state)
{
    (void)state;
    static const struct dw_ddp_header note = {.tagged = true, .last = true, .to = DW_RC_TAKEN_TO};
    for (unsigned whole = 0; whole < 2; whole++) {
        struct forged f;
        open_forged(&f, false);
        send_rtr(&f);
        const struct dw_ddp_header ddp = {
            .tagged = true, .last = whole, .stag = f.mr->stag, .to = (uint64_t)(uintptr_t)f.region};
        send_segment(&f, &ddp, f.recv, 10);
        send_segment(&f, &note, NULL, 0);
        expect_end(&f, whole ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR, 0);
    }
}

/* ---- a response that cannot go on ----------------------------------------------------------- */

static void ask(struct forged *f, const struct dw_read_request *request, uint32_t msn)
{
    const struct dw_ddp_header ddp = {.last = true, .opcode = 1, .qn = 1, .msn = msn};
    uint8_t body[DW_READ_REQUEST_STREAM_BYTES];

    dw_read_request_put_stream(body, request);
    send_segment(f, &ddp, body, sizeof body);
}

/* How much of the response there is before the Terminate, which `payload` then is. */
static uint32_t read_response(struct forged *f, uint8_t *payload, int *bytes)
{
    struct dw_ddp_header ddp;
    uint32_t sent = 0;

    for (;;) {
        *bytes = read_segment(f, &ddp, payload);
        if (ddp.opcode == DW_RDMAP_TERMINATE)
            return sent;
        sent += (uint32_t)*bytes;
    }
}

/* Its headers are those of the request, as if it were for what is left (RFC 5040 4.8). */
static void rc_reads__a_response_ends_with_the_request_s_headers(void **state)
{
    (void)state;
    struct forged f;
    uint8_t payload[1024];
    struct terminate terminate;
    struct dw_ddp_header ddp;
    struct dw_read_request left;
    uint16_t cause;
    int bytes;

    open_end(&f);
    f.net.emss = 128;
    f.tx = f.rx = (struct dw_mpa_stream){.crc = true};
    write_request(&f, DW_MPA_CRC, 2, f.end.address.token);
    accept_call(&f);
    send_rtr(&f);
    struct diwarp_mr *mr = diwarp_reg_mr(f.end.pd, f.region, REGION_BYTES, IBV_ACCESS_REMOTE_READ);
    const struct dw_read_request request = {.sink_stag = 77,
                                            .sink_to = 1000,
                                            .size = 900,
                                            .source_stag = mr->stag,
                                            .source_to = (uint64_t)(uintptr_t)f.region + 50};
    struct dw_read_request nothing = request;
    nothing.size = 0;
    ask(&f, &nothing, 1);
    f.net.room_bytes = 300;
    ask(&f, &request, 2);
    poll_some(&f); /* no more than fits */
    diwarp_dereg_mr(mr);
    uint32_t sent = read_response(&f, payload, &bytes);
    assert_in_range(sent, 1, 899);
    assert_int_equal(terminate_get(&terminate, payload, (size_t)bytes), 0);
    assert_int_equal(terminate.cause, 0x0100);
    assert_int_equal(terminate.segment_bytes, 18 + 28);
    assert_non_null(terminate.ddp);
    assert_non_null(terminate.rdmap);
    assert_int_equal(dw_ddp_get_stream(&ddp, terminate.ddp, 18, &cause), 18);
    assert_int_equal(ddp.opcode, DW_RDMAP_READ_REQUEST);
    assert_int_equal(ddp.qn, 1);
    assert_int_equal(ddp.msn, 2);
    assert_int_equal(dw_read_request_get_stream(&left, terminate.rdmap, 28), 0);
    assert_int_equal(left.sink_stag, 77);
    assert_int_equal(left.sink_to, 1000 + sent);
    assert_int_equal(left.size, 900 - sent);
    assert_int_equal(left.source_stag, request.source_stag);
    assert_int_equal(left.source_to, request.source_to + sent);
    close_end(&f);
}

/* ---- what follows a read -------------------------------------------------------------------- */

static void write_new(struct forged *f, const struct diwarp_mr *mr, uint64_t to)
{
    const struct dw_ddp_header ddp = {.tagged = true, .last = true, .stag = mr->stag, .to = to};

    send_segment(f, &ddp, "new data", 8);
}

static void add_one(struct forged *f, const struct diwarp_mr *mr, uint64_t to)
{
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_ATOMIC_REQUEST, .qn = DW_QN_REQUEST, .msn = 2};
    const struct dw_atomic_request request = {
        .opcode = DW_ATOMIC_FETCH_ADD, .stag = mr->stag, .to = to, .add_swap = 1};
    uint8_t body[DW_ATOMIC_REQUEST_BYTES];

    dw_atomic_request_put(body, &request);
    send_segment(f, &ddp, body, sizeof body);
}

/* No fence is needed for what comes at once. */
static void rc_reads__see_nothing_that_follows(void **state)
{
    (void)state;
    static void (*const changes[])(struct forged *, const struct diwarp_mr *,
                                   uint64_t) = {write_new, add_one};
    struct forged f;
    struct dw_ddp_header ddp;
    uint8_t payload[1024];

    for (size_t i = 0; i < 2; i++) {
        open_forged(&f, false);
        send_rtr(&f);
        uint8_t *word = f.region + (-(uintptr_t)f.region & 7);
        const uint64_t to = (uintptr_t)word;
        struct diwarp_mr *mr = diwarp_reg_mr(f.end.pd, word, 8, RIGHTS | IBV_ACCESS_REMOTE_ATOMIC);
        memcpy(word, "old data", 8);
        ask(&f, &(struct dw_read_request){.size = 8, .source_stag = mr->stag, .source_to = to}, 1);
        changes[i](&f, mr, to);
        assert_int_equal(read_segment(&f, &ddp, payload), 8);
        assert_int_equal(ddp.opcode, DW_RDMAP_READ_RESPONSE);
        assert_memory_equal(payload, "old data", 8);
        assert_memory_not_equal(word, "old data", 8);
        diwarp_dereg_mr(mr);
        close_end(&f);
    }
}

/* TCP takes none of the response: what follows does not wait for that. */
static void rc_reads__hold_up_nothing(void **state)
{
    (void)state;
    struct forged f;
    struct dw_ddp_header ddp;
    uint8_t payload[1024];

    open_forged(&f, false);
    send_rtr(&f);
    const uint64_t to = (uintptr_t)f.region;
    const uint32_t room_bytes = f.net.room_bytes;
    f.net.room_bytes = 1;
    ask(&f, &(struct dw_read_request){.size = 8, .source_stag = f.mr->stag, .source_to = to}, 1);
    write_new(&f, f.mr, to + 100);
    for (unsigned i = 0; i < 40; i++)
        rc_end_poll(&f.end);
    assert_memory_equal(f.region + 100, "new data", 8);
    f.net.room_bytes = room_bytes;
    assert_int_equal(read_segment(&f, &ddp, payload), 8);
    close_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_reads__none_may_go),
        cmocka_unit_test(rc_reads__none_is_asked_for),
        cmocka_unit_test(rc_reads__a_fence_waits_for_them),
        cmocka_unit_test(rc_reads__after_our_end__not_answered),
        cmocka_unit_test(rc_reads__an_end_answers_none),
        cmocka_unit_test(rc_reads__an_end_in_a_response_is_no_order),
        cmocka_unit_test(rc_reads__an_end_in_a_write_is_no_order),
        cmocka_unit_test(rc_reads__an_end_in_a_write_and_a_note_is_no_order),
        cmocka_unit_test(rc_reads__a_response_ends_with_the_request_s_headers),
        cmocka_unit_test(rc_reads__see_nothing_that_follows),
        cmocka_unit_test(rc_reads__hold_up_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
