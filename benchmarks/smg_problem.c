/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grid, the symmetric matrix with Dirichlet boundaries, the right-hand side of ones and the
 * zero guess. Each process owns a cuboid of blocks.
 */
#include "benchmarks/smg_problem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Where the original puts the grid's lowest cell: off the origin, so that signs matter. */
static const int grid_start[3] = {-17, 0, 32};

/* The coupling to a neighbour: the mean of the coefficients of the directions it lies in. With
 * cx = cy = cz = 1 the full stencil is 26 and -1. */
static double coupling(const struct smg_options *opt, const HYPRE_Int offset[3])
{
    double sum = 0;
    int directions = 0;
    for (int d = 0; d < opt->dim; d++) {
        sum += offset[d] ? opt->c[d] : 0.0;
        directions += offset[d] != 0;
    }
    return -sum / directions;
}

/* Whether a neighbour belongs to the stored half: face neighbours below for the cross stencil,
 * the lexicographically lower half for the full one. */
static bool stored(const struct smg_options *opt, const HYPRE_Int offset[3])
{
    int nonzero = (offset[0] != 0) + (offset[1] != 0) + (offset[2] != 0);
    if (opt->stencil == 7 && nonzero != 1)
        return false;
    for (int d = 2; d >= 0; d--)
        if (offset[d])
            return offset[d] < 0;
    return false;
}

/* The neighbours first, the diagonal last. The cross stencil comes out as in the original:
 * -x, -y, -z, centre. */
static void fill_stencil(struct smg_problem *p)
{
    double diagonal = 0;
    p->entries = 0;
    for (int i = 0; i < 27; i++) {
        HYPRE_Int offset[3] = {-(i % 3 == 1) + (i % 3 == 2), -(i / 3 % 3 == 1) + (i / 3 % 3 == 2),
                               -(i / 9 == 1) + (i / 9 == 2)};
        if ((p->opt->dim == 2 && offset[2]) || !stored(p->opt, offset))
            continue;
        memcpy(p->offsets[p->entries], offset, sizeof offset);
        p->values[p->entries] = coupling(p->opt, offset);
        diagonal -= 2 * p->values[p->entries];
        p->entries++;
    }
    memset(p->offsets[p->entries], 0, sizeof p->offsets[0]);
    p->values[p->entries] = diagonal;
    p->entries++;
}

static int block_count(const struct smg_problem *p)
{
    return p->opt->blocks[0] * p->opt->blocks[1] * p->opt->blocks[2];
}

static int block_cells(const struct smg_problem *p)
{
    return p->opt->n[0] * p->opt->n[1] * p->opt->n[2];
}

static void block_extents(const struct smg_problem *p, int block, HYPRE_Int lower[3],
                          HYPRE_Int upper[3])
{
    const int *blocks = p->opt->blocks;
    int index[3] = {block % blocks[0], block / blocks[0] % blocks[1],
                    block / (blocks[0] * blocks[1])};
    for (int d = 0; d < 3; d++) {
        lower[d] = p->corner[d] + index[d] * p->opt->n[d];
        upper[d] = lower[d] + p->opt->n[d] - 1;
    }
}

static void create_grid(struct smg_problem *p)
{
    HYPRE_Int lower[3], upper[3];
    HYPRE_StructGridCreate(MPI_COMM_WORLD, p->opt->dim, &p->grid);
    for (int block = 0; block < block_count(p); block++) {
        block_extents(p, block, lower, upper);
        HYPRE_StructGridSetExtents(p->grid, lower, upper);
    }
    HYPRE_StructGridAssemble(p->grid);
}

/* Sets `entry` to zero for the cells of a block whose neighbour in direction d is outside. */
static void cut_entry(struct smg_problem *p, int block, HYPRE_Int entry, int d, double *zeros)
{
    HYPRE_Int lower[3], upper[3];
    HYPRE_Int offset = p->offsets[entry][d];
    HYPRE_Int last = grid_start[d] + p->opt->procs[d] * p->opt->blocks[d] * p->opt->n[d] - 1;

    block_extents(p, block, lower, upper);
    if (offset < 0 && lower[d] == grid_start[d])
        upper[d] = lower[d];
    else if (offset > 0 && upper[d] == last)
        lower[d] = upper[d];
    else
        return;
    HYPRE_StructMatrixSetBoxValues(p->a, lower, upper, 1, &entry, zeros);
}

