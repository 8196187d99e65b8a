/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups of UD over real sockets on 127.0.0.1: what is sent to a multicast address comes to each QP
 * that is attached, in one process and in several devices of a host; what does not.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/group_members.h"

#define QUIET (50 * MS)
/* The best of so many. A sleep that nothing ends lasts a second. */
#define TRIES        10
#define WAKE_MOST_NS (100 * MS)

static int send_to(struct node *node, struct diwarp_ah *ah, uint32_t length, uint32_t qkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)buf_a, .length = length};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = IBV_WR_SEND_WITH_IMM,
               .send_flags = length % 3 ? IBV_SEND_SOLICITED : 0,
               .imm_data = 77,
               .wr.ud.remote_qkey = qkey},
        .ah = ah,
    };
    return diwarp_post_send(node->qp, &wr);
}

static void post_recvs(struct node *node, uint8_t *buf, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(post_recv(node, buf, 1 << 16, i), 0);
}

static void group_send__comes_to_each_member(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 1000, 1500, 65536};
    struct three three;
    three_open(&three);
    attach(&three.b, &three.group);
    attach(&three.c, &three.group);

    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fill(buf_a, sizes[i], i);
        post_recvs(&three.b, buf_b, 1);
        post_recvs(&three.c, buf_c, 1);
        assert_int_equal(send_to(&three.a, three.to_group, sizes[i], QKEY), 0);
        RUN_UNTIL(three.b.recvs == i + 1 && three.c.recvs == i + 1, &three.a, &three.b, &three.c);
        assert_filled(buf_b, sizes[i], i);
        assert_filled(buf_c, sizes[i], i);
        assert_int_equal(three.b.last.wc.byte_len, sizes[i]);
        assert_int_equal(three.b.last.wc.imm_data, 77);
        assert_int_equal(!(three.b.last.wc.wc_flags & DIWARP_WC_SOLICITED), sizes[i] % 3 == 0);
        assert_int_equal(three.b.last.src.rank, 1);
        assert_int_equal(three.b.last.wc.src_qp, three.a.address.qpn);
        assert_int_equal(three.b.last.group, three.group.token);
    }
    three_close(&three);
}

/* MSNs of a source begin alike for each destination: none is taken for another's. */
static void group_send__beside_unicast_and_another_group(void **state)
{
    (void)state;
    struct three three;
    struct diwarp_group other;
    struct diwarp_ah *to_other, *to_b;
    three_open(&three);
    other = new_group(2);
    other.token = 0x70ce5;
    attach(&three.b, &three.group);
    attach(&three.b, &other);
    assert_int_equal(diwarp_create_group_ah(three.a.qp, &other, &to_other), 0);
    to_b = node_ah(&three.a, &three.b);
    post_recvs(&three.b, buf_b, 30);

    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(send_to(&three.a, three.to_group, 10, QKEY), 0);
        assert_int_equal(send_to(&three.a, to_other, 10, QKEY), 0);
        assert_int_equal(send_to(&three.a, to_b, 10, QKEY), 0);
    }
    RUN_UNTIL(three.b.recvs == 30, &three.a, &three.b);
    assert_int_equal(three.b.counters->rx_dup_datagrams, 0);
    diwarp_destroy_ah(to_other);
    diwarp_destroy_ah(to_b);
    three_close(&three);
}

static void group_send__of_another_q_key_or_token_is_dropped(void **state)
{
    (void)state;
    struct three three;
    struct diwarp_group wrong;
    struct diwarp_ah *to_wrong;
    three_open(&three);
    wrong = three.group;
    wrong.token++;
    attach(&three.b, &three.group);
    assert_int_equal(diwarp_create_group_ah(three.a.qp, &wrong, &to_wrong), 0);
    post_recvs(&three.b, buf_b, 2);

    assert_int_equal(send_to(&three.a, to_wrong, 10, QKEY), 0);
    RUN_UNTIL(three.b.counters->drop_token == 1, &three.b);
    assert_int_equal(send_to(&three.a, three.to_group, 10, QKEY + 1), 0);
    RUN_UNTIL(three.b.counters->drop_qkey == 1, &three.b);
    assert_int_equal(send_to(&three.a, three.to_group, 10, QKEY), 0);
    RUN_UNTIL(three.b.recvs == 1, &three.b);
    assert_int_equal(three.b.counters->rx_datagrams, 3);
    diwarp_destroy_ah(to_wrong);
    three_close(&three);
}

