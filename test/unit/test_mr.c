/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: which registrations are taken, and which accesses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/open.h"
#include "common/rnic/qp.h"

#define LOCAL_WRITE  IBV_ACCESS_LOCAL_WRITE
#define REMOTE_WRITE IBV_ACCESS_REMOTE_WRITE
#define REMOTE_READ  IBV_ACCESS_REMOTE_READ
#define ATOMIC       IBV_ACCESS_REMOTE_ATOMIC

static struct diwarp_pd *pd;

static int setup(void **state)
{
    static const struct diwarp_interface interface = {
        .family = AF_INET, .prefix_bits = 8, .mtu_bytes = 1500, .ip = {10, 0, 0, 1}};
    const struct dw_env env = {.seed = 1, .interfaces = &interface, .interface_count = 1};
    struct diwarp_device *device;
    struct diwarp_device_attr attr;
    (void)state;
    diwarp_device_attr_init(&attr);
    assert_int_equal(dw_device_open(&attr, &env, &device, NULL), 0);
    pd = diwarp_alloc_pd(device);
    assert_non_null(pd);
    return 0;
}

static int teardown(void **state)
{
    struct diwarp_device *device = pd->device;
    (void)state;
    diwarp_dealloc_pd(pd);
    diwarp_close_device(device);
    return 0;
}

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static void mr_register__rights_and_bounds(void **state)
{
    (void)state;
    static const struct {
        uint64_t addr, length;
        int access, expected;
    } cases[] = {
        {0x1000, 10, 0, 0},
        {0x1000, 0, LOCAL_WRITE, 0},
        {0, 10, REMOTE_READ, 0},
        {0x1000, 10, LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | ATOMIC, 0},
        {0x1000, 10, REMOTE_WRITE, -EINVAL},
        {0x1000, 10, ATOMIC, -EINVAL},
        {0x1000, 10, REMOTE_WRITE | REMOTE_READ, -EINVAL},
        {0x1000, 10, IBV_ACCESS_MW_BIND, -EINVAL},
        {0x1000, 10, LOCAL_WRITE | IBV_ACCESS_ZERO_BASED, -EINVAL},
        {0x1000, 10, -1, -EINVAL},
        {0x1000, UINT64_MAX, 0, -EINVAL},
        {UINT64_MAX, 2, 0, -EINVAL},
        {UINT64_MAX - 9, 9, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        errno = 0;
        struct diwarp_mr *mr =
            diwarp_reg_mr(pd, at(cases[i].addr), cases[i].length, cases[i].access);
        assert_int_equal(mr != NULL, cases[i].expected == 0);
        if (!mr) {
            assert_int_equal(-errno, cases[i].expected);
            continue;
        }
        assert_ptr_equal(mr->pd, pd);
        assert_ptr_equal(mr->addr, at(cases[i].addr));
        assert_int_equal(mr->length, cases[i].length);
        assert_int_equal(mr->access, cases[i].access);
        diwarp_dereg_mr(mr);
    }
    assert_int_equal(pd->mrs.count, 0);
}

static void mr_register__other_addresses(void **state)
{
    (void)state;
    static const struct {
        uint64_t addr, length, iova;
        int access, expected;
    } cases[] = {
        {0x1000, 10, 0, LOCAL_WRITE, 0},
        {0x1000, 10, 3, LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ, 0},
        {0x1000, 10, 0x2008, LOCAL_WRITE | ATOMIC, 0},
        {0x1003, 10, 3, LOCAL_WRITE | ATOMIC, 0},
        {0x1000, 10, 0x2004, LOCAL_WRITE | ATOMIC, -EINVAL},
        {0x1001, 10, 0, LOCAL_WRITE | ATOMIC, -EINVAL},
        {0x1000, 10, UINT64_MAX - 10, 0, 0},
        {0x1000, 10, UINT64_MAX - 9, 0, -EINVAL},
        {0x1000, 10, UINT64_MAX, 0, -EINVAL},
        {0x1000, 0, UINT64_MAX, 0, 0},
        {UINT64_MAX - 8, 10, 0, 0, -EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        errno = 0;
        struct diwarp_mr *mr = diwarp_reg_mr_iova(pd, at(cases[i].addr), cases[i].length,
                                                  cases[i].iova, cases[i].access);
        assert_int_equal(mr != NULL, cases[i].expected == 0);
        if (!mr) {
            assert_int_equal(-errno, cases[i].expected);
            continue;
        }
        assert_ptr_equal(mr->addr, at(cases[i].addr));
        assert_int_equal(mr->iova, cases[i].iova);
        diwarp_dereg_mr(mr);
    }
}

static void mr_check__other_addresses(void **state)
{
    (void)state;
    enum { ADDR = 0x1000, LENGTH = 0x100 };
    static const uint64_t iovas[] = {0, 1, ADDR + 8, UINT64_MAX - LENGTH};
    for (size_t i = 0; i < sizeof iovas / sizeof iovas[0]; i++) {
        const uint64_t iova = iovas[i];
        struct diwarp_mr *mr = diwarp_reg_mr_iova(pd, at(ADDR), LENGTH, iova, LOCAL_WRITE);
        const struct {
            uint64_t to, length;
            int expected;
        } cases[] = {
            {iova, LENGTH, 0},
            {iova + 5, LENGTH - 5, 0},
            {iova + LENGTH, 0, 0},
            {iova + 5, LENGTH - 4, -ERANGE},
            {iova - 1, 1, -ERANGE},
            {iova + LENGTH, 1, -ERANGE},
            {iova + LENGTH + 1, 0, -ERANGE},
            {iova + 1, UINT64_MAX, -ERANGE},
            {iova + 1, UINT64_MAX - iova, -ERANGE},
            {iova + (UINT64_C(1) << 63), 1, -ERANGE},
        };
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            struct dw_region *found;
            const int rc = dw_mr_check(&pd->mrs, NULL, mr->stag, cases[k].to, cases[k].length,
                                       LOCAL_WRITE, &found);
            assert_int_equal(rc, cases[k].expected);
            if (!rc)
                assert_ptr_equal(dw_region_at(found, cases[k].to), at(ADDR + (cases[k].to - iova)));
        }
        diwarp_dereg_mr(mr);
    }
}

static void mr_register__stag_is_unique_and_not_0(void **state)
{
    (void)state;
    struct diwarp_mr *mrs[1000];
    struct dw_region *found;
    for (size_t i = 0; i < sizeof mrs / sizeof mrs[0]; i++) {
        mrs[i] = diwarp_reg_mr(pd, at(1), 1, 0);
        assert_non_null(mrs[i]);
        assert_int_not_equal(mrs[i]->stag, 0);
    }
    for (size_t i = 0; i < sizeof mrs / sizeof mrs[0]; i++) {
        assert_int_equal(dw_mr_check(&pd->mrs, NULL, mrs[i]->stag, 1, 1, 0, &found), 0);
        assert_ptr_equal(&found->mr, mrs[i]);
    }
}

static void mr_check__bounds_and_rights(void **state)
{
    (void)state;
    enum { START = 0x1000, LENGTH = 0x100, END = START + LENGTH };
    static const struct {
        uint64_t to, length;
        int access, expected;
    } cases[] = {
        {START, LENGTH, REMOTE_WRITE, 0},
        {START, 1, REMOTE_WRITE | LOCAL_WRITE, 0},
        {END - 1, 1, REMOTE_WRITE, 0},
        {START, 0, REMOTE_WRITE, 0},
        {END, 0, REMOTE_WRITE, 0},
        {START, LENGTH, 0, 0},
        {START - 1, 1, REMOTE_WRITE, -ERANGE},
        {START - 1, 0, REMOTE_WRITE, -ERANGE},
        {END, 1, REMOTE_WRITE, -ERANGE},
        {END + 1, 0, REMOTE_WRITE, -ERANGE},
        {START, LENGTH + 1, REMOTE_WRITE, -ERANGE},
        {START + 1, LENGTH, REMOTE_WRITE, -ERANGE},
        {START + 1, UINT64_MAX, REMOTE_WRITE, -ERANGE},
        {START + 1, UINT64_MAX - START, REMOTE_WRITE, -ERANGE},
        {UINT64_MAX, 2, REMOTE_WRITE, -ERANGE},
        {0, START, REMOTE_WRITE, -ERANGE},
        {START, 1, REMOTE_READ, -EACCES},
        {START, 1, REMOTE_WRITE | REMOTE_READ, -EACCES},
        {START, 1, ATOMIC, -EACCES},
        {UINT64_MAX, 1, REMOTE_READ, -EACCES},
    };
    struct diwarp_mr *mr = diwarp_reg_mr(pd, at(START), LENGTH, LOCAL_WRITE | REMOTE_WRITE);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_region *found = NULL;
        assert_int_equal(dw_mr_check(&pd->mrs, NULL, mr->stag, cases[i].to, cases[i].length,
                                     cases[i].access, &found),
                         cases[i].expected);
        assert_ptr_equal(found, cases[i].expected ? NULL : (void *)mr);
    }
}

