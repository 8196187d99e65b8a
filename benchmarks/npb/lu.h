/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numerics of LU, without MPI: the compressible Navier-Stokes equations of the NAS Parallel
 * Benchmarks (RNR-94-007, section 3; NAS-95-020) on a cube whose x and y directions are divided
 * among the ranks, and the SSOR sweeps that solve for their steady state.
 *
 * A field holds five variables at each grid point: density, momentum in x, y and z, total energy.
 * It is stored by rows along x, a row for each variable, so that LU_LANES neighbouring points are
 * computed on at once. Lanes beyond the end of a row read its padding, and are thrown away.
 */
#ifndef NPB_LU_H
#define NPB_LU_H

#include <stdbool.h>
#include <stddef.h>

enum {
    LU_VARIABLES = 5,
    LU_LANES = 8,
    LU_GHOSTS = 2, /* layers around the own points that fourth differences reach */
    LU_LOWER = 0,  /* neighbours with the smaller index, and the sweep that comes from there */
    LU_UPPER = 1,
};

/* ---- the grid (lu_grid.c) ----------------------------------------------------------------- */

/* A rank's part. Points are counted from its own first one; indices of axes are 0 to 2. */
struct lu_grid {
    int points;         /* of the whole cube, in each direction */
    int ranks[2];       /* in x and y */
    int coord[2];       /* of this rank */
    int start[3];       /* this rank's first point in the cube */
    int own[3];         /* its number of points */
    int inner_begin[3]; /* its points that are not on the cube's faces */
    int inner_end[3];
    ptrdiff_t stride[3]; /* in a field: from a point to the next, in doubles */
    ptrdiff_t variable;  /* from a variable to the next */
    ptrdiff_t origin;    /* where variable 0 of point (0, 0, 0) is */
    size_t doubles;      /* of a field */
};

/* Why `points` in each direction cannot be divided among `ranks`, or NULL. */
const char *lu_grid_refuses(int points, int ranks);
/* The division must not be refused. */
void lu_grid_init(struct lu_grid *g, int points, int rank, int ranks);
/* The rank at this place, or -1 outside. */
int lu_grid_rank(const struct lu_grid *g, int x, int y);

/* Where variable 0 of a point is in a field. */
static inline ptrdiff_t lu_at(const struct lu_grid *g, int i, int j, int k)
{
    return g->origin + i + j * g->stride[1] + k * g->stride[2];
}

/* ---- the flow at a few points (lu_flux.c, lu_jacobian.c) ---------------------------------- */

struct lu_vector {
    double e[LU_VARIABLES][LU_LANES];
};

struct lu_matrix {
    double e[LU_VARIABLES][LU_VARIABLES][LU_LANES];
};

/* The variables, and what follows from them. */
struct lu_state {
    struct lu_vector u;
    double inverse[LU_LANES]; /* of the density */
    double velocity[3][LU_LANES];
    double kinetic[LU_LANES]; /* energy per mass */
    double energy[LU_LANES];  /* total, per mass */
};

/* `u` is variable 0 of the first of the points. */
void lu_state_load(struct lu_state *restrict s, const double *restrict u, ptrdiff_t variable);
/* The convective flux along an axis. */
void lu_flux_convective(struct lu_vector *restrict f, const struct lu_state *restrict s, int axis);
/* The function whose second difference along an axis is the viscous term and the second-order
 * dissipation. */
void lu_flux_diffusive(struct lu_vector *restrict f, const struct lu_state *restrict s, int axis);

/* b = convective dF/du + diffusive dG/du, of the two functions above. */
void lu_jacobian_face(struct lu_matrix *restrict b, const struct lu_state *restrict s, int axis,
                      double convective, double diffusive);
/* b = I + the sum over the axes of diffusive[axis] dG/du. */
void lu_jacobian_diagonal(struct lu_matrix *restrict b, const struct lu_state *restrict s,
                          const double diffusive[3]);

/* ---- fields (lu_field.c) ------------------------------------------------------------------ */

/* The exact solution at a point of the cube, anywhere. */
void lu_exact(int points, const int at[3], double u[LU_VARIABLES]);
/* The exact solution at all own points, and at the ghosts that are in the cube. */
void lu_field_exact(const struct lu_grid *g, double *field);
/* The initial values: exact on the cube's faces, interpolated between them inside. */
void lu_field_initial(const struct lu_grid *g, double *field);

/* This rank's part of sums over the inner points of the cube. */
void lu_sum_squares(const struct lu_grid *g, const double *field, double sums[LU_VARIABLES]);
void lu_sum_squared_errors(const struct lu_grid *g, const double *u, double sums[LU_VARIABLES]);
/* This rank's part of the surface integral of the pressure. */
double lu_surface_integral(const struct lu_grid *g, const double *u);

/* ---- the residual and the sweeps (lu_residual.c, lu_sweep.c) ------------------------------- */

/* out = L(u) - forcing at the inner points: the steady Navier-Stokes operator with its dissipation.
 * Ghosts of `u` must be current. No forcing: NULL. */
void lu_residual(const struct lu_grid *g, const double *u, const double *forcing, double *out);

/* One sweep over the inner points of plane k. LU_LOWER solves (D + omega L) v' = v, LU_UPPER
 * (I + omega D^-1 U) v' = v, where the part of v before the plane and before the own points must
 * be solved for already. */
void lu_sweep_plane(const struct lu_grid *g, const double *u, double *v, double dt, int k,
                    int side);
/* v *= factor, at the inner points. */
void lu_scale(const struct lu_grid *g, double *v, double factor);
/* u += factor v, at the inner points. */
void lu_add(const struct lu_grid *g, double *u, const double *v, double factor);

#define LU_OMEGA 1.2 /* over-relaxation */

/* ---- reference values (lu_verify.c) -------------------------------------------------------- */

struct lu_class {
    int points, iterations;
    double dt;
    double residual[LU_VARIABLES], error[LU_VARIABLES]; /* root mean squares */
    double surface;
};

/* NULL for another letter than S, W, A or B. */
const struct lu_class *lu_class_find(char name);

#endif
