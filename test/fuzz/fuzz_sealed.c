/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes an authenticated QP: each datagram is the fuzzer's, sealed by the key of a peer that was
 * told our address, so that all behind the seal is reached; or as it is, or sent again: then it
 * must be dropped, and nothing must leave or change. Memory that no peer may write stays as it was.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/open.h"
#include "common/rnic/qp.h"
#include "test/fuzz/input.h"
#include "test/fuzz/memory_llp.h"
#include "common/include/diwarp_ud.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEERS        3 /* the last one's address we were not told */
#define REGION_BYTES 4096u
#define CANARY       0x5a
#define JOB          7
#define BODY_MAX     4000u

static struct world {
    struct memory_llp llp;
    uint64_t now_ns, number;
    bool ud;
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp;
    struct diwarp_address address;
    struct diwarp_ah *ahs[PEERS];
    struct dw_auth *peers[PEERS]; /* theirs */
    struct diwarp_mr *open_mr;
    uint8_t open[REGION_BYTES], closed[REGION_BYTES];
    uint8_t last[DW_LLP_SLOT_BYTES]; /* the datagram that came last, and was taken */
    uint32_t last_bytes;
} w;

static uint64_t world_now_ns(void *arg)
{
    (void)arg;
    return w.now_ns;
}

/* The peer's own end, and our handle of it. */
static void open_peer(unsigned i, enum diwarp_auth auth)
{
    const struct dw_process me = {.name = w.address.name, .incarnation = w.address.incarnation};
    static const uint8_t no_file[DW_HMAC_BYTES];
    struct diwarp_address peer = w.address;
    peer.name.rank = i;
    peer.incarnation = 1;
    peer.port = (uint16_t)(50000 + i);
    peer.secret[0] ^= (uint8_t)(i + 1);
    const struct dw_process process = {.name = peer.name, .incarnation = 1};
    w.peers[i] = dw_auth_create(auth, &process, peer.secret, no_file, 1);
    require(w.peers[i] && dw_auth_on_told(w.peers[i], &me, w.address.secret) == 0);
    if (i + 1 < PEERS)
        require(diwarp_create_ah(w.qp, &peer, &w.ahs[i]) == 0);
}

