/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: SRQs of UD queue pairs and RC ones, and solicited events. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "test/verbs/rc_pair.h"

/* ---- SRQs ---- */

static struct ibv_srq *make_srq(struct ibv_pd *pd, uint32_t max_wr)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = max_wr, .max_sge = 2}};
    struct ibv_srq *srq = ibv_create_srq(pd, &attr);
    assert_non_null(srq);
    return srq;
}

/* The end's queue pair, with that SRQ. */
static void use(struct end *end, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr attr = attr_of(end);
    attr.srq = srq;
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    end->qp = ibv_create_qp(end->pd, &attr);
    assert_non_null(end->qp);
    make_ready(end);
}

static int post_shared(struct ibv_srq *srq, const struct ibv_mr *mr, uint64_t id, void *at,
                       uint32_t bytes)
{
    struct ibv_sge sge[] = {{(uintptr_t)at, 40, mr->lkey},
                            {(uintptr_t)at + 40, bytes - 40, mr->lkey}};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = sge, .num_sge = 2}, *bad;
    return ibv_post_srq_recv(srq, &wr, &bad);
}

static void ud__takes_from_an_srq(void **state)
{
    (void)state;
    struct end *end = open_end(64);
    struct ibv_srq *srq = make_srq(end->pd, 4);
    struct ibv_async_event event;
    use(end, srq);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), EINVAL);
    struct ibv_srq_attr limit = {.srq_limit = 2};
    for (unsigned round = 0; round < 20; round++) {
        memset(end->memory, (int)round + 1, BYTES);
        for (uint64_t i = 0; i < 4; i++)
            assert_int_equal(
                post_shared(srq, end->mr, 10 + i, end->memory + 1024 + i * 512, 40 + BYTES), 0);
        assert_int_equal(post_shared(srq, end->mr, 9, end->memory + 1024, 40 + BYTES), ENOMEM);
        if (!round)
            assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
        for (uint64_t i = 0; i < 4; i++) {
            assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
            (void)take(end->send_cq);
            const struct ibv_wc wc = take(end->recv_cq);
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.wr_id, 10 + i);
            assert_int_equal(wc.byte_len, 40 + BYTES);
            assert_true(wc.wc_flags & IBV_WC_GRH && wc.wc_flags & IBV_WC_WITH_IMM);
            assert_int_equal(end->memory[1024 + i * 512 + 40], round + 1);
            assert_int_equal(end->memory[1024 + i * 512 + 7], 64); /* its hop limit */
        }
    }
    assert_int_equal(ibv_get_async_event(end->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(event.element.srq, srq);
    ibv_ack_async_event(&event);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0); /* none is posted: lost */
    assert_empty(end->recv_cq);
    assert_int_equal(ibv_destroy_srq(srq), EBUSY);
    assert_int_equal(modify(end, IBV_QPS_ERR, 0), 0);
    assert_empty(end->recv_cq); /* others may fill what is posted there */
    struct ibv_qp_init_attr attr = attr_of(end);
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    end->qp = ibv_create_qp(end->pd, &attr);
    close_end(end);
}

