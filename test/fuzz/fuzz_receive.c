/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes a QP from the LLP up: the input is a script of datagrams, posts, polls and time. Token and
 * CRC are right, peers, STags and records are ones that exist, so that every layer is reached; what
 * is in the datagrams is the fuzzer's. Memory that no peer was given must stay as it was.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/open.h"
#include "common/rd/parts.h"
#include "common/ud/ud.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "test/fuzz/input.h"
#include "test/fuzz/memory_llp.h"
#include "common/include/diwarp_ud.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEERS        3
#define REGION_BYTES 8192u
#define LOCAL_BYTES  32768u
#define CANARY       0x5a
#define JOB          7

/* ---- the QP under test ---------------------------------------------------------------------- */

static struct world {
    struct memory_llp llp;
    uint64_t now_ns;
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp, *doomed_qp; /* the latter has the next number */
    struct dw_rd *rd;                 /* NULL: UD */
    struct diwarp_address address;
    struct diwarp_ah *ahs[PEERS];
    /* All rights; reading only; all rights until deregistered. */
    struct diwarp_mr *open_mr, *closed_mr, *doomed_mr;
    uint8_t *open, *closed, *doomed, *local;
    uint32_t psns[PEERS];
    uint64_t held;
    uint32_t room; /* of a record, behind the segment's offset; 0: any */
    struct diwarp_record *record;
} w;

static uint64_t world_now_ns(void *arg)
{
    (void)arg;
    return w.now_ns;
}

static uint8_t *canaries(uint32_t bytes)
{
    uint8_t *memory = malloc(bytes);

    require(memory != NULL);
    memset(memory, CANARY, bytes);
    return memory;
}

static void world_open(bool ud, bool small)
{
    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                    IBV_ACCESS_REMOTE_ATOMIC;
    struct dw_env env = {.now_ns = world_now_ns,
                         .open_llp = memory_open,
                         .arg = &w.llp,
                         .seed = 1,
                         .interfaces = &memory_interface,
                         .interface_count = 1};
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;

    memset(&w, 0, sizeof w);
    w.now_ns = 1000000000;
    diwarp_device_attr_init(&attr);
    attr.name = (struct diwarp_name){.job = JOB, .rank = 100};
    attr.datagram_max_bytes = small ? 600 : 0;
    attr.peer_timeout_ns = 2000000000;
    require(dw_device_open(&attr, &env, &w.device, NULL) == 0);
    w.pd = diwarp_alloc_pd(w.device);
    w.cq = diwarp_create_cq(w.device, 16);
    diwarp_qp_attr_init(&qp_attr);
    qp_attr.type = ud ? DIWARP_QPT_UD : DIWARP_QPT_RD;
    qp_attr.cq = w.cq;
    qp_attr.max_msg_bytes = 20000;
    qp_attr.max_recv_wr = 16;
    require(diwarp_create_qp(w.pd, &qp_attr, &w.qp, NULL) == 0);
    require(diwarp_create_qp(w.pd, &qp_attr, &w.doomed_qp, NULL) == 0);
    w.rd = ud ? NULL : w.qp->state;
    diwarp_query_address(w.qp, &w.address);
    for (uint32_t i = 0; i < PEERS; i++) {
        struct diwarp_address peer = w.address;
        peer.name.rank = i;
        peer.incarnation = 1;
        peer.port = (uint16_t)(50000 + i);
        require(diwarp_create_ah(w.qp, &peer, &w.ahs[i]) == 0);
    }
    w.open = canaries(REGION_BYTES);
    w.closed = canaries(REGION_BYTES);
    w.doomed = canaries(REGION_BYTES);
    w.local = canaries(LOCAL_BYTES);
    w.open_mr = diwarp_reg_mr(w.pd, w.open, REGION_BYTES, all);
    w.closed_mr = diwarp_reg_mr(w.pd, w.closed, REGION_BYTES, IBV_ACCESS_REMOTE_READ);
    w.doomed_mr = diwarp_reg_mr(w.pd, w.doomed, REGION_BYTES, all);
    require(w.open_mr && w.closed_mr && w.doomed_mr);
}

static void doom(void)
{
    if (w.doomed_mr)
        diwarp_dereg_mr(w.doomed_mr);
    w.doomed_mr = NULL;
    free(w.doomed);
    w.doomed = NULL;
    if (w.doomed_qp)
        diwarp_destroy_qp(w.doomed_qp);
    w.doomed_qp = NULL;
}

