/* SPDX-License-Identifier: BSD-3-Clause */
/* A QP against a forged other side: whom it takes for a stranger in MPA set-up, and what comes of
 * answers that are false or late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/unit/rc_segments.h"

static void expect_stranger(struct forged *f)
{
    poll_some(f);
    assert_int_equal(f->end.requests, 0);
    assert_true(fake_is_over(f->stream));
    assert_int_equal(f->in_bytes, 0);
    assert_int_equal(diwarp_query_rc_counters(f->end.cq)->rc_bad_startup, 1);
    close_end(f);
}

static void rc_protocol__strangers_are_closed_and_counted(void **state)
{
    (void)state;
    struct forged f;
    uint8_t buf[600];

    open_end(&f);
    write_request(&f, 0, 2, f.end.address.token + 1);
    expect_stranger(&f);

    open_end(&f);
    fake_write(f.stream, "GET / HTTP/1.1\r\n\r\n", 18);
    expect_stranger(&f);

    open_end(&f); /* a good frame of another stack */
    fake_write(
        f.stream, buf,
        dw_mpa_frame_put(buf, &(struct dw_mpa_frame){.kind = DW_MPA_REQUEST, .revision = 1}));
    expect_stranger(&f);

    open_end(&f); /* who says nothing */
    poll_some(&f);
    f.net.now_ns += 601000 * MS;
    expect_stranger(&f);

    open_end(&f); /* who says half */
    fake_write(f.stream, "MPA ID Req", 10);
    poll_some(&f);
    fake_hang_up(f.stream, false);
    f.stream = fake_call(&f.net, 1);
    expect_stranger(&f);
}

/* TCP set the call up, but its process computes before it polls. */
static void rc_protocol__callers_may_be_slow(void **state)
{
    (void)state;
    struct forged f;

    open_end(&f);
    poll_some(&f);
    for (unsigned i = 0; i < 10; i++) {
        f.net.now_ns += 59000 * MS;
        poll_some(&f);
    }
    assert_false(fake_is_over(f.stream));
    write_request(&f, DW_MPA_CRC, 2, f.end.address.token);
    poll_some(&f);
    assert_int_equal(f.end.requests, 1);
    assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_bad_startup, 0);
    close_end(&f);
}

/* Callers that say nothing, `count` of them. */
static void call_silently(struct forged *f, struct fake_stream **strangers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        strangers[i] = fake_call(&f->net, f->end.address.port);
        for (unsigned polls = 0; polls < 4; polls++)
            rc_end_poll(&f->end);
    }
}

static void rc_protocol__silent_strangers_give_way(void **state)
{
    (void)state;
    enum { MANY = 256, MORE = 10 };
    struct fake_stream *strangers[MANY], *more[MORE];
    struct forged f;

    open_end_only(&f);
    const struct diwarp_rc_counters *counters = diwarp_query_rc_counters(f.end.cq);
    call_silently(&f, strangers, MANY);
    f.stream = fake_call(&f.net, f.end.address.port);
    write_request(&f, DW_MPA_CRC, 2, f.end.address.token);
    poll_some(&f);
    assert_int_equal(f.end.requests, 0); /* they may still be about to speak */
    assert_int_equal(counters->rc_bad_startup, 0);
    f.net.now_ns += 1100 * MS;
    poll_some(&f);
    assert_int_equal(f.end.requests, 1);
    assert_true(fake_is_over(strangers[0]));
    assert_false(fake_is_over(strangers[1]));
    call_silently(&f, more, MORE); /* the request that waits for its answer takes no place */
    assert_int_equal(counters->rc_bad_startup, MORE);
    diwarp_destroy_listener(f.end.listener); /* tells strangers nothing */
    f.end.listener = NULL;
    for (unsigned i = 0; i < MORE; i++) {
        assert_int_equal(fake_read(more[i], f.in, sizeof f.in), 0);
        assert_true(fake_is_over(more[i]));
    }
    assert_true(fake_read(f.stream, f.in, sizeof f.in) > 0); /* the rejection */
    for (unsigned i = 0; i < MANY; i++)
        fake_hang_up(strangers[i], false);
    for (unsigned i = 0; i < MORE; i++)
        fake_hang_up(more[i], false);
    close_end(&f);
}

