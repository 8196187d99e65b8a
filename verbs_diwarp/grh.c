/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/grh.h"

#include <arpa/inet.h>

#include "verbs_diwarp/mcast.h"
#include "verbs_diwarp/query.h"

/* The header of a datagram with GIDs (InfiniBand 8.3). RoCE version 2 has an IPv4 header in its
 * last 20 bytes instead (annex A17.4.5.2), but programs look for the GIDs: UCX drops what has none
 * of its own there. */
void dv_make_grh(const struct dv_context *context, const struct diwarp_wc *done,
                 struct ibv_grh *made)
{
    struct ibv_grh grh = {.version_tclass_flow = htonl(6u << 28),
                          .paylen = htons((uint16_t)done->wc.byte_len),
                          .next_hdr = 0x1b, /* InfiniBand */
                          .hop_limit = 64};
    grh.sgid = dv_gid_of_source(context, done->src, done->src_ip);
    grh.dgid = dv_gid_of(&context->gids[dv_gid_index_towards(context, &grh.sgid)]);
    dv_mcast_put_gid(context->qps[done->wc.qp_num & DV_INDEX_MASK], done, &grh.dgid);
    *made = grh;
}
