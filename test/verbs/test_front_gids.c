/* SPDX-License-Identifier: BSD-3-Clause */
/* The GID table, and messages by each of its GIDs. test/verbs/run has a host with addresses of both
 * families, and one with IPv6 alone. */
#include <errno.h>
#include <string.h>

#include "test/verbs/rc_pair.h"

#define MAX_GIDS 16

static bool is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return !memcmp(gid, prefix, sizeof prefix);
}

static int gids_of(struct ibv_context *context, union ibv_gid gids[MAX_GIDS])
{
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(context, 1, &port), 0);
    assert_in_range(port.gid_tbl_len, 1, MAX_GIDS);
    for (int i = 0; i < port.gid_tbl_len; i++)
        assert_int_equal(ibv_query_gid(context, 1, i, &gids[i]), 0);
    return port.gid_tbl_len;
}

static void table__is_the_same_by_all_calls(void **state)
{
    (void)state;
    struct ibv_context *context = open_diwarp();
    union ibv_gid gids[MAX_GIDS], beyond;
    struct ibv_gid_entry entries[MAX_GIDS], entry;
    const int count = gids_of(context, gids);
    assert_int_not_equal(ibv_query_gid(context, 1, count, &beyond), 0);
    assert_int_equal(ibv_query_gid_table(context, entries, MAX_GIDS, 0), count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0), 0);
        assert_memory_equal(&entry.gid, &gids[i], sizeof *gids);
        assert_memory_equal(&entries[i].gid, &gids[i], sizeof *gids);
        assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
        assert_false(i && is_ipv4(&gids[i]) && !is_ipv4(&gids[i - 1])); /* IPv4 first */
        assert_false(gids[i].raw[0] == 0xfe);                           /* none is link-local */
    }
    assert_int_equal(ibv_close_device(context), 0);
}

static struct ibv_ah *ah_to(struct end *end, uint8_t index, const union ibv_gid *gid)
{
    struct ibv_ah_attr attr = {
        .port_num = 1, .is_global = 1, .grh = {.dgid = *gid, .sgid_index = index}};
    return ibv_create_ah(end->pd, &attr);
}

