/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP against a forged other side: with which Terminate it answers each thing that must not come
 * (RFC 5040 4.8, RFC 5041 8.2, RFC 5044 8), and which ends are no orderly ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/wire/bytes.h"
#include "test/unit/rc_segments.h"

/* ---- segments that must not come ------------------------------------------------------------ */

enum region { NONE, GOOD, READ_ONLY, UNKNOWN, LOCAL };

static const struct bad {
    const char *name;
    uint16_t cause;
    struct dw_ddp_header ddp;
    enum region region;
    int64_t offset;       /* tagged */
    uint32_t bytes;       /* payload */
    uint8_t byte0, byte1; /* instead, if not 0 */
} bads[] = {
    {"write, no STag", 0x1100, {.tagged = true, .last = true}, UNKNOWN, 0, 10, 0, 0},
    {"write, no right of a peer", 0x1100, {.tagged = true, .last = true}, LOCAL, 0, 10, 0, 0},
    {"write before", 0x1101, {.tagged = true, .last = true}, GOOD, -1, 10, 0, 0},
    {"write behind", 0x1101, {.tagged = true, .last = true}, GOOD, REGION_BYTES - 9, 10, 0, 0},
    {"write, TO wraps",
     0x1103,
     {.tagged = true, .last = true, .to = UINT64_MAX - 4},
     GOOD,
     0,
     10,
     0,
     0},
    {"write, no right", 0x0102, {.tagged = true, .last = true}, READ_ONLY, 0, 10, 0, 0},
    {"tagged version", 0x1104, {.tagged = true, .last = true}, GOOD, 0, 10, 0xc2, 0},
    {"untagged version", 0x1206, {.last = true, .opcode = 3, .msn = 1}, NONE, 0, 10, 0x40, 0},
    {"RDMAP version", 0x0205, {.last = true, .opcode = 3, .msn = 1}, NONE, 0, 10, 0, 0x83},
    {"opcode", 0x0206, {.last = true, .opcode = 3, .msn = 1}, NONE, 0, 10, 0, 0x4e},
    {"tagged Send", 0x0206, {.tagged = true, .last = true, .opcode = 3}, GOOD, 0, 10, 0, 0},
    {"QN", 0x1201, {.last = true, .opcode = 3, .qn = 7, .msn = 1}, NONE, 0, 10, 0, 0},
    {"MSN", 0x1203, {.last = true, .opcode = 3, .msn = 2}, NONE, 0, 10, 0, 0},
    {"MO", 0x1204, {.last = true, .opcode = 3, .msn = 1, .mo = 4}, NONE, 0, 10, 0, 0},
    {"too long", 0x1205, {.last = true, .opcode = 3, .msn = 1}, NONE, 0, 101, 0, 0},
    {"invalidate", 0x0109, {.last = true, .opcode = 4, .msn = 1, .ulp = 99}, NONE, 0, 10, 0, 0},
    {"invalidate, no right of a peer",
     0x0109,
     {.last = true, .opcode = 4, .msn = 1},
     LOCAL,
     0,
     10,
     0,
     0},
    {"response, no read", 0x0206, {.tagged = true, .last = true, .opcode = 2}, GOOD, 0, 10, 0, 0},
    {"long read request",
     0x1205,
     {.last = true, .opcode = 1, .qn = 1, .msn = 1},
     NONE,
     0,
     29,
     0,
     0},
    {"read request MSN", 0x1203, {.last = true, .opcode = 1, .qn = 1, .msn = 3}, NONE, 0, 28, 0, 0},
    {"read, no STag", 0x0100, {.last = true, .opcode = 1, .qn = 1, .msn = 1}, NONE, 0, 28, 0, 0},
};

