/* SPDX-License-Identifier: BSD-3-Clause */
/* The integral of the pressure over the six faces of a box inside the cube, by the trapezoidal
 * rule: each point of a face counts with the product of its weights in the two directions. */
#include "benchmarks/npb/lu.h"
#include "benchmarks/npb/lu_constants.h"

struct box {
    int first[3], last[3]; /* points of the cube */
};

static double pressure(const double *u, ptrdiff_t variable)
{
    double x = u[variable], y = u[2 * variable], z = u[3 * variable];

    return LU_K2 * (u[4 * variable] - 0.5 * (x * x + y * y + z * z) / u[0]);
}

/* 0 outside the box, 1 at its ends, 2 between. */
static int weight(const struct box *box, int axis, int at)
{
    if (at < box->first[axis] || at > box->last[axis])
        return 0;
    return at == box->first[axis] || at == box->last[axis] ? 1 : 2;
}

/* How much a point of the cube counts, over all faces it is on. */
static int point_weight(const struct box *box, const int at[3])
{
    int w[3], sum = 0;

    for (int axis = 0; axis < 3; axis++) {
        w[axis] = weight(box, axis, at[axis]);
        if (w[axis] == 0)
            return 0;
    }
    for (int axis = 0; axis < 3; axis++)
        if (w[axis] == 1)
            sum += w[(axis + 1) % 3] * w[(axis + 2) % 3];
    return sum;
}

double lu_surface_integral(const struct lu_grid *g, const double *u)
{
    const int n = g->points;
    const struct box box = {.first = {1, 1, 2}, .last = {n - 2, n - 3, n - 2}};
    const double h = 1.0 / (n - 1);
    double sum = 0;

    for (int k = 0; k < n; k++)
        for (int j = 0; j < g->own[1]; j++)
            for (int i = 0; i < g->own[0]; i++) {
                const int at[3] = {g->start[0] + i, g->start[1] + j, k};
                int counts = point_weight(&box, at);
                if (counts)
                    sum += counts * pressure(u + lu_at(g, i, j, k), g->variable);
            }
    /* A trapezoid counts with the mean of its four corners. */
    return 0.25 * h * h * sum;
}