/* Couplings that reach across the boundary are zero: Dirichlet conditions. */
static void cut_boundary(struct smg_problem *p)
{
    double *zeros = calloc((size_t)block_cells(p), sizeof *zeros);
    if (!zeros)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int block = 0; block < block_count(p); block++)
        for (HYPRE_Int entry = 0; entry < p->entries; entry++)
            for (int d = 0; d < p->opt->dim; d++)
                cut_entry(p, block, entry, d, zeros);
    free(zeros);
}

static void create_matrix(struct smg_problem *p)
{
    HYPRE_Int ghosts[6] = {1, 1, 1, 1, p->opt->dim == 3, p->opt->dim == 3};
    HYPRE_Int lower[3], upper[3], indices[SMG_MAX_STENCIL];
    size_t cells = (size_t)block_cells(p), entries = (size_t)p->entries;
    double *values = malloc(cells * entries * sizeof *values);
    if (!values)
        MPI_Abort(MPI_COMM_WORLD, 1);

    HYPRE_StructStencilCreate(p->opt->dim, p->entries, &p->stencil);
    for (int s = 0; s < p->entries; s++) {
        HYPRE_StructStencilSetElement(p->stencil, s, p->offsets[s]);
        indices[s] = s;
    }
    for (size_t i = 0; i < cells * entries; i++)
        values[i] = p->values[i % entries];

    HYPRE_StructMatrixCreate(MPI_COMM_WORLD, p->grid, p->stencil, &p->a);
    HYPRE_StructMatrixSetSymmetric(p->a, 1);
    HYPRE_StructMatrixSetNumGhost(p->a, ghosts);
    HYPRE_StructMatrixInitialize(p->a);
    for (int block = 0; block < block_count(p); block++) {
        block_extents(p, block, lower, upper);
        HYPRE_StructMatrixSetBoxValues(p->a, lower, upper, p->entries, indices, values);
    }
    cut_boundary(p);
    HYPRE_StructMatrixAssemble(p->a);
    free(values);
}

static HYPRE_StructVector create_vector(struct smg_problem *p, double value)
{
    HYPRE_StructVector v;
    HYPRE_Int lower[3], upper[3];
    double *values = malloc((size_t)block_cells(p) * sizeof *values);
    if (!values)
        MPI_Abort(MPI_COMM_WORLD, 1);

    for (int i = 0; i < block_cells(p); i++)
        values[i] = value;
    HYPRE_StructVectorCreate(MPI_COMM_WORLD, p->grid, &v);
    HYPRE_StructVectorInitialize(v);
    for (int block = 0; block < block_count(p); block++) {
        block_extents(p, block, lower, upper);
        HYPRE_StructVectorSetBoxValues(v, lower, upper, values);
    }
    HYPRE_StructVectorAssemble(v);
    free(values);
    return v;
}

void smg_problem_init(struct smg_problem *p, const struct smg_options *opt, int rank)
{
    int index[3] = {rank % opt->procs[0], rank / opt->procs[0] % opt->procs[1],
                    rank / (opt->procs[0] * opt->procs[1])};
    p->opt = opt;
    for (int d = 0; d < 3; d++)
        p->corner[d] = grid_start[d] + index[d] * opt->blocks[d] * opt->n[d];
    fill_stencil(p);
    create_grid(p);
    create_matrix(p);
    p->b = create_vector(p, 1.0);
    p->x = create_vector(p, 0.0);
}

void smg_problem_fini(struct smg_problem *p)
{
    HYPRE_StructVectorDestroy(p->x);
    HYPRE_StructVectorDestroy(p->b);
    HYPRE_StructMatrixDestroy(p->a);
    HYPRE_StructStencilDestroy(p->stencil);
    HYPRE_StructGridDestroy(p->grid);
}
