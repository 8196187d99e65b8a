/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of QPs: their network form, what is refused of it, and the handles made of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/node.h"
#include "test/unit/random.h"

static const struct diwarp_address sample = {
    .name = {.job = 0x01020304, .rank = 0x05060708},
    .token = 0x1112131415161718,
    .host_id = 0x2122232425262728,
    .incarnation = 0x41424344,
    .qpn = 0x515253,
    .port = 0x3132,
    .interface_count = 2,
    .interfaces = {{.family = AF_INET,
                    .prefix_bits = 24,
                    .mtu_bytes = 1500,
                    .ip = {10, 1, 2, 3}},
                   {.family = AF_INET6,
                    .prefix_bits = 128,
                    .loopback = true,
                    .mtu_bytes = 65536,
                    .ip = {[15] = 1}}},
};

/* Written from the layout's description, not from the packer. */
static const uint8_t packed[] = {
    'd', 'w', 2, 2, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
    0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
    0x41, 0x42, 0x43, 0x44, 0, 0x51, 0x52, 0x53, 0x31, 0x32,
    4, 24, 0, 0, 0, 0, 0x05, 0xdc, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    6, 128, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
};

static void address_pack__golden(void **state)
{
    (void)state;
    uint8_t buf[DIWARP_ADDRESS_MAX_BYTES];
    struct diwarp_address all = sample;

    assert_int_equal(diwarp_address_pack(&sample, buf, sizeof buf), sizeof packed);
    assert_memory_equal(buf, packed, sizeof packed);
    assert_int_equal(diwarp_address_pack(&sample, buf, sizeof packed), sizeof packed);
    assert_int_equal(diwarp_address_pack(&sample, buf, sizeof packed - 1), -ENOSPC);
    all.interface_count = DIWARP_MAX_INTERFACES;
    assert_true(diwarp_address_pack(&all, buf, sizeof buf) > 0);
}

static void address_unpack__golden(void **state)
{
    (void)state;
    struct diwarp_address address;

    assert_int_equal(diwarp_address_unpack(&address, packed, sizeof packed), 0);
    assert_int_equal(address.name.job, sample.name.job);
    assert_int_equal(address.name.rank, sample.name.rank);
    assert_int_equal(address.token, sample.token);
    assert_int_equal(address.host_id, sample.host_id);
    assert_int_equal(address.incarnation, sample.incarnation);
    assert_int_equal(address.qpn, sample.qpn);
    assert_int_equal(address.port, sample.port);
    assert_int_equal(address.interface_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct diwarp_interface *got = &address.interfaces[i];
        const struct diwarp_interface *want = &sample.interfaces[i];
        assert_int_equal(got->family, want->family);
        assert_int_equal(got->prefix_bits, want->prefix_bits);
        assert_int_equal(got->loopback, want->loopback);
        assert_int_equal(got->mtu_bytes, want->mtu_bytes);
        assert_memory_equal(got->ip, want->ip, sizeof got->ip);
    }
}

/* With authentication: its mode before the QPN; behind the interfaces key id and secret. */
static void address__with_a_secret(void **state)
{
    (void)state;
    static const uint8_t tail[] = {0x61, 0x62, 0x63, 0x64, 1,  2,  3,  4,  5,  6,
                                   7,    8,    9,    10,   11, 12, 13, 14, 15, 16};
    struct diwarp_address address = sample;
    uint8_t buf[DIWARP_ADDRESS_MAX_BYTES], wanted[sizeof packed + sizeof tail];

    address.auth = DIWARP_AUTH_AES_GCM;
    address.auth_key_id = 0x61626364;
    for (unsigned i = 0; i < DIWARP_SECRET_BYTES; i++)
        address.secret[i] = (uint8_t)(i + 1);
    memcpy(wanted, packed, sizeof packed);
    memcpy(wanted + sizeof packed, tail, sizeof tail);
    wanted[32] = 2;
    assert_int_equal(diwarp_address_pack(&address, buf, sizeof buf), sizeof wanted);
    assert_memory_equal(buf, wanted, sizeof wanted);
    assert_int_equal(diwarp_address_pack(&address, buf, sizeof wanted - 1), -ENOSPC);
    assert_int_equal(diwarp_address_unpack(&address, wanted, sizeof wanted - 1), -EPROTO);
    memset(&address, 0, sizeof address);
    assert_int_equal(diwarp_address_unpack(&address, wanted, sizeof wanted), 0);
    assert_int_equal(address.auth, DIWARP_AUTH_AES_GCM);
    assert_int_equal(address.auth_key_id, 0x61626364);
    assert_int_equal(address.qpn, sample.qpn);
    assert_memory_equal(address.secret, tail + 4, sizeof address.secret);
    wanted[32] = 3;
    assert_int_equal(diwarp_address_unpack(&address, wanted, sizeof wanted), -EPROTO);
    address.interface_count = DIWARP_MAX_INTERFACES;
    assert_true(diwarp_address_pack(&address, buf, sizeof buf) > 0);
}

