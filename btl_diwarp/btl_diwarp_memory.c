/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory diwarp holds in this process, by kind, and how much the process has. */
#include "btl_diwarp/btl_diwarp_rc.h"

#include "opal/align.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    memory->endpoint_bytes = memory->endpoints * sizeof(mca_btl_base_endpoint_t) +
                             mca_btl_diwarp_work_queue_bytes(module);
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
                        memory->receive_buffer_bytes + memory->fragment_bytes + memory->rdma_bytes +
                        memory->registration_bytes;
    memory->transport_bytes = memory->core.total_bytes + memory->btl_bytes;
}

/* Bytes of a line "KEY:   123 kB"; 0: it is another. */
static uint64_t bytes_of_line(const char *line, const char *key)
{
    const size_t length = strlen(key);

    if (0 != strncmp(line, key, length) || ':' != line[length]) {
        return 0;
    }
    return strtoull(line + length + 1, NULL, 10) << 10;
}

void mca_btl_diwarp_memory_query_process(struct mca_btl_diwarp_memory *memory)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[256];

    memory->private_bytes = memory->pss_bytes = 0;
    if (NULL == file) {
        return;
    }
    while (NULL != fgets(line, sizeof(line), file)) {
        memory->private_bytes +=
            bytes_of_line(line, "Private_Clean") + bytes_of_line(line, "Private_Dirty");
        memory->pss_bytes += bytes_of_line(line, "Pss");
    }
    fclose(file);
}

/* MPI_Finalize deletes the peers one by one before it closes the module. */
void mca_btl_diwarp_memory_note(struct mca_btl_diwarp_module *module)
{
    if (mca_btl_diwarp_params.memory_report && module->endpoints >= module->memory.endpoints) {
        mca_btl_diwarp_memory_query(module, &module->memory);
        mca_btl_diwarp_memory_query_process(&module->memory);
    }
}

void mca_btl_diwarp_memory_report(const struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_memory memory = module->memory;
    static const char *const transports[] = {
        [MCA_BTL_DIWARP_RD] = "rd", [MCA_BTL_DIWARP_RC] = "rc", [MCA_BTL_DIWARP_RC_SRQ] = "rc-srq"};
    char *line = NULL;
    size_t length;
    FILE *text;

    if (0 == memory.endpoints) {
        mca_btl_diwarp_memory_query(module, &memory);
        mca_btl_diwarp_memory_query_process(&memory);
    }
    text = open_memstream(&line, &length);
    if (NULL == text) {
        return;
    }
    fprintf(text, "diwarp_memory: rank=%u transport=%s", OPAL_PROC_MY_NAME.vpid,
            transports[mca_btl_diwarp_params.transport]);
#define X(name, unit, meaning) fprintf(text, " " #name "=%" PRIu64, memory.core.name);
    DIWARP_MEMORY(X)
#undef X
#define X(name, unit, meaning) fprintf(text, " " #name "=%" PRIu64, memory.name);
    MCA_BTL_DIWARP_MEMORY(X)
    MCA_BTL_DIWARP_PROCESS_MEMORY(X)
#undef X
    if (0 == fclose(text)) {
        opal_output(0, "%s", line);
    }
    free(line);
}
