/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of UDP as an LLP share: sockets on the loopback interface, trains to and fro. */
#ifndef UDP_FIXTURE_H
#define UDP_FIXTURE_H

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/llp/llp.h"

#define WAIT_MS 2000

static struct diwarp_counters tx_counters, rx_counters;
static uint8_t payload[66000], received[DW_LLP_TRAIN_DATAGRAMS + 1][65536];
static uint32_t received_bytes[DW_LLP_TRAIN_DATAGRAMS + 1];
static uint8_t slot_memory[DW_LLP_SLOT_BYTES];

/* Where sockets are bound. */
static struct dw_llp_addr bind_at = {.family = AF_INET};

static struct diwarp_device_attr attr_plain(void)
{
    return (struct diwarp_device_attr){
        .rcvbuf_bytes = 1 << 20, .gso = DIWARP_AUTO, .gro = DIWARP_AUTO};
}

static struct dw_llp *open_llp(const struct diwarp_device_attr *attr,
                               struct diwarp_counters *counters)
{
    struct diwarp_diagnosis why = {.text = ""};
    struct dw_llp *llp = NULL;
    memset(counters, 0, sizeof(*counters));
    int rc = dw_udp_open(NULL, attr, &bind_at, counters, &llp, &why);
    if (rc) {
        print_error("open: %d %s\n", rc, why.text);
    }
    assert_int_equal(rc, 0);
    assert_non_null(llp);
    assert_true(llp->fd >= 0 && llp->port > 0);
    return llp;
}

static void close_llp(struct dw_llp *llp)
{
    llp->ops->close(llp);
}

static struct dw_llp_addr to_loopback(uint8_t family, uint16_t port)
{
    struct dw_llp_addr to = {.family = family, .port = port};
    inet_pton(family, family == AF_INET ? "127.0.0.1" : "::1", to.ip);
    return to;
}

static int send_by_flow(struct dw_llp *llp, const struct dw_llp_addr *to, unsigned flow,
                        uint32_t total, uint32_t segment)
{
    struct iovec iov = {.iov_base = payload, .iov_len = total};
    struct dw_llp_train train = {.to = to,
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .total_bytes = total,
                                 .segment_bytes = segment,
                                 .flow = (uint8_t)flow};
    return llp->ops->send(llp, &train);
}

static int send_train(struct dw_llp *llp, const struct dw_llp_addr *to, uint32_t total,
                      uint32_t segment)
{
    return send_by_flow(llp, to, 0, total, segment);
}

/* Cuts what a receive call brought to slot_memory into datagrams. */
static unsigned keep(uint32_t bytes, uint32_t segment_bytes, unsigned count)
{
    assert_true(segment_bytes > 0);
    assert_true(bytes <= DW_LLP_SLOT_BYTES);
    for (uint32_t at = 0; at < bytes; at += segment_bytes) {
        uint32_t left = bytes - at;
        uint32_t len = left < segment_bytes ? left : segment_bytes;
        assert_true(count <= DW_LLP_TRAIN_DATAGRAMS);
        memcpy(received[count], slot_memory + at, len);
        received_bytes[count++] = len;
    }
    return count;
}

/* Receives `expected` datagrams into received[], and asserts that no more come. */
static void recv_datagrams(struct dw_llp *llp, unsigned expected)
{
    uint32_t segment_bytes;
    unsigned count = 0;
    struct pollfd ready = {.fd = llp->fd, .events = POLLIN};
    while (count < expected && poll(&ready, 1, WAIT_MS) == 1) {
        int bytes = llp->ops->recv(llp, slot_memory, &segment_bytes);
        if (bytes >= 0) {
            count = keep((uint32_t)bytes, segment_bytes, count);
        }
    }
    assert_int_equal(count, expected);
    assert_int_equal(llp->ops->recv(llp, slot_memory, &segment_bytes), -1);
}

/* received[] is payload[], cut into datagrams of `segment`. */
static void assert_train(uint32_t total, uint32_t segment)
{
    unsigned i = 0;
    for (uint32_t at = 0; at < total; at += segment, i++) {
        uint32_t len = total - at < segment ? total - at : segment;
        assert_int_equal(received_bytes[i], len);
        assert_memory_equal(received[i], payload + at, len);
    }
}

/* One train, which arrives whole. */
static inline void exchange(struct dw_llp *tx, struct dw_llp *rx, uint32_t total, uint32_t segment)
{
    struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
    assert_int_equal(send_train(tx, &to, total, segment), 0);
    recv_datagrams(rx, (total + segment - 1) / segment);
    assert_train(total, segment);
}

static inline uint16_t closed_port(void)
{
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *llp = open_llp(&attr, &rx_counters);
    uint16_t port = llp->port;
    close_llp(llp);
    return port;
}

static inline int setup_payload(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(payload); i++) {
        payload[i] = (uint8_t)(i * 131 + i / 251);
    }
    return 0;
}

#endif
