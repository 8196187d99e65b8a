/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws a network, nodes and their operations from a seed. */
#include "test/sim/sim_rd.h"

/* Longer than any datagram is on its way. */
#define FORGET_NS 30000000

static uint64_t below(struct sim_rd *rd, uint64_t limit)
{
    return sim_random_below(&rd->random_state, limit);
}

static bool percent(struct sim_rd *rd, uint32_t percent_true)
{
    return sim_random_permille(&rd->random_state, percent_true * 10);
}

static void plan_nodes(struct sim_rd *rd)
{
    static const uint32_t mtus[] = {1500, 1500, 9000, 65536};
    static const uint64_t cuts_ns[] = {0, 3000000, 100000000, 2000000000};
    static const uint32_t first_serials[] = {0, UINT32_MAX, UINT32_MAX - 20, 0x7fffffff};
    /* Probes bear 32 bits of the clock in units of 2^10 ns. */
    static const uint64_t starts_ns[] = {1000000000, (1ull << 41) - 20000000,
                                         (1ull << 42) - 20000000};
    static const uint32_t rcvbufs[] = {16384, 65536, 212992, 1u << 20, 4u << 20};
    static const uint32_t sndbufs[] = {16384, 212992, 4u << 20};
    static const uint32_t windows[] = {1, 2, 8, 64, 256};
    static const uint32_t pools[] = {256u << 10, 1u << 20, 4u << 20};
    static const uint32_t record_windows[] = {0, 0, 32768};
    static const uint32_t max_wrs[] = {8, 64, 8192};
    static const uint32_t max_msgs[] = {4096, 65536, 200000};
    struct sim_config *config = &rd->config;
    uint64_t *random = &rd->random_state;
    config->node_count = 2 + (unsigned)below(rd, 4);
    config->mtu_bytes = SIM_RANDOM_OF(random, mtus);
    if (percent(rd, 30)) {
        config->networks = 2 + (unsigned)below(rd, SIM_MAX_NETWORKS - 1);
        config->alike = percent(rd, 50);
        config->device.flows = 1 + (unsigned)below(rd, 3);
        rd->cut_ns = SIM_RANDOM_OF(random, cuts_ns);
    } else if (percent(rd, 30)) {
        config->ecmp = (uint8_t)(2 + below(rd, SIM_MAX_NETWORKS - 1));
        for (unsigned i = 0; i < config->node_count; i++)
            config->flows[i] = (uint8_t)(2 + below(rd, DIWARP_MAX_FLOWS - 1));
        rd->cut_ns = SIM_RANDOM_OF(random, cuts_ns);
    }
    config->first_serial = SIM_RANDOM_OF(random, first_serials);
    config->start_ns = SIM_RANDOM_OF(random, starts_ns);
    config->gro = percent(rd, 50);
    config->helper = percent(rd, 30);
    config->device.rcvbuf_bytes = SIM_RANDOM_OF(random, rcvbufs);
    config->device.sndbuf_bytes = SIM_RANDOM_OF(random, sndbufs);
    config->device.threaded = percent(rd, 20);
    config->device.shared_cores = percent(rd, 30);
    config->device.send_window_datagrams = SIM_RANDOM_OF(random, windows);
    config->device.send_pool_bytes = SIM_RANDOM_OF(random, pools);
    config->device.record_window_bytes = SIM_RANDOM_OF(random, record_windows);
    config->device.peer_timeout_ns = 120ull * 1000000000;
    config->qp.max_send_wr = SIM_RANDOM_OF(random, max_wrs);
    config->qp.max_msg_bytes = SIM_RANDOM_OF(random, max_msgs);
}

/* Often small, often next to what one datagram holds, sometimes anything. */
static uint32_t plan_bytes(struct sim_rd *rd, uint32_t max)
{
    uint32_t bytes;
    switch (below(rd, 4)) {
    case 0:
        bytes = (uint32_t)below(rd, 64);
        break;
    case 1:
        bytes = rd->config.mtu_bytes - 160 + (uint32_t)below(rd, 160);
        break;
    case 2:
        bytes = (uint32_t)below(rd, 3 * rd->config.mtu_bytes);
        break;
    default:
        bytes = (uint32_t)below(rd, max) + 1;
        break;
    }
    return bytes < max ? bytes : max;
}

static void plan_send(struct sim_rd *rd, struct sim_rd_op *op)
{
    op->way = (enum sim_rd_way)below(rd, 4);
    bool short_only = op->way == SIM_RD_RESERVE || (op->way == SIM_RD_INLINE && percent(rd, 50));
    op->bytes = plan_bytes(rd, short_only ? 1000 : rd->config.qp.max_msg_bytes);
    op->signaled = op->way != SIM_RD_RESERVE && percent(rd, 50);
    op->fence = op->way != SIM_RD_RESERVE && percent(rd, 10);
    /* Without an immediate, the payload says which it is. */
    op->imm = op->way == SIM_RD_RESERVE || op->bytes < 4 || percent(rd, 50);
}

