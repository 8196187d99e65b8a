/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast through the front: groups of queue pairs, and of rdma_cm's ids. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#include "test/verbs/end.h"

#define MCAST_QPN 0xffffff

/* One of IPv4, one as perftest has it, one of IPv6. */
static const union ibv_gid groups[] = {
    {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, 255, 78, 1}},
    {.raw = {0xff, 1, 0, 0, 0, 2, 0xc9, 0x85, [15] = 7}},
    {.raw = {0xff, 0x1e, [14] = 0x4e, 1}},
};
#define GROUPS (sizeof groups / sizeof *groups)

static struct ibv_ah *ah_to(struct end *end, const union ibv_gid *gid)
{
    struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1, .grh = {.dgid = *gid}};
    return ibv_create_ah(end->pd, &attr);
}

static int send_to(struct end *end, struct ibv_ah *ah, uint32_t qpn)
{
    struct ibv_sge sge = {(uintptr_t)end->memory, BYTES, end->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {ah, qpn, QKEY}},
                       *bad;
    return ibv_post_send(end->qp, &wr, &bad);
}

static void send_well(struct end *end, struct ibv_ah *ah)
{
    assert_int_equal(send_to(end, ah, MCAST_QPN), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
}

static void assert_received(struct end *end, const union ibv_gid *group)
{
    const struct ibv_wc wc = take(end->recv_cq);
    const struct ibv_grh *grh = (const void *)(end->memory + 1024);
    union ibv_gid own;
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, BYTES + sizeof *grh);
    assert_true(wc.wc_flags & IBV_WC_GRH);
    assert_memory_equal(&grh->dgid, group, sizeof *group);
    assert_int_equal(ibv_query_gid(end->context, 1, 0, &own), 0);
    assert_memory_equal(&grh->sgid, &own, sizeof own);
    assert_memory_equal(end->memory, end->memory + 1024 + sizeof *grh, BYTES);
}

/* ---- queue pairs ---- */

static void attach__brings_what_is_sent_to_the_group(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    make_ready(end);
    for (unsigned i = 0; i < GROUPS; i++) {
        struct ibv_ah *ah = ah_to(end, &groups[i]);
        assert_non_null(ah);
        memset(end->memory, 0x40 + (int)i, BYTES);
        assert_int_equal(post_recv(end, 1, 1024, 1024), 0);
        send_well(end, ah);
        assert_empty(end->recv_cq);
        assert_int_equal(ibv_attach_mcast(end->qp, &groups[i], 0), 0);
        assert_int_equal(ibv_attach_mcast(end->qp, &groups[i], 0), 0);
        send_well(end, ah);
        assert_received(end, &groups[i]);
        assert_int_equal(ibv_detach_mcast(end->qp, &groups[i], 0), 0);
        assert_int_equal(ibv_detach_mcast(end->qp, &groups[i], 0), EINVAL);
        assert_int_equal(send_to(end, ah, end->qp->qp_num), 0);
        assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
        assert_empty(end->recv_cq);
        assert_int_equal(ibv_destroy_ah(ah), 0);
    }
    close_end(end);
}

/* As InfiniBand has it, a queue pair is attached whatever its state. */
static void attach__outlives_reset(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_ah *ah = ah_to(end, &groups[0]);
    assert_int_equal(ibv_attach_mcast(end->qp, &groups[0], 0), 0);
    for (unsigned i = 0; i < 2; i++) {
        make_ready(end);
        assert_int_equal(post_recv(end, 1, 1024, 1024), 0);
        send_well(end, ah);
        assert_received(end, &groups[0]);
        assert_int_equal(modify(end, IBV_QPS_RESET, 0), 0);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    close_end(end); /* attached */
}

static void attach__of_bad_parameters_is_refused(void **state)
{
    (void)state;
    static const union ibv_gid bad[] = {
        {.raw = {0}},
        {.raw = {0xfe, 0x80, [15] = 1}},
        {.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, 1, 2, 3}},
    };
    struct end *end = open_end(8);
    struct ibv_qp_init_attr attr = attr_of(end);
    struct ibv_device_attr device;
    attr.qp_type = IBV_QPT_RC;
    struct ibv_qp *rc = ibv_create_qp(end->pd, &attr);
    assert_non_null(rc);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ibv_attach_mcast(end->qp, &bad[i], 0), EINVAL);
        assert_int_equal(ibv_detach_mcast(end->qp, &bad[i], 0), EINVAL);
    }
    assert_int_equal(ibv_attach_mcast(end->qp, NULL, 0), EINVAL);
    assert_int_equal(ibv_attach_mcast(rc, &groups[0], 0), EINVAL);
    assert_int_equal(ibv_destroy_qp(rc), 0);

    assert_int_equal(ibv_query_device(end->context, &device), 0);
    union ibv_gid gid = groups[0];
    for (int i = 0; i < device.max_mcast_grp; i++) {
        gid.raw[14] = (uint8_t)i;
        assert_int_equal(ibv_attach_mcast(end->qp, &gid, 0), 0);
    }
    gid.raw[14] = (uint8_t)device.max_mcast_grp;
    assert_int_equal(ibv_attach_mcast(end->qp, &gid, 0), ENOSPC);
    close_end(end);
}

