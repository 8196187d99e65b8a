/* SPDX-License-Identifier: BSD-3-Clause */
/* Connected sockets of the UDP LLP: who gets one, what goes through it, and when it is doubted. */
#include "test/unit/udp_fixture.h"

#define HOT 64 /* sends that make a destination hot */

/* A destination of the test's own, which sees the source ports. */
struct sink {
    int fd;
    struct dw_llp_addr addr;
};

/* port 0: any. */
static struct sink sink_open(uint16_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof(name);
    struct sink sink = {.fd = socket(AF_INET, SOCK_DGRAM, 0)};
    inet_pton(AF_INET, "127.0.0.1", &name.sin_addr);
    assert_int_equal(bind(sink.fd, (struct sockaddr *)&name, len), 0);
    assert_int_equal(getsockname(sink.fd, (struct sockaddr *)&name, &len), 0);
    sink.addr = to_loopback(AF_INET, ntohs(name.sin_port));
    return sink;
}

/* Sends `count` datagrams to it, and tells how many came from the common socket. */
static unsigned common_of(struct dw_llp *tx, const struct sink *to, unsigned count)
{
    unsigned common = 0;
    for (unsigned i = 0; i < count; i++) {
        struct sockaddr_in from = {0};
        socklen_t len = sizeof(from);
        uint8_t buf[64];
        assert_int_equal(send_train(tx, &to->addr, 40, 40), 0);
        assert_int_equal(recvfrom(to->fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len), 40);
        common += ntohs(from.sin_port) == tx->port;
    }
    return common;
}

static int setup(void **state)
{
    (void)state;
    fill_payload();
    return 0;
}

static void udp_send__busy_destination_gets_a_socket_of_its_own(void **state)
{
    (void)state;
    struct dw_llp_attr attr = attr_plain();
    struct sink sink = sink_open(0);
    struct dw_llp *tx = open_llp(&attr, &tx_counters);
    assert_int_equal(common_of(tx, &sink, 100), 100);
    close_llp(tx);
    attr.connected = true;
    tx = open_llp(&attr, &tx_counters);
    assert_int_equal(common_of(tx, &sink, 100), HOT - 1);
    close_llp(tx);
    attr.port_min = 20000;
    attr.port_max = 29999;
    tx = open_llp(&attr, &tx_counters);
    assert_int_equal(common_of(tx, &sink, 100), 100);
    close_llp(tx);
    close(sink.fd);
}

/* Each time for eight times as long. */
static void udp_doubt__back_to_the_common_socket_for_a_while(void **state)
{
    (void)state;
    struct dw_llp_attr attr = attr_plain();
    attr.connected = true;
    struct sink sink = sink_open(0), other = sink_open(0);
    struct dw_llp *tx = open_llp(&attr, &tx_counters);
    tx->ops->doubt(tx, &sink.addr); /* nothing to doubt yet */
    assert_int_equal(common_of(tx, &sink, HOT), HOT - 1);
    for (unsigned wait = 8 * HOT; wait <= 512 * HOT; wait *= 8) {
        tx->ops->doubt(tx, &other.addr);
        assert_int_equal(common_of(tx, &sink, 10), 0);
        tx->ops->doubt(tx, &sink.addr);
        assert_int_equal(common_of(tx, &sink, wait), wait - 1);
    }
    /* A socket that has carried much gets through: as at the beginning. */
    assert_int_equal(common_of(tx, &sink, 17000), 0);
    tx->ops->doubt(tx, &sink.addr);
    assert_int_equal(common_of(tx, &sink, HOT), HOT - 1);
    close_llp(tx);
    close(sink.fd);
    close(other.fd);
}

/* A firewall may answer for the peer: that of the common port only counts. */
static void udp_send__refused_socket_gives_way(void **state)
{
    (void)state;
    struct dw_llp_attr attr = attr_plain();
    attr.connected = true;
    struct sink sink = sink_open(0);
    struct dw_llp *tx = open_llp(&attr, &tx_counters);
    struct dw_llp_icmp back;
    assert_int_equal(common_of(tx, &sink, HOT), HOT - 1);
    close(sink.fd);
    assert_int_equal(send_train(tx, &sink.addr, 40, 40), 0); /* its own socket has the error now */
    sink = sink_open(sink.addr.port);
    assert_int_equal(common_of(tx, &sink, 10), 10);
    assert_false(tx->ops->icmp(tx, &back));
    close_llp(tx);
    close(sink.fd);
}

static void udp_send__connected_socket_sends_the_same_datagrams(void **state)
{
    (void)state;
    struct dw_llp_attr attr = attr_plain();
    attr.connected = true;
    for (unsigned gso = 0; gso < 2; gso++) {
        attr.gso = gso ? DIWARP_AUTO : DIWARP_OFF; /* without: it gets hot inside a train */
        struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
        for (unsigned round = 0; round < 20; round++) {
            for (uint32_t total = 1; total <= 65000; total = total * 3 + 1) {
                exchange(tx, rx, total, total);
                exchange(tx, rx, total, total > 1472 ? 1472 : total);
            }
        }
        close_llp(tx);
        close_llp(rx);
    }
}

/* More destinations than sockets, some of them closed: all that is open is reached. */
static void udp_send__many_destinations_share_the_connected_sockets(void **state)
{
    (void)state;
    enum { PEERS = 20 };
    struct dw_llp_attr attr = attr_plain();
    attr.connected = true;
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx[PEERS];
    struct dw_llp_addr closed = to_loopback(AF_INET, closed_port());
    struct dw_llp_icmp back;
    for (unsigned i = 0; i < PEERS; i++) {
        rx[i] = open_llp(&attr, &rx_counters);
    }
    for (unsigned i = 0; i < 100 * PEERS; i++) {
        exchange(tx, rx[i / 100 + i % 3 < PEERS ? i / 100 + i % 3 : 0], 50, 50);
        (void)send_train(tx, &closed, 50, 50);
    }
    assert_true(tx->ops->icmp(tx, &back));
    assert_int_equal(back.to.port, closed.port);
    for (unsigned i = 0; i < PEERS; i++) {
        close_llp(rx[i]);
    }
    close_llp(tx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(udp_send__busy_destination_gets_a_socket_of_its_own, setup),
        cmocka_unit_test_setup(udp_doubt__back_to_the_common_socket_for_a_while, setup),
        cmocka_unit_test_setup(udp_send__refused_socket_gives_way, setup),
        cmocka_unit_test_setup(udp_send__connected_socket_sends_the_same_datagrams, setup),
        cmocka_unit_test_setup(udp_send__many_destinations_share_the_connected_sockets, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
