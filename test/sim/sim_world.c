/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/sim/sim_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/unit/random.h"

/* Of a node with so many records all are looked at in one step of so many. */
#define CHECK_RECORDS_MAX 1000
#define CHECK_SELDOM      256

#define TICK_NS   1000      /* one round of polls */
#define STEPS_MAX 400000000 /* 400 s where a timer is due at each; slow, lossy worlds take 50 */
#define MAX_WC    16
/* From one network to the next. */
#define MTU_STEP_BYTES 100
#define SIM_JOB        7

void sim_fail(struct sim_world *world, const char *format, ...)
{
    if (world->failed)
        return;
    world->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(world->failure, sizeof world->failure, format, args);
    va_end(args);
}

/* A prime: payloads that differ in number differ everywhere, and shifted data never matches. */
#define PATTERN_BYTES 65521
static uint8_t pattern[PATTERN_BYTES];

/* The longest run of payload `id` at `from` that lies in one piece; its length in *bytes. */
static const uint8_t *pattern_at(uint32_t id, uint64_t from, size_t *bytes)
{
    static bool filled;
    if (!filled) {
        uint64_t state = 1;
        for (size_t i = 0; i < PATTERN_BYTES; i++)
            pattern[i] = (uint8_t)random_next(&state);
        filled = true;
    }
    size_t at = (size_t)(((uint64_t)id * 7919 + from) % PATTERN_BYTES);
    if (*bytes > PATTERN_BYTES - at)
        *bytes = PATTERN_BYTES - at;
    return pattern + at;
}

void sim_pattern_fill(uint32_t id, uint64_t from, uint8_t *buf, size_t bytes)
{
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done;
        const uint8_t *piece = pattern_at(id, from + done, &n);
        memcpy(buf + done, piece, n);
    }
}

bool sim_pattern_matches(uint32_t id, uint64_t from, const uint8_t *buf, size_t bytes)
{
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done;
        const uint8_t *piece = pattern_at(id, from + done, &n);
        if (memcmp(buf + done, piece, n))
            return false;
    }
    return true;
}

bool sim_all_bytes(const uint8_t *buf, uint8_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (buf[i] != value)
            return false;
    return true;
}

/* ---- making ---- */

static uint8_t host_of(const struct sim_world *world, unsigned index)
{
    const uint8_t host = world->config.hosts[index];
    return host ? host : (uint8_t)(index + 1);
}

static uint64_t virtual_now_ns(void *arg)
{
    const struct sim_node *node = arg;
    return node->world->net.now_ns;
}

static int open_llp(void *arg, const struct diwarp_device_attr *attr, const struct dw_llp_addr *at,
                    struct diwarp_counters *counters, struct dw_llp **llp,
                    struct diwarp_diagnosis *why)
{
    struct sim_node *node = arg;
    (void)at, (void)why;
    return sim_net_open(&node->world->net, host_of(node->world, node->index), node, attr, counters,
                        llp);
}

void sim_config_init(struct sim_config *config, uint64_t seed)
{
    *config = (struct sim_config){
        .seed = seed,
        .node_count = 2,
        .job = SIM_JOB,
        .mtu_bytes = 1500,
        .networks = 1,
        .start_ns = 1000000000,
        .impairment = {.delay_ns = 5000, .bytes_per_ns = 12.5},
    };
    diwarp_device_attr_init(&config->device);
    diwarp_qp_attr_init(&config->qp);
}

void sim_node_open(struct sim_world *world, unsigned index)
{
    struct sim_node *node = &world->nodes[index];
    const struct sim_config *config = &world->config;
    *node = (struct sim_node){.world = world, .index = index};
    for (unsigned n = 0; n < config->networks; n++)
        node->interfaces[n] = (struct diwarp_interface){
            .name = {'s', 'i', 'm', (char)(config->one_interface ? '0' : '0' + n)},
            .family = AF_INET,
            .prefix_bits = 24,
            .mtu_bytes = config->mtu_bytes - (config->alike ? 0 : n * MTU_STEP_BYTES),
            .ip = {10, 0, (uint8_t)n, host_of(world, index)},
        };
    struct dw_env env = {
        .now_ns = virtual_now_ns,
        .open_llp = open_llp,
        .arg = node,
        .seed = random_next(&world->random_state) | 1,
        .first_serial = config->first_serial,
        .rest_ns = config->rest_ns,
        .forget_ns = config->forget_ns,
        .interfaces = node->interfaces,
        .interface_count = config->networks,
    };
    struct diwarp_device_attr attr = config->device;
    attr.flows = config->flows[index] ? config->flows[index] : attr.flows;
    attr.name = (struct diwarp_name){.job = config->job, .rank = index};
    struct diwarp_diagnosis why;
    struct diwarp_qp_attr qp_attr = config->qp;
    if (dw_device_open(&attr, &env, &node->device, &why) ||
        !(node->pd = diwarp_alloc_pd(node->device)) ||
        !(node->cq = diwarp_create_cq(node->device, 64)))
        abort();
    qp_attr.cq = node->cq;
    if (diwarp_create_qp(node->pd, &qp_attr, &node->qp, &why))
        abort();
}

