/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MG's periodic cube and its coarser levels, cut into boxes along all three axes. The ranks, a
 * power of two, are shared out over the axes x, y, z as evenly as can be, z first.
 *
 * A coarse level may have fewer points along an axis than there are processes. Then the last
 * process of each group of neighbours has the point, and the others rest on that level.
 *
 * Fields are arrays of doubles, x fastest, with one layer of neighbours' points around the own.
 */
#ifndef MG_GRID_H
#define MG_GRID_H

#include <stdbool.h>
#include <stddef.h>

#define MG_LEVELS_MAX 10

/* One axis of one level at this process. */
struct mg_axis {
    int points; /* of all processes */
    int first;  /* of the own points; of the point to come next when there are none */
    int count;
    int below, above; /* ranks with the neighbouring points */
};

struct mg_level {
    struct mg_axis axis[3];
    int extent[3];   /* count + 2 */
    ptrdiff_t row;   /* from one y to the next */
    ptrdiff_t plane; /* from one z to the next */
    size_t cells;    /* of a field */
    bool idle;       /* no points here */
};

struct mg_grid {
    int processes[3], at[3];
    int levels;                           /* level[0] has two points along each axis, */
    struct mg_level level[MG_LEVELS_MAX]; /* each further one twice as many */
};

/* How the ranks are shared out over the axes. */
void mg_grid_processes(int ranks, int processes[3]);

/* `points` along each axis, a power of two and at least twice the processes along any axis. */
void mg_grid_init(struct mg_grid *grid, int rank, int ranks, int points);

static inline const struct mg_level *mg_grid_top(const struct mg_grid *grid)
{
    return &grid->level[grid->levels - 1];
}

#endif
