/* SPDX-License-Identifier: BSD-3-Clause */
/* LU's division of the cube, its fields, the residual and the sweeps, without MPI: the parts of
 * several ranks are computed one after the other and compared with the whole cube's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "benchmarks/npb/lu.h"
#include "test/unit/random.h"

#define POINTS 13 /* divides by no power of two */

static const int rank_counts[] = {1, 2, 4, 8, 16};

static double *new_field(const struct lu_grid *g)
{
    double *field = calloc(g->doubles, sizeof *field);
    assert_non_null(field);
    return field;
}

static void assert_close(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%.15g is not %.15g within %g", a, b, tolerance);
}

/* ---- the division -------------------------------------------------------------------------- */

static void lu_grid_refuses__what_cannot_be_divided(void **state)
{
    static const struct {
        int points, ranks;
        bool refused;
    } cases[] = {
        {12, 1, false},  {12, 2, false},    {12, 16, false},  {12, 32, true},     {12, 0, true},
        {12, 3, true},   {12, 6, true},     {12, -2, true},   {33, 256, false},   {33, 512, true},
        {64, 64, false}, {64, 1024, false}, {64, 2048, true}, {102, 1024, false},
    };
    (void)state;

    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++)
        assert_int_equal(lu_grid_refuses(cases[n].points, cases[n].ranks) != NULL,
                         cases[n].refused);
}

static void lu_grid_init__covers_each_point_once(void **state)
{
    (void)state;

    for (size_t n = 0; n < sizeof rank_counts / sizeof rank_counts[0]; n++) {
        int owners[POINTS][POINTS] = {0}, inner[POINTS][POINTS] = {0};
        for (int rank = 0; rank < rank_counts[n]; rank++) {
            struct lu_grid g;
            lu_grid_init(&g, POINTS, rank, rank_counts[n]);
            assert_int_equal(lu_grid_rank(&g, g.coord[0], g.coord[1]), rank);
            for (int j = 0; j < g.own[1]; j++)
                for (int i = 0; i < g.own[0]; i++)
                    owners[g.start[1] + j][g.start[0] + i]++;
            for (int j = g.inner_begin[1]; j < g.inner_end[1]; j++)
                for (int i = g.inner_begin[0]; i < g.inner_end[0]; i++)
                    inner[g.start[1] + j][g.start[0] + i]++;
        }
        for (int y = 0; y < POINTS; y++)
            for (int x = 0; x < POINTS; x++) {
                bool face = x == 0 || y == 0 || x == POINTS - 1 || y == POINTS - 1;
                assert_int_equal(owners[y][x], 1);
                assert_int_equal(inner[y][x], !face);
            }
    }
}

static void lu_grid_rank__has_no_rank_outside(void **state)
{
    struct lu_grid g;
    (void)state;

    lu_grid_init(&g, POINTS, 5, 8);
    assert_int_equal(g.ranks[0], 4);
    assert_int_equal(g.ranks[1], 2);
    assert_int_equal(lu_grid_rank(&g, 1, 1), 5);
    assert_int_equal(lu_grid_rank(&g, -1, 0), -1);
    assert_int_equal(lu_grid_rank(&g, 4, 0), -1);
    assert_int_equal(lu_grid_rank(&g, 0, -1), -1);
    assert_int_equal(lu_grid_rank(&g, 0, 2), -1);
}

/* ---- fields -------------------------------------------------------------------------------- */

static void lu_exact__at_corners(void **state)
{
    static const struct {
        int at[3];
        double u[LU_VARIABLES];
    } cases[] = {
        {{0, 0, 0}, {2, 1, 2, 2, 5}},
        /* The sums of the coefficients that belong to the axis, and of all. */
        {{10, 0, 0}, {7.52, 2.41, 4.34, 4.23, 9.25}},
        {{10, 10, 10}, {15.76, 8.26, 10.32, 9.72, 15.52}},
    };
    (void)state;

    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        double u[LU_VARIABLES];
        lu_exact(11, cases[n].at, u);
        for (int m = 0; m < LU_VARIABLES; m++)
            assert_close(u[m], cases[n].u[m], 1e-14);
    }
}

/* The value of variable m at a point of the cube, of a field of the whole cube. */
static double value(const struct lu_grid *whole, const double *field, const int at[3], int m)
{
    return field[lu_at(whole, at[0], at[1], at[2]) + m * whole->variable];
}

