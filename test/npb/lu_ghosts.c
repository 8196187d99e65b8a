/* SPDX-License-Identifier: BSD-3-Clause */
/* LU's exchange of faces and lines: every ghost that has an owner holds its value afterwards, and
 * every other point what it held before. */
#include "benchmarks/npb/lu_exchange.h"

#include "benchmarks/npb/npb_common.h"
#include "test/mpi/mpi_test.h"

#define POINTS 20
#define EMPTY  (-1.0)

/* Of a point of the cube, and of no other. */
static double name_of(const struct lu_grid *g, int i, int j, int k, int m)
{
    return (((g->start[0] + i) * 100.0 + g->start[1] + j) * 100 + k) * 10 + m;
}

static bool inside(int at, int end)
{
    return at >= 0 && at < end;
}

static void fill(const struct lu_grid *g, double *field)
{
    for (size_t at = 0; at < g->doubles; at++)
        field[at] = EMPTY;
    for (int k = 0; k < g->own[2]; k++)
        for (int j = 0; j < g->own[1]; j++)
            for (int m = 0; m < LU_VARIABLES; m++)
                for (int i = 0; i < g->own[0]; i++)
                    field[lu_at(g, i, j, k) + m * g->variable] = name_of(g, i, j, k, m);
}

/* Whether the point is a ghost that an exchange of faces fills. */
static bool face_ghost(const struct lu_grid *g, int i, int j)
{
    bool x = inside(i, g->own[0]), y = inside(j, g->own[1]);

    return x != y && inside(g->start[0] + i, POINTS) && inside(g->start[1] + j, POINTS);
}

/* The same for the lines that plane k gets in a sweep. */
static bool line_ghost(const struct lu_grid *g, int i, int j, int sweep)
{
    const int x = sweep == LU_LOWER ? -1 : g->own[0], y = sweep == LU_LOWER ? -1 : g->own[1];

    return face_ghost(g, i, j) && (i == x || j == y);
}

/* `plane` is -1 after an exchange of faces. */
static void check(const struct lu_grid *g, const double *field, int plane, int sweep)
{
    for (int k = 0; k < g->own[2]; k++)
        for (int j = -LU_GHOSTS; j < g->own[1] + LU_GHOSTS; j++)
            for (int i = -LU_GHOSTS; i < g->own[0] + LU_GHOSTS; i++)
                for (int m = 0; m < LU_VARIABLES; m++) {
                    bool own = inside(i, g->own[0]) && inside(j, g->own[1]);
                    bool ghost =
                        plane < 0 ? face_ghost(g, i, j) : k == plane && line_ghost(g, i, j, sweep);
                    double expected = own || ghost ? name_of(g, i, j, k, m) : EMPTY;
                    double found = field[lu_at(g, i, j, k) + m * g->variable];
                    MT_CHECK(found == expected, "point %d %d %d variable %d has %g instead of %g",
                             i, j, k, m, found, expected);
                }
}

static void check_lines(struct lu_exchange *x, double *field, int plane, int sweep)
{
    mt_phase("lines of plane %d, sweep %d", plane, sweep);
    fill(x->grid, field);
    lu_exchange_receive_lines(x, field, plane, sweep);
    lu_exchange_send_lines(x, field, plane, sweep);
    check(x->grid, field, plane, sweep);
}

int main(int argc, char **argv)
{
    struct lu_exchange x;
    struct lu_grid g;
    double *field;

    mt_start(argc, argv, "lu_ghosts", MPI_THREAD_SINGLE);
    MT_CHECK(!lu_grid_refuses(POINTS, mt.size), "%s", lu_grid_refuses(POINTS, mt.size));
    lu_grid_init(&g, POINTS, mt.rank, mt.size);
    lu_exchange_init(&x, &g);
    field = npb_alloc(g.doubles, sizeof *field);
    mt_phase("faces");
    fill(&g, field);
    lu_exchange_faces(&x, field);
    check(&g, field, -1, 0);
    for (int plane = 0; plane < POINTS; plane += POINTS / 2 - 1)
        for (int sweep = LU_LOWER; sweep <= LU_UPPER; sweep++)
            check_lines(&x, field, plane, sweep);
    free(field);
    lu_exchange_fini(&x);
    mt_finish("%d x %d ranks", g.ranks[0], g.ranks[1]);
    return 0;
}