static void mr_check__bound_to_a_peer(void **state)
{
    (void)state;
    const struct diwarp_name one = {.job = 1, .rank = 2}, two = {.job = 2, .rank = 1};
    struct diwarp_mr *mr = diwarp_reg_mr(pd, at(0x1000), 8, REMOTE_READ);
    struct dw_region *found;
    assert_int_equal(dw_mr_check(&pd->mrs, &one, mr->stag, 0x1000, 8, REMOTE_READ, &found), 0);
    assert_int_equal(dw_mr_check(&pd->mrs, &two, mr->stag, 0x1000, 8, REMOTE_READ, &found), 0);
    diwarp_bind_mr(mr, two);
    assert_int_equal(dw_mr_check(&pd->mrs, &one, mr->stag, 0x1000, 8, REMOTE_READ, &found),
                     -EACCES);
    assert_int_equal(dw_mr_check(&pd->mrs, &two, mr->stag, 0x1000, 8, REMOTE_READ, &found), 0);
    assert_int_equal(dw_mr_check(&pd->mrs, NULL, mr->stag, 0x1000, 8, REMOTE_READ, &found), 0);
}

static void mr_check__dead_stags(void **state)
{
    (void)state;
    struct dw_region *found;
    assert_int_equal(dw_mr_check(&pd->mrs, NULL, 1, 0, 0, 0, &found), -EACCES);
    struct diwarp_mr *mr = diwarp_reg_mr(pd, at(0x1000), 8, REMOTE_READ);
    struct diwarp_mr *other = diwarp_reg_mr(pd, at(0x1000), 8, REMOTE_READ);
    uint32_t stag = mr->stag;
    assert_int_equal(dw_mr_check(&pd->mrs, NULL, stag, 0x1000, 8, REMOTE_READ, &found), 0);
    assert_int_equal(dw_mr_check(&pd->mrs, NULL, 0, 0x1000, 8, REMOTE_READ, &found), -EACCES);
    diwarp_dereg_mr(mr);
    assert_int_equal(dw_mr_check(&pd->mrs, NULL, stag, 0x1000, 8, REMOTE_READ, &found), -EACCES);
    assert_int_equal(dw_mr_check(&pd->mrs, NULL, other->stag, 0x1000, 8, REMOTE_READ, &found), 0);
    assert_ptr_equal(&found->mr, other);
}

/* The leak checker is the judge here. */
static void pd_dealloc__frees_what_is_left(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        assert_non_null(diwarp_reg_mr(pd, at(0x1000), i, 0));
    assert_int_equal(pd->mrs.count, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mr_register__rights_and_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(mr_register__stag_is_unique_and_not_0, setup, teardown),
        cmocka_unit_test_setup_teardown(mr_register__other_addresses, setup, teardown),
        cmocka_unit_test_setup_teardown(mr_check__bounds_and_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(mr_check__other_addresses, setup, teardown),
        cmocka_unit_test_setup_teardown(mr_check__bound_to_a_peer, setup, teardown),
        cmocka_unit_test_setup_teardown(mr_check__dead_stags, setup, teardown),
        cmocka_unit_test_setup_teardown(pd_dealloc__frees_what_is_left, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