static void world_close(void)
{
    doom();
    diwarp_destroy_qp(w.qp);
    for (unsigned i = 0; i < PEERS; i++)
        diwarp_destroy_ah(w.ahs[i]);
    diwarp_dereg_mr(w.open_mr);
    diwarp_dereg_mr(w.closed_mr);
    diwarp_destroy_cq(w.cq);
    diwarp_dealloc_pd(w.pd);
    diwarp_close_device(w.device);
    for (unsigned i = 0; i < REGION_BYTES; i++)
        require(w.closed[i] == CANARY);
    free(w.open);
    free(w.closed);
    free(w.local);
}

/* ---- what the application does -------------------------------------------------------------- */

static void poll_once(void)
{
    struct diwarp_wc wc;
    volatile uint8_t sum = 0;

    while (diwarp_poll_cq(w.cq, 1, &wc) == 1) {
        for (uint32_t i = 0; wc.data && i < wc.wc.byte_len; i++)
            sum = (uint8_t)(sum + ((const uint8_t *)wc.data)[i]);
        if (wc.read_id)
            w.held = wc.read_id;
        if (!wc.record)
            continue;
        if (w.record)
            diwarp_release_record(w.record);
        w.record = wc.record;
    }
}

static void post(struct input *in)
{
    static const enum ibv_wr_opcode opcodes[] = {
        IBV_WR_SEND,          IBV_WR_SEND_WITH_IMM,      IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_READ,     IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
        IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE_WITH_IMM};
    struct ibv_sge sge = {.addr = (uintptr_t)w.local};
    const uint32_t whom = take(in, 1);
    struct diwarp_send_wr wr = {.wr = {.sg_list = &sge, .num_sge = 1}, .ah = w.ahs[whom % PEERS]};
    wr.wr.opcode = opcodes[take(in, 1) % 8];
    wr.wr.send_flags = take(in, 1) << 1;
    wr.wr.send_flags |= (wr.wr.send_flags & 0x80 ? (unsigned)DIWARP_SEND_HOLD : 0) |
                        (wr.wr.send_flags & 0x40 ? (unsigned)DIWARP_SEND_BUFFERED : 0);
    sge.length = take(in, 2) % (LOCAL_BYTES + 1);
    if (wr.wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        sge.length = sizeof(uint64_t);
    (void)diwarp_post_send(whom & 0x80 && w.doomed_qp ? w.doomed_qp : w.qp, &wr);
}

static void post_recv(struct input *in)
{
    struct ibv_sge sge = {.addr = (uintptr_t)w.local, .length = take(in, 2) % (LOCAL_BYTES + 1)};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = (int)take(in, 1) & 1};

    (void)diwarp_post_recv(w.qp, &wr);
}

/* ---- what the peers send -------------------------------------------------------------------- */

static uint32_t known_id(struct input *in)
{
    uint32_t byte = take(in, 1);
    const uint32_t last = w.rd ? w.rd->records.next_id : dw_ud_qp_of(w.qp)->reads.last_id;
    const uint32_t id = byte & 0x40 ? last - (byte & 3) : byte & 0x3f;
    return (byte & 0x80 ? DW_RECORD_ID_FROM_SOURCE : 0) | (id & 0x7fffffff);
}

static struct dw_record *known_sink(unsigned rank, uint32_t id)
{
    struct diwarp_name name = {.job = JOB, .rank = rank};
    const struct dw_handle *handle = w.rd ? dw_handle_find(&w.rd->handles, name) : NULL;
    const struct dw_peer *peer = handle ? dw_handle_peer(handle) : NULL;
    return peer ? dw_sink_of(&peer->records, id) : NULL;
}

/* Where a record lies, if it is one; otherwise a region's. */
static void known_place(struct input *in, unsigned rank, uint32_t id, uint32_t *stag, uint64_t *to)
{
    const struct dw_record *sink = known_sink(rank, id);
    const struct dw_ud_read *read = w.rd ? NULL : dw_map_get(&dw_ud_qp_of(w.qp)->reads.by_id, id);
    uint32_t choice = take(in, 1);
    struct diwarp_mr *mr = choice & 1 ? w.closed_mr : choice & 2 ? w.doomed_mr : w.open_mr;

    *stag = choice & 4 ? take(in, 4) : sink ? sink->stag : read ? read->stag : mr ? mr->stag : 1;
    *to = sink ? sink->to : read ? 0 : mr ? (uintptr_t)mr->addr : 0;
    if (choice & 8)
        *to += (uint64_t)(int64_t)(int16_t)take(in, 2);
}

