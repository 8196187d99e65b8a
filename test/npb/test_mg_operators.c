/* SPDX-License-Identifier: BSD-3-Clause */
/* MG's operators on fields whose image is known, with one process that has the whole cube. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "benchmarks/npb/mg_operators.h"

#define POINTS    16
#define CELLS     ((POINTS + 2) * (POINTS + 2) * (POINTS + 2))
#define TOLERANCE 1e-13

/* Two levels: the finest, and the next one. */
struct levels {
    struct mg_grid grid;
    const struct mg_level *fine, *coarse;
};

static void levels_init(struct levels *l)
{
    mg_grid_init(&l->grid, 0, 1, POINTS);
    l->fine = mg_grid_top(&l->grid);
    l->coarse = l->fine - 1;
}

/* Every cell, the layer around the own points too, is c + x + 2 y + 4 z in local indices. */
static void fill(const struct mg_level *level, double *field, double c, double slope)
{
    for (int z = 0; z < level->extent[2]; z++)
        for (int y = 0; y < level->extent[1]; y++)
            for (int x = 0; x < level->extent[0]; x++)
                field[z * level->plane + y * level->row + x] = c + slope * (x + 2 * y + 4 * z);
}

static double at(const struct mg_level *level, const double *field, int x, int y, int z)
{
    return field[z * level->plane + y * level->row + x];
}

static void assert_near(double a, double b)
{
    assert_true(a - b < TOLERANCE && b - a < TOLERANCE);
}

/* The own points all have the value. */
static void assert_inside(const struct mg_level *level, const double *field, double value)
{
    for (int z = 1; z <= level->axis[2].count; z++)
        for (int y = 1; y <= level->axis[1].count; y++)
            for (int x = 1; x <= level->axis[0].count; x++)
                assert_near(at(level, field, x, y, z), value);
}

/* A has neither constants nor slopes left over. */
static void residual__of_linear_fields(void **state)
{
    (void)state;
    static double u[CELLS], v[CELLS], r[CELLS];
    struct levels l;

    levels_init(&l);
    fill(l.fine, u, 3, 0.25);
    fill(l.fine, v, 7, 0);
    mg_residual(l.fine, u, v, r);
    assert_inside(l.fine, r, 7);
    mg_residual(l.fine, u, r, r);
    assert_inside(l.fine, r, 7);
}

/* The stencils themselves, by a field with a single 1. */
static void stencils__of_a_point(void **state)
{
    (void)state;
    static const double a[] = {-8.0 / 3.0, 0, 1.0 / 6.0, 1.0 / 12.0};
    const struct mg_smoother s = {0.5, 0.25, -0.125};
    const double c[] = {s.center, s.face, s.edge, 0};
    static double point[CELLS], zero[CELLS], r[CELLS], u[CELLS];
    struct levels l;

    levels_init(&l);
    point[5 * l.fine->plane + 6 * l.fine->row + 7] = 1;
    mg_residual(l.fine, point, zero, r);
    mg_smooth(l.fine, &s, point, u);
    for (int z = 1; z <= POINTS; z++)
        for (int y = 1; y <= POINTS; y++)
            for (int x = 1; x <= POINTS; x++) {
                int dx = abs(x - 7), dy = abs(y - 6), dz = abs(z - 5);
                bool near = dx <= 1 && dy <= 1 && dz <= 1;
                assert_near(at(l.fine, r, x, y, z), near ? -a[dx + dy + dz] : 0);
                assert_near(at(l.fine, u, x, y, z), near ? c[dx + dy + dz] : 0);
            }
}

/* The weights add up to 4, and a slope keeps its value at the middle. */
static void project__of_linear_fields(void **state)
{
    (void)state;
    static double fine[CELLS], coarse[CELLS];
    struct levels l;

    levels_init(&l);
    fill(l.fine, fine, 1, 0.5);
    mg_project(l.fine, fine, l.coarse, coarse);
    for (int z = 1; z <= l.coarse->axis[2].count; z++)
        for (int y = 1; y <= l.coarse->axis[1].count; y++)
            for (int x = 1; x <= l.coarse->axis[0].count; x++)
                assert_near(at(l.coarse, coarse, x, y, z),
                            4 * at(l.fine, fine, 2 * x, 2 * y, 2 * z));
}

/* A linear field is continued exactly, into the layer around the own points, and is added. */
static void interpolate__of_linear_fields(void **state)
{
    (void)state;
    static double fine[CELLS], coarse[CELLS];
    struct levels l;

    levels_init(&l);
    fill(l.coarse, coarse, 1, 0.5);
    fill(l.fine, fine, 100, 0);
    mg_interpolate_add(l.coarse, coarse, l.fine, fine);
    for (int z = 0; z < POINTS + 2; z++)
        for (int y = 0; y < POINTS + 2; y++)
            for (int x = 0; x < POINTS + 2; x++)
                assert_near(at(l.fine, fine, x, y, z), 101 + 0.25 * (x + 2 * y + 4 * z));
}

static void sum_of_squares__own_points_only(void **state)
{
    (void)state;
    static double field[CELLS];
    struct levels l;

    levels_init(&l);
    fill(l.fine, field, 2, 0);
    assert_near(mg_sum_of_squares(l.fine, field), 4.0 * POINTS * POINTS * POINTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residual__of_linear_fields),
        cmocka_unit_test(stencils__of_a_point),
        cmocka_unit_test(project__of_linear_fields),
        cmocka_unit_test(interpolate__of_linear_fields),
        cmocka_unit_test(sum_of_squares__own_points_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