static void world_open(enum diwarp_auth auth, bool ud)
{
    struct dw_env env = {.now_ns = world_now_ns,
                         .open_llp = memory_open,
                         .arg = &w.llp,
                         .seed = 1,
                         .interfaces = &memory_interface,
                         .interface_count = 1};
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;
    memset(&w, 0, sizeof w);
    memset(w.open, CANARY, sizeof w.open);
    memset(w.closed, CANARY, sizeof w.closed);
    w.now_ns = 1000000000;
    w.ud = ud;
    diwarp_device_attr_init(&attr);
    attr.name = (struct diwarp_name){.job = JOB, .rank = 100};
    attr.auth = auth;
    require(dw_device_open(&attr, &env, &w.device, NULL) == 0);
    w.pd = diwarp_alloc_pd(w.device);
    w.cq = diwarp_create_cq(w.device, 16);
    diwarp_qp_attr_init(&qp_attr);
    qp_attr.type = ud ? DIWARP_QPT_UD : DIWARP_QPT_RD;
    qp_attr.cq = w.cq;
    qp_attr.max_msg_bytes = 20000;
    require(diwarp_create_qp(w.pd, &qp_attr, &w.qp, NULL) == 0);
    diwarp_query_address(w.qp, &w.address);
    for (unsigned i = 0; i < PEERS; i++)
        open_peer(i, auth);
    w.open_mr = diwarp_reg_mr(w.pd, w.open, sizeof w.open,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    require(w.open_mr != NULL);
}

static void world_close(void)
{
    diwarp_destroy_qp(w.qp);
    for (unsigned i = 0; i < PEERS; i++) {
        dw_auth_destroy(w.peers[i]);
        if (w.ahs[i])
            diwarp_destroy_ah(w.ahs[i]);
    }
    diwarp_dereg_mr(w.open_mr);
    diwarp_destroy_cq(w.cq);
    diwarp_dealloc_pd(w.pd);
    diwarp_close_device(w.device);
    for (unsigned i = 0; i < sizeof w.closed; i++)
        require(w.closed[i] == CANARY);
}

static void poll_once(void)
{
    struct diwarp_wc wc;
    while (diwarp_poll_cq(w.cq, 1, &wc) == 1)
        if (wc.record)
            diwarp_release_record(wc.record);
}

static uint64_t refused(const struct diwarp_counters *c)
{
    return c->drop_short + c->drop_version + c->drop_header + c->drop_token + c->drop_auth +
           c->drop_replay;
}

/* What nobody sealed, or sealed once: it is dropped, and that is all. */
static void deliver_in_vain(void)
{
    const struct diwarp_counters *counters = diwarp_query_counters(w.qp);
    const uint64_t before = refused(counters), received = counters->rx_datagrams;
    uint8_t open[REGION_BYTES];
    memcpy(open, w.open, sizeof open);
    w.llp.segment_bytes = w.llp.bytes;
    w.llp.waiting = true;
    struct diwarp_wc wc;
    (void)diwarp_poll_cq(w.cq, 0, &wc);
    require(refused(counters) - before == counters->rx_datagrams - received);
    require(!memcmp(open, w.open, sizeof open));
    poll_once();
}

/* The LLP header is the fuzzer's but for what the seal needs; what follows is all of it. */
static void deliver_sealed(struct input *in, unsigned i)
{
    const struct dw_seal seal = dw_seal_of(true, w.peers[i]);
    const struct dw_process to = {.name = w.address.name, .incarnation = w.address.incarnation};
    uint8_t *buf = w.llp.datagram;
    struct dw_llp_header header = {
        .type = (uint8_t)(take(in, 1) % DW_LLP_TYPES),
        .flags = (uint8_t)(take(in, 1) & (DW_LLP_ACK_REQUEST | DW_LLP_INTRO)),
        .incarnation = 1,
        .token = w.address.token,
        .job = JOB,
        .rank = i,
        .number = ++w.number,
        .dst_qpn = w.address.qpn,
        .src_qpn = 1,
    };
    header.flags |= dw_seal_flags(&seal, &to);
    if (header.type != DW_LLP_UD) {
        header.credit_kib = (uint16_t)take(in, 1);
        header.psn = take(in, 1);
        header.ack = take(in, 1);
    }
    dw_llp_header_put(buf, &header);
    uint32_t bytes = DW_LLP_HEADER_BYTES, body = take(in, 2) % BODY_MAX;
    for (; body && in->at < in->end; body--)
        buf[bytes++] = (uint8_t)take(in, 1);
    /* A tagged segment's place, which the fuzzer cannot guess. */
    if (take(in, 1) & 1 && bytes >= DW_LLP_HEADER_BYTES + 16) {
        dw_put_be32(buf + DW_LLP_HEADER_BYTES + 4, w.open_mr->stag);
        dw_put_be64(buf + DW_LLP_HEADER_BYTES + 8, (uintptr_t)w.open);
    }
    dw_seal(&seal, &to, buf, bytes, buf);
    w.llp.bytes = w.llp.segment_bytes = bytes + DW_TAG_BYTES;
    w.last_bytes = 0;
    memcpy(w.last, buf, w.llp.bytes);
    const struct diwarp_counters *counters = diwarp_query_counters(w.qp);
    const uint64_t before = counters->drop_auth + counters->drop_replay;
    w.llp.waiting = true;
    poll_once();
    require(counters->drop_auth + counters->drop_replay == before);
    if (!w.ud && header.type != DW_LLP_UD && header.type != DW_LLP_RESET && w.ahs[i])
        w.last_bytes = w.llp.bytes; /* its source is known: the number was taken */
}

static void deliver_raw(struct input *in)
{
    uint32_t bytes = take(in, 2) % BODY_MAX, at = 0;
    const bool with_token = take(in, 1) & 1;
    for (; at < bytes && in->at < in->end; at++)
        w.llp.datagram[at] = (uint8_t)take(in, 1);
    if (with_token && at >= DW_LLP_HEADER_BYTES)
        dw_put_be64(w.llp.datagram + 8, w.address.token);
    w.llp.bytes = at;
    if (at)
        deliver_in_vain();
}

static void step(struct input *in)
{
    const uint32_t choice = take(in, 1);
    switch (choice & 7) {
    case 0:
        w.now_ns += (uint64_t)take(in, 2) * 100000;
        poll_once();
        break;
    case 1:
        deliver_raw(in);
        break;
    case 2: /* the last one again, or one bit of it changed */
        if (!w.last_bytes || diwarp_query_counters(w.qp)->drop_source)
            break;
        memcpy(w.llp.datagram, w.last, w.last_bytes);
        w.llp.bytes = w.last_bytes;
        if (choice & 8)
            w.llp.datagram[take(in, 2) % w.last_bytes] ^= (uint8_t)(1u << take(in, 1) % 8);
        deliver_in_vain();
        break;
    default:
        deliver_sealed(in, (choice >> 3) % PEERS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .end = data + size};
    const uint32_t kind = take(&in, 1);
    world_open(kind & 1 ? DIWARP_AUTH_AES_GCM : DIWARP_AUTH_GMAC, kind & 2);
    for (unsigned steps = 0; in.at < in.end && steps < 100; steps++)
        step(&in);
    world_close();
    return 0;
}
