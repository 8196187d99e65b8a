/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CG's processes as a grid of rows x columns, one block of the matrix each, and the messages
 * between them. With n ranks a power of two, there are as many columns as rows or twice as many.
 *
 * Vectors are distributed by columns, and each row of the grid has a whole one. A product of the
 * matrix comes out distributed by rows, as partial sums over the columns: cg_grid_reduce_product()
 * adds them and brings the result to its columns again.
 */
#ifndef CG_GRID_H
#define CG_GRID_H

#define CG_STAGES_MAX 31

/* `count` indices from `first` on. */
struct cg_range {
    int first, count;
};

struct cg_grid {
    int grid_rows, grid_cols;
    int row, col;
    struct cg_range rows, cols; /* of the matrix: this process' block */
    /* Of the own rows, those whose sums end here: all, or one half where a block of rows meets two
     * of columns. */
    struct cg_range kept, other;
    int stages;                 /* log2(grid_cols) */
    int partner[CG_STAGES_MAX]; /* ranks in the own row to exchange with, nearest first */
    int transpose;              /* rank with the mirrored block */
    double *inbox;              /* rows.count, owned */
};

/* `n` is the order of the matrix, at least grid_cols. */
void cg_grid_init(struct cg_grid *grid, int rank, int ranks, int n);
void cg_grid_fini(struct cg_grid *grid);

/* How many columns the grid of so many ranks has. */
int cg_grid_columns(int ranks);

/* sums[0..count) become the sums over the row of the grid, the same bits at each of its ranks. */
void cg_grid_reduce(const struct cg_grid *grid, double *sums, int count);

/* partial[0..rows.count), overwritten, is summed over the row of the grid into
 * product[0..cols.count). */
void cg_grid_reduce_product(const struct cg_grid *grid, double *partial, double *product);

#endif
