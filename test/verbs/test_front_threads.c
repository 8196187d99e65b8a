/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front, used by two threads at once, as ibv_post_send(3) and ibv_poll_cq(3) allow. Built
 * with CFLAGS='-O1 -g -fsanitize=thread' it runs under ThreadSanitizer, with the front preloaded:
 * LD_PRELOAD=.libs/libdiwarp-verbs.so setarch -R test/verbs/test_front_threads */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "test/verbs/end.h"

#define THREADS    2
#define MESSAGES   2000u /* of each thread */
#define RECV_AT    1024  /* of end->memory: a buffer of RECV_BYTES for each thread */
#define RECV_BYTES (40 + BYTES)
#define POLLS      20000000u

struct sender {
    struct end *end;
    struct ibv_qp *qp; /* to itself */
    uint32_t index;
    uint32_t buffer; /* that no receive has */
    const char *failure;
};

static atomic_uint ended[THREADS][MESSAGES];

static int post_buffer(const struct sender *sender)
{
    struct ibv_sge sge = {(uintptr_t)sender->end->memory + RECV_AT + sender->buffer * RECV_BYTES,
                          RECV_BYTES, sender->end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = sender->buffer, .sg_list = &sge, .num_sge = 1}, *bad;
    return ibv_post_recv(sender->qp, &wr, &bad);
}

static int post_message(const struct sender *sender, uint32_t number)
{
    uint8_t *message = sender->end->memory + sender->index * BYTES;
    memset(message, (int)number, BYTES);
    struct ibv_sge sge = {(uintptr_t)message, BYTES, sender->end->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = (uint64_t)sender->index << 32 | number,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {sender->end->ah, sender->qp->qp_num, QKEY}},
                       *bad;
    return ibv_post_send(sender->qp, &wr, &bad);
}

/* Of this thread or the other; false: none came. */
static bool take_one(struct ibv_cq *cq, struct ibv_wc *wc)
{
    int n = 0;
    for (unsigned i = 0; i < POLLS && !n; i++)
        n = ibv_poll_cq(cq, 1, wc);
    return n == 1 && wc->status == IBV_WC_SUCCESS;
}

static bool is_whole(const uint8_t *message)
{
    return !memcmp(message, message + 1, BYTES - 1);
}

/* A thread waits for as many completions as it has posted requests, whosever they are. */
static const char *exchange(struct sender *sender, uint32_t number)
{
    struct ibv_wc wc;
    if (post_buffer(sender))
        return "a receive is not posted";
    if (post_message(sender, number))
        return "a Send is not posted";
    if (!take_one(sender->end->send_cq, &wc))
        return "no Send completes";
    atomic_fetch_add(&ended[wc.wr_id >> 32][(uint32_t)wc.wr_id], 1);
    if (!take_one(sender->end->recv_cq, &wc) || wc.byte_len != RECV_BYTES)
        return "no receive completes";
    sender->buffer = (uint32_t)wc.wr_id;
    return is_whole(sender->end->memory + RECV_AT + sender->buffer * RECV_BYTES + 40)
               ? NULL
               : "a message is mixed with another";
}

static void *run(void *arg)
{
    struct sender *sender = arg;
    for (uint32_t i = 0; i < MESSAGES && !sender->failure; i++)
        sender->failure = exchange(sender, i);
    return NULL;
}

static void run_both(struct end *end, struct ibv_qp *const qps[THREADS])
{
    struct sender senders[THREADS];
    pthread_t threads[THREADS];
    memset(ended, 0, sizeof ended);
    for (uint32_t i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){.end = end, .qp = qps[i], .index = i, .buffer = i};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &senders[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        if (senders[i].failure)
            fail_msg("thread %u: %s", i, senders[i].failure);
        for (unsigned j = 0; j < MESSAGES; j++)
            assert_int_equal(ended[i][j], 1);
    }
    assert_empty(end->send_cq);
    assert_empty(end->recv_cq);
}

static void threads__on_one_queue_pair(void **state)
{
    (void)state;
    struct end *end = open_end(16);
    make_ready(end);
    run_both(end, (struct ibv_qp *[]){end->qp, end->qp});
    close_end(end);
}