static void create_flags__block_what_the_queue_pair_sends_itself(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_qp_init_attr attr = attr_of(end);
    struct ibv_qp_init_attr_ex all = {.send_cq = attr.send_cq,
                                      .recv_cq = attr.recv_cq,
                                      .cap = attr.cap,
                                      .qp_type = IBV_QPT_UD,
                                      .pd = end->pd,
                                      .comp_mask =
                                          IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
                                      .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB};
    struct ibv_ah *ah = ah_to(end, &groups[0]);
    struct ibv_qp *other = end->qp;
    make_ready(end);
    assert_int_equal(ibv_attach_mcast(other, &groups[0], 0), 0);
    end->qp = ibv_create_qp_ex(end->context, &all);
    assert_non_null(end->qp);
    make_ready(end);
    assert_int_equal(ibv_attach_mcast(end->qp, &groups[0], 0), 0);
    assert_int_equal(post_recv(end, 1, 1024, 1024), 0);

    send_well(end, ah); /* the other one has no receive */
    assert_empty(end->recv_cq);
    struct ibv_qp *blocks = end->qp;
    end->qp = other;
    send_well(end, ah);
    assert_received(end, &groups[0]);
    all.qp_type = IBV_QPT_RC;
    assert_null(ibv_create_qp_ex(end->context, &all));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_destroy_qp(blocks), 0);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    close_end(end);
}

/* ---- ids ---- */

struct joined {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct sockaddr_in group;
};

