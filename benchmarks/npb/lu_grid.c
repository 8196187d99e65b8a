/* SPDX-License-Identifier: BSD-3-Clause */
/* How the cube is divided among the ranks, and how a rank's part lies in memory. */
#include "benchmarks/npb/lu.h"

/* As even as a power of two allows, x first. */
static void grid_of_ranks(int ranks, int out[2])
{
    out[0] = out[1] = 1;
    for (int axis = 0; out[0] * out[1] < ranks; axis = 1 - axis)
        out[axis] *= 2;
}

const char *lu_grid_refuses(int points, int ranks)
{
    int divided[2];

    if (ranks < 1 || (ranks & (ranks - 1)))
        return "the number of ranks is not a power of two";
    grid_of_ranks(ranks, divided);
    /* Ghosts come from the nearest rank alone. */
    if (points / divided[0] < LU_GHOSTS)
        return "too many ranks: each must have at least two points in x and in y";
    return NULL;
}

/* The first `points % parts` parts have one point more. */
static void divide(int points, int parts, int part, int *start, int *count)
{
    int rest = points % parts;

    *count = points / parts + (part < rest);
    *start = points / parts * part + (part < rest ? part : rest);
}

void lu_grid_init(struct lu_grid *g, int points, int rank, int ranks)
{
    ptrdiff_t width;

    g->points = points;
    grid_of_ranks(ranks, g->ranks);
    g->coord[0] = rank % g->ranks[0];
    g->coord[1] = rank / g->ranks[0];
    for (int axis = 0; axis < 2; axis++)
        divide(points, g->ranks[axis], g->coord[axis], &g->start[axis], &g->own[axis]);
    g->start[2] = 0;
    g->own[2] = points;
    for (int axis = 0; axis < 3; axis++) {
        int end = g->start[axis] + g->own[axis];
        g->inner_begin[axis] = g->start[axis] == 0;
        g->inner_end[axis] = g->own[axis] - (end == points);
    }
    width = g->own[0] + 2 * LU_GHOSTS + LU_LANES;
    g->variable = width;
    g->stride[0] = 1;
    g->stride[1] = LU_VARIABLES * width;
    g->stride[2] = g->stride[1] * (g->own[1] + 2 * LU_GHOSTS);
    g->origin = LU_GHOSTS * (g->stride[0] + g->stride[1] + g->stride[2]);
    g->doubles = (size_t)(g->stride[2] * (points + 2 * LU_GHOSTS));
}

int lu_grid_rank(const struct lu_grid *g, int x, int y)
{
    if (x < 0 || x >= g->ranks[0] || y < 0 || y >= g->ranks[1])
        return -1;
    return x + y * g->ranks[0];
}
