/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes an RC QP behind its set-up: the input is a script of ULPDUs (framed right or wrong), raw
 * bytes, posts, polls and time. STags and message numbers are ones that exist, so that every layer
 * is reached. Memory that the peer was not given must stay as it was, and what the QP holds stays
 * bounded.
 */
#include <stdlib.h>
#include <string.h>

#include "common/rc/qp.h"
#include "test/fuzz/input.h"
#include "test/unit/fake_streams.h"
#include "test/unit/mpa_bounds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REGION_BYTES 4096u
#define CANARY       0x5a
#define MOST_BYTES   (1u << 20) /* that it may hold: one FPDU, one stage at most */

struct target {
    struct fake_net net;
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_listener *listener;
    struct diwarp_connect_request *request;
    struct diwarp_rc_qp *qp;
    struct diwarp_srq *srq;
    struct fake_stream *stream;
    struct diwarp_mr *writable, *readable;
    struct dw_mpa_stream tx;
    uint32_t send_msn, request_msn;
    bool closed;
    uint8_t region[3 * REGION_BYTES]; /* the middle is registered */
    uint8_t source[REGION_BYTES];
    uint8_t recv[1024 + 16];
};

static void run(struct target *t)
{
    struct diwarp_wc wcs[32];
    int n = diwarp_poll_cq(t->cq, 32, wcs);
    for (int i = 0; i < n; i++) {
        require(!t->closed);
        if ((int)wcs[i].wc.opcode == DIWARP_WC_CONNECT_REQUEST)
            t->request = wcs[i].request;
        t->closed = (int)wcs[i].wc.opcode == DIWARP_WC_DISCONNECTED;
    }
}

static void set_up(struct target *t, struct input *in)
{
    struct dw_env env;
    struct diwarp_device_attr device_attr;
    struct diwarp_rc_qp_attr attr;
    struct diwarp_address address;
    uint32_t mode = take(in, 1);

    t->net.random = mode;
    t->net.most_bytes = mode & 1 ? 1 + take(in, 2) : 0;
    t->net.room_bytes = mode & 2 ? 1 + take(in, 2) : 0;
    fake_env(&t->net, &env);
    diwarp_device_attr_init(&device_attr);
    require(!dw_device_open(&device_attr, &env, &t->device, NULL));
    t->pd = diwarp_alloc_pd(t->device);
    t->cq = diwarp_create_cq(t->device, 64);
    require(t->pd && t->cq && !diwarp_listen(t->pd, t->cq, &t->listener, NULL));
    t->writable =
        diwarp_reg_mr(t->pd, t->region + REGION_BYTES, REGION_BYTES,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    t->readable = diwarp_reg_mr(t->pd, t->source, sizeof t->source, IBV_ACCESS_REMOTE_READ);
    require(t->writable && t->readable);
    diwarp_rc_qp_attr_init(&attr);
    attr.cq = t->cq;
    attr.markers = mode & 4;
    attr.crc = false;
    attr.rnr_timeout_ns = mode & 16 ? UINT64_MAX : 1000000;
    if (mode & 32)
        attr.srq = t->srq = diwarp_create_srq(t->pd, 8, 4);
    diwarp_query_listener(t->listener, &address);
    t->stream = fake_call(&t->net, address.port);
    const bool enhanced = mode >> 6 & 1;
    const struct dw_mpa_frame frame = {.kind = DW_MPA_REQUEST,
                                       .flags = (mode & 8 ? DW_MPA_CRC : 0) |
                                                (enhanced ? DW_MPA_ENHANCED : 0),
                                       .revision = enhanced ? 2 : 1,
                                       .control = DW_MPA_PEER_TO_PEER | DW_MPA_RTR_WRITE,
                                       .ird = 4};
    struct dw_rc_tail tail = {0};
    require(!dw_rc_frame_add(&tail, t->device, address.token, frame));
    fake_write(t->stream, tail.buf, tail.bytes);
    free(tail.buf);
    for (unsigned i = 0; i < 4000 && !t->request; i++)
        run(t);
    require(t->request);
    require(!diwarp_accept(t->request, t->pd, &attr, NULL, 0, &t->qp));
    t->tx = (struct dw_mpa_stream){.markers = attr.markers, .crc = mode & 8};
    t->send_msn = t->request_msn = 1;
}

static void send_fpdu(struct target *t, const uint8_t *ulpdu, size_t bytes)
{
    static uint8_t room[DW_MPA_FPDU_MAX_BYTES];
    static struct iovec pieces[512];
    struct iovec whole = {(void *)(uintptr_t)ulpdu, bytes};
    struct dw_mpa_gather gather = {
        .pieces = pieces, .max = 512, .room = room, .room_bytes = sizeof room};
    require(!dw_mpa_gather_fpdu(&t->tx, &gather, &whole, 1, 1));
    for (size_t i = 0; i < gather.count; i++)
        fake_write(t->stream, pieces[i].iov_base, pieces[i].iov_len);
}

/* A segment that is nearly right. */
static void send_segment(struct target *t, struct input *in)
{
    uint8_t ulpdu[DW_DDP_UNTAGGED_BYTES + 2048] = {0};
    uint32_t what = take(in, 1), bytes = take(in, 2) % 2048;
    struct dw_ddp_header ddp = {.last = what & 0x80, .opcode = what & 0xf};
    ddp.tagged = ddp.opcode == DW_RDMAP_WRITE || ddp.opcode == DW_RDMAP_READ_RESPONSE;
    if (ddp.tagged) {
        ddp.stag = what & 0x40 ? take(in, 4) : t->writable->stag;
        ddp.to = (uint64_t)(uintptr_t)t->writable->addr + take(in, 2) - 100;
    } else {
        bool request = ddp.opcode == DW_RDMAP_READ_REQUEST || ddp.opcode == DW_RDMAP_ATOMIC_REQUEST;
        ddp.qn = request                                  ? DW_QN_REQUEST
                 : ddp.opcode == DW_RDMAP_TERMINATE       ? DW_QN_TERMINATE
                 : ddp.opcode == DW_RDMAP_ATOMIC_RESPONSE ? DW_QN_ATOMIC_RESPONSE
                                                          : DW_QN_SEND;
        ddp.msn = request ? t->request_msn++ : t->send_msn;
        t->send_msn += !request && ddp.last;
        ddp.mo = take(in, 1) << 4;
        ddp.ulp = t->writable->stag;
    }
    size_t head = dw_ddp_put(ulpdu, &ddp);
    if (ddp.opcode == DW_RDMAP_READ_REQUEST) {
        struct dw_read_request request = {
            .sink_stag = 1,
            .size = take(in, 2),
            .source_stag = what & 0x40 ? take(in, 4) : t->readable->stag,
            .source_to = (uint64_t)(uintptr_t)t->source + take(in, 2)};
        dw_read_request_put_stream(ulpdu + head, &request);
        bytes = what & 0x20 ? bytes : DW_READ_REQUEST_STREAM_BYTES;
    } else if (ddp.opcode == DW_RDMAP_ATOMIC_REQUEST) {
        struct dw_atomic_request request = {
            .opcode = what & 0x10 ? DW_ATOMIC_CMP_SWAP : DW_ATOMIC_FETCH_ADD,
            .stag = what & 0x40 ? take(in, 4) : t->writable->stag,
            .to = (uint64_t)(uintptr_t)t->writable->addr + take(in, 2) * 4 - 8,
            .add_swap = take(in, 4)};
        dw_atomic_request_put(ulpdu + head, &request);
        bytes = what & 0x20 ? bytes : DW_ATOMIC_REQUEST_BYTES;
    }
    send_fpdu(t, ulpdu, head + bytes);
}

static void send_raw(struct target *t, struct input *in)
{
    size_t bytes = take(in, 1);
    if (bytes > (size_t)(in->end - in->at))
        bytes = (size_t)(in->end - in->at);
    fake_write(t->stream, in->at, bytes);
    in->at += bytes;
}

static void post_recv(struct target *t, uint32_t bytes)
{
    struct ibv_sge sge[2] = {
        {.addr = (uint64_t)(uintptr_t)t->recv + 8, .length = bytes / 2},
        {.addr = (uint64_t)(uintptr_t)t->recv + 8 + bytes / 2, .length = bytes - bytes / 2}};
    struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 2};
    if (t->srq)
        (void)diwarp_post_srq_recv(t->srq, &wr);
    else
        (void)diwarp_rc_post_recv(t->qp, &wr);
}

