/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs benchmark over libibverbs: to be run with `diwarp-verbs run`, where diwarp_verbs.h's
 * names are looked up: for RD, and for RDMA over UD. It takes the first
 * device that is diwarp's, or the one that DIWARP_BENCH_DEVICE names. */
#include "benchmarks/verbs_end.h"
#include "verbs_diwarp/diwarp_verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#define POLLED    16
#define GRH_BYTES 40u
#define QKEY      0x11111111u
#define READS     16
/* Of verbs, not of diwarp: a message over UD is one packet of the largest MTU they know. */
#define UD_BYTES_MAX 4096u
#define RANGES       4096
#define FOUND(name)  __typeof__(diwarp_verbs_##name) *name = find("diwarp_verbs_" #name)

struct of_end {
    struct verbs_end end;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *from_mr, *to_mr, *receive_mr;
    struct ibv_ah *ah;
    uint8_t *receives; /* GRH and message of UD; else end.to */
    uint32_t receive_bytes;
    uint64_t remote_addr;
    uint32_t remote_key, remote_qpn;
    unsigned inline_bytes;
};

static const char *of_lack(const struct verbs_plan *plan, uint32_t bytes)
{
    if (plan->verb != VERBS_SEND)
        return NULL;
    if (plan->service == VERBS_UD && bytes > UD_BYTES_MAX)
        return "a Send over UD is one packet of 4096 B at most in verbs";
    if (plan->service == VERBS_RD && bytes > DIWARP_VERBS_RD_SEND_BYTES)
        return "a Send over RD is 64 KiB at most in the front";
    return NULL;
}

static void *find(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    if (!function)
        verbs_die(name, ENOSYS);
    return function;
}

/* ---- opening ------------------------------------------------------------------------------- */

static struct ibv_context *open_device(void)
{
    const char *asked = getenv("DIWARP_BENCH_DEVICE"), *name = asked ? asked : "diwarp0";
    struct ibv_context *context = NULL;
    struct ibv_device **list = ibv_get_device_list(NULL);
    for (int i = 0; list && list[i] && !context; i++)
        if (!strcmp(ibv_get_device_name(list[i]), name))
            context = ibv_open_device(list[i]);
    if (list)
        ibv_free_device_list(list);
    if (!context)
        verbs_die("no such device; is this run with diwarp-verbs?", ENODEV);
    return context;
}

static void post_receive(struct of_end *of, uint64_t slot)
{
    const uint64_t slots = VERBS_MEMORY_BYTES / of->receive_bytes;
    struct ibv_sge sge = {.addr = (uintptr_t)of->receives + slot % slots * of->receive_bytes,
                          .length = of->receive_bytes,
                          .lkey = of->receive_mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
    if (ibv_post_recv(of->qp, &wr, &bad))
        of->end.failed = "a receive could not be posted";
}

static void create_qp(struct of_end *of)
{
    const enum verbs_service service = of->end.plan->service;
    struct ibv_qp_init_attr_ex attr = {.send_cq = of->cq,
                                       .recv_cq = of->cq,
                                       .cap = {.max_send_wr = VERBS_SENDS,
                                               .max_recv_wr = VERBS_RECEIVES,
                                               .max_send_sge = 1,
                                               .max_recv_sge = 1,
                                               .max_inline_data = VERBS_INLINE_BYTES},
                                       .qp_type = service == VERBS_UD ? IBV_QPT_UD : IBV_QPT_RC,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD,
                                       .pd = of->pd};
    if (service != VERBS_RC) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                              IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
    }
    if (service == VERBS_RD) {
        FOUND(create_rd_qp);
        of->qp = create_rd_qp(of->context, &attr);
    } else {
        of->qp = ibv_create_qp_ex(of->context, &attr);
    }
    if (!of->qp)
        verbs_die("ibv_create_qp_ex", errno);
    if (service == VERBS_UD && of->end.plan->verb == VERBS_READ) {
        FOUND(set_read_time);
        if (set_read_time(of->qp, VERBS_RECORD_NS))
            verbs_die("diwarp_verbs_set_read_time", EINVAL);
    }
    of->inline_bytes = attr.cap.max_inline_data < VERBS_INLINE_BYTES ? attr.cap.max_inline_data
                                                                     : VERBS_INLINE_BYTES;
}

static void modify(struct of_end *of, struct ibv_qp_attr attr, enum ibv_qp_state state, int mask)
{
    attr.qp_state = state;
    const int rc = ibv_modify_qp(of->qp, &attr, IBV_QP_STATE | mask);
    if (rc)
        verbs_die("ibv_modify_qp", rc);
}

/* Of a receive: with room for a GRH, where there is one. */
static uint32_t room_of(const struct verbs_plan *plan)
{
    if (plan->service == VERBS_RC)
        return plan->bytes_max;
    if (plan->service == VERBS_UD)
        return GRH_BYTES + UD_BYTES_MAX;
    return GRH_BYTES + (plan->bytes_max < DIWARP_VERBS_RD_SEND_BYTES ? plan->bytes_max
                                                                     : DIWARP_VERBS_RD_SEND_BYTES);
}