/* A datagram to the port that names the group; and one to the group that names a QP. */
static void group_datagram__that_is_not_for_all_is_dropped(void **state)
{
    (void)state;
    static struct forger forger;
    struct three three;
    const struct dw_ddp_header ddp = {.opcode = DW_RDMAP_SEND, .last = true, .msn = 1};
    const uint8_t data[] = {1, 2, 3};
    three_open(&three);
    attach(&three.b, &three.group);
    post_recvs(&three.b, buf_b, 1);

    forger_open(&forger, &three.b.address, DW_LLP_UD, 9);
    forger.header.psn = QKEY;
    forger.header.dst_qpn = DW_QPN_GROUP;
    forge_begin(&forger);
    forge_segment(&forger, &ddp, NULL, 0, data, sizeof data);
    forge_send(&forger);
    RUN_UNTIL(three.b.counters->drop_qpn == 1, &three.b);
    forger_close(&forger);

    forger_to_group(&forger, &three);
    forger.header.dst_qpn = three.b.address.qpn;
    forge_begin(&forger);
    forge_segment(&forger, &ddp, NULL, 0, data, sizeof data);
    forge_send(&forger);
    RUN_UNTIL(three.b.counters->drop_header == 1, &three.b);
    forger_close(&forger);
    three_close(&three);
}

static void group_member__gets_nothing_once_detached_or_destroyed(void **state)
{
    (void)state;
    struct three three;
    three_open(&three);
    attach(&three.b, &three.group);
    attach(&three.c, &three.group);
    assert_int_equal(diwarp_attach_group(three.b.qp, &three.group, NULL, 0), -EALREADY);
    post_recvs(&three.b, buf_b, 2);
    post_recvs(&three.c, buf_c, 2);

    assert_int_equal(diwarp_detach_group(three.b.qp, &three.group), 0);
    assert_int_equal(diwarp_detach_group(three.b.qp, &three.group), -ENOENT);
    assert_int_equal(send_to(&three.a, three.to_group, 10, QKEY), 0);
    RUN_UNTIL(three.c.recvs == 1, &three.b, &three.c);
    RUN_FOR(QUIET, &three.b);
    assert_int_equal(three.b.recvs, 0);

    node_destroy_qp(&three.c);
    attach(&three.b, &three.group); /* again */
    assert_int_equal(send_to(&three.a, three.to_group, 10, QKEY), 0);
    RUN_UNTIL(three.b.recvs == 1, &three.b, &three.c);
    three_close(&three);
}

/* Two QPs of one device, each with its own receives. */
static void group_send__to_the_senders_own_device(void **state)
{
    (void)state;
    const struct diwarp_group group = new_group(3);
    struct diwarp_qp_attr attr = qp_attr_of(DIWARP_QPT_UD);
    for (unsigned block = 0; block < 2; block++) {
        struct node node;
        struct diwarp_qp *second;
        struct diwarp_ah *ah;
        struct ibv_recv_wr recv = {.wr_id = 9};
        open_one(&node, 1, block);
        attr.cq = node.cq;
        attr.qkey = QKEY;
        assert_int_equal(diwarp_create_qp(node.pd, &attr, &second, NULL), 0);
        assert_int_equal(diwarp_create_group_ah(node.qp, &group, &ah), 0);
        attach(&node, &group);
        assert_int_equal(diwarp_attach_group(second, &group, NULL, 0), 0);
        post_recvs(&node, buf_b, 1);
        assert_int_equal(diwarp_post_recv(second, &recv), 0);

        assert_int_equal(send_to(&node, ah, 0, QKEY), 0);
        RUN_UNTIL(node.recvs == (block ? 1 : 2), &node);
        RUN_FOR(QUIET, &node);
        assert_int_equal(node.recvs, block ? 1 : 2);
        assert_int_equal(node.last.wc.wr_id, 9);
        diwarp_destroy_qp(second);
        diwarp_destroy_ah(ah);
        node_close(&node);
    }
}

/* ---- bounds and errors ----------------------------------------------------------------------- */

static void group__of_bad_parameters_is_refused(void **state)
{
    (void)state;
    struct node node, rd;
    struct diwarp_group bad[6], group = new_group(4);
    struct diwarp_ah *ah = NULL;
    open_one(&node, 1, false);
    node_open_default(&rd, 2, DIWARP_QPT_RD);
    for (unsigned i = 0; i < 6; i++)
        bad[i] = group;
    bad[0].token = 0;
    bad[1].port = 0;
    bad[2].ip[0] = 10;
    bad[3].family = AF_UNIX;
    bad[4].family = AF_INET6; /* ef.. is none there */
    strcpy(bad[5].interface, "nonesuch");

    for (unsigned i = 0; i < 6; i++) {
        const int rc = i == 5 ? -ENODEV : -EINVAL;
        assert_int_equal(diwarp_attach_group(node.qp, &bad[i], NULL, 0), rc);
        assert_int_equal(diwarp_create_group_ah(node.qp, &bad[i], &ah), rc);
    }
    assert_int_equal(diwarp_attach_group(rd.qp, &group, NULL, 0), -EINVAL);
    assert_int_equal(diwarp_create_group_ah(rd.qp, &group, &ah), -EINVAL);
    /* No QP has the group's number. */
    struct diwarp_address nobody = node.address;
    nobody.qpn = DW_QPN_GROUP;
    assert_int_equal(diwarp_create_ah(node.qp, &nobody, &ah), -EINVAL);
    node_close(&rd);
    node_close(&node);
}

