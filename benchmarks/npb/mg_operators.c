/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/npb/mg_operators.h"

#include <string.h>

/* The longest row: all points of the finest level there can be, and the two around. */
#define ROW_MAX ((2 << (MG_LEVELS_MAX - 1)) + 2)

/*
 * Each operator works on rows along x. For a row it first adds up, at each x, the four neighbours
 * across faces and the four across edges in the y-z plane; each sum serves three points.
 */
struct sums {
    double face[ROW_MAX], edge[ROW_MAX];
};

static void add_neighbours(const double *at, ptrdiff_t row, ptrdiff_t plane, int count,
                           struct sums *sums)
{
    const double *south = at - row, *north = at + row, *down = at - plane, *up = at + plane;

#pragma omp simd
    for (int i = 0; i < count; i++) {
        sums->face[i] = (south[i] + north[i]) + (down[i] + up[i]);
        sums->edge[i] = (down[i - row] + down[i + row]) + (up[i - row] + up[i + row]);
    }
}

static ptrdiff_t row_at(const struct mg_level *level, int y, int z)
{
    return z * level->plane + y * level->row;
}

/* A has -8/3, 0, 1/6, 1/12: that of the faces vanishes. */
static void residual_row(const double *u, const double *v, double *r, const struct sums *s,
                         int count)
{
#pragma omp simd
    for (int i = 1; i <= count; i++)
        r[i] = v[i] - (-8.0 / 3.0) * u[i] -
               (1.0 / 6.0) * (s->edge[i] + s->face[i - 1] + s->face[i + 1]) -
               (1.0 / 12.0) * (s->edge[i - 1] + s->edge[i + 1]);
}

void mg_residual(const struct mg_level *level, const double *u, const double *v, double *r)
{
    struct sums sums;

    for (int z = 1; z <= level->axis[2].count; z++)
        for (int y = 1; y <= level->axis[1].count; y++) {
            ptrdiff_t at = row_at(level, y, z);
            add_neighbours(u + at, level->row, level->plane, level->extent[0], &sums);
            residual_row(u + at, v + at, r + at, &sums, level->axis[0].count);
        }
}

static void smooth_row(const struct mg_smoother *c, const double *r, double *u,
                       const struct sums *s, int count)
{
#pragma omp simd
    for (int i = 1; i <= count; i++)
        u[i] += c->center * r[i] + c->face * (r[i - 1] + r[i + 1] + s->face[i]) +
                c->edge * (s->edge[i] + s->face[i - 1] + s->face[i + 1]);
}

void mg_smooth(const struct mg_level *level, const struct mg_smoother *smoother, const double *r,
               double *u)
{
    struct sums sums;

    for (int z = 1; z <= level->axis[2].count; z++)
        for (int y = 1; y <= level->axis[1].count; y++) {
            ptrdiff_t at = row_at(level, y, z);
            add_neighbours(r + at, level->row, level->plane, level->extent[0], &sums);
            smooth_row(smoother, r + at, u + at, &sums, level->axis[0].count);
        }
}

/* Local index in the finer level of the point where the coarse one with index 1 lies: coarse point
 * j is fine point 2 j + 1. */
static int fine_index(const struct mg_axis *fine, const struct mg_axis *coarse)
{
    return 2 * coarse->first + 1 - fine->first + 1;
}

static void project_row(const double *fine, const struct sums *s, int first, double *coarse,
                        int count)
{
    for (int j = 0; j < count; j++) {
        int i = first + 2 * j;
        coarse[j + 1] = 0.5 * fine[i] + 0.25 * (fine[i - 1] + fine[i + 1] + s->face[i]) +
                        0.125 * (s->face[i - 1] + s->face[i + 1] + s->edge[i]) +
                        0.0625 * (s->edge[i - 1] + s->edge[i + 1]);
    }
}

void mg_project(const struct mg_level *fine, const double *from, const struct mg_level *coarse,
                double *to)
{
    struct sums sums;
    int first[3];

    if (coarse->idle)
        return;
    for (int a = 0; a < 3; a++)
        first[a] = fine_index(&fine->axis[a], &coarse->axis[a]);
    for (int z = 0; z < coarse->axis[2].count; z++)
        for (int y = 0; y < coarse->axis[1].count; y++) {
            const double *row = from + row_at(fine, first[1] + 2 * y, first[2] + 2 * z);
            add_neighbours(row, fine->row, fine->plane, fine->extent[0], &sums);
            project_row(row, &sums, first[0], to + row_at(coarse, y + 1, z + 1),
                        coarse->axis[0].count);
        }
}

/* Where the fine level's local index 0 lies, in halves of the coarse spacing from the coarse
 * level's local index 0. Fine index i is at i + shift; an odd sum is half way between two coarse
 * points. */
static int shift_of(const struct mg_axis *fine, const struct mg_axis *coarse)
{
    return 2 - fine_index(fine, coarse);
}

/* The mean of the up to four coarse rows around (y, z), which are in halves. */
static void mean_rows(const struct mg_level *coarse, const double *from, int y, int z, double *mean)
{
    const double *a = from + row_at(coarse, y / 2, z / 2);
    const double *b = from + row_at(coarse, (y + 1) / 2, z / 2);
    const double *c = from + row_at(coarse, y / 2, (z + 1) / 2);
    const double *d = from + row_at(coarse, (y + 1) / 2, (z + 1) / 2);

#pragma omp simd
    for (int i = 0; i < coarse->extent[0]; i++)
        mean[i] = 0.25 * ((a[i] + b[i]) + (c[i] + d[i]));
}

static void interpolate_row(const double *mean, int shift, double *to, int count)
{
    for (int i = 0; i < count; i++)
        to[i] += 0.5 * (mean[(i + shift) / 2] + mean[(i + shift + 1) / 2]);
}

void mg_interpolate_add(const struct mg_level *coarse, const double *from,
                        const struct mg_level *fine, double *to)
{
    double mean[ROW_MAX];
    int shift[3];

    if (fine->idle)
        return;
    for (int a = 0; a < 3; a++)
        shift[a] = shift_of(&fine->axis[a], &coarse->axis[a]);
    for (int z = 0; z < fine->extent[2]; z++)
        for (int y = 0; y < fine->extent[1]; y++) {
            mean_rows(coarse, from, y + shift[1], z + shift[2], mean);
            interpolate_row(mean, shift[0], to + row_at(fine, y, z), fine->extent[0]);
        }
}

double mg_sum_of_squares(const struct mg_level *level, const double *field)
{
    double sum = 0;

    for (int z = 1; z <= level->axis[2].count; z++)
        for (int y = 1; y <= level->axis[1].count; y++) {
            const double *row = field + row_at(level, y, z);
            double part = 0;
#pragma omp simd reduction(+ : part)
            for (int x = 1; x <= level->axis[0].count; x++)
                part += row[x] * row[x];
            sum += part;
        }
    return sum;
}
