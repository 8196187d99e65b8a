/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NAS kernel MG (RNR-94-007, section 3.2; NAS-95-020): V-cycles of a multigrid solver for Poisson's
 * equation on a periodic cube. Messages: faces of boxes to the six neighbours, from long ones on
 * the finest level to short ones between distant processes on the coarsest.
 */
#include "benchmarks/npb/mg_exchange.h"
#include "benchmarks/npb/mg_grid.h"
#include "benchmarks/npb/mg_operators.h"
#include "benchmarks/npb/mg_source.h"
#include "benchmarks/npb/npb_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON              1e-8
#define OPERATIONS_PER_POINT 58 /* and iteration, as the benchmark counts them */

static const struct mg_class {
    int points, iterations;
    struct mg_smoother smoother;
    double norm;
} classes[] = {
    {32, 4, {-3.0 / 8, 1.0 / 32, -1.0 / 64}, 0.5307707005734e-04},
    {128, 4, {-3.0 / 8, 1.0 / 32, -1.0 / 64}, 0.6467329375339e-05},
    {256, 4, {-3.0 / 8, 1.0 / 32, -1.0 / 64}, 0.2433365309069e-05},
    {256, 20, {-3.0 / 17, 1.0 / 33, -1.0 / 61}, 0.1800564401355e-05},
};

/* A u = v; r is the residual, u and r exist on every level. */
struct mg_system {
    struct mg_grid grid;
    struct mg_exchange exchange;
    const struct mg_class *class;
    double *v, *u[MG_LEVELS_MAX], *r[MG_LEVELS_MAX];
    int top;
};

static void system_init(struct mg_system *s, const struct mg_class *class)
{
    memset(s, 0, sizeof *s);
    s->class = class;
    mg_grid_init(&s->grid, npb_rank(), npb_ranks(), class->points);
    mg_exchange_init(&s->exchange, &s->grid);
    s->top = s->grid.levels - 1;
    for (int k = 0; k <= s->top; k++) {
        s->u[k] = npb_alloc(s->grid.level[k].cells, sizeof(double));
        s->r[k] = npb_alloc(s->grid.level[k].cells, sizeof(double));
    }
    s->v = npb_alloc(s->grid.level[s->top].cells, sizeof(double));
}

static void system_fini(struct mg_system *s)
{
    for (int k = 0; k <= s->top; k++) {
        free(s->u[k]);
        free(s->r[k]);
    }
    free(s->v);
    mg_exchange_fini(&s->exchange);
}

static void zero(const struct mg_level *level, double *field)
{
    memset(field, 0, level->cells * sizeof *field);
}

static void reset(struct mg_system *s)
{
    const struct mg_level *top = mg_grid_top(&s->grid);

    zero(top, s->u[s->top]);
    mg_source_fill(top, s->v);
    mg_exchange_halo(&s->exchange, top, s->v);
}

/* r = right - A u on level k */
static void residual(struct mg_system *s, int k, const double *right)
{
    const struct mg_level *level = &s->grid.level[k];

    if (level->idle)
        return;
    mg_residual(level, s->u[k], right, s->r[k]);
    mg_exchange_halo(&s->exchange, level, s->r[k]);
}

static void smooth(struct mg_system *s, int k)
{
    const struct mg_level *level = &s->grid.level[k];

    if (level->idle)
        return;
    mg_smooth(level, &s->class->smoother, s->r[k], s->u[k]);
    mg_exchange_halo(&s->exchange, level, s->u[k]);
}

/* The residual to level k - 1. */
static void project(struct mg_system *s, int k)
{
    const struct mg_level *fine = &s->grid.level[k], *coarse = fine - 1;

    mg_project(fine, s->r[k], coarse, s->r[k - 1]);
    mg_exchange_halo(&s->exchange, coarse, s->r[k - 1]);
}

/* The correction from level k - 1. */
static void interpolate(struct mg_system *s, int k)
{
    const struct mg_level *fine = &s->grid.level[k], *coarse = fine - 1;

    mg_exchange_spread(&s->exchange, fine, coarse, s->u[k - 1]);
    mg_interpolate_add(coarse, s->u[k - 1], fine, s->u[k]);
}

static void v_cycle(struct mg_system *s)
{
    for (int k = s->top; k > 0; k--)
        project(s, k);
    zero(&s->grid.level[0], s->u[0]);
    smooth(s, 0);
    for (int k = 1; k < s->top; k++) {
        zero(&s->grid.level[k], s->u[k]);
        interpolate(s, k);
        residual(s, k, s->r[k]);
        smooth(s, k);
    }
    interpolate(s, s->top);
    residual(s, s->top, s->v);
    smooth(s, s->top);
}

/* Root of the mean square of the residual on the finest level, at every rank. */
static double norm(struct mg_system *s)
{
    double points = s->class->points;
    double sum = mg_sum_of_squares(mg_grid_top(&s->grid), s->r[s->top]);

    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sqrt(sum / (points * points * points));
}

/* The timed part; returns the norm after the last iteration. */
static double iterate(struct mg_system *s)
{
    double last;

    residual(s, s->top, s->v);
    last = norm(s);
    npb_print(" iteration %3d  norm of the residual %21.13E\n", 0, last);
    for (int i = 1; i <= s->class->iterations; i++) {
        v_cycle(s);
        residual(s, s->top, s->v);
    }
    last = norm(s);
    npb_print(" iteration %3d  norm of the residual %21.13E\n", s->class->iterations, last);
    return last;
}

static void print_header(char letter, const struct mg_system *s)
{
    const int *processes = s->grid.processes;

    npb_print("\n NAS kernel MG, class %c\n\n Size: %4dx%4dx%4d\n Iterations: %d\n"
              " Processes: %d (%dx%dx%d)\n\n",
              letter, s->class->points, s->class->points, s->class->points, s->class->iterations,
              npb_ranks(), processes[0], processes[1], processes[2]);
}

static void run(char letter, struct npb_result *result)
{
    const struct mg_class *class = &classes[npb_class_index(letter)];
    struct mg_system s;
    double start, last, points = class->points;

    system_init(&s, class);
    print_header(letter, &s);
    reset(&s);
    residual(&s, s.top, s.v);
    v_cycle(&s); /* warm-up */
    residual(&s, s.top, s.v);
    reset(&s);

    start = npb_timer_start();
    last = iterate(&s);
    result->seconds = npb_timer_stop(start);
    for (int a = 0; a < 3; a++)
        result->size[a] = class->points;
    result->iterations = class->iterations;
    result->operations = OPERATIONS_PER_POINT * class->iterations * points * points * points;
    result->verified = npb_verify("L2 norm", last, class->norm, EPSILON);
    system_fini(&s);
}

static const char *refuses(char letter, int ranks)
{
    int processes[3];

    if (!npb_is_power_of_two(ranks))
        return "the number of ranks is not a power of two";
    mg_grid_processes(ranks, processes);
    if (2 * processes[2] > classes[npb_class_index(letter)].points)
        return "more ranks than the grid can be cut into";
    return NULL;
}

int main(int argc, char **argv)
{
    const struct npb_kernel kernel = {"MG", "floating point", refuses, run};

    return npb_main(argc, argv, &kernel);
}