/* The receive of what is sent there, whose GRH is at 1024. */
static struct ibv_wc sent_by(struct end *end, struct ibv_ah *ah)
{
    assert_non_null(ah);
    assert_int_equal(post_recv(end, 3, 1024, 1024), 0);
    assert_int_equal(post_send(end, ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
    const struct ibv_wc wc = take(end->recv_cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    return wc;
}

/* What is sent by a GID of a family comes from one of that family, and to one, which is its own
 * where it has but one. */
static void ud__goes_by_each_gid(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    union ibv_gid gids[MAX_GIDS];
    const int count = gids_of(end->context, gids);
    const struct ibv_grh *grh = (const struct ibv_grh *)(const void *)(end->memory + 1024);
    make_ready(end);
    for (int i = 0; i < count; i++) {
        struct ibv_ah *ah = ah_to(end, (uint8_t)i, &gids[i]);
        struct ibv_wc wc = sent_by(end, ah);
        assert_int_equal(wc.byte_len, BYTES + sizeof *grh);
        assert_int_equal(is_ipv4(&grh->sgid), is_ipv4(&gids[i]));
        assert_int_equal(is_ipv4(&grh->dgid), is_ipv4(&gids[i]));
        int known = 0;
        for (int k = 0; k < count; k++)
            known += !memcmp(&gids[k], &grh->sgid, sizeof *gids);
        assert_int_equal(known, 1);
        struct ibv_ah_attr back;
        assert_int_equal(
            ibv_init_ah_from_wc(end->context, 1, &wc, (struct ibv_grh *)(uintptr_t)grh, &back), 0);
        assert_int_equal(is_ipv4(&gids[back.grh.sgid_index]), is_ipv4(&gids[i]));
        assert_int_equal(ibv_destroy_ah(ah), 0);
    }
    close_end(end);
}

/* Of several datagrams. */
static void ud__long_message_by_each_gid(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    static uint8_t memory[2][4096 + 40];
    union ibv_gid gids[MAX_GIDS];
    const int count = gids_of(end->context, gids);
    struct ibv_mr *mr = ibv_reg_mr(end->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    make_ready(end);
    for (int i = 0; i < count; i++) {
        struct ibv_ah *ah = ah_to(end, (uint8_t)i, &gids[i]);
        struct ibv_sge from = {(uintptr_t)memory[0], 4096, mr->lkey};
        struct ibv_sge to = {(uintptr_t)memory[1], sizeof memory[1], mr->lkey};
        struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
        struct ibv_send_wr send = {.sg_list = &from,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .wr.ud = {ah, end->qp->qp_num, QKEY}},
                           *bad_send;
        memset(memory[0], i + 1, sizeof memory[0]);
        assert_int_equal(ibv_post_recv(end->qp, &recv, &bad_recv), 0);
        assert_int_equal(ibv_post_send(end->qp, &send, &bad_send), 0);
        assert_int_equal(take(end->recv_cq).byte_len, sizeof memory[1]);
        assert_memory_equal(memory[0], memory[1] + 40, 4096);
        assert_int_equal(is_ipv4((const union ibv_gid *)(const void *)(memory[1] + 8)),
                         is_ipv4(&gids[i]));
        assert_int_equal(ibv_destroy_ah(ah), 0);
    }
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close_end(end);
}

/* One as perftest has it, which is of the host by its scope, and one of IPv6. Who is attached hears
 * those of either family, once. */
static void mcast__goes_by_each_gid(void **state)
{
    (void)state;
    static const union ibv_gid groups[] = {
        {.raw = {0xff, 1, 0, 0, 0, 2, 0xc9, 0x85, [15] = 8}},
        {.raw = {0xff, 0x1e, [14] = 0x4e, 1}},
    };
    struct end *end = open_end(8);
    union ibv_gid gids[MAX_GIDS];
    const int count = gids_of(end->context, gids);
    const struct ibv_grh *grh = (const struct ibv_grh *)(const void *)(end->memory + 1024);
    make_ready(end);
    for (int i = 0; i < 2 * count; i++) {
        const union ibv_gid *group = &groups[i % 2];
        struct ibv_ah *ah = ah_to(end, (uint8_t)(i / 2), group);
        struct ibv_sge sge = {(uintptr_t)end->memory, BYTES, end->mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_SEND,
                                 .wr.ud = {ah, 0xffffff, QKEY}},
                           *bad;
        assert_non_null(ah);
        assert_int_equal(ibv_attach_mcast(end->qp, group, 0), 0);
        assert_int_equal(post_recv(end, 1, 1024, 1024), 0);
        assert_int_equal(post_recv(end, 2, 2048, 1024), 0);
        assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
        assert_int_equal(take(end->recv_cq).wr_id, 1);
        assert_memory_equal(&grh->dgid, group, sizeof *group);
        assert_int_equal(is_ipv4(&grh->sgid), is_ipv4(&gids[i / 2]));
        assert_empty(end->recv_cq);
        assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
        assert_int_equal(take(end->recv_cq).wr_id, 2);
        assert_int_equal(ibv_detach_mcast(end->qp, group, 0), 0);
        assert_int_equal(ibv_destroy_ah(ah), 0);
    }
    close_end(end);
}

static void ah__of_no_host_is_refused(void **state)
{
    (void)state;
    static const union ibv_gid bad[] = {
        {.raw = {0}},
        {.raw = {0xfe, 0x80, [15] = 1}},
        {.raw = {[10] = 0xff, [11] = 0xff}},
    };
    struct end *end = open_end(8);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(ah_to(end, 0, &bad[i]));
        assert_int_equal(errno, EINVAL);
    }
    close_end(end);
}

static void rc__connects_by_each_gid(void **state)
{
    (void)state;
    union ibv_gid gids[MAX_GIDS];
    struct pair *pair = pair_open(false);
    const int count = gids_of(pair->context, gids);
    pair_close(pair);
    for (int i = 0; i < count; i++) {
        pair = pair_open(false);
        pair->gid = gids[i];
        pair->gid_index = (uint8_t)i;
        pair_connect(pair, ALL_ACCESS);
        pair_receive(pair, 1, 4);
        pair_post(pair, 0, IBV_WR_SEND, 1, 100);
        assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
        assert_done(pair->recv_cq[1], 4, IBV_WC_SUCCESS);
        pair_close(pair);
    }
}

static uint16_t lid_of(struct ibv_context *context)
{
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(context, 1, &port), 0);
    return port.lid;
}

/* As programs of InfiniBand do that know no GIDs. Without IPv4 there are no LIDs. */
static void ud__goes_by_the_lid(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    union ibv_gid gids[MAX_GIDS];
    const int count = gids_of(end->context, gids);
    const struct ibv_grh *grh = (const struct ibv_grh *)(const void *)(end->memory + 1024);
    const uint16_t lid = lid_of(end->context);
    struct ibv_ah_attr attr = {.port_num = 1, .dlid = lid};
    assert_true(count > 0);
    assert_int_equal(lid, is_ipv4(gids) ? gids[0].raw[14] << 8 | gids[0].raw[15] : 0);
    make_ready(end);
    for (int turn = 0; turn < 2 && lid; turn++) {
        struct ibv_ah *ah = ibv_create_ah(end->pd, &attr);
        const struct ibv_wc wc = sent_by(end, ah);
        assert_memory_equal(&grh->sgid, gids, sizeof *gids);
        assert_int_equal(ibv_destroy_ah(ah), 0);
        attr.dlid = wc.slid; /* the way back */
    }
    attr.dlid = lid ? 0 : 1;
    assert_null(ibv_create_ah(end->pd, &attr));
    assert_int_equal(errno, EINVAL);
    close_end(end);
}

static void rc__connects_by_the_lid(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    pair->lid = lid_of(pair->context);
    pair_connect(pair, ALL_ACCESS); /* by the first GID, if there is no LID */
    pair_receive(pair, 1, 4);
    pair_post(pair, 0, IBV_WR_SEND, 1, 100);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    assert_done(pair->recv_cq[1], 4, IBV_WC_SUCCESS);
    assert_int_equal(ibv_query_qp(pair->qp[0], &attr, IBV_QP_AV, &init), 0);
    assert_int_equal(attr.ah_attr.dlid, pair->lid);
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table__is_the_same_by_all_calls),
        cmocka_unit_test(ud__goes_by_each_gid),
        cmocka_unit_test(ud__long_message_by_each_gid),
        cmocka_unit_test(mcast__goes_by_each_gid),
        cmocka_unit_test(ah__of_no_host_is_refused),
        cmocka_unit_test(rc__connects_by_each_gid),
        cmocka_unit_test(ud__goes_by_the_lid),
        cmocka_unit_test(rc__connects_by_the_lid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