static void check_bad(const struct bad *bad, bool markers)
{
    struct forged f;
    uint8_t ulpdu[1024] = {0};
    struct dw_ddp_header ddp = bad->ddp;

    open_forged(&f, markers);
    struct diwarp_mr *local =
        diwarp_reg_mr(f.end.pd, f.region, sizeof f.region, IBV_ACCESS_LOCAL_WRITE);
    memset(f.region, 0xee, sizeof f.region);
    assert_int_equal(rc_post_recv(&f.end, f.recv, sizeof f.recv, 1), 0);
    send_rtr(&f);
    ddp.stag = bad->region == GOOD        ? f.mr->stag
               : bad->region == READ_ONLY ? f.read_only->stag
               : bad->region == LOCAL     ? local->stag
                                          : f.mr->stag ^ 0x1000;
    if (bad->region == LOCAL)
        ddp.ulp = local->stag;
    if (!ddp.to)
        ddp.to = (uint64_t)(uintptr_t)f.region + (uint64_t)bad->offset;
    size_t head = dw_ddp_put(ulpdu, &ddp);
    ulpdu[0] = bad->byte0 ? bad->byte0 : ulpdu[0];
    ulpdu[1] = bad->byte1 ? bad->byte1 : ulpdu[1];
    if (ddp.opcode == DW_RDMAP_READ_REQUEST)
        dw_put_be32(ulpdu + head + 12, 5); /* bytes of STag 0 */
    send_ulpdu(&f, ulpdu, head + bad->bytes);
    poll_some(&f);
    if (f.end.disconnected.wc.vendor_err != bad->cause)
        fail_msg("%s: %04x instead of %04x", bad->name, f.end.disconnected.wc.vendor_err,
                 bad->cause);
    expect_terminate(&f, bad->cause);
    assert_int_equal(f.end.flushed, 1); /* the receive */
    assert_int_equal(f.end.recvs, 0);
    for (unsigned i = 0; i < REGION_BYTES; i++)
        assert_int_equal(f.region[i], 0xee);
    diwarp_dereg_mr(local);
    close_end(&f);
}

static void rc_protocol__terminates_with_the_right_cause(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof bads / sizeof *bads; i++) {
        check_bad(&bads[i], false);
        check_bad(&bads[i], true);
    }
}

static void invalidate(struct forged *f, uint32_t msn)
{
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_SEND_INVALIDATE, .msn = msn, .ulp = f->mr->stag};

    assert_int_equal(rc_post_recv(&f->end, f->recv, 10, msn), 0);
    send_segment(f, &ddp, NULL, 0);
    poll_some(f);
}

/* Then it is the STag that is invalid, no right that is missing (RFC 5040 5.3). */
static void rc_protocol__invalid_is_invalid(void **state)
{
    (void)state;
    for (unsigned again = 0; again < 2; again++) {
        struct forged f;

        open_forged(&f, false);
        send_rtr(&f);
        invalidate(&f, 1);
        assert_int_equal(f.end.recvs, 1);
        assert_int_equal(f.end.last_recv.wc.invalidated_rkey, f.mr->stag);
        const struct dw_ddp_header ddp = {
            .tagged = true, .last = true, .stag = f.mr->stag, .to = (uint64_t)(uintptr_t)f.region};
        if (again)
            invalidate(&f, 2);
        else
            send_segment(&f, &ddp, f.recv, 3);
        expect_terminate(&f, again ? 0x0109 : 0x1100);
        close_end(&f);
    }
}

static void rc_protocol__crc_is_checked_before_placing(void **state)
{
    (void)state;
    struct forged f;
    uint8_t ulpdu[64] = {0}, fpdu[128];

    open_forged(&f, false);
    memset(f.region, 0xee, sizeof f.region);
    send_rtr(&f);
    const struct dw_ddp_header ddp = {
        .tagged = true, .last = true, .stag = f.mr->stag, .to = (uint64_t)(uintptr_t)f.region};
    size_t bytes = seal(&f, fpdu, ulpdu, dw_ddp_put(ulpdu, &ddp) + 20);
    fpdu[bytes - 1] ^= 1;
    fake_write(f.stream, fpdu, bytes);
    expect_terminate(&f, 0x2002);
    assert_int_equal(f.region[0], 0xee);
    assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_bad_crc, 1);
    close_end(&f);
}

