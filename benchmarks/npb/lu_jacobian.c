/* SPDX-License-Identifier: BSD-3-Clause */
/* Derivatives of lu_flux.c's functions with respect to the five variables. */
#include "benchmarks/npb/lu.h"
#include "benchmarks/npb/lu_constants.h"

#include <string.h>

/* b += factor dF/du for the momentum in direction d, which the flow along the axis carries. */
static void add_momentum(struct lu_matrix *restrict b, const struct lu_state *restrict s, int axis,
                         int d, double factor)
{
    const double *carried = s->velocity[d], *along = s->velocity[axis];

    for (int l = 0; l < LU_LANES; l++)
        b->e[1 + d][0][l] -= factor * along[l] * carried[l];
    for (int l = 0; l < LU_LANES; l++)
        b->e[1 + d][1 + d][l] += factor * along[l];
    for (int l = 0; l < LU_LANES; l++)
        b->e[1 + d][1 + axis][l] += factor * carried[l];
}

/* b += factor times the derivatives of the pressure, in the row of the momentum along the axis. */
static void add_pressure(struct lu_matrix *restrict b, const struct lu_state *restrict s, int axis,
                         double factor)
{
    for (int l = 0; l < LU_LANES; l++)
        b->e[1 + axis][0][l] += factor * LU_K2 * s->kinetic[l];
    for (int d = 0; d < 3; d++)
        for (int l = 0; l < LU_LANES; l++)
            b->e[1 + axis][1 + d][l] -= factor * LU_K2 * s->velocity[d][l];
    for (int l = 0; l < LU_LANES; l++)
        b->e[1 + axis][4][l] += factor * LU_K2;
}

/* b += factor dF/du for the energy. */
static void add_energy(struct lu_matrix *restrict b, const struct lu_state *restrict s, int axis,
                       double factor)
{
    const double *along = s->velocity[axis];

    for (int l = 0; l < LU_LANES; l++)
        b->e[4][0][l] += factor * (2 * LU_K2 * s->kinetic[l] - LU_K1 * s->energy[l]) * along[l];
    for (int d = 0; d < 3; d++)
        for (int l = 0; l < LU_LANES; l++)
            b->e[4][1 + d][l] -= factor * LU_K2 * s->velocity[d][l] * along[l];
    for (int l = 0; l < LU_LANES; l++)
        b->e[4][1 + axis][l] += factor * (LU_K1 * s->energy[l] - LU_K2 * s->kinetic[l]);
    for (int l = 0; l < LU_LANES; l++)
        b->e[4][4][l] += factor * LU_K1 * along[l];
}

/* b += factor dG/du. */
static void add_diffusive(struct lu_matrix *restrict b, const struct lu_state *restrict s, int axis,
                          double factor)
{
    const double straight = factor * lu_dissipation_2(axis), heat = factor * LU_K1345;

    for (int m = 0; m < LU_VARIABLES; m++)
        for (int l = 0; l < LU_LANES; l++)
            b->e[m][m][l] += straight;
    for (int d = 0; d < 3; d++) {
        const double viscosity = factor * lu_viscosity(d, axis);
        for (int l = 0; l < LU_LANES; l++) {
            double slope = s->velocity[d][l] * s->inverse[l];
            b->e[1 + d][0][l] -= viscosity * slope;
            b->e[1 + d][1 + d][l] += viscosity * s->inverse[l];
            b->e[4][0][l] -= (viscosity - heat) * s->velocity[d][l] * slope;
            b->e[4][1 + d][l] += (viscosity - heat) * slope;
        }
    }
    for (int l = 0; l < LU_LANES; l++) {
        b->e[4][0][l] -= heat * s->energy[l] * s->inverse[l];
        b->e[4][4][l] += heat * s->inverse[l];
    }
}

void lu_jacobian_face(struct lu_matrix *restrict b, const struct lu_state *restrict s, int axis,
                      double convective, double diffusive)
{
    memset(b, 0, sizeof *b);
    for (int l = 0; l < LU_LANES; l++)
        b->e[0][1 + axis][l] = convective;
    for (int d = 0; d < 3; d++)
        add_momentum(b, s, axis, d, convective);
    add_pressure(b, s, axis, convective);
    add_energy(b, s, axis, convective);
    add_diffusive(b, s, axis, diffusive);
}

void lu_jacobian_diagonal(struct lu_matrix *restrict b, const struct lu_state *restrict s,
                          const double diffusive[3])
{
    memset(b, 0, sizeof *b);
    for (int m = 0; m < LU_VARIABLES; m++)
        for (int l = 0; l < LU_LANES; l++)
            b->e[m][m][l] = 1;
    for (int axis = 0; axis < 3; axis++)
        add_diffusive(b, s, axis, diffusive[axis]);
}
