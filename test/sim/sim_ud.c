/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UD traffic drawn from a seed. A model hears which datagrams each receiver takes from the network;
 * what the queue pairs then say must be exactly that.
 */
#include "test/sim/sim_ud.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/wire/ddp.h"
#include "common/wire/rdmap.h"
#include "test/sim/sim_world.h"
#include "common/include/diwarp_ud.h"

/* Below what at-most-once remembers of a source, so that nothing is refused for its age. */
#define MAX_OPS       60
#define MAX_NODES     4
#define MAX_MSG_BYTES 32768u
#define GUARD_BYTES   16
#define FILL          0xee
#define RETRY_NS      50000
#define MAX_RANGES    512
#define MAX_REPLAYS   12 /* datagrams that come once more */

struct op {
    bool write, wrong_stag;
    unsigned flags; /* of its post */
    uint32_t id;    /* index + 1: wr_id, immediate, payload number */
    unsigned node, target;
    uint32_t bytes;
    uint64_t post_ns, offset; /* offset in the target's memory */
    bool posted, left, completed, arrived, ended, full;
    uint32_t serial;      /* its MSN or record id on the wire, once it has left */
    struct dw_ranges map; /* what arrived until it ended */
    uint64_t first_ns, full_ns;
    uint8_t *buf;
};

struct replay {
    uint64_t at_ns;
    unsigned node, target;
    struct iovec datagram;
};

struct host {
    uint8_t *memory, *receives;
    struct diwarp_mr *mr;
    uint64_t memory_bytes;
};

struct ud {
    struct sim_config config;
    uint64_t random_state;
    struct op ops[MAX_OPS];
    unsigned op_count, next_op;
    struct host hosts[MAX_NODES];
    const struct op *posting;
    bool replaying;
    struct replay replays[MAX_REPLAYS];
    unsigned replay_count, next_replay;
    uint64_t replay_after_ns;
    struct sim_world world;
};

static struct ud *ud_of(struct sim_world *world)
{
    return world->app;
}

/* ---- the model ---- */

struct parsed {
    unsigned source;
    struct dw_ddp_header ddp;
    uint32_t serial, offset, length;
};

static struct parsed parse(const struct sim_endpoint *from, const uint8_t *buf)
{
    struct parsed parsed = {.source = ((const struct sim_node *)from->owner)->index};
    const uint8_t *at = buf + DW_LLP_HEADER_BYTES;
    uint32_t length = (uint32_t)at[0] << 8 | at[1];
    at += DW_SEGMENT_LEN_BYTES;
    uint32_t head = (uint32_t)dw_ddp_get(&parsed.ddp, at, length);
    parsed.serial = parsed.ddp.msn;
    parsed.offset = parsed.ddp.mo;
    if (parsed.ddp.tagged) {
        struct dw_write_record wr;
        if (dw_write_record_get(&wr, at + head, length - head))
            abort();
        parsed.serial = wr.id;
        parsed.offset = wr.offset;
        head += DW_WRITE_RECORD_BYTES;
    }
    parsed.length = length - head;
    return parsed;
}

static void keep_for_replay(struct ud *ud, const struct op *op, const uint8_t *buf, uint32_t bytes)
{
    struct replay *replay = &ud->replays[ud->replay_count++];
    *replay = (struct replay){
        .at_ns = ud->world.net.now_ns + ud->replay_after_ns,
        .node = op->node,
        .target = op->target,
        .datagram = {malloc(bytes), bytes},
    };
    if (!replay->datagram.iov_base)
        abort();
    memcpy(replay->datagram.iov_base, buf, bytes);
}

static enum sim_verdict on_sent(void *arg, const struct sim_endpoint *from, const uint8_t *buf,
                                uint32_t bytes)
{
    struct ud *ud = ud_of(arg);
    const struct parsed parsed = parse(from, buf);
    if (ud->replaying)
        return SIM_PASS;
    struct op *op = &ud->ops[(parsed.ddp.tagged ? ud->posting->id : parsed.ddp.ulp) - 1];
    op->left = true;
    op->serial = parsed.serial;
    if (ud->replay_count < MAX_REPLAYS && !sim_random_below(&ud->world.random_state, 8))
        keep_for_replay(ud, op, buf, bytes);
    return SIM_PASS;
}

