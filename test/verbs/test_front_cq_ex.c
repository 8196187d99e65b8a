/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: extended CQs, parent and thread domains. */
#include <errno.h>
#include <time.h>

#include "test/verbs/end.h"

#define STAMPS (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct ibv_cq_ex *make(struct end *end, uint64_t wc_flags, uint32_t flags, uint32_t cqe)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = cqe, .wc_flags = wc_flags, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags};
    return ibv_create_cq_ex(end->context, &attr);
}

/* A queue pair with that CQ for both, in the place of the end's own. */
static void use(struct end *end, struct ibv_cq_ex *cq)
{
    struct ibv_qp_init_attr attr = attr_of(end);
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
    end->qp = ibv_create_qp(end->pd, &attr);
    assert_non_null(end->qp);
    make_ready(end);
}

static void close_with(struct end *end, struct ibv_cq_ex *cq)
{
    struct ibv_qp_init_attr attr = attr_of(end);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), EBUSY);
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    end->qp = ibv_create_qp(end->pd, &attr);
    close_end(end);
}

static int start(struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr attr = {0};
    const struct timespec pause = {.tv_nsec = 1000000};
    int rc = ENOENT;
    for (unsigned i = 0; i < 2000 && rc == ENOENT; i++, nanosleep(&pause, NULL))
        rc = ibv_start_poll(cq, &attr);
    return rc;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    assert_int_equal(clock_gettime(clock, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void cq_ex__tells_all(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_cq_ex *cq = make(end, IBV_WC_STANDARD_FLAGS | STAMPS, 0, 8);
    struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    struct ibv_poll_cq_attr wrong = {.comp_mask = 1};
    struct ibv_port_attr port;
    assert_non_null(cq);
    use(end, cq);
    assert_int_equal(ibv_query_port(end->context, 1, &port), 0);
    const uint64_t wall_ns = clock_ns(CLOCK_REALTIME);
    assert_int_equal(ibv_query_rt_values_ex(end->context, &values), 0);
    assert_int_equal(ibv_start_poll(cq, &wrong), EINVAL);
    assert_int_equal(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){0}), ENOENT);
    assert_int_equal(post_recv(end, 5, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(start(cq), 0);
    assert_int_equal(cq->status, IBV_WC_SUCCESS);
    assert_int_equal(cq->wr_id, 7);
    assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_SEND);
    int rc = ENOENT;
    for (unsigned i = 0; i < 1000000 && rc == ENOENT; i++)
        rc = ibv_next_poll(cq);
    assert_int_equal(rc, 0);
    assert_int_equal(cq->wr_id, 5);
    assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
    assert_int_equal(ibv_wc_read_byte_len(cq), 40 + BYTES);
    assert_int_equal(ibv_wc_read_imm_data(cq), 0x01020304);
    assert_int_equal(ibv_wc_read_qp_num(cq), end->qp->qp_num);
    assert_int_equal(ibv_wc_read_src_qp(cq), end->qp->qp_num);
    assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_GRH | IBV_WC_WITH_IMM);
    assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
    assert_int_equal(ibv_wc_read_slid(cq), port.lid);
    assert_int_equal(ibv_wc_read_sl(cq) + ibv_wc_read_dlid_path_bits(cq), 0);
    assert_true(ibv_wc_read_completion_ts(cq) >= (uint64_t)values.raw_clock.tv_nsec);
    const uint64_t read_ns = ibv_wc_read_completion_wallclock_ns(cq);
    assert_true(read_ns + 1000000000u > wall_ns &&
                read_ns < clock_ns(CLOCK_REALTIME) + 1000000000u);
    assert_int_equal(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    close_with(end, cq);
}

/* What a reset of its queue pair takes back stays away, and a resize keeps the rest. */
static void cq_ex__with_the_other_calls(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_cq_ex *cq = make(end, STAMPS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED, 4);
    struct ibv_wc wc;
    use(end, cq);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 2), EINVAL);
    assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 9), 0);
    assert_int_equal(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc), 1);
    assert_int_equal(start(cq), 0);
    assert_true(ibv_wc_read_completion_ts(cq) > 0);
    ibv_end_poll(cq);
    assert_int_equal(modify(end, IBV_QPS_RESET, 0), 0);
    assert_int_equal(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){0}), ENOENT);
    close_with(end, cq);
}

