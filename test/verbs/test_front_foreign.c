/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front beside a device that is not diwarp's: the one of test/verbs/stub_ibverbs.c, which
 * stands where libibverbs would. Calls on its objects go there, each; those on diwarp's do not. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "test/verbs/end.h"
#include "test/verbs/stub_ibverbs.h"

/* The last one that the stub has seen. */
static void called(const char *name)
{
    __typeof__(stub_last_call) *last_call = dlsym(RTLD_DEFAULT, "stub_last_call");
    assert_non_null(last_call);
    assert_string_equal(last_call(), name);
}

static struct ibv_context *open_stub(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    called("ibv_open_device");
    ibv_free_device_list(list);
    assert_string_equal(context->device->name, "stub0");
    return context;
}

static void list__has_both(void **state)
{
    (void)state;
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    called("ibv_get_device_list");
    assert_int_equal(count, 2);
    assert_null(list[2]);
    assert_string_equal(ibv_get_device_name(list[0]), "stub0");
    called("ibv_get_device_name");
    (void)ibv_get_device_guid(list[0]);
    called("ibv_get_device_guid");
    assert_string_equal(ibv_get_device_name(list[1]), "diwarp0");
    called("nothing");
    ibv_free_device_list(list);
    called("ibv_free_device_list");
}

/* As qperf has it. */
static void list__may_end_by_free(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        struct ibv_device **list = ibv_get_device_list(NULL);
        assert_non_null(list);
        list[1] = NULL; /* a program may choose, too */
        if (i % 2)
            ibv_free_device_list(list);
        else
            free(list);
    }
    called("ibv_free_device_list");
}

#define GOES(name, ...)                           \
    do {                                          \
        assert_int_equal((name)(__VA_ARGS__), 0); \
        called(#name);                            \
    } while (0)

/* Of the context, and its memory. */
static void context__is_libibverbs(void **state)
{
    (void)state;
    static uint8_t memory[64];
    struct ibv_context *context = open_stub();
    struct ibv_device_attr device_attr;
    struct ibv_port_attr port_attr;
    struct ibv_async_event event;
    union ibv_gid gid;
    uint16_t pkey;
    GOES(ibv_query_device, context, &device_attr);
    assert_int_equal(ibv_query_port(context, 1, &port_attr), 0);
    called("ibv_query_port");
    GOES(ibv_query_gid, context, 1, 0, &gid);
    GOES(ibv_query_pkey, context, 1, 0, &pkey);
    GOES(ibv_get_async_event, context, &event);
    ibv_ack_async_event(&event);
    called("ibv_ack_async_event");
    struct ibv_pd *pd = ibv_alloc_pd(context);
    called("ibv_alloc_pd");
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    called("ibv_reg_mr");
    GOES(ibv_rereg_mr, mr, IBV_REREG_MR_CHANGE_ACCESS, pd, NULL, 0, 0);
    GOES(ibv_dereg_mr, mr);
    GOES(ibv_dealloc_pd, pd);
    GOES(ibv_close_device, context);
}

static void use_cq(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
    struct ibv_wc wc;
    void *cq_context;
    GOES(ibv_resize_cq, cq, 2);
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
    called("poll_cq");
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    called("req_notify_cq");
    GOES(ibv_get_cq_event, channel, &cq, &cq_context);
    ibv_ack_cq_events(cq, 1);
    called("ibv_ack_cq_events");
}

static void use_srq(struct ibv_pd *pd)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 1}};
    struct ibv_srq_attr attr = {.srq_limit = 0};
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    called("ibv_create_srq");
    GOES(ibv_modify_srq, srq, &attr, IBV_SRQ_LIMIT);
    GOES(ibv_query_srq, srq, &attr);
    assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), 0);
    called("post_srq_recv");
    GOES(ibv_destroy_srq, srq);
}

static void use_qp(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    struct ibv_qp_init_attr init;
    struct ibv_send_wr send = {.wr_id = 1}, *bad_send;
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
    const union ibv_gid gid = {.raw = {0xff}};
    GOES(ibv_modify_qp, qp, &attr, IBV_QP_STATE);
    GOES(ibv_query_qp, qp, &attr, IBV_QP_STATE, &init);
    GOES(ibv_attach_mcast, qp, &gid, 0);
    GOES(ibv_detach_mcast, qp, &gid, 0);
    assert_int_equal(ibv_post_send(qp, &send, &bad_send), 0);
    called("post_send");
    assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), 0);
    called("post_recv");
}

static void queues__are_libibverbs(void **state)
{
    (void)state;
    struct ibv_context *context = open_stub();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    called("ibv_create_comp_channel");
    struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, channel, 0);
    called("ibv_create_cq");
    use_cq(channel, cq);
    use_srq(pd);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    called("ibv_create_qp");
    use_qp(qp);
    struct ibv_ah_attr ah_attr = {.port_num = 1};
    struct ibv_ah *ah = ibv_create_ah(pd, &ah_attr);
    called("ibv_create_ah");
    GOES(ibv_destroy_ah, ah);
    GOES(ibv_destroy_qp, qp);
    GOES(ibv_destroy_cq, cq);
    GOES(ibv_destroy_comp_channel, channel);
    GOES(ibv_dealloc_pd, pd);
    GOES(ibv_close_device, context);
}

/* While the other device is open, too. */
static void ours__is_not_libibverbs(void **state)
{
    (void)state;
    struct ibv_context *stub = open_stub();
    struct end *end = open_end(64);
    called("ibv_free_device_list");
    make_ready(end);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->recv_cq).status, IBV_WC_SUCCESS);
    close_end(end);
    called("nothing");
    GOES(ibv_close_device, stub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list__has_both),          cmocka_unit_test(list__may_end_by_free),
        cmocka_unit_test(context__is_libibverbs),  cmocka_unit_test(queues__are_libibverbs),
        cmocka_unit_test(ours__is_not_libibverbs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
