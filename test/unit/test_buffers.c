/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages and buffers: every size, the bound, and what goes back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/buffers.h"
#include "test/unit/random.h"

#define MAX_BYTES (8u * DW_BUFFER_MAX_BYTES)

static unsigned mappings(void)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        count += strchr(line, '\n') != NULL;
    fclose(maps);
    return count;
}

static void pages__all_of_any_size_go_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 4095, 4097, 65856};
    void *pages[16];
    unsigned before = 0;
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 16; i++) {
            pages[i] = dw_pages_map(sizes[(i + round) % 4]);
            assert_non_null(pages[i]);
        }
        for (unsigned i = 0; i < 16; i++)
            dw_pages_unmap(pages[i], sizes[(i + round) % 4]);
        if (!round)
            before = mappings();
    }
    assert_in_range(mappings(), 1, before + 4);
}

static void buffers_get__sizes(void **state)
{
    (void)state;
    static const struct {
        uint32_t bytes, room;
    } cases[] = {{1, 320},       {320, 320},     {321, 1088},    {2000, 2176},
                 {4096, 4672},   {9000, 9344},   {16000, 16384}, {16385, 32768},
                 {32769, 65536}, {65056, 65536}, {65536, 65536}};
    struct dw_buffers buffers = {.max_bytes = DW_BUFFER_MAX_BYTES};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t room;
        void *buffer = dw_buffers_get(&buffers, cases[i].bytes, &room);
        assert_non_null(buffer);
        assert_int_equal(room, cases[i].room);
        assert_int_equal((uintptr_t)buffer % DW_BUFFER_ALIGN_BYTES, 0);
        assert_int_equal(buffers.used_bytes, room);
        memset(buffer, 1, room);
        dw_buffers_put(&buffers, buffer, room);
        assert_true(buffers.idle_bytes <= buffers.max_bytes); /* those of other sizes made way */
    }
    assert_int_equal(buffers.used_bytes, 0);
    dw_buffers_fini(&buffers);
    assert_int_equal(buffers.idle_bytes, 0);
}

static void buffers_get__bound(void **state)
{
    (void)state;
    enum { COUNT = MAX_BYTES / DW_BUFFER_MAX_BYTES };
    void *held[COUNT], *small[2];
    uint32_t room;
    struct dw_buffers buffers = {.max_bytes = MAX_BYTES + 300};
    for (unsigned i = 0; i < COUNT; i++)
        assert_non_null(held[i] = dw_buffers_get(&buffers, DW_BUFFER_MAX_BYTES, &room));
    assert_null(dw_buffers_get(&buffers, 1, &room));
    dw_buffers_put(&buffers, held[3], room);
    assert_true(dw_buffers_leave(&buffers, 320, DW_BUFFER_MAX_BYTES - 320));
    assert_false(dw_buffers_leave(&buffers, 320, DW_BUFFER_MAX_BYTES));
    assert_non_null(small[0] = dw_buffers_get(&buffers, 1, &room));
    assert_null(dw_buffers_get(&buffers, DW_BUFFER_MAX_BYTES, &room));
    assert_non_null(small[1] = dw_buffers_get(&buffers, 320, &room));
    dw_buffers_put(&buffers, small[0], room);
    dw_buffers_put(&buffers, small[1], room);
    for (unsigned i = 0; i < COUNT; i++)
        if (i != 3)
            dw_buffers_put(&buffers, held[i], DW_BUFFER_MAX_BYTES);
    dw_buffers_fini(&buffers);
}

static void buffers_trim__keeps_what_was_needed(void **state)
{
    (void)state;
    enum { COUNT = MAX_BYTES / DW_BUFFER_MAX_BYTES };
    void *held[COUNT];
    uint32_t room;
    struct dw_buffers buffers = {.max_bytes = MAX_BYTES};
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < COUNT; i++)
            assert_non_null(held[i] = dw_buffers_get(&buffers, DW_BUFFER_MAX_BYTES, &room));
        for (unsigned i = 0; i < COUNT; i++)
            dw_buffers_put(&buffers, held[i], room);
        assert_true(dw_buffers_trim(&buffers)); /* all were out since the last one */
        assert_int_equal(buffers.idle_bytes, MAX_BYTES);
    }
    assert_true(dw_buffers_trim(&buffers));
    assert_int_equal(buffers.idle_bytes, MAX_BYTES / 2);
    for (unsigned i = 0; i < 5 && dw_buffers_trim(&buffers); i++)
        ;
    assert_int_equal(buffers.idle_bytes, 0);
    dw_buffers_fini(&buffers);
}

struct owned {
    uint8_t *buffer;
    uint32_t room;
    uint8_t mark;
};

static void check_and_put(struct dw_buffers *buffers, struct owned *owned, uint64_t seed)
{
    for (uint32_t i = 0; i < owned->room; i++)
        assert_for_seed(seed, owned->buffer[i] == owned->mark);
    dw_buffers_put(buffers, owned->buffer, owned->room);
    owned->buffer = NULL;
}

/* No two buffers overlap, none is lost, whatever is asked for and given back in which order. */
static void buffers__random_use(void **state)
{
    (void)state;
    enum { SLOTS = 200 };
    for (uint64_t seed = 0; seed < 30; seed++) {
        static struct owned owned[SLOTS];
        uint64_t rng = seed, out_bytes = 0;
        struct dw_buffers buffers = {.max_bytes = MAX_BYTES};
        memset(owned, 0, sizeof owned);
        for (unsigned step = 0; step < 3000; step++) {
            struct owned *slot = &owned[random_below(&rng, SLOTS)];
            if (slot->buffer) {
                out_bytes -= slot->room;
                check_and_put(&buffers, slot, seed);
            } else {
                uint32_t most = 1u << random_below(&rng, 17);
                uint32_t bytes = 1 + (uint32_t)random_below(&rng, most);
                if (bytes > DW_BUFFER_MAX_BYTES)
                    bytes = DW_BUFFER_MAX_BYTES;
                slot->buffer = dw_buffers_get(&buffers, bytes, &slot->room);
                if (!slot->buffer)
                    continue;
                out_bytes += slot->room;
                slot->mark = (uint8_t)random_next(&rng);
                assert_for_seed(seed, slot->room >= bytes);
                memset(slot->buffer, slot->mark, slot->room);
            }
            if (!random_below(&rng, 50))
                (void)dw_buffers_trim(&buffers);
            assert_for_seed(seed, buffers.used_bytes == out_bytes);
            assert_for_seed(seed, buffers.used_bytes + buffers.idle_bytes <= MAX_BYTES);
        }
        for (unsigned i = 0; i < SLOTS; i++)
            if (owned[i].buffer)
                check_and_put(&buffers, &owned[i], seed);
        for (unsigned i = 0; i < 64 && dw_buffers_trim(&buffers); i++)
            ;
        assert_for_seed(seed, !buffers.used_bytes && !buffers.idle_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages__all_of_any_size_go_back),
        cmocka_unit_test(buffers_get__sizes),
        cmocka_unit_test(buffers_get__bound),
        cmocka_unit_test(buffers_trim__keeps_what_was_needed),
        cmocka_unit_test(buffers__random_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
