/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/recvs.h"

#include <errno.h>
#include <stdlib.h>

int dv_recvs_init(struct dv_recvs *recvs, uint32_t max_wr, uint32_t max_sge)
{
    *recvs = (struct dv_recvs){
        .max_wr = max_wr,
        .max_sge = max_sge,
        .places = calloc(max_wr + 1u, sizeof *recvs->places),
        .leads = calloc((size_t)max_wr * max_sge + 1, sizeof *recvs->leads),
        .free_places = calloc(max_wr + 1u, sizeof *recvs->free_places),
    };
    if (!recvs->places || !recvs->leads || !recvs->free_places) {
        dv_recvs_fini(recvs);
        return ENOMEM;
    }
    dv_recvs_clear(recvs);
    return 0;
}

void dv_recvs_fini(struct dv_recvs *recvs)
{
    free(recvs->places);
    free(recvs->leads);
    free(recvs->free_places);
    *recvs = (struct dv_recvs){0};
}

void dv_recvs_clear(struct dv_recvs *recvs)
{
    recvs->free_count = recvs->max_wr;
    recvs->oldest = recvs->newest = NULL;
    for (uint32_t i = 0; i < recvs->max_wr; i++) {
        recvs->places[i].posted = false;
        recvs->places[i].lead = recvs->leads + (size_t)i * recvs->max_sge;
        recvs->free_places[i] = i;
    }
}

struct dv_recv *dv_recvs_next(const struct dv_recvs *recvs)
{
    return recvs->free_count ? &recvs->places[recvs->free_places[recvs->free_count - 1]] : NULL;
}

/* In no region, whatever its key: two bytes from the last address on. */
static const struct ibv_sge nowhere = {.addr = UINT64_MAX, .length = 2, .lkey = 1};

struct ibv_sge *dv_recvs_keyed(const struct ibv_recv_wr *wr, struct ibv_sge *room)
{
    if (!dv_lacks_key(wr->sg_list, wr->num_sge))
        return wr->sg_list;
    for (int i = 0; i < wr->num_sge; i++) {
        room[i] = wr->sg_list[i].lkey ? wr->sg_list[i] : nowhere;
        if (room[i].length < wr->sg_list[i].length)
            room[i].length = wr->sg_list[i].length;
    }
    return room;
}

/* Where the first 40 bytes of a receive are, for its GRH. */
static void set_lead(struct dv_recv *recv, const struct ibv_recv_wr *wr)
{
    uint32_t left = DV_GRH_BYTES;
    recv->lead_count = 0;
    for (int i = 0; i < wr->num_sge && left; i++) {
        struct ibv_sge *lead = &recv->lead[recv->lead_count++];
        *lead = wr->sg_list[i];
        if (lead->length > left)
            lead->length = left;
        left -= lead->length;
    }
}

void dv_recvs_post(struct dv_recvs *recvs, struct dv_recv *recv, const struct ibv_recv_wr *wr)
{
    recvs->free_count--;
    set_lead(recv, wr);
    recv->wr_id = wr->wr_id;
    recv->posted = true;
    recv->newer = NULL;
    recv->older = recvs->newest;
    *(recv->older ? &recv->older->newer : &recvs->oldest) = recv;
    recvs->newest = recv;
}

void dv_recvs_release(struct dv_recvs *recvs, struct dv_recv *recv)
{
    recv->posted = false;
    *(recv->older ? &recv->older->newer : &recvs->oldest) = recv->newer;
    *(recv->newer ? &recv->newer->older : &recvs->newest) = recv->older;
    recvs->free_places[recvs->free_count++] = dv_recvs_place(recvs, recv);
}
