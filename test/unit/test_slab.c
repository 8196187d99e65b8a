/* SPDX-License-Identifier: BSD-3-Clause */
/* The slab: buffers of every size, its bound, and what it gives back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/slab.h"
#include "test/unit/random.h"

#define CHUNKS 8u

static void trim_all(struct dw_slab *slab)
{
    for (unsigned i = 0; i < 64 && dw_slab_trim(slab); i++)
        ;
}

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

static void slab_get__sizes(void **state)
{
    (void)state;
    static const struct {
        uint32_t bytes, room;
    } cases[] = {{1, 320},       {320, 320},     {321, 1088},    {2000, 2176},
                 {4096, 4672},   {9000, 9344},   {16000, 16320}, {16321, 32736},
                 {32737, 65472}, {65056, 65472}, {65472, 65472}};
    struct dw_slab slab;
    assert_int_equal(dw_slab_init(&slab, CHUNKS * DW_SLAB_CHUNK_BYTES), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t room;
        void *buffer = dw_slab_get(&slab, cases[i].bytes, &room);
        assert_non_null(buffer);
        assert_int_equal(room, cases[i].room);
        assert_int_equal((uintptr_t)buffer % 16, 0);
        memset(buffer, 1, room);
        dw_slab_put(&slab, buffer);
    }
    assert_int_equal(slab.used, 0);
    assert_int_equal(slab.chunk_count, 1); /* each size in turn had the same */
    dw_slab_fini(&slab);
}

/* All buffers of a chunk, but those of half of it. */
static void slab_get__aligned(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {320, 1088, 2176, 4672, 9344, 16320};
    struct dw_slab slab;
    assert_int_equal(dw_slab_init(&slab, CHUNKS * DW_SLAB_CHUNK_BYTES), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t n = 0; n < DW_SLAB_CHUNK_BYTES / sizes[i]; n++) {
            uint32_t room;
            void *buffer = dw_slab_get(&slab, sizes[i], &room);
            assert_non_null(buffer);
            assert_int_equal(room, sizes[i]);
            assert_int_equal((uintptr_t)buffer % DW_SLAB_ALIGN_BYTES, 0);
        }
    dw_slab_fini(&slab);
}

static void slab_get__bound(void **state)
{
    (void)state;
    void *buffers[CHUNKS];
    uint32_t room;
    struct dw_slab slab;
    assert_int_equal(dw_slab_init(&slab, CHUNKS * DW_SLAB_CHUNK_BYTES + 1000), 0);
    for (unsigned i = 0; i < CHUNKS; i++)
        assert_non_null(buffers[i] = dw_slab_get(&slab, DW_SLAB_MAX_BYTES, &room));
    assert_null(dw_slab_get(&slab, 1, &room));
    assert_int_equal(slab.touched_bytes, CHUNKS * DW_SLAB_CHUNK_BYTES);
    dw_slab_put(&slab, buffers[3]);
    void *small = dw_slab_get(&slab, 1, &room);
    assert_non_null(small);
    assert_null(dw_slab_get(&slab, DW_SLAB_MAX_BYTES, &room));
    assert_non_null(dw_slab_get(&slab, 320, &room));
    dw_slab_fini(&slab);
}

static void slab_trim__keeps_what_was_needed(void **state)
{
    (void)state;
    void *buffers[CHUNKS];
    uint32_t room;
    struct dw_slab slab;
    assert_int_equal(dw_slab_init(&slab, CHUNKS * DW_SLAB_CHUNK_BYTES), 0);
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < CHUNKS; i++)
            assert_non_null(buffers[i] = dw_slab_get(&slab, DW_SLAB_MAX_BYTES, &room));
        for (unsigned i = 0; i < CHUNKS; i++)
            dw_slab_put(&slab, buffers[i]);
        assert_true(dw_slab_trim(&slab)); /* all were out since the last one */
        assert_int_equal(slab.chunk_count, CHUNKS);
    }
    assert_true(dw_slab_trim(&slab));
    assert_int_equal(slab.chunk_count, CHUNKS / 2);
    trim_all(&slab);
    assert_int_equal(slab.chunk_count, 1);
    assert_true(slab.touched_bytes <= DW_SLAB_CHUNK_BYTES);
    for (unsigned i = 0; i < CHUNKS; i++) { /* the returned ones serve again */
        assert_non_null(buffers[i] = dw_slab_get(&slab, DW_SLAB_MAX_BYTES, &room));
        memset(buffers[i], 1, room);
    }
    dw_slab_fini(&slab);
}

struct owned {
    uint8_t *buffer;
    uint32_t room;
    uint8_t mark;
};

static void check_and_put(struct dw_slab *slab, struct owned *owned, uint64_t seed)
{
    for (uint32_t i = 0; i < owned->room; i++)
        assert_for_seed(seed, owned->buffer[i] == owned->mark);
    dw_slab_put(slab, owned->buffer);
    owned->buffer = NULL;
}

/* No two buffers overlap, none is lost, whatever is asked for and given back in which order. */
static void slab__random_use(void **state)
{
    (void)state;
    enum { SLOTS = 200 };
    for (uint64_t seed = 0; seed < 30; seed++) {
        static struct owned owned[SLOTS];
        uint64_t rng = seed;
        uint32_t out = 0;
        struct dw_slab slab;
        memset(owned, 0, sizeof owned);
        assert_int_equal(dw_slab_init(&slab, CHUNKS * DW_SLAB_CHUNK_BYTES), 0);
        for (unsigned step = 0; step < 3000; step++) {
            struct owned *slot = &owned[random_below(&rng, SLOTS)];
            if (slot->buffer) {
                check_and_put(&slab, slot, seed);
                out--;
            } else {
                uint32_t most = 1u << random_below(&rng, 17);
                uint32_t bytes = 1 + (uint32_t)random_below(&rng, most);
                if (bytes > DW_SLAB_MAX_BYTES)
                    bytes = DW_SLAB_MAX_BYTES;
                slot->buffer = dw_slab_get(&slab, bytes, &slot->room);
                if (!slot->buffer)
                    continue;
                out++;
                slot->mark = (uint8_t)random_next(&rng);
                assert_for_seed(seed, slot->room >= bytes);
                memset(slot->buffer, slot->mark, slot->room);
            }
            if (!random_below(&rng, 50))
                (void)dw_slab_trim(&slab);
            assert_for_seed(seed, slab.used == out);
            assert_for_seed(seed, slab.chunk_count <= CHUNKS);
            assert_for_seed(seed,
                            slab.touched_bytes <= (uint64_t)slab.chunk_count * DW_SLAB_CHUNK_BYTES);
        }
        for (unsigned i = 0; i < SLOTS; i++)
            if (owned[i].buffer)
                check_and_put(&slab, &owned[i], seed);
        trim_all(&slab);
        assert_for_seed(seed, !slab.used && slab.chunk_count <= 1);
        dw_slab_fini(&slab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages__all_of_any_size_go_back),
        cmocka_unit_test(slab_get__sizes),
        cmocka_unit_test(slab_get__aligned),
        cmocka_unit_test(slab_get__bound),
        cmocka_unit_test(slab_trim__keeps_what_was_needed),
        cmocka_unit_test(slab__random_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
