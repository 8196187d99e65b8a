/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs benchmark over diwarp's own API: UD, RD and RC. */
#include "benchmarks/verbs_native.h"
#include "common/include/diwarp_ud.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POLLED 16
#define JOB    0x76656e64u
#define RANGES 4096

static const char *native_lack(const struct verbs_plan *plan, uint32_t bytes)
{
    (void)plan;
    (void)bytes;
    return NULL;
}

/* ---- opening ------------------------------------------------------------------------------- */

struct ibv_recv_wr native_receive(const struct native_end *native, uint64_t slot,
                                  struct ibv_sge *sge)
{
    const uint32_t bytes = native->end.plan->bytes_max;
    const uint64_t slots = VERBS_MEMORY_BYTES / bytes;
    *sge =
        (struct ibv_sge){.addr = (uintptr_t)native->end.to + slot % slots * bytes, .length = bytes};
    return (struct ibv_recv_wr){.wr_id = slot, .sg_list = sge, .num_sge = 1};
}

static void open_datagrams(struct native_end *native)
{
    const struct verbs_plan *plan = native->end.plan;
    struct diwarp_diagnosis why = {""};
    struct diwarp_qp_attr attr;
    diwarp_qp_attr_init(&attr);
    attr.type = plan->service == VERBS_UD ? DIWARP_QPT_UD : DIWARP_QPT_RD;
    attr.cq = native->cq;
    attr.max_recv_wr = 2 * VERBS_RECEIVES; /* of records, too */
    attr.max_msg_bytes = VERBS_BYTES_MAX;
    attr.record_time_ns = VERBS_RECORD_NS;
    attr.read_time_ns = VERBS_RECORD_NS;
    attr.max_reads = VERBS_SENDS;
    const int rc = diwarp_create_qp(native->pd, &attr, &native->qp, &why);
    if (rc)
        verbs_die(why.text[0] ? why.text : "diwarp_create_qp", -rc);
    for (uint64_t slot = 0; slot < VERBS_RECEIVES && plan->service == VERBS_UD; slot++) {
        struct ibv_sge sge;
        const struct ibv_recv_wr wr = native_receive(native, slot, &sge);
        if (diwarp_post_recv(native->qp, &wr))
            verbs_die("diwarp_post_recv", ENOMEM);
    }
}

static struct verbs_end *native_open(const struct verbs_plan *plan)
{
    struct native_end *native = calloc(1, sizeof *native);
    struct diwarp_diagnosis why = {""};
    struct diwarp_device_attr attr;
    diwarp_device_attr_init(&attr);
    attr.name = (struct diwarp_name){.job = JOB, .rank = plan->caller};
    attr.if_include = plan->ip;
    attr.datagram_max_bytes = plan->datagram_max_bytes;
    if (!native)
        verbs_die("no memory", ENOMEM);
    native->end = (struct verbs_end){
        .plan = plan, .from = calloc(1, VERBS_MEMORY_BYTES), .to = calloc(1, VERBS_MEMORY_BYTES)};
    const int rc = diwarp_open_device(&attr, &native->device, &why);
    if (rc)
        verbs_die(why.text[0] ? why.text : "diwarp_open_device", -rc);
    native->pd = diwarp_alloc_pd(native->device);
    native->cq = diwarp_create_cq(native->device, 4 * VERBS_RECEIVES);
    if (native->end.from && native->end.to && native->pd && native->cq)
        native->mr = diwarp_reg_mr(native->pd, native->end.to, VERBS_MEMORY_BYTES,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ);
    if (!native->mr)
        verbs_die("no memory", ENOMEM);
    if (plan->service != VERBS_RC)
        open_datagrams(native);
    else
        native_rc_listen(native);
    return &native->end;
}

struct told {
    uint64_t addr;
    uint32_t stag;
    uint8_t address[DIWARP_ADDRESS_MAX_BYTES];
};
_Static_assert(sizeof(struct told) <= VERBS_ADDRESS_BYTES, "it is told as one");

static void native_address(struct verbs_end *end, uint8_t buf[VERBS_ADDRESS_BYTES])
{
    const struct native_end *native = (struct native_end *)end;
    struct told told = {.addr = (uintptr_t)end->to, .stag = native->mr->stag};
    struct diwarp_address address;
    if (native->qp)
        diwarp_query_address(native->qp, &address);
    else
        diwarp_query_listener(native->listener, &address);
    if (diwarp_address_pack(&address, told.address, sizeof told.address) < 0)
        verbs_die("diwarp_address_pack", 0);
    memcpy(buf, &told, sizeof told);
}

static void native_meet(struct verbs_end *end, const uint8_t buf[VERBS_ADDRESS_BYTES])
{
    struct native_end *native = (struct native_end *)end;
    struct diwarp_address address;
    struct told told;
    memcpy(&told, buf, sizeof told);
    native->remote_addr = told.addr;
    native->remote_stag = told.stag;
    int rc = diwarp_address_unpack(&address, told.address, sizeof told.address);
    if (rc < 0)
        verbs_die("diwarp_address_unpack", -rc);
    if (end->plan->service == VERBS_RC) {
        native_rc_connect(native, &address);
        return;
    }
    rc = diwarp_create_ah(native->qp, &address, &native->ah);
    if (rc)
        verbs_die("diwarp_create_ah", -rc);
}

static void native_close(struct verbs_end *end)
{
    struct native_end *native = (struct native_end *)end;
    if (native->ah)
        diwarp_destroy_ah(native->ah);
    if (native->qp)
        diwarp_destroy_qp(native->qp);
    native_rc_close(native);
    diwarp_dereg_mr(native->mr);
    diwarp_destroy_cq(native->cq);
    diwarp_dealloc_pd(native->pd);
    diwarp_close_device(native->device);
    free(end->from);
    free(end->to);
    free(native);
}

