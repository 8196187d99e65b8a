/* SPDX-License-Identifier: BSD-3-Clause */
/* Cells: apart, zeroed, found by index and by address, visited by rising index, given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cells.h"
#include "test/unit/random.h"

#define CELLS 1000
#define STEPS 20000

static void cells__as_an_array_has_them(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {32, 40, 56, 1000};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct dw_cells cells;
        uint32_t *out[CELLS] = {0}, indices[CELLS] = {0};
        unsigned used = 0;
        uint64_t seed = s + 1;
        dw_cells_init(&cells, sizes[s]);
        for (unsigned step = 0; step < STEPS; step++) {
            const unsigned i = (unsigned)(random_next(&seed) % CELLS);
            if (out[i]) {
                assert_ptr_equal(dw_cells_at(&cells, indices[i]), out[i]);
                assert_ptr_equal(dw_cells_of(out[i]), &cells);
                for (unsigned k = 0; k < sizes[s] / sizeof **out; k++)
                    assert_int_equal(out[i][k], i + 1);
                dw_cells_put(out[i]);
                out[i] = NULL;
                used--;
                continue;
            }
            assert_non_null(out[i] = dw_cells_get(&cells));
            assert_true((indices[i] = dw_cells_index(out[i])) != 0);
            for (unsigned k = 0; k < sizes[s] / sizeof **out; k++) {
                assert_int_equal(out[i][k], 0);
                out[i][k] = i + 1;
            }
            assert_int_equal(cells.count, ++used);
        }
        const uint32_t *cell;
        unsigned visited = 0;
        for (uint32_t index = 0, before = 0; (cell = dw_cells_next(&cells, &index)); visited++) {
            assert_true(index > before);
            before = index;
            assert_ptr_equal(cell, out[*cell - 1]);
            assert_int_equal(index, indices[*cell - 1]);
        }
        assert_int_equal(visited, used);
        for (unsigned i = 0; i < CELLS; i++)
            if (out[i])
                dw_cells_put(out[i]);
        assert_int_equal(cells.chunk_count, 0);
        dw_cells_fini(&cells);
    }
}

static void cells_fini__those_out_live_on(void **state)
{
    (void)state;
    struct dw_cells cells;
    void *out[100];
    dw_cells_init(&cells, 56);
    for (unsigned i = 0; i < 100; i++)
        assert_non_null(out[i] = dw_cells_get(&cells));
    for (unsigned i = 0; i < 50; i++)
        dw_cells_put(out[i]);
    dw_cells_fini(&cells);
    assert_int_equal(dw_cells_bytes(&cells), 0);
    for (unsigned i = 50; i < 100; i++) {
        assert_null(dw_cells_of(out[i]));
        memset(out[i], 1, 56);
        dw_cells_put(out[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells__as_an_array_has_them),
        cmocka_unit_test(cells_fini__those_out_live_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
