/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening devices and QPs: attributes, filters, ports and addresses, and what people are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/open.h"
#include "common/wire/bytes.h"
#include "common/wire/llp_header.h"
#include "test/net/node.h"

static void device_open__attributes_are_checked(void **state)
{
    (void)state;
    struct diwarp_device_attr good = loopback_attr(1);
    struct diwarp_device_attr attrs[9];
    const char *words[] = {"send_window", "send_window", "send_pool", "datagram_max", "port_max",
                           "rto_min",     "queue_delay", "flows",     "flows"};
    struct diwarp_device *device = NULL;
    struct diwarp_diagnosis why;

    for (unsigned i = 0; i < 9; i++)
        attrs[i] = good;
    attrs[0].send_window_datagrams = 0;
    attrs[1].send_window_datagrams = 257;
    attrs[2].send_pool_bytes = 1000;
    attrs[3].datagram_max_bytes = 511;
    attrs[4].port_min = 5000;
    attrs[4].port_max = 4999;
    attrs[5].rto_min_ns = 0;
    attrs[6].queue_delay_ns = 1ull << 32;
    attrs[7].flows = 0;
    attrs[8].flows = DIWARP_MAX_FLOWS + 1;
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(diwarp_open_device(&attrs[i], &device, &why), -EINVAL);
        assert_non_null(strstr(why.text, words[i]));
        assert_int_equal(diwarp_open_device(&attrs[i], &device, NULL), -EINVAL);
    }
    assert_null(device);
}

static void device_open__wrong_interfaces_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *include;
        int rc;
        const char *says;
    } cases[] = {
        {"nosuchif7", -EINVAL, "nosuchif7"},
        {"lo,nosuchif7", -EINVAL, "nosuchif7"},
        {"127.0.0.0/33", -EINVAL, "127.0.0.0/33"},
        {"203.0.113.0/24", -ENODEV, ""},
    };
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_device *device = NULL;

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct diwarp_diagnosis why = {.text = ""};
        attr.if_include = cases[i].include;
        assert_int_equal(diwarp_open_device(&attr, &device, &why), cases[i].rc);
        assert_non_null(strstr(why.text, cases[i].says));
        assert_true(why.text[0]);
    }
}

static void device_query__tells_what_is_there(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_device_info info;
    struct diwarp_device *device;

    assert_int_equal(diwarp_open_device(&attr, &device, NULL), 0);
    diwarp_query_device(device, &info);
    assert_int_equal(info.interface_count, 1);
    assert_string_equal(info.interfaces[0].name, "lo");
    assert_true(info.interfaces[0].loopback);
    assert_string_not_equal(info.crc_path, "off");
    assert_true(info.rmem_max_bytes && info.wmem_max_bytes);
    diwarp_close_device(device);
    attr.crc = DIWARP_OFF;
    assert_int_equal(diwarp_open_device(&attr, &device, NULL), 0);
    diwarp_query_device(device, &info);
    assert_string_equal(info.crc_path, "off");
    diwarp_close_device(device);
}

/* Both families where both lead to other hosts; else the one that does, or else IPv4. */
static void device_open__keeps_families_that_lead_on(void **state)
{
    (void)state;
    static const struct diwarp_interface all[] = {
        {.name = "lo", .family = AF_INET, .loopback = true, .mtu_bytes = 65536, .ip = {127}},
        {.name = "lo6", .family = AF_INET6, .loopback = true, .mtu_bytes = 65536},
        {.name = "six0", .family = AF_INET6, .prefix_bits = 64, .mtu_bytes = 9000, .ip = {0xfd}},
        {.name = "four0", .family = AF_INET, .prefix_bits = 24, .mtu_bytes = 1500, .ip = {10, 1}},
    };
    static const struct {
        unsigned first, count;
        const char *kept[4];
        uint8_t family;
    } cases[] = {
        {0, 4, {"lo", "lo6", "six0", "four0"}, AF_INET6},
        {0, 2, {"lo"}, AF_INET},
        {1, 1, {"lo6"}, AF_INET6},
        {0, 3, {"lo6", "six0"}, AF_INET6},
        {3, 1, {"four0"}, AF_INET},
        {2, 2, {"six0", "four0"}, AF_INET6},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diwarp_device_attr attr = loopback_attr(1);
        const struct dw_env env = {.interfaces = &all[cases[i].first],
                                   .interface_count = cases[i].count};
        struct diwarp_device *device;
        struct diwarp_device_info info;
        unsigned n = 0;
        assert_int_equal(dw_device_open(&attr, &env, &device, NULL), 0);
        diwarp_query_device(device, &info);
        for (; n < 4 && cases[i].kept[n]; n++)
            assert_string_equal(info.interfaces[n].name, cases[i].kept[n]);
        assert_int_equal(info.interface_count, n);
        const struct dw_llp_addr at = dw_device_listens_at(device);
        assert_int_equal(at.family, cases[i].family);
        assert_memory_equal(at.ip, n > 1 ? (uint8_t[16]){0} : info.interfaces[0].ip, 16);
        diwarp_close_device(device);
    }
}

