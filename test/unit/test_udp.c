/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP as an LLP, over real sockets on the loopback interface. */
#include "test/unit/udp_fixture.h"

/* ---- tests: data -------------------------------------------------------------------------- */

static const struct {
    uint32_t total, segment;
} shapes[] = {
    {1, 1},        {8, 8},        {1472, 1472},  {9000, 9000},   {65000, 65000}, {2, 1},
    {64, 1},       {65, 64},      {1000, 64},    {4096, 64},     {1473, 1472},   {2944, 1472},
    {64768, 1472}, {64767, 1472}, {62664, 8952}, {65000, 32500}, {65000, 64999}, {65000, 1016},
};

static void udp_send__any_switches_give_the_same_datagrams(void **state)
{
    (void)state;
    for (unsigned set = 0; set < 4; set++) {
        struct diwarp_device_attr attr = attr_plain();
        attr.gso = set & 1 ? DIWARP_ON : DIWARP_OFF;
        attr.gro = set & 2 ? DIWARP_ON : DIWARP_OFF;
        struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
            exchange(tx, rx, shapes[i].total, shapes[i].segment);
        }
        assert_true((set & 1) || !tx->gso);
        assert_true((set & 2) || !rx->gro);
        assert_int_equal(tx_counters.gso_fallbacks, 0);
        close_llp(tx);
        close_llp(rx);
    }
}

static void udp_send__counts_calls_datagrams_and_bytes(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    exchange(tx, rx, 1000, 300);
    exchange(tx, rx, 17, 17);
    assert_int_equal(tx_counters.tx_datagrams, 5);
    assert_int_equal(tx_counters.tx_bytes, 1017);
    assert_int_equal(tx_counters.tx_syscalls, tx->gso ? 2 : 5);
    assert_true(rx_counters.rx_syscalls >= 2);
    assert_int_equal(rx_counters.rx_empty_syscalls, 2);
    /* the QP's to count */
    assert_int_equal(rx_counters.rx_datagrams, 0);
    assert_int_equal(rx_counters.rx_bytes, 0);
    close_llp(tx);
    close_llp(rx);
}

static void udp_send__gathers_across_entries(void **state)
{
    (void)state;
    struct iovec iov[] = {{payload, 1},           {payload + 1, 0},      {payload + 1, 700},
                          {payload + 701, 800},   {payload + 1501, 3},   {payload + 1504, 2496},
                          {payload + 4000, 5999}, {payload + 9999, 1001}};
    for (unsigned gso = 0; gso < 2; gso++) {
        struct diwarp_device_attr attr = attr_plain();
        attr.gso = gso ? DIWARP_AUTO : DIWARP_OFF;
        struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
        struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
        for (uint32_t segment = 180; segment < 12000; segment += 739) {
            struct dw_llp_train train = {.to = &to,
                                         .iov = iov,
                                         .iov_count = sizeof(iov) / sizeof(iov[0]),
                                         .total_bytes = 11000,
                                         .segment_bytes = segment};
            assert_int_equal(tx->ops->send(tx, &train), 0);
            recv_datagrams(rx, (11000 + segment - 1) / segment);
            assert_train(11000, segment);
        }
        close_llp(tx);
        close_llp(rx);
    }
}

