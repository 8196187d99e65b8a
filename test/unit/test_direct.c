/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets of their own for busy addresses of this host: who gets one, and what sends by them do. */
#include "test/unit/udp_fixture.h"

#include "common/llp/direct.h"

#define ENOUGH 256 /* sends to an address */

static struct dw_llp_addr address(const char *ip, uint16_t port)
{
    struct dw_llp_addr addr = {.family = strchr(ip, ':') ? AF_INET6 : AF_INET, .port = port};
    assert_int_equal(inet_pton(addr.family, ip, addr.ip), 1);
    return addr;
}

static int ask(struct dw_directs *directs, struct dw_llp_addr to, unsigned times)
{
    int fd = -1;
    while (times--)
        fd = dw_direct_fd(directs, &to);
    return fd;
}

static void direct_fd__after_many_sends_to_this_host(void **state)
{
    static const struct {
        const char *ip;
        bool on_this_host;
    } cases[] = {{"127.0.0.1", true}, {"127.9.9.9", true},  {"::1", true},
                 {"10.0.0.1", false}, {"fe80::1", false},   {"::ffff:127.0.0.1", false},
                 {"0.0.0.0", false},  {"128.0.0.1", false}, {"255.255.255.255", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dw_directs directs = {0};
        dw_directs_init(&directs);
        assert_int_equal(ask(&directs, address(cases[i].ip, 4000), ENOUGH - 1), -1);
        assert_int_equal(ask(&directs, address(cases[i].ip, 4000), 1) >= 0, cases[i].on_this_host);
        dw_directs_fini(&directs);
    }
}

static void direct_fd__another_address_takes_over_when_it_has_more(void **state)
{
    struct dw_directs directs = {0};
    const struct dw_llp_addr one = address("127.0.0.1", 4000);
    const struct dw_llp_addr same_slot = address("127.0.0.1", 4000 + DW_DIRECTS);
    const struct dw_llp_addr other_host = address("127.0.0.2", 4000);
    struct diwarp_memory memory = {0};
    (void)state;
    dw_directs_init(&directs);
    const int fd = ask(&directs, one, ENOUGH);
    assert_true(fd >= 0);
    assert_int_equal(ask(&directs, same_slot, ENOUGH / 2), -1);
    assert_int_equal(ask(&directs, one, 1), fd);
    assert_int_equal(ask(&directs, other_host, ENOUGH), -1);
    dw_directs_add_memory(&directs, &memory);
    assert_int_equal(memory.sockets, 0);
    assert_true(ask(&directs, other_host, ENOUGH) >= 0);
    dw_directs_add_memory(&directs, &memory);
    assert_int_equal(memory.sockets, 1);
    dw_directs_fini(&directs);
}

/* Like the common socket's: a datagram too long for the path is refused, not cut. */
static void direct_fd__sends_with_df(void **state)
{
    struct dw_directs directs = {0};
    int discovery = -1;
    socklen_t len = sizeof discovery;
    (void)state;
    dw_directs_init(&directs);
    const int fd = ask(&directs, address("127.0.0.1", 4000), ENOUGH);
    assert_int_equal(getsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discovery, &len), 0);
    assert_int_equal(discovery, IP_PMTUDISC_DO);
    dw_directs_fini(&directs);
}

static void direct_drop__another_has_to_be_earned(void **state)
{
    struct dw_directs directs = {0};
    const struct dw_llp_addr to = address("127.0.0.1", 4000);
    (void)state;
    dw_directs_init(&directs);
    assert_true(ask(&directs, to, ENOUGH) >= 0);
    dw_direct_drop(&directs, &to);
    assert_int_equal(ask(&directs, to, ENOUGH - 1), -1);
    assert_true(ask(&directs, to, 1) >= 0);
    dw_directs_fini(&directs);
}

static uint64_t sockets_of(const struct dw_llp *llp)
{
    struct diwarp_memory memory = {0};
    llp->ops->add_memory(llp, &memory);
    return memory.sockets;
}

static void udp_send__by_a_direct_socket__all_arrives(void **state)
{
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    (void)state;
    for (unsigned i = 0; i < 2 * ENOUGH; i++)
        exchange(tx, rx, 8, 8);
    assert_int_equal(sockets_of(tx), 2);
    exchange(tx, rx, 64768, 1472);
    exchange(tx, rx, 65000, 65000);
    assert_int_equal(tx_counters.tx_datagrams, 2 * ENOUGH + 45);
    close_llp(tx);
    close_llp(rx);
}

static void udp_send__by_a_direct_socket__that_nobody_has_the_port_is_told(void **state)
{
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    const struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
    struct dw_llp_addr back;
    (void)state;
    for (unsigned i = 0; i < ENOUGH; i++)
        exchange(tx, rx, 8, 8);
    close_llp(rx);
    /* The first is refused, which fails the second; that goes by the common socket. */
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(send_train(tx, &to, 8, 8), 0);
    assert_int_equal(sockets_of(tx), 1);
    assert_int_equal(tx->ops->icmp(tx, &back), 0);
    assert_int_equal(back.port, to.port);
    close_llp(tx);
}

static void udp_send__with_a_port_range__by_the_common_socket_alone(void **state)
{
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *rx = open_llp(&attr, &rx_counters);
    (void)state;
    attr.port_min = 21000;
    attr.port_max = 21999;
    struct dw_llp *tx = open_llp(&attr, &tx_counters);
    for (unsigned i = 0; i < 2 * ENOUGH; i++)
        exchange(tx, rx, 8, 8);
    assert_int_equal(sockets_of(tx), 1);
    close_llp(tx);
    close_llp(rx);
}

static void udp_recv__an_answer_of_the_same_length_is_no_train(void **state)
{
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *a = open_llp(&attr, &tx_counters), *b = open_llp(&attr, &rx_counters);
    const struct dw_llp_addr to_a = to_loopback(AF_INET, a->port);
    uint32_t segment_bytes;
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        const struct dw_llp_addr to_b = to_loopback(AF_INET, b->port);
        assert_int_equal(send_train(a, &to_b, 8192, 8192), 0);
        assert_int_equal(b->ops->recv(b, slot_memory, &segment_bytes), 8192);
        assert_int_equal(send_train(b, &to_a, 8192, 8192), 0);
        assert_int_equal(a->ops->recv(a, slot_memory, &segment_bytes), 8192);
    }
    assert_false(a->gro || b->gro);
    close_llp(a);
    close_llp(b);
}

int main(void)
{
    fill_payload();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_fd__after_many_sends_to_this_host),
        cmocka_unit_test(direct_fd__another_address_takes_over_when_it_has_more),
        cmocka_unit_test(direct_fd__sends_with_df),
        cmocka_unit_test(direct_drop__another_has_to_be_earned),
        cmocka_unit_test(udp_send__by_a_direct_socket__all_arrives),
        cmocka_unit_test(udp_send__by_a_direct_socket__that_nobody_has_the_port_is_told),
        cmocka_unit_test(udp_send__with_a_port_range__by_the_common_socket_alone),
        cmocka_unit_test(udp_recv__an_answer_of_the_same_length_is_no_train),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
