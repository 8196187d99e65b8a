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
    uint32_t order;     /* number of the latest request for bytes of it */
    uint8_t way;
    bool lost;  /* all of that which is due */
    bool again; /* bytes of it have been asked for again */
    bool told;  /* what dw_stripe_tells() says has been made use of */
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
void dw_stripes_add(struct dw_stripes *stripes, struct dw_range range, uint8_t way, uint32_t order);

/* So much came of it, by its way, that what was asked for before by the same way is lost if it has
 * not come. Bytes asked for again may have been on their way twice, and tell nothing. */
static inline bool dw_stripe_tells(const struct dw_stripe *stripe, uint32_t reorder_bytes)
{
    return !stripe->again && stripe->came_end - stripe->start >= reorder_bytes;
}

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