static void on_received(void *arg, const struct sim_endpoint *at,
                        const struct sim_datagram *datagram)
{
    struct ud *ud = ud_of(arg);
    uint64_t now_ns = ud->world.net.now_ns;
    const unsigned target = ((const struct sim_node *)at->owner)->index;
    if (datagram->corrupted)
        return;
    struct parsed parsed = parse(datagram->from, datagram->buf);
    for (unsigned i = 0; i < ud->op_count; i++) {
        struct op *op = &ud->ops[i];
        if (!op->left || op->node != parsed.source || op->target != target ||
            op->write != parsed.ddp.tagged || op->serial != parsed.serial || op->ended)
            continue;
        if (!op->arrived)
            op->first_ns = now_ns;
        op->arrived = true;
        if (parsed.length &&
            dw_ranges_add(&op->map, parsed.offset, parsed.offset + parsed.length) < 0)
            abort();
        if (!op->full && op->map.bytes == op->bytes) {
            op->full = true;
            op->full_ns = now_ns;
        }
    }
}

/* The record has exactly the ranges that arrived. */
static void compare_map(struct ud *ud, const struct op *op, const struct diwarp_record *record)
{
    static struct diwarp_range ranges[MAX_RANGES];
    struct diwarp_record_info info;
    diwarp_query_record(record, &info);
    unsigned count = diwarp_record_ranges(record, ranges, MAX_RANGES);
    bool same = count == op->map.count && info.valid_bytes == op->map.bytes &&
                info.length == op->bytes && info.full == (op->map.bytes == op->bytes) &&
                info.addr == ud->hosts[op->target].memory + op->offset;
    for (unsigned i = 0; same && i < count && i < MAX_RANGES; i++)
        same = ranges[i].start == op->map.list[i].start && ranges[i].end == op->map.list[i].end;
    if (!same)
        sim_fail(&ud->world, "op %u: the map has %u ranges, %llu bytes; %u, %llu arrived", op->id,
                 count, (unsigned long long)info.valid_bytes, op->map.count,
                 (unsigned long long)op->map.bytes);
}

/* ---- the plan ---- */

static uint64_t below(struct ud *ud, uint64_t limit)
{
    return sim_random_below(&ud->random_state, limit);
}

static void plan_op(struct ud *ud, uint64_t at_ns)
{
    unsigned nodes = ud->config.node_count;
    uint32_t mtu = ud->config.mtu_bytes;
    struct op *op = &ud->ops[ud->op_count++];
    *op = (struct op){
        .id = ud->op_count,
        .node = (unsigned)below(ud, nodes),
        .write = below(ud, 2),
        .flags = below(ud, 2) ? IBV_SEND_SIGNALED : 0,
        .post_ns = at_ns,
    };
    op->flags |= below(ud, 2) ? DIWARP_SEND_LAZY : 0;
    op->target = (op->node + 1 + (unsigned)below(ud, nodes - 1)) % nodes;
    uint32_t max = op->write ? 200000 : MAX_MSG_BYTES;
    uint64_t shape = below(ud, 3);
    op->bytes = (uint32_t)(shape == 0   ? below(ud, 64)
                           : shape == 1 ? mtu - 160 + below(ud, 160)
                                        : below(ud, max));
    op->bytes = op->bytes < max ? op->bytes : max;
    if (!op->write)
        return;
    op->bytes += !op->bytes;
    op->wrong_stag = !below(ud, 10);
    op->offset = ud->hosts[op->target].memory_bytes;
    ud->hosts[op->target].memory_bytes += op->bytes + GUARD_BYTES;
}

