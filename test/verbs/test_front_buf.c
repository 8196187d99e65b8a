/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: what rdma-core has since 58, found as a program finds it that was built there.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "test/verbs/rc_pair.h"

/* struct ibv_mr_init_attr, and bits of its comp_mask. */
struct mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    void *dmah;
    void *buf;
};
enum { HAS_IOVA = 1, HAS_ADDR = 2, HAS_FD = 4, HAS_DMAH = 16, HAS_BUF = 32 };

typedef void *alloc_function(struct ibv_pd *pd, size_t size, void **buf);
typedef void free_function(void *buf);
typedef int export_function(void *buf);
typedef struct ibv_mr *reg_buf_function(struct ibv_pd *pd, void *buf, void *addr, size_t length,
                                        int access);
typedef struct ibv_mr *reg_ex_function(struct ibv_pd *pd, struct mr_init_attr *attr);
typedef int speed_function(struct ibv_context *context, uint32_t port, uint64_t *speed);
typedef int attach_function(struct ibv_qp *qp, void *counter, void *attr);

/* Of the front: libibverbs' own would take its objects for those of a driver. */
static void *find(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    assert_non_null(function);
    return function;
}

static void assert_refused(struct ibv_pd *pd, struct mr_init_attr attr, int error)
{
    reg_ex_function *reg_ex = (reg_ex_function *)find("ibv_reg_mr_ex");
    errno = 0;
    assert_null(reg_ex(pd, &attr));
    assert_int_equal(errno, error);
}

static void buf__is_registered_where_it_was_allocated(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_pd *other = ibv_alloc_pd(pair->context);
    reg_buf_function *reg_buf = (reg_buf_function *)find("ibv_reg_buf_mr");
    void *buf;
    uint8_t *addr = ((alloc_function *)find("ibv_alloc_buf"))(pair->pd, 10000, &buf);
    assert_non_null(addr);
    assert_int_equal((uintptr_t)addr % 4096, 0);
    memset(addr, 0x5a, 10000);
    assert_int_equal(((export_function *)find("ibv_export_buf_dmabuf_fd"))(buf), -1);
    assert_int_equal(errno, ENODATA);
    assert_null(reg_buf(pair->pd, buf, addr + 1, 10000, 0));
    assert_null(reg_buf(pair->pd, buf, addr - 1, 10000, 0));
    assert_null(reg_buf(other, buf, addr, 10000, 0));
    assert_int_equal(errno, EINVAL);
    struct ibv_mr *mr = reg_buf(pair->pd, buf, addr + 8, 9992, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    assert_ptr_equal(mr->addr, addr + 8);
    assert_int_equal(mr->length, 9992);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    ((free_function *)find("ibv_free_buf"))(buf);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    pair_close(pair);
}

static void reg_ex__reads_what_the_mask_names(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    reg_ex_function *reg_ex = (reg_ex_function *)find("ibv_reg_mr_ex");
    void *buf;
    uint8_t *addr = ((alloc_function *)find("ibv_alloc_buf"))(pair->pd, 4096, &buf);
    struct mr_init_attr attr = {.length = 4096,
                                .access = ALL_ACCESS,
                                .comp_mask = HAS_ADDR,
                                .iova = 1 << 20,
                                .addr = addr,
                                .fd = -1,
                                .buf = pair};
    assert_non_null(addr);
    memset(addr, 0x5a, 8);
    for (unsigned mask = HAS_FD; mask <= 1 << 7; mask <<= 1) {
        attr.comp_mask = HAS_ADDR | mask;
        assert_refused(pair->pd, attr, mask == HAS_BUF ? EINVAL : EOPNOTSUPP);
    }
    attr.comp_mask = HAS_BUF;
    attr.buf = buf;
    assert_refused(pair->pd, attr, EINVAL); /* where in it? */
    attr.comp_mask = HAS_ADDR | HAS_BUF | HAS_IOVA;
    struct ibv_mr *mr = reg_ex(pair->pd, &attr);
    assert_non_null(mr);
    struct ibv_sge sge = {(uintptr_t)pair->memory[0] + 2048, 8, pair->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = 1 << 20, .rkey = mr->rkey}},
                       *bad;
    pair_connect(pair, ALL_ACCESS);
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_done(pair->send_cq[0], 0, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory[0] + 2048, addr, 8);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    ((free_function *)find("ibv_free_buf"))(buf);
    pair_close(pair);
}

static void device__tells_its_speed_and_lacks_counters(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    speed_function *speed_of = (speed_function *)find("ibv_query_port_speed");
    uint64_t speed = 0;
    assert_int_equal(speed_of(pair->context, 1, &speed), 0);
    assert_int_equal(speed, 400);
    assert_int_equal(speed_of(pair->context, 2, &speed), EINVAL);
    assert_int_equal(((attach_function *)find("ibv_qp_attach_comp_cntr"))(pair->qp[0], NULL, NULL),
                     EOPNOTSUPP);
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf__is_registered_where_it_was_allocated),
        cmocka_unit_test(reg_ex__reads_what_the_mask_names),
        cmocka_unit_test(device__tells_its_speed_and_lacks_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
