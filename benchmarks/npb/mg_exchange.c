/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/npb/mg_exchange.h"

#include "benchmarks/npb/npb_common.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* A message carries its direction, for both neighbours can be the same process. */
enum direction { DOWN, UP };
enum tag { TAG_HALO = 100, TAG_SPREAD = 200 };

/* A layer across axis `a`: its first cell and the two loops over it, the faster one inside. */
struct layer {
    size_t first;
    int inner, outer;
    ptrdiff_t inner_step, outer_step;
};

static ptrdiff_t step_of(const struct mg_level *level, int a)
{
    const ptrdiff_t steps[3] = {1, level->row, level->plane};
    return steps[a];
}

static void bound(const struct mg_level *level, int a, int margin, ptrdiff_t *step, int *count,
                  size_t *first)
{
    *step = step_of(level, a);
    *count = level->extent[a] - 2 * margin;
    *first += (size_t)(*step * margin);
}

/* The layer at `position` along axis `a`. Along the axes that were not exchanged yet, the outermost
 * cells are left out if `inside`. */
static struct layer layer_at(const struct mg_level *level, int a, int position, bool inside)
{
    struct layer layer = {.first = (size_t)(step_of(level, a) * position)};
    int low = a == 0 ? 1 : 0, high = a == 2 ? 1 : 2;

    bound(level, low, inside && low > a, &layer.inner_step, &layer.inner, &layer.first);
    bound(level, high, inside && high > a, &layer.outer_step, &layer.outer, &layer.first);
    return layer;
}

static int cells_of(struct layer layer)
{
    return layer.inner * layer.outer;
}

static void pack(const double *field, struct layer layer, double *to)
{
    for (int o = 0; o < layer.outer; o++) {
        const double *from = field + layer.first + o * layer.outer_step;
        for (int i = 0; i < layer.inner; i++)
            *to++ = from[i * layer.inner_step];
    }
}

static void unpack(double *field, struct layer layer, const double *from)
{
    for (int o = 0; o < layer.outer; o++) {
        double *to = field + layer.first + o * layer.outer_step;
        for (int i = 0; i < layer.inner; i++)
            to[i * layer.inner_step] = *from++;
    }
}

static void copy_layer(double *field, struct layer from, struct layer to)
{
    for (int o = 0; o < from.outer; o++) {
        const double *source = field + from.first + o * from.outer_step;
        double *sink = field + to.first + o * to.outer_step;
        for (int i = 0; i < from.inner; i++)
            sink[i * to.inner_step] = source[i * from.inner_step];
    }
}

void mg_exchange_init(struct mg_exchange *x, const struct mg_grid *grid)
{
    size_t most = 0;

    for (int k = 0; k < grid->levels; k++)
        for (int a = 0; a < 3; a++) {
            const struct mg_level *level = &grid->level[k];
            size_t cells = level->cells / (size_t)level->extent[a];
            most = cells > most ? cells : most;
        }
    for (int d = 0; d < 2; d++) {
        x->out[d] = npb_alloc(most, sizeof(double));
        x->in[d] = npb_alloc(most, sizeof(double));
    }
}

void mg_exchange_fini(struct mg_exchange *x)
{
    for (int d = 0; d < 2; d++) {
        free(x->out[d]);
        free(x->in[d]);
    }
}

static void receive(double *buffer, struct layer layer, int rank, int tag, MPI_Request *request)
{
    MPI_Irecv(buffer, cells_of(layer), MPI_DOUBLE, rank, tag, MPI_COMM_WORLD, request);
}

static void send(const double *field, double *buffer, struct layer layer, int rank, int tag)
{
    pack(field, layer, buffer);
    MPI_Send(buffer, cells_of(layer), MPI_DOUBLE, rank, tag, MPI_COMM_WORLD);
}

static void take(double *field, const double *buffer, struct layer layer, MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
    unpack(field, layer, buffer);
}

static void exchange_axis(struct mg_exchange *x, const struct mg_level *level, int a, double *field)
{
    const struct mg_axis *axis = &level->axis[a];
    struct layer halo_below = layer_at(level, a, 0, true);
    struct layer halo_above = layer_at(level, a, axis->count + 1, true);
    struct layer lowest = layer_at(level, a, 1, true);
    struct layer highest = layer_at(level, a, axis->count, true);
    int tag = TAG_HALO + 2 * a;
    MPI_Request from_below, from_above;

    if (axis->count == axis->points) {
        copy_layer(field, highest, halo_below);
        copy_layer(field, lowest, halo_above);
        return;
    }
    receive(x->in[UP], halo_below, axis->below, tag + UP, &from_below);
    receive(x->in[DOWN], halo_above, axis->above, tag + DOWN, &from_above);
    send(field, x->out[UP], highest, axis->above, tag + UP);
    send(field, x->out[DOWN], lowest, axis->below, tag + DOWN);
    take(field, x->in[UP], halo_below, &from_below);
    take(field, x->in[DOWN], halo_above, &from_above);
}

void mg_exchange_halo(struct mg_exchange *x, const struct mg_level *level, double *field)
{
    if (level->idle)
        return;
    for (int a = 0; a < 3; a++)
        exchange_axis(x, level, a, field);
}

/* The one own layer of the coarse field goes both ways. */
static void give(struct mg_exchange *x, const struct mg_axis *fine, const struct mg_level *coarse,
                 int a, const double *field)
{
    struct layer own = layer_at(coarse, a, 1, false);
    int tag = TAG_SPREAD + 2 * a;

    send(field, x->out[UP], own, fine->above, tag + UP);
    send(field, x->out[DOWN], own, fine->below, tag + DOWN);
}

/* There are only the two outer layers here, and both come from others. */
static void take_both(struct mg_exchange *x, const struct mg_axis *fine,
                      const struct mg_level *coarse, int a, double *field)
{
    struct layer below = layer_at(coarse, a, 0, false);
    struct layer above = layer_at(coarse, a, 1, false);
    int tag = TAG_SPREAD + 2 * a;
    MPI_Request from_below, from_above;

    receive(x->in[UP], below, fine->below, tag + UP, &from_below);
    receive(x->in[DOWN], above, fine->above, tag + DOWN, &from_above);
    take(field, x->in[UP], below, &from_below);
    take(field, x->in[DOWN], above, &from_above);
}

/* What a process passes on along one axis before it has got it along the next is overwritten by the
 * latter: along that axis it and its receivers rest alike. */
void mg_exchange_spread(struct mg_exchange *x, const struct mg_level *fine,
                        const struct mg_level *coarse, double *field)
{
    if (fine->idle)
        return;
    for (int a = 0; a < 3; a++) {
        if (fine->axis[a].count > 1)
            continue; /* every process here has a coarse point, too */
        if (coarse->axis[a].count)
            give(x, &fine->axis[a], coarse, a, field);
        else
            take_both(x, &fine->axis[a], coarse, a, field);
    }
}