static void rc_protocol__send_without_receive(void **state)
{
    (void)state;
    struct forged f;

    open_forged(&f, false);
    send_rtr(&f);
    send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 3, .msn = 1}, "abc", 3);
    expect_terminate(&f, 0x1202);
    close_end(&f);
}

static void rc_protocol__send_waits_for_a_receive_so_long(void **state)
{
    (void)state;
    struct forged f;

    open_end(&f);
    f.end.attr.rnr_timeout_ns = 1000 * MS;
    f.tx = f.rx = (struct dw_mpa_stream){.crc = true};
    write_request(&f, DW_MPA_CRC, 1, f.end.address.token);
    accept_call(&f);
    send_rtr(&f);
    for (uint32_t i = 1; i <= 3; i++)
        send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 3, .msn = i}, "abc", i);
    poll_some(&f);
    assert_int_equal(f.end.recvs, 0);
    assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_rx_waits, 1);
    for (uint32_t i = 1; i <= 2; i++) {
        assert_int_equal(rc_post_recv(&f.end, f.recv, 10, i), 0);
        poll_some(&f);
        assert_int_equal(f.end.recvs, i);
        assert_int_equal(f.end.last_recv.wc.byte_len, i);
    }
    assert_int_equal(rc_post_recv(&f.end, f.recv, 10, 3), 0); /* in time, though nobody polls */
    f.net.now_ns += 2000 * MS;
    poll_some(&f);
    assert_int_equal(f.end.recvs, 3);
    assert_int_equal(f.end.disconnects, 0);
    send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 3, .msn = 4}, "abc", 3);
    poll_some(&f);
    f.net.now_ns += 2000 * MS;
    expect_terminate(&f, 0x1202);
    close_end(&f);
}

static void tell_retries(struct forged *f, uint64_t retries)
{
    const struct dw_ddp_header ddp = {
        .tagged = true, .last = true, .to = UINT64_C(0x524e522072657400) + retries};
    send_segment(f, &ddp, NULL, 0);
}

/* Seven and more is none of ours. */
static void rc_protocol__the_other_side_tells_its_retries(void **state)
{
    (void)state;
    for (uint32_t retries = 0; retries <= 7; retries++) {
        struct forged f;
        open_end(&f);
        f.end.attr.rnr_timeout_ns = UINT64_MAX;
        f.end.attr.rnr_timer_ns = 100 * MS;
        f.tx = f.rx = (struct dw_mpa_stream){.crc = true};
        write_request(&f, DW_MPA_CRC, 1, f.end.address.token);
        accept_call(&f);
        send_rtr(&f);
        tell_retries(&f, retries);
        send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 3, .msn = 1}, "abc", 3);
        poll_some(&f);
        assert_int_equal(f.end.disconnects, 0);
        f.net.now_ns += (retries ? retries * 100 * MS : 20 * MS) - MS;
        poll_some(&f);
        assert_int_equal(f.end.disconnects, 0);
        f.net.now_ns += 2 * MS;
        if (retries < 7)
            expect_terminate(&f, 0x1202);
        poll_some(&f);
        assert_int_equal(f.end.disconnects, retries < 7);
        close_end(&f);
    }
}

/* Also where a Send may wait for its receive for ever, be it that it came before or after. */
static void rc_protocol__a_close_takes_so_long_while_a_send_waits(void **state)
{
    (void)state;
    for (unsigned closes_first = 0; closes_first < 2; closes_first++) {
        struct forged f;

        open_end(&f);
        f.end.attr.rnr_timeout_ns = UINT64_MAX;
        f.end.attr.connect_timeout_ns = 1000 * MS;
        f.tx = f.rx = (struct dw_mpa_stream){.crc = true};
        write_request(&f, DW_MPA_CRC, 1, f.end.address.token);
        accept_call(&f);
        send_rtr(&f);
        if (closes_first)
            diwarp_disconnect(f.end.qp);
        send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 3, .msn = 1}, "abc", 3);
        poll_some(&f);
        assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_rx_waits, 1);
        if (!closes_first)
            diwarp_disconnect(f.end.qp);
        poll_some(&f);
        assert_int_equal(f.end.disconnects, 0);
        f.net.now_ns += 1100 * MS;
        poll_some(&f);
        assert_int_equal(f.end.disconnects, 1);
        close_end(&f);
    }
}

