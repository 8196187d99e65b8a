/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a group between hosts (test/net/groups): sends Sends and Write-Records to it, or is a
 * member, checks what comes, and says how much that was.
 *
 *   group_end send|member ADDRESS COUNT INTERFACE
 *
 * Each message is a piece of one pattern, so that who gets it knows what it must be.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/include/diwarp_ud.h"
#include "common/include/diwarp_group.h"

#define QKEY         0x77
#define STAG         0x5ca1e
#define SEND_BYTES   4000u
#define RECORD_BYTES 50000u
#define STEP_BYTES   997u /* from one message's piece to the next one's */
#define COUNT_MAX    1000u
#define RECVS        64u
#define ENDS         50u /* of which one comes, whatever is lost */
#define PACE_NS      1000000
#define SECONDS      60

static uint8_t pattern[RECORD_BYTES + COUNT_MAX * STEP_BYTES];
static uint8_t window[sizeof pattern];
static uint8_t received[RECVS][SEND_BYTES];

struct end {
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp;
    struct diwarp_group group;
    unsigned count;
};

static void must(int wrong, const char *what)
{
    if (!wrong)
        return;
    fprintf(stderr, "group_end: %s: %d\n", what, wrong);
    exit(1);
}

static void open_end(struct end *end)
{
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;
    struct diwarp_diagnosis why = {.text = ""};
    struct diwarp_device *device;
    diwarp_device_attr_init(&attr);
    diwarp_qp_attr_init(&qp_attr);
    /* A name is all that tells senders apart. */
    attr.name = (struct diwarp_name){.job = 1, .rank = (uint32_t)clock() ^ (uint32_t)time(NULL)};
    must(diwarp_open_device(&attr, &device, &why), why.text);
    end->pd = diwarp_alloc_pd(device);
    end->cq = diwarp_create_cq(device, RECVS);
    qp_attr.type = DIWARP_QPT_UD;
    qp_attr.cq = end->cq;
    qp_attr.qkey = QKEY;
    must(!end->pd || !end->cq, "no memory");
    must(diwarp_create_qp(end->pd, &qp_attr, &end->qp, &why), why.text);
}

/* ---- the sender ---- */

static void post(struct end *end, struct diwarp_ah *ah, enum ibv_wr_opcode opcode, unsigned i,
                 uint32_t bytes)
{
    const struct timespec pace = {.tv_nsec = PACE_NS};
    const uint64_t offset = (uint64_t)i * STEP_BYTES;
    struct ibv_sge sge = {.addr = (uintptr_t)pattern + offset, .length = bytes};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .imm_data = i}, .ah = ah};
    struct diwarp_wc wc;
    if (opcode == IBV_WR_RDMA_WRITE) {
        wr.wr.wr.rdma.rkey = STAG;
        wr.wr.wr.rdma.remote_addr = offset;
    } else {
        wr.wr.wr.ud.remote_qkey = QKEY;
    }
    must(diwarp_post_send(end->qp, &wr), "post");
    must(diwarp_poll_cq(end->cq, 1, &wc) != 0, "something comes to the sender");
    nanosleep(&pace, NULL);
}

static void send_all(struct end *end)
{
    struct diwarp_ah *ah;
    must(diwarp_create_group_ah(end->qp, &end->group, &ah), "create_group_ah");
    for (unsigned i = 0; i < end->count; i++) {
        post(end, ah, IBV_WR_SEND_WITH_IMM, i, SEND_BYTES);
        post(end, ah, IBV_WR_RDMA_WRITE, i, RECORD_BYTES);
    }
    for (unsigned i = 0; i < ENDS; i++)
        post(end, ah, IBV_WR_SEND_WITH_IMM, COUNT_MAX, 0);
    diwarp_destroy_ah(ah);
}

/* ---- a member ---- */

struct tally {
    unsigned sends, full, partial;
    unsigned long long valid_bytes;
    bool seen[COUNT_MAX], ended;
};

static void post_recv(struct end *end, uint64_t id)
{
    struct ibv_sge sge = {.addr = (uintptr_t)received[id], .length = SEND_BYTES};
    const struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
    must(diwarp_post_recv(end->qp, &wr), "post_recv");
}

static void take_send(struct tally *tally, const struct ibv_wc *wc)
{
    if (wc->imm_data == COUNT_MAX) {
        tally->ended = true;
        return;
    }
    must(wc->imm_data > COUNT_MAX || wc->byte_len != SEND_BYTES, "a message of nobody's");
    must(tally->seen[wc->imm_data], "a message came twice");
    must(memcmp(received[wc->wr_id], pattern + wc->imm_data * STEP_BYTES, SEND_BYTES) != 0,
         "a message has other bytes");
    tally->seen[wc->imm_data] = true;
    tally->sends++;
}

static void take_record(struct tally *tally, struct diwarp_record *record)
{
    struct diwarp_range ranges[RECORD_BYTES / 512];
    struct diwarp_record_info info;
    diwarp_query_record(record, &info);
    const size_t offset = (size_t)((uint8_t *)info.addr - window);
    const unsigned count = diwarp_record_ranges(record, ranges, RECORD_BYTES / 512);
    for (unsigned i = 0; i < count; i++)
        must(memcmp(window + offset + ranges[i].start, pattern + offset + ranges[i].start,
                    ranges[i].end - ranges[i].start) != 0,
             "a record has other bytes");
    *(info.full ? &tally->full : &tally->partial) += 1;
    tally->valid_bytes += info.valid_bytes;
    diwarp_release_record(record);
}

static void receive_all(struct end *end)
{
    static struct tally tally;
    struct diwarp_wc wc;
    const struct diwarp_mr *mr = diwarp_reg_mr(end->pd, window, sizeof window,
                                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    must(!mr, "reg_mr");
    for (uint64_t i = 0; i < RECVS; i++)
        post_recv(end, i);
    must(diwarp_attach_group(end->qp, &end->group, mr, STAG), "attach_group");
    puts("ready");
    fflush(stdout);
    /* Records with holes are handed over 100 ms after they began. */
    for (time_t until = time(NULL) + SECONDS; time(NULL) < until;) {
        if (diwarp_wait_cq(end->cq, 1, &wc, 300000000) != 1) {
            if (tally.ended)
                break;
            continue;
        }
        must(wc.wc.status != IBV_WC_SUCCESS || wc.group != end->group.token, "a completion");
        if (wc.record) {
            take_record(&tally, wc.record);
        } else {
            take_send(&tally, &wc.wc);
            post_recv(end, wc.wc.wr_id);
        }
    }
    must(!tally.ended, "the end did not come");
    printf("sends %u full %u partial %u valid %llu\n", tally.sends, tally.full, tally.partial,
           tally.valid_bytes);
}

int main(int argc, char **argv)
{
    struct end end = {.group = {.token = 0x6272, .port = 20470}};
    must(argc != 5, "send|member ADDRESS COUNT INTERFACE");
    end.group.family = strchr(argv[2], ':') ? AF_INET6 : AF_INET;
    must(inet_pton(end.group.family, argv[2], end.group.ip) != 1, "the address");
    end.count = (unsigned)strtoul(argv[3], NULL, 10);
    must(end.count > COUNT_MAX, "the count");
    strncpy(end.group.interface, argv[4], sizeof end.group.interface - 1);
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (uint8_t)(i * 2654435761u >> 13);
    open_end(&end);
    if (!strcmp(argv[1], "send"))
        send_all(&end);
    else
        receive_all(&end);
    return 0;
}