static void post_send(struct target *t, struct input *in)
{
    uint32_t what = take(in, 1);
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)t->source,
                          .length = take(in, 2) % REGION_BYTES};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .send_flags = what & 0xf0,
                             .opcode = what & 2   ? IBV_WR_ATOMIC_FETCH_AND_ADD
                                       : what & 1 ? IBV_WR_RDMA_READ
                                                  : IBV_WR_SEND};
    if (what & 3) /* its response would be placed there */
        sge = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)t->recv + 8,
                               .length = what & 2 ? sizeof(uint64_t) : 1024};
    (void)diwarp_rc_post_send(t->qp, &wr);
}

static void step(struct target *t, struct input *in)
{
    uint8_t sent[4096];
    uint32_t what = take(in, 1);
    switch (what & 7) {
    case 0:
    case 1:
        send_segment(t, in);
        break;
    case 2:
        send_raw(t, in);
        break;
    case 3:
        post_recv(t, (what >> 3) * 32);
        break;
    case 4:
        post_send(t, in);
        break;
    case 5:
        t->net.now_ns += (uint64_t)take(in, 2) * 1000000;
        break;
    case 6:
        (void)fake_read(t->stream, sent, sizeof sent);
        break;
    default:
        if (what == 0xff)
            diwarp_disconnect(t->qp);
        break;
    }
    run(t);
    struct diwarp_memory memory;
    diwarp_query_memory(t->cq, t->pd, &memory);
    require(memory.receive_bytes < MOST_BYTES && memory.peer_bytes < MOST_BYTES);
}

static void check_canaries(const struct target *t)
{
    for (unsigned i = 0; i < REGION_BYTES; i++)
        require(t->region[i] == CANARY && t->region[2 * REGION_BYTES + i] == CANARY &&
                t->source[i] == CANARY);
    for (unsigned i = 0; i < 8; i++)
        require(t->recv[i] == CANARY && t->recv[sizeof t->recv - 8 + i] == CANARY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct target *t = calloc(1, sizeof *t);
    require(t);
    memset(t->region, CANARY, sizeof t->region);
    memset(t->source, CANARY, sizeof t->source);
    memset(t->recv, CANARY, sizeof t->recv);
    set_up(t, &in);
    while (in.at < in.end && !t->closed)
        step(t, &in);
    for (unsigned i = 0; i < 20; i++)
        run(t);
    check_canaries(t);
    fake_hang_up(t->stream, size & 1);
    for (unsigned i = 0; i < 20; i++)
        run(t);
    diwarp_destroy_rc_qp(t->qp);
    diwarp_destroy_listener(t->listener);
    if (t->srq)
        diwarp_destroy_srq(t->srq);
    diwarp_destroy_cq(t->cq);
    diwarp_dereg_mr(t->writable);
    diwarp_dereg_mr(t->readable);
    diwarp_dealloc_pd(t->pd);
    diwarp_close_device(t->device);
    free(t);
    return 0;
}