/* What is not used takes the place of nothing that is. */
static void device_open__counts_what_is_kept(void **state)
{
    (void)state;
    enum { USELESS = 5, GOOD = DIWARP_MAX_INTERFACES + 2 };
    struct diwarp_interface all[USELESS + GOOD];
    struct diwarp_device_attr attr = loopback_attr(1);
    struct dw_env env = {.interfaces = all, .interface_count = USELESS + DIWARP_MAX_INTERFACES};
    struct diwarp_device *device;
    struct diwarp_device_info info;

    for (unsigned i = 0; i < USELESS + GOOD; i++) {
        all[i] = (struct diwarp_interface){.family = i % 2 || i >= USELESS ? AF_INET : AF_INET6,
                                           .prefix_bits = 24,
                                           .loopback = i < USELESS && !(i % 2),
                                           .mtu_bytes = i < USELESS && i % 2 ? 68 : 1500,
                                           .ip = {10, (uint8_t)i}};
    }
    for (unsigned left_out = 0; left_out <= 2; left_out += 2) {
        env.interface_count += left_out;
        assert_int_equal(dw_device_open(&attr, &env, &device, NULL), 0);
        diwarp_query_device(device, &info);
        assert_int_equal(info.interface_count, DIWARP_MAX_INTERFACES);
        assert_int_equal(info.left_out_count, left_out);
        for (unsigned i = 0; i < DIWARP_MAX_INTERFACES; i++)
            assert_int_equal(info.interfaces[i].ip[1], USELESS + i);
        diwarp_close_device(device);
    }
}

/* ---- QPs ------------------------------------------------------------------------------------ */

struct holder {
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
};

static void holder_open(struct holder *holder, const struct diwarp_device_attr *attr,
                        const struct dw_env *env)
{
    assert_int_equal(dw_device_open(attr, env, &holder->device, NULL), 0);
    holder->pd = diwarp_alloc_pd(holder->device);
    holder->cq = diwarp_create_cq(holder->device, 0);
}

static void holder_close(struct holder *holder)
{
    diwarp_destroy_cq(holder->cq);
    diwarp_dealloc_pd(holder->pd);
    diwarp_close_device(holder->device);
}

static void qp_create__attributes_are_checked(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    struct holder one, other;
    struct diwarp_diagnosis why;
    struct diwarp_qp *qp;

    holder_open(&one, &attr, NULL);
    holder_open(&other, &attr, NULL);
    for (unsigned i = 0; i < 5; i++) {
        struct diwarp_qp_attr bad = qp_attr_of(DIWARP_QPT_RD);
        bad.cq = i == 0 ? NULL : i == 1 ? other.cq : one.cq;
        bad.max_send_wr = i == 2 ? 0 : 1;
        bad.max_msg_bytes = i == 3 ? 0 : i == 4 ? UINT32_MAX : 1;
        assert_int_equal(diwarp_create_qp(one.pd, &bad, &qp, &why), -EINVAL);
        assert_true(why.text[0]);
    }
    holder_close(&one);
    holder_close(&other);
}

static void qp_create__port_in_use(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct diwarp_diagnosis why = {.text = ""};
    struct diwarp_qp *qp = NULL;
    struct holder holder;
    struct node first;
    char port[8];

    node_open(&first, &attr, &qp_attr);
    attr.port_min = first.address.port;
    holder_open(&holder, &attr, NULL);
    qp_attr.cq = holder.cq;
    assert_int_equal(diwarp_create_qp(holder.pd, &qp_attr, &qp, &why), -EADDRINUSE);
    snprintf(port, sizeof port, "%u", first.address.port);
    assert_non_null(strstr(why.text, port));
    assert_int_equal(diwarp_create_qp(holder.pd, &qp_attr, &qp, NULL), -EADDRINUSE);
    assert_null(qp);
    /* Once it is free again, it serves. */
    node_close(&first);
    assert_int_equal(diwarp_create_qp(holder.pd, &qp_attr, &qp, &why), 0);
    diwarp_destroy_qp(qp);
    holder_close(&holder);
}

