/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP as an LLP: opening sockets (ports, addresses, buffers, families). */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "common/wire/bytes.h"
#include "test/unit/udp_fixture.h"

static int setup(void **state)
{
    bind_at = (struct dw_llp_addr){.family = AF_INET};
    return setup_payload(state);
}

/* A port with a free one after it; both free a moment ago. */
static uint16_t free_pair(void)
{
    struct diwarp_counters counters;
    struct diwarp_device_attr attr = attr_plain();
    for (unsigned tries = 0; tries < 100; tries++) {
        struct dw_llp *first = open_llp(&attr, &counters), *second = NULL;
        struct diwarp_device_attr next = attr;
        uint16_t port = first->port;
        next.port_min = (uint16_t)(port + 1);
        int rc =
            next.port_min == 0 ? -1 : dw_udp_open(NULL, &next, &bind_at, &counters, &second, NULL);
        close_llp(first);
        if (rc == 0) {
            close_llp(second);
            return port;
        }
    }
    fail_msg("no two free UDP ports in a row");
    return 0;
}

/* By a program that shares it with nobody. */
static int hold_port(uint16_t port)
{
    const struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

static void udp_open__port_range(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct diwarp_diagnosis why = {.text = ""};
    struct dw_llp *refused = NULL;
    char range[32];
    attr.port_min = free_pair();
    attr.port_max = (uint16_t)(attr.port_min + 1);
    snprintf(range, sizeof(range), "%u-%u", (unsigned)attr.port_min, (unsigned)attr.port_max);
    struct dw_llp *first = open_llp(&attr, &tx_counters), *second = open_llp(&attr, &rx_counters);
    assert_int_equal(first->port, attr.port_min);
    assert_int_equal(second->port, attr.port_max);

    close_llp(second);
    const int other = hold_port(attr.port_max);

    attr.port_min = attr.port_max;
    snprintf(range, sizeof(range), "%u-%u", (unsigned)attr.port_min, (unsigned)attr.port_max);
    assert_int_equal(dw_udp_open(NULL, &attr, &bind_at, &rx_counters, &refused, &why), -EADDRINUSE);
    assert_non_null(strstr(why.text, range));
    assert_non_null(strstr(why.text, "in use"));
    assert_non_null(strstr(why.text, "btl_diwarp_port_min"));
    assert_non_null(strstr(why.text, "btl_diwarp_port_max"));
    assert_int_equal(dw_udp_open(NULL, &attr, &bind_at, &rx_counters, &refused, NULL), -EADDRINUSE);

    attr.port_max = 0; /* port_min only */
    why.text[0] = '\0';
    assert_int_equal(dw_udp_open(NULL, &attr, &bind_at, &rx_counters, &refused, &why), -EADDRINUSE);
    assert_true(strlen(why.text) > 0);
    close(other);
    second = open_llp(&attr, &tx_counters);
    assert_int_equal(second->port, attr.port_min);
    assert_null(refused);
    close_llp(first);
    close_llp(second);
}

enum { SHARERS = 4, ROUNDS = 8, KEY_AT = 8 };

/* One datagram to each of those from `first` on, each from a socket of its own. */
static void send_keys(uint16_t port, const uint64_t *keys, unsigned first)
{
    const struct dw_llp_addr to = to_loopback(AF_INET, port);
    const struct diwarp_device_attr plain = attr_plain();
    for (unsigned i = first; i < SHARERS * ROUNDS; i++) {
        uint8_t bytes[KEY_AT + 8] = {0};
        const struct iovec iov = {bytes, sizeof bytes};
        const struct dw_llp_train train = {.to = &to,
                                           .iov = &iov,
                                           .iov_count = 1,
                                           .total_bytes = sizeof bytes,
                                           .segment_bytes = sizeof bytes};
        if (i % SHARERS < first)
            continue;
        struct dw_llp *tx = open_llp(&plain, &tx_counters);
        dw_put_be64(bytes + KEY_AT, keys[i % SHARERS]);
        assert_int_equal(tx->ops->send(tx, &train), 0);
        close_llp(tx);
    }
}

/* Each of those from `first` on gets what bears its key. Returns how many were sent on. */
static unsigned share_out(struct dw_llp **llps, const uint64_t *keys, unsigned first)
{
    unsigned got[SHARERS] = {0}, forwarded = 0;
    uint32_t each;
    for (unsigned turn = 0; turn < 100 * SHARERS; turn++) {
        const unsigned i = turn % SHARERS;
        if (i < first || llps[i]->ops->recv(llps[i], slot_memory, &each) < 0)
            continue;
        const uint64_t key = dw_get_be64(slot_memory + KEY_AT);
        if (key == keys[i])
            got[i]++;
        else
            forwarded += llps[i]->ops->forward(llps[i], key, slot_memory, each);
    }
    for (unsigned i = first; i < SHARERS; i++)
        assert_int_equal(got[i], ROUNDS);
    return forwarded;
}

/* More processes than ports: each is reached by its key, also when others have ended. */
static void udp_open__ports_are_shared(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *llps[SHARERS];
    uint64_t keys[SHARERS];
    attr.port_min = free_pair();
    for (unsigned i = 0; i < SHARERS; i++) {
        attr.name.rank = i;
        llps[i] = open_llp(&attr, &rx_counters);
        assert_int_equal(llps[i]->port, attr.port_min);
        keys[i] = llps[i]->ops->share(llps[i], (1000ull + i) << 8, KEY_AT);
        assert_int_equal(keys[i], (1000ull + i) << 8 | i);
    }
    send_keys(attr.port_min, keys, 0);
    assert_int_equal(share_out(llps, keys, 0), 0);
    close_llp(llps[0]);
    send_keys(attr.port_min, keys, 1);
    assert_true(share_out(llps, keys, 1) > 0);
    assert_false(llps[1]->ops->forward(llps[1], 999, slot_memory, 8));
    struct pollfd fd = {.fd = llps[1]->forwarded_fd, .events = POLLIN};
    struct pollfd own = {.fd = llps[1]->fd, .events = POLLIN};
    uint32_t each;
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_true(llps[2]->ops->forward(llps[2], keys[1], slot_memory, 8));
    assert_int_equal(poll(&fd, 1, 0), 1);
    /* It has its turn though the own socket is never empty. */
    send_keys(attr.port_min, keys, 1);
    for (unsigned reads = 0; reads < ROUNDS && poll(&fd, 1, 0); reads++)
        assert_true(llps[1]->ops->recv(llps[1], slot_memory, &each) > 0);
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_int_equal(poll(&own, 1, 0), 1);
    for (unsigned i = 1; i < SHARERS; i++)
        close_llp(llps[i]);
}

/* Who else is on this host can read the names of sockets, and is not to know the key. */
static void udp_open__shared_port__key_is_in_no_name(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    char line[256], text[32], port[32];
    unsigned found = 0;
    attr.port_min = free_pair();
    struct dw_llp *llp = open_llp(&attr, &rx_counters);
    const uint64_t key = llp->ops->share(llp, 0xfedcba9876543200, KEY_AT);
    FILE *names = fopen("/proc/net/unix", "r");
    assert_non_null(names);
    snprintf(text, sizeof text, "%llx", (unsigned long long)key >> 8);
    snprintf(port, sizeof port, "@diwarp-%u-", (unsigned)llp->port);
    while (fgets(line, sizeof line, names)) {
        found += strstr(line, port) != NULL;
        assert_null(strstr(line, text));
    }
    fclose(names);
    assert_int_equal(found, 1);
    close_llp(llp);
}

static void udp_open__refuses_with_a_reason(void **state)
{
    (void)state;
    const struct diwarp_device_attr attr = attr_plain();
    struct diwarp_diagnosis why = {.text = ""};
    struct dw_llp *llp = NULL;
    memcpy(bind_at.ip, (const uint8_t[]){203, 0, 113, 77}, 4);
    assert_int_equal(dw_udp_open(NULL, &attr, &bind_at, &tx_counters, &llp, &why), -EADDRNOTAVAIL);
    assert_non_null(strstr(why.text, "203.0.113.77"));
    assert_null(llp);
}

static void udp_open__binds_one_address(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *tx = open_llp(&attr, &tx_counters);
    memcpy(bind_at.ip, (const uint8_t[]){127, 0, 0, 2}, 4);
    struct dw_llp *rx = open_llp(&attr, &rx_counters);
    struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
    assert_int_equal(send_train(tx, &to, 10, 10), 0);
    recv_datagrams(rx, 0);
    to.ip[3] = 2;
    assert_int_equal(send_train(tx, &to, 10, 10), 0);
    recv_datagrams(rx, 1);
    close_llp(tx);
    close_llp(rx);
}

static void udp_open__reads_buffers_back(void **state)
{
    (void)state;
    static const uint32_t asked[] = {0, 1, 65536, 262144, UINT32_MAX};
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        struct diwarp_device_attr attr = attr_plain();
        attr.rcvbuf_bytes = attr.sndbuf_bytes = asked[i];
        struct dw_llp *llp = open_llp(&attr, &rx_counters);
        int rcvbuf = 0, sndbuf = 0;
        socklen_t len = sizeof(int);
        assert_int_equal(getsockopt(llp->fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, &len), 0);
        assert_int_equal(getsockopt(llp->fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &len), 0);
        assert_int_equal(llp->rcvbuf_bytes, rcvbuf);
        assert_int_equal(llp->sndbuf_bytes, sndbuf);
        assert_true(rcvbuf > 0 && sndbuf > 0);
        if (asked[i] == 65536) { /* below any usual limit, so granted: twice, as Linux does */
            assert_int_equal(rcvbuf, 2 * 65536);
        }
        close_llp(llp);
    }
}

