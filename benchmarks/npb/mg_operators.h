/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operators of MG's V-cycle (RNR-94-007, section 3.2) on the own points of one level, or from
 * one level to the next. They read the layer around the own points and, but for
 * mg_interpolate_add(), leave that of the result to be exchanged.
 */
#ifndef MG_OPERATORS_H
#define MG_OPERATORS_H

#include "benchmarks/npb/mg_grid.h"

/* Coefficients of the smoother S: of the point, and of its neighbours across faces and edges. Those
 * across corners have none. */
struct mg_smoother {
    double center, face, edge;
};

/* r = v - A u; v and r may be the same. */
void mg_residual(const struct mg_level *level, const double *u, const double *v, double *r);

/* u += S r */
void mg_smooth(const struct mg_level *level, const struct mg_smoother *smoother, const double *r,
               double *u);

/* coarse = P fine: weighted mean of the 27 fine points around each coarse one. */
void mg_project(const struct mg_level *fine, const double *from, const struct mg_level *coarse,
                double *to);

/* fine += Q coarse: trilinear interpolation, of the layer around the own points, too. */
void mg_interpolate_add(const struct mg_level *coarse, const double *from,
                        const struct mg_level *fine, double *to);

/* Sum of squares over the own points. */
double mg_sum_of_squares(const struct mg_level *level, const double *field);

#endif