static void lu_field_initial__is_exact_on_faces_only(void **state)
{
    struct lu_grid g;
    double *initial, *exact;
    int same = 0;
    (void)state;

    lu_grid_init(&g, POINTS, 0, 1);
    initial = new_field(&g);
    exact = new_field(&g);
    lu_field_initial(&g, initial);
    lu_field_exact(&g, exact);
    for (int k = 0; k < POINTS; k++)
        for (int j = 0; j < POINTS; j++)
            for (int i = 0; i < POINTS; i++) {
                const int at[3] = {i, j, k};
                same += value(&g, initial, at, 0) == value(&g, exact, at, 0);
            }
    assert_int_equal(same, POINTS * POINTS * POINTS - (POINTS - 2) * (POINTS - 2) * (POINTS - 2));
    free(exact);
    free(initial);
}

static void lu_surface_integral__of_uniform_pressure(void **state)
{
    const double h = 1.0 / (POINTS - 1), x = (POINTS - 3) * h, y = (POINTS - 4) * h, z = y;
    (void)state;

    for (size_t n = 0; n < sizeof rank_counts / sizeof rank_counts[0]; n++) {
        double sum = 0;
        for (int rank = 0; rank < rank_counts[n]; rank++) {
            struct lu_grid g;
            double *u;
            lu_grid_init(&g, POINTS, rank, rank_counts[n]);
            u = new_field(&g);
            for (size_t at = 0; at < g.doubles; at++)
                u[at] = 2;
            sum += lu_surface_integral(&g, u);
            free(u);
        }
        /* Pressure 0.4 (2 - 0.5 (4 + 4 + 4) / 2). */
        assert_close(sum, -0.4 * 2 * (x * y + y * z + z * x), 1e-13);
    }
}

static void lu_sums__over_parts_are_the_wholes(void **state)
{
    (void)state;

    for (size_t n = 0; n < sizeof rank_counts / sizeof rank_counts[0]; n++) {
        double squares[LU_VARIABLES] = {0}, errors[LU_VARIABLES] = {0};
        for (int rank = 0; rank < rank_counts[n]; rank++) {
            double sums[LU_VARIABLES];
            struct lu_grid g;
            double *u;
            lu_grid_init(&g, POINTS, rank, rank_counts[n]);
            u = new_field(&g);
            lu_field_exact(&g, u);
            for (size_t at = 0; at < g.doubles; at++)
                u[at] += 3;
            lu_sum_squared_errors(&g, u, sums);
            for (int m = 0; m < LU_VARIABLES; m++)
                errors[m] += sums[m];
            for (size_t at = 0; at < g.doubles; at++)
                u[at] = 2;
            lu_sum_squares(&g, u, sums);
            for (int m = 0; m < LU_VARIABLES; m++)
                squares[m] += sums[m];
            free(u);
        }
        for (int m = 0; m < LU_VARIABLES; m++) {
            assert_close(squares[m], 4.0 * (POINTS - 2) * (POINTS - 2) * (POINTS - 2), 1e-14);
            assert_close(errors[m], 9.0 * (POINTS - 2) * (POINTS - 2) * (POINTS - 2), 1e-12);
        }
    }
}

/* ---- the residual -------------------------------------------------------------------------- */

/* The sum of the weights of the fourth difference, one-sided next to the faces. */
static double weights_sum(int at)
{
    if (at == 1 || at == POINTS - 2)
        return 2;
    return at == 2 || at == POINTS - 3 ? -1 : 0;
}

static void lu_residual__of_uniform_flow_is_dissipation_at_faces(void **state)
{
    static const double flow[LU_VARIABLES] = {1.5, 0.3, -0.4, 0.5, 3};
    struct lu_grid g;
    double *u, *out;
    (void)state;

    lu_grid_init(&g, POINTS, 0, 1);
    u = new_field(&g);
    out = new_field(&g);
    for (int k = 0; k < POINTS; k++)
        for (int j = 0; j < POINTS; j++)
            for (int i = 0; i < POINTS; i++)
                for (int m = 0; m < LU_VARIABLES; m++)
                    u[lu_at(&g, i, j, k) + m * g.variable] = flow[m];
    lu_residual(&g, u, NULL, out);
    for (int k = 1; k < POINTS - 1; k++)
        for (int j = 1; j < POINTS - 1; j++)
            for (int i = 1; i < POINTS - 1; i++)
                for (int m = 0; m < LU_VARIABLES; m++) {
                    const int at[3] = {i, j, k};
                    double sum = weights_sum(i) + weights_sum(j) + weights_sum(k);
                    assert_close(value(&g, out, at, m), -0.25 * sum * flow[m], 1e-12);
                }
    free(out);
    free(u);
}