/* Once, however often it is set in error. */
static void ud__is_told_of_its_last_receive(void **state)
{
    (void)state;
    struct end *end = open_end(64);
    struct ibv_srq *srq = make_srq(end->pd, 4);
    struct pollfd readable = {.fd = end->context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    assert_int_equal(modify(end, IBV_QPS_ERR, 0), 0);
    assert_int_equal(poll(&readable, 1, 0), 0); /* without an SRQ */
    use(end, srq);
    assert_int_equal(modify(end, IBV_QPS_ERR, 0), 0);
    assert_int_equal(modify(end, IBV_QPS_ERR, 0), 0);
    assert_int_equal(poll(&readable, 1, 2000), 1);
    assert_int_equal(ibv_get_async_event(end->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    assert_ptr_equal(event.element.qp, end->qp);
    ibv_ack_async_event(&event);
    assert_int_equal(poll(&readable, 1, 0), 0);
    struct ibv_qp_init_attr attr = attr_of(end);
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    end->qp = ibv_create_qp(end->pd, &attr);
    close_end(end);
}

/* Receives that its queue pairs' resets leave, and those that are too short. */
static void ud__leaves_an_srq_whole(void **state)
{
    (void)state;
    struct end *end = open_end(64);
    struct ibv_srq *srq = make_srq(end->pd, 3);
    use(end, srq);
    for (unsigned round = 0; round < 10; round++) {
        assert_int_equal(post_shared(srq, end->mr, 1, end->memory + 1024, 40 + BYTES - 1), 0);
        assert_int_equal(post_shared(srq, end->mr, 2, end->memory + 2048, 40 + BYTES), 0);
        assert_int_equal(post_shared(srq, end->mr, 3, end->memory + 3072, 40 + BYTES), 0);
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        const struct ibv_wc wc = take(end->recv_cq);
        assert_int_equal(wc.wr_id, 1);
        assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
        for (unsigned i = 0; i < 2; i++) /* one comes, and is not polled, before the reset */
            assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        assert_int_equal(take(end->recv_cq).wr_id, 2);
        assert_int_equal(modify(end, IBV_QPS_RESET, 0), 0);
        make_ready(end);
        struct ibv_wc late; /* the last one, if it came only then */
        assert_true(ibv_poll_cq(end->recv_cq, 1, &late) >= 0);
        if (post_shared(srq, end->mr, 4, end->memory + 1024, 40 + BYTES))
            fail_msg("places are lost");
        /* Whatever is left goes. */
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        poll(NULL, 0, 20);
        while (ibv_poll_cq(end->recv_cq, 1, &late) > 0 || ibv_poll_cq(end->send_cq, 1, &late) > 0)
            ;
    }
    struct ibv_qp_init_attr attr = attr_of(end);
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    end->qp = ibv_create_qp(end->pd, &attr);
    close_end(end);
}

/* An SRQ, for a UD queue pair and for pair->qp[1]. */
struct shared {
    struct pair *pair;
    struct ibv_pd *pd; /* its own */
    struct ibv_mr *mr; /* of that, of pair->memory */
    struct ibv_srq *srq;
    struct ibv_qp *ud;
    struct ibv_ah *ah; /* to it */
};

/* The domain of the queue pairs, or another. */
static void open_shared(struct shared *shared, bool other_domain)
{
    struct pair *pair = shared->pair = pair_open(false);
    shared->pd = other_domain ? ibv_alloc_pd(pair->context) : pair->pd;
    shared->mr = other_domain ? ibv_reg_mr(shared->pd, pair->memory, sizeof pair->memory,
                                           IBV_ACCESS_LOCAL_WRITE)
                              : pair->mr;
    assert_non_null(shared->mr);
    shared->srq = make_srq(shared->pd, 8);
    struct ibv_qp_init_attr attr = {.send_cq = pair->send_cq[1],
                                    .recv_cq = pair->recv_cq[1],
                                    .srq = shared->srq,
                                    .cap = {.max_send_wr = 8, .max_send_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = ibv_create_qp(pair->pd, &attr);
    attr.qp_type = IBV_QPT_UD;
    shared->ud = ibv_create_qp(pair->pd, &attr);
    struct end end = {.qp = shared->ud};
    struct ibv_ah_attr ah_attr = {.port_num = 1, .is_global = 1, .grh.dgid = pair->gid};
    shared->ah = ibv_create_ah(pair->pd, &ah_attr);
    assert_true(shared->ud && pair->qp[1] && shared->ah);
    make_ready(&end);
    pair_connect(pair, ALL_ACCESS);
}

static void close_shared(struct shared *shared)
{
    struct pair *pair = shared->pair;
    assert_int_equal(ibv_destroy_ah(shared->ah), 0);
    assert_int_equal(ibv_destroy_qp(shared->ud), 0);
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = NULL;
    assert_int_equal(ibv_destroy_srq(shared->srq), 0);
    if (shared->pd != pair->pd) {
        assert_int_equal(ibv_dereg_mr(shared->mr), 0);
        assert_int_equal(ibv_dealloc_pd(shared->pd), 0);
    }
    pair_close(pair);
}

static void send_ud_to_itself(const struct shared *shared)
{
    struct ibv_sge sge = {(uintptr_t)shared->pair->memory[0], 64, shared->pair->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .wr.ud = {shared->ah, shared->ud->qp_num, QKEY}},
                       *bad;
    assert_int_equal(ibv_post_send(shared->ud, &wr, &bad), 0);
}

static void take_of_both(const struct shared *shared)
{
    struct pair *pair = shared->pair;
    for (uint64_t i = 0; i < 20; i++) {
        memset(pair->memory[0], (int)i + 1, 64);
        assert_int_equal(post_shared(shared->srq, shared->mr, i, pair->memory[1], 4096), 0);
        if (i % 2) {
            pair_post(pair, 0, IBV_WR_SEND, i, 64);
            (void)take(pair->send_cq[0]);
        } else {
            send_ud_to_itself(shared);
        }
        const struct ibv_wc wc = take(pair->recv_cq[1]);
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.qp_num, i % 2 ? pair->qp[1]->qp_num : shared->ud->qp_num);
        assert_int_equal(wc.byte_len, i % 2 ? 64 : 104);
        assert_memory_equal(pair->memory[1] + (i % 2 ? 0 : 40), pair->memory[0], 64);
    }
}

static void srq__of_both(void **state)
{
    (void)state;
    struct shared shared;
    open_shared(&shared, false);
    take_of_both(&shared);
    close_shared(&shared);
}

/* Its receives are of its own domain's regions, whatever that of the queue pair is. */
static void srq__of_another_domain(void **state)
{
    (void)state;
    struct shared shared;
    open_shared(&shared, true);
    take_of_both(&shared);
    struct pair *pair = shared.pair;
    assert_int_equal(post_shared(shared.srq, pair->mr, 1, pair->memory[1], 4096), 0);
    send_ud_to_itself(&shared);
    assert_done(pair->recv_cq[1], 1, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(post_shared(shared.srq, pair->mr, 2, pair->memory[1], 4096), 0);
    pair_post(pair, 0, IBV_WR_SEND, 2, 64);
    assert_done(pair->recv_cq[1], 2, IBV_WC_LOC_PROT_ERR);
    assert_done(pair->send_cq[0], 2, IBV_WC_REM_OP_ERR);
    close_shared(&shared);
}

/* More than the front polls of diwarp at once, twice. */
#define MANY 40

/* A queue pair of RC that may have as many requests, in the place of that one. */
static void use_many(struct pair *pair, unsigned i, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr attr = {.send_cq = pair->send_cq[i],
                                    .recv_cq = pair->recv_cq[i],
                                    .srq = srq,
                                    .cap = {.max_send_wr = MANY + 1,
                                            .max_recv_wr = MANY + 1,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    assert_int_equal(ibv_destroy_qp(pair->qp[i]), 0);
    pair->qp[i] = ibv_create_qp(pair->pd, &attr);
    assert_non_null(pair->qp[i]);
}

/* Receives of queue pair 1, so many in one post, from that number on. */
static void post_many(struct pair *pair, struct ibv_srq *srq, uint64_t first, uint64_t count)
{
    struct ibv_sge sge = {(uintptr_t)pair->memory[1], 4096, pair->mr->lkey};
    struct ibv_recv_wr wr[MANY + 1], *bad;
    for (uint64_t i = 0; i < count; i++)
        wr[i] = (struct ibv_recv_wr){.wr_id = first + i,
                                     .next = i + 1 < count ? &wr[i + 1] : NULL,
                                     .sg_list = &sge,
                                     .num_sge = 1};
    assert_int_equal(srq ? ibv_post_srq_recv(srq, wr, &bad) : ibv_post_recv(pair->qp[1], wr, &bad),
                     0);
}

/* Without a receive queue pair 1 stops reading: the message that waits for one, what confirms its
 * own good Send, behind which is a bad one, and the messages behind that come at once. */
static void come_around_failure(struct pair *pair, struct ibv_srq *srq)
{
    struct ibv_sge keyless = {(uintptr_t)pair->memory[1], 64, 0};
    struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &keyless, .num_sge = 1, .opcode = IBV_WR_SEND},
                       *bad;
    pair_receive(pair, 0, 1);
    pair_post(pair, 0, IBV_WR_SEND, 0, 64);
    assert_empty(pair->recv_cq[1]);
    pair_post(pair, 1, IBV_WR_SEND, 1, 64);
    assert_int_equal(ibv_post_send(pair->qp[1], &wr, &bad), 0);
    assert_done(pair->recv_cq[0], 1, IBV_WC_SUCCESS);
    assert_empty(pair->send_cq[1]);
    for (uint64_t i = 1; i <= MANY; i++)
        pair_post(pair, 0, IBV_WR_SEND, i, 64);
    post_many(pair, srq, 0, MANY + 1);
}

/* A queue pair that fails amid what has come: none of it is lost, and an SRQ keeps its places. */
static void rc__fails_amid_messages(bool with_srq)
{
    struct pair *pair = pair_open(false);
    struct ibv_srq *srq = with_srq ? make_srq(pair->pd, MANY + 1) : NULL;
    use_many(pair, 0, NULL);
    use_many(pair, 1, srq);
    pair_connect(pair, ALL_ACCESS);
    come_around_failure(pair, srq);
    assert_done(pair->send_cq[1], 1, IBV_WC_SUCCESS);
    assert_done(pair->send_cq[1], 2, IBV_WC_LOC_PROT_ERR);
    for (uint64_t i = 0; i <= MANY; i++)
        assert_done(pair->recv_cq[1], i, IBV_WC_SUCCESS);
    for (uint64_t i = 0; i <= MANY; i++) /* as the other side is told */
        assert_done(pair->send_cq[0], i, IBV_WC_SUCCESS);
    if (srq)
        post_many(pair, srq, 0, MANY + 1);
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = NULL;
    if (srq)
        assert_int_equal(ibv_destroy_srq(srq), 0);
    pair_close(pair);
}

static void rc__fails_amid_messages_to_it(void **state)
{
    (void)state;
    rc__fails_amid_messages(false);
}

static void rc__fails_amid_messages_to_an_srq(void **state)
{
    (void)state;
    rc__fails_amid_messages(true);
}

/* ---- solicited events ---- */

static bool wakes(const struct end *end, int wait_ms)
{
    struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
    return poll(&readable, 1, wait_ms) == 1;
}

static void take_event(struct end *end)
{
    struct ibv_cq *cq;
    void *context;
    assert_int_equal(ibv_get_cq_event(end->channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
}

static void send_ud(struct end *end, enum ibv_wr_opcode opcode, unsigned flags)
{
    struct ibv_sge sge = {(uintptr_t)end->memory, BYTES, end->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = flags,
                             .imm_data = 0x01020304,
                             .wr.ud = {end->ah, end->qp->qp_num, QKEY}},
                       *bad;
    assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
}

static void ud__solicits(void **state)
{
    (void)state;
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM};
    struct end *end = open_end(64);
    make_ready(end);
    for (unsigned i = 0; i < 2; i++) {
        for (uint64_t id = 0; id < 2; id++)
            assert_int_equal(post_recv(end, id, 1024, 40 + BYTES), 0);
        assert_int_equal(ibv_req_notify_cq(end->recv_cq, 1), 0);
        send_ud(end, opcodes[i], 0);
        assert_false(wakes(end, 50));
        send_ud(end, opcodes[i], IBV_SEND_SOLICITED);
        assert_true(wakes(end, 2000));
        take_event(end);
        for (uint64_t id = 0; id < 2; id++) {
            const struct ibv_wc wc = take(end->recv_cq);
            assert_int_equal(wc.wc_flags, IBV_WC_GRH | (i ? IBV_WC_WITH_IMM : 0));
            assert_int_equal(wc.imm_data, i ? 0x01020304 : 0);
        }
    }
    /* A completion in error wakes, too. */
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(ibv_req_notify_cq(end->recv_cq, 1), 0);
    assert_int_equal(modify(end, IBV_QPS_ERR, 0), 0);
    assert_true(wakes(end, 2000));
    close_end(end);
}

static void rc__solicits(void **state)
{
    (void)state;
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
                                                 IBV_WR_RDMA_WRITE_WITH_IMM};
    struct pair *pair = pair_open(false);
    struct end end = {.channel = ibv_create_comp_channel(pair->context)};
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    assert_int_equal(ibv_destroy_cq(pair->recv_cq[1]), 0);
    pair->recv_cq[1] = ibv_create_cq(pair->context, 64, NULL, end.channel, 0);
    struct ibv_qp_init_attr attr = {
        .send_cq = pair->send_cq[1],
        .recv_cq = pair->recv_cq[1],
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
    pair->qp[1] = ibv_create_qp(pair->pd, &attr);
    pair_connect(pair, ALL_ACCESS);
    for (unsigned i = 0; i < 3; i++) {
        struct ibv_sge sge = {(uintptr_t)pair->memory[0], 8, pair->mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = opcodes[i],
                                 .wr.rdma = {(uintptr_t)pair->memory[1], pair->mr->rkey}},
                           *bad;
        pair_receive(pair, 1, 1);
        pair_receive(pair, 1, 2);
        assert_int_equal(ibv_req_notify_cq(pair->recv_cq[1], 1), 0);
        assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
        assert_false(wakes(&end, 50));
        wr.send_flags = IBV_SEND_SOLICITED;
        assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
        assert_true(wakes(&end, 2000));
        take_event(&end);
        for (unsigned n = 0; n < 2; n++)
            assert_int_equal(take(pair->recv_cq[1]).wc_flags, i ? IBV_WC_WITH_IMM : 0);
    }
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    assert_int_equal(ibv_destroy_cq(pair->recv_cq[1]), 0);
    assert_int_equal(ibv_destroy_comp_channel(end.channel), 0);
    pair->qp[1] = NULL;
    pair->recv_cq[1] = ibv_create_cq(pair->context, 64, NULL, NULL, 0);
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ud__takes_from_an_srq),
        cmocka_unit_test(ud__is_told_of_its_last_receive),
        cmocka_unit_test(ud__leaves_an_srq_whole),
        cmocka_unit_test(srq__of_both),
        cmocka_unit_test(srq__of_another_domain),
        cmocka_unit_test(rc__fails_amid_messages_to_it),
        cmocka_unit_test(rc__fails_amid_messages_to_an_srq),
        cmocka_unit_test(ud__solicits),
        cmocka_unit_test(rc__solicits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
