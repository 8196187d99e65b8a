/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways: who shares them, which may be used together, and when those that do not work are looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/path/ways.h"

#define LIMIT_BYTES 1440u
#define LOOK_NS     1000000000ull

static const uint64_t key[2] = {1, 2};

struct fixture {
    struct dw_paths paths;
    struct dw_ways *ways;
};

/* One way by each of these NICs, to an interface of the other side. */
static struct dw_ways_list list_of(struct dw_paths *paths, const uint8_t *nics, uint8_t count)
{
    struct dw_ways_list list = {.count = count};
    for (uint8_t i = 0; i < count; i++) {
        const struct dw_llp_addr host = {.family = AF_INET, .ip = {10, i, 0, 1}};
        list.paths[i] = dw_path_get(paths, &host, i, 0, LIMIT_BYTES);
        assert_non_null(list.paths[i]);
        list.there[i] = i;
        list.nics[i] = nics[i];
    }
    return list;
}

static void begin(struct fixture *f, const uint8_t *nics, uint8_t count)
{
    dw_paths_init(&f->paths, key);
    const struct dw_ways_list list = list_of(&f->paths, nics, count);
    f->ways = dw_ways_get(&f->paths, &list);
    assert_non_null(f->ways);
}

static void end(struct fixture *f)
{
    dw_ways_put(&f->paths, f->ways);
    assert_int_equal(f->paths.count, 0);
    assert_int_equal(f->paths.ways_bytes, 0);
    dw_paths_fini(&f->paths);
}

static void dw_ways_get__same_paths__shared(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, (const uint8_t[]){0, 1}, 2);
    const struct dw_ways_list same = list_of(&f.paths, (const uint8_t[]){0, 1}, 2);
    assert_ptr_equal(dw_ways_get(&f.paths, &same), f.ways);
    const struct dw_ways_list fewer = list_of(&f.paths, (const uint8_t[]){0}, 1);
    struct dw_ways *other = dw_ways_get(&f.paths, &fewer);
    assert_ptr_not_equal(other, f.ways);
    dw_ways_put(&f.paths, other);
    dw_ways_put(&f.paths, f.ways);
    end(&f);
}

static void dw_ways_together__working_ones_of_other_nics(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, (const uint8_t[]){0, 0, 1}, 3);
    assert_int_equal(f.ways->apart, 1 << 0 | 1 << 2);
    assert_int_equal(dw_ways_together(f.ways), 0);
    f.ways->working = 1 << 2;
    assert_int_equal(dw_ways_together(f.ways), 1 << 0 | 1 << 2);
    f.ways->paths[2]->datagram_max_bytes -= 8; /* takes too little */
    assert_int_equal(dw_ways_together(f.ways), 0);
    end(&f);
}

static void dw_ways_change__same_nic__the_current_one_stands_for_it(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, (const uint8_t[]){0, 0, 1}, 3);
    f.ways->working = 1 << 0 | 1 << 2;
    f.ways->answered = true;
    dw_ways_change(f.ways, 1);
    assert_int_equal(f.ways->apart, 1 << 1 | 1 << 2);
    assert_int_equal(f.ways->working, 1 << 2);
    assert_false(f.ways->answered);
    end(&f);
}

static void dw_ways_to_look_at__once_in_the_interval(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, (const uint8_t[]){0, 1, DW_WAYS_NO_NIC}, 3);
    assert_int_equal(dw_ways_to_look_at(f.ways, LOOK_NS, 1), 1 << 1);
    assert_int_equal(dw_ways_to_look_at(f.ways, LOOK_NS, LOOK_NS), 0);
    assert_int_equal(dw_ways_to_look_at(f.ways, LOOK_NS, LOOK_NS + 1), 1 << 1);
    f.ways->working = 1 << 1;
    assert_int_equal(dw_ways_to_look_at(f.ways, LOOK_NS, 10 * LOOK_NS), 0);
    end(&f);
}

/* Looks until one falls due; returns the time that it took. */
static uint64_t wait_for_look(struct fixture *f, uint64_t *now_ns)
{
    const uint64_t began_ns = *now_ns;
    while (!dw_ways_to_look_at(f->ways, LOOK_NS, *now_ns)) {
        *now_ns += LOOK_NS / 4;
        assert_true(*now_ns - began_ns < 1000 * LOOK_NS);
    }
    return *now_ns - began_ns;
}

static void dw_ways_leave__often__looked_at_seldom(void **state)
{
    (void)state;
    struct fixture f;
    uint64_t now_ns = 1;
    begin(&f, (const uint8_t[]){0, 1}, 2);
    for (unsigned i = 0; i < 300; i++) {
        dw_ways_leave(f.ways, 1);
        f.ways->look_ns = 0;
        (void)wait_for_look(&f, &now_ns);
        assert_int_equal(f.ways->look_ns - now_ns, LOOK_NS << (i < 6 ? i + 1 : 6));
    }
    end(&f);
}

static void dw_ways_leave__long_ago__looked_at_soon_again(void **state)
{
    (void)state;
    struct fixture f;
    uint64_t now_ns = 1;
    begin(&f, (const uint8_t[]){0, 1}, 2);
    for (unsigned i = 0; i < 6; i++)
        dw_ways_leave(f.ways, 1);
    (void)wait_for_look(&f, &now_ns);
    f.ways->working = 1 << 1; /* it answers, and goes on working */
    for (unsigned i = 0; i < 1000; i++, now_ns += LOOK_NS)
        assert_int_equal(dw_ways_to_look_at(f.ways, LOOK_NS, now_ns), 0);
    f.ways->working = 0;
    assert_in_range(wait_for_look(&f, &now_ns), 0, LOOK_NS);
    now_ns++;
    assert_in_range(wait_for_look(&f, &now_ns), LOOK_NS / 2, 2 * LOOK_NS);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dw_ways_get__same_paths__shared),
        cmocka_unit_test(dw_ways_together__working_ones_of_other_nics),
        cmocka_unit_test(dw_ways_change__same_nic__the_current_one_stands_for_it),
        cmocka_unit_test(dw_ways_to_look_at__once_in_the_interval),
        cmocka_unit_test(dw_ways_leave__often__looked_at_seldom),
        cmocka_unit_test(dw_ways_leave__long_ago__looked_at_soon_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
