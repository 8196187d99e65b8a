/* SPDX-License-Identifier: BSD-3-Clause */
/* What LU's neighbours in x and y tell each other: the layers of points that a residual reaches,
 * and the lines of points that a sweep has solved for. */
#ifndef NPB_LU_EXCHANGE_H
#define NPB_LU_EXCHANGE_H

#include "benchmarks/npb/lu.h"

#include <mpi.h>

struct lu_exchange {
    const struct lu_grid *grid;
    int neighbour[2][2]; /* ranks by axis and side, or MPI_PROC_NULL */
    double *out[2][2], *in[2][2];
};

/* `grid` must outlive it. MPI_COMM_WORLD's ranks are the grid's. */
void lu_exchange_init(struct lu_exchange *x, const struct lu_grid *grid);
void lu_exchange_fini(struct lu_exchange *x);

/* Fills the ghosts of all planes from the neighbours' own points; not those outside the cube, and
 * not those that are beyond the own points in x and in y. */
void lu_exchange_faces(struct lu_exchange *x, double *field);

/* Waits for plane k's lines of the neighbours that precede this rank in a sweep. */
void lu_exchange_receive_lines(struct lu_exchange *x, double *v, int k, int sweep);
/* Passes plane k's lines on to those that follow. */
void lu_exchange_send_lines(struct lu_exchange *x, const double *v, int k, int sweep);

#endif