static void cq_ex__ignores_overrun(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_cq_ex *cq = make(end, 0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, 2);
    use(end, cq);
    for (unsigned i = 0; i < 2 * MAX_SENDS; i++) /* those that are lost give their places back */
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(start(cq), 0);
    assert_int_equal(ibv_next_poll(cq), 0);
    assert_int_equal(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    close_with(end, cq);
    end = open_end(8);
    cq = make(end, 0, 0, 2);
    use(end, cq);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(start(cq), 0);
    assert_int_equal(ibv_next_poll(cq), 0);
    assert_int_equal(ibv_next_poll(cq), EIO);
    ibv_end_poll(cq);
    close_with(end, cq);
}

static void cq_ex__refuses(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_cq_init_attr_ex attr = {.cqe = 8, .comp_mask = 1 << 7};
    assert_null(ibv_create_cq_ex(end->context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(make(end, IBV_WC_EX_WITH_CVLAN, 0, 8));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(make(end, 0, 1 << 7, 8));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(make(end, 0, 0, 0));
    assert_int_equal(errno, EINVAL);
    assert_null(make(end, 0, 0, UINT32_MAX));
    assert_int_equal(errno, EINVAL);
    attr = (struct ibv_cq_init_attr_ex){
        .cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = end->pd};
    assert_null(ibv_create_cq_ex(end->context, &attr)); /* no parent domain */
    assert_int_equal(errno, EINVAL);
    attr = (struct ibv_cq_init_attr_ex){.cqe = 8, .comp_vector = 9};
    assert_null(ibv_create_cq_ex(end->context, &attr));
    assert_int_equal(errno, EINVAL);
    struct ibv_values_ex values = {.comp_mask = 1 << 9};
    assert_int_equal(ibv_query_rt_values_ex(end->context, &values), EINVAL);
    struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE};
    assert_int_equal(ibv_modify_cq(end->send_cq, &moderation), EOPNOTSUPP);
    close_end(end);
}

static void domain__is_its_parent(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_td_init_attr none = {0}, unknown = {.comp_mask = 1};
    assert_null(ibv_alloc_td(end->context, &unknown));
    assert_int_equal(errno, EINVAL);
    struct ibv_td *td = ibv_alloc_td(end->context, &none);
    struct ibv_parent_domain_init_attr attr = {.pd = end->pd, .td = td, .comp_mask = 1 << 9};
    assert_null(ibv_alloc_parent_domain(end->context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
    assert_null(ibv_alloc_parent_domain(end->context, &attr));
    assert_int_equal(errno, EINVAL);
    attr.comp_mask = 0;
    struct ibv_pd *domain = ibv_alloc_parent_domain(end->context, &attr);
    assert_non_null(domain);
    attr.pd = NULL;
    assert_null(ibv_alloc_parent_domain(end->context, &attr));
    assert_int_equal(ibv_dealloc_td(td), EBUSY);
    struct ibv_mr *mr = ibv_reg_mr(domain, end->memory, 4096, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_cq_init_attr_ex cq_attr = {
        .cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = domain};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(end->context, &cq_attr);
    assert_true(mr && cq);
    make_ready(end); /* the queue pair is of the parent, the region of the other name */
    assert_int_equal(post_send(end, end->ah, QKEY, mr->lkey), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_pd(domain), EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(domain), EBUSY);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    assert_int_equal(ibv_dealloc_pd(domain), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
    close_end(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cq_ex__tells_all),       cmocka_unit_test(cq_ex__with_the_other_calls),
        cmocka_unit_test(cq_ex__ignores_overrun), cmocka_unit_test(cq_ex__refuses),
        cmocka_unit_test(domain__is_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
