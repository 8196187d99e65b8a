/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams that the kernel takes from where they lie. */
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/llp/udp.h"
#include "test/unit/udp_fixture.h"

#define HOT           64 /* sends that make a destination hot */
#define HEAD_BYTES    68
#define TRAILER_BYTES 4
#define PAGES         14
#define PAGE_BYTES    4096
/* After one that did not work: so many go the usual way, the last of them opens the socket. */
#define WAIT 4096

static _Alignas(PAGE_BYTES) uint8_t pages[(PAGES + 1) * PAGE_BYTES];

static struct dw_llp *tx, *rx;
static struct dw_llp_addr to;

/* 0: any port. */
static void open_rx(uint8_t family, uint16_t port)
{
    struct dw_llp_attr attr = attr_plain();
    attr.family = family;
    attr.port_min = attr.port_max = port;
    rx = open_llp(&attr, &rx_counters);
}

static void open_both(uint8_t family)
{
    struct dw_llp_attr attr = attr_plain();
    fill_payload();
    for (size_t i = 0; i < sizeof(pages); i++) {
        pages[i] = (uint8_t)(i * 37 + i / 253);
    }
    open_rx(family, 0);
    attr.family = family;
    attr.connected = true;
    attr.splice = DIWARP_AUTO;
    tx = open_llp(&attr, &tx_counters);
    assert_true(tx->splices);
    to = to_loopback(family, rx->port);
}

static int setup(void **state)
{
    (void)state;
    open_both(AF_INET);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_llp(tx);
    close_llp(rx);
    return 0;
}

static void make_hot(void)
{
    for (unsigned i = 0; i < HOT; i++) {
        assert_int_equal(send_train(tx, &to, 40, 40), 0);
        recv_datagrams(rx, 1);
    }
}

static int send_spliced(const uint8_t *from, uint32_t bytes)
{
    struct iovec iov[3] = {{.iov_base = payload, .iov_len = HEAD_BYTES},
                           {.iov_base = (void *)(uintptr_t)from, .iov_len = bytes},
                           {.iov_base = payload + HEAD_BYTES, .iov_len = TRAILER_BYTES}};
    uint32_t total = HEAD_BYTES + bytes + TRAILER_BYTES;
    struct dw_llp_train train = {.to = &to,
                                 .iov = iov,
                                 .iov_count = 3,
                                 .total_bytes = total,
                                 .segment_bytes = total,
                                 .splice = true};
    return dw_llp_send(tx, &train);
}

static void exchange_spliced(const uint8_t *from, uint32_t bytes)
{
    assert_int_equal(send_spliced(from, bytes), 0);
    recv_datagrams(rx, 1);
    assert_int_equal(received_bytes[0], HEAD_BYTES + bytes + TRAILER_BYTES);
    assert_memory_equal(received[0], payload, HEAD_BYTES);
    assert_memory_equal(received[0] + HEAD_BYTES, from, bytes);
    assert_memory_equal(received[0] + HEAD_BYTES + bytes, payload + HEAD_BYTES, TRAILER_BYTES);
}

/* The first to a hot destination still goes the usual way, and opens the socket for the next. */
static void make_ready(void)
{
    make_hot();
    exchange_spliced(pages, PAGE_BYTES);
    assert_int_equal(tx_counters.tx_spliced, 0);
}

/* So often that heads and trailers lie everywhere in the socket's pages. */
static void exchange_from_any_place(void)
{
    make_ready();
    for (unsigned i = 0; i < 2048; i++) {
        const uint32_t offset = i * 61 % PAGE_BYTES;
        exchange_spliced(pages + offset, PAGES * PAGE_BYTES - offset);
    }
    assert_int_equal(tx_counters.tx_spliced, 2048);
    assert_int_equal(tx_counters.splice_fallbacks, 0);
}

static void udp_splice__arrives_whole_from_any_place(void **state)
{
    (void)state;
    exchange_from_any_place();
}

static bool has_ipv6(void)
{
    const struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&name, sizeof(name)) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return has;
}

static void udp_splice__over_ipv6(void **state)
{
    (void)state;
    if (!has_ipv6()) {
        print_message("no IPv6 here: skipped\n");
        skip();
    }
    close_llp(tx);
    close_llp(rx);
    open_both(AF_INET6);
    exchange_from_any_place();
}

static void udp_splice__copied_to_who_is_not_hot(void **state)
{
    (void)state;
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    assert_int_equal(tx_counters.tx_spliced, 0);
    make_ready();
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    assert_int_equal(tx_counters.tx_spliced, 1);
}