/* The part's residual at its inner points is the whole's. */
static void assert_part(const struct lu_grid *whole, const double *expected,
                        const struct lu_grid *part, const double *out)
{
    for (int k = part->inner_begin[2]; k < part->inner_end[2]; k++)
        for (int j = part->inner_begin[1]; j < part->inner_end[1]; j++)
            for (int i = part->inner_begin[0]; i < part->inner_end[0]; i++)
                for (int m = 0; m < LU_VARIABLES; m++) {
                    const int at[3] = {part->start[0] + i, part->start[1] + j, k};
                    assert_close(out[lu_at(part, i, j, k) + m * part->variable],
                                 value(whole, expected, at, m), 1e-12);
                }
}

static void lu_residual__of_parts_is_the_wholes(void **state)
{
    struct lu_grid whole;
    double *u, *expected;
    (void)state;

    lu_grid_init(&whole, POINTS, 0, 1);
    u = new_field(&whole);
    expected = new_field(&whole);
    lu_field_exact(&whole, u);
    lu_residual(&whole, u, NULL, expected);
    for (size_t n = 1; n < sizeof rank_counts / sizeof rank_counts[0]; n++)
        for (int rank = 0; rank < rank_counts[n]; rank++) {
            struct lu_grid part;
            double *part_u, *out;
            lu_grid_init(&part, POINTS, rank, rank_counts[n]);
            part_u = new_field(&part);
            out = new_field(&part);
            lu_field_exact(&part, part_u);
            lu_residual(&part, part_u, NULL, out);
            assert_part(&whole, expected, &part, out);
            free(out);
            free(part_u);
        }
    free(expected);
    free(u);
}

static void lu_residual__with_its_own_forcing_is_zero(void **state)
{
    double sums[LU_VARIABLES];
    struct lu_grid g;
    double *u, *forcing, *out;
    (void)state;

    lu_grid_init(&g, POINTS, 0, 1);
    u = new_field(&g);
    forcing = new_field(&g);
    out = new_field(&g);
    lu_field_exact(&g, u);
    lu_residual(&g, u, NULL, forcing);
    lu_sum_squares(&g, forcing, sums);
    for (int m = 0; m < LU_VARIABLES; m++)
        assert_true(sums[m] > 1);
    lu_residual(&g, u, forcing, out);
    lu_sum_squares(&g, out, sums);
    for (int m = 0; m < LU_VARIABLES; m++)
        assert_true(sums[m] == 0);
    free(out);
    free(forcing);
    free(u);
}

/* ---- the sweeps ---------------------------------------------------------------------------- */

#define DT 0.01

static void load(const struct lu_grid *g, const double *field, ptrdiff_t at, double x[LU_VARIABLES])
{
    for (int m = 0; m < LU_VARIABLES; m++)
        x[m] = field[at + m * g->variable];
}

/* sum += factor b x, of lane 0. */
static void multiply_add(double sum[LU_VARIABLES], const struct lu_matrix *b, double factor,
                         const double x[LU_VARIABLES])
{
    for (int m = 0; m < LU_VARIABLES; m++)
        for (int c = 0; c < LU_VARIABLES; c++)
            sum[m] += factor * b->e[m][c][0] * x[c];
}