static struct verbs_end *of_open(const struct verbs_plan *plan)
{
    const bool ud = plan->service != VERBS_RC; /* RD's states are as UD's */
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    struct of_end *of = calloc(1, sizeof *of);
    if (!of)
        verbs_die("no memory", ENOMEM);
    of->end = (struct verbs_end){
        .plan = plan, .from = calloc(1, VERBS_MEMORY_BYTES), .to = calloc(1, VERBS_MEMORY_BYTES)};
    of->receives = ud ? calloc(1, VERBS_MEMORY_BYTES) : of->end.to;
    if (!of->end.from || !of->end.to || !of->receives)
        verbs_die("no memory", ENOMEM);
    of->receive_bytes = room_of(plan);
    of->context = open_device();
    of->pd = ibv_alloc_pd(of->context);
    of->cq = ibv_create_cq(of->context, 2 * (VERBS_RECEIVES + VERBS_SENDS), NULL, NULL, 0);
    if (!of->pd || !of->cq)
        verbs_die("ibv_create_cq", errno);
    of->from_mr = ibv_reg_mr(of->pd, of->end.from, VERBS_MEMORY_BYTES, access);
    of->to_mr = ibv_reg_mr(of->pd, of->end.to, VERBS_MEMORY_BYTES, access);
    of->receive_mr = ibv_reg_mr(of->pd, of->receives, VERBS_MEMORY_BYTES, access);
    if (!of->from_mr || !of->to_mr || !of->receive_mr)
        verbs_die("ibv_reg_mr", errno);
    create_qp(of);
    modify(
        of, (struct ibv_qp_attr){.port_num = 1, .qkey = QKEY, .qp_access_flags = (unsigned)access},
        IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    for (uint64_t slot = 0; slot < VERBS_RECEIVES; slot++)
        post_receive(of, slot);
    return &of->end;
}

struct told {
    union ibv_gid gid;
    uint64_t addr;
    uint32_t key, qpn;
};
_Static_assert(sizeof(struct told) <= VERBS_ADDRESS_BYTES, "it is told as one");

static void of_address(struct verbs_end *end, uint8_t buf[VERBS_ADDRESS_BYTES])
{
    struct of_end *of = (struct of_end *)end;
    struct told told = {.addr = (uintptr_t)end->to, .key = of->to_mr->rkey, .qpn = of->qp->qp_num};
    if (ibv_query_gid(of->context, 1, 0, &told.gid))
        verbs_die("ibv_query_gid", errno);
    memcpy(buf, &told, sizeof told);
}

static void of_meet(struct verbs_end *end, const uint8_t buf[VERBS_ADDRESS_BYTES])
{
    struct of_end *of = (struct of_end *)end;
    struct told told;
    memcpy(&told, buf, sizeof told);
    of->remote_addr = told.addr;
    of->remote_key = told.key;
    of->remote_qpn = told.qpn;
    struct ibv_ah_attr ah = {
        .port_num = 1, .is_global = 1, .grh = {.dgid = told.gid, .hop_limit = 1}};
    if (end->plan->service != VERBS_RC) {
        modify(of, (struct ibv_qp_attr){0}, IBV_QPS_RTR, 0);
        modify(of, (struct ibv_qp_attr){0}, IBV_QPS_RTS, IBV_QP_SQ_PSN);
        of->ah = ibv_create_ah(of->pd, &ah);
        if (!of->ah)
            verbs_die("ibv_create_ah", errno);
        return;
    }
    modify(of,
           (struct ibv_qp_attr){.path_mtu = IBV_MTU_4096,
                                .dest_qp_num = told.qpn,
                                .ah_attr = ah,
                                .max_dest_rd_atomic = READS,
                                .min_rnr_timer = 12},
           IBV_QPS_RTR,
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    modify(
        of,
        (struct ibv_qp_attr){.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = READS},
        IBV_QPS_RTS,
        IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
            IBV_QP_MAX_QP_RD_ATOMIC);
}

static void of_close(struct verbs_end *end)
{
    struct of_end *of = (struct of_end *)end;
    int rc = ibv_destroy_qp(of->qp);
    if (of->ah)
        rc = rc ? rc : ibv_destroy_ah(of->ah);
    rc = rc ? rc : ibv_dereg_mr(of->from_mr);
    rc = rc ? rc : ibv_dereg_mr(of->to_mr);
    rc = rc ? rc : ibv_dereg_mr(of->receive_mr);
    rc = rc ? rc : ibv_destroy_cq(of->cq);
    rc = rc ? rc : ibv_dealloc_pd(of->pd);
    rc = rc ? rc : ibv_close_device(of->context);
    if (rc)
        verbs_die("an object could not be destroyed", rc);
    if (of->receives != end->to)
        free(of->receives);
    free(end->from);
    free(end->to);
    free(of);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* RDMA over datagrams. */
static int post_rdma(struct of_end *of, uint32_t bytes, size_t at, bool copied)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(of->qp);
    uint8_t *from = of->end.from + at;
    ibv_wr_start(ex);
    ex->wr_id = 0;
    ex->wr_flags = IBV_SEND_SIGNALED;
    if (of->end.plan->verb == VERBS_WRITE)
        ibv_wr_rdma_write(ex, of->remote_key, of->remote_addr + at);
    else
        ibv_wr_rdma_read(ex, of->remote_key, of->remote_addr + at);
    ibv_wr_set_ud_addr(ex, of->ah, of->remote_qpn, QKEY);
    if (copied)
        ibv_wr_set_inline_data(ex, from, bytes);
    else
        ibv_wr_set_sge(ex, of->from_mr->lkey, (uintptr_t)from, bytes);
    return ibv_wr_complete(ex);
}

static int of_post(struct verbs_end *end, uint32_t bytes, size_t at, uint32_t mark)
{
    static const enum ibv_wr_opcode opcodes[] = {[VERBS_SEND] = IBV_WR_SEND,
                                                 [VERBS_WRITE] = IBV_WR_RDMA_WRITE,
                                                 [VERBS_READ] = IBV_WR_RDMA_READ};
    struct of_end *of = (struct of_end *)end;
    const struct verbs_plan *plan = end->plan;
    const bool copied = !mark && plan->verb != VERBS_READ && bytes <= of->inline_bytes;
    struct ibv_sge sge = {
        .addr = (uintptr_t)end->from + at, .length = mark ? 1 : bytes, .lkey = of->from_mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = mark ? IBV_WR_SEND_WITH_IMM : opcodes[plan->verb],
                             .imm_data = mark,
                             .send_flags =
                                 (mark ? 0u : IBV_SEND_SIGNALED) | (copied ? IBV_SEND_INLINE : 0u)};
    struct ibv_send_wr *bad;
    if (plan->service != VERBS_RC) {
        wr.wr.ud.ah = of->ah;
        wr.wr.ud.remote_qpn = of->remote_qpn;
        wr.wr.ud.remote_qkey = QKEY;
    } else if (!mark && plan->verb != VERBS_SEND) {
        wr.wr.rdma.remote_addr = of->remote_addr + at;
        wr.wr.rdma.rkey = of->remote_key;
    }
    const bool rdma = !mark && plan->service != VERBS_RC && plan->verb != VERBS_SEND;
    const int rc = rdma ? post_rdma(of, bytes, at, copied) : ibv_post_send(of->qp, &wr, &bad);
    if (rc && rc != EAGAIN && rc != ENOMEM)
        end->failed = strerror(rc);
    return rc ? -EAGAIN : 0;
}

static void take_record(struct of_end *of, uint64_t handle)
{
    static struct diwarp_verbs_range ranges[RANGES];
    FOUND(query_record);
    FOUND(record_ranges);
    FOUND(release_record);
    struct verbs_counts *counts = &of->end.counts;
    struct diwarp_verbs_record record;
    unsigned n;
    if (query_record(of->qp, handle, &record) ||
        record_ranges(of->qp, handle, ranges, RANGES, &n) || release_record(of->qp, handle)) {
        of->end.failed = "a record is not there";
        return;
    }
    n = n < RANGES ? n : RANGES;
    counts->valid_bytes += record.valid_bytes;
    counts->last_bytes += n && ranges[n - 1].end == record.length ? record.valid_bytes : 0;
    *(record.valid_bytes == record.length ? &counts->received : &counts->partial) += 1;
}

static void take(struct of_end *of, const struct ibv_wc *wc)
{
    struct verbs_counts *counts = &of->end.counts;
    if (wc->status == IBV_WC_RESP_TIMEOUT_ERR && of->end.plan->service == VERBS_UD) {
        counts->partial++;
        counts->valid_bytes += wc->byte_len;
        return;
    }
    if (wc->status != IBV_WC_SUCCESS) {
        of->end.failed = ibv_wc_status_str(wc->status);
        return;
    }
    if (wc->opcode == DIWARP_VERBS_WC_RECORD) {
        take_record(of, wc->wr_id);
        return;
    }
    if (wc->opcode != IBV_WC_RECV) {
        counts->sent++;
        return;
    }
    if (wc->wc_flags & IBV_WC_WITH_IMM) {
        counts->mark = wc->imm_data > counts->mark ? wc->imm_data : counts->mark;
    } else {
        const uint32_t bytes = wc->byte_len - (of->ah ? GRH_BYTES : 0);
        counts->received++;
        counts->valid_bytes += bytes;
        counts->last_bytes += bytes;
    }
    post_receive(of, wc->wr_id);
}

static bool of_poll(struct verbs_end *end)
{
    struct of_end *of = (struct of_end *)end;
    struct ibv_wc wc[POLLED];
    const int n = ibv_poll_cq(of->cq, POLLED, wc);
    for (int i = 0; i < n; i++)
        take(of, &wc[i]);
    if (n < 0)
        end->failed = "ibv_poll_cq";
    return n > 0;
}

int main(int argc, char **argv)
{
    static const struct verbs_ops ops = {
        .api = "of",
        .lack = of_lack,
        .open = of_open,
        .address = of_address,
        .meet = of_meet,
        .post = of_post,
        .poll = of_poll,
        .close = of_close,
    };
    return verbs_run(argc, argv, &ops);
}
