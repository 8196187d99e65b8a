/* SPDX-License-Identifier: BSD-3-Clause */
/* What flows along an axis, as a function of the five variables. */
#include "benchmarks/npb/lu.h"
#include "benchmarks/npb/lu_constants.h"

void lu_state_load(struct lu_state *restrict s, const double *restrict u, ptrdiff_t variable)
{
    for (int m = 0; m < LU_VARIABLES; m++)
        for (int l = 0; l < LU_LANES; l++)
            s->u.e[m][l] = u[m * variable + l];
    for (int l = 0; l < LU_LANES; l++)
        s->inverse[l] = 1.0 / s->u.e[0][l];
    for (int d = 0; d < 3; d++)
        for (int l = 0; l < LU_LANES; l++)
            s->velocity[d][l] = s->u.e[1 + d][l] * s->inverse[l];
    for (int l = 0; l < LU_LANES; l++) {
        double x = s->velocity[0][l], y = s->velocity[1][l], z = s->velocity[2][l];
        s->kinetic[l] = 0.5 * (x * x + y * y + z * z);
        s->energy[l] = s->u.e[4][l] * s->inverse[l];
    }
}

void lu_flux_convective(struct lu_vector *restrict f, const struct lu_state *restrict s, int axis)
{
    const double *along = s->velocity[axis];
    double *parallel = f->e[1 + axis];

    for (int m = 0; m < 4; m++)
        for (int l = 0; l < LU_LANES; l++)
            f->e[m][l] = s->u.e[m][l] * along[l];
    for (int l = 0; l < LU_LANES; l++) {
        double pressure = LU_K2 * (s->u.e[4][l] - s->u.e[0][l] * s->kinetic[l]);
        parallel[l] += pressure;
        f->e[4][l] = (s->u.e[4][l] + pressure) * along[l];
    }
}

void lu_flux_diffusive(struct lu_vector *restrict f, const struct lu_state *restrict s, int axis)
{
    const double *along = s->velocity[axis];

    for (int l = 0; l < LU_LANES; l++)
        f->e[0][l] = 0;
    for (int d = 0; d < 3; d++)
        for (int l = 0; l < LU_LANES; l++)
            f->e[1 + d][l] = lu_viscosity(d, axis) * s->velocity[d][l];
    for (int l = 0; l < LU_LANES; l++)
        f->e[4][l] = LU_K34 * ((1 - LU_K15) * s->kinetic[l] + along[l] * along[l] / 6 +
                               LU_K15 * s->energy[l]);
    for (int m = 0; m < LU_VARIABLES; m++)
        for (int l = 0; l < LU_LANES; l++)
            f->e[m][l] += lu_dissipation_2(axis) * s->u.e[m][l];
}