/* A good answer is asked for, and something else comes. */
static void rc_protocol__false_answers(void **state)
{
    (void)state;
    static const char *const answers[] = {"HTTP/1.1 400 no\r\n\r\n", "MPA ID Req Frame\0\1\0\0\0\0",
                                          "MPA ID Rep Frame\0\2\0\0"};
    for (unsigned i = 0; i < 3; i++) {
        struct forged f;
        struct diwarp_address address;

        open_end_only(&f);
        address = f.end.address;
        assert_int_equal(diwarp_connect(f.end.pd, &f.end.attr, &address, NULL, 0, &f.end.qp, NULL),
                         0);
        /* It calls its own listener: the test answers in its place. */
        f.stream = fake_take_call(&f.net, address.port);
        assert_non_null(f.stream);
        fake_write(f.stream, answers[i], 20);
        poll_some(&f);
        assert_int_equal(f.end.connects, 0);
        assert_int_equal(f.end.disconnects, 1);
        assert_int_equal(f.end.disconnected.wc.status, IBV_WC_RETRY_EXC_ERR);
        assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_bad_startup, 1);
        close_end(&f);
    }
}

static void rc_protocol__connecting_takes_so_long(void **state)
{
    (void)state;
    struct forged f;

    open_end_only(&f);
    assert_int_equal(
        diwarp_connect(f.end.pd, &f.end.attr, &f.end.address, NULL, 0, &f.end.qp, NULL), 0);
    f.stream = fake_take_call(&f.net, f.end.address.port);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, 0, 1, NULL, 0), 0);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.recv, 3, IBV_SEND_INLINE, 1, NULL, 0), -EAGAIN);
    poll_some(&f);
    assert_int_equal(f.end.disconnects, 0);
    f.net.now_ns += 11000 * MS;
    poll_some(&f);
    assert_int_equal(f.end.disconnects, 1);
    assert_int_equal(f.end.disconnected.wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(f.end.flushed, 1);
    close_end(&f);
}

/* No limit is not one that is over at once. */
static void rc_protocol__connecting_may_take_for_ever(void **state)
{
    (void)state;
    struct forged f;

    open_end_only(&f);
    f.end.attr.connect_timeout_ns = UINT64_MAX;
    assert_int_equal(
        diwarp_connect(f.end.pd, &f.end.attr, &f.end.address, NULL, 0, &f.end.qp, NULL), 0);
    f.stream = fake_take_call(&f.net, f.end.address.port);
    poll_some(&f);
    f.net.now_ns += 1000000000 * MS;
    poll_some(&f);
    assert_int_equal(f.end.disconnects, 0);
    close_end(&f);
}

/* The first FPDU is the caller's, and part of the set-up: RFC 5044 7.1.2. */
static void rc_protocol__the_first_fpdu_takes_so_long(void **state)
{
    (void)state;
    for (unsigned speaks = 0; speaks < 2; speaks++) {
        struct forged f;

        open_forged(&f, false);
        f.net.now_ns += 9000 * MS;
        poll_some(&f);
        assert_int_equal(f.end.disconnects, 0);
        if (speaks)
            send_rtr(&f);
        f.net.now_ns += 2000 * MS;
        poll_some(&f);
        assert_int_equal(f.end.disconnects, !speaks);
        if (!speaks)
            assert_int_equal(f.end.disconnected.wc.status, IBV_WC_RETRY_EXC_ERR);
        close_end(&f);
    }
}