static void udp_recv__empty_datagram_has_a_segment_size(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(rx->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    uint32_t segment_bytes;
    assert_int_equal(sendto(tx->fd, "", 0, 0, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(rx->ops->recv(rx, slot_memory, &segment_bytes), 0);
    assert_int_equal(segment_bytes, 1);
    close_llp(tx);
    close_llp(rx);
}

/* ---- tests: GRO on demand ------------------------------------------------------------------- */

/* TOS, or traffic class, of the next datagram; -1: not told. */
static int next_tos(int fd)
{
    char control[256];
    struct iovec iov = {.iov_base = slot_memory, .iov_len = sizeof slot_memory};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    assert_true(recvmsg(fd, &msg, 0) > 0);
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
        if ((cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TOS) ||
            (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_TCLASS))
            return *CMSG_DATA(cmsg);
    return -1;
}

/* ECT(0) on what asks for it, by whichever call it leaves; not where no mark would be seen. */
static void udp_send__ecn(void **state)
{
    (void)state;
    for (unsigned set = 0; set < 4; set++) {
        struct diwarp_device_attr attr = attr_plain(), blind = attr_plain();
        attr.gso = set & 1 ? DIWARP_AUTO : DIWARP_OFF;
        blind.gro = DIWARP_OFF;
        const uint8_t family = set & 2 ? AF_INET6 : AF_INET;
        bind_at.family = family;
        struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&blind, &rx_counters);
        const struct dw_llp_addr to = to_loopback(family, rx->port);
        const int on = 1;
        assert_int_equal(family == AF_INET
                             ? setsockopt(rx->fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on)
                             : setsockopt(rx->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on),
                         0);
        struct iovec iov = {.iov_base = payload, .iov_len = 3000};
        struct dw_llp_train train = {.to = &to,
                                     .iov = &iov,
                                     .iov_count = 1,
                                     .total_bytes = 3000,
                                     .segment_bytes = 1000,
                                     .ecn = true};
        for (unsigned ecn = 0; ecn < 2; ecn++) {
            train.ecn = ecn;
            assert_int_equal(tx->ops->send(tx, &train), 0);
            for (unsigned i = 0; i < 3; i++)
                assert_int_equal(next_tos(rx->fd), ecn ? 2 : 0);
        }
        iov.iov_len = train.total_bytes = 1000;
        assert_int_equal(tx->ops->send(tx, &train), 0);
        assert_int_equal(next_tos(rx->fd), 2);
        const struct dw_llp_addr back = to_loopback(family, tx->port);
        train.to = &back;
        assert_int_equal(setsockopt(tx->fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on), 0);
        (void)setsockopt(tx->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on);
        assert_int_equal(rx->ops->send(rx, &train), 0);
        assert_int_equal(next_tos(tx->fd), 0);
        close_llp(tx);
        close_llp(rx);
    }
    bind_at.family = AF_INET;
}

/* Congestion Experienced is told of what bears it, and of nothing else. */
static void udp_recv__marked(void **state)
{
    (void)state;
    for (unsigned set = 0; set < 2; set++) {
        struct diwarp_device_attr attr = attr_plain(), always = attr_plain();
        always.gro = DIWARP_ON;
        bind_at.family = set ? AF_INET6 : AF_INET;
        struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&always, &rx_counters);
        const struct dw_llp_addr to = to_loopback(bind_at.family, rx->port);
        const int level = set ? IPPROTO_IPV6 : IPPROTO_IP, name = set ? IPV6_TCLASS : IP_TOS;
        for (int tos = 0; rx->gro && tos < 8; tos++) {
            assert_int_equal(setsockopt(tx->fd, level, name, &tos, sizeof tos), 0);
            assert_int_equal(send_train(tx, &to, 3000, 1000), 0);
            uint32_t segment_bytes;
            assert_true(rx->ops->recv(rx, slot_memory, &segment_bytes) > 0);
            assert_int_equal(rx->marked, tos % 4 == 3);
            while (rx->ops->recv(rx, slot_memory, &segment_bytes) > 0)
                ;
            assert_false(rx->marked);
        }
        close_llp(tx);
        close_llp(rx);
    }
    bind_at.family = AF_INET;
}

static void udp_recv__gro_only_once_trains_come(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain(), always = attr_plain();
    always.gro = DIWARP_ON;
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    struct dw_llp *gro = open_llp(&always, &rx_counters);
    bool possible = gro->gro;
    close_llp(gro);
    assert_false(rx->gro);
    for (unsigned i = 0; i < 20; i++) {
        exchange(tx, rx, 1472, 1472); /* one at a time */
    }
    struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(send_train(tx, &to, 40000, 40000), 0); /* two would not fit a train */
    }
    recv_datagrams(rx, 8);
    assert_false(rx->gro);
    struct dw_llp_addr back = to_loopback(AF_INET, tx->port);
    for (unsigned i = 0; i < 4; i++) { /* with answers between */
        uint32_t segment_bytes;
        assert_int_equal(send_train(tx, &to, 8192, 8192), 0);
        assert_int_equal(rx->ops->recv(rx, slot_memory, &segment_bytes), 8192);
        assert_int_equal(send_train(rx, &back, 8192, 8192), 0);
        assert_int_equal(tx->ops->recv(tx, slot_memory, &segment_bytes), 8192);
    }
    assert_false(rx->gro || tx->gro);
    exchange(tx, rx, 5000, 1000); /* small messages look like that, too */
    assert_false(rx->gro);
    exchange(tx, rx, 3500, 1472); /* the second is enough */
    assert_int_equal(rx->gro, possible);
    uint64_t calls = rx_counters.rx_syscalls;
    exchange(tx, rx, 14720, 1472);
    assert_true(!possible || !tx->gso || rx_counters.rx_syscalls == calls + 1);
    close_llp(tx);
    close_llp(rx);
}