static void udp_v6__loopback_and_ipv4(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp_addr back;
    struct dw_llp *rx = NULL;
    struct diwarp_diagnosis why;
    bind_at = (struct dw_llp_addr){.family = AF_INET6, .ip = {[15] = 1}};
    if (dw_udp_open(NULL, &attr, &bind_at, &rx_counters, &rx, &why) != 0) {
        print_message("no IPv6 here (%s): skipped\n", why.text);
        skip();
    }
    close_llp(rx);
    bind_at.ip[15] = 0;
    rx = open_llp(&attr, &rx_counters);
    struct dw_llp *tx = open_llp(&attr, &tx_counters);
    bind_at.family = AF_INET;
    uint16_t closed = closed_port();
    for (unsigned i = 0; i < 2; i++) {
        struct dw_llp_addr to = to_loopback(i ? AF_INET : AF_INET6, rx->port);
        assert_int_equal(send_train(tx, &to, 10000, 1400), 0);
        recv_datagrams(rx, 8);
        assert_train(10000, 1400);
        /* The loopback interface has 65536, of which IPv4 can use one less. */
        assert_int_equal(tx->ops->path_mtu_bytes(tx, &to), to.family == AF_INET ? 65535 : 65536);
        struct dw_llp_addr gone = to_loopback(to.family, closed);
        assert_int_equal(send_train(tx, &gone, 9, 9), 0);
        assert_int_equal(send_train(tx, &to, 9, 9), 0);
        recv_datagrams(rx, 1);
        assert_int_equal(tx->ops->icmp(tx, &back), 0);
        assert_int_equal(back.family, gone.family);
        assert_int_equal(back.port, gone.port);
        assert_memory_equal(back.ip, gone.ip, to.family == AF_INET ? 4 : 16);
    }
    close_llp(tx);
    close_llp(rx);
}