/* We were not there for long: what came in time lies in the stream, and counts. */
static void rc_protocol__the_first_fpdu_was_there_in_time(void **state)
{
    (void)state;
    struct forged f;

    open_forged(&f, false);
    send_segment(&f, &(struct dw_ddp_header){.tagged = true, .last = true}, NULL, 0);
    f.net.now_ns += 11000 * MS;
    poll_some(&f);
    assert_int_equal(f.end.disconnects, 0);
    close_end(&f);
}

/* The called side sends nothing before it had a good FPDU, not even a Terminate: RFC 5044 7.1.2. */
static void rc_protocol__the_first_fpdu_is_damaged(void **state)
{
    (void)state;
    uint8_t out[64];
    struct forged f;

    open_forged(&f, false);
    size_t bytes = seal(&f, out, "0123456789", 10);
    out[bytes - 1] ^= 1;
    fake_write(f.stream, out, bytes);
    poll_some(&f);
    assert_int_equal(f.end.disconnects, 1);
    assert_int_equal(f.end.disconnected.wc.vendor_err, DW_TERM_MPA_CRC);
    assert_int_equal(f.in_bytes, 0);
    close_end(&f);
}

/* ---- what the two agree on (RFC 6581 9) ----------------------------------------------------- */

enum {
    P2P = DW_MPA_PEER_TO_PEER,
    EMPTY = DW_MPA_RTR_EMPTY,
    WRITE = DW_MPA_RTR_WRITE,
    READ = DW_MPA_RTR_READ
};

/* What a frame says beside flags and private data. */
struct terms {
    uint8_t control;
    uint16_t ird, ord;
};

static size_t put_frame(const struct forged *f, uint8_t *buf, enum dw_mpa_kind kind,
                        const struct terms *terms)
{
    uint8_t data[DW_RC_HELLO_BYTES];
    const struct dw_rc_hello hello = {.token = f->end.address.token, .ird = 9};
    struct dw_mpa_frame frame = {.kind = kind,
                                 .flags = DW_MPA_CRC,
                                 .revision = 2,
                                 .private_bytes = DW_RC_HELLO_BYTES,
                                 .private_data = data};

    if (terms) {
        frame.flags |= DW_MPA_ENHANCED;
        frame.control = terms->control;
        frame.ird = terms->ird;
        frame.ord = terms->ord;
    }
    dw_rc_hello_put(data, &hello);
    return dw_mpa_frame_put(buf, &frame);
}

static void rc_protocol__the_reply_agrees_to_what_was_asked(void **state)
{
    (void)state;
    enum { IRD = 4 };
    static const struct {
        struct terms asked, agreed;
    } cases[] = {
        {{P2P | WRITE, 2, 3}, {P2P | WRITE, IRD, 2}},
        {{P2P | EMPTY | WRITE | READ, 7, 0}, {P2P | EMPTY | WRITE | READ, IRD, 4}},
        {{P2P | EMPTY, 0, 1}, {P2P | EMPTY, IRD, 0}},
        {{EMPTY | WRITE | READ, 3, 1}, {0, IRD, 3}},
        {{P2P | WRITE, DW_MPA_DEPTH_MAX, 1}, {P2P | WRITE, IRD, 4}},
    };
    for (unsigned i = 0; i <= sizeof cases / sizeof *cases; i++) {
        bool enhanced = i < sizeof cases / sizeof *cases;
        struct forged f;
        struct dw_mpa_frame frame;
        uint8_t buf[600];

        open_end(&f);
        f.end.attr.max_rd_atomic = IRD;
        fake_write(f.stream, buf,
                   put_frame(&f, buf, DW_MPA_REQUEST, enhanced ? &cases[i].asked : NULL));
        poll_some(&f);
        assert_int_equal(diwarp_accept(f.end.request, f.end.pd, &f.end.attr, NULL, 0, &f.end.qp),
                         0);
        poll_some(&f);
        assert_true(dw_mpa_frame_get(&frame, DW_MPA_REPLY, f.in, f.in_bytes) > 0);
        assert_int_equal(!!(frame.flags & DW_MPA_ENHANCED), enhanced);
        assert_int_equal(frame.private_bytes, DW_RC_HELLO_BYTES);
        if (enhanced) {
            assert_int_equal(frame.control, cases[i].agreed.control);
            assert_int_equal(frame.ird, cases[i].agreed.ird);
            assert_int_equal(frame.ord, cases[i].agreed.ord);
        }
        close_end(&f);
    }
}

