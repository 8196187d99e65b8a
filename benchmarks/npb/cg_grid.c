/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/npb/cg_grid.h"

#include "benchmarks/npb/npb_common.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define REDUCE_COUNT_MAX 2

enum tag { TAG_SUM = 100, TAG_PRODUCT = 200, TAG_TRANSPOSE = 300 };

/* The part with this index of n things in so many parts; the first parts are the larger ones. */
static struct cg_range split(int n, int parts, int index)
{
    int least = n / parts, larger = n % parts;
    struct cg_range range = {index * least + (index < larger ? index : larger),
                             least + (index < larger)};
    return range;
}

int cg_grid_columns(int ranks)
{
    return 1 << ((npb_log2(ranks) + 1) / 2);
}

/* Twice as many columns as rows: each block of columns is half of one that matches the rows, the
 * even process has the first half. */
static void halve(struct cg_grid *grid, int n)
{
    struct cg_range whole = split(n, grid->grid_rows, grid->col / 2);
    int first_half = (whole.count + 1) / 2;
    int kept_half = (grid->rows.count + 1) / 2;
    struct cg_range low = {0, kept_half}, high = {kept_half, grid->rows.count - kept_half};

    if (grid->col % 2 == 0) {
        grid->cols = (struct cg_range){whole.first, first_half};
        grid->kept = low;
        grid->other = high;
    } else {
        grid->cols = (struct cg_range){whole.first + first_half, whole.count - first_half};
        grid->kept = high;
        grid->other = low;
    }
}

void cg_grid_init(struct cg_grid *grid, int rank, int ranks, int n)
{
    memset(grid, 0, sizeof *grid);
    grid->grid_cols = cg_grid_columns(ranks);
    grid->grid_rows = ranks / grid->grid_cols;
    grid->row = rank / grid->grid_cols;
    grid->col = rank % grid->grid_cols;
    grid->rows = split(n, grid->grid_rows, grid->row);
    if (grid->grid_cols == grid->grid_rows) {
        grid->cols = split(n, grid->grid_cols, grid->col);
        grid->kept = (struct cg_range){0, grid->rows.count};
        grid->transpose = grid->col * grid->grid_cols + grid->row;
    } else {
        halve(grid, n);
        grid->transpose = grid->col / 2 * grid->grid_cols + 2 * grid->row + grid->col % 2;
    }
    grid->stages = npb_log2(grid->grid_cols);
    for (int s = 0; s < grid->stages; s++)
        grid->partner[s] = grid->row * grid->grid_cols + (grid->col ^ (1 << s));
    grid->inbox = npb_alloc((size_t)grid->rows.count, sizeof *grid->inbox);
}

void cg_grid_fini(struct cg_grid *grid)
{
    free(grid->inbox);
}

/* Sends and receives with a rank; the receive is there before the other's message can come. */
static void exchange(const double *out, int out_count, double *in, int in_count, int rank, int tag)
{
    MPI_Request request;

    MPI_Irecv(in, in_count, MPI_DOUBLE, rank, tag, MPI_COMM_WORLD, &request);
    MPI_Send(out, out_count, MPI_DOUBLE, rank, tag, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void cg_grid_reduce(const struct cg_grid *grid, double *sums, int count)
{
    double theirs[REDUCE_COUNT_MAX];

    for (int s = 0; s < grid->stages; s++) {
        exchange(sums, count, theirs, count, grid->partner[s], TAG_SUM + s);
        for (int i = 0; i < count; i++)
            sums[i] += theirs[i];
    }
}

void cg_grid_reduce_product(const struct cg_grid *grid, double *partial, double *product)
{
    double *kept = partial + grid->kept.first;
    int count = grid->kept.count;

    for (int s = 0; s < grid->stages; s++) {
        /* The neighbour keeps the other half, if there are halves; all others keep the same. */
        if (s == 0 && grid->other.count > 0)
            exchange(partial + grid->other.first, grid->other.count, grid->inbox, count,
                     grid->partner[s], TAG_PRODUCT + s);
        else
            exchange(kept, count, grid->inbox, count, grid->partner[s], TAG_PRODUCT + s);
        for (int i = 0; i < count; i++)
            kept[i] += grid->inbox[i];
    }
    if (grid->transpose == grid->row * grid->grid_cols + grid->col)
        memcpy(product, kept, (size_t)count * sizeof *kept);
    else
        exchange(kept, count, product, grid->cols.count, grid->transpose, TAG_TRANSPOSE);
}
