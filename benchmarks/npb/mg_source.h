/* SPDX-License-Identifier: BSD-3-Clause */
/* MG's right hand side: charges of +1 and -1 at twenty pseudo-random points, zero elsewhere. */
#ifndef MG_SOURCE_H
#define MG_SOURCE_H

#include "benchmarks/npb/mg_grid.h"

/* Collective. Fills the own points, but not the layer around them. */
void mg_source_fill(const struct mg_level *top, double *v);

#endif