static void plan_rdma(struct sim_rd *rd, struct sim_rd_op *op)
{
    struct sim_rd_host *target = &rd->hosts[op->target];
    bool read = op->kind == SIM_RD_READ;
    op->bytes = plan_bytes(rd, percent(rd, 20) ? SIM_RD_READABLE_BYTES : 20000);
    op->bytes += !op->bytes;
    op->signaled = percent(rd, 75);
    op->delay_ns = below(rd, 200000);
    if (percent(rd, 20))
        op->fault = (enum sim_rd_fault)(1 + below(rd, SIM_RD_DEREGISTERED));
    if (read) {
        op->hold = op->signaled && percent(rd, 60);
        op->release_bytes = (uint32_t)below(rd, DIWARP_RELEASE_MAX_BYTES + 1);
        op->release_bytes = op->release_bytes < 4 ? 0 : op->release_bytes;
        op->remote_offset = below(rd, SIM_RD_READABLE_BYTES - op->bytes + 1);
    } else {
        op->imm = percent(rd, 25);
        op->remote_offset = target->writable_bytes;
        target->writable_bytes += op->bytes + SIM_RD_GUARD_BYTES;
    }
}

static void plan_atomic(struct sim_rd *rd, struct sim_rd_op *op)
{
    unsigned word = (unsigned)below(rd, SIM_RD_WORDS / 2);
    op->bytes = sizeof(uint64_t);
    op->signaled = percent(rd, 80);
    op->value = 1 + below(rd, 1000);
    if (op->kind == SIM_RD_SWAP)
        word += SIM_RD_WORDS / 2;
    if (percent(rd, 10))
        op->fault = (enum sim_rd_fault)(1 + below(rd, SIM_RD_OUT_OF_BOUNDS));
    op->remote_offset = word * sizeof(uint64_t);
}

static void plan_op(struct sim_rd *rd, uint64_t at_ns)
{
    static const enum sim_rd_kind kinds[] = {SIM_RD_SEND,  SIM_RD_SEND, SIM_RD_SEND, SIM_RD_READ,
                                             SIM_RD_WRITE, SIM_RD_ADD,  SIM_RD_SWAP};
    struct sim_rd_op *op = &rd->ops[rd->op_count++];
    unsigned nodes = rd->config.node_count;
    *op = (struct sim_rd_op){
        .kind = SIM_RANDOM_OF(&rd->random_state, kinds),
        .id = rd->op_count,
        .node = (unsigned)below(rd, nodes),
        .post_ns = at_ns,
        .due_ns = DW_NEVER,
    };
    op->target = (op->node + 1 + (unsigned)below(rd, nodes - 1)) % nodes;
    if (rd->config.strangers && op->node < op->target) {
        const unsigned other = op->node;
        op->node = op->target;
        op->target = other;
    }
    if (op->kind == SIM_RD_SEND)
        plan_send(rd, op);
    else if (op->kind == SIM_RD_READ || op->kind == SIM_RD_WRITE)
        plan_rdma(rd, op);
    else
        plan_atomic(rd, op);
}

/* Down to less than a round trip: peers go to rest wherever they may. Not with pauses, of which the
 * search for them would make many steps. */
static uint64_t plan_rest(struct sim_rd *rd)
{
    static const uint64_t rests_ns[] = {50000, 200000, 3000000, 0};
    static const uint64_t short_rests_ns[] = {2, 2000, 10000, 50000};
    return rd->pause_count ? SIM_RANDOM_OF(&rd->random_state, rests_ns)
                           : SIM_RANDOM_OF(&rd->random_state, short_rests_ns);
}

void sim_rd_plan(struct sim_rd *rd, uint64_t seed)
{
    static const uint64_t pauses_ns[] = {100000, 5000000, 200000000, 3000000000};
    static const uint64_t gaps_ns[] = {1, 5000, 100000};
    static const uint32_t path_mtus[] = {0, 0, 0, 0, 0, 1280, 1400};
    rd->random_state = seed;
    sim_config_init(&rd->config, seed);
    plan_nodes(rd);
    sim_impairment_draw(&rd->config.impairment, &rd->random_state);
    uint64_t gap_ns = SIM_RANDOM_OF(&rd->random_state, gaps_ns);
    rd->config.strangers = percent(rd, 30);
    if (rd->config.strangers) {
        gap_ns = (uint64_t)FORGET_NS << below(rd, 3);
        rd->config.forget_ns = FORGET_NS;
    }
    uint64_t at_ns = 0;
    unsigned count = 20 + (unsigned)below(rd, SIM_RD_MAX_OPS / 2);
    for (unsigned i = 0; i < count; i++) {
        plan_op(rd, at_ns);
        at_ns += below(rd, gap_ns);
    }
    rd->pause_count = percent(rd, 40) ? 1 + (unsigned)below(rd, SIM_RD_MAX_PAUSES - 1) : 0;
    for (unsigned i = 0; i < rd->pause_count; i++)
        rd->pauses[i] = (struct sim_rd_pause){
            .at_ns = below(rd, 3000000),
            .duration_ns = below(rd, SIM_RANDOM_OF(&rd->random_state, pauses_ns)),
            .node = (unsigned)below(rd, rd->config.node_count),
        };
    rd->config.rest_ns = plan_rest(rd);
    rd->config.path_mtu_bytes = SIM_RANDOM_OF(&rd->random_state, path_mtus);
}

/* Not by a period, which could be that of probes. */
void sim_rd_cut_another(struct sim_rd *rd)
{
    struct sim_world *world = &rd->world;
    if (!rd->cut_ns || world->net.now_ns < rd->cut_until_ns)
        return;
    const unsigned networks = world->config.ecmp ? world->config.ecmp : world->config.networks;
    const uint64_t network = sim_random_below(&world->random_state, networks);
    world->net.cut_networks = (uint8_t)(1u << network);
    rd->cut_until_ns = world->net.now_ns + sim_random_below(&world->random_state, 2 * rd->cut_ns);
}