/* More pieces than an skb has; what was begun of it must not lead the next. */
static void udp_splice__copied_where_the_kernel_cannot(void **state)
{
    (void)state;
    make_ready();
    exchange_spliced(payload + 1, 65000 - HEAD_BYTES - TRAILER_BYTES);
    assert_int_equal(tx_counters.splice_fallbacks, 1);
    /* For a while, and then again. */
    for (unsigned i = 0; i < WAIT; i++) {
        exchange_spliced(pages, PAGE_BYTES);
        assert_int_equal(tx_counters.tx_spliced, 0);
    }
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    assert_int_equal(tx_counters.tx_spliced, 1);
    assert_int_equal(tx_counters.splice_fallbacks, 1);
}

/* Descriptors may run out: nothing is lost, and nothing that was open is closed. */
static void udp_splice__without_descriptors(void **state)
{
    (void)state;
    struct rlimit limit, none;
    make_ready();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(send_spliced(pages, PAGES * PAGE_BYTES), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    recv_datagrams(rx, 1);
    assert_int_equal(tx_counters.tx_spliced, 0);
    assert_int_equal(tx_counters.splice_fallbacks, 1);
    for (unsigned i = 0; i < WAIT; i++) {
        exchange_spliced(pages, PAGE_BYTES);
    }
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    assert_int_equal(tx_counters.tx_spliced, 1);
}

/* Whoever shares the slot of a busy destination does not take it away by asking. */
static void udp_splice__another_in_the_same_slot(void **state)
{
    (void)state;
    struct dw_llp_addr other = to;
    other.port =
        (uint16_t)(to.port < 1024 + DW_UDP_HOT ? to.port + DW_UDP_HOT : to.port - DW_UDP_HOT);
    make_ready();
    const struct dw_llp_addr busy = to;
    for (unsigned i = 0; i < 4 * HOT; i++) {
        for (unsigned n = 0; n < 4; n++) {
            exchange_spliced(pages, PAGES * PAGE_BYTES);
        }
        to = other;
        for (unsigned n = 0; n < 2; n++) {
            (void)send_spliced(pages, PAGE_BYTES);
        }
        to = busy;
    }
    assert_int_equal(tx_counters.tx_spliced, 16 * HOT);
}

/* Neither the spliced nor the usual way reads it: nothing is sent, and all goes on. */
static void udp_splice__memory_that_is_not_there(void **state)
{
    (void)state;
    uint8_t *none = mmap(NULL, PAGE_BYTES * PAGES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(none != MAP_FAILED);
    make_ready();
    assert_int_equal(send_spliced(none, PAGES * PAGE_BYTES), -EFAULT);
    assert_int_equal(tx_counters.splice_fallbacks, 1);
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    munmap(none, PAGE_BYTES * PAGES);
}

/* A peer that starts anew at the same port; the error of the datagram between is the socket's. */
static void udp_splice__refused_socket_gives_way(void **state)
{
    (void)state;
    make_ready();
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    close_llp(rx);
    assert_int_equal(send_spliced(pages, PAGES * PAGE_BYTES), 0);
    assert_int_equal(tx_counters.tx_spliced, 2);
    open_rx(AF_INET, to.port);
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    assert_int_equal(tx_counters.tx_spliced, 2);
    assert_int_equal(tx_counters.splice_fallbacks, 1);
}

/* Both sockets of a doubted destination are closed, and come back with its heat. */
static void udp_splice__not_while_the_way_is_doubted(void **state)
{
    (void)state;
    make_ready();
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    tx->ops->doubt(tx, &to);
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    assert_int_equal(tx_counters.tx_spliced, 1);
    for (unsigned i = 0; i < 8; i++) {
        make_hot();
    }
    exchange_spliced(pages, PAGE_BYTES);
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    assert_int_equal(tx_counters.tx_spliced, 2);
    assert_int_equal(tx_counters.splice_fallbacks, 0);
}

static void udp_splice__off(void **state)
{
    (void)state;
    struct dw_llp_attr attr = attr_plain();
    attr.connected = true;
    close_llp(tx);
    tx = open_llp(&attr, &tx_counters);
    assert_false(tx->splices);
    make_hot();
    exchange_spliced(pages, PAGES * PAGE_BYTES);
    assert_int_equal(tx_counters.tx_spliced, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(udp_splice__arrives_whole_from_any_place, setup, teardown),
        cmocka_unit_test_setup_teardown(udp_splice__copied_to_who_is_not_hot, setup, teardown),
        cmocka_unit_test_setup_teardown(udp_splice__copied_where_the_kernel_cannot, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(udp_splice__without_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(udp_splice__another_in_the_same_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(udp_splice__memory_that_is_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(udp_splice__over_ipv6, setup, teardown),
        cmocka_unit_test_setup_teardown(udp_splice__refused_socket_gives_way, setup, teardown),
        cmocka_unit_test_setup_teardown(udp_splice__not_while_the_way_is_doubted, setup, teardown),
        cmocka_unit_test_setup_teardown(udp_splice__off, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