/* sum = D x + omega (the neighbours' matrices times v), at one point of a sweep. */
static void apply(const struct lu_grid *g, const double *u, const double *v, ptrdiff_t at, int side,
                  const double x[LU_VARIABLES], double sum[LU_VARIABLES])
{
    const double n = POINTS - 1, diffusive = DT * n * n;
    const int toward = side == LU_LOWER ? -1 : 1;
    struct lu_matrix b;
    struct lu_state s;

    memset(sum, 0, LU_VARIABLES * sizeof *sum);
    lu_state_load(&s, u + at, g->variable);
    lu_jacobian_diagonal(&b, &s, (const double[3]){2 * diffusive, 2 * diffusive, 2 * diffusive});
    multiply_add(sum, &b, 1, x);
    for (int axis = 0; axis < 3; axis++) {
        ptrdiff_t there = at + toward * g->stride[axis];
        double near[LU_VARIABLES];
        lu_state_load(&s, u + there, g->variable);
        lu_jacobian_face(&b, &s, axis, toward * DT * n / 2, -diffusive);
        load(g, v, there, near);
        multiply_add(sum, &b, LU_OMEGA, near);
    }
}

static void fill_random(const struct lu_grid *g, double *field)
{
    uint64_t seed = 4;

    for (int k = g->inner_begin[2]; k < g->inner_end[2]; k++)
        for (int j = g->inner_begin[1]; j < g->inner_end[1]; j++)
            for (int m = 0; m < LU_VARIABLES; m++)
                for (int i = g->inner_begin[0]; i < g->inner_end[0]; i++)
                    field[lu_at(g, i, j, k) + m * g->variable] =
                        (double)random_below(&seed, 2001) / 1000 - 1;
}

static void assert_solved(const struct lu_grid *g, const double *u, const double *before,
                          const double *v, ptrdiff_t at, int side)
{
    double x[LU_VARIABLES], old[LU_VARIABLES], sum[LU_VARIABLES];

    load(g, v, at, x);
    load(g, before, at, old);
    if (side == LU_UPPER)
        for (int m = 0; m < LU_VARIABLES; m++)
            x[m] -= old[m];
    apply(g, u, v, at, side, x, sum);
    for (int m = 0; m < LU_VARIABLES; m++)
        assert_close(sum[m], side == LU_LOWER ? old[m] : 0, 1e-11);
}

static void sweep_solves(int side)
{
    struct lu_grid g;
    double *u, *v, *before;

    lu_grid_init(&g, POINTS, 0, 1);
    u = new_field(&g);
    v = new_field(&g);
    before = new_field(&g);
    lu_field_exact(&g, u);
    fill_random(&g, v);
    memcpy(before, v, g.doubles * sizeof *v);
    for (int n = 1; n < POINTS - 1; n++)
        lu_sweep_plane(&g, u, v, DT, side == LU_LOWER ? n : POINTS - 1 - n, side);
    for (int k = 1; k < POINTS - 1; k++)
        for (int j = 1; j < POINTS - 1; j++)
            for (int i = 1; i < POINTS - 1; i++)
                assert_solved(&g, u, before, v, lu_at(&g, i, j, k), side);
    free(before);
    free(v);
    free(u);
}

static void lu_sweep_plane__lower_solves(void **state)
{
    (void)state;
    sweep_solves(LU_LOWER);
}

static void lu_sweep_plane__upper_solves(void **state)
{
    (void)state;
    sweep_solves(LU_UPPER);
}

static void lu_class_find__knows_its_classes(void **state)
{
    static const struct {
        char name;
        int points;
    } cases[] = {{'S', 12}, {'W', 33}, {'A', 64}, {'B', 102}};
    (void)state;

    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++)
        assert_int_equal(lu_class_find(cases[n].name)->points, cases[n].points);
    assert_null(lu_class_find('C'));
    assert_null(lu_class_find('s'));
    assert_null(lu_class_find(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lu_grid_refuses__what_cannot_be_divided),
        cmocka_unit_test(lu_grid_init__covers_each_point_once),
        cmocka_unit_test(lu_grid_rank__has_no_rank_outside),
        cmocka_unit_test(lu_exact__at_corners),
        cmocka_unit_test(lu_field_initial__is_exact_on_faces_only),
        cmocka_unit_test(lu_surface_integral__of_uniform_pressure),
        cmocka_unit_test(lu_sums__over_parts_are_the_wholes),
        cmocka_unit_test(lu_residual__of_uniform_flow_is_dissipation_at_faces),
        cmocka_unit_test(lu_residual__of_parts_is_the_wholes),
        cmocka_unit_test(lu_residual__with_its_own_forcing_is_zero),
        cmocka_unit_test(lu_sweep_plane__lower_solves),
        cmocka_unit_test(lu_sweep_plane__upper_solves),
        cmocka_unit_test(lu_class_find__knows_its_classes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