void sim_node_connect(struct sim_node *node, const struct sim_node *to)
{
    struct diwarp_address address;
    diwarp_query_address(to->qp, &address);
    if (node->ahs[to->index])
        diwarp_destroy_ah(node->ahs[to->index]);
    if (diwarp_create_ah(node->qp, &address, &node->ahs[to->index]))
        abort();
}

void sim_node_close(struct sim_node *node)
{
    if (!node->qp)
        return;
    for (unsigned i = 0; i < SIM_MAX_NODES; i++)
        if (node->ahs[i])
            diwarp_destroy_ah(node->ahs[i]);
    diwarp_destroy_qp(node->qp);
    diwarp_destroy_cq(node->cq);
    diwarp_dealloc_pd(node->pd);
    diwarp_close_device(node->device);
    *node = (struct sim_node){.world = node->world, .index = node->index};
}

void sim_world_init(struct sim_world *world, const struct sim_config *config)
{
    *world = (struct sim_world){.config = *config, .wake_ns = DW_NEVER};
    world->random_state = config->seed * 2 + 1;
    sim_net_init(&world->net, config->seed * 2);
    world->net.impairment = config->impairment;
    world->net.path_mtu_bytes = config->path_mtu_bytes;
    world->net.ecmp = config->ecmp;
    world->net.gro = config->gro;
    world->net.now_ns = config->start_ns;
    world->net.arg = world;
    for (unsigned i = 0; i < config->node_count; i++)
        sim_node_open(world, i);
    for (unsigned i = 0; i < config->node_count; i++)
        for (unsigned j = 0; j < config->node_count; j++)
            if (i != j && (!config->strangers || i > j))
                sim_node_connect(&world->nodes[i], &world->nodes[j]);
}

void sim_world_fini(struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.node_count; i++)
        sim_node_close(&world->nodes[i]);
    sim_net_fini(&world->net);
}

/* ---- invariants at each step ---- */

/* What waits, and is on its way, of what the peer is told. */
static void check_answers(struct sim_world *world, const struct dw_peer *peer)
{
    unsigned answers = 0, refusals = 0;
    if (!dw_peer_is_live(peer))
        return;
    dw_list_foreach (it, &peer->pending) {
        const struct dw_work *work = dw_container(it, struct dw_work, link);
        answers += work->answer;
        refusals += work->refusal;
    }
    dw_list_foreach (it, &peer->sendwin.unacked)
        refusals += dw_container(it, struct dw_datagram, tx.link)->refusals;
    if (peer->open)
        refusals += peer->open->refusals;
    sim_check(world, peer->answers == answers);
    sim_check(world, peer->refusals == refusals);
}

/* What counts against the bound of requests to it, and of records that it asks for. */
static void check_counts(struct sim_world *world, const struct dw_peer *peer)
{
    unsigned queued = 0, own = 0, asked = 0;
    const struct dw_list *works[] = {&peer->pending, &peer->awaiting};
    for (unsigned i = 0; i < 2; i++)
        dw_list_foreach (w, works[i])
            queued += dw_container(w, struct dw_work, link)->qp != NULL;
    dw_foreach (record, const struct dw_record, link, &peer->records.ends)
        *(record->region ? &asked : &own) += 1;
    sim_check(world, peer->queued == queued);
    sim_check(world, peer->records.own_count == own);
    sim_check(world, peer->records.asked_count == asked);
}

static uint64_t due_of(const struct dw_record *sink)
{
    return dw_grant_is_free(sink) ? 0 : dw_record_charge(sink, dw_record_sink_due_bytes(&sink->in));
}

static void check_due(struct sim_world *world, const struct dw_peer *peer)
{
    uint64_t due = 0;
    dw_foreach (record, const struct dw_record, link, &peer->records.ends)
        due += record->is_sink ? due_of(record) : 0;
    sim_check(world, peer->records.due_bytes == due);
    sim_check(world, due || !peer->records.aside);
}

