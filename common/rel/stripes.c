/* SPDX-License-Identifier: BSD-3-Clause */
/* Stripes: a queue of them, oldest first. */
#include "common/rel/stripes.h"

#include <assert.h>

void dw_stripes_add(struct dw_stripes *stripes, struct dw_range range, uint8_t way, uint32_t order)
{
    assert(dw_stripes_may_add(stripes) && range.start < range.end);
    stripes->list[stripes->count++] = (struct dw_stripe){
        .start = range.start,
        .end = range.end,
        .came_end = range.start,
        .requested = range.start,
        .due_bytes = range.end - range.start,
        .order = order,
        .way = way,
    };
}

unsigned dw_stripes_find(const struct dw_stripes *stripes, uint32_t offset)
{
    unsigned i = 0;
    while (i < stripes->count && offset >= stripes->list[i].end)
        i++;
    return i;
}

uint32_t dw_stripe_on_came(struct dw_stripes *stripes, unsigned i, const struct dw_ranges *map)
{
    struct dw_stripe *stripe = &stripes->list[i];
    const uint32_t lacks = dw_ranges_lack(map, stripe->start, stripe->end);
    const uint32_t less = stripe->due_bytes - lacks;
    stripe->due_bytes = lacks;
    return less;
}

void dw_stripes_trim(struct dw_stripes *stripes)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < stripes->count; i++)
        if (stripes->list[i].due_bytes)
            stripes->list[kept++] = stripes->list[i];
    stripes->count = kept;
}

uint32_t dw_stripe_lost_end(const struct dw_stripes *stripes, unsigned i, unsigned came,
                            uint32_t reorder_bytes)
{
    const struct dw_stripe *stripe = &stripes->list[i], *later = &stripes->list[came];
    uint32_t behind = reorder_bytes;
    if (i < came && later->way == stripe->way) {
        const uint32_t ahead = later->came_end - later->start;
        if (ahead >= reorder_bytes)
            return stripe->end;
        behind -= ahead;
    }
    return stripe->came_end > stripe->start + behind ? stripe->came_end - behind : stripe->start;
}