/* ---- messages ------------------------------------------------------------------------------ */

static enum ibv_wr_opcode opcode_of(const struct verbs_plan *plan, uint32_t mark)
{
    static const enum ibv_wr_opcode opcodes[] = {[VERBS_SEND] = IBV_WR_SEND,
                                                 [VERBS_WRITE] = IBV_WR_RDMA_WRITE,
                                                 [VERBS_READ] = IBV_WR_RDMA_READ};
    return mark ? IBV_WR_SEND_WITH_IMM : opcodes[plan->verb];
}

static int native_post(struct verbs_end *end, uint32_t bytes, size_t at, uint32_t mark)
{
    struct native_end *native = (struct native_end *)end;
    const struct verbs_plan *plan = end->plan;
    const bool copied = !mark && plan->verb != VERBS_READ && bytes <= VERBS_INLINE_BYTES;
    struct ibv_sge sge = {.addr = (uintptr_t)end->from + at, .length = mark ? 1 : bytes};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = opcode_of(plan, mark),
               .imm_data = mark,
               .send_flags = (mark ? 0u : IBV_SEND_SIGNALED) | (copied ? IBV_SEND_INLINE : 0u)},
        .ah = native->ah,
    };
    if (!mark && plan->verb != VERBS_SEND) {
        wr.wr.wr.rdma.remote_addr = native->remote_addr + at;
        wr.wr.wr.rdma.rkey = native->remote_stag;
    }
    const int rc =
        native->qp ? diwarp_post_send(native->qp, &wr) : diwarp_rc_post_send(native->rc_qp, &wr.wr);
    if (rc < 0 && rc != -EAGAIN && rc != -ENOMEM)
        end->failed = strerror(-rc);
    return rc < 0 ? -EAGAIN : 0;
}

/* A record that was handed over, full or partial. */
static void take_record(struct verbs_counts *counts, struct diwarp_record *record)
{
    static struct diwarp_range ranges[RANGES];
    struct diwarp_record_info info;
    diwarp_query_record(record, &info);
    const unsigned all = diwarp_record_ranges(record, ranges, RANGES);
    const unsigned n = all < RANGES ? all : RANGES;
    uint64_t valid = 0;
    for (unsigned i = 0; i < n; i++)
        valid += ranges[i].end - ranges[i].start;
    counts->valid_bytes += valid;
    counts->last_bytes += n && ranges[n - 1].end == info.length ? valid : 0;
    *(info.full ? &counts->received : &counts->partial) += 1;
    diwarp_release_record(record);
}

static void take_receive(struct native_end *native, const struct diwarp_wc *wc)
{
    struct verbs_counts *counts = &native->end.counts;
    struct ibv_sge sge;
    const struct ibv_recv_wr wr = native_receive(native, wc->wc.wr_id, &sge);
    if (wc->wc.wc_flags & IBV_WC_WITH_IMM) {
        counts->mark = wc->wc.imm_data > counts->mark ? wc->wc.imm_data : counts->mark;
    } else {
        counts->received++;
        counts->valid_bytes += wc->wc.byte_len;
        counts->last_bytes += wc->wc.byte_len;
    }
    const int rc = native->end.plan->service == VERBS_UD   ? diwarp_post_recv(native->qp, &wr)
                   : native->end.plan->service == VERBS_RC ? diwarp_rc_post_recv(native->rc_qp, &wr)
                                                           : 0;
    if (rc)
        native->end.failed = "a receive could not be posted again";
}

static void take(struct native_end *native, const struct diwarp_wc *wc)
{
    struct verbs_end *end = &native->end;
    if (wc->wc.status == IBV_WC_RESP_TIMEOUT_ERR && end->plan->service == VERBS_UD) {
        end->counts.partial++;
        end->counts.valid_bytes += wc->wc.byte_len;
        return;
    }
    if (wc->wc.status != IBV_WC_SUCCESS) {
        end->failed = ibv_wc_status_str(wc->wc.status);
        return;
    }
    switch ((int)wc->wc.opcode) {
    case IBV_WC_RECV:
        take_receive(native, wc);
        break;
    case DIWARP_WC_RECORD:
        take_record(&end->counts, wc->record);
        break;
    case DIWARP_WC_CONNECT_REQUEST:
        native->request = wc->request;
        break;
    case DIWARP_WC_CONNECTED:
        native->connected = true;
        break;
    case DIWARP_WC_DISCONNECTED:
        end->failed = "disconnected";
        break;
    case DIWARP_WC_PEER_SILENT:
        end->failed = "the peer is silent";
        break;
    case DIWARP_WC_RELEASE: /* of a Read's source */
        break;
    default:
        end->counts.sent++;
    }
}

bool native_poll(struct verbs_end *end)
{
    struct native_end *native = (struct native_end *)end;
    struct diwarp_wc wc[POLLED];
    const int n = diwarp_poll_cq(native->cq, POLLED, wc);
    for (int i = 0; i < n; i++)
        take(native, &wc[i]);
    if (n < 0)
        end->failed = "a completion is lost";
    return n > 0;
}

int main(int argc, char **argv)
{
    static const struct verbs_ops ops = {
        .api = "native",
        .lack = native_lack,
        .open = native_open,
        .address = native_address,
        .meet = native_meet,
        .post = native_post,
        .poll = native_poll,
        .close = native_close,
    };
    return verbs_run(argc, argv, &ops);
}