static void group__no_more_than_the_bound(void **state)
{
    (void)state;
    struct node node;
    struct diwarp_group group = new_group(5);
    unsigned count = 0;
    int rc;
    open_one(&node, 1, false);
    do {
        group.ip[2] = (uint8_t)count++;
        rc = diwarp_attach_group(node.qp, &group, NULL, 0);
    } while (!rc);
    assert_int_equal(rc, -ENOSPC);
    assert_int_equal(count, DIWARP_MAX_GROUPS + 1);
    group.ip[2] = 0;
    assert_int_equal(diwarp_detach_group(node.qp, &group), 0);
    group.ip[2] = 200;
    attach(&node, &group);
    node_close(&node);
}

static void group__with_authentication_is_refused(void **state)
{
    (void)state;
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_UD);
    struct diwarp_device_attr attr = loopback_attr(1);
    const struct diwarp_group group = new_group(6);
    struct diwarp_device *device;
    struct diwarp_ah *ah = NULL;
    struct node node;

    attr.auth = DIWARP_AUTH_GMAC;
    if (diwarp_open_device(&attr, &device, NULL) == -ENOTSUP)
        return; /* built without libcrypto: nothing is authenticated */
    diwarp_close_device(device);
    node_open(&node, &attr, &qp_attr);
    assert_int_equal(diwarp_attach_group(node.qp, &group, NULL, 0), -EOPNOTSUPP);
    assert_int_equal(diwarp_create_group_ah(node.qp, &group, &ah), -EOPNOTSUPP);
    node_close(&node);
}

/* ---- who sleeps ------------------------------------------------------------------------------ */

struct waiter {
    struct node *node;
    int rc;
};

static void *wait_for_one(void *arg)
{
    struct waiter *waiter = arg;
    struct diwarp_wc wc;
    waiter->rc = diwarp_wait_cq(waiter->node->cq, 1, &wc, 60000 * MS);
    return NULL;
}

/* It was attached while its thread slept. */
static void group_send__wakes_who_slept_before(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(2);
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_UD);
    const struct timespec pause = {.tv_nsec = 20 * MS};
    struct three three;
    struct node sleeper;
    struct waiter waiter = {.node = &sleeper};
    uint64_t best_ns = UINT64_MAX;
    pthread_t thread;
    three_open(&three);
    attr.threaded = true;
    qp_attr.qkey = QKEY;
    node_open(&sleeper, &attr, &qp_attr);
    post_recvs(&sleeper, buf_b, TRIES);

    for (unsigned i = 0; i < TRIES; i++) {
        assert_int_equal(pthread_create(&thread, NULL, wait_for_one, &waiter), 0);
        nanosleep(&pause, NULL);
        attach(&sleeper, &three.group);
        nanosleep(&pause, NULL);
        const uint64_t start_ns = clock_ns();
        assert_int_equal(send_to(&three.a, three.to_group, 10, QKEY), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(waiter.rc, 1);
        const uint64_t took_ns = clock_ns() - start_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
        assert_int_equal(diwarp_detach_group(sleeper.qp, &three.group), 0);
    }
    assert_true(best_ns < WAKE_MOST_NS);
    node_close(&sleeper);
    three_close(&three);
}

static void expect_readable(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&entry, 1, 20000), 1);
}

/* A shared port's descriptor stands for two sockets until the group's is added. */
static void group_send__makes_the_descriptor_readable(void **state)
{
    (void)state;
    struct diwarp_wc wc;
    struct diwarp_ah *to_b;
    struct three three;
    three_open(&three);
    const int fd = diwarp_qp_fd(three.b.qp);
    attach(&three.b, &three.group);
    assert_int_equal(diwarp_qp_fd(three.b.qp), fd);
    post_recvs(&three.b, buf_b, 2);

    assert_int_equal(send_to(&three.a, three.to_group, 10, QKEY), 0);
    expect_readable(fd);
    assert_int_equal(diwarp_wait_cq(three.b.cq, 1, &wc, 60000 * MS), 1);
    assert_int_equal(wc.wc.opcode, IBV_WC_RECV);
    to_b = node_ah(&three.a, &three.b);
    assert_int_equal(send_to(&three.a, to_b, 10, QKEY), 0);
    expect_readable(fd);
    assert_int_equal(diwarp_wait_cq(three.b.cq, 1, &wc, 60000 * MS), 1);
    diwarp_destroy_ah(to_b);
    three_close(&three);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_send__comes_to_each_member),
        cmocka_unit_test(group_send__beside_unicast_and_another_group),
        cmocka_unit_test(group_send__of_another_q_key_or_token_is_dropped),
        cmocka_unit_test(group_datagram__that_is_not_for_all_is_dropped),
        cmocka_unit_test(group_member__gets_nothing_once_detached_or_destroyed),
        cmocka_unit_test(group_send__to_the_senders_own_device),
        cmocka_unit_test(group__of_bad_parameters_is_refused),
        cmocka_unit_test(group__no_more_than_the_bound),
        cmocka_unit_test(group__with_authentication_is_refused),
        cmocka_unit_test(group_send__wakes_who_slept_before),
        cmocka_unit_test(group_send__makes_the_descriptor_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
