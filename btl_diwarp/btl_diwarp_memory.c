/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory diwarp holds in this process, by kind. */
#include "btl_diwarp/btl_diwarp_rc.h"

#include "opal/align.h"

#include <inttypes.h>
#include <stdio.h>

/* Items are laid out in blocks, each led by a list item and aligned. */
static uint64_t list_bytes(const opal_free_list_t *list)
{
    const size_t alignment = list->fl_frag_alignment;
    const size_t blocks = opal_list_get_size((opal_list_t *)(uintptr_t)&list->fl_allocations);
    const size_t item = OPAL_ALIGN(list->fl_frag_size, alignment, size_t);

    return list->fl_num_allocated * item + blocks * (sizeof(opal_free_list_item_t) + alignment);
}

void mca_btl_diwarp_memory_query(const struct mca_btl_diwarp_module *module,
                                 struct mca_btl_diwarp_memory *memory)
{
    *memory = (struct mca_btl_diwarp_memory){.endpoints = 0};
    if (NULL == module->cq || NULL == module->pd) {
        return;
    }
    diwarp_query_memory(module->cq, module->pd, &memory->core);
    memory->endpoints = module->endpoints;
    memory->module_bytes = sizeof(*module) + module->gone_count * sizeof(*module->gone);
    memory->endpoint_bytes = memory->endpoints * sizeof(mca_btl_base_endpoint_t);
    if (NULL != module->rc) {
        memory->module_bytes += sizeof(*module->rc);
        memory->endpoint_bytes = memory->endpoints * sizeof(mca_btl_diwarp_rc_endpoint_t);
        memory->receive_buffer_bytes = mca_btl_diwarp_rc_buffers_bytes();
    }
    for (unsigned i = 0; i < MCA_BTL_DIWARP_FRAG_SIZES; i++) {
        memory->fragment_bytes += list_bytes(&module->frags[i]);
    }
    memory->rdma_bytes = list_bytes(&module->rdmas);
    memory->registration_bytes = list_bytes(&module->regs);
    memory->btl_bytes = memory->module_bytes + memory->endpoint_bytes +
                        memory->receive_buffer_bytes + memory->fragment_bytes +
                        memory->rdma_bytes + memory->registration_bytes;
    memory->transport_bytes = memory->core.total_bytes + memory->btl_bytes;
}

/* MPI_Finalize deletes the peers one by one before it closes the module. */
void mca_btl_diwarp_memory_note(struct mca_btl_diwarp_module *module)
{
    if (mca_btl_diwarp_component.params.memory_report &&
        module->endpoints >= module->memory.endpoints) {
        mca_btl_diwarp_memory_query(module, &module->memory);
    }
}

void mca_btl_diwarp_memory_report(const struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_memory memory = module->memory;
    static const char *const transports[] = {[MCA_BTL_DIWARP_RD] = "rd",
                                             [MCA_BTL_DIWARP_RC] = "rc",
                                             [MCA_BTL_DIWARP_RC_SRQ] = "rc-srq"};
    char line[2048];
    size_t n;

    if (0 == memory.endpoints) {
        mca_btl_diwarp_memory_query(module, &memory);
    }
    n = (size_t)snprintf(line, sizeof(line), "diwarp_memory: rank=%u transport=%s",
                         OPAL_PROC_MY_NAME.vpid,
                         transports[mca_btl_diwarp_component.params.transport]);
#define X(name, unit, meaning) \
    n += (size_t)snprintf(line + n, sizeof(line) - n, " " #name "=%" PRIu64, memory.core.name);
    DIWARP_MEMORY(X)
#undef X
#define X(name, unit, meaning) \
    n += (size_t)snprintf(line + n, sizeof(line) - n, " " #name "=%" PRIu64, memory.name);
    MCA_BTL_DIWARP_MEMORY(X)
#undef X
    opal_output(0, "%s", line);
}