static void expect(struct joined *joined, enum rdma_cm_event_type type, struct rdma_cm_event *copy)
{
    struct rdma_cm_event *event;
    assert_int_equal(rdma_get_cm_event(joined->channel, &event), 0);
    assert_int_equal(event->event, type);
    if (copy)
        *copy = *event;
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void open_id(struct joined *joined, enum rdma_port_space ps)
{
    joined->channel = rdma_create_event_channel();
    joined->group = (struct sockaddr_in){.sin_family = AF_INET};
    memcpy(&joined->group.sin_addr, groups[0].raw + 12, 4);
    assert_int_equal(rdma_create_id(joined->channel, &joined->id, joined, ps), 0);
}

static void close_id(struct joined *joined)
{
    assert_int_equal(rdma_destroy_id(joined->id), 0);
    rdma_destroy_event_channel(joined->channel);
}

static void join__tells_where_to_send(void **state)
{
    (void)state;
    struct joined joined;
    struct rdma_cm_event event;
    struct sockaddr *address = (struct sockaddr *)&joined.group;
    open_id(&joined, RDMA_PS_UDP);
    assert_int_equal(rdma_join_multicast(joined.id, address, NULL), -1); /* by no device */
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_resolve_addr(joined.id, NULL, address, 1000), 0);
    expect(&joined, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);

    assert_int_equal(rdma_join_multicast(joined.id, address, &joined), 0);
    expect(&joined, RDMA_CM_EVENT_MULTICAST_JOIN, &event);
    assert_ptr_equal(event.param.ud.private_data, &joined);
    assert_int_equal(event.param.ud.qp_num, MCAST_QPN);
    assert_int_equal(event.param.ud.qkey, RDMA_UDP_QKEY);
    assert_memory_equal(&event.param.ud.ah_attr.grh.dgid, &groups[0], sizeof groups[0]);
    assert_int_equal(rdma_join_multicast(joined.id, address, NULL), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(rdma_leave_multicast(joined.id, address), 0);
    assert_int_equal(rdma_leave_multicast(joined.id, address), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    joined.group.sin_addr.s_addr = htonl(0x0a010203);
    assert_int_equal(rdma_join_multicast(joined.id, address, NULL), -1);
    assert_int_equal(errno, EINVAL);
    close_id(&joined);
}

/* A queue pair gets what is sent to the group while its id has joined, unless only to send. */
static void join__attaches_the_queue_pair(void **state)
{
    (void)state;
    struct end *end = open_end(8); /* has the memory */
    struct joined joined;
    struct ibv_qp_init_attr attr = attr_of(end);
    struct ibv_wc wc;
    open_id(&joined, RDMA_PS_UDP);
    struct sockaddr *address = (struct sockaddr *)&joined.group;
    assert_int_equal(rdma_resolve_addr(joined.id, NULL, address, 1000), 0);
    expect(&joined, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
    attr.send_cq = attr.recv_cq = ibv_create_cq(joined.id->verbs, 8, NULL, NULL, 0);
    assert_non_null(attr.send_cq);
    assert_int_equal(rdma_create_qp(joined.id, NULL, &attr), 0);
    struct ibv_mr *mr =
        ibv_reg_mr(joined.id->pd, end->memory, sizeof end->memory, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);

    for (unsigned send_only = 0; send_only < 2; send_only++) {
        struct rdma_cm_join_mc_attr_ex how = {
            .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
            .join_flags =
                send_only ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER : RDMA_MC_JOIN_FLAG_FULLMEMBER,
            .addr = address};
        struct rdma_cm_event event;
        assert_int_equal(rdma_join_multicast_ex(joined.id, &how, NULL), 0);
        expect(&joined, RDMA_CM_EVENT_MULTICAST_JOIN, &event);
        struct ibv_ah *ah = ibv_create_ah(joined.id->pd, &event.param.ud.ah_attr);
        assert_non_null(ah);
        struct ibv_sge to = {(uintptr_t)end->memory + 1024, 1024, mr->lkey};
        struct ibv_sge from = {(uintptr_t)end->memory, 10, mr->lkey};
        struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
        struct ibv_send_wr send = {.sg_list = &from,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .wr.ud = {ah, event.param.ud.qp_num, event.param.ud.qkey}},
                           *bad_send;
        assert_int_equal(ibv_post_recv(joined.id->qp, &recv, &bad_recv), 0);
        assert_int_equal(ibv_post_send(joined.id->qp, &send, &bad_send), 0);
        if (send_only) {
            assert_empty(attr.recv_cq);
        } else {
            wc = take(attr.recv_cq);
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
        }
        assert_int_equal(rdma_leave_multicast(joined.id, address), 0);
        assert_int_equal(ibv_post_send(joined.id->qp, &send, &bad_send), 0);
        assert_empty(attr.recv_cq);
        assert_int_equal(ibv_destroy_ah(ah), 0);
    }
    rdma_destroy_qp(joined.id);
    assert_int_equal(ibv_destroy_cq(attr.send_cq), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close_id(&joined);
    close_end(end);
}

static void join__that_cannot_be_is_told(void **state)
{
    (void)state;
    struct joined joined;
    struct rdma_cm_event event;
    struct rdma_cm_join_mc_attr_ex how = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS};
    open_id(&joined, RDMA_PS_UDP);
    struct sockaddr *address = (struct sockaddr *)&joined.group;
    assert_int_equal(rdma_join_multicast_ex(joined.id, &how, NULL), -1);
    assert_int_equal(errno, EINVAL);
    how.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
    assert_int_equal(rdma_join_multicast_ex(joined.id, &how, NULL), -1);
    assert_int_equal(errno, ENOTSUP);
    assert_int_equal(rdma_resolve_addr(joined.id, NULL, address, 1000), 0);
    expect(&joined, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD};
    assert_int_equal(rdma_create_qp(joined.id, NULL, &attr), 0);
    unsigned count = 0;
    do {
        joined.group.sin_addr.s_addr = htonl(0xefff4f00 + count++);
        assert_int_equal(rdma_join_multicast(joined.id, address, NULL), 0);
        struct rdma_cm_event *got;
        assert_int_equal(rdma_get_cm_event(joined.channel, &got), 0);
        event = *got;
        assert_int_equal(rdma_ack_cm_event(got), 0);
    } while (event.event == RDMA_CM_EVENT_MULTICAST_JOIN && count < 1000);
    assert_int_equal(event.event, RDMA_CM_EVENT_MULTICAST_ERROR);
    assert_int_equal(event.status, -ENOSPC);
    rdma_destroy_qp(joined.id);
    close_id(&joined);

    open_id(&joined, RDMA_PS_TCP);
    assert_int_equal(rdma_resolve_addr(joined.id, NULL, address, 1000), 0);
    expect(&joined, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
    assert_int_equal(rdma_join_multicast(joined.id, address, NULL), -1);
    assert_int_equal(errno, EINVAL);
    close_id(&joined);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attach__brings_what_is_sent_to_the_group),
        cmocka_unit_test(attach__outlives_reset),
        cmocka_unit_test(attach__of_bad_parameters_is_refused),
        cmocka_unit_test(create_flags__block_what_the_queue_pair_sends_itself),
        cmocka_unit_test(join__tells_where_to_send),
        cmocka_unit_test(join__attaches_the_queue_pair),
        cmocka_unit_test(join__that_cannot_be_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
