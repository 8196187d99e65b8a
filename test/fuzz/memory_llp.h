/* SPDX-License-Identifier: BSD-3-Clause */
/* An LLP in memory, for a target that drives a whole QP: one datagram in, all that goes out is
 * lost. */
#ifndef FUZZ_MEMORY_LLP_H
#define FUZZ_MEMORY_LLP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/llp/llp.h"
#include "common/wire/llp_header.h"
#include "test/fuzz/input.h"

struct memory_llp {
    struct dw_llp llp;
    uint8_t datagram[DW_LLP_SLOT_BYTES];
    uint32_t bytes, segment_bytes;
    bool waiting, full, truncated, told; /* told: by ICMP */
    uint32_t told_mtu_bytes;
    uint8_t cookie[DW_PROOF_BYTES]; /* of the last RESET that was sent */
};

static int memory_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    require(train->segment_bytes > 0 && train->total_bytes <= DW_LLP_TRAIN_BYTES);
    struct memory_llp *memory = (struct memory_llp *)(void *)llp;
    const uint8_t *buf = train->iov[0].iov_base;

    if ((buf[0] & 0x0f) == DW_LLP_RESET)
        memcpy(memory->cookie, buf + DW_LLP_HEADER_BYTES + 8, sizeof memory->cookie);
    return memory->full ? -EAGAIN : 0;
}

static int memory_recv(struct dw_llp *llp, uint8_t *buf, uint32_t *segment_bytes)
{
    struct memory_llp *memory = (struct memory_llp *)(void *)llp;

    if (!memory->waiting)
        return -1;
    memory->waiting = false;
    memcpy(buf, memory->datagram, memory->bytes);
    *segment_bytes = memory->segment_bytes;
    return memory->truncated ? DW_LLP_SLOT_BYTES + 1 : (int)memory->bytes;
}

static int memory_icmp(struct dw_llp *llp, struct dw_llp_addr *to)
{
    struct memory_llp *memory = (struct memory_llp *)(void *)llp;
    bool told = memory->told;

    *to = (struct dw_llp_addr){.family = AF_INET, .port = 50000, .ip = {127, 0, 0, 1}};
    memory->told = false;
    return told ? (int)memory->told_mtu_bytes : -1;
}

static void memory_close(struct dw_llp *llp)
{
    (void)llp;
}

static const struct dw_llp_ops memory_ops = {
    .send = memory_send,
    .recv = memory_recv,
    .icmp = memory_icmp,
    .close = memory_close,
};

/* As of struct dw_env, whose arg is the struct memory_llp. */
static int memory_open(void *arg, const struct diwarp_device_attr *attr,
                       const struct dw_llp_addr *at, struct diwarp_counters *counters,
                       struct dw_llp **llp, struct diwarp_diagnosis *why)
{
    struct memory_llp *memory = arg;
    (void)attr, (void)at, (void)why;
    memory->llp = (struct dw_llp){.ops = &memory_ops,
                                  .counters = counters,
                                  .fd = -1,
                                  .port = 40000,
                                  .rcvbuf_bytes = 1u << 20,
                                  .sndbuf_bytes = 1u << 20};
    *llp = &memory->llp;
    return 0;
}

static const struct diwarp_interface memory_interface = {.name = "lo",
                                                         .family = AF_INET,
                                                         .prefix_bits = 8,
                                                         .loopback = true,
                                                         .mtu_bytes = 65536,
                                                         .ip = {127, 0, 0, 1}};

#endif
