/* SPDX-License-Identifier: BSD-3-Clause */
/* The application on each node: posts what the plan says, and notes what comes of it. */
#include "test/sim/sim_rd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_NS    50000
#define ATTACKS     400
#define LIMIT_NS    (600ull * 1000000000)
#define FILL_LOCAL  0xdd
#define FILL_VICTIM 0xee
#define FILL_REUSED 0xaa

static struct sim_rd *rd_of(struct sim_world *world)
{
    return world->app;
}

static uint8_t *guarded_alloc(size_t bytes, uint8_t fill)
{
    uint8_t *block = malloc(bytes + 2 * SIM_RD_GUARD_BYTES);
    if (!block)
        abort();
    memset(block, fill, bytes + 2 * SIM_RD_GUARD_BYTES);
    return block + SIM_RD_GUARD_BYTES;
}

static void due_at(struct sim_rd *rd, struct sim_rd_op *op, uint64_t due_ns)
{
    op->due_ns = due_ns;
    if (due_ns < rd->next_due_ns)
        rd->next_due_ns = due_ns;
}

/* ---- posting ---- */

static void fill_payload(const struct sim_rd_op *op, uint8_t *buf)
{
    sim_pattern_fill(op->id, 0, buf, op->bytes);
    if (!op->imm)
        memcpy(buf, &op->id, sizeof op->id);
}

static int post_reserved(struct sim_node *node, struct sim_rd_op *op)
{
    struct diwarp_ah *ah = node->ahs[op->target];
    void *room = diwarp_send_reserve(node->qp, ah, op->bytes);
    if (!room)
        return -EAGAIN;
    fill_payload(op, room);
    diwarp_send_commit(node->qp, ah, op->id);
    return 0;
}

/* The memory of op in up to three pieces. */
static int make_sges(struct sim_rd *rd, const struct sim_rd_op *op, struct ibv_sge *sges)
{
    bool cut = op->kind == SIM_RD_SEND ||
               (op->kind == SIM_RD_WRITE && !op->imm && op->bytes <= DW_INLINE_WRITE_BYTES);
    int n = cut ? 1 + (int)sim_random_below(&rd->world.random_state, 3) : 1;
    uint64_t addr = (uintptr_t)op->buf;
    uint32_t left = op->bytes;
    for (int i = 0; i < n; i++) {
        uint32_t length =
            i == n - 1 ? left : (uint32_t)sim_random_below(&rd->world.random_state, left + 1u);
        sges[i] = (struct ibv_sge){.addr = addr, .length = length};
        addr += length;
        left -= length;
    }
    return n;
}

static void aim_rdma(struct sim_rd *rd, struct sim_rd_op *op, struct ibv_send_wr *wr)
{
    struct sim_rd_host *host = &rd->hosts[op->target];
    bool read = op->kind == SIM_RD_READ;
    uint8_t *base = read ? host->readable : host->writable;
    wr->opcode = read ? IBV_WR_RDMA_READ : op->imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    wr->imm_data = op->imm ? op->id : 0;
    wr->wr.rdma.remote_addr = (uintptr_t)base + op->remote_offset;
    wr->wr.rdma.rkey = read ? host->readable_mr->stag : host->writable_mr->stag;
    if (op->fault == SIM_RD_WRONG_STAG)
        wr->wr.rdma.rkey ^= 0x5a5a5a5a;
    else if (op->fault == SIM_RD_NO_RIGHT)
        wr->wr.rdma.rkey = read ? host->writable_mr->stag : host->readable_mr->stag;
    else if (op->fault == SIM_RD_OUT_OF_BOUNDS)
        wr->wr.rdma.remote_addr =
            (uintptr_t)base + (read ? SIM_RD_READABLE_BYTES - op->bytes + 1 : host->writable_bytes);
    else if (op->fault == SIM_RD_DEREGISTERED) {
        wr->wr.rdma.remote_addr = (uintptr_t)op->victim;
        wr->wr.rdma.rkey = op->victim_mr->stag;
    }
}

