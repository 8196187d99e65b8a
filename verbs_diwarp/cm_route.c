/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cm_route.h"

#include <arpa/inet.h>
#include <string.h>

/* The only one that there is over Ethernet. */
#define PKEY 0xffff
/* Selectors' word that the value beside them is meant exactly. */
#define EXACTLY 2
/* The longest that its field has. */
#define FOR_EVER 31

void dv_cm_route_from(struct dv_cm_id *id)
{
    struct rdma_ib_addr *addr = &id->id.route.addr.addr.ibaddr;
    memcpy(&addr->sgid, id->own.gid, sizeof addr->sgid);
    addr->pkey = htons(PKEY);
}

void dv_cm_route_to(struct dv_cm_id *id, const uint8_t gid[16])
{
    struct rdma_ib_addr *addr = &id->id.route.addr.addr.ibaddr;
    memcpy(&addr->dgid, gid, sizeof addr->dgid);
    id->path.dgid = addr->dgid;
}

/* MTU, rate and hop limit are those that the device and its queue pairs tell; the time is that of
 * their timeout, which is for the way there and back. */
void dv_cm_route_add_path(struct dv_cm_id *id)
{
    const struct rdma_ib_addr *addr = &id->id.route.addr.addr.ibaddr;
    id->path = (struct ibv_sa_path_rec){
        .dgid = addr->dgid,
        .sgid = addr->sgid,
        .hop_limit = DV_CM_HOP_LIMIT,
        .reversible = 1,
        .numb_path = 1,
        .pkey = addr->pkey,
        .mtu_selector = EXACTLY,
        .mtu = IBV_MTU_4096,
        .rate_selector = EXACTLY,
        .rate = IBV_RATE_40_GBPS,
        .packet_life_time_selector = EXACTLY,
        .packet_life_time = id->ack_timeout ? (uint8_t)(id->ack_timeout - 1) : FOR_EVER,
    };
    id->id.route.path_rec = &id->path;
    id->id.route.num_paths = 1;
}
