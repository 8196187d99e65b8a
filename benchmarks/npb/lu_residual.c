/* SPDX-License-Identifier: BSD-3-Clause */
/* The Navier-Stokes operator by central differences, with fourth-order dissipation. */
#include "benchmarks/npb/lu.h"
#include "benchmarks/npb/lu_constants.h"

enum { REACH = 2, STENCIL = 2 * REACH + 1 };

/* The fourth difference at a point of the cube, one-sided next to its faces; points outside it
 * have weight 0. */
static const double *fourth_difference(int points, int at)
{
    static const double after_face[STENCIL] = {0, 0, 5, -4, 1};
    static const double second[STENCIL] = {0, -4, 6, -4, 1};
    static const double inside[STENCIL] = {1, -4, 6, -4, 1};
    static const double second_last[STENCIL] = {1, -4, 6, -4, 0};
    static const double before_face[STENCIL] = {1, -4, 5, 0, 0};

    if (at <= 1)
        return after_face;
    if (at >= points - 2)
        return before_face;
    if (at == 2)
        return second;
    return at == points - 3 ? second_last : inside;
}

/* The weights for points at `at`, and `step` further for each. */
static void load_weights(double weights[STENCIL][LU_LANES], int points, int at, int step)
{
    for (int l = 0; l < LU_LANES; l++) {
        const double *w = fourth_difference(points, at + l * step);
        for (int s = 0; s < STENCIL; s++)
            weights[s][l] = w[s];
    }
}

/* out -= h^-1 times half the difference of the convective flux, + h^-2 times the second difference
 * of the diffusive one. `u` is the first point. */
static void add_fluxes(struct lu_vector *restrict out, const double *restrict u,
                       const struct lu_grid *g, int axis)
{
    const double first = 0.5 * (g->points - 1);
    const double second = (double)(g->points - 1) * (g->points - 1);
    struct lu_vector f[2], d[3];
    struct lu_state s;

    for (int side = 0; side < 3; side++) {
        lu_state_load(&s, u + (side - 1) * g->stride[axis], g->variable);
        if (side != 1)
            lu_flux_convective(&f[side / 2], &s, axis);
        lu_flux_diffusive(&d[side], &s, axis);
    }
    for (int m = 0; m < LU_VARIABLES; m++)
        for (int l = 0; l < LU_LANES; l++)
            out->e[m][l] += second * (d[0].e[m][l] - 2 * d[1].e[m][l] + d[2].e[m][l]) -
                            first * (f[1].e[m][l] - f[0].e[m][l]);
}

static void add_dissipation(struct lu_vector *restrict out, const double *restrict u,
                            const struct lu_grid *g, int axis,
                            const double (*restrict weights)[LU_LANES])
{
    for (int m = 0; m < LU_VARIABLES; m++)
        for (int s = 0; s < STENCIL; s++) {
            const double *row = u + m * g->variable + (s - REACH) * g->stride[axis];
            for (int l = 0; l < LU_LANES; l++)
                out->e[m][l] -= LU_DISSIPATION_4 * weights[s][l] * row[l];
        }
}

static void lanes(const struct lu_grid *g, const double *u, const double *forcing, double *out,
                  const int local[3])
{
    ptrdiff_t at = lu_at(g, local[0], local[1], local[2]);
    int count = g->inner_end[0] - local[0];
    struct lu_vector sum = {0};

    if (count > LU_LANES)
        count = LU_LANES;
    for (int axis = 0; axis < 3; axis++) {
        double weights[STENCIL][LU_LANES];
        load_weights(weights, g->points, g->start[axis] + local[axis], axis == 0);
        add_fluxes(&sum, u + at, g, axis);
        add_dissipation(&sum, u + at, g, axis, weights);
    }
    for (int m = 0; m < LU_VARIABLES; m++)
        for (int l = 0; l < count; l++) {
            ptrdiff_t there = at + m * g->variable + l;
            out[there] = sum.e[m][l] - (forcing ? forcing[there] : 0);
        }
}

void lu_residual(const struct lu_grid *g, const double *u, const double *forcing, double *out)
{
    for (int k = g->inner_begin[2]; k < g->inner_end[2]; k++)
        for (int j = g->inner_begin[1]; j < g->inner_end[1]; j++)
            for (int i = g->inner_begin[0]; i < g->inner_end[0]; i += LU_LANES)
                lanes(g, u, forcing, out, (const int[3]){i, j, k});
}
