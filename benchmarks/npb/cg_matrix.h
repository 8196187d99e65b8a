/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CG's random sparse matrix (RNR-94-007, section 3.3): the sum over i of w_i x_i x_i^T, plus
 * rcond - shift on the diagonal, where x_i has a few random elements and 0.5 as its i-th, and the
 * weights fall from 1 to rcond.
 */
#ifndef CG_MATRIX_H
#define CG_MATRIX_H

#include "benchmarks/npb/cg_grid.h"

struct cg_recipe {
    int n;        /* order of the matrix */
    int nonzeros; /* random elements of each x_i */
    double rcond, shift;
};

/* A block in compressed rows; columns count from the block's first. */
struct cg_matrix {
    int rows;
    int *start; /* rows + 1 */
    int *column;
    double *value;
};

/* Each process makes all random numbers, and keeps what falls into its block. */
void cg_matrix_init(struct cg_matrix *matrix, const struct cg_recipe *recipe, struct cg_range rows,
                    struct cg_range cols);
void cg_matrix_fini(struct cg_matrix *matrix);

/* out[0..rows) = matrix * in */
void cg_matrix_multiply(const struct cg_matrix *matrix, const double *restrict in,
                        double *restrict out);

#endif