static void threads__on_two_that_share_cqs(void **state)
{
    (void)state;
    struct end *end = open_end(16);
    struct ibv_qp_init_attr attr = attr_of(end);
    struct ibv_qp *first = end->qp;
    make_ready(end);
    end->qp = ibv_create_qp(end->pd, &attr);
    assert_non_null(end->qp);
    make_ready(end);
    run_both(end, (struct ibv_qp *[]){first, end->qp});
    assert_int_equal(ibv_destroy_qp(first), 0);
    close_end(end);
}

/* Sleeps for each message; the other thread and the helper's run the RNIC. */
static void *sleep_for_events(void *arg)
{
    struct sender *sender = arg;
    struct end *end = sender->end;
    for (uint32_t i = 0; i < MESSAGES / 10 && !sender->failure; i++) {
        struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
        struct ibv_cq *cq;
        struct ibv_wc wc;
        void *context;
        if (ibv_req_notify_cq(end->recv_cq, 0) || post_buffer(sender))
            sender->failure = "not asked for";
        else if (poll(&readable, 1, 5000) != 1 || ibv_get_cq_event(end->channel, &cq, &context))
            sender->failure = "no event";
        else if (ibv_poll_cq(end->recv_cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
            sender->failure = "no receive completes";
        else
            ibv_ack_cq_events(cq, 1);
    }
    atomic_store(&ended[0][0], 1);
    return NULL;
}

static void threads__one_sleeps(void **state)
{
    (void)state;
    struct end *end = open_end(16);
    struct sender sleeper = {.end = end, .qp = end->qp};
    struct sender sender = {.end = end, .qp = end->qp, .index = 1};
    pthread_t thread;
    struct ibv_wc wc;
    make_ready(end);
    memset(ended, 0, sizeof ended);
    assert_int_equal(pthread_create(&thread, NULL, sleep_for_events, &sleeper), 0);
    while (!atomic_load(&ended[0][0])) { /* what finds no receive is dropped */
        assert_int_equal(post_message(&sender, 0), 0);
        assert_true(take_one(end->send_cq, &wc));
        poll(NULL, 0, 1);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (sleeper.failure)
        fail_msg("%s", sleeper.failure);
    close_end(end);
}

static const char *make_and_end(const struct end *end)
{
    struct ibv_qp_init_attr attr = attr_of(end);
    struct ibv_ah_attr ah_attr = {.port_num = 1, .is_global = 1};
    if (ibv_query_gid(end->context, 1, 0, &ah_attr.grh.dgid))
        return "no GID";
    struct ibv_mr *mr = ibv_reg_mr(end->pd, (void *)end->memory, 100, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_ah *ah = ibv_create_ah(end->pd, &ah_attr);
    struct ibv_qp *qp = ibv_create_qp(end->pd, &attr);
    struct ibv_cq *cq = ibv_create_cq(end->context, 8, NULL, end->channel, 0);
    if (!mr || !ah || !qp || !cq)
        return "not made";
    return ibv_destroy_cq(cq) || ibv_destroy_qp(qp) || ibv_destroy_ah(ah) || ibv_dereg_mr(mr)
               ? "not ended"
               : NULL;
}

static void *make_objects(void *arg)
{
    struct sender *sender = arg;
    for (unsigned i = 0; i < MESSAGES / 10 && !sender->failure; i++)
        sender->failure = make_and_end(sender->end);
    return NULL;
}

static void threads__one_makes_objects(void **state)
{
    (void)state;
    struct end *end = open_end(16);
    struct sender maker = {.end = end}, sender = {.end = end, .qp = end->qp};
    pthread_t thread;
    make_ready(end);
    memset(ended, 0, sizeof ended);
    assert_int_equal(pthread_create(&thread, NULL, make_objects, &maker), 0);
    (void)run(&sender);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (maker.failure || sender.failure)
        fail_msg("%s", maker.failure ? maker.failure : sender.failure);
    close_end(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads__on_one_queue_pair),
        cmocka_unit_test(threads__on_two_that_share_cqs),
        cmocka_unit_test(threads__one_sleeps),
        cmocka_unit_test(threads__one_makes_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