static void plan(struct ud *ud, uint64_t seed)
{
    static const uint32_t mtus[] = {1500, 9000, 65536};
    static const uint32_t rcvbufs[] = {16384, 212992, 4u << 20};
    static const uint64_t gaps_ns[] = {1, 20000, 2000000};
    static const uint32_t first_serials[] = {0, UINT32_MAX, UINT32_MAX - 5, 0x7fffffff};
    static const uint64_t replays_ns[] = {1000000, 1000000000, 12000000000};
    static const uint64_t times_ns[] = {1000000, 20000000, 100000000};
    ud->random_state = seed + 1000000007;
    sim_config_init(&ud->config, seed);
    struct sim_config *config = &ud->config;
    sim_impairment_draw(&config->impairment, &ud->random_state);
    config->node_count = 2 + (unsigned)below(ud, MAX_NODES - 1);
    config->mtu_bytes = SIM_RANDOM_OF(&ud->random_state, mtus);
    config->gro = below(ud, 2);
    config->first_serial = SIM_RANDOM_OF(&ud->random_state, first_serials);
    config->device.rcvbuf_bytes = SIM_RANDOM_OF(&ud->random_state, rcvbufs);
    config->qp.type = DIWARP_QPT_UD;
    config->qp.max_msg_bytes = MAX_MSG_BYTES;
    config->qp.max_recv_wr = MAX_OPS;
    config->qp.record_time_ns = SIM_RANDOM_OF(&ud->random_state, times_ns);
    ud->replay_after_ns = SIM_RANDOM_OF(&ud->random_state, replays_ns);
    uint64_t gap_ns = SIM_RANDOM_OF(&ud->random_state, gaps_ns), at_ns = 0;
    unsigned count = 5 + (unsigned)below(ud, MAX_OPS - 4);
    for (unsigned i = 0; i < count; i++) {
        plan_op(ud, at_ns);
        at_ns += below(ud, gap_ns);
    }
}

/* ---- the application ---- */

static bool try_post(struct ud *ud, struct op *op)
{
    struct sim_node *node = &ud->world.nodes[op->node];
    struct host *host = &ud->hosts[op->target];
    if (!op->buf) {
        op->buf = malloc(op->bytes + 1u);
        if (!op->buf)
            abort();
        sim_pattern_fill(op->id, 0, op->buf, op->bytes);
    }
    struct ibv_sge sge = {.addr = (uintptr_t)op->buf, .length = op->bytes};
    struct diwarp_send_wr post = {
        .wr = {.wr_id = op->id,
               .sg_list = &sge,
               .num_sge = 1,
               .opcode = op->write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND_WITH_IMM,
               .imm_data = op->id,
               .send_flags = op->flags},
        .ah = node->ahs[op->target],
    };
    if (op->write) {
        post.wr.wr.rdma.remote_addr = (uintptr_t)host->memory + op->offset;
        post.wr.wr.rdma.rkey = host->mr->stag ^ (op->wrong_stag ? 0x5a5a : 0);
    }
    ud->posting = op;
    int rc = diwarp_post_send(node->qp, &post);
    if (rc && rc != -EAGAIN)
        sim_fail(&ud->world, "op %u: post gave %d", op->id, rc);
    return op->posted = !rc;
}

/* Asks for a record that is under way, as an application that polls would. */
static void look_at_one(struct ud *ud)
{
    const struct op *op = &ud->ops[sim_random_below(&ud->world.random_state, ud->op_count)];
    struct sim_node *node = &ud->world.nodes[op->target];
    struct diwarp_name name = {.job = node->device->attr.name.job, .rank = op->node};
    if (!op->write || op->wrong_stag || op->ended || !op->arrived)
        return;
    const struct diwarp_record *record = diwarp_find_record(node->qp, &name, op->serial);
    if (record)
        compare_map(ud, op, record);
    else if (!node->cq->ring.count)
        sim_fail(&ud->world, "op %u: the record is not found", op->id);
}

static void wake_at(struct sim_world *world, uint64_t at_ns)
{
    if (at_ns < world->wake_ns)
        world->wake_ns = at_ns;
}