/* No peer would take an address that names them. */
static void device_open__small_mtus_are_left_out(void **state)
{
    (void)state;
    static const struct diwarp_interface all[] = {
        {.name = "small0", .family = AF_INET, .prefix_bits = 24, .mtu_bytes = 575, .ip = {10, 1}},
        {.name = "least0", .family = AF_INET, .prefix_bits = 24, .mtu_bytes = 576, .ip = {10, 2}},
        {.name = "small1", .family = AF_INET, .prefix_bits = 24, .mtu_bytes = 68, .ip = {10, 3}},
    };
    struct diwarp_device_attr attr = loopback_attr(1);
    struct dw_env env = {.interfaces = all, .interface_count = 3};
    struct diwarp_diagnosis why = {.text = ""};
    struct diwarp_device *device;
    struct diwarp_device_info info;

    assert_int_equal(dw_device_open(&attr, &env, &device, &why), 0);
    diwarp_query_device(device, &info);
    assert_int_equal(info.interface_count, 1);
    assert_string_equal(info.interfaces[0].name, "least0");
    diwarp_close_device(device);
    env.interface_count = 1;
    assert_int_equal(dw_device_open(&attr, &env, &device, &why), -ENODEV);
    assert_non_null(strstr(why.text, "MTU"));
}

static void qp_create__address_of_another_host(void **state)
{
    (void)state;
    static const struct diwarp_interface gone = {.name = "gone0",
                                                 .family = AF_INET,
                                                 .prefix_bits = 24,
                                                 .mtu_bytes = 1500,
                                                 .ip = {203, 0, 113, 7}};
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_UD);
    struct dw_env env = {.interfaces = &gone, .interface_count = 1};
    struct diwarp_diagnosis why = {.text = ""};
    struct diwarp_qp *qp;
    struct holder holder;

    holder_open(&holder, &attr, &env);
    qp_attr.cq = holder.cq;
    assert_int_equal(diwarp_create_qp(holder.pd, &qp_attr, &qp, &why), -EADDRNOTAVAIL);
    assert_non_null(strstr(why.text, "203.0.113.7"));
    holder_close(&holder);
}

static void qp_query__tells_what_was_granted(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct diwarp_qp_info info;
    struct node node;

    attr.gso = attr.gro = DIWARP_OFF;
    attr.rcvbuf_bytes = 100000;
    node_open(&node, &attr, &qp_attr);
    diwarp_query_qp(node.qp, &info);
    assert_int_equal(info.rcvbuf_bytes, 200000); /* the kernel doubles it for its overhead */
    assert_false(info.gso || info.gro);
    assert_true(diwarp_qp_fd(node.qp) >= 0 && info.max_inline_bytes > 0);
    node_close(&node);
}

/* Two of them fit into it, long ones if they can; not where that is so anyway, or never. */
static void address_query__a_small_receive_buffer_asks_for_smaller_datagrams(void **state)
{
    (void)state;
    static const struct {
        uint32_t rcvbuf_bytes;
        bool smaller;
    } cases[] = {{4096, false}, {16384, true}, {32768, true}, {65536, true}, {106496, false}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct diwarp_device_attr attr = loopback_attr(1);
        struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
        struct diwarp_qp_info info;
        struct node node;

        attr.rcvbuf_bytes = cases[i].rcvbuf_bytes;
        node_open(&node, &attr, &qp_attr);
        diwarp_query_qp(node.qp, &info);
        uint32_t told = node.address.interfaces[0].mtu_bytes;
        assert_int_equal(told < 65536, cases[i].smaller);
        assert_true(!cases[i].smaller || 2 * dw_llp_truesize(told) <= info.rcvbuf_bytes);
        node_close(&node);
    }
}

/* An LLP that refuses or takes sends, and keeps the last datagram that it was given. */
static struct {
    struct dw_llp llp;
    int rc;
    uint8_t last[128];
} stub;

static int stub_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    (void)llp;
    assert_in_range(train->total_bytes, 1, sizeof stub.last);
    memcpy(stub.last, train->iov[0].iov_base, train->total_bytes);
    return stub.rc;
}

static void stub_close(struct dw_llp *llp)
{
    (void)llp;
}

static int stub_open(void *arg, const struct diwarp_device_attr *attr, const struct dw_llp_addr *at,
                     struct diwarp_counters *counters, struct dw_llp **llp,
                     struct diwarp_diagnosis *why)
{
    static const struct dw_llp_ops ops = {.send = stub_send, .close = stub_close};
    (void)arg, (void)attr, (void)at, (void)why;
    stub.llp = (struct dw_llp){
        .ops = &ops, .counters = counters, .fd = -1, .port = 4000, .rcvbuf_bytes = 1u << 20};
    *llp = &stub.llp;
    return 0;
}

static uint32_t last_word(size_t at)
{
    return dw_get_be32(stub.last + DW_LLP_HEADER_BYTES + DW_SEGMENT_LEN_BYTES + at);
}

