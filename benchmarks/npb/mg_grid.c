/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/npb/mg_grid.h"

#include "benchmarks/npb/npb_common.h"

#include <assert.h>
#include <string.h>

void mg_grid_processes(int ranks, int processes[3])
{
    int log = npb_log2(ranks), x = log / 3, y = (log - x) / 2;

    processes[0] = 1 << x;
    processes[1] = 1 << y;
    processes[2] = 1 << (log - x - y);
}

static int rank_at(const struct mg_grid *grid, const int at[3])
{
    return at[0] + grid->processes[0] * (at[1] + grid->processes[1] * at[2]);
}

/* The rank so many processes further along an axis, around the end. */
static int neighbour(const struct mg_grid *grid, int a, int distance)
{
    int at[3] = {grid->at[0], grid->at[1], grid->at[2]}, all = grid->processes[a];

    at[a] = (at[a] + distance + all) % all;
    return rank_at(grid, at);
}

static void set_axis(const struct mg_grid *grid, struct mg_axis *axis, int a, int points)
{
    int all = grid->processes[a], at = grid->at[a];
    int distance = points < all ? all / points : 1;

    axis->points = points;
    axis->first = at * points / all;
    axis->count = (at + 1) * points / all - axis->first;
    axis->below = neighbour(grid, a, -distance);
    axis->above = neighbour(grid, a, distance);
}

static void set_level(const struct mg_grid *grid, struct mg_level *level, int points)
{
    for (int a = 0; a < 3; a++) {
        set_axis(grid, &level->axis[a], a, points);
        level->extent[a] = level->axis[a].count + 2;
        level->idle |= level->axis[a].count == 0;
    }
    level->row = level->extent[0];
    level->plane = level->row * level->extent[1];
    level->cells = (size_t)level->plane * (size_t)level->extent[2];
}

void mg_grid_init(struct mg_grid *grid, int rank, int ranks, int points)
{
    memset(grid, 0, sizeof *grid);
    mg_grid_processes(ranks, grid->processes);
    grid->at[0] = rank % grid->processes[0];
    grid->at[1] = rank / grid->processes[0] % grid->processes[1];
    grid->at[2] = rank / grid->processes[0] / grid->processes[1];
    grid->levels = npb_log2(points);
    assert(grid->levels <= MG_LEVELS_MAX);
    for (int k = 0; k < grid->levels; k++)
        set_level(grid, &grid->level[k], 2 << k);
}
