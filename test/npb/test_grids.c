/* SPDX-License-Identifier: BSD-3-Clause */
/* How CG and MG cut their problems: each part has one owner, and neighbours agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "benchmarks/npb/cg_grid.h"
#include "benchmarks/npb/cg_matrix.h"
#include "benchmarks/npb/mg_grid.h"

#define MAX_RANKS 64
#define ORDER     61 /* of a matrix that no grid divides evenly */

/* ---- CG ----------------------------------------------------------------------------------------
 */

static void cg_grids_init(struct cg_grid grids[], int ranks)
{
    for (int r = 0; r < ranks; r++)
        cg_grid_init(&grids[r], r, ranks, ORDER);
}

static void cg_grids_fini(struct cg_grid grids[], int ranks)
{
    for (int r = 0; r < ranks; r++)
        cg_grid_fini(&grids[r]);
}

static void cg_grid__shape(void **state)
{
    (void)state;
    static const struct {
        int ranks, rows, cols;
    } cases[] = {{1, 1, 1}, {2, 1, 2}, {4, 2, 2}, {8, 2, 4}, {16, 4, 4}, {32, 4, 8}, {64, 8, 8}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cg_grid grid;
        cg_grid_init(&grid, 0, cases[i].ranks, ORDER);
        assert_int_equal(grid.grid_rows, cases[i].rows);
        assert_int_equal(grid.grid_cols, cases[i].cols);
        assert_int_equal(cg_grid_columns(cases[i].ranks), cases[i].cols);
        assert_int_equal(1 << grid.stages, cases[i].cols);
        cg_grid_fini(&grid);
    }
}

static void cg_grid__blocks_cover_the_matrix(void **state)
{
    (void)state;
    static struct cg_grid grids[MAX_RANKS];

    for (int ranks = 1; ranks <= MAX_RANKS; ranks *= 2) {
        static unsigned char owners[ORDER][ORDER];
        memset(owners, 0, sizeof owners);
        cg_grids_init(grids, ranks);
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < grids[r].rows.count; i++)
                for (int j = 0; j < grids[r].cols.count; j++)
                    owners[grids[r].rows.first + i][grids[r].cols.first + j]++;
        for (int i = 0; i < ORDER; i++)
            for (int j = 0; j < ORDER; j++)
                assert_int_equal(owners[i][j], 1);
        cg_grids_fini(grids, ranks);
    }
}

/* What a stage sends is what its partner expects, and the transposed block gets its columns. */
static void cg_grid__partners_agree(void **state)
{
    (void)state;
    static struct cg_grid grids[MAX_RANKS];

    for (int ranks = 1; ranks <= MAX_RANKS; ranks *= 2) {
        cg_grids_init(grids, ranks);
        for (int r = 0; r < ranks; r++) {
            const struct cg_grid *g = &grids[r], *mirrored = &grids[g->transpose];
            for (int s = 0; s < g->stages; s++) {
                const struct cg_grid *partner = &grids[g->partner[s]];
                assert_int_equal(partner->partner[s], r);
                assert_int_equal(partner->row, g->row);
                assert_int_equal(s == 0 && g->other.count ? g->other.count : g->kept.count,
                                 partner->kept.count);
            }
            assert_int_equal(mirrored->transpose, r);
            assert_int_equal(g->rows.first + g->kept.first, mirrored->cols.first);
            assert_int_equal(g->kept.count, mirrored->cols.count);
        }
        cg_grids_fini(grids, ranks);
    }
}

static void assert_near(double a, double b)
{
    assert_true(a - b < 1e-13 && b - a < 1e-13);
}

/* Adds a block to the whole matrix. */
static void add_dense(const struct cg_matrix *m, struct cg_range rows, struct cg_range cols,
                      double dense[ORDER][ORDER])
{
    for (int r = 0; r < m->rows; r++)
        for (int e = m->start[r]; e < m->start[r + 1]; e++) {
            assert_in_range(m->column[e], 0, cols.count - 1);
            dense[rows.first + r][cols.first + m->column[e]] += m->value[e];
        }
}

static void cg_matrix__blocks_equal_the_whole(void **state)
{
    (void)state;
    const struct cg_recipe recipe = {ORDER, 3, 0.1, 10};
    static double whole[ORDER][ORDER], parts[ORDER][ORDER];
    static struct cg_grid grids[MAX_RANKS];

    for (int ranks = 1; ranks <= MAX_RANKS; ranks *= 2) {
        cg_grids_init(grids, ranks);
        memset(parts, 0, sizeof parts);
        for (int r = 0; r < ranks; r++) {
            struct cg_matrix m;
            cg_matrix_init(&m, &recipe, grids[r].rows, grids[r].cols);
            add_dense(&m, grids[r].rows, grids[r].cols, parts);
            cg_matrix_fini(&m);
        }
        if (ranks == 1)
            memcpy(whole, parts, sizeof whole);
        assert_memory_equal(whole, parts, sizeof whole);
        cg_grids_fini(grids, ranks);
    }
    for (int i = 0; i < ORDER; i++) {
        assert_true(whole[i][i] < 0); /* the shift */
        for (int j = 0; j < i; j++)
            assert_near(whole[i][j], whole[j][i]);
    }
}

