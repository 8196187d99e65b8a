/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening devices and QPs: attributes, filters, ports and addresses, and what people are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/rnic/device.h"
#include "test/net/node.h"

static void device_open__attributes_are_checked(void **state)
{
    (void)state;
    struct diwarp_device_attr good = loopback_attr(1);
    struct diwarp_device_attr attrs[8];
    const char *words[] = {"send_window", "send_window", "send_pool",
                           "datagram_max", "port_max",  "rto_min"};
    struct diwarp_device *device = NULL;
    struct diwarp_diagnosis why;

    for (unsigned i = 0; i < 6; i++)
        attrs[i] = good;
    attrs[0].send_window_datagrams = 0;
    attrs[1].send_window_datagrams = 65;
    attrs[2].send_pool_bytes = 1000;
    attrs[3].datagram_max_bytes = 511;
    attrs[4].port_min = 5000;
    attrs[4].port_max = 4999;
    attrs[5].rto_min_ns = 0;
    for (unsigned i = 0; i < 6; i++) {
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
    assert_true(info.fd >= 0 && info.max_inline_bytes > 0);
    node_close(&node);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_open__attributes_are_checked),
        cmocka_unit_test(device_open__wrong_interfaces_are_named),
        cmocka_unit_test(device_query__tells_what_is_there),
        cmocka_unit_test(device_random__seeds),
        cmocka_unit_test(qp_create__attributes_are_checked),
        cmocka_unit_test(qp_create__port_in_use),
        cmocka_unit_test(qp_create__address_of_another_host),
        cmocka_unit_test(qp_query__tells_what_was_granted),
    };

    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
