/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a record comes by which way, while several are used: the sink has its source send one
 * part by this way, the next by that. Pure. A way is a number below 256; the sink's owner knows
 * more. */
#pragma once

#include "common/rel/ranges.h"

/* Parts that have not come whole. More leave no way idle sooner, and each segment looks at them. */
#define DW_STRIPES_MAX 32

struct dw_stripe {
    uint32_t start, end;
    uint32_t came_end;  /* behind the furthest byte that came; at first the start */
    uint32_t requested; /* holes before this have been asked for */
    uint32_t due_bytes; /* that have not come */
    uint8_t way;
    bool lost; /* all of that, by a time-out */
};

/* Rising. */
struct dw_stripes {
    uint32_t count;
    struct dw_stripe list[DW_STRIPES_MAX];
};

/* Whether there is room for one more. */
static inline bool dw_stripes_may_add(const struct dw_stripes *stripes)
{
    return stripes->count < DW_STRIPES_MAX;
}

/* That range, of which the map has nothing, is to come by that way. */
void dw_stripes_add(struct dw_stripes *stripes, struct dw_range range, uint8_t way);

/* Index of the first that ends behind the offset; or the count: there is none. */
unsigned dw_stripes_find(const struct dw_stripes *stripes, uint32_t offset);

/* What is due of one after something has come: the bytes less. */
uint32_t dw_stripe_on_came(struct dw_stripes *stripes, unsigned i, const struct dw_ranges *map);

/* Forgets those that have come whole. */
void dw_stripes_trim(struct dw_stripes *stripes);

/* Up to where holes of one are losses, when something came in `came`: so far behind it on the same
 * way that reordering does not explain it. */
uint32_t dw_stripe_lost_end(const struct dw_stripes *stripes, unsigned i, unsigned came,
                            uint32_t reorder_bytes);
