/* SPDX-License-Identifier: BSD-3-Clause */
/* The intro block, against vectors written from WIRE.md. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "common/wire/bytes.h"
#include "common/wire/llp_header.h"
#include "test/vectors/vectors.h"

static const struct dw_intro intro_ipv4 = {.token = 0x1122334455667788,
                                           .family = AF_INET,
                                           .port = 40001,
                                           .mtu_bytes = 1500,
                                           .ip = {10, 0, 0, 2}};
static const struct dw_intro intro_ipv6 = {
    .token = 0x8000000000000001,
    .family = AF_INET6,
    .flow = 5,
    .port = 65535,
    .mtu_bytes = 65535,
    .ip = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

static void assert_intro_equal(const struct dw_intro *a, const struct dw_intro *b)
{
    assert_true(a->token == b->token);
    assert_int_equal(a->family, b->family);
    assert_int_equal(a->flow, b->flow);
    assert_int_equal(a->port, b->port);
    assert_int_equal(a->mtu_bytes, b->mtu_bytes);
    assert_memory_equal(a->ip, b->ip, sizeof a->ip);
}

static void intro__golden(void **state)
{
    uint8_t buf[DW_INTRO_BYTES];
    struct dw_intro intro;
    struct vector v;

    (void)state;
    vector_load(&v, "datagram_data_intro_coalesced");
    assert_int_equal(
        dw_intro_get(&intro, v.bytes + DW_LLP_HEADER_BYTES, v.len - DW_LLP_HEADER_BYTES), 0);
    assert_intro_equal(&intro, &intro_ipv4);
    dw_intro_put(buf, &intro_ipv4);
    assert_memory_equal(buf, v.bytes + DW_LLP_HEADER_BYTES, sizeof buf);

    vector_load(&v, "intro_ipv6");
    assert_int_equal(dw_intro_get(&intro, v.bytes, v.len), 0);
    assert_intro_equal(&intro, &intro_ipv6);
    dw_intro_put(buf, &intro_ipv6);
    assert_int_equal(v.len, sizeof buf);
    assert_memory_equal(buf, v.bytes, sizeof buf);
}

/* What lies behind an IPv4 address in the struct does not reach the wire. */
static void intro_put__ipv4_tail(void **state)
{
    struct dw_intro intro = intro_ipv4, out;
    uint8_t buf[DW_INTRO_BYTES];

    (void)state;
    memset(intro.ip + 4, 0xee, 12);
    dw_intro_put(buf, &intro);
    assert_int_equal(dw_intro_get(&out, buf, sizeof buf), 0);
    assert_intro_equal(&out, &intro_ipv4);
}

static void intro_get__truncated(void **state)
{
    struct vector v;

    (void)state;
    vector_load(&v, "intro_ipv6");
    for (size_t len = 0; len < v.len; len++) {
        uint8_t *bytes = exact_copy(v.bytes, len);
        struct dw_intro intro;

        assert_int_equal(dw_intro_get(&intro, bytes, len), -EBADMSG);
        free(bytes);
    }
}

static void intro_get__family(void **state)
{
    uint8_t buf[DW_INTRO_BYTES];
    struct dw_intro intro;

    (void)state;
    dw_intro_put(buf, &intro_ipv4);
    for (unsigned family = 0; family < 256; family++) {
        buf[8] = (uint8_t)family;
        assert_int_equal(dw_intro_get(&intro, buf, sizeof buf),
                         family == 4 || family == 6 ? 0 : -EPROTO);
    }
}

static void intro_get__flow(void **state)
{
    uint8_t buf[DW_INTRO_BYTES];
    struct dw_intro intro;

    (void)state;
    dw_intro_put(buf, &intro_ipv4);
    for (unsigned flow = 0; flow < 256; flow++) {
        buf[9] = (uint8_t)flow;
        assert_int_equal(dw_intro_get(&intro, buf, sizeof buf), flow < 8 ? 0 : -EPROTO);
        assert_true(flow >= 8 || intro.flow == flow);
    }
}

static void intro_get__no_group(void **state)
{
    static const struct {
        uint8_t family, ip[16];
        int expected;
    } cases[] = {
        {AF_INET, {10, 0, 0, 1}, 0},
        {AF_INET, {127, 0, 0, 1}, 0},
        {AF_INET, {223, 255, 255, 254}, 0},
        {AF_INET, {0}, -EPROTO},
        {AF_INET, {0, 0, 0, 1}, -EPROTO},
        {AF_INET, {224, 0, 0, 1}, -EPROTO},
        {AF_INET, {255, 255, 255, 255}, -EPROTO},
        {AF_INET6, {0xfe, 0x80, [15] = 1}, 0},
        {AF_INET6, {[15] = 1}, 0},
        {AF_INET6, {0}, -EPROTO},
        {AF_INET6, {0xff, 0x02, [15] = 1}, -EPROTO},
    };
    uint8_t buf[DW_INTRO_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dw_intro intro = intro_ipv4;
        intro.family = cases[i].family;
        memcpy(intro.ip, cases[i].ip, sizeof intro.ip);
        dw_intro_put(buf, &intro);
        assert_int_equal(dw_intro_get(&intro, buf, sizeof buf), cases[i].expected);
    }
}

static void intro_get__reserved_bits(void **state)
{
    uint8_t buf[DW_INTRO_BYTES];
    struct dw_intro intro;

    (void)state;
    dw_intro_put(buf, &intro_ipv4);
    for (unsigned byte = 0; byte < DW_INTRO_BYTES; byte++) {
        bool reserved = byte == 14 || byte == 15 || byte >= 20;

        for (unsigned bit = 0; reserved && bit < 8; bit++) {
            buf[byte] ^= (uint8_t)(1u << bit);
            assert_int_equal(dw_intro_get(&intro, buf, sizeof buf), -EPROTO);
            buf[byte] ^= (uint8_t)(1u << bit);
        }
    }
    assert_int_equal(dw_intro_get(&intro, buf, sizeof buf), 0);
}

static void intro_get__port_and_mtu(void **state)
{
    static const struct {
        uint16_t port, mtu_bytes;
        int expected;
    } cases[] = {
        {0, 1500, -EPROTO}, {1, 1500, 0}, {1, 0, -EPROTO},
        {1, 575, -EPROTO},  {1, 576, 0},  {65535, 65535, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t buf[DW_INTRO_BYTES];
        struct dw_intro intro;

        dw_intro_put(buf, &intro_ipv4);
        dw_put_be16(buf + 10, cases[i].port);
        dw_put_be16(buf + 12, cases[i].mtu_bytes);
        assert_int_equal(dw_intro_get(&intro, buf, sizeof buf), cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intro__golden),
        cmocka_unit_test(intro_put__ipv4_tail),
        cmocka_unit_test(intro_get__truncated),
        cmocka_unit_test(intro_get__family),
        cmocka_unit_test(intro_get__flow),
        cmocka_unit_test(intro_get__no_group),
        cmocka_unit_test(intro_get__reserved_bits),
        cmocka_unit_test(intro_get__port_and_mtu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