/* ---- tests: unreachable destinations ------------------------------------------------------ */

static void udp_icmp__names_the_destination(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp_addr closed = to_loopback(AF_INET, closed_port());
    struct dw_llp_addr back;
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    uint32_t segment_bytes;

    assert_int_equal(tx->ops->icmp(tx, &back), -1);
    assert_int_equal(send_train(tx, &closed, 40, 40), 0);
    /* the next call, to another destination, meets the error and still does its work */
    exchange(tx, rx, 60, 60);
    assert_int_equal(tx->ops->icmp(tx, &back), 0);
    assert_int_equal(back.family, AF_INET);
    assert_int_equal(back.port, closed.port);
    assert_memory_equal(back.ip, closed.ip, 4);
    assert_int_equal(tx->ops->icmp(tx, &back), -1);

    /* a receive call meets it, and still finds what waits */
    struct dw_llp_addr to_tx = to_loopback(AF_INET, tx->port);
    assert_int_equal(send_train(tx, &closed, 40, 40), 0);
    assert_int_equal(send_train(rx, &to_tx, 70, 70), 0);
    assert_int_equal(tx->ops->recv(tx, slot_memory, &segment_bytes), 70);
    assert_int_equal(tx->ops->icmp(tx, &back), 0);
    assert_int_equal(back.port, closed.port);
    close_llp(tx);
    close_llp(rx);
}

static void udp_icmp__many_errors_disturb_no_train(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp_addr closed = to_loopback(AF_INET, closed_port());
    struct dw_llp_addr back;
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    unsigned named = 0;
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(send_train(tx, &closed, 3000, 1000), 0);
        exchange(tx, rx, 4000, 1000);
    }
    assert_int_equal(tx_counters.gso_fallbacks, 0);
    for (unsigned i = 0; i < 1000 && tx->ops->icmp(tx, &back) >= 0; i++) {
        assert_int_equal(back.port, closed.port);
        named++;
    }
    /* the kernel limits its ICMP errors to one host */
    assert_true(named >= 1 && named <= 120);
    exchange(tx, rx, 4000, 1000);
    close_llp(tx);
    close_llp(rx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(udp_send__any_switches_give_the_same_datagrams, setup_payload),
        cmocka_unit_test_setup(udp_send__counts_calls_datagrams_and_bytes, setup_payload),
        cmocka_unit_test_setup(udp_send__gathers_across_entries, setup_payload),
        cmocka_unit_test_setup(udp_recv__empty_datagram_has_a_segment_size, setup_payload),
        cmocka_unit_test_setup(udp_send__ecn, setup_payload),
        cmocka_unit_test_setup(udp_recv__marked, setup_payload),
        cmocka_unit_test_setup(udp_recv__gro_only_once_trains_come, setup_payload),
        cmocka_unit_test_setup(udp_icmp__names_the_destination, setup_payload),
        cmocka_unit_test_setup(udp_icmp__many_errors_disturb_no_train, setup_payload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