static size_t put_request(struct input *in, unsigned rank, uint8_t opcode, uint8_t *buf)
{
    struct dw_read_request read = {.sink_stag = 1, .sink_to = 0};
    struct dw_atomic_request atomic = {.add_swap = 1, .add_swap_mask = UINT64_MAX};
    uint32_t id = known_id(in);
    if (opcode == DW_RDMAP_READ_REQUEST) {
        known_place(in, rank, UINT32_MAX, &read.source_stag, &read.source_to);
        read.record_id = id;
        read.size = take(in, 2) % (REGION_BYTES + 2);
        read.granted = take(in, 2);
        dw_read_request_put(buf, &read);
        dw_put_be32(buf + DW_READ_REQUEST_BYTES - 8, id);
        return DW_READ_REQUEST_BYTES;
    }
    known_place(in, rank, UINT32_MAX, &atomic.stag, &atomic.to);
    atomic.request_id = id;
    atomic.opcode = take(in, 1) & 1 ? DW_ATOMIC_CMP_SWAP : DW_ATOMIC_FETCH_ADD;
    dw_atomic_request_put(buf, &atomic);
    return DW_ATOMIC_REQUEST_BYTES;
}

static size_t put_control(struct input *in, unsigned rank, uint8_t *buf)
{
    static const uint8_t release[DIWARP_RELEASE_MAX_BYTES];
    struct dw_record_control control = {.id = known_id(in), .release = release};
    control.kind = (uint8_t)(1 + take(in, 1) % 4);
    switch (control.kind) {
    case DW_RECORD_OPEN:
        known_place(in, rank, UINT32_MAX, &control.stag, &control.to);
        control.length = take(in, 2) % (REGION_BYTES + 2);
        control.id |= DW_RECORD_ID_FROM_SOURCE;
        break;
    case DW_RECORD_STATUS:
        control.granted = take(in, 2);
        control.range_count = (uint16_t)(take(in, 1) % 4);
        for (unsigned i = 0; i < control.range_count; i++) {
            control.ranges[i].start = i * 1000 + take(in, 1);
            control.ranges[i].end = control.ranges[i].start + 1 + take(in, 1);
        }
        break;
    case DW_RECORD_COMPLETE:
        control.release_bytes = take(in, 1) % (DIWARP_RELEASE_MAX_BYTES + 1);
        break;
    default:
        control.status = (uint8_t)(take(in, 1) % DW_STATUS_COUNT);
    }
    return dw_record_control_put(buf, &control);
}

static size_t put_write_record(struct input *in, unsigned rank, struct dw_ddp_header *ddp,
                               uint8_t *buf)
{
    uint32_t id = known_id(in), offset = take(in, 2), total = take(in, 2);
    const struct dw_record *sink = known_sink(rank, id);
    const struct dw_ud_read *read = w.rd ? NULL : dw_map_get(&dw_ud_qp_of(w.qp)->reads.by_id, id);
    if (read && !(total & 1)) {
        total = read->total;
        offset %= total;
    }
    if (sink && !(total & 1)) {
        total = sink->in.total;
        offset %= total;
    }
    ddp->tagged = true;
    known_place(in, rank, id, &ddp->stag, &ddp->to);
    ddp->to += offset;
    dw_put_be32(buf, id);
    dw_put_be32(buf + 4, offset);
    dw_put_be32(buf + 8, total);
    w.room = offset < total ? total - offset : 0;
    return DW_WRITE_RECORD_BYTES;
}