/* What is due; when the next one is. */
static uint64_t send_replays(struct ud *ud)
{
    for (; ud->next_replay < ud->replay_count; ud->next_replay++) {
        const struct replay *replay = &ud->replays[ud->next_replay];
        struct sim_node *node = &ud->world.nodes[replay->node];
        if (replay->at_ns > ud->world.net.now_ns)
            return replay->at_ns;
        const struct dw_llp_addr to = dw_ah_addr(node->ahs[replay->target]);
        struct dw_llp_train train = {.to = &to,
                                     .iov = &replay->datagram,
                                     .iov_count = 1,
                                     .segment_bytes = (uint32_t)replay->datagram.iov_len};
        ud->replaying = true;
        dw_datagrams_send(&node->qp->port->datagrams, &train);
        ud->replaying = false;
    }
    return DW_NEVER;
}

static bool on_step(struct sim_world *world)
{
    struct ud *ud = ud_of(world);
    look_at_one(ud);
    world->wake_ns = send_replays(ud);
    bool acted = false;
    while (ud->next_op < ud->op_count && !world->failed) {
        struct op *op = &ud->ops[ud->next_op];
        if (op->post_ns > world->net.now_ns) {
            wake_at(world, op->post_ns);
            break;
        }
        if (!try_post(ud, op)) {
            wake_at(world, world->net.now_ns + RETRY_NS);
            break;
        }
        acted = true;
        ud->next_op++;
    }
    return acted;
}

static void on_receive(struct ud *ud, struct sim_node *node, const struct diwarp_wc *wc)
{
    uint32_t id = wc->wc.imm_data;
    struct op *op = id && id <= ud->op_count ? &ud->ops[id - 1] : NULL;
    const uint8_t *data = ud->hosts[node->index].receives + wc->wc.wr_id * MAX_MSG_BYTES;
    if (!op || op->write || op->target != node->index || op->node != wc->src.rank ||
        op->bytes != wc->wc.byte_len || wc->wc.status != IBV_WC_SUCCESS)
        sim_fail(&ud->world, "node %u: a Send nobody posted (id %u)", node->index, id);
    else if (op->ended)
        sim_fail(&ud->world, "op %u: delivered twice", id);
    else if (!op->full)
        sim_fail(&ud->world, "op %u: delivered, but not all of it arrived", id);
    else if (!sim_pattern_matches(id, 0, data, op->bytes))
        sim_fail(&ud->world, "op %u: wrong bytes", id);
    else
        op->ended = true;
}

static void on_record(struct ud *ud, struct sim_node *node, const struct diwarp_wc *wc)
{
    struct diwarp_record_info info;
    diwarp_query_record(wc->record, &info);
    struct op *op = NULL;
    for (unsigned i = 0; i < ud->op_count && !op; i++)
        if (ud->ops[i].write && ud->ops[i].node == info.src.rank &&
            ud->ops[i].target == node->index && ud->ops[i].serial == info.id)
            op = &ud->ops[i];
    if (!op || op->wrong_stag || op->ended) {
        sim_fail(&ud->world, "node %u: wrong record (id %u)", node->index, info.id);
    } else {
        op->ended = true;
        compare_map(ud, op, wc->record);
        if (!info.full && ud->world.net.now_ns < op->first_ns + ud->config.qp.record_time_ns)
            sim_fail(&ud->world, "op %u: handed over in part before its time", op->id);
    }
    diwarp_release_record(wc->record);
}

static void on_wc(struct sim_world *world, struct sim_node *node, const struct diwarp_wc *wc)
{
    struct ud *ud = ud_of(world);
    if (wc->wc.opcode == IBV_WC_RECV) {
        on_receive(ud, node, wc);
    } else if ((int)wc->wc.opcode == DIWARP_WC_RECORD) {
        on_record(ud, node, wc);
    } else {
        struct op *op = &ud->ops[wc->wc.wr_id - 1];
        sim_check(world, op->node == node->index);
        sim_check(world, op->flags & IBV_SEND_SIGNALED && !op->completed);
        sim_check(world, wc->wc.status == IBV_WC_SUCCESS);
        sim_check(world, wc->wc.opcode == (op->write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND));
        op->completed = true;
    }
}

/* ---- the judgement ---- */