static void aim_atomic(struct sim_rd *rd, struct sim_rd_op *op, struct ibv_send_wr *wr)
{
    struct sim_rd_host *host = &rd->hosts[op->target];
    wr->opcode = op->kind == SIM_RD_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
    wr->wr.atomic.remote_addr = (uintptr_t)host->words + op->remote_offset;
    wr->wr.atomic.rkey = host->words_mr->stag;
    op->compare = host->seen[op->remote_offset / sizeof(uint64_t)];
    wr->wr.atomic.compare_add = op->kind == SIM_RD_ADD ? op->value : op->compare;
    wr->wr.atomic.swap = op->id;
    if (op->fault == SIM_RD_WRONG_STAG)
        wr->wr.atomic.rkey ^= 0x5a5a5a5a;
    else if (op->fault == SIM_RD_NO_RIGHT)
        wr->wr.atomic.rkey = host->readable_mr->stag;
    else if (op->fault == SIM_RD_OUT_OF_BOUNDS)
        wr->wr.atomic.remote_addr = (uintptr_t)host->words + sizeof host->words;
}

static void prepare(struct sim_rd *rd, struct sim_rd_op *op)
{
    if (op->buf)
        return; /* a second try */
    bool outgoing = op->kind == SIM_RD_SEND || op->kind == SIM_RD_WRITE;
    op->buf = guarded_alloc(op->bytes, FILL_LOCAL);
    if (op->kind == SIM_RD_SEND)
        fill_payload(op, op->buf);
    else if (outgoing)
        sim_pattern_fill(op->id, 0, op->buf, op->bytes);
    if (op->fault != SIM_RD_DEREGISTERED)
        return;
    op->victim = guarded_alloc(op->bytes, FILL_VICTIM);
    if (op->kind == SIM_RD_READ)
        sim_pattern_fill(SIM_RD_READABLE_ID + op->target, op->remote_offset, op->victim, op->bytes);
    op->victim_mr =
        diwarp_reg_mr(rd->world.nodes[op->target].pd, op->victim, op->bytes,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
}

/* How many completions there must be: errors always give one. */
static void expect(struct sim_rd_op *op, int rc)
{
    op->completions_min = op->completions_max = op->signaled && rc != 1;
    if (op->fault == SIM_RD_RIGHT)
        return;
    op->completions_max = 1;
    if (op->fault != SIM_RD_DEREGISTERED)
        op->completions_min = 1;
}

static int post_wr(struct sim_node *node, struct sim_rd *rd, struct sim_rd_op *op)
{
    struct ibv_sge sges[3];
    struct diwarp_send_wr post = {.ah = node->ahs[op->target]};
    struct ibv_send_wr *wr = &post.wr;
    prepare(rd, op);
    wr->wr_id = op->id;
    wr->sg_list = sges;
    wr->num_sge = make_sges(rd, op, sges);
    wr->send_flags = op->signaled ? IBV_SEND_SIGNALED : 0;
    if (op->kind == SIM_RD_SEND) {
        wr->opcode = op->imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
        wr->imm_data = op->id;
        wr->send_flags |= op->fence ? IBV_SEND_FENCE : 0;
        wr->send_flags |= op->way == SIM_RD_INLINE ? IBV_SEND_INLINE : 0;
        wr->send_flags |= op->way == SIM_RD_BUFFERED ? DIWARP_SEND_BUFFERED : 0;
    } else if (op->kind == SIM_RD_READ || op->kind == SIM_RD_WRITE) {
        aim_rdma(rd, op, wr);
        wr->send_flags |= op->hold ? DIWARP_SEND_HOLD : 0;
    } else {
        aim_atomic(rd, op, wr);
    }
    return diwarp_post_send(node->qp, &post);
}

static bool try_post(struct sim_node *node, struct sim_rd_op *op)
{
    struct sim_rd *rd = rd_of(node->world);
    int rc = op->way == SIM_RD_RESERVE ? post_reserved(node, op) : post_wr(node, rd, op);
    if (rc == -EAGAIN && op->way == SIM_RD_RESERVE) {
        op->way = SIM_RD_BUFFERED; /* it may be too long for the path for ever */
        return false;
    }
    if (rc == -EMSGSIZE && op->way == SIM_RD_INLINE) {
        op->way = SIM_RD_POST; /* too long for that */
        return false;
    }
    if (rc == -EAGAIN || rc == -ENOMEM)
        return false;
    if (rc < 0 || rc > 1) {
        sim_fail(node->world, "op %u: post gave %d", op->id, rc);
        return false;
    }
    op->posted = true;
    expect(op, rc);
    if (rc == 1 || op->way == SIM_RD_INLINE)
        memset(op->buf, FILL_REUSED, op->bytes);
    if (op->fault == SIM_RD_DEREGISTERED)
        due_at(rd, op, node->world->net.now_ns + op->delay_ns);
    return true;
}

/* ---- completions ---- */

static struct sim_rd_op *op_of(struct sim_rd *rd, uint64_t id)
{
    return id && id <= rd->op_count ? &rd->ops[id - 1] : NULL;
}

static void on_receive(struct sim_node *node, const struct diwarp_wc *wc)
{
    struct sim_world *world = node->world;
    const uint8_t *data = wc->data;
    bool imm = wc->wc.wc_flags & IBV_WC_WITH_IMM;
    uint32_t id = imm ? wc->wc.imm_data : 0;
    if (!imm && wc->wc.byte_len >= sizeof id)
        memcpy(&id, data, sizeof id);
    struct sim_rd_op *op = op_of(rd_of(world), id);
    if (!op || op->kind != SIM_RD_SEND) {
        sim_fail(world, "node %u: a Send nobody posted (id %u)", node->index, id);
        return;
    }
    uint32_t skip = imm ? 0 : (uint32_t)sizeof id;
    sim_check(world, op->target == node->index);
    sim_check(world, op->node == wc->src.rank);
    sim_check(world, op->imm == imm);
    sim_check(world, op->bytes == wc->wc.byte_len);
    sim_check(world, wc->wc.status == IBV_WC_SUCCESS);
    if (op->delivered)
        sim_fail(world, "op %u: delivered twice", op->id);
    op->delivered = true;
    sim_rd_check_fences(rd_of(world), op);
    if (!world->failed && !sim_pattern_matches(id, skip, data + skip, op->bytes - skip))
        sim_fail(world, "op %u: wrong bytes", op->id);
}

/* Of a write that is there. */
static void on_told(struct sim_node *node, const struct diwarp_wc *wc)
{
    struct sim_world *world = node->world;
    struct sim_rd_op *op = op_of(rd_of(world), wc->wc.imm_data);
    if (op && op->target == node->index && op->node == wc->src.rank)
        sim_rd_check_told(rd_of(world), op, wc);
    else
        sim_fail(world, "node %u: told of a wrong write (id %u)", node->index, wc->wc.imm_data);
}

static void on_release(struct sim_node *node, const struct diwarp_wc *wc)
{
    struct sim_world *world = node->world;
    uint32_t id = 0;
    if (wc->wc.byte_len >= sizeof id)
        memcpy(&id, wc->data, sizeof id);
    struct sim_rd_op *op = op_of(rd_of(world), id);
    if (!op || !op->hold || op->release_bytes != wc->wc.byte_len || op->released ||
        op->target != node->index || op->node != wc->src.rank)
        sim_fail(world, "node %u: wrong release (id %u)", node->index, id);
    else if (!sim_pattern_matches(SIM_RD_RELEASE_ID + id, sizeof id,
                                  (const uint8_t *)wc->data + sizeof id,
                                  op->release_bytes - sizeof id))
        sim_fail(world, "op %u: wrong bytes in its release", id);
    else
        op->released = true;
}

static void on_completion(struct sim_node *node, const struct diwarp_wc *wc)
{
    static const enum ibv_wc_opcode opcodes[] = {IBV_WC_SEND, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE,
                                                 IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP};
    struct sim_rd *rd = rd_of(node->world);
    struct sim_rd_op *op = op_of(rd, wc->wc.wr_id);
    if (!op || op->node != node->index || wc->wc.opcode != opcodes[op->kind]) {
        sim_fail(node->world, "node %u: completion of nothing it posted (opcode %d, status %d)",
                 node->index, (int)wc->wc.opcode, (int)wc->wc.status);
        return;
    }
    if (++op->completions > op->completions_max)
        sim_fail(node->world, "op %u: completion %u of at most %u", op->id, op->completions,
                 op->completions_max);
    op->ended = true;
    op->status = wc->wc.status;
    if (op->status == IBV_WC_SUCCESS)
        sim_rd_check_done(rd, op, wc);
    if (op->kind == SIM_RD_SEND || op->kind == SIM_RD_WRITE)
        memset(op->buf, FILL_REUSED, op->bytes);
    if (op->kind == SIM_RD_ADD || op->kind == SIM_RD_SWAP) {
        uint64_t *seen = &rd->hosts[op->target].seen[op->remote_offset / sizeof(uint64_t)];
        if (op->status == IBV_WC_SUCCESS)
            memcpy(seen, op->buf, sizeof *seen);
        if (op->status == IBV_WC_SUCCESS && op->kind == SIM_RD_SWAP && *seen == op->compare)
            *seen = op->id;
    }
    if (op->hold) {
        op->read_id = wc->read_id;
        due_at(rd, op, node->world->net.now_ns + op->delay_ns);
    }
}

static void on_wc(struct sim_world *world, struct sim_node *node, const struct diwarp_wc *wc)
{
    if (wc->wc.opcode == IBV_WC_RECV)
        on_receive(node, wc);
    else if (wc->wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        on_told(node, wc);
    else if ((int)wc->wc.opcode == DIWARP_WC_RELEASE)
        on_release(node, wc);
    else if ((int)wc->wc.opcode == DIWARP_WC_PEER_GONE)
        sim_fail(world, "node %u: peer %u is called gone", node->index, wc->src.rank);
    else if ((int)wc->wc.opcode != DIWARP_WC_PEER_SILENT)
        on_completion(node, wc);
}

/* ---- what is due ---- */

static void post_release(struct sim_rd *rd, struct sim_rd_op *op)
{
    struct sim_node *node = &rd->world.nodes[op->node];
    uint8_t data[DIWARP_RELEASE_MAX_BYTES];
    bool right = op->status == IBV_WC_SUCCESS;
    uint32_t bytes = right ? op->release_bytes : 0;
    sim_pattern_fill(SIM_RD_RELEASE_ID + op->id, 0, data, bytes);
    if (bytes)
        memcpy(data, &op->id, sizeof op->id);
    int rc = diwarp_post_release(node->qp, op->read_id, data, bytes);
    if (rc)
        sim_fail(&rd->world, "op %u: release gave %d", op->id, rc);
}

static void deregister(struct sim_rd_op *op)
{
    diwarp_dereg_mr(op->victim_mr);
    op->victim_mr = NULL;
    if (op->kind == SIM_RD_READ) /* whatever is sent from here on is wrong */
        memset(op->victim, FILL_REUSED, op->bytes);
    op->snapshot = guarded_alloc(op->bytes, 0);
    memcpy(op->snapshot, op->victim, op->bytes);
}

static bool act_on_due(struct sim_rd *rd)
{
    uint64_t now_ns = rd->world.net.now_ns;
    bool acted = false;
    if (now_ns < rd->next_due_ns)
        return false;
    rd->next_due_ns = DW_NEVER;
    for (unsigned i = 0; i < rd->op_count; i++) {
        struct sim_rd_op *op = &rd->ops[i];
        if (op->due_ns <= now_ns) {
            op->due_ns = DW_NEVER;
            acted = true;
            if (op->victim_mr) {
                deregister(op);
                if (op->hold && op->ended)
                    op->due_ns = now_ns; /* its release is still owed */
            } else {
                post_release(rd, op);
            }
        }
        if (op->due_ns < rd->next_due_ns)
            rd->next_due_ns = op->due_ns;
    }
    return acted;
}

static void begin_pauses(struct sim_rd *rd)
{
    struct sim_world *world = &rd->world;
    for (unsigned i = 0; i < rd->pause_count; i++) {
        struct sim_rd_pause *pause = &rd->pauses[i];
        uint64_t until_ns = pause->at_ns + pause->duration_ns;
        if (world->net.now_ns < pause->at_ns)
            continue;
        if (world->nodes[pause->node].paused_until_ns < until_ns)
            world->nodes[pause->node].paused_until_ns = until_ns;
        *pause = rd->pauses[--rd->pause_count];
        i--;
    }
}

static bool on_step(struct sim_world *world)
{
    struct sim_rd *rd = rd_of(world);
    uint64_t now_ns = world->net.now_ns;
    sim_rd_cut_another(rd);
    begin_pauses(rd);
    bool acted = act_on_due(rd);
    world->wake_ns = rd->next_due_ns;
    for (unsigned n = 0; n < world->config.node_count; n++) {
        unsigned *next = &rd->hosts[n].next_op;
        bool refused = false;
        while (*next < rd->op_count && !refused && !world->failed) {
            struct sim_rd_op *op = &rd->ops[*next];
            if (op->node != n) {
                ++*next;
                continue;
            }
            refused = op->post_ns > now_ns || world->nodes[n].paused_until_ns > now_ns ||
                      !try_post(&world->nodes[n], op);
            *next += !refused;
            acted |= !refused;
            uint64_t again_ns = op->post_ns > now_ns ? op->post_ns : now_ns + RETRY_NS;
            if (refused && again_ns < world->wake_ns)
                world->wake_ns = again_ns;
        }
    }
    return acted;
}

/* ---- the run ---- */

static void open_host(struct sim_rd *rd, unsigned n)
{
    struct sim_rd_host *host = &rd->hosts[n];
    struct diwarp_pd *pd = rd->world.nodes[n].pd;
    host->readable = guarded_alloc(SIM_RD_READABLE_BYTES, FILL_VICTIM);
    host->writable = guarded_alloc(host->writable_bytes, FILL_VICTIM);
    sim_pattern_fill(SIM_RD_READABLE_ID + n, 0, host->readable, SIM_RD_READABLE_BYTES);
    host->readable_mr =
        diwarp_reg_mr(pd, host->readable, SIM_RD_READABLE_BYTES, IBV_ACCESS_REMOTE_READ);
    host->writable_mr = diwarp_reg_mr(pd, host->writable, host->writable_bytes,
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    host->words_mr = diwarp_reg_mr(pd, host->words, sizeof host->words,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
}

static void free_guarded(uint8_t *buf)
{
    if (buf)
        free(buf - SIM_RD_GUARD_BYTES);
}

static void close_all(struct sim_rd *rd)
{
    sim_world_fini(&rd->world); /* and with it the regions */
    for (unsigned n = 0; n < rd->config.node_count; n++) {
        free_guarded(rd->hosts[n].readable);
        free_guarded(rd->hosts[n].writable);
    }
    for (unsigned i = 0; i < rd->op_count; i++) {
        free_guarded(rd->ops[i].buf);
        free_guarded(rd->ops[i].victim);
        free_guarded(rd->ops[i].snapshot);
    }
}

static void attack(void *arg, const struct sim_endpoint *at, const struct sim_datagram *datagram)
{
    const struct sim_world *world = arg;
    sim_attack_on_receive(&((struct sim_rd *)world->app)->attack, at, datagram);
}

static enum sim_verdict watch(void *arg, const struct sim_endpoint *from, const uint8_t *buf,
                              uint32_t bytes)
{
    struct sim_world *world = arg;
    (void)from, (void)bytes;
    sim_check(world, sim_attack_on_sent(&((struct sim_rd *)world->app)->attack, buf));
    return SIM_PASS;
}

static bool run(uint64_t seed, enum diwarp_auth auth, char *failure, size_t failure_bytes)
{
    struct sim_rd *rd = calloc(1, sizeof *rd);
    if (!rd)
        abort();
    sim_rd_plan(rd, seed);
    rd->config.device.auth = auth;
    sim_attack_init(&rd->attack, seed, auth ? ATTACKS : 0);
    struct sim_world *world = &rd->world;
    sim_world_init(world, &rd->config);
    world->app = rd;
    world->on_step = on_step;
    world->on_wc = on_wc;
    if (auth) {
        world->net.on_receive = attack;
        world->net.filter = watch;
    }
    rd->next_due_ns = DW_NEVER;
    for (unsigned n = 0; n < rd->config.node_count; n++)
        open_host(rd, n);
    for (unsigned i = 0; i < rd->op_count; i++)
        rd->ops[i].post_ns += world->net.now_ns;
    for (unsigned i = 0; i < rd->pause_count; i++)
        rd->pauses[i].at_ns += world->net.now_ns;
    sim_world_run(world, LIMIT_NS);
    if (!world->failed)
        sim_world_check_rest(world);
    if (!world->failed)
        sim_rd_judge(rd);
    bool passed = !world->failed;
    snprintf(failure, failure_bytes, "%s", world->failure);
    close_all(rd);
    sim_attack_fini(&rd->attack);
    free(rd);
    return passed;
}

bool sim_rd_run(uint64_t seed, char *failure, size_t failure_bytes)
{
    return run(seed, DIWARP_AUTH_OFF, failure, failure_bytes);
}

bool sim_rd_auth_run(uint64_t seed, char *failure, size_t failure_bytes)
{
    return run(seed, seed % 2 ? DIWARP_AUTH_GMAC : DIWARP_AUTH_AES_GCM, failure, failure_bytes);
}