/* The RDMAP header of a segment, and the DDP fields that go with it. */
static size_t put_head(struct input *in, unsigned rank, struct dw_ddp_header *ddp, uint8_t *buf)
{
    switch (ddp->opcode) {
    case DW_RDMAP_WRITE_RECORD:
        return put_write_record(in, rank, ddp, buf);
    case DW_RDMAP_READ_REQUEST:
    case DW_RDMAP_ATOMIC_REQUEST:
        ddp->qn = DW_QN_REQUEST;
        return put_request(in, rank, ddp->opcode, buf);
    case DW_RDMAP_ATOMIC_RESPONSE:
        ddp->qn = DW_QN_ATOMIC_RESPONSE;
        struct dw_atomic_response response = {.request_id = take(in, 1),
                                              .status = take(in, 1) % DW_STATUS_COUNT};
        dw_atomic_response_put(buf, &response);
        return DW_ATOMIC_RESPONSE_BYTES;
    case DW_RDMAP_RECORD_CONTROL:
        ddp->qn = DW_QN_RECORD;
        return put_control(in, rank, buf);
    case DW_RDMAP_IMMEDIATE:
    case DW_RDMAP_IMMEDIATE_SE:
        dw_put_be32(buf, 7);
        dw_put_be32(buf + 4, take(in, 2));
        return DW_IMMEDIATE_BYTES;
    default:
        if (dw_rdmap_invalidates(ddp->opcode))
            known_place(in, rank, UINT32_MAX, &ddp->ulp, &ddp->to);
        ddp->msn = take(in, 1);
        ddp->mo = take(in, 2);
        return 0;
    }
}

static uint32_t put_segment(struct input *in, unsigned rank, uint8_t *buf)
{
    static const uint8_t opcodes[] = {DW_RDMAP_SEND,           DW_RDMAP_SEND_IMM,
                                      DW_RDMAP_WRITE_RECORD,   DW_RDMAP_READ_REQUEST,
                                      DW_RDMAP_ATOMIC_REQUEST, DW_RDMAP_ATOMIC_RESPONSE,
                                      DW_RDMAP_RECORD_CONTROL};
    uint32_t choice = take(in, 1);
    const uint8_t opcode = (choice & 7) < 7 ? opcodes[choice & 7] : take(in, 1) & 0xf;
    struct dw_ddp_header ddp = {.opcode = opcode, .last = choice & 8};
    uint8_t head[DW_RECORD_STATUS_BYTES(4) + DIWARP_RELEASE_MAX_BYTES];
    w.room = 0;
    size_t head_bytes = put_head(in, rank, &ddp, head);
    size_t n = DW_SEGMENT_LEN_BYTES + dw_ddp_put(buf + DW_SEGMENT_LEN_BYTES, &ddp);
    memcpy(buf + n, head, head_bytes);
    n += head_bytes;
    if (choice & 0x10) { /* payload, or bytes left over */
        uint32_t bytes = take(in, 2) % 4096;
        if (w.room && bytes > w.room && !(choice & 0x80))
            bytes = w.room;
        memset(buf + n, 0xa5, bytes);
        n += bytes;
    }
    if (choice & 0x20) /* one byte of it at random */
        buf[take(in, 2) % n] ^= (uint8_t)(take(in, 1) | 1);
    if (!(choice & 0x40))
        dw_put_be16(buf, (uint16_t)(n - DW_SEGMENT_LEN_BYTES));
    else
        dw_put_be16(buf, (uint16_t)take(in, 2));
    return (uint32_t)n;
}

static uint32_t put_lead(struct input *in, unsigned rank, uint8_t *buf)
{
    uint32_t choice = take(in, 1);
    struct dw_llp_header header = {
        .token = w.address.token, .job = JOB, .rank = rank, .dst_qpn = w.address.qpn, .src_qpn = 1};
    struct dw_intro intro = {
        .token = 5, .family = AF_INET, .port = 1, .mtu_bytes = 1500, .ip = {127, 0, 0, 1}};

    const uint32_t who = choice & 0x80 ? take(in, 1) : 1;
    header.incarnation = who & 0x3f;
    header.dst_qpn += who >> 6 & 1;
    header.flags = (uint8_t)(choice & (DW_LLP_ACK_REQUEST | DW_LLP_INTRO));
    if (w.rd && who & 0x80 && choice & DW_LLP_INTRO)
        header.flags |= DW_LLP_GOES_ON;
    const uint32_t kind = choice >> 2;
    header.type = (uint8_t)(!w.rd ? 0 : kind >= 60 ? DW_LLP_RESET + (kind & 1) : 1 + kind % 5);
    if (w.rd && (choice & 0xc0) == 0xc0)
        header.flags |= DW_LLP_REFUSING;
    if (header.type == DW_LLP_DATA)
        header.psn = w.psns[rank]++;
    if (w.rd) {
        header.credit_kib = 64;
        header.psn += choice & 0x40 ? take(in, 1) : 0;
        header.ack = take(in, 1) & 0x1f;
        header.sack = choice & 0x20 ? (uint64_t)take(in, 4) << (take(in, 1) % 33) : 0;
    }
    dw_llp_header_put(buf, &header);
    if (!(header.flags & DW_LLP_INTRO))
        return DW_LLP_HEADER_BYTES;
    dw_intro_put(buf + DW_LLP_HEADER_BYTES, &intro);
    if (choice & 0x80)
        buf[DW_LLP_HEADER_BYTES + take(in, 1) % DW_INTRO_BYTES] ^= (uint8_t)take(in, 1);
    return DW_LLP_HEADER_BYTES + DW_INTRO_BYTES;
}

