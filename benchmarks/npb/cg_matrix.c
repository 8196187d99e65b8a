/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/npb/cg_matrix.h"

#include "benchmarks/npb/npb_common.h"
#include "benchmarks/npb/npb_random.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The vectors x_i: vector i has length[i] elements, from i * width on. */
struct vectors {
    int n, width;
    int *length, *index;
    double *value;
};

static bool within(struct cg_range range, int index)
{
    return index >= range.first && index < range.first + range.count;
}

/* ---- the random vectors ------------------------------------------------------------------------
 */

static int find(const int *index, int length, int wanted)
{
    for (int i = 0; i < length; i++)
        if (index[i] == wanted)
            return i;
    return -1;
}

/* Pairs of numbers are value and place; places outside of the vector, or taken, are drawn again. */
static int draw_vector(uint64_t *random, int n, int nonzeros, int *index, double *value)
{
    int places = 1, length = 0;

    while (places < n)
        places *= 2;
    while (length < nonzeros) {
        double element = npb_random_next(random, NPB_RANDOM_A);
        int place = (int)(places * npb_random_next(random, NPB_RANDOM_A));
        if (place >= n || find(index, length, place) >= 0)
            continue;
        index[length] = place;
        value[length++] = element;
    }
    return length;
}

static void vectors_init(struct vectors *v, const struct cg_recipe *recipe)
{
    uint64_t random = NPB_RANDOM_SEED;

    v->n = recipe->n;
    v->width = recipe->nonzeros + 1;
    v->length = npb_alloc((size_t)v->n, sizeof *v->length);
    v->index = npb_alloc((size_t)v->n * (size_t)v->width, sizeof *v->index);
    v->value = npb_alloc((size_t)v->n * (size_t)v->width, sizeof *v->value);
    npb_random_next(&random, NPB_RANDOM_A); /* the benchmark spends one on zeta */
    for (int i = 0; i < v->n; i++) {
        int *index = v->index + (size_t)i * (size_t)v->width;
        double *value = v->value + (size_t)i * (size_t)v->width;
        int length = draw_vector(&random, v->n, recipe->nonzeros, index, value);
        int own = find(index, length, i);
        if (own < 0) {
            own = length++;
            index[own] = i;
        }
        value[own] = 0.5;
        v->length[i] = length;
    }
}

static void vectors_fini(struct vectors *v)
{
    free(v->length);
    free(v->index);
    free(v->value);
}

/* ---- their products ----------------------------------------------------------------------------
 */

/* start[r + 1] becomes the number of entries of row r, with those at the same column counted each.
 */
static void count_entries(const struct vectors *v, struct cg_range rows, struct cg_range cols,
                          int64_t *start)
{
    for (int i = 0; i < v->n; i++) {
        const int *index = v->index + (size_t)i * (size_t)v->width;
        int columns = 0;
        for (int e = 0; e < v->length[i]; e++)
            columns += within(cols, index[e]);
        for (int e = 0; e < v->length[i]; e++)
            if (within(rows, index[e]))
                start[index[e] - rows.first + 1] += columns;
    }
    for (int r = 0; r < rows.count; r++)
        start[r + 1] += within(cols, rows.first + r);
}

/* A block while it is filled: end[r] is where row r's next entry goes. */
struct filling {
    struct cg_matrix *matrix;
    struct cg_range rows, cols;
    int64_t *end;
};

static void append(struct filling *f, int row, int column, double value)
{
    int64_t at = f->end[row - f->rows.first]++;
    f->matrix->column[at] = column - f->cols.first;
    f->matrix->value[at] = value;
}

/* Adds weight x x^T. */
static void append_product(struct filling *f, const int *index, const double *value, int length,
                           double weight)
{
    for (int c = 0; c < length; c++) {
        if (!within(f->cols, index[c]))
            continue;
        for (int r = 0; r < length; r++)
            if (within(f->rows, index[r]))
                append(f, index[r], index[c], weight * value[c] * value[r]);
    }
}