static void ud_post__refused_by_the_socket_uses_nothing_up(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_UD);
    struct dw_env env = {.open_llp = stub_open};
    struct node node = {.data = {0}};
    struct diwarp_mr remote = {.addr = NULL, .stag = 9};
    struct holder holder;
    struct diwarp_ah *ah;
    struct diwarp_wc wc;
    char text[] = "text";

    holder_open(&holder, &attr, &env);
    qp_attr.cq = holder.cq;
    assert_int_equal(diwarp_create_qp(holder.pd, &qp_attr, &node.qp, NULL), 0);
    diwarp_query_address(node.qp, &node.address);
    node.counters = diwarp_query_counters(node.qp);
    ah = node_ah(&node, &node);
    for (unsigned taken = 0; taken < 2; taken++) {
        stub.rc = taken ? 0 : -EAGAIN;
        assert_int_equal(post(&node, ah, IBV_WR_SEND, text, 4, IBV_SEND_SIGNALED, 1, NULL, 0),
                         stub.rc);
        assert_int_equal(last_word(10), 1); /* MSN */
        assert_int_equal(node.counters->tx_send_msgs, taken);
        assert_int_equal(
            post(&node, ah, IBV_WR_RDMA_WRITE, text, 4, IBV_SEND_SIGNALED, 2, &remote, 0), stub.rc);
        assert_int_equal(last_word(14), 0x80000001); /* record id */
        assert_int_equal(node.counters->tx_write_msgs, taken);
    }
    /* The queue is not empty, so the RNIC does not run: the stub could not receive. */
    assert_int_equal(diwarp_poll_cq(holder.cq, 1, &wc), 1);
    assert_int_equal(wc.wc.wr_id, 1);
    assert_int_equal(diwarp_poll_cq(holder.cq, 1, &wc), 1);
    assert_int_equal(wc.wc.wr_id, 2);
    assert_int_equal(post(&node, ah, IBV_WR_SEND, text, 4, 0, 3, NULL, 0), 0);
    assert_int_equal(last_word(10), 2);
    diwarp_destroy_ah(ah);
    diwarp_destroy_qp(node.qp);
    holder_close(&holder);
}

/* Tokens and STags of two devices with the kernel's seed differ; with one seed they do not. */
static void device_random__seeds(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    struct dw_env env = {.seed = 7};
    struct holder one, two;

    holder_open(&one, &attr, &env);
    holder_open(&two, &attr, &env);
    assert_true(dw_device_random(one.device) == dw_device_random(two.device));
    holder_close(&one);
    holder_close(&two);
    holder_open(&one, &attr, NULL);
    holder_open(&two, &attr, NULL);
    assert_true(dw_device_random(one.device) != dw_device_random(two.device));
    holder_close(&one);
    holder_close(&two);
}

/* What SplitMix64 makes of a state, undone: a listener's token is seen by all its peers, and must
 * not tell them the STags (RFC 5042). */
static uint64_t unmix(uint64_t z)
{
    z ^= z >> 31 ^ z >> 62;
    z *= 0x319642b2d24d8ec3ull;
    z ^= z >> 27 ^ z >> 54;
    z *= 0x96de1b173f119089ull;
    return z ^ z >> 30 ^ z >> 60;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static void device_random__tells_nothing_of_the_next(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(1);
    struct dw_env env = {.seed = 7};
    struct holder holder;

    holder_open(&holder, &attr, &env);
    assert_true(unmix(mix(12345)) == 12345);
    uint64_t token = dw_device_random(holder.device);
    assert_true(dw_device_random(holder.device) != mix(unmix(token) + 0x9e3779b97f4a7c15ull));
    holder_close(&holder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_open__attributes_are_checked),
        cmocka_unit_test(device_open__wrong_interfaces_are_named),
        cmocka_unit_test(device_open__small_mtus_are_left_out),
        cmocka_unit_test(device_query__tells_what_is_there),
        cmocka_unit_test(device_open__keeps_families_that_lead_on),
        cmocka_unit_test(device_open__counts_what_is_kept),
        cmocka_unit_test(device_random__seeds),
        cmocka_unit_test(device_random__tells_nothing_of_the_next),
        cmocka_unit_test(qp_create__attributes_are_checked),
        cmocka_unit_test(qp_create__port_in_use),
        cmocka_unit_test(qp_create__address_of_another_host),
        cmocka_unit_test(qp_query__tells_what_was_granted),
        cmocka_unit_test(address_query__a_small_receive_buffer_asks_for_smaller_datagrams),
        cmocka_unit_test(ud_post__refused_by_the_socket_uses_nothing_up),
    };

    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