static void check_peer(struct sim_world *world, const struct dw_peer *peer)
{
    check_due(world, peer);
    check_counts(world, peer);
    check_answers(world, peer);
    const struct dw_sendwin *win = &peer->sendwin;
    sim_check(world, win->count <= win->max_datagrams);
    sim_check(world, win->max_datagrams <= DW_WINDOW_DATAGRAMS);
    if (win->count) {
        const struct dw_tx *oldest = dw_container(win->unacked.next, struct dw_tx, link);
        sim_check(world, win->next_psn - oldest->psn <= win->max_datagrams);
    }
}

/* Whoever may be granted something some day is in the list, or something will put it back there. */
static void check_want(struct sim_world *world, const struct dw_record *sink)
{
    const struct dw_record_peer *peer = sink->peer;
    const bool lacks = sink->in.granted < sink->in.total;
    const bool wants = sink->state == DW_RECORD_WANTING;
    const struct dw_record *oldest =
        dw_container(peer->want.next, const struct dw_record, turn_link);
    if (wants || sink->state == DW_RECORD_ASKING)
        sim_check(world, lacks && (wants || !sink->region));
    else
        sim_check(world,
                  !lacks && (sink->state == DW_RECORD_GRANTED || sink->state == DW_RECORD_HELD));
    sim_check(world, dw_list_linked(&sink->turn_link) == wants);
    if (wants)
        sim_check(world, peer->due_bytes || dw_list_linked(&oldest->grant_link));
}

/* What a silent peer was granted may come beyond the budget, once it runs again. */
static void check_grants(struct sim_world *world, struct sim_node *node)
{
    const struct dw_rd *rd = sim_rd_of(node);
    uint64_t due = 0;
    bool any_aside = false;
    const struct dw_record *sink;
    for (size_t slot = 0; (sink = dw_map_next(&rd->records.ends, &slot));) {
        if (!sink->is_sink)
            continue;
        due += sink->peer->aside ? 0 : due_of(sink);
        any_aside |= sink->peer->aside;
        check_want(world, sink);
    }
    sim_check(world, rd->records.due_bytes == due);
    node->set_aside = any_aside || (node->set_aside && due > rd->records.grant_budget_bytes);
    sim_check(world, due <= rd->records.grant_budget_bytes || node->set_aside);
}

static void check_step(struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.node_count; i++) {
        struct diwarp_qp *qp = world->nodes[i].qp;
        if (!qp)
            continue;
        const struct dw_datagrams *datagrams = &qp->port->datagrams;
        sim_check(world, datagrams->pool.touched_bytes <= qp->port->device->attr.send_pool_bytes);
        sim_check(world, !datagrams->counters.drop_window);
        sim_check(world, !datagrams->counters.drop_truncated);
        if (qp->attr.type != DIWARP_QPT_RD)
            continue;
        const struct dw_rd *rd = qp->state;
        sim_check(world, rd->assembly_bytes <= (2u << 20) + qp->attr.max_msg_bytes);
        dw_list_foreach (it, &rd->awake)
            world->nodes[i].set_aside |=
                dw_container(it, struct dw_peer, awake_link)->records.aside;
        if (rd->records.ends.count > CHECK_RECORDS_MAX && world->steps % CHECK_SELDOM)
            continue;
        check_grants(world, &world->nodes[i]);
        dw_list_foreach (it, &rd->awake)
            check_peer(world, dw_container(it, struct dw_peer, awake_link));
    }
}

/* ---- running ---- */

static bool running(const struct sim_node *node)
{
    return node->qp && node->paused_until_ns <= node->world->net.now_ns;
}

static bool poll_node(struct sim_node *node)
{
    struct sim_world *world = node->world;
    struct diwarp_wc wc[MAX_WC];
    if (node->unpolled) {
        (void)diwarp_run_cq(node->cq);
        return false;
    }
    if (world->config.helper && sim_random_below(&world->random_state, 2)) {
        (void)diwarp_run_cq(node->cq);
        return node->cq->ring.count > 0;
    }
    unsigned n = 1 + (unsigned)sim_random_below(&world->random_state, MAX_WC);
    int taken = diwarp_poll_cq(node->cq, n, wc);
    for (int i = 0; i < taken && world->on_wc; i++)
        world->on_wc(world, node, &wc[i]);
    return taken > 0;
}