static void append_all(struct filling *f, const struct vectors *v, const struct cg_recipe *recipe)
{
    double weight = 1, ratio = pow(recipe->rcond, 1.0 / recipe->n);

    for (int i = 0; i < v->n; i++) {
        size_t first = (size_t)i * (size_t)v->width;
        append_product(f, v->index + first, v->value + first, v->length[i], weight);
        weight *= ratio;
    }
    for (int i = f->rows.first; i < f->rows.first + f->rows.count; i++)
        if (within(f->cols, i))
            append(f, i, i, recipe->rcond - recipe->shift);
}

/* Adds up the entries [from, to) that share a column, and moves them to `at`; returns their new
 * end. `seen` has a place for each column, below `at` unless the column is among the moved ones. */
static int64_t merge_row(struct cg_matrix *m, int64_t from, int64_t to, int64_t at, int64_t *seen)
{
    int64_t end = at;
    for (int64_t e = from; e < to; e++) {
        int column = m->column[e];
        if (seen[column] >= at) {
            m->value[seen[column]] += m->value[e];
            continue;
        }
        seen[column] = end;
        m->column[end] = column;
        m->value[end++] = m->value[e];
    }
    return end;
}

static void merge_rows(struct cg_matrix *m, const int64_t *start, int cols)
{
    int64_t *seen = npb_alloc((size_t)cols, sizeof *seen);
    int64_t at = 0;

    for (int c = 0; c < cols; c++)
        seen[c] = -1;
    for (int r = 0; r < m->rows; r++) {
        m->start[r] = (int)at;
        at = merge_row(m, start[r], start[r + 1], at, seen);
        if (at > INT_MAX)
            npb_fail("too many elements in a block of the matrix");
    }
    m->start[m->rows] = (int)at;
    free(seen);
}

/* Memory that the sums did not need is given back. */
static void *shrink(void *data, size_t bytes)
{
    void *smaller = realloc(data, bytes ? bytes : 1);
    return smaller ? smaller : data;
}

void cg_matrix_init(struct cg_matrix *m, const struct cg_recipe *recipe, struct cg_range rows,
                    struct cg_range cols)
{
    struct vectors v;
    int64_t *start = npb_alloc((size_t)rows.count + 1, sizeof *start);
    struct filling filling = {m, rows, cols, npb_alloc((size_t)rows.count + 1, sizeof *start)};

    vectors_init(&v, recipe);
    count_entries(&v, rows, cols, start);
    for (int r = 0; r < rows.count; r++)
        start[r + 1] += start[r];
    memcpy(filling.end, start, ((size_t)rows.count + 1) * sizeof *start);
    m->rows = rows.count;
    m->start = npb_alloc((size_t)rows.count + 1, sizeof *m->start);
    m->column = npb_alloc((size_t)start[rows.count], sizeof *m->column);
    m->value = npb_alloc((size_t)start[rows.count], sizeof *m->value);
    append_all(&filling, &v, recipe);
    vectors_fini(&v);
    merge_rows(m, start, cols.count);
    m->column = shrink(m->column, (size_t)m->start[m->rows] * sizeof *m->column);
    m->value = shrink(m->value, (size_t)m->start[m->rows] * sizeof *m->value);
    free(start);
    free(filling.end);
}

void cg_matrix_fini(struct cg_matrix *m)
{
    free(m->start);
    free(m->column);
    free(m->value);
}

void cg_matrix_multiply(const struct cg_matrix *m, const double *restrict in, double *restrict out)
{
    const int *column = m->column;
    const double *value = m->value;

    for (int r = 0; r < m->rows; r++) {
        int e = m->start[r], end = m->start[r + 1];
        double even = 0, odd = 0; /* two chains of additions hide each other's latency */
        for (; e + 1 < end; e += 2) {
            even += value[e] * in[column[e]];
            odd += value[e + 1] * in[column[e + 1]];
        }
        if (e < end)
            even += value[e] * in[column[e]];
        out[r] = even + odd;
    }
}
