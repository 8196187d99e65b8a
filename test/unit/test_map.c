/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash map, against an array indexed by the key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/map.h"
#include "test/unit/random.h"

#define SEEDS 20
#define STEPS 5000
#define KEYS  300

static int values[KEYS];

static void map_get__nothing_in_an_empty_map(void **state)
{
    (void)state;
    struct dw_map map;

    dw_map_init(&map, 1);
    assert_null(dw_map_get(&map, 0));
    assert_null(dw_map_remove(&map, 0));
    size_t slot = 0;
    assert_null(dw_map_next(&map, &slot));
    assert_int_equal(map.count, 0);
    dw_map_fini(&map);
}

static void map_put__extreme_keys(void **state)
{
    (void)state;
    static const uint64_t keys[] = {0, 1, UINT32_MAX, 1ull << 32, 1ull << 63, UINT64_MAX};
    struct dw_map map;

    dw_map_init(&map, UINT64_MAX);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_int_equal(dw_map_put(&map, keys[i], &values[i]), 0);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_ptr_equal(dw_map_get(&map, keys[i]), &values[i]);
        assert_ptr_equal(dw_map_remove(&map, keys[i]), &values[i]);
        assert_null(dw_map_get(&map, keys[i]));
    }
    dw_map_fini(&map);
}

static void map_put__grows_and_keeps_all(void **state)
{
    (void)state;
    struct dw_map map;

    dw_map_init(&map, 2);
    for (uint64_t key = 0; key < KEYS; key++) {
        assert_int_equal(dw_map_put(&map, key << 40, &values[key]), 0);
        assert_true(4 * map.count <= 3 * map.capacity);
    }
    assert_int_equal(map.count, KEYS);
    for (uint64_t key = 0; key < KEYS; key++)
        assert_ptr_equal(dw_map_get(&map, key << 40), &values[key]);
    dw_map_fini(&map);
    assert_null(dw_map_get(&map, 0));
    assert_int_equal(dw_map_put(&map, 0, &values[0]), 0); /* usable again */
    dw_map_fini(&map);
}

/* The slot a key has when alone in the smallest map. */
static size_t home(uint64_t seed, uint64_t key)
{
    struct dw_map map;
    size_t slot = 0;

    dw_map_init(&map, seed);
    assert_int_equal(dw_map_put(&map, key, &values[0]), 0);
    while (!map.slots[slot].value)
        slot++;
    dw_map_fini(&map);
    return slot;
}

/* A probe chain that runs over the end of the table: whichever key goes, the rest is still found.
 */
static void map_remove__chain_across_the_end(void **state)
{
    (void)state;
    enum { CHAIN = 8 };
    uint64_t keys[CHAIN];
    size_t n = 0;

    /* Homes 14, 15 and 0, so that the chain mixes keys that may and may not move into a hole. */
    for (uint64_t key = 0; n < CHAIN; key++) {
        size_t at = home(3, key);
        if (at == 14 || at == 15 || at == 0)
            keys[n++] = key;
    }
    for (size_t gone = 0; gone < CHAIN; gone++) {
        struct dw_map map;
        dw_map_init(&map, 3);
        for (size_t i = 0; i < CHAIN; i++)
            assert_int_equal(dw_map_put(&map, keys[i], &values[i]), 0);
        assert_int_equal(map.capacity, 16);
        assert_ptr_equal(dw_map_remove(&map, keys[gone]), &values[gone]);
        for (size_t i = 0; i < CHAIN; i++)
            assert_ptr_equal(dw_map_get(&map, keys[i]), i == gone ? NULL : &values[i]);
        dw_map_fini(&map);
    }
}

static void map_init__seed_moves_the_buckets(void **state)
{
    (void)state;
    unsigned moved = 0;

    for (uint64_t key = 0; key < 16; key++)
        moved += home(4, key) != home(5, key);
    assert_true(moved > 8);
}

static void map_next__visits_each_once(void **state)
{
    (void)state;
    struct dw_map map;
    bool seen[KEYS] = {false};
    unsigned visits = 0;
    size_t slot = 0;

    dw_map_init(&map, 6);
    for (uint64_t key = 0; key < KEYS; key++)
        assert_int_equal(dw_map_put(&map, key, &values[key]), 0);
    for (int *value; (value = dw_map_next(&map, &slot)); visits++) {
        assert_false(seen[value - values]);
        seen[value - values] = true;
    }
    assert_int_equal(visits, KEYS);
    dw_map_fini(&map);
}

static void check_all(uint64_t seed, const struct dw_map *map, int *const model[KEYS])
{
    size_t count = 0;

    for (uint64_t key = 0; key < KEYS; key++) {
        assert_for_seed(seed, dw_map_get(map, key) == model[key]);
        count += model[key] != NULL;
    }
    assert_for_seed(seed, map->count == count);
}

static void map__agrees_with_an_array(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint64_t rng = seed;
        int *model[KEYS] = {0};
        struct dw_map map;

        dw_map_init(&map, random_next(&rng));
        for (unsigned step = 0; step < STEPS; step++) {
            uint32_t key = random_below(&rng, KEYS);
            /* Swings between nearly empty and nearly full. */
            if (!model[key] && random_percent(&rng, step / 500 % 2 ? 20 : 90)) {
                model[key] = &values[random_below(&rng, KEYS)];
                assert_int_equal(dw_map_put(&map, key, model[key]), 0);
            } else if (random_percent(&rng, 60)) {
                assert_for_seed(seed, dw_map_remove(&map, key) == model[key]);
                model[key] = NULL;
            }
            assert_for_seed(seed, dw_map_get(&map, key) == model[key]);
            if (step % 50 == 0)
                check_all(seed, &map, model);
        }
        check_all(seed, &map, model);
        dw_map_fini(&map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_get__nothing_in_an_empty_map),
        cmocka_unit_test(map_put__extreme_keys),
        cmocka_unit_test(map_put__grows_and_keeps_all),
        cmocka_unit_test(map_remove__chain_across_the_end),
        cmocka_unit_test(map_init__seed_moves_the_buckets),
        cmocka_unit_test(map_next__visits_each_once),
        cmocka_unit_test(map__agrees_with_an_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
