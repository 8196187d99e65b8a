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

static struct dw_llp_attr attr_plain(void)
{
    return (struct dw_llp_attr){
        .family = AF_INET, .rcvbuf_bytes = 1 << 20, .gso = DIWARP_AUTO, .gro = DIWARP_AUTO};
}

static struct dw_llp *open_llp(const struct dw_llp_attr *attr, struct diwarp_counters *counters)
{
    struct diwarp_diagnosis why = {.text = ""};
    struct dw_llp *llp = NULL;
    memset(counters, 0, sizeof(*counters));
    int rc = dw_llp_open(attr, counters, &llp, &why);
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

static int send_train(struct dw_llp *llp, const struct dw_llp_addr *to, uint32_t total,
                      uint32_t segment)
{
    struct iovec iov = {.iov_base = payload, .iov_len = total};
    struct dw_llp_train train = {
        .to = to, .iov = &iov, .iov_count = 1, .total_bytes = total, .segment_bytes = segment};
    return dw_llp_send(llp, &train);
}

/* Cuts the slots into datagrams. */
static unsigned keep(const struct dw_llp_slot *slot, unsigned count)
{
    assert_true(slot->segment_bytes > 0);
    assert_false(slot->truncated);
    for (uint32_t at = 0; at < slot->bytes; at += slot->segment_bytes) {
        uint32_t left = slot->bytes - at;
        uint32_t len = left < slot->segment_bytes ? left : slot->segment_bytes;
        assert_true(count <= DW_LLP_TRAIN_DATAGRAMS);
        memcpy(received[count], slot->buf + at, len);
        received_bytes[count++] = len;
    }
    return count;
}

/* Receives `expected` datagrams into received[], and asserts that no more come. */
static void recv_datagrams(struct dw_llp *llp, unsigned expected)
{
    struct dw_llp_slot slot = {.buf = slot_memory};
    unsigned count = 0;
    struct pollfd ready = {.fd = llp->fd, .events = POLLIN};
    while (count < expected && poll(&ready, 1, WAIT_MS) == 1) {
        if (dw_llp_recv(llp, &slot)) {
            count = keep(&slot, count);
        }
    }
    assert_int_equal(count, expected);
    assert_false(dw_llp_recv(llp, &slot));
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
    struct dw_llp_attr attr = attr_plain();
    struct dw_llp *llp = open_llp(&attr, &rx_counters);
    uint16_t port = llp->port;
    close_llp(llp);
    return port;
}

static void fill_payload(void)
{
    for (size_t i = 0; i < sizeof(payload); i++) {
        payload[i] = (uint8_t)(i * 131 + i / 251);
    }
}

#endif
