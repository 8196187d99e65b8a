/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes that use what diwarp_verbs.h has, on a network that may lose: run by
 * test/verbs/run, with the front before it. The client writes and reads the server's memory. rd:
 * nothing may be missing, and each Send comes once. ud: what is told to have come is right, and
 * what is not is as it was; ends with the shares that came. usage: extension_traffic rd|ud
 * [SERVER'S ADDRESS]
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "verbs_diwarp/diwarp_verbs.h"

#define PORT      18515
#define ROUNDS    100u
#define BYTES     50000u
#define SENDS     8u
#define ROOM      16u
#define QKEY      0x2222u
#define PATIENCE  30.0 /* s, for one completion */
#define SEND_ROOM 128u
#define RECORD_NS 50000000u

/* What the two tell each other. */
struct hello {
    union ibv_gid gid;
    uint32_t qpn, rkey;
    uint64_t addr;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq, *recv_cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr, *recv_mr;
static struct ibv_ah *ah;
static struct hello theirs;
static uint8_t memory[BYTES], recvs[ROOM][SEND_ROOM];
static bool rd;

static void must(bool failed, const char *what)
{
    if (!failed)
        return;
    fprintf(stderr, "extension_traffic: %s failed\n", what);
    exit(1);
}

static void *found(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    must(!function, name);
    return function;
}

#define CALL(name) ((__typeof__(diwarp_verbs_##name) *)found("diwarp_verbs_" #name))

static int meet(const char *server)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    const int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    must(fd < 0, "socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (server) {
        must(inet_pton(AF_INET, server, &at.sin_addr) != 1, "address");
        must(connect(fd, (struct sockaddr *)&at, sizeof at), "connect");
        return fd;
    }
    must(bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 1), "listen");
    const int accepted = accept(fd, NULL, NULL);
    must(accepted < 0, "accept");
    close(fd);
    return accepted;
}

static void change_state(enum ibv_qp_state state, int mask)
{
    struct ibv_qp_attr attr = {.qp_state = state, .qkey = QKEY, .port_num = 1};
    must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask), "ibv_modify_qp");
}