/* What a RESET or a PROOF brings: mostly what the other end waits for. */
static uint32_t put_identity(struct input *in, unsigned rank, const uint8_t *datagram, uint8_t *buf)
{
    const struct dw_peer *peer = w.rd ? dw_handle_peer(dw_handle_of_ah(w.ahs[rank])) : NULL;
    switch (datagram[0] & 0x0f) {
    case DW_LLP_RESET:
        dw_put_be64(buf, (peer ? peer->number : 0) - take(in, 1));
        dw_put_be64(buf + 8, take(in, 1));
        return DW_RESET_BYTES;
    case DW_LLP_PROOF:
        memcpy(buf, w.llp.cookie, DW_PROOF_BYTES);
        buf[7] ^= (uint8_t)take(in, 1);
        return DW_PROOF_BYTES;
    default:
        return 0;
    }
}

static void deliver(struct input *in)
{
    struct memory_llp *llp = &w.llp;
    uint32_t choice = take(in, 1), bytes;
    unsigned rank = choice % PEERS;

    bytes = put_lead(in, rank, llp->datagram);
    bytes += put_identity(in, rank, llp->datagram, llp->datagram + bytes);
    for (unsigned n = choice >> 2 & 7; n && bytes < 50000; n--) {
        while (dw_segment_padding(bytes))
            llp->datagram[bytes++] = 0;
        bytes += put_segment(in, rank, llp->datagram + bytes);
    }
    if (choice & 0x20) { /* raw bytes at the end */
        uint32_t raw = take(in, 1);
        for (; raw && in->at < in->end; raw--)
            llp->datagram[bytes++] = (uint8_t)take(in, 1);
    }
    if (choice & 0x40) /* cut short */
        bytes = take(in, 2) % (bytes + 1);
    dw_put_be32(llp->datagram + bytes, dw_crc32c(0, llp->datagram, bytes));
    llp->bytes = bytes + DW_CRC_BYTES;
    llp->segment_bytes = choice & 0x80 ? 1 + take(in, 2) : llp->bytes; /* else a train */
    llp->waiting = true;
    poll_once();
}

/* The last one: all of what has come is valid, and not all has. */
static void look_at_read(void)
{
    struct diwarp_read_info info;
    struct diwarp_range ranges[4];
    if (diwarp_query_read(w.qp, 0, &info))
        return;
    require(info.valid_bytes < info.length && info.length <= LOCAL_BYTES);
    const unsigned count = diwarp_read_ranges(w.qp, 0, ranges, 4);
    for (unsigned i = 0; i < count && i < 4; i++)
        require(ranges[i].start < ranges[i].end && ranges[i].end <= info.length);
}

static void step(struct input *in)
{
    switch (take(in, 1) % 12) {
    case 0:
        post(in);
        break;
    case 1:
        post_recv(in);
        break;
    case 2:
        w.now_ns += (uint64_t)take(in, 2) * 100000;
        poll_once();
        look_at_read();
        break;
    case 3:
        if (w.held)
            (void)diwarp_post_release(w.qp, w.held, w.local, take(in, 1) & 0x7f);
        w.held = 0;
        break;
    case 4:
        doom();
        break;
    case 5:
        w.llp.full = take(in, 1) & 1;
        w.llp.truncated = take(in, 1) & 1;
        break;
    case 6:
        w.llp.told = true;
        w.llp.told_mtu_bytes = take(in, 2);
        poll_once();
        break;
    default:
        deliver(in);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .end = data + size};
    uint32_t kind = take(&in, 1);

    world_open(kind & 1, kind & 2);
    for (unsigned steps = 0; in.at < in.end && steps < 200; steps++)
        step(&in);
    if (kind & 4)
        (void)diwarp_drain_qp(w.qp, 0);
    world_close();
    return 0;
}
