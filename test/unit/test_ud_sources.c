/* SPDX-License-Identifier: BSD-3-Clause */
/* UD: how many sources are remembered, and that the silent ones make room for newcomers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/open.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/ddp.h"
#include "test/fuzz/input.h"
#include "test/fuzz/memory_llp.h"

#define SOURCES_MAX 65536
#define SECOND      1000000000ull

static struct memory_llp net;
static uint64_t now_ns = SECOND;
static struct diwarp_device *device;
static struct diwarp_pd *pd;
static struct diwarp_cq *cq;
static struct diwarp_qp *qp;
static struct diwarp_address address;

static uint64_t virtual_now_ns(void *arg)
{
    (void)arg;
    return now_ns;
}

static int open_memory(void *arg, const struct dw_llp_attr *attr, struct diwarp_counters *counters,
                       struct dw_llp **llp, struct diwarp_diagnosis *why)
{
    (void)arg;
    (void)attr;
    (void)why;
    net.llp = (struct dw_llp){
        .ops = &memory_ops, .counters = counters, .fd = -1, .port = 1, .rcvbuf_bytes = 1u << 20};
    *llp = &net.llp;
    return 0;
}

static void open_world(void)
{
    static const struct diwarp_interface interface = {
        .family = AF_INET, .prefix_bits = 24, .mtu_bytes = 1500, .ip = {10, 0, 0, 1}};
    const struct dw_env env = {.now_ns = virtual_now_ns,
                               .open_llp = open_memory,
                               .seed = 1,
                               .interfaces = &interface,
                               .interface_count = 1};
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;
    diwarp_device_attr_init(&attr);
    assert_int_equal(dw_device_open(&attr, &env, &device, NULL), 0);
    pd = diwarp_alloc_pd(device);
    cq = diwarp_create_cq(device, 16);
    diwarp_qp_attr_init(&qp_attr);
    qp_attr.type = DIWARP_QPT_UD;
    qp_attr.cq = cq;
    assert_int_equal(diwarp_create_qp(pd, &qp_attr, &qp, NULL), 0);
    diwarp_query_address(qp, &address);
}

static void close_world(void)
{
    diwarp_destroy_qp(qp);
    diwarp_destroy_cq(cq);
    diwarp_dealloc_pd(pd);
    diwarp_close_device(device);
}

/* A Send, for which there is no receive. */
static void hear(uint32_t rank)
{
    const struct dw_llp_header header = {
        .type = DW_LLP_UD, .token = address.token, .job = 1, .rank = rank, .dst_qpn = address.qpn};
    const struct dw_ddp_header ddp = {.last = true, .opcode = DW_RDMAP_SEND, .msn = 1};
    struct diwarp_wc wc;
    dw_llp_header_put(net.datagram, &header);
    uint8_t *segment = net.datagram + DW_LLP_HEADER_BYTES;
    const size_t head = dw_ddp_put(segment + DW_SEGMENT_LEN_BYTES, &ddp);
    dw_put_be16(segment, (uint16_t)head);
    net.bytes = DW_LLP_HEADER_BYTES + DW_SEGMENT_LEN_BYTES + (uint32_t)head;
    dw_put_be32(net.datagram + net.bytes, dw_crc32c(0, net.datagram, net.bytes));
    net.bytes += DW_CRC_BYTES;
    net.segment_bytes = net.bytes;
    net.waiting = true;
    assert_int_equal(diwarp_poll_cq(cq, 1, &wc), 0);
}

static void ud_sources__silent_ones_make_room(void **state)
{
    (void)state;
    const struct diwarp_counters *counters;
    struct diwarp_memory memory;
    open_world();
    counters = diwarp_query_counters(qp);
    for (uint32_t rank = 0; rank < SOURCES_MAX; rank++)
        hear(rank);
    assert_int_equal(counters->drop_source, 0);
    hear(SOURCES_MAX);
    assert_int_equal(counters->drop_source, 1);
    now_ns += 11 * SECOND;
    hear(0); /* is the last one now */
    hear(SOURCES_MAX);
    hear(SOURCES_MAX + 1);
    assert_int_equal(counters->drop_source, 1);
    diwarp_query_memory(cq, pd, &memory);
    assert_int_equal(memory.peers, SOURCES_MAX);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ud_sources__silent_ones_make_room)};
    return cmocka_run_group_tests_name("ud_sources", tests, NULL, NULL);
}
