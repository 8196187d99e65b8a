/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a queue pair costs: makes many of UD, or of RC, each connected with another of this process,
 * and prints what the process and the kernel hold for them, before and after. For diwarp-verbs run.
 */
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "benchmarks/memory_sample.h"
#include "benchmarks/options.h"

#define MAX_QPS   8000
#define QKEY      0x11111111
#define MSG_BYTES 64
#define WAIT_NS   60000000000LL /* for all connections */
#define PORT      1
#define SEND_WRS  16
#define RECV_WRS  16

struct bench {
    enum ibv_qp_type type;
    int count;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    union ibv_gid gid;
    struct ibv_qp *qps[MAX_QPS];
    char data[2 * MSG_BYTES];
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void open_device(struct bench *b)
{
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count), *device = NULL;
    for (int i = 0; i < count; i++)
        if (!strcmp(ibv_get_device_name(devices[i]), "diwarp0"))
            device = devices[i];
    b->context = device ? ibv_open_device(device) : NULL;
    if (!b->context)
        die("no device diwarp0: use diwarp-verbs run");
    ibv_free_device_list(devices);
    b->pd = ibv_alloc_pd(b->context);
    b->cq = ibv_create_cq(b->context, 4096, NULL, NULL, 0);
    b->mr = b->pd ? ibv_reg_mr(b->pd, b->data, sizeof b->data, IBV_ACCESS_LOCAL_WRITE) : NULL;
    if (!b->cq || !b->mr || ibv_query_gid(b->context, PORT, 0, &b->gid))
        die("cannot use the device");
}

static struct ibv_qp *create(struct bench *b)
{
    struct ibv_qp_init_attr init = {.send_cq = b->cq,
                                    .recv_cq = b->cq,
                                    .qp_type = b->type,
                                    .cap = {.max_send_wr = SEND_WRS,
                                            .max_recv_wr = RECV_WRS,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY};
    struct ibv_qp *qp = ibv_create_qp(b->pd, &init);
    const int last = b->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last))
        die("ibv_create_qp");
    return qp;
}

static void connect_to(struct bench *b, struct ibv_qp *qp, const struct ibv_qp *other)
{
    const bool ud = b->type == IBV_QPT_UD;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = other->qp_num,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 12,
                               .ah_attr = {.is_global = 1, .port_num = PORT, .grh.dgid = b->gid}};
    int mask = ud ? IBV_QP_STATE
                  : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (ibv_modify_qp(qp, &attr, mask))
        die("RTR");
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (!ud)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    if (ibv_modify_qp(qp, &attr, mask))
        die("RTS");
}

/* Waits for the completions of a send and its receive. */
static void wait_for_both(struct bench *b)
{
    struct timespec begin, now;
    struct ibv_wc wc;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int got = 0; got < 2;) {
        const int n = ibv_poll_cq(b->cq, 1, &wc);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (n < 0 || (n && wc.status) || (now.tv_sec - begin.tv_sec) * 1000000000LL > WAIT_NS) {
            fprintf(stderr, "no message: %s\n", n > 0 ? ibv_wc_status_str(wc.status) : "time-out");
            exit(1);
        }
        got += n;
    }
}

/* A message, so that each has what it needs to work. */
static void talk(struct bench *b, struct ibv_qp *from, struct ibv_qp *to, struct ibv_ah *ah)
{
    struct ibv_sge out = {(uintptr_t)b->data, MSG_BYTES / 4, b->mr->lkey};
    struct ibv_sge in = {(uintptr_t)b->data + MSG_BYTES, MSG_BYTES, b->mr->lkey};
    struct ibv_recv_wr recv = {.sg_list = &in, .num_sge = 1}, *bad_recv;
    struct ibv_send_wr send = {.sg_list = &out,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    if (ah) {
        send.wr.ud.ah = ah;
        send.wr.ud.remote_qpn = to->qp_num;
        send.wr.ud.remote_qkey = QKEY;
    }
    if (ibv_post_recv(to, &recv, &bad_recv) || ibv_post_send(from, &send, &bad_send))
        die("post");
    wait_for_both(b);
}

static void make_all(struct bench *b)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = PORT, .grh.dgid = b->gid};
    struct ibv_ah *ah = b->type == IBV_QPT_UD ? ibv_create_ah(b->pd, &attr) : NULL;
    if (!ah && b->type == IBV_QPT_UD)
        die("ibv_create_ah");
    for (int i = 0; i < b->count; i += 2) {
        struct ibv_qp **pair = b->qps + i;
        pair[0] = create(b);
        pair[1] = create(b);
        connect_to(b, pair[0], pair[1]);
        connect_to(b, pair[1], pair[0]);
        talk(b, pair[0], pair[1], ah);
        talk(b, pair[1], pair[0], ah);
    }
    if (ah)
        ibv_destroy_ah(ah);
}

static uint64_t of_kernel(const struct memory_sample *sample)
{
    return sample->socket_slab_bytes + sample->socket_queue_bytes;
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct memory_sample before, after;
    if (argc != 3 || (strcmp(argv[1], "ud") != 0 && strcmp(argv[1], "rc") != 0) ||
        !options_number(argv[2], 2, MAX_QPS, &b.count) || b.count % 2) {
        fprintf(stderr, "usage: verbs_memory ud|rc QPS, an even number up to %d\n", MAX_QPS);
        return 2;
    }
    b.type = strcmp(argv[1], "ud") == 0 ? IBV_QPT_UD : IBV_QPT_RC;
    open_device(&b);
    memory_sample_take(&before);
    make_all(&b);
    memory_sample_take(&after);
    const uint64_t user = after.private_bytes - before.private_bytes;
    const uint64_t kernel = of_kernel(&after) - of_kernel(&before);
    printf("memory qps=%d kind=%s user_bytes_per_qp=%" PRIu64 " kernel_bytes_per_qp=%" PRIu64
           " sockets=%" PRIu64 "\n",
           b.count, argv[1], user / (uint64_t)b.count, kernel / (uint64_t)b.count,
           after.tcp_sockets + after.udp_sockets - before.tcp_sockets - before.udp_sockets);
    return 0;
}