static void rc_protocol__reads_are_answered_up_to_the_ird(void **state)
{
    (void)state;
    struct forged f;
    struct dw_ddp_header ddp;
    uint8_t payload[1024], body[DW_READ_REQUEST_STREAM_BYTES];

    open_forged(&f, false);
    send_rtr(&f);
    fill(f.region, REGION_BYTES, 3);
    struct dw_read_request request = {.sink_stag = 77,
                                      .sink_to = 1000,
                                      .size = 300,
                                      .source_stag = f.read_only->stag,
                                      .source_to = (uint64_t)(uintptr_t)f.region + 50};
    dw_read_request_put_stream(body, &request);
    ddp = (struct dw_ddp_header){.last = true, .opcode = 1, .qn = 1, .msn = 1};
    send_segment(&f, &ddp, body, sizeof body);
    assert_int_equal(read_segment(&f, &ddp, payload), 300);
    assert_int_equal(ddp.opcode, DW_RDMAP_READ_RESPONSE);
    assert_int_equal(ddp.stag, 77);
    assert_int_equal(ddp.to, 1000);
    assert_true(ddp.last);
    assert_memory_equal(payload, f.region + 50, 300);
    /* Three at once, where two were agreed on. */
    for (uint32_t i = 2; i <= 4; i++) {
        ddp = (struct dw_ddp_header){.last = true, .opcode = 1, .qn = 1, .msn = i};
        send_segment(&f, &ddp, body, sizeof body);
    }
    expect_terminate(&f, 0x1202);
    close_end(&f);
}

static void rc_protocol__terminate_is_understood(void **state)
{
    (void)state;
    struct forged f;
    uint8_t body[DW_TERMINATE_MAX_BYTES];

    open_forged(&f, false);
    assert_int_equal(rc_post_recv(&f.end, f.recv, 10, 1), 0);
    send_rtr(&f);
    size_t bytes = dw_terminate_put(body, DW_TERM_DDP_STAG, NULL, 0);
    send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 7, .qn = 2, .msn = 1}, body,
                 bytes);
    poll_some(&f);
    assert_int_equal(f.end.disconnects, 1);
    assert_int_equal(f.end.disconnected.wc.status, IBV_WC_REM_OP_ERR);
    assert_int_equal(f.end.disconnected.wc.vendor_err, 0x1100);
    assert_int_equal(f.end.flushed, 1);
    assert_int_equal(diwarp_query_rc_counters(f.end.cq)->rc_rx_terminates, 1);
    close_end(&f);
}

/* Whatever follows it: headers that are cut off, or a payload too short to have a cause. */
static void rc_protocol__terminate_is_understood_in_part(void **state)
{
    (void)state;
    static const uint8_t body[] = {0x11, 0x00, 0xe0, 0x00, 0x00};
    static const uint16_t causes[] = {0x02ff, 0x02ff, 0x02ff, 0x02ff, 0x1100, 0x1100};
    for (size_t bytes = 0; bytes <= sizeof body; bytes++) {
        struct forged f;

        open_forged(&f, false);
        send_rtr(&f);
        send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 7, .qn = 2, .msn = 1},
                     body, bytes);
        poll_some(&f);
        assert_int_equal(f.end.disconnects, 1);
        assert_int_equal(f.end.disconnected.wc.vendor_err, causes[bytes]);
        close_end(&f);
    }
}

/* Behind the rest of an FPDU that the connection had no room for, when the other side has ended its
 * sending: it may read on. */
