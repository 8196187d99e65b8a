/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory the QPs of a CQ hold, by kind: a walk over all that they own. */
#include "common/rd/atomic.h"
#include "common/rd/deliver.h"
#include "common/rnic/lock.h"
#include "common/rnic/memory.h"
#include "common/record/rdma.h"
#include "common/rd/send.h"
#include "common/ud/ud.h"

static uint64_t list_count(const struct dw_list *head)
{
    uint64_t count = 0;
    dw_list_foreach (it, head)
        count++;
    return count;
}

static uint64_t map_bytes(const struct dw_map *map)
{
    return map->capacity * sizeof *map->slots;
}

static uint64_t ranges_bytes(const struct dw_ranges *set)
{
    return set->list == set->in_place ? 0 : set->capacity * sizeof *set->list;
}

/* As if all of them had been touched. */
static void add_assemblies(const struct diwarp_qp *qp, const struct dw_list *head,
                           struct diwarp_memory *memory)
{
    const uint64_t bytes = list_count(head) * (sizeof(struct dw_assembly) + qp->attr.max_msg_bytes);
    memory->assembly_bytes += bytes;
    memory->mapped_bytes += bytes;
}

static void add_base(const struct diwarp_cq *cq, const struct diwarp_pd *pd,
                     struct diwarp_memory *memory)
{
    memory->base_bytes +=
        sizeof *cq->device + sizeof *pd + sizeof *cq + cq->capacity * sizeof *cq->ring;
    memory->region_bytes +=
        pd->mrs.by_stag.count * sizeof(struct dw_region) + map_bytes(&pd->mrs.by_stag);
}

void dw_memory_add_sockets(const struct dw_llp_memory *llp, struct diwarp_memory *memory)
{
    memory->sockets += llp->sockets;
    memory->socket_queue_bytes += llp->queue_bytes;
    memory->socket_limit_bytes += llp->limit_bytes;
    memory->socket_slab_bytes += llp->slab_bytes;
}

static void add_llp(const struct diwarp_qp *qp, struct diwarp_memory *memory)
{
    struct dw_llp_memory llp = {0};
    if (qp->llp->ops->query_memory)
        qp->llp->ops->query_memory(qp->llp, &llp);
    memory->base_bytes += llp.own_bytes;
    dw_memory_add_sockets(&llp, memory);
}

/* Where it receives: arena and stage, as far as they were touched. */
static void add_arena(const struct diwarp_qp *qp, struct diwarp_memory *memory)
{
    const uint64_t bytes = qp->arena_touched + DW_LLP_SLOT_BYTES;
    memory->receive_bytes += bytes;
    memory->mapped_bytes += bytes;
}

static void add_peer(const struct dw_peer *peer, struct diwarp_memory *memory)
{
    memory->peers++;
    memory->peer_bytes += sizeof *peer;
    memory->work_bytes +=
        (list_count(&peer->pending) + list_count(&peer->awaiting)) * sizeof(struct dw_work);
    add_assemblies(peer->qp, &peer->assemblies, memory);
    dw_list_foreach (a, &peer->assemblies)
        memory->assembly_bytes += ranges_bytes(&dw_container(a, struct dw_assembly, link)->map);
    dw_list_foreach (s, &peer->sinks)
        memory->record_bytes +=
            ranges_bytes(&dw_container(s, struct dw_sink, peer_link)->record.map);
    dw_list_foreach (s, &peer->sources)
        memory->record_bytes +=
            ranges_bytes(&dw_container(s, struct dw_source, peer_link)->record.again);
}

static void add_rd(const struct diwarp_qp *qp, struct diwarp_memory *memory)
{
    size_t slot = 0;
    for (const struct dw_peer *peer; (peer = dw_peer_next(qp, &slot));)
        add_peer(peer, memory);
    memory->send_pool_bytes +=
        qp->datagrams.touched_bytes + qp->datagrams.chunk_max * sizeof *qp->datagrams.returned;
    memory->mapped_bytes += qp->datagrams.touched_bytes;
    memory->work_bytes += list_count(&qp->free_works) * sizeof(struct dw_work);
    add_assemblies(qp, &qp->free_assemblies, memory);
    add_assemblies(qp, &qp->done_assemblies, memory);
    memory->record_bytes += qp->sinks.count * sizeof(struct dw_sink) +
                            qp->sources.count * sizeof(struct dw_source) +
                            qp->atomics.count * sizeof(struct dw_atomic) + map_bytes(&qp->sinks) +
                            map_bytes(&qp->sources) + map_bytes(&qp->atomics);
}

static void add_qp(const struct diwarp_qp *qp, struct diwarp_memory *memory)
{
    memory->base_bytes += sizeof *qp;
    memory->addresses += qp->ahs.count;
    memory->address_bytes += qp->ahs.count * sizeof(struct diwarp_ah) + map_bytes(&qp->ahs);
    add_llp(qp, memory);
    add_arena(qp, memory);
    if (qp->ud)
        dw_ud_query_memory(qp, memory);
    else
        add_rd(qp, memory);
    memory->peer_bytes += dw_heap_bytes(&qp->timers);
}

void diwarp_query_memory(const struct diwarp_cq *cq, const struct diwarp_pd *pd,
                         struct diwarp_memory *memory)
{
    *memory = (struct diwarp_memory){0};
    dw_lock(cq->device);
    add_base(cq, pd, memory);
    dw_list_foreach (it, &cq->qps)
        add_qp(dw_container(it, struct diwarp_qp, cq_link), memory);
    dw_list_foreach (it, &cq->runners) {
        const struct dw_runner *runner = dw_container(it, struct dw_runner, link);
        runner->ops->add_memory(runner, memory);
    }
    memory->total_bytes = memory->base_bytes + memory->receive_bytes + memory->assembly_bytes +
                          memory->send_pool_bytes + memory->work_bytes + memory->peer_bytes +
                          memory->address_bytes + memory->record_bytes + memory->region_bytes;
    dw_unlock(cq->device);
}