/* Port that the train by that flow came from, and its bytes are right. */
static uint16_t source_port(struct dw_llp *tx, unsigned flow, int fd, uint16_t port)
{
    const struct dw_llp_addr to = to_loopback(AF_INET, port);
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    uint8_t bytes[10];
    assert_int_equal(send_by_flow(tx, &to, flow, 9, 9), 0);
    assert_int_equal(recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &len), 9);
    assert_memory_equal(bytes, payload, 9);
    return ntohs(from.sin_port);
}

/* Each from a port of its own, none of which is of the range, nor takes anything. */
static void udp_open__flows(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    attr.flows = DIWARP_MAX_FLOWS;
    for (unsigned ranged = 0; ranged < 2; ranged++) {
        while (ranged && attr.port_min < 45000) /* most of what the system gives */
            attr.port_min = free_pair();
        attr.port_max = ranged ? UINT16_MAX : 0;
        struct dw_llp *tx = open_llp(&attr, &tx_counters);
        const uint16_t sink_port = closed_port();
        const int sink = hold_port(sink_port);
        uint16_t ports[DIWARP_MAX_FLOWS];
        uint32_t segment_bytes;
        for (unsigned flow = 0; flow < DIWARP_MAX_FLOWS; flow++) {
            ports[flow] = source_port(tx, flow, sink, sink_port);
            assert_int_equal(ports[flow] == tx->port, flow == 0);
            assert_true(!ranged || !flow || ports[flow] < attr.port_min);
            for (unsigned other = 0; other < flow; other++)
                assert_int_not_equal(ports[flow], ports[other]);
            struct sockaddr_in back = {.sin_family = AF_INET,
                                       .sin_port = htons(ports[flow]),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
            assert_int_equal(sendto(sink, "x", 1, 0, (struct sockaddr *)&back, sizeof back), 1);
        }
        assert_int_equal(tx->ops->recv(tx, slot_memory, &segment_bytes), 1);
        assert_int_equal(tx->ops->recv(tx, slot_memory, &segment_bytes), -1);
        assert_int_equal(tx_counters.tx_datagrams, DIWARP_MAX_FLOWS);
        close(sink);
        close_llp(tx);
    }
}

/* What ICMP says of any flow's datagrams is told. */
static void udp_icmp__of_a_flow(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    attr.flows = 2;
    struct dw_llp *tx = open_llp(&attr, &tx_counters);
    const struct dw_llp_addr gone = to_loopback(AF_INET, closed_port());
    struct dw_llp_addr back;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(send_by_flow(tx, &gone, 1, 9, 9), 0);
    assert_int_equal(tx->ops->icmp(tx, &back), DW_LLP_NO_PORT);
    assert_int_equal(back.port, gone.port);
    close_llp(tx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(udp_open__port_range, setup),
        cmocka_unit_test_setup(udp_open__ports_are_shared, setup),
        cmocka_unit_test_setup(udp_open__shared_port__key_is_in_no_name, setup),
        cmocka_unit_test_setup(udp_open__refuses_with_a_reason, setup),
        cmocka_unit_test_setup(udp_open__binds_one_address, setup),
        cmocka_unit_test_setup(udp_open__reads_buffers_back, setup),
        cmocka_unit_test_setup(udp_open__flows, setup),
        cmocka_unit_test_setup(udp_icmp__of_a_flow, setup),
        cmocka_unit_test_setup(udp_v6__loopback_and_ipv4, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