static void open_all(void)
{
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; i < count && !context; i++)
        if (!strcmp(ibv_get_device_name(list[i]), "diwarp0"))
            context = ibv_open_device(list[i]);
    must(!context, "ibv_open_device");
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 256, NULL, NULL, 0);
    recv_cq = ibv_create_cq(context, 256, NULL, NULL, 0);
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = cq,
        .recv_cq = recv_cq,
        .cap = {.max_send_wr = ROOM, .max_recv_wr = ROOM, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags =
            IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ};
    qp = rd ? CALL(create_rd_qp)(context, &attr) : ibv_create_qp_ex(context, &attr);
    mr = ibv_reg_mr(pd, memory, sizeof memory,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    recv_mr = ibv_reg_mr(pd, recvs, sizeof recvs, IBV_ACCESS_LOCAL_WRITE);
    must(!pd || !cq || !recv_cq || !qp || !mr || !recv_mr, "creation");
    change_state(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    change_state(IBV_QPS_RTR, 0);
    change_state(IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

static void introduce(int fd)
{
    struct hello ours = {.qpn = qp->qp_num, .rkey = mr->rkey, .addr = (uintptr_t)memory};
    struct ibv_ah_attr to = {.port_num = 1, .is_global = 1};
    must(ibv_query_gid(context, 1, 0, &ours.gid), "ibv_query_gid");
    must(write(fd, &ours, sizeof ours) != sizeof ours, "write");
    must(recv(fd, &theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs, "recv");
    to.grh.dgid = theirs.gid;
    must(!(ah = ibv_create_ah(pd, &to)), "ibv_create_ah");
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool comes(struct ibv_cq *of, struct ibv_wc *wc, double patience_s)
{
    const double until_s = now_s() + patience_s;
    int n;
    while (!(n = ibv_poll_cq(of, 1, wc)) && now_s() < until_s)
        ;
    must(n < 0, "ibv_poll_cq");
    return n;
}

static struct ibv_wc take(struct ibv_cq *of)
{
    struct ibv_wc wc;
    must(!comes(of, &wc, PATIENCE), "waiting for a completion");
    return wc;
}

static void post(enum ibv_wr_opcode opcode, uint32_t id, uint32_t bytes)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(ex);
    ex->wr_id = id;
    ex->wr_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_RDMA_WRITE)
        ibv_wr_rdma_write(ex, theirs.rkey, theirs.addr);
    else if (opcode == IBV_WR_RDMA_READ)
        ibv_wr_rdma_read(ex, theirs.rkey, theirs.addr);
    else
        ibv_wr_send_imm(ex, htonl(id));
    ibv_wr_set_ud_addr(ex, ah, theirs.qpn, QKEY);
    ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, bytes);
    must(ibv_wr_complete(ex), "ibv_wr_complete");
}

static void receive(uint32_t place)
{
    struct ibv_sge sge = {(uintptr_t)recvs[place], SEND_ROOM, recv_mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = place, .sg_list = &sge, .num_sge = 1}, *bad;
    must(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static bool are(const uint8_t *bytes, uint64_t count, uint8_t value)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* One byte tells that a turn has ended; who waits for it serves the other. */
static void turn(int fd, bool mine)
{
    const double until_s = now_s() + PATIENCE;
    char byte = 0;
    ssize_t n = mine ? write(fd, &byte, 1) : -1;
    while (!mine && (n = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0 && now_s() < until_s)
        must(ibv_poll_cq(cq, 0, NULL), "ibv_poll_cq");
    must(n != 1, "turn");
}

/* ---- RD ---- */

static void rd_client(int fd)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memset(memory, (int)(round & 0x7f) + 1, BYTES);
        post(IBV_WR_RDMA_WRITE, 0, BYTES);
        for (uint32_t i = 0; i < SENDS; i++)
            post(IBV_WR_SEND_WITH_IMM, round * SENDS + i, 64);
        for (uint32_t i = 0; i <= SENDS; i++)
            must(take(cq).status, "a write or Send");
        memset(memory, 0, BYTES);
        post(IBV_WR_RDMA_READ, 0, BYTES);
        must(take(cq).status, "a read");
        must(!are(memory, BYTES, (uint8_t)((round & 0x7f) + 1)), "what was written and read");
    }
    turn(fd, true);
}

/* Receives are posted late: senders wait. */
static void rd_server(int fd)
{
    static unsigned times[ROUNDS * SENDS];
    for (uint32_t i = 0; i < ROUNDS * SENDS; i++) {
        receive(i % ROOM);
        const struct ibv_wc wc = take(recv_cq);
        must(wc.status || wc.byte_len != 40 + 64, "a receive");
        must(times[ntohl(wc.imm_data)]++, "exactly once");
    }
    turn(fd, false);
}

/* ---- UD ---- */

/* Of ranges, that all in them is `value`, and else FILL; returns what is in them. */
static uint64_t check_ranges(const struct diwarp_verbs_range *ranges, unsigned count, uint8_t value,
                             uint8_t other)
{
    uint64_t at = 0, valid = 0;
    for (unsigned i = 0; i < count; i++) {
        must(!are(memory + at, ranges[i].start - at, other), "what has not come");
        must(!are(memory + ranges[i].start, ranges[i].end - ranges[i].start, value),
             "what has come");
        valid += ranges[i].end - ranges[i].start;
        at = ranges[i].end;
    }
    must(!are(memory + at, BYTES - at, other), "what has not come");
    return valid;
}

static void ud_client(int fd)
{
    static struct diwarp_verbs_range ranges[4096];
    uint64_t valid = 0, whole = 0;
    must(CALL(set_read_time)(qp, 100000000), "set_read_time");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memset(memory, 1, BYTES);
        turn(fd, false); /* all of the server's is 4 */
        post(IBV_WR_RDMA_WRITE, round, BYTES);
        must(take(cq).status, "a Write-Record");
        turn(fd, true);
        turn(fd, false); /* it has looked, and all of it is 2 now */
        memset(memory, 3, BYTES);
        post(IBV_WR_RDMA_READ, round, BYTES);
        const struct ibv_wc wc = take(cq);
        unsigned count = 1;
        ranges[0] = (struct diwarp_verbs_range){0, BYTES};
        must(wc.status && wc.status != IBV_WC_RESP_TIMEOUT_ERR, "a read");
        if (wc.status)
            must(CALL(read_ranges)(qp, round, ranges, 4096, &count), "read_ranges");
        must(check_ranges(ranges, count, 2, 3) != wc.byte_len, "the length of what has come");
        valid += wc.byte_len;
        whole += !wc.status;
        turn(fd, true);
    }
    printf("reads: %.1f %% of the bytes, %llu of %u whole\n",
           100.0 * (double)valid / ROUNDS / BYTES, (unsigned long long)whole, ROUNDS);
}

static void check_record(const struct ibv_wc *wc)
{
    static struct diwarp_verbs_range ranges[4096];
    struct diwarp_verbs_record record;
    unsigned count;
    must(wc->status || wc->opcode != DIWARP_VERBS_WC_RECORD, "a record");
    must(CALL(query_record)(qp, wc->wr_id, &record), "query_record");
    must(CALL(record_ranges)(qp, wc->wr_id, ranges, 4096, &count), "record_ranges");
    must(record.length != BYTES || record.valid_bytes != wc->byte_len ||
             check_ranges(ranges, count, 1, 4) != wc->byte_len,
         "the length of what has come");
    must(CALL(release_record)(qp, wc->wr_id), "release_record");
}

/* The client writes: what it finds is 4. */
static void turn_of_record(int fd)
{
    memset(memory, 4, BYTES);
    turn(fd, true);
    turn(fd, false);
}

static void ud_server(int fd)
{
    uint64_t valid = 0, whole = 0;
    must(CALL(set_record_time)(qp, RECORD_NS), "set_record_time");
    receive(0); /* which no record takes */
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct ibv_wc wc;
        turn_of_record(fd);
        if (comes(recv_cq, &wc, 10 * RECORD_NS / 1e9)) {
            check_record(&wc);
            valid += wc.byte_len;
            whole += wc.byte_len == BYTES;
        } else { /* all of its segments are lost */
            must(!are(memory, BYTES, 4), "what has not come");
        }
        memset(memory, 2, BYTES);
        turn(fd, true);
        turn(fd, false);
    }
    printf("records: %.1f %% of the bytes, %llu of %u whole\n",
           100.0 * (double)valid / ROUNDS / BYTES, (unsigned long long)whole, ROUNDS);
}

int main(int argc, char **argv)
{
    must(argc < 2, "usage: extension_traffic rd|ud [ADDRESS]:");
    const bool client = argc > 2;
    rd = !strcmp(argv[1], "rd");
    open_all();
    const int fd = meet(client ? argv[2] : NULL);
    introduce(fd);
    (rd ? client ? rd_client : rd_server : client ? ud_client : ud_server)(fd);
    must(ibv_destroy_qp(qp) || ibv_destroy_ah(ah) || ibv_dereg_mr(mr) || ibv_dereg_mr(recv_mr) ||
             ibv_destroy_cq(cq) || ibv_destroy_cq(recv_cq) || ibv_dealloc_pd(pd) ||
             ibv_close_device(context),
         "the end");
    return 0;
}
