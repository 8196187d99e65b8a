/* SPDX-License-Identifier: BSD-3-Clause */
/* A receiver of verbs_group.h. There may be more of them than cores: each sleeps while nothing
 * comes. */
#include "benchmarks/verbs_group.h"
#include "common/include/diwarp_ud.h"

#include <errno.h>
#include <stdio.h>

#include "benchmarks/samples.h"

#define POLLED 16
/* How late a word of the sender's may be heard; no measured time depends on it. */
#define WAIT_NS 2000000u
/* After the last post: partial records are handed over later, and nothing else comes. */
#define QUIET_SECONDS (1e-9 * VERBS_RECORD_NS + 0.05)
/* A sender that is silent for so long is gone. */
#define SENDER_SECONDS 30.0
#define GOING_ON       UINT64_MAX

struct receiver {
    struct group_end *end;
    int control;
    uint32_t bytes_max;
    struct verbs_counts counts;
    uint32_t told; /* the highest mark that the sender was told of */
    double moved;  /* when something came last */
    double last;   /* when something whole came last, or a new mark */
};

/* ---- what comes ---------------------------------------------------------------------------- */

static void post_receive(struct receiver *r, uint64_t slot)
{
    const uint64_t slots = VERBS_MEMORY_BYTES / r->bytes_max;
    struct ibv_sge sge = {.addr = (uintptr_t)r->end->memory + slot % slots * r->bytes_max,
                          .length = r->bytes_max};
    const struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};
    group_must(diwarp_post_recv(r->end->qp, &wr), "diwarp_post_recv");
}

static void take_record(struct receiver *r, struct diwarp_record *record)
{
    struct diwarp_record_info info;
    diwarp_query_record(record, &info);
    r->counts.valid_bytes += info.valid_bytes;
    *(info.full ? &r->counts.received : &r->counts.partial) += 1;
    if (info.full)
        r->last = r->moved;
    diwarp_release_record(record);
}

static void take_send(struct receiver *r, const struct ibv_wc *wc)
{
    if (!(wc->wc_flags & IBV_WC_WITH_IMM)) {
        r->counts.received++;
        r->counts.valid_bytes += wc->byte_len;
        r->last = r->moved;
    } else if (wc->imm_data > r->counts.mark) {
        r->counts.mark = wc->imm_data;
        r->last = r->moved;
    }
    post_receive(r, wc->wr_id);
}

/* False: nothing has come for a while. */
static bool take(struct receiver *r)
{
    struct diwarp_wc wc[POLLED];
    const uint64_t token = r->end->plan->way == GROUP_UNICAST ? 0 : r->end->plan->group.token;
    const int n = diwarp_wait_cq(r->end->cq, POLLED, wc, WAIT_NS);
    group_must(n < 0 && n != -EINTR ? n : 0, "diwarp_wait_cq");
    if (n > 0)
        r->moved = samples_now();
    for (int i = 0; i < n; i++) {
        group_must(wc[i].wc.status != IBV_WC_SUCCESS, "a receive has failed");
        group_must(wc[i].group != token, "a message came another way");
        if (wc[i].record)
            take_record(r, wc[i].record);
        else
            take_send(r, &wc[i].wc);
    }
    if (r->told != r->counts.mark) {
        r->told = (uint32_t)r->counts.mark;
        raw_tell(r->control, &(struct verbs_message){.word = VERBS_CREDIT, .mark = r->told},
                 sizeof(struct verbs_message));
    }
    return n > 0;
}

/* ---- measures ------------------------------------------------------------------------------ */

static bool is_over(const struct receiver *r, uint64_t posted)
{
    const double quiet = samples_now() - r->moved;
    if (posted == GOING_ON) {
        group_must(quiet > SENDER_SECONDS, "the sender is silent");
        return false;
    }
    return quiet > QUIET_SECONDS || r->counts.received + r->counts.partial >= posted;
}

static void receive(struct receiver *r)
{
    struct verbs_message message = {.word = VERBS_READY};
    uint64_t posted = GOING_ON;
    r->counts = (struct verbs_counts){.mark = r->counts.mark};
    r->moved = r->last = samples_now();
    raw_tell(r->control, &message, sizeof message);
    while (!is_over(r, posted)) {
        /* Between two measures nothing comes but a mark that was repeated. */
        if (take(r) || posted != GOING_ON || !group_hear_now(r->control, &message))
            continue;
        group_must(message.word != VERBS_DONE, "the sender says something else");
        posted = message.count;
        r->moved = samples_now();
    }
    message = (struct verbs_message){.word = VERBS_RESULT, .last = r->last, .counts = r->counts};
    raw_tell(r->control, &message, sizeof message);
}

static void serve(struct receiver *r)
{
    struct verbs_message message;
    for (r->moved = samples_now();;) {
        (void)take(r);
        (void)is_over(r, GOING_ON);
        if (!group_hear_now(r->control, &message))
            continue;
        if (message.word != VERBS_STREAM)
            return;
        receive(r);
    }
}

void group_receive_all(struct group_end *end, int control)
{
    const struct group_plan *plan = end->plan;
    struct receiver r = {
        .end = end, .control = control, .bytes_max = (uint32_t)options_largest(&plan->sizes)};
    struct group_hello hello = {.addr = (uintptr_t)end->memory};
    struct diwarp_address address;
    struct diwarp_mr *mr = diwarp_reg_mr(end->pd, end->memory, VERBS_MEMORY_BYTES,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    group_must(mr ? 0 : -errno, "diwarp_reg_mr");
    for (uint64_t slot = 0; slot < VERBS_RECEIVES; slot++)
        post_receive(&r, slot);
    if (plan->way != GROUP_UNICAST)
        group_must(diwarp_attach_group(end->qp, &plan->group, mr, GROUP_STAG),
                   "diwarp_attach_group");
    diwarp_query_address(end->qp, &address);
    const int rc = diwarp_address_pack(&address, hello.address, sizeof hello.address);
    group_must(rc < 0 ? rc : 0, "diwarp_address_pack");
    hello.stag = mr->stag;
    raw_tell(control, &hello, sizeof hello);
    serve(&r);
    if (plan->way != GROUP_UNICAST)
        group_must(diwarp_detach_group(end->qp, &plan->group), "diwarp_detach_group");
    diwarp_dereg_mr(mr);
}
