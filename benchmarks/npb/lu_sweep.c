/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two triangular solutions of an SSOR step. A point depends on its three neighbours on the side
 * that the sweep comes from. Those in y and z are complete for a row, so that their part, all
 * matrices and the elimination of the diagonal ones are computed for LU_LANES points at once; only
 * the dependence along x goes from point to point.
 */
#include "benchmarks/npb/lu.h"

struct sweep {
    const struct lu_grid *g;
    const double *u;
    double *v;
    int side;
    int toward; /* from a point to the neighbours that precede it: -1 or 1 */
    double convective, diffusive, diagonal[3];
};

static void sweep_init(struct sweep *s, const struct lu_grid *g, const double *u, double *v,
                       double dt, int side)
{
    const double n = g->points - 1;

    s->g = g;
    s->u = u;
    s->v = v;
    s->side = side;
    s->toward = side == LU_LOWER ? -1 : 1;
    /* With -omega: what a neighbour contributes to the right-hand side. */
    s->convective = -LU_OMEGA * s->toward * dt * 0.5 * n;
    s->diffusive = LU_OMEGA * dt * n * n;
    for (int axis = 0; axis < 3; axis++)
        s->diagonal[axis] = 2 * dt * n * n;
}

/* Matrices of what the neighbours along an axis contribute to the points at `at`. */
static void neighbour_matrix(const struct sweep *s, struct lu_matrix *b, ptrdiff_t at, int axis)
{
    struct lu_state state;

    lu_state_load(&state, s->u + at + s->toward * s->g->stride[axis], s->g->variable);
    lu_jacobian_face(b, &state, axis, s->convective, s->diffusive);
}

/* right += b v, where v begins at the first of the points. */
static void multiply_add(struct lu_vector *restrict right, const struct lu_matrix *restrict b,
                         const double *restrict v, ptrdiff_t variable)
{
    for (int c = 0; c < LU_VARIABLES; c++) {
        const double *x = v + c * variable;
        for (int m = 0; m < LU_VARIABLES; m++)
            for (int l = 0; l < LU_LANES; l++)
                right->e[m][l] += b->e[m][c][l] * x[l];
    }
}

/* d becomes its factors L and U, with the reciprocals of the pivots in the diagonal. The matrices
 * are dominated by their diagonals, so no rows are exchanged. */
static void factorize(struct lu_matrix *d)
{
    for (int p = 0; p < LU_VARIABLES; p++) {
        double *pivot = d->e[p][p];
        for (int l = 0; l < LU_LANES; l++)
            pivot[l] = 1.0 / pivot[l];
        for (int m = p + 1; m < LU_VARIABLES; m++) {
            double factor[LU_LANES];
            for (int l = 0; l < LU_LANES; l++)
                d->e[m][p][l] = factor[l] = d->e[m][p][l] * pivot[l];
            for (int c = p + 1; c < LU_VARIABLES; c++)
                for (int l = 0; l < LU_LANES; l++)
                    d->e[m][c][l] -= factor[l] * d->e[p][c][l];
        }
    }
}

/* Solves for one lane: x becomes d^-1 x. */
static inline void solve(const struct lu_matrix *d, int l, double x[LU_VARIABLES])
{
    for (int m = 1; m < LU_VARIABLES; m++)
        for (int c = 0; c < m; c++)
            x[m] -= d->e[m][c][l] * x[c];
    for (int m = LU_VARIABLES - 1; m >= 0; m--) {
        for (int c = m + 1; c < LU_VARIABLES; c++)
            x[m] -= d->e[m][c][l] * x[c];
        x[m] *= d->e[m][m][l];
    }
}

/* The recurrence along x. `right` is the right-hand side but for the contribution of x: in the
 * lower sweep with v, in the upper one without, where v is corrected by the solution. */
static void along_row(const struct sweep *s, ptrdiff_t at, int count, const struct lu_vector *right,
                      const struct lu_matrix *bx, const struct lu_matrix *d)
{
    const ptrdiff_t variable = s->g->variable;
    double near[LU_VARIABLES], x[LU_VARIABLES];
    int l = s->side == LU_LOWER ? 0 : count - 1;

    for (int m = 0; m < LU_VARIABLES; m++)
        near[m] = s->v[at + m * variable + l + s->toward];
    for (int n = 0; n < count; n++, l -= s->toward) {
        double *v = s->v + at + l;
        for (int m = 0; m < LU_VARIABLES; m++) {
            x[m] = right->e[m][l];
            for (int c = 0; c < LU_VARIABLES; c++)
                x[m] += bx->e[m][c][l] * near[c];
        }
        solve(d, l, x);
        for (int m = 0; m < LU_VARIABLES; m++) {
            near[m] = s->side == LU_LOWER ? x[m] : x[m] + v[m * variable];
            v[m * variable] = near[m];
        }
    }
}

static void lanes(const struct sweep *s, ptrdiff_t at, int count)
{
    const struct lu_grid *g = s->g;
    struct lu_vector right = {0};
    struct lu_matrix b, d;
    struct lu_state state;

    if (s->side == LU_LOWER)
        for (int m = 0; m < LU_VARIABLES; m++)
            for (int l = 0; l < LU_LANES; l++)
                right.e[m][l] = s->v[at + m * g->variable + l];
    for (int axis = 1; axis < 3; axis++) {
        neighbour_matrix(s, &b, at, axis);
        multiply_add(&right, &b, s->v + at + s->toward * g->stride[axis], g->variable);
    }
    lu_state_load(&state, s->u + at, g->variable);
    lu_jacobian_diagonal(&d, &state, s->diagonal);
    factorize(&d);
    neighbour_matrix(s, &b, at, 0);
    along_row(s, at, count, &right, &b, &d);
}

static void row(const struct sweep *s, int j, int k)
{
    const int begin = s->g->inner_begin[0], end = s->g->inner_end[0];
    const int groups = (end - begin + LU_LANES - 1) / LU_LANES;

    for (int n = 0; n < groups; n++) {
        int first = begin + LU_LANES * (s->side == LU_LOWER ? n : groups - 1 - n);
        int count = end - first < LU_LANES ? end - first : LU_LANES;
        lanes(s, lu_at(s->g, first, j, k), count);
    }
}

void lu_sweep_plane(const struct lu_grid *g, const double *u, double *v, double dt, int k, int side)
{
    const int begin = g->inner_begin[1], end = g->inner_end[1];
    struct sweep s;

    sweep_init(&s, g, u, v, dt, side);
    for (int n = 0; n < end - begin; n++)
        row(&s, side == LU_LOWER ? begin + n : end - 1 - n, k);
}

void lu_scale(const struct lu_grid *g, double *v, double factor)
{
    for (int k = g->inner_begin[2]; k < g->inner_end[2]; k++)
        for (int j = g->inner_begin[1]; j < g->inner_end[1]; j++)
            for (int m = 0; m < LU_VARIABLES; m++) {
                double *to = v + lu_at(g, 0, j, k) + m * g->variable;
                for (int i = g->inner_begin[0]; i < g->inner_end[0]; i++)
                    to[i] *= factor;
            }
}

void lu_add(const struct lu_grid *g, double *u, const double *v, double factor)
{
    for (int k = g->inner_begin[2]; k < g->inner_end[2]; k++)
        for (int j = g->inner_begin[1]; j < g->inner_end[1]; j++)
            for (int m = 0; m < LU_VARIABLES; m++) {
                ptrdiff_t at = lu_at(g, 0, j, k) + m * g->variable;
                for (int i = g->inner_begin[0]; i < g->inner_end[0]; i++)
                    u[at + i] += factor * v[at + i];
            }
}
