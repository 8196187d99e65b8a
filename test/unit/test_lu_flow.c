/* SPDX-License-Identifier: BSD-3-Clause */
/* LU's fluxes against the formulas of the report, and their Jacobians against the differences of
 * the fluxes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "benchmarks/npb/lu.h"
#include "test/unit/random.h"

static double random_in(uint64_t *seed, double low, double high)
{
    return low + (high - low) * (double)(random_next(seed) >> 11) * 0x1p-53;
}

static void random_flow(uint64_t *seed, struct lu_vector *u)
{
    for (int l = 0; l < LU_LANES; l++) {
        u->e[0][l] = random_in(seed, 0.5, 4);
        for (int d = 1; d < 4; d++)
            u->e[d][l] = random_in(seed, -3, 3);
        u->e[4][l] = random_in(seed, 5, 20);
    }
}

static void assert_close(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%.15g is not %.15g within %g", a, b, tolerance);
}

/* E, F or G of the report, with a sign that makes it an outflow. */
static void report_convective(const double u[LU_VARIABLES], int axis, double f[LU_VARIABLES])
{
    double w = u[1 + axis] / u[0];
    double phi = 0.4 * (u[4] - 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / u[0]);

    f[0] = u[1 + axis];
    for (int d = 1; d < 4; d++)
        f[d] = u[d] * w + (d == 1 + axis ? phi : 0);
    f[4] = w * (u[4] + phi);
}

/* What T, V or W of the report is the derivative of. */
static void report_diffusive(const double u[LU_VARIABLES], int axis, double f[LU_VARIABLES])
{
    const double dissipation = axis == 2 ? 1.0 : 0.75, k1k5 = 1.96;
    double w = u[1 + axis] / u[0];
    double square = (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / (u[0] * u[0]);

    f[0] = dissipation * u[0];
    for (int d = 1; d < 4; d++)
        f[d] = dissipation * u[d] + 0.1 * (d == 1 + axis ? 4.0 / 3 : 1.0) * u[d] / u[0];
    f[4] = dissipation * u[4] + 0.1 * (0.5 * (1 - k1k5) * square + w * w / 6 + k1k5 * u[4] / u[0]);
}

static void lu_flux__is_the_reports(void **state)
{
    uint64_t seed = 1;
    (void)state;

    for (int axis = 0; axis < 3; axis++) {
        struct lu_vector u, convective, diffusive;
        struct lu_state s;
        random_flow(&seed, &u);
        lu_state_load(&s, u.e[0], LU_LANES);
        lu_flux_convective(&convective, &s, axis);
        lu_flux_diffusive(&diffusive, &s, axis);
        for (int l = 0; l < LU_LANES; l++) {
            double point[LU_VARIABLES], f[LU_VARIABLES], g[LU_VARIABLES];
            for (int m = 0; m < LU_VARIABLES; m++)
                point[m] = u.e[m][l];
            report_convective(point, axis, f);
            report_diffusive(point, axis, g);
            for (int m = 0; m < LU_VARIABLES; m++) {
                assert_close(convective.e[m][l], f[m], 1e-13);
                assert_close(diffusive.e[m][l], g[m], 1e-13);
            }
        }
    }
}

/* F at u with `change` added to variable c. */
static void flux_beside(struct lu_vector *f, const struct lu_vector *u, int c, double change,
                        int axis, bool convective)
{
    struct lu_vector beside = *u;
    struct lu_state s;

    for (int l = 0; l < LU_LANES; l++)
        beside.e[c][l] += change;
    lu_state_load(&s, beside.e[0], LU_LANES);
    if (convective)
        lu_flux_convective(f, &s, axis);
    else
        lu_flux_diffusive(f, &s, axis);
}

/* b += factor dF/du by central differences. */
static void add_differences(struct lu_matrix *b, const struct lu_vector *u, int axis,
                            bool convective, double factor)
{
    const double change = 1e-5;

    for (int c = 0; c < LU_VARIABLES; c++) {
        struct lu_vector low, high;
        flux_beside(&low, u, c, -change, axis, convective);
        flux_beside(&high, u, c, change, axis, convective);
        for (int m = 0; m < LU_VARIABLES; m++)
            for (int l = 0; l < LU_LANES; l++)
                b->e[m][c][l] += factor * (high.e[m][l] - low.e[m][l]) / (2 * change);
    }
}

static void assert_matrices_close(const struct lu_matrix *a, const struct lu_matrix *b)
{
    for (int m = 0; m < LU_VARIABLES; m++)
        for (int c = 0; c < LU_VARIABLES; c++)
            for (int l = 0; l < LU_LANES; l++)
                assert_close(a->e[m][c][l], b->e[m][c][l], 1e-7);
}

static void lu_jacobian_face__is_the_derivative(void **state)
{
    static const double factors[][2] = {{1, 0}, {0, 1}, {-0.7, -2.5}, {0.7, -2.5}};
    uint64_t seed = 2;
    (void)state;

    for (int axis = 0; axis < 3; axis++)
        for (size_t n = 0; n < sizeof factors / sizeof factors[0]; n++) {
            struct lu_matrix b, expected = {0};
            struct lu_vector u;
            struct lu_state s;
            random_flow(&seed, &u);
            lu_state_load(&s, u.e[0], LU_LANES);
            memset(&b, 0xff, sizeof b);
            lu_jacobian_face(&b, &s, axis, factors[n][0], factors[n][1]);
            add_differences(&expected, &u, axis, true, factors[n][0]);
            add_differences(&expected, &u, axis, false, factors[n][1]);
            assert_matrices_close(&b, &expected);
        }
}

static void lu_jacobian_diagonal__is_the_derivative(void **state)
{
    static const double factors[3] = {0.3, 1.5, 2.0};
    struct lu_matrix b, expected = {0};
    struct lu_vector u;
    struct lu_state s;
    uint64_t seed = 3;
    (void)state;

    random_flow(&seed, &u);
    lu_state_load(&s, u.e[0], LU_LANES);
    memset(&b, 0xff, sizeof b);
    lu_jacobian_diagonal(&b, &s, factors);
    for (int m = 0; m < LU_VARIABLES; m++)
        for (int l = 0; l < LU_LANES; l++)
            expected.e[m][m][l] = 1;
    for (int axis = 0; axis < 3; axis++)
        add_differences(&expected, &u, axis, false, factors[axis]);
    assert_matrices_close(&b, &expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lu_flux__is_the_reports),
        cmocka_unit_test(lu_jacobian_face__is_the_derivative),
        cmocka_unit_test(lu_jacobian_diagonal__is_the_derivative),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
