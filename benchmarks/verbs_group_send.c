/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender of verbs_group.h, which measures. UD holds nobody back: after each half of a window
 * the sender posts a mark, a Send of one byte, and goes on as soon as every receiver has told by
 * TCP that it has seen the mark before. Marks are posted again until then. */
#include "benchmarks/verbs_group.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "benchmarks/samples.h"

/* A mark that nobody has told of for so long is posted again. Receivers take turns on the cores, so
 * less would post marks that are not lost. */
#define MARK_SECONDS   0.02
#define SILENT_SECONDS 3.0
#define POLL_EVERY     16

struct target {
    struct diwarp_ah *ah;
    uint64_t addr; /* of the window */
    uint32_t stag;
};

struct sender {
    struct group_end *end;
    const int *controls;
    int receivers;
    struct target targets[GROUP_RECEIVERS_MAX];
    int target_count; /* 1: the group */
    uint32_t mark;    /* the last that was posted */
    uint32_t seen[GROUP_RECEIVERS_MAX];
};

/* ---- posts --------------------------------------------------------------------------------- */

/* Nothing is signaled: what completes has failed. */
static void poll_sender(struct group_end *end)
{
    struct diwarp_wc wc;
    const int n = diwarp_poll_cq(end->cq, 1, &wc);
    group_must(n < 0 ? n : 0, "diwarp_poll_cq");
    group_must(n && wc.wc.status != IBV_WC_SUCCESS, "a request has failed");
}

static void post(struct group_end *end, const struct diwarp_send_wr *wr)
{
    const double deadline = samples_now() + SILENT_SECONDS;
    int rc;
    for (unsigned tries = 1; (rc = diwarp_post_send(end->qp, wr)) != 0; tries++) {
        group_must(rc == -EAGAIN || rc == -ENOMEM ? 0 : rc, "diwarp_post_send");
        poll_sender(end);
        group_must(tries % POLL_EVERY == 0 && samples_now() > deadline, "nothing can be sent");
    }
}

/* To all; with a mark other than 0 a Send that bears it. */
static void post_to_all(struct sender *s, uint32_t bytes, size_t at, uint32_t mark)
{
    struct ibv_sge sge = {.addr = (uintptr_t)s->end->memory + at, .length = mark ? 1 : bytes};
    for (int i = 0; i < s->target_count; i++) {
        const struct target *target = &s->targets[i];
        struct diwarp_send_wr wr = {.wr = {.sg_list = &sge,
                                           .num_sge = 1,
                                           .opcode = mark ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
                                           .imm_data = mark},
                                    .ah = target->ah};
        if (!mark && s->end->plan->write) {
            wr.wr.opcode = IBV_WR_RDMA_WRITE;
            wr.wr.wr.rdma.remote_addr = target->addr + at;
            wr.wr.wr.rdma.rkey = target->stag;
        } else {
            wr.wr.wr.ud.remote_qkey = GROUP_QKEY;
        }
        post(s->end, &wr);
    }
}

/* ---- pace ---------------------------------------------------------------------------------- */

/* Whether all have seen that mark. */
static bool is_seen(struct sender *s, uint32_t mark)
{
    struct verbs_message message;
    bool all = true;
    for (int i = 0; i < s->receivers; i++) {
        while (s->seen[i] < mark && group_hear_now(s->controls[i], &message))
            s->seen[i] = (uint32_t)message.mark;
        all = all && s->seen[i] >= mark;
    }
    return all;
}

static void await_mark(struct sender *s, uint32_t mark)
{
    const double begin = samples_now();
    double again = begin + MARK_SECONDS;
    while (!is_seen(s, mark)) {
        const double now = samples_now();
        group_must(now - begin > SILENT_SECONDS, "a receiver is silent");
        poll_sender(s->end);
        (void)sched_yield();
        if (now < again)
            continue;
        post_to_all(s, 1, 0, s->mark);
        again = now + MARK_SECONDS;
    }
}

/* Returns how many messages, each to all. */
static uint64_t post_until(struct sender *s, uint32_t bytes, double stop)
{
    const uint32_t half = verbs_window(bytes) / 2;
    uint64_t posted = 0;
    do {
        post_to_all(s, bytes, verbs_place(posted, bytes), 0);
        posted++;
        if (posted % POLL_EVERY == 0)
            poll_sender(s->end);
        if (posted % half == 0) {
            post_to_all(s, 1, 0, ++s->mark);
            await_mark(s, s->mark - 1);
        }
    } while (samples_now() < stop);
    post_to_all(s, 1, 0, ++s->mark);
    await_mark(s, s->mark);
    return posted;
}