static void address_unpack__each_field_is_checked(void **state)
{
    (void)state;
    static const struct {
        unsigned at;
        uint8_t value;
        int rc;
    } cases[] = {
        {0, 'x', -EPROTO},  {1, 'x', -EPROTO},    {2, 0, -EPROTONOSUPPORT},
        {2, 1, -EPROTONOSUPPORT}, {3, 0, -EPROTO}, {3, 3, -EPROTO}, /* more than there are bytes */
        {3, 9, -EPROTO},    {3, 1, 0},            {38, 5, -EPROTO},  {39, 33, -EPROTO},
        {39, 32, 0},        {40, 2, -EPROTO},     {44, 0x02, 0},     {44, 0, -EPROTO}, /* MTU 220 */
        {62, 4, -EPROTO}, /* an IPv4 prefix of 128 */ {63, 129, -EPROTO},
        {32, 1, -EPROTO}, /* authentication without a secret */
    };
    struct diwarp_address address;
    uint8_t buf[sizeof packed];

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(buf, packed, sizeof buf);
        buf[cases[i].at] = cases[i].value;
        if (diwarp_address_unpack(&address, buf, sizeof buf) != cases[i].rc)
            fail_msg("byte %u = %u: not %d", cases[i].at, cases[i].value, cases[i].rc);
    }
    memcpy(buf, packed, sizeof buf);
    buf[36] = buf[37] = 0;
    assert_int_equal(diwarp_address_unpack(&address, buf, sizeof buf), -EPROTO);
    memcpy(buf, packed, sizeof buf);
    buf[33] = buf[34] = buf[35] = 0; /* a listener's */
    assert_int_equal(diwarp_address_unpack(&address, buf, sizeof buf), 0);
    assert_int_equal(address.qpn, 0);
}

static void address_unpack__any_length(void **state)
{
    (void)state;
    struct diwarp_address address;

    for (size_t len = 0; len < sizeof packed; len++) {
        uint8_t *copy = malloc(len ? len : 1); /* exact: reading past it is seen */
        memcpy(copy, packed, len);
        assert_int_equal(diwarp_address_unpack(&address, copy, len), -EPROTO);
        free(copy);
    }
}

static void address_unpack__what_it_takes_packs_back(void **state)
{
    (void)state;
    uint8_t buf[DIWARP_ADDRESS_MAX_BYTES], again[DIWARP_ADDRESS_MAX_BYTES];
    struct diwarp_address address;
    uint64_t rng = 5;

    for (unsigned i = 0; i < 20000; i++) {
        memcpy(buf, packed, sizeof packed);
        for (unsigned n = random_below(&rng, 4); n--;)
            buf[random_below(&rng, sizeof packed)] = (uint8_t)random_next(&rng);
        if (diwarp_address_unpack(&address, buf, sizeof packed))
            continue;
        int len = diwarp_address_pack(&address, again, sizeof again);
        assert_true(len > 0 && (size_t)len <= sizeof packed);
        buf[41] = 0; /* reserved: not looked at */
        buf[65] = 0;
        assert_memory_equal(again, buf, (size_t)len);
    }
}

static void ah__formats_and_refuses(void **state)
{
    (void)state;
    struct diwarp_address far = sample;
    struct diwarp_ah *ah = NULL;
    struct node node;
    char text[64];

    node_open_default(&node, 1, DIWARP_QPT_RD);
    assert_int_equal(node.address.name.rank, 1);
    assert_int_equal(node.address.interface_count, 1);
    assert_true(node.address.port && node.address.token);
    assert_int_equal(diwarp_create_ah(node.qp, &node.address, &ah), 0);
    char expected[64];
    snprintf(expected, sizeof expected, "127.0.0.1:%u", node.address.port);
    diwarp_format_ah(ah, text, sizeof text);
    assert_string_equal(text, expected);
    diwarp_format_ah(ah, text, 4);
    assert_string_equal(text, "127");
    diwarp_destroy_ah(ah);
    struct diwarp_address listener = node.address;
    listener.qpn = 0;
    assert_int_equal(diwarp_create_ah(node.qp, &listener, &ah), -EINVAL);
    /* From a loopback interface no other host can be reached. */
    assert_int_equal(diwarp_create_ah(node.qp, &far, &ah), -ENETUNREACH);
    node_close(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_pack__golden),
        cmocka_unit_test(address_unpack__golden),
        cmocka_unit_test(address__with_a_secret),
        cmocka_unit_test(address_unpack__each_field_is_checked),
        cmocka_unit_test(address_unpack__any_length),
        cmocka_unit_test(address_unpack__what_it_takes_packs_back),
        cmocka_unit_test(ah__formats_and_refuses),
    };

    return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