/* When something happens next; now or earlier: go on at once. */
static uint64_t next_event_ns(const struct sim_world *world)
{
    uint64_t next_ns = sim_net_next_ns(&world->net);
    if (world->on_step && world->wake_ns < next_ns)
        next_ns = world->wake_ns;
    for (unsigned i = 0; i < world->config.node_count; i++) {
        const struct sim_node *node = &world->nodes[i];
        if (!node->qp)
            continue;
        const struct dw_port *port = node->qp->port;
        uint64_t node_ns = port->runner.ops->next_deadline_ns(&port->runner);
        const struct sim_endpoint *endpoint =
            dw_container(port->datagrams.llp, struct sim_endpoint, llp);
        if (!dw_list_empty(&endpoint->queue) || (node->cq->ring.count && !node->unpolled))
            node_ns = 0;
        if (node_ns < node->paused_until_ns)
            node_ns = node->paused_until_ns;
        if (node_ns < next_ns)
            next_ns = node_ns;
    }
    return next_ns;
}

bool sim_world_step(struct sim_world *world)
{
    bool busy = false;
    sim_net_deliver(&world->net);
    for (unsigned i = 0; i < world->config.node_count; i++)
        if (running(&world->nodes[i]))
            busy |= poll_node(&world->nodes[i]);
    if (world->on_step)
        busy |= world->on_step(world);
    check_step(world);
    if (++world->steps > STEPS_MAX)
        sim_fail(world, "no end after %u steps", STEPS_MAX);
    if (world->failed)
        return false;
    uint64_t next_ns = next_event_ns(world);
    uint64_t soon_ns = world->net.now_ns + TICK_NS;
    if (!busy && next_ns == DW_NEVER)
        return false;
    world->net.now_ns = busy || next_ns < soon_ns ? soon_ns : next_ns;
    return true;
}

void sim_world_run(struct sim_world *world, uint64_t limit_ns)
{
    uint64_t until_ns = world->net.now_ns + limit_ns;
    while (sim_world_step(world))
        if (world->net.now_ns > until_ns)
            sim_fail(world, "no end after %llu ms", (unsigned long long)(limit_ns / 1000000));
}

void sim_world_run_for(struct sim_world *world, uint64_t duration_ns)
{
    uint64_t until_ns = world->net.now_ns + duration_ns;
    while (world->net.now_ns < until_ns && sim_world_step(world))
        ;
}

/* ---- at rest ---- */

/* Every peer is at rest, so nothing of any can be left over; and the pools are as at first. */
static void check_rd_rest(struct sim_world *world, const struct dw_rd *rd)
{
    sim_check(world, dw_list_empty(&rd->awake));
    sim_check(world, !rd->awake_count);
    sim_check(world, !rd->work_count);
    sim_check(world, rd->free_assembly_count == 1);
    sim_check(world, !rd->assembly_count);
    sim_check(world, !rd->assembly_bytes);
    sim_check(world, dw_list_empty(&rd->flush));
    sim_check(world, dw_list_empty(&rd->full));
    sim_check(world, !rd->records.due_bytes);
    sim_check(world, !rd->records.ends.count);
    sim_check(world, dw_list_empty(&rd->records.want));
    sim_check(world, dw_list_empty(&rd->records.ready));
}

static void check_qp_rest(struct sim_world *world, const struct diwarp_qp *qp)
{
    const struct dw_port *port = qp->port;
    if (qp->attr.type == DIWARP_QPT_RD)
        check_rd_rest(world, qp->state);
    sim_check(world, !qp->cq->ring.count);
    sim_check(world, qp->cq->ring.capacity <= 64);
    sim_check(world, !port->trim_timer.slot);
    sim_check(world, !port->timers.count);
    sim_check(world, port->timers.reserved == 1); /* for trim_timer */
    sim_check(world, port->datagrams.pool.chunk_count <= 1);
    sim_check(world, !port->datagrams.pool.used);
    sim_check(world, port->datagrams.arena.touched <= DW_LLP_SLOT_BYTES);
}

void sim_world_check_rest(struct sim_world *world)
{
    /* Of what has a number that has come before nobody looks at more. */
    uint64_t damaged_drops = 0, replay_drops = 0;
    const uint64_t damaged = world->net.corrupted_received + world->net.forged_received;
    bool all_run = true;
    for (unsigned i = 0; i < world->config.node_count; i++) {
        const struct sim_node *node = &world->nodes[i];
        if (!running(node)) {
            all_run = false;
            continue;
        }
        const struct diwarp_counters *counters = diwarp_query_counters(node->qp);
        damaged_drops += counters->drop_crc + counters->drop_short + counters->drop_version +
                         counters->drop_header + counters->drop_token + counters->drop_auth;
        replay_drops += counters->drop_replay;
        check_qp_rest(world, node->qp);
    }
    if (all_run && !world->failed &&
        (damaged_drops > damaged || damaged_drops + replay_drops < damaged))
        sim_fail(world, "%llu damaged datagrams came, %llu were dropped as such",
                 (unsigned long long)damaged, (unsigned long long)damaged_drops);
}
