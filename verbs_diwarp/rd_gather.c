/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/rd_gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_diwarp/diwarp_verbs.h"
#include "verbs_diwarp/memory.h"
#include "verbs_diwarp/rdma.h"
#include "verbs_diwarp/request.h"

struct dv_gathered {
    struct ibv_sge sges[DV_MAX_SGE];
    int count; /* of a read; else 0 */
    uint32_t bytes;
    uint8_t data[];
};

void dv_scatter(const struct ibv_sge *sge, void *const *at, uint32_t skip, const void *data,
                uint32_t bytes)
{
    const uint8_t *from = data;
    for (; bytes; sge++, at++) {
        const uint32_t before = skip < sge->length ? skip : sge->length;
        const uint32_t room = sge->length - before, part = bytes < room ? bytes : room;
        if (part)
            memcpy((uint8_t *)*at + before, from, part);
        skip -= before;
        from += part;
        bytes -= part;
    }
}

static void copy_in(struct dv_gathered *gathered, const struct ibv_pd *pd,
                    const struct ibv_send_wr *wr)
{
    uint8_t *to = gathered->data;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        if (sge->length)
            memcpy(to, dv_memory_at(pd, sge), sge->length);
        to += sge->length;
    }
}

int dv_gather(struct ibv_send_wr *wr, const struct ibv_pd *pd, struct ibv_sge *sge,
              struct dv_gathered **gathered)
{
    const bool read = wr->opcode == IBV_WR_RDMA_READ;
    const uint64_t bytes = dv_total_bytes(wr);
    if (bytes > (dv_is_rdma(wr) ? DV_RDMA_BYTES : DIWARP_VERBS_RD_SEND_BYTES))
        return -EMSGSIZE;
    if (read ? !dv_may_write(pd, wr->sg_list, wr->num_sge, NULL)
             : !dv_are_registered(pd, wr->sg_list, wr->num_sge))
        return -EACCES;
    struct dv_gathered *made = malloc(sizeof *made + bytes);
    if (!made)
        return -ENOMEM;
    made->bytes = (uint32_t)bytes;
    made->count = read ? wr->num_sge : 0;
    memcpy(made->sges, wr->sg_list, (size_t)made->count * sizeof *made->sges);
    if (!read)
        copy_in(made, pd, wr);
    *sge = (struct ibv_sge){.addr = (uintptr_t)made->data, .length = made->bytes};
    wr->sg_list = sge;
    wr->num_sge = 1;
    *gathered = made;
    return 0;
}

bool dv_gathered_end(struct dv_gathered *gathered, const struct ibv_pd *pd, bool well)
{
    void *at[DV_MAX_SGE];
    const bool copies = well && gathered->count;
    const bool may = !copies || dv_may_write(pd, gathered->sges, gathered->count, at);
    if (copies && may)
        dv_scatter(gathered->sges, at, 0, gathered->data, gathered->bytes);
    free(gathered);
    return may;
}