/* ---- measures ------------------------------------------------------------------------------ */

static void tell_all(struct sender *s, const struct verbs_message *message)
{
    for (int i = 0; i < s->receivers; i++)
        raw_tell(s->controls[i], message, sizeof *message);
}

static void hear_all(struct sender *s, enum verbs_word word, struct verbs_message *answers)
{
    for (int i = 0; i < s->receivers; i++) {
        do
            raw_hear(s->controls[i], &answers[i], sizeof *answers);
        while (answers[i].word == VERBS_CREDIT);
        group_must(answers[i].word != word, "a receiver says something else");
    }
}

static void print(const struct sender *s, uint32_t bytes, uint64_t posted, double first,
                  const struct verbs_message *results)
{
    double last = first, slowest = 0, fastest = 0;
    uint64_t whole = 0, partial = 0, valid_bytes = 0;
    for (int i = 0; i < s->receivers; i++) {
        const struct verbs_counts *counts = &results[i].counts;
        const double rate = verbs_rate(counts->received * bytes, results[i].last - first);
        slowest = !i || rate < slowest ? rate : slowest;
        fastest = rate > fastest ? rate : fastest;
        last = results[i].last > last ? results[i].last : last;
        whole += counts->received;
        partial += counts->partial;
        valid_bytes += counts->valid_bytes;
    }
    printf("group bytes=%u MBps=%.3f valid_MBps=%.3f slowest_MBps=%.3f fastest_MBps=%.3f "
           "lost_percent=%.3f posted=%lu whole=%lu partial=%lu\n",
           bytes, verbs_rate(whole * bytes, last - first), verbs_rate(valid_bytes, last - first),
           slowest, fastest, verbs_lost_percent(posted * (uint64_t)s->receivers, whole),
           (unsigned long)posted, (unsigned long)whole, (unsigned long)partial);
    fflush(stdout);
}

static void measure(struct sender *s, uint32_t bytes)
{
    struct verbs_message answers[GROUP_RECEIVERS_MAX];
    tell_all(s, &(struct verbs_message){.word = VERBS_STREAM, .bytes = bytes});
    hear_all(s, VERBS_READY, answers);
    const double first = samples_now();
    const uint64_t posted = post_until(s, bytes, first + s->end->plan->seconds);
    tell_all(s, &(struct verbs_message){.word = VERBS_DONE, .count = posted});
    hear_all(s, VERBS_RESULT, answers);
    print(s, bytes, posted, first, answers);
}

/* ---- addresses ----------------------------------------------------------------------------- */

static void meet(struct sender *s)
{
    const struct group_plan *plan = s->end->plan;
    struct group_hello hello;
    struct diwarp_address address;
    for (int i = 0; i < s->receivers; i++) {
        raw_hear(s->controls[i], &hello, sizeof hello);
        if (plan->way != GROUP_UNICAST)
            continue;
        struct target *target = &s->targets[s->target_count++];
        *target = (struct target){.addr = hello.addr, .stag = hello.stag};
        const int rc = diwarp_address_unpack(&address, hello.address, sizeof hello.address);
        group_must(rc < 0 ? rc : 0, "diwarp_address_unpack");
        group_must(diwarp_create_ah(s->end->qp, &address, &target->ah), "diwarp_create_ah");
    }
    if (plan->way == GROUP_UNICAST)
        return;
    s->targets[0].stag = GROUP_STAG;
    s->target_count = 1;
    group_must(diwarp_create_group_ah(s->end->qp, &plan->group, &s->targets[0].ah),
               "diwarp_create_group_ah");
}

void group_send_all(struct group_end *end, const int *controls)
{
    struct sender s = {.end = end, .controls = controls, .receivers = end->plan->receivers};
    meet(&s);
    for (int i = 0; i < end->plan->sizes.count; i++)
        measure(&s, (uint32_t)end->plan->sizes.bytes[i]);
    tell_all(&s, &(struct verbs_message){.word = VERBS_BYE});
    for (int i = 0; i < s.target_count; i++)
        diwarp_destroy_ah(s.targets[i].ah);
}
