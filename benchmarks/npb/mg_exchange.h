/* SPDX-License-Identifier: BSD-3-Clause */
/* MG's messages: faces of boxes, to the neighbours along one axis after the other. */
#ifndef MG_EXCHANGE_H
#define MG_EXCHANGE_H

#include "benchmarks/npb/mg_grid.h"

/* Room for the faces of any level, owned. */
struct mg_exchange {
    double *out[2], *in[2];
};

void mg_exchange_init(struct mg_exchange *exchange, const struct mg_grid *grid);
void mg_exchange_fini(struct mg_exchange *exchange);

/* Fills the layer around the own points from the neighbours; not on an idle level. */
void mg_exchange_halo(struct mg_exchange *exchange, const struct mg_level *level, double *field);

/* Before a coarse field is interpolated to the next finer level: processes with points of the finer
 * level only get the layers between which theirs lie. */
void mg_exchange_spread(struct mg_exchange *exchange, const struct mg_level *fine,
                        const struct mg_level *coarse, double *field);

#endif
