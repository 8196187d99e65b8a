/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes to its place in the elements of a receive, or of a read. */
#include "common/base/copy.h"
#include "common/ud/ud.h"

/* The keys were checked at the post; again only where the PD has lost a region since. */
static bool is_registered(const struct diwarp_pd *pd, struct dw_ud_recv *recv)
{
    if (!dw_pd_locate(pd, recv->sge, recv->sge_count))
        return false;
    recv->deregistered = pd->deregistered;
    return true;
}

static void scatter(const struct dw_ud_recv *recv, size_t skip, const uint8_t *data, size_t left)
{
    for (unsigned i = 0; i < recv->sge_count && left; i++) {
        const uint32_t length = recv->sge[i].sge.length;
        const size_t before = skip < length ? skip : length;
        const size_t room = length - before, bytes = left < room ? left : room;
        if (bytes)
            dw_copy((uint8_t *)recv->sge[i].at + before, data, bytes);
        skip -= before;
        data += bytes;
        left -= bytes;
    }
}

enum ibv_wc_status dw_ud_place(const struct diwarp_pd *pd, struct dw_ud_recv *recv, size_t skip,
                               const uint8_t *data, size_t bytes)
{
    if (recv->deregistered != pd->deregistered && !is_registered(pd, recv))
        return IBV_WC_LOC_PROT_ERR;
    scatter(recv, skip, data, bytes);
    return IBV_WC_SUCCESS;
}
