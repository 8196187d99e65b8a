/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: which registrations are taken, and which accesses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/mem/mr.h"

#define LOCAL_WRITE  IBV_ACCESS_LOCAL_WRITE
#define REMOTE_WRITE IBV_ACCESS_REMOTE_WRITE
#define REMOTE_READ  IBV_ACCESS_REMOTE_READ
#define ATOMIC       IBV_ACCESS_REMOTE_ATOMIC

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
    struct dw_map table;

    dw_map_init(&table, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct diwarp_mr *mr = NULL;
        assert_int_equal(
            dw_mr_register(&table, at(cases[i].addr), cases[i].length, cases[i].access, 7, &mr),
            cases[i].expected);
        assert_int_equal(mr != NULL, cases[i].expected == 0);
        if (!mr)
            continue;
        assert_ptr_equal(mr->addr, at(cases[i].addr));
        assert_int_equal(mr->length, cases[i].length);
        assert_int_equal(mr->access, cases[i].access);
        free(dw_map_remove(&table, mr->stag));
    }
    assert_int_equal(table.count, 0);
    dw_mrs_fini(&table);
}

static void mr_register__stag_is_unique_and_not_0(void **state)
{
    (void)state;
    struct dw_map table;
    struct diwarp_mr *a, *b;

    dw_map_init(&table, 2);
    assert_int_equal(dw_mr_register(&table, at(1), 1, 0, 0, &a), -EEXIST);
    assert_int_equal(dw_mr_register(&table, at(1), 1, 0, 7, &a), 0);
    assert_int_equal(dw_mr_register(&table, at(1), 1, 0, 7, &b), -EEXIST);
    assert_int_equal(dw_mr_register(&table, at(1), 1, REMOTE_WRITE, 7, &b), -EINVAL);
    assert_int_equal(dw_mr_register(&table, at(1), 1, 0, 8, &b), 0);
    assert_int_equal(a->stag, 7);
    assert_int_equal(b->stag, 8);
    dw_mrs_fini(&table);
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
    struct dw_map table;
    struct diwarp_mr *mr;

    dw_map_init(&table, 3);
    assert_int_equal(dw_mr_register(&table, at(START), LENGTH, LOCAL_WRITE | REMOTE_WRITE, 7, &mr),
                     0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_region *found = NULL;
        assert_int_equal(
            dw_mr_check(&table, mr->stag, cases[i].to, cases[i].length, cases[i].access, &found),
            cases[i].expected);
        assert_ptr_equal(found, cases[i].expected ? NULL : (void *)mr);
    }
    dw_mrs_fini(&table);
}

static void mr_check__dead_stags(void **state)
{
    (void)state;
    struct dw_map table;
    struct diwarp_mr *mr, *other;
    struct dw_region *found;

    dw_map_init(&table, 4);
    assert_int_equal(dw_mr_check(&table, 1, 0, 0, 0, &found), -EACCES);
    assert_int_equal(dw_mr_register(&table, at(0x1000), 8, REMOTE_READ, 7, &mr), 0);
    assert_int_equal(dw_mr_register(&table, at(0x1000), 8, REMOTE_READ, 8, &other), 0);
    uint32_t stag = mr->stag;
    assert_int_equal(dw_mr_check(&table, stag, 0x1000, 8, REMOTE_READ, &found), 0);
    assert_int_equal(dw_mr_check(&table, 0, 0x1000, 8, REMOTE_READ, &found), -EACCES);
    free(dw_map_remove(&table, mr->stag));
    assert_int_equal(dw_mr_check(&table, stag, 0x1000, 8, REMOTE_READ, &found), -EACCES);
    assert_int_equal(dw_mr_check(&table, other->stag, 0x1000, 8, REMOTE_READ, &found), 0);
    assert_ptr_equal(&found->mr, other);
    dw_mrs_fini(&table);
}

/* The leak checker is the judge here. */
static void mr_table_fini__frees_what_is_left(void **state)
{
    (void)state;
    struct dw_map table;

    dw_map_init(&table, 5);
    for (unsigned i = 0; i < 1000; i++) {
        struct diwarp_mr *mr;
        assert_int_equal(dw_mr_register(&table, at(0x1000), i, 0, i + 1, &mr), 0);
    }
    assert_int_equal(table.count, 1000);
    dw_mrs_fini(&table);
    assert_int_equal(table.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mr_register__rights_and_bounds),
        cmocka_unit_test(mr_register__stag_is_unique_and_not_0),
        cmocka_unit_test(mr_check__bounds_and_rights),
        cmocka_unit_test(mr_check__dead_stags),
        cmocka_unit_test(mr_table_fini__frees_what_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