static void rc_protocol__terminate_leaves_after_the_other_end(void **state)
{
    (void)state;
    enum { ROOM = 50, SEND_BYTES = 500 };
    struct forged f;
    struct dw_ddp_header ddp;
    uint8_t payload[1024];

    open_forged(&f, false);
    send_rtr(&f);
    f.net.room_bytes = ROOM;
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.region, SEND_BYTES, 0, 1, NULL, 0), 0);
    send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 3, .msn = 7}, "x", 1);
    fake_end(f.stream);
    for (unsigned i = 0; i < 2 * SEND_BYTES / ROOM; i++)
        poll_some(&f);
    assert_int_equal(read_segment(&f, &ddp, payload), SEND_BYTES);
    assert_int_equal(ddp.opcode, DW_RDMAP_SEND);
    expect_terminate(&f, 0x1203);
    close_end(&f);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void rc_protocol__an_end_in_the_middle_is_no_order(void **state)
{
    (void)state;
    for (unsigned reset = 0; reset < 2; reset++) {
        for (size_t kept = 0; kept < 40; kept++) {
            struct forged f;
            uint8_t ulpdu[64] = {0}, fpdu[128];

            open_forged(&f, false);
            assert_int_equal(rc_post_recv(&f.end, f.recv, 50, 1), 0);
            send_rtr(&f);
            const struct dw_ddp_header ddp = {.last = true, .opcode = 3, .msn = 1};
            size_t bytes = seal(&f, fpdu, ulpdu, dw_ddp_put(ulpdu, &ddp) + 20);
            assert_true(bytes > kept);
            fake_write(f.stream, fpdu, kept);
            fake_hang_up(f.stream, reset);
            for (unsigned i = 0; i < 40; i++)
                rc_end_poll(&f.end);
            assert_int_equal(f.end.disconnects, 1);
            assert_int_equal(f.end.disconnected.wc.status,
                             kept || reset ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
            assert_int_equal(f.end.flushed, 1);
            f.stream = fake_call(&f.net, 1);
            close_end(&f);
        }
    }
}

/* It goes while we still send: what it sent before is delivered, but the end is no orderly one. */
static void rc_protocol__an_end_with_data_owed_is_no_order(void **state)
{
    (void)state;
    struct forged f;

    open_forged(&f, false);
    send_rtr(&f);
    assert_int_equal(rc_post_recv(&f.end, f.recv, 10, 1), 0);
    send_segment(&f, &(struct dw_ddp_header){.last = true, .opcode = 3, .msn = 1}, "abc", 3);
    fake_hang_up(f.stream, false);
    assert_int_equal(rc_post(&f.end, IBV_WR_SEND, f.region, 3, 0, 1, NULL, 0), 0);
    for (unsigned i = 0; i < 40; i++)
        rc_end_poll(&f.end);
    assert_int_equal(f.end.recvs, 1);
    assert_int_equal(f.end.flushed, 1);
    assert_int_equal(f.end.disconnects, 1);
    assert_int_equal(f.end.disconnected.wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(f.end.disconnected.wc.vendor_err, DW_TERM_MPA_TCP_LOST);
    f.stream = fake_call(&f.net, 1);
    close_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_protocol__terminates_with_the_right_cause),
        cmocka_unit_test(rc_protocol__invalid_is_invalid),
        cmocka_unit_test(rc_protocol__crc_is_checked_before_placing),
        cmocka_unit_test(rc_protocol__send_without_receive),
        cmocka_unit_test(rc_protocol__send_waits_for_a_receive_so_long),
        cmocka_unit_test(rc_protocol__the_other_side_tells_its_retries),
        cmocka_unit_test(rc_protocol__a_close_takes_so_long_while_a_send_waits),
        cmocka_unit_test(rc_protocol__reads_are_answered_up_to_the_ird),
        cmocka_unit_test(rc_protocol__terminate_is_understood),
        cmocka_unit_test(rc_protocol__terminate_is_understood_in_part),
        cmocka_unit_test(rc_protocol__terminate_leaves_after_the_other_end),
        cmocka_unit_test(rc_protocol__an_end_in_the_middle_is_no_order),
        cmocka_unit_test(rc_protocol__an_end_with_data_owed_is_no_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
