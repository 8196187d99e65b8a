/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/npb/lu_exchange.h"

#include "benchmarks/npb/npb_common.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_FACE = 1, TAG_LINE = 2 };

/* A cuboid of points; the ends are not in it. */
struct region {
    int begin[3], end[3];
};

/* `layers` layers of points next to a side of the own points, within or without, planes
 * [k, k_end). */
static struct region layers_at(const struct lu_grid *g, int axis, int side, int layers, bool within,
                               int k, int k_end)
{
    struct region r = {.begin = {0, 0, k}, .end = {g->own[0], g->own[1], k_end}};

    if (side == LU_LOWER)
        r.begin[axis] = within ? 0 : -layers;
    else
        r.begin[axis] = g->own[axis] - (within ? layers : 0);
    r.end[axis] = r.begin[axis] + layers;
    return r;
}

static int doubles_in(const struct region *r)
{
    int points = 1;

    for (int axis = 0; axis < 3; axis++)
        points *= r->end[axis] - r->begin[axis];
    return LU_VARIABLES * points;
}

static void pack(const struct lu_grid *g, const double *field, const struct region *r, double *to)
{
    const size_t length = (size_t)(r->end[0] - r->begin[0]);

    for (int k = r->begin[2]; k < r->end[2]; k++)
        for (int j = r->begin[1]; j < r->end[1]; j++)
            for (int m = 0; m < LU_VARIABLES; m++) {
                const double *row = field + lu_at(g, r->begin[0], j, k) + m * g->variable;
                memcpy(to, row, length * sizeof *to);
                to += length;
            }
}

static void unpack(const struct lu_grid *g, double *field, const struct region *r,
                   const double *from)
{
    const size_t length = (size_t)(r->end[0] - r->begin[0]);

    for (int k = r->begin[2]; k < r->end[2]; k++)
        for (int j = r->begin[1]; j < r->end[1]; j++)
            for (int m = 0; m < LU_VARIABLES; m++) {
                double *row = field + lu_at(g, r->begin[0], j, k) + m * g->variable;
                memcpy(row, from, length * sizeof *from);
                from += length;
            }
}

void lu_exchange_init(struct lu_exchange *x, const struct lu_grid *grid)
{
    x->grid = grid;
    for (int axis = 0; axis < 2; axis++)
        for (int side = 0; side < 2; side++) {
            struct region r = layers_at(grid, axis, side, LU_GHOSTS, true, 0, grid->points);
            size_t doubles = (size_t)doubles_in(&r);
            int coord[2] = {grid->coord[0], grid->coord[1]}, rank;
            coord[axis] += side == LU_LOWER ? -1 : 1;
            rank = lu_grid_rank(grid, coord[0], coord[1]);
            x->neighbour[axis][side] = rank < 0 ? MPI_PROC_NULL : rank;
            x->out[axis][side] = npb_alloc(doubles, sizeof(double));
            x->in[axis][side] = npb_alloc(doubles, sizeof(double));
        }
}

void lu_exchange_fini(struct lu_exchange *x)
{
    for (int axis = 0; axis < 2; axis++)
        for (int side = 0; side < 2; side++) {
            free(x->out[axis][side]);
            free(x->in[axis][side]);
        }
}

void lu_exchange_faces(struct lu_exchange *x, double *field)
{
    const struct lu_grid *g = x->grid;
    MPI_Request requests[8];
    int count = 0;

    for (int axis = 0; axis < 2; axis++)
        for (int side = 0; side < 2; side++) {
            struct region r = layers_at(g, axis, side, LU_GHOSTS, false, 0, g->points);
            MPI_Irecv(x->in[axis][side], doubles_in(&r), MPI_DOUBLE, x->neighbour[axis][side],
                      TAG_FACE, MPI_COMM_WORLD, &requests[count++]);
        }
    for (int axis = 0; axis < 2; axis++)
        for (int side = 0; side < 2; side++) {
            struct region r = layers_at(g, axis, side, LU_GHOSTS, true, 0, g->points);
            if (x->neighbour[axis][side] == MPI_PROC_NULL)
                continue;
            pack(g, field, &r, x->out[axis][side]);
            MPI_Isend(x->out[axis][side], doubles_in(&r), MPI_DOUBLE, x->neighbour[axis][side],
                      TAG_FACE, MPI_COMM_WORLD, &requests[count++]);
        }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int axis = 0; axis < 2; axis++)
        for (int side = 0; side < 2; side++) {
            struct region r = layers_at(g, axis, side, LU_GHOSTS, false, 0, g->points);
            if (x->neighbour[axis][side] != MPI_PROC_NULL)
                unpack(g, field, &r, x->in[axis][side]);
        }
}

void lu_exchange_receive_lines(struct lu_exchange *x, double *v, int k, int sweep)
{
    for (int axis = 0; axis < 2; axis++) {
        struct region r = layers_at(x->grid, axis, sweep, 1, false, k, k + 1);
        if (x->neighbour[axis][sweep] == MPI_PROC_NULL)
            continue;
        MPI_Recv(x->in[axis][sweep], doubles_in(&r), MPI_DOUBLE, x->neighbour[axis][sweep],
                 TAG_LINE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        unpack(x->grid, v, &r, x->in[axis][sweep]);
    }
}

void lu_exchange_send_lines(struct lu_exchange *x, const double *v, int k, int sweep)
{
    const int side = sweep == LU_LOWER ? LU_UPPER : LU_LOWER;

    for (int axis = 0; axis < 2; axis++) {
        struct region r = layers_at(x->grid, axis, side, 1, true, k, k + 1);
        if (x->neighbour[axis][side] == MPI_PROC_NULL)
            continue;
        pack(x->grid, v, &r, x->out[axis][side]);
        MPI_Send(x->out[axis][side], doubles_in(&r), MPI_DOUBLE, x->neighbour[axis][side], TAG_LINE,
                 MPI_COMM_WORLD);
    }
}
