/* SPDX-License-Identifier: BSD-3-Clause */
/* A libibverbs.so.1 with a device of its own, stub0, and nothing behind it: it notes which of its
 * functions was called last. test_front_foreign is run with it in the place of the true one. */
#include <infiniband/verbs.h>
#include <stddef.h>

#include "test/verbs/stub_ibverbs.h"

/* Of what is called, the name alone counts. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
/* In the header these are macros, too. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

static const char *last;

const char *stub_last_call(void)
{
    const char *name = last ? last : "nothing";
    last = NULL;
    return name;
}

static int note(const char *name)
{
    last = name;
    return 0;
}

#define STUB(type, name, parameters, result) \
    type name parameters                     \
    {                                        \
        (void)note(#name);                   \
        return result;                       \
    }
#define STUB_VOID(name, parameters) \
    void name parameters            \
    {                               \
        (void)note(#name);          \
    }

/* ---- a context's own functions: programs reach these without libibverbs ---- */

static int poll_cq(struct ibv_cq *of, int n, struct ibv_wc *wc)
{
    return note(__func__);
}

static int req_notify_cq(struct ibv_cq *of, int solicited_only)
{
    return note(__func__);
}

static int post_send(struct ibv_qp *of, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    return note(__func__);
}

static int post_recv(struct ibv_qp *of, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return note(__func__);
}

static int post_srq_recv(struct ibv_srq *of, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return note(__func__);
}

/* ---- one object of each kind ---- */

static struct ibv_device device = {
    .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "stub0"};
static struct ibv_device *devices[] = {&device, NULL};
static struct ibv_context context = {.device = &device,
                                     .ops = {.poll_cq = poll_cq,
                                             .req_notify_cq = req_notify_cq,
                                             .post_send = post_send,
                                             .post_recv = post_recv,
                                             .post_srq_recv = post_srq_recv}};
static struct ibv_pd pd = {.context = &context};
static struct ibv_mr mr = {.context = &context, .pd = &pd};
static struct ibv_comp_channel channel = {.context = &context};
static struct ibv_cq cq = {.context = &context, .channel = &channel};
static struct ibv_srq srq = {.context = &context, .pd = &pd};
static struct ibv_qp qp = {.context = &context, .pd = &pd, .send_cq = &cq, .recv_cq = &cq};
static struct ibv_ah ah = {.context = &context, .pd = &pd};

static int one(int *count)
{
    if (count)
        *count = 1;
    return 0;
}

/* ---- libibverbs' ---- */

STUB(struct ibv_device **, ibv_get_device_list, (int *count), (one(count), devices))
STUB_VOID(ibv_free_device_list, (struct ibv_device * *list))
STUB(const char *, ibv_get_device_name, (struct ibv_device * of), of->name)
STUB(__be64, ibv_get_device_guid, (struct ibv_device * of), 0)
STUB(struct ibv_context *, ibv_open_device, (struct ibv_device * of), &context)
STUB(int, ibv_close_device, (struct ibv_context * of), 0)
STUB(int, ibv_query_device, (struct ibv_context * of, struct ibv_device_attr *attr), 0)
STUB(int, ibv_query_port, (struct ibv_context * of, uint8_t port, struct _compat_ibv_port_attr *to),
     0)
STUB(int, ibv_query_gid, (struct ibv_context * of, uint8_t port, int index, union ibv_gid *gid), 0)
STUB(int, ibv_query_pkey, (struct ibv_context * of, uint8_t port, int index, __be16 *pkey), 0)
STUB(int, ibv_get_async_event, (struct ibv_context * of, struct ibv_async_event *event),
     (*event = (struct ibv_async_event){.element.qp = &qp, .event_type = IBV_EVENT_QP_FATAL}, 0))
STUB_VOID(ibv_ack_async_event, (struct ibv_async_event * event))
STUB(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * of), &pd)
STUB(int, ibv_dealloc_pd, (struct ibv_pd * of), 0)
STUB(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * of, void *at, size_t bytes, int access), &mr)
STUB(struct ibv_mr *, ibv_reg_mr_iova2,
     (struct ibv_pd * of, void *at, size_t bytes, uint64_t iova, unsigned access), &mr)
STUB(int, ibv_rereg_mr,
     (struct ibv_mr * of, int flags, struct ibv_pd *to, void *at, size_t bytes, int access), 0)
STUB(int, ibv_dereg_mr, (struct ibv_mr * of), 0)
STUB(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * of), &channel)
STUB(int, ibv_destroy_comp_channel, (struct ibv_comp_channel * of), 0)
STUB(struct ibv_cq *, ibv_create_cq,
     (struct ibv_context * of, int cqe, void *cq_context, struct ibv_comp_channel *to, int vector),
     &cq)
STUB(int, ibv_resize_cq, (struct ibv_cq * of, int cqe), 0)
STUB(int, ibv_get_cq_event, (struct ibv_comp_channel * of, struct ibv_cq **from, void **cq_context),
     (*from = &cq, 0))
STUB_VOID(ibv_ack_cq_events, (struct ibv_cq * of, unsigned events))
STUB(int, ibv_destroy_cq, (struct ibv_cq * of), 0)
STUB(struct ibv_srq *, ibv_create_srq, (struct ibv_pd * of, struct ibv_srq_init_attr *attr), &srq)
STUB(int, ibv_modify_srq, (struct ibv_srq * of, struct ibv_srq_attr *attr, int mask), 0)
STUB(int, ibv_query_srq, (struct ibv_srq * of, struct ibv_srq_attr *attr), 0)
STUB(int, ibv_destroy_srq, (struct ibv_srq * of), 0)
STUB(struct ibv_qp *, ibv_create_qp, (struct ibv_pd * of, struct ibv_qp_init_attr *attr), &qp)
STUB(int, ibv_modify_qp, (struct ibv_qp * of, struct ibv_qp_attr *attr, int mask), 0)
STUB(int, ibv_query_qp,
     (struct ibv_qp * of, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init), 0)
STUB(int, ibv_attach_mcast, (struct ibv_qp * of, const union ibv_gid *gid, uint16_t lid), 0)
STUB(int, ibv_detach_mcast, (struct ibv_qp * of, const union ibv_gid *gid, uint16_t lid), 0)
STUB(int, ibv_destroy_qp, (struct ibv_qp * of), 0)
STUB(struct ibv_ah *, ibv_create_ah, (struct ibv_pd * of, struct ibv_ah_attr *attr), &ah)
STUB(int, ibv_destroy_ah, (struct ibv_ah * of), 0)