/* A column comes once in a row, and the product is that of the dense matrix. */
static void cg_matrix_multiply__dense(void **state)
{
    (void)state;
    const struct cg_recipe recipe = {ORDER, 3, 0.1, 10};
    const struct cg_range all = {0, ORDER};
    static double dense[ORDER][ORDER];
    double in[ORDER], out[ORDER];
    struct cg_matrix m;
    int entries = 0;

    cg_matrix_init(&m, &recipe, all, all);
    add_dense(&m, all, all, dense);
    for (int i = 0; i < ORDER; i++)
        in[i] = 1.0 / (i + 1);
    cg_matrix_multiply(&m, in, out);
    for (int i = 0; i < ORDER; i++) {
        double sum = 0;
        for (int j = 0; j < ORDER; j++) {
            entries += dense[i][j] != 0;
            sum += dense[i][j] * in[j];
        }
        assert_near(out[i], sum);
    }
    assert_int_equal(m.start[ORDER], entries);
    cg_matrix_fini(&m);
}

/* ---- MG ----------------------------------------------------------------------------------------
 */

static void mg_grid__shape(void **state)
{
    (void)state;
    static const struct {
        int ranks, processes[3];
    } cases[] = {{1, {1, 1, 1}},  {2, {1, 1, 2}},  {4, {1, 2, 2}}, {8, {2, 2, 2}},
                 {16, {2, 2, 4}}, {32, {2, 4, 4}}, {64, {4, 4, 4}}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int processes[3];
        mg_grid_processes(cases[i].ranks, processes);
        assert_memory_equal(processes, cases[i].processes, sizeof processes);
    }
}

static void check_axis(const struct mg_grid grids[], int k, int r, int a)
{
    const struct mg_axis *axis = &grids[r].level[k].axis[a];
    const struct mg_axis *above = &grids[axis->above].level[k].axis[a];

    assert_int_equal(axis->points, 2 << k);
    assert_int_equal(above->below, r);
    assert_int_equal(above->first, (axis->first + axis->count) % axis->points);
    assert_true(above->count > 0);
}

/* The points of each level have one owner each; whoever has some, has neighbours with the next. */
static void mg_grid__levels_cover_the_cube(void **state)
{
    (void)state;
    static struct mg_grid grids[MAX_RANKS];

    for (int ranks = 1; ranks <= MAX_RANKS; ranks *= 2) {
        for (int r = 0; r < ranks; r++)
            mg_grid_init(&grids[r], r, ranks, 32);
        assert_int_equal(grids[0].levels, 5);
        for (int k = 0; k < grids[0].levels; k++) {
            int points = 0;
            for (int r = 0; r < ranks; r++) {
                const struct mg_level *level = &grids[r].level[k];
                points += level->axis[0].count * level->axis[1].count * level->axis[2].count;
                for (int a = 0; a < 3 && !level->idle; a++)
                    check_axis(grids, k, r, a);
            }
            assert_int_equal(points, 8 << 3 * k);
        }
    }
}

/* Coarse point j is fine point 2 j + 1: its owner has both, so only interpolation needs help. */
static void mg_grid__coarse_points_are_below_fine_ones(void **state)
{
    (void)state;
    struct mg_grid grid;

    for (int ranks = 1; ranks <= MAX_RANKS; ranks *= 2)
        for (int r = 0; r < ranks; r++) {
            mg_grid_init(&grid, r, ranks, 32);
            for (int k = 1; k < grid.levels; k++)
                for (int a = 0; a < 3; a++) {
                    const struct mg_axis *fine = &grid.level[k].axis[a];
                    const struct mg_axis *coarse = &grid.level[k - 1].axis[a];
                    int last = 2 * (coarse->first + coarse->count - 1) + 1;
                    assert_int_equal(coarse->first, fine->first / 2);
                    assert_true(!coarse->count || last == fine->first + fine->count - 1);
                }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cg_grid__shape),
        cmocka_unit_test(cg_grid__blocks_cover_the_matrix),
        cmocka_unit_test(cg_grid__partners_agree),
        cmocka_unit_test(cg_matrix__blocks_equal_the_whole),
        cmocka_unit_test(cg_matrix_multiply__dense),
        cmocka_unit_test(mg_grid__shape),
        cmocka_unit_test(mg_grid__levels_cover_the_cube),
        cmocka_unit_test(mg_grid__coarse_points_are_below_fine_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
