/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NAS kernel CG (RNR-94-007, section 3.3; NAS-95-020): the smallest eigenvalue of a large sparse
 * matrix by inverse iteration, each step of which solves a system by conjugate gradients. Messages:
 * sums of one or two numbers, and long vectors along the rows of the grid and across its diagonal.
 */
#include "benchmarks/npb/cg_grid.h"
#include "benchmarks/npb/cg_matrix.h"
#include "benchmarks/npb/npb_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RCOND            0.1
#define INNER_ITERATIONS 25
#define EPSILON          1e-10

static const struct cg_class {
    int n, nonzeros, iterations;
    double shift, zeta;
} classes[] = {
    {1400, 7, 15, 10, 8.5971775078648},
    {7000, 8, 15, 12, 10.362595087124},
    {14000, 11, 15, 20, 17.130235054029},
    {75000, 13, 75, 60, 22.712745482631},
};

/* The system A z = x; vectors have the block's columns. */
struct cg_system {
    struct cg_grid grid;
    struct cg_matrix matrix;
    int cols;
    double *x, *z;
    double *p, *q, *r; /* direction, A p, residual */
    double *partial;   /* the block's rows */
};

static double *alloc_vector(int count)
{
    return npb_alloc((size_t)count, sizeof(double));
}

static void system_init(struct cg_system *s, const struct cg_class *class)
{
    struct cg_recipe recipe = {class->n, class->nonzeros, RCOND, class->shift};

    cg_grid_init(&s->grid, npb_rank(), npb_ranks(), class->n);
    cg_matrix_init(&s->matrix, &recipe, s->grid.rows, s->grid.cols);
    s->cols = s->grid.cols.count;
    s->x = alloc_vector(s->cols);
    s->z = alloc_vector(s->cols);
    s->p = alloc_vector(s->cols);
    s->q = alloc_vector(s->cols);
    s->r = alloc_vector(s->cols);
    s->partial = alloc_vector(s->grid.rows.count);
}

static void system_fini(struct cg_system *s)
{
    cg_matrix_fini(&s->matrix);
    cg_grid_fini(&s->grid);
    free(s->x);
    free(s->z);
    free(s->p);
    free(s->q);
    free(s->r);
    free(s->partial);
}

static double local_dot(const double *a, const double *b, int count)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static double dot(const struct cg_system *s, const double *a, const double *b)
{
    double sum = local_dot(a, b, s->cols);
    cg_grid_reduce(&s->grid, &sum, 1);
    return sum;
}

/* out = A in */
static void multiply(struct cg_system *s, const double *in, double *out)
{
    cg_matrix_multiply(&s->matrix, in, s->partial);
    cg_grid_reduce_product(&s->grid, s->partial, out);
}

/* a += factor b */
static void add_scaled(double *restrict a, double factor, const double *restrict b, int count)
{
#pragma omp simd
    for (int i = 0; i < count; i++)
        a[i] += factor * b[i];
}

/* One step of conjugate gradients; `rho` is r.r before it, the new one is returned. */
static double descend(struct cg_system *s, double rho)
{
    double alpha, beta, next;

    multiply(s, s->p, s->q);
    alpha = rho / dot(s, s->p, s->q);
    add_scaled(s->z, alpha, s->p, s->cols);
    add_scaled(s->r, -alpha, s->q, s->cols);
    next = dot(s, s->r, s->r);
    beta = next / rho;
    for (int i = 0; i < s->cols; i++)
        s->p[i] = s->r[i] + beta * s->p[i];
    return next;
}

/* z becomes an approximate solution of A z = x; returns the norm of what is left. */
static double solve(struct cg_system *s)
{
    size_t bytes = (size_t)s->cols * sizeof(double);
    double rho;

    memset(s->z, 0, bytes);
    memcpy(s->r, s->x, bytes);
    memcpy(s->p, s->x, bytes);
    rho = dot(s, s->r, s->r);
    for (int i = 0; i < INNER_ITERATIONS; i++)
        rho = descend(s, rho);

    multiply(s, s->z, s->r);
    for (int i = 0; i < s->cols; i++)
        s->r[i] = s->x[i] - s->r[i];
    return sqrt(dot(s, s->r, s->r));
}

/* One step of inverse iteration. Returns 1 / x.z; `residual` is the inner solver's. */
static double iterate(struct cg_system *s, double *residual)
{
    double sums[2], scale;

    *residual = solve(s);
    sums[0] = local_dot(s->x, s->z, s->cols);
    sums[1] = local_dot(s->z, s->z, s->cols);
    cg_grid_reduce(&s->grid, sums, 2);
    scale = 1 / sqrt(sums[1]);
    for (int i = 0; i < s->cols; i++)
        s->x[i] = scale * s->z[i];
    return 1 / sums[0];
}

static void start_vector(struct cg_system *s)
{
    for (int i = 0; i < s->cols; i++)
        s->x[i] = 1;
}

/* Floating point operations as the benchmark counts them. */
static double operations(const struct cg_class *class)
{
    double row = class->nonzeros * (class->nonzeros + 1.0);
    return 2.0 * class->iterations * class->n * (3 + row + INNER_ITERATIONS * (5 + row) + 3);
}

static void print_header(char letter, const struct cg_class *class)
{
    npb_print("\n NAS kernel CG, class %c\n\n Size: %d\n Iterations: %d\n Processes: %d\n"
              " Nonzeros per row: %d\n Eigenvalue shift: %.3E\n\n",
              letter, class->n, class->iterations, npb_ranks(), class->nonzeros, class->shift);
}

static void run(char letter, struct npb_result *result)
{
    const struct cg_class *class = &classes[npb_class_index(letter)];
    struct cg_system s;
    double residual, zeta = 0, start;

    print_header(letter, class);
    system_init(&s, class);
    start_vector(&s);
    iterate(&s, &residual); /* warm-up */
    start_vector(&s);

    npb_print(" iteration             ||r||                  zeta\n");
    start = npb_timer_start();
    for (int i = 1; i <= class->iterations; i++) {
        zeta = class->shift + iterate(&s, &residual);
        npb_print(" %9d %21.14E %21.13E\n", i, residual, zeta);
    }
    result->seconds = npb_timer_stop(start);
    result->size[0] = class->n;
    result->iterations = class->iterations;
    result->operations = operations(class);
    result->verified = npb_verify("zeta", zeta, class->zeta, EPSILON);
    system_fini(&s);
}

static const char *refuses(char letter, int ranks)
{
    if (!npb_is_power_of_two(ranks))
        return "the number of ranks is not a power of two";
    if (cg_grid_columns(ranks) > classes[npb_class_index(letter)].n)
        return "more ranks than columns";
    return NULL;
}

int main(int argc, char **argv)
{
    const struct npb_kernel kernel = {"CG", "floating point", refuses, run};

    return npb_main(argc, argv, &kernel);
}
