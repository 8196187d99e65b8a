/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory the QPs of a device hold, by kind: what each runner tells. */
#include "common/rnic/memory.h"

#include "common/rnic/cq.h"
#include "common/rnic/lock.h"
#include "common/rnic/pd.h"
#include "common/rnic/runner.h"

uint64_t dw_memory_of_list(const struct dw_list *head, uint64_t bytes)
{
    uint64_t count = 0;
    dw_list_foreach (it, head)
        count++;
    return count * bytes;
}

uint64_t dw_memory_of_map(const struct dw_map *map)
{
    return map->capacity * sizeof *map->slots;
}

void diwarp_query_memory(const struct diwarp_cq *cq, const struct diwarp_pd *pd,
                         struct diwarp_memory *memory)
{
    const struct diwarp_device *device = cq->device;
    dw_lock(cq->device);
    *memory = (struct diwarp_memory){
        .base_bytes =
            sizeof *device + sizeof *pd + sizeof *cq + (uint64_t)cq->capacity * sizeof *cq->ring,
        .region_bytes =
            pd->mrs.by_stag.count * sizeof(struct dw_region) + dw_memory_of_map(&pd->mrs.by_stag),
    };
    dw_list_foreach (it, &device->runners) {
        const struct dw_runner *runner = dw_container(it, struct dw_runner, link);
        runner->ops->add_memory(runner, memory);
    }
    memory->total_bytes = memory->base_bytes + memory->receive_bytes + memory->assembly_bytes +
                          memory->send_pool_bytes + memory->work_bytes + memory->peer_bytes +
                          memory->address_bytes + memory->record_bytes + memory->region_bytes;
    dw_unlock(cq->device);
}