static bool memory_right(const struct ud *ud, const struct op *op)
{
    const uint8_t *memory = ud->hosts[op->target].memory + op->offset;
    uint32_t at = 0;
    for (uint32_t i = 0; !op->wrong_stag && i < op->map.count; i++) {
        const struct dw_range *range = &op->map.list[i];
        if (!sim_all_bytes(memory + at, FILL, range->start - at) ||
            !sim_pattern_matches(op->id, range->start, memory + range->start,
                                 range->end - range->start))
            return false;
        at = range->end;
    }
    return sim_all_bytes(memory + at, FILL, op->bytes + GUARD_BYTES - at);
}

static void judge(struct ud *ud)
{
    struct sim_world *world = &ud->world;
    for (unsigned i = 0; i < ud->op_count && !world->failed; i++) {
        const struct op *op = &ud->ops[i];
        sim_check(world, op->posted);
        sim_check(world, op->completed == !!(op->flags & IBV_SEND_SIGNALED));
        if (op->write && !memory_right(ud, op))
            sim_fail(world, "op %u: wrong bytes, or bytes that did not arrive", op->id);
        bool must_end =
            op->write ? op->arrived && !op->wrong_stag
                      : op->full && op->full_ns - op->first_ns <= ud->config.qp.record_time_ns;
        if (must_end && !op->ended)
            sim_fail(world, "op %u: arrived, but was not handed over", op->id);
    }
}

/* ---- the run ---- */

static void open_host(struct ud *ud, unsigned n)
{
    struct host *host = &ud->hosts[n];
    struct sim_node *node = &ud->world.nodes[n];
    host->memory = malloc(host->memory_bytes + 1);
    host->receives = calloc(MAX_OPS, MAX_MSG_BYTES);
    if (!host->memory || !host->receives)
        abort();
    memset(host->memory, FILL, host->memory_bytes);
    host->mr = diwarp_reg_mr(node->pd, host->memory, host->memory_bytes,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    for (unsigned i = 0; i < MAX_OPS; i++) {
        struct ibv_sge sge = {.addr = (uintptr_t)host->receives + (size_t)i * MAX_MSG_BYTES,
                              .length = MAX_MSG_BYTES};
        struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};
        sim_check(&ud->world, !diwarp_post_recv(node->qp, &wr));
    }
}

static void close_all(struct ud *ud)
{
    sim_world_fini(&ud->world);
    for (unsigned n = 0; n < ud->config.node_count; n++) {
        free(ud->hosts[n].memory);
        free(ud->hosts[n].receives);
    }
    for (unsigned i = 0; i < ud->replay_count; i++)
        free(ud->replays[i].datagram.iov_base);
    for (unsigned i = 0; i < ud->op_count; i++) {
        dw_ranges_fini(&ud->ops[i].map);
        free(ud->ops[i].buf);
    }
}

static bool run(uint64_t seed, enum diwarp_auth auth, char *failure, size_t failure_bytes)
{
    struct ud *ud = calloc(1, sizeof *ud);
    if (!ud)
        abort();
    plan(ud, seed);
    ud->config.device.auth = auth;
    struct sim_world *world = &ud->world;
    sim_world_init(world, &ud->config);
    world->app = ud;
    world->on_step = on_step;
    world->on_wc = on_wc;
    world->net.filter = on_sent;
    world->net.on_receive = on_received;
    for (unsigned n = 0; n < ud->config.node_count; n++)
        open_host(ud, n);
    for (unsigned i = 0; i < ud->op_count; i++)
        ud->ops[i].post_ns += world->net.now_ns;
    sim_world_run(world, 60ull * 1000000000);
    if (!world->failed)
        sim_world_check_rest(world);
    judge(ud);
    const bool passed = !world->failed;
    snprintf(failure, failure_bytes, "%s", world->failure);
    close_all(ud);
    free(ud);
    return passed;
}

bool sim_ud_run(uint64_t seed, char *failure, size_t failure_bytes)
{
    return run(seed, DIWARP_AUTH_OFF, failure, failure_bytes);
}

/* Not encrypted: what comes is compared with what was seen on the network. */
bool sim_ud_auth_run(uint64_t seed, char *failure, size_t failure_bytes)
{
    return run(seed, DIWARP_AUTH_GMAC, failure, failure_bytes);
}