static void rc_protocol__replies_that_do_not_suit(void **state)
{
    (void)state;
    static const struct {
        struct terms reply;
        uint16_t cause;
    } cases[] = {
        {{P2P | EMPTY | READ, 2, 2}, 0x2007}, /* we begin with a Write */
        {{P2P | WRITE, 2, 3}, 0x2006},        {{P2P | WRITE, 2, DW_MPA_DEPTH_MAX}, 0},
        {{P2P | EMPTY | WRITE, 2, 2}, 0},     {{0, 2, 2}, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forged f;
        uint8_t buf[600];

        call_forged(&f);
        poll_some(&f);
        f.in_bytes = 0;
        fake_write(f.stream, buf, put_frame(&f, buf, DW_MPA_REPLY, &cases[i].reply));
        poll_some(&f);
        assert_int_equal(f.end.connects, !cases[i].cause);
        if (cases[i].cause)
            expect_terminate(&f, cases[i].cause);
        close_end(&f);
    }
}

/* ---- turns ---- */

static void flood(struct forged *f, uint32_t *msn)
{
    enum { MESSAGES = 1000 };
    for (unsigned i = 0; i < MESSAGES; i++) {
        assert_int_equal(rc_post_recv(&f->end, f->recv, 1, *msn), 0);
        send_segment(f, &(struct dw_ddp_header){.last = true, .opcode = 3, .msn = (*msn)++}, "x",
                     1);
    }
    for (unsigned all = f->end.recvs + MESSAGES; f->end.recvs < all;)
        rc_end_poll(&f->end);
}

static void rc_protocol__a_call_amid_a_flood(void **state)
{
    (void)state;
    enum { FLOODS = 50 }; /* more than the runs between two looks at the other streams */
    struct forged f;
    uint32_t msn = 1;

    open_end(&f);
    f.end.attr.max_recv_wr = 8192;
    f.tx = f.rx = (struct dw_mpa_stream){.crc = true};
    write_request(&f, DW_MPA_CRC, 1, f.end.address.token);
    accept_call(&f);
    send_rtr(&f);
    flood(&f, &msn);
    struct fake_stream *flooder = f.stream;
    f.stream = fake_call(&f.net, f.end.address.port);
    write_request(&f, DW_MPA_CRC, 1, f.end.address.token);
    struct fake_stream *caller = f.stream;
    f.stream = flooder;
    for (unsigned i = 0; i < FLOODS; i++)
        flood(&f, &msn);
    assert_int_equal(f.end.requests, 2);
    diwarp_reject(f.end.request, NULL, 0);
    fake_hang_up(caller, true);
    close_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_protocol__strangers_are_closed_and_counted),
        cmocka_unit_test(rc_protocol__callers_may_be_slow),
        cmocka_unit_test(rc_protocol__silent_strangers_give_way),
        cmocka_unit_test(rc_protocol__false_answers),
        cmocka_unit_test(rc_protocol__connecting_takes_so_long),
        cmocka_unit_test(rc_protocol__connecting_may_take_for_ever),
        cmocka_unit_test(rc_protocol__the_first_fpdu_takes_so_long),
        cmocka_unit_test(rc_protocol__the_first_fpdu_was_there_in_time),
        cmocka_unit_test(rc_protocol__the_first_fpdu_is_damaged),
        cmocka_unit_test(rc_protocol__the_reply_agrees_to_what_was_asked),
        cmocka_unit_test(rc_protocol__replies_that_do_not_suit),
        cmocka_unit_test(rc_protocol__a_call_amid_a_flood),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
