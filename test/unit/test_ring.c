/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/ring.h"
#include "test/unit/random.h"

#define MAX 100

static void ring__keeps_order_while_it_grows_and_wraps(void **state)
{
    (void)state;
    struct dw_ring ring = {0};
    uint64_t random = 1;
    uint32_t pushed = 0, popped = 0;

    for (unsigned i = 0; i < 20000; i++) {
        uint32_t *slot;

        if (random_percent(&random, i / 1000 % 2 ? 30 : 70)) {
            slot = dw_ring_push(&ring, sizeof *slot, MAX);
            assert_int_equal(slot == NULL, pushed - popped == MAX);
            if (slot)
                *slot = pushed++;
        } else if (pushed != popped && random_percent(&random, 20)) {
            dw_ring_unpush(&ring);
            pushed--;
        } else {
            uint32_t n = random_below(&random, pushed - popped + 1);
            dw_ring_pop(&ring, n > 3 ? 3 : n);
            popped += n > 3 ? 3 : n;
        }
        assert_int_equal(ring.count, pushed - popped);
        for (uint32_t k = 0; k < ring.count; k++)
            assert_int_equal(*(uint32_t *)dw_ring_at(&ring, sizeof *slot, k), popped + k);
    }
    dw_ring_fini(&ring);
}

static void ring__gives_large_memory_back(void **state)
{
    (void)state;
    struct dw_ring ring = {0};

    for (unsigned i = 0; i < MAX; i++)
        assert_non_null(dw_ring_push(&ring, 8, MAX));
    assert_null(dw_ring_push(&ring, 8, MAX));
    assert_in_range(ring.capacity, MAX, 2 * MAX);
    dw_ring_pop(&ring, MAX);
    assert_int_equal(ring.capacity, 0);
    assert_non_null(dw_ring_push(&ring, 8, MAX));
    dw_ring_pop(&ring, 1);
    assert_in_range(ring.capacity, 1, 32);
    dw_ring_fini(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring__keeps_order_while_it_grows_and_wraps),
        cmocka_unit_test(ring__gives_large_memory_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
