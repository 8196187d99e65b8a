/* SPDX-License-Identifier: BSD-3-Clause */
/* The exact solution, the fields that begin from it, and sums that compare with it. */
#include "benchmarks/npb/lu.h"

/* A row for each variable: constant; coefficients of x, y, z; of their squares; cubes; fourth
 * powers. */
static const double polynomial[LU_VARIABLES][13] = {
    {2, 0, 0, 4, 5, 3, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1, 0, 0, 0, 1, 2, 3, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2, 2, 0, 0, 0, 2, 3, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2, 2, 0, 0, 0, 2, 3, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5, 4, 3, 2, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

void lu_exact(int points, const int at[3], double u[LU_VARIABLES])
{
    for (int m = 0; m < LU_VARIABLES; m++)
        u[m] = polynomial[m][0];
    for (int axis = 0; axis < 3; axis++) {
        double x = (double)at[axis] / (points - 1);
        for (int m = 0; m < LU_VARIABLES; m++) {
            const double *c = &polynomial[m][1 + axis];
            u[m] += x * (c[0] + x * (c[3] + x * (c[6] + x * c[9])));
        }
    }
}

static bool in_cube(const struct lu_grid *g, const int at[3])
{
    for (int axis = 0; axis < 3; axis++)
        if (at[axis] < 0 || at[axis] >= g->points)
            return false;
    return true;
}

static void store(const struct lu_grid *g, double *field, const int local[3],
                  const double u[LU_VARIABLES])
{
    ptrdiff_t at = lu_at(g, local[0], local[1], local[2]);

    for (int m = 0; m < LU_VARIABLES; m++)
        field[at + m * g->variable] = u[m];
}

void lu_field_exact(const struct lu_grid *g, double *field)
{
    for (int k = 0; k < g->points; k++)
        for (int j = -LU_GHOSTS; j < g->own[1] + LU_GHOSTS; j++)
            for (int i = -LU_GHOSTS; i < g->own[0] + LU_GHOSTS; i++) {
                const int local[3] = {i, j, k}, at[3] = {g->start[0] + i, g->start[1] + j, k};
                double u[LU_VARIABLES];
                if (!in_cube(g, at))
                    continue;
                lu_exact(g->points, at, u);
                store(g, field, local, u);
            }
}

/* Between the exact solutions on the six faces: the "Boolean sum" of the linear interpolations
 * along the axes, with products of the interpolated values as the benchmark wants it. */
static void interpolated(const struct lu_grid *g, const int at[3], double u[LU_VARIABLES])
{
    double p[3][LU_VARIABLES];

    for (int axis = 0; axis < 3; axis++) {
        double x = (double)at[axis] / (g->points - 1), low[LU_VARIABLES], high[LU_VARIABLES];
        int face[3] = {at[0], at[1], at[2]};
        face[axis] = 0;
        lu_exact(g->points, face, low);
        face[axis] = g->points - 1;
        lu_exact(g->points, face, high);
        for (int m = 0; m < LU_VARIABLES; m++)
            p[axis][m] = (1 - x) * low[m] + x * high[m];
    }
    for (int m = 0; m < LU_VARIABLES; m++)
        u[m] = p[0][m] + p[1][m] + p[2][m] - p[0][m] * p[1][m] - p[1][m] * p[2][m] -
               p[2][m] * p[0][m] + p[0][m] * p[1][m] * p[2][m];
}

static bool on_face(const struct lu_grid *g, const int at[3])
{
    for (int axis = 0; axis < 3; axis++)
        if (at[axis] == 0 || at[axis] == g->points - 1)
            return true;
    return false;
}

void lu_field_initial(const struct lu_grid *g, double *field)
{
    for (int k = 0; k < g->points; k++)
        for (int j = 0; j < g->own[1]; j++)
            for (int i = 0; i < g->own[0]; i++) {
                const int local[3] = {i, j, k}, at[3] = {g->start[0] + i, g->start[1] + j, k};
                double u[LU_VARIABLES];
                if (on_face(g, at))
                    lu_exact(g->points, at, u);
                else
                    interpolated(g, at, u);
                store(g, field, local, u);
            }
}

void lu_sum_squares(const struct lu_grid *g, const double *field, double sums[LU_VARIABLES])
{
    for (int m = 0; m < LU_VARIABLES; m++)
        sums[m] = 0;
    for (int k = g->inner_begin[2]; k < g->inner_end[2]; k++)
        for (int j = g->inner_begin[1]; j < g->inner_end[1]; j++)
            for (int m = 0; m < LU_VARIABLES; m++) {
                const double *row = field + lu_at(g, 0, j, k) + m * g->variable;
                for (int i = g->inner_begin[0]; i < g->inner_end[0]; i++)
                    sums[m] += row[i] * row[i];
            }
}

void lu_sum_squared_errors(const struct lu_grid *g, const double *u, double sums[LU_VARIABLES])
{
    for (int m = 0; m < LU_VARIABLES; m++)
        sums[m] = 0;
    for (int k = g->inner_begin[2]; k < g->inner_end[2]; k++)
        for (int j = g->inner_begin[1]; j < g->inner_end[1]; j++)
            for (int i = g->inner_begin[0]; i < g->inner_end[0]; i++) {
                const int at[3] = {g->start[0] + i, g->start[1] + j, k};
                const double *point = u + lu_at(g, i, j, k);
                double exact[LU_VARIABLES];
                lu_exact(g->points, at, exact);
                for (int m = 0; m < LU_VARIABLES; m++) {
                    double error = exact[m] - point[m * g->variable];
                    sums[m] += error * error;
                }
            }
}
