/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every point of the whole cube, x fastest, has a number of the random sequence. The ten largest
 * are the positive charges, the ten smallest the negative ones.
 */
#include "benchmarks/npb/mg_source.h"

#include "benchmarks/npb/npb_random.h"

#include <mpi.h>
#include <stdint.h>
#include <string.h>

#define CHARGES 10

/* The largest values met so far, in falling order; -2 where there was none yet. */
struct largest {
    double value[CHARGES];
    ptrdiff_t cell[CHARGES];
};

static void largest_init(struct largest *l)
{
    for (int i = 0; i < CHARGES; i++) {
        l->value[i] = -2;
        l->cell[i] = -1;
    }
}

static void largest_offer(struct largest *l, double value, ptrdiff_t cell)
{
    int i = CHARGES - 1;

    if (value <= l->value[i])
        return;
    for (; i > 0 && l->value[i - 1] < value; i--) {
        l->value[i] = l->value[i - 1];
        l->cell[i] = l->cell[i - 1];
    }
    l->value[i] = value;
    l->cell[i] = cell;
}

/* The smallest are the largest of the negated numbers. */
static void scan_row(const struct mg_level *level, int y, int z, struct largest *high,
                     struct largest *low)
{
    const struct mg_axis *axis = level->axis;
    uint64_t points = (uint64_t)axis[0].points;
    uint64_t row = (uint64_t)(axis[2].first + z) * points + (uint64_t)(axis[1].first + y);
    uint64_t random = npb_random_skip(NPB_RANDOM_SEED, row * points + (uint64_t)axis[0].first);
    ptrdiff_t at = (z + 1) * level->plane + (y + 1) * level->row + 1;

    for (int x = 0; x < axis[0].count; x++) {
        double value = npb_random_next(&random, NPB_RANDOM_A);
        largest_offer(high, value, at + x);
        largest_offer(low, -value, at + x);
    }
}

/* Puts the charge at the ten largest of all processes: each round settles the largest one left. */
static void place(const struct largest *l, double charge, double *v)
{
    int next = 0;

    for (int round = 0; round < CHARGES; round++) {
        double most;
        MPI_Allreduce(&l->value[next], &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (l->value[next] == most)
            v[l->cell[next++]] = charge;
    }
}

void mg_source_fill(const struct mg_level *top, double *v)
{
    struct largest high, low;

    largest_init(&high);
    largest_init(&low);
    for (int z = 0; z < top->axis[2].count; z++)
        for (int y = 0; y < top->axis[1].count; y++)
            scan_row(top, y, z, &high, &low);
    memset(v, 0, top->cells * sizeof *v);
    place(&high, 1, v);
    place(&low, -1, v);
}
