/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NAS pseudo-application LU: symmetric successive over-relaxation towards a steady flow. Each
 * step sends a short message per plane and neighbour, one way in the lower sweep and back in the
 * upper one, as the front of what is solved for moves over the ranks; and then the faces.
 */
#include "benchmarks/npb/lu.h"

#include "benchmarks/npb/lu_exchange.h"
#include "benchmarks/npb/npb_common.h"

#include <math.h>
#include <stdlib.h>

struct lu {
    const struct lu_class *class;
    struct lu_grid grid;
    struct lu_exchange exchange;
    double *u, *v, *forcing; /* v: the residual, then the step towards the solution */
};

static void init(struct lu *lu, const struct lu_class *class)
{
    lu->class = class;
    lu_grid_init(&lu->grid, class->points, npb_rank(), npb_ranks());
    lu_exchange_init(&lu->exchange, &lu->grid);
    lu->u = npb_alloc(lu->grid.doubles, sizeof *lu->u);
    lu->v = npb_alloc(lu->grid.doubles, sizeof *lu->v);
    lu->forcing = npb_alloc(lu->grid.doubles, sizeof *lu->forcing);
    /* The forcing makes the exact solution one of the differenced equations. */
    lu_field_exact(&lu->grid, lu->u);
    lu_residual(&lu->grid, lu->u, NULL, lu->forcing);
}

static void fini(struct lu *lu)
{
    free(lu->forcing);
    free(lu->v);
    free(lu->u);
    lu_exchange_fini(&lu->exchange);
}

static void refresh_residual(struct lu *lu)
{
    lu_exchange_faces(&lu->exchange, lu->u);
    lu_residual(&lu->grid, lu->u, lu->forcing, lu->v);
}

static void sweep_plane(struct lu *lu, int k, int sweep)
{
    lu_exchange_receive_lines(&lu->exchange, lu->v, k, sweep);
    lu_sweep_plane(&lu->grid, lu->u, lu->v, lu->class->dt, k, sweep);
    lu_exchange_send_lines(&lu->exchange, lu->v, k, sweep);
}

/* From the residual of u in v to that of a better u. */
static void step(struct lu *lu)
{
    const int begin = lu->grid.inner_begin[2], end = lu->grid.inner_end[2];

    lu_scale(&lu->grid, lu->v, lu->class->dt);
    for (int k = begin; k < end; k++)
        sweep_plane(lu, k, LU_LOWER);
    for (int k = end - 1; k >= begin; k--)
        sweep_plane(lu, k, LU_UPPER);
    lu_add(&lu->grid, lu->u, lu->v, 1 / (LU_OMEGA * (2 - LU_OMEGA)));
    refresh_residual(lu);
}

/* Seconds that `iterations` steps from the initial values take. */
static double iterate(struct lu *lu, int iterations)
{
    double start;

    lu_field_initial(&lu->grid, lu->u);
    refresh_residual(lu);
    start = npb_timer_start();
    for (int n = 1; n <= iterations; n++) {
        if (n % 50 == 0)
            npb_print(" Time step %4d\n", n);
        step(lu);
    }
    return npb_timer_stop(start);
}

/* Root mean squares over the cube's inner points, of sums over this rank's. */
static void mean_roots(const struct lu *lu, double values[LU_VARIABLES])
{
    const double inner = lu->class->points - 2;

    MPI_Allreduce(MPI_IN_PLACE, values, LU_VARIABLES, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int m = 0; m < LU_VARIABLES; m++)
        values[m] = sqrt(values[m] / (inner * inner * inner));
}

static bool verify_all(const char *what, const double computed[LU_VARIABLES],
                       const double reference[LU_VARIABLES], double epsilon)
{
    bool good = true;

    for (int m = 0; m < LU_VARIABLES; m++)
        good &= npb_verify(what, computed[m], reference[m], epsilon);
    return good;
}

static bool verify(const struct lu *lu)
{
    const double epsilon = 1e-8;
    double residual[LU_VARIABLES], error[LU_VARIABLES], surface;
    bool good;

    lu_sum_squares(&lu->grid, lu->v, residual);
    mean_roots(lu, residual);
    lu_sum_squared_errors(&lu->grid, lu->u, error);
    mean_roots(lu, error);
    surface = lu_surface_integral(&lu->grid, lu->u);
    MPI_Allreduce(MPI_IN_PLACE, &surface, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    good = verify_all("residual", residual, lu->class->residual, epsilon);
    good &= verify_all("error", error, lu->class->error, epsilon);
    return npb_verify("surface", surface, lu->class->surface, epsilon) && good;
}

/* What NAS counts for a step, as a function of the points in each direction. */
static double operations_per_step(double n)
{
    return ((1984.77 * n - 10923.3) * n + 27770.9) * n - 144010.0;
}

static const char *refuses(char class, int ranks)
{
    return lu_grid_refuses(lu_class_find(class)->points, ranks);
}

static void run(char class, struct npb_result *result)
{
    struct lu lu;

    init(&lu, lu_class_find(class));
    npb_print("\n NAS Parallel Benchmarks: LU\n\n Size: %4dx%4dx%4d\n Iterations: %d\n"
              " Processes: %d (%d x %d)\n\n",
              lu.grid.points, lu.grid.points, lu.grid.points, lu.class->iterations, npb_ranks(),
              lu.grid.ranks[0], lu.grid.ranks[1]);
    /* Once untimed: memory and connections come into being. */
    iterate(&lu, 1);
    result->seconds = iterate(&lu, lu.class->iterations);
    for (int axis = 0; axis < 3; axis++)
        result->size[axis] = lu.grid.points;
    result->iterations = lu.class->iterations;
    result->operations = lu.class->iterations * operations_per_step(lu.grid.points);
    result->verified = verify(&lu);
    fini(&lu);
}

int main(int argc, char **argv)
{
    static const struct npb_kernel kernel = {
        .name = "LU",
        .operation = "floating point",
        .refuses = refuses,
        .run = run,
    };

    return npb_main(argc, argv, &kernel);
}
