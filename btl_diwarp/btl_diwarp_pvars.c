/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters and memory, for people: MPI_T performance variables and what is printed at finalize. */
#include "btl_diwarp/btl_diwarp_rc.h"

#include "opal/align.h"
#include "opal/mca/base/mca_base_pvar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the adapter holds now; the core's list is DIWARP_MEMORY. */
#define ADAPTER_MEMORY(X)                                                                    \
    X(module_bytes, "bytes", "the module")                                                   \
    X(endpoint_bytes, "bytes", "endpoints")                                                  \
    X(receive_buffer_bytes, "bytes", "receives posted in advance (RC)")                      \
    X(fragment_bytes, "bytes", "send descriptors with their payload, free ones included")    \
    X(rdma_bytes, "bytes", "descriptors of puts, gets and atomics, free ones included")      \
    X(btl_bytes, "bytes", "all of the adapter's own")                                        \
    X(transport_bytes, "bytes", "total_bytes of the core and btl_bytes: user memory in all") \
    X(endpoints, "endpoints", "processes that were added")

/* Of the whole process, to hold the transport's against. 0: cannot be read. */
#define PROCESS_MEMORY(X)                                                              \
    X(private_bytes, "bytes", "the process's private pages (/proc/self/smaps_rollup)") \
    X(pss_bytes, "bytes", "its proportional share of all its pages (/proc/self/smaps_rollup)")

struct memory {
    struct diwarp_memory core;
    ADAPTER_MEMORY(DIWARP_FIELD)
    PROCESS_MEMORY(DIWARP_FIELD)
};

static struct memory noted; /* when it knew most peers */

/* Items are laid out in blocks, each led by a list item and aligned. */
static uint64_t list_bytes(const opal_free_list_t *list)
{
    const size_t alignment = list->fl_frag_alignment;
    const size_t blocks = opal_list_get_size((opal_list_t *)(uintptr_t)&list->fl_allocations);
    const size_t item = OPAL_ALIGN(list->fl_frag_size, alignment, size_t);
    return list->fl_num_allocated * item + blocks * (sizeof(opal_free_list_item_t) + alignment);
}

static void memory_query(const struct mca_btl_diwarp_module *module, struct memory *memory)
{
    *memory = (struct memory){.endpoints = module->endpoints};
    if (!module->cq)
        return;
    diwarp_query_memory(module->cq, module->pd, &memory->core);
    memory->module_bytes = sizeof *module;
    memory->endpoint_bytes = memory->endpoints * (module->rc ? sizeof(mca_btl_diwarp_rc_endpoint_t)
                                                             : sizeof(mca_btl_base_endpoint_t));
    if (module->rc) {
        memory->module_bytes += sizeof *module->rc;
        memory->receive_buffer_bytes = module->rc->buffers_bytes;
    }
    for (unsigned i = 0; i <= MCA_BTL_DIWARP_FRAG_LARGE; i++)
        memory->fragment_bytes += list_bytes(&module->lists[i]);
    memory->rdma_bytes = list_bytes(&module->lists[MCA_BTL_DIWARP_RDMAS]);
    memory->btl_bytes = memory->module_bytes + memory->endpoint_bytes +
                        memory->receive_buffer_bytes + memory->fragment_bytes + memory->rdma_bytes;
    memory->transport_bytes = memory->core.total_bytes + memory->btl_bytes;
}

static void memory_query_process(struct memory *memory)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    unsigned long long kib;
    char line[256];
    memory->private_bytes = memory->pss_bytes = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Clean: %llu", &kib) == 1 ||
            sscanf(line, "Private_Dirty: %llu", &kib) == 1)
            memory->private_bytes += kib << 10;
        else if (sscanf(line, "Pss: %llu", &kib) == 1)
            memory->pss_bytes += kib << 10;
    if (file)
        fclose(file);
}

/* Whose struct it is in. */
enum owner { RD_QP, RC_QPS, ADAPTER, MEMORY, PROCESS };

#define MEMORY_PREFIX "memory_"

#define ROW(name, u, m, type, field, owner) {name, u, m, offsetof(struct type, field), owner},
#define RD_ROW(n, u, m)                     ROW(#n, u, m, diwarp_counters, n, RD_QP)
#define RC_ROW(n, u, m)                     ROW(#n, u, m, diwarp_rc_counters, n, RC_QPS)
#define ADAPTER_ROW(n, u, m)                ROW(#n, u, m, mca_btl_diwarp_counters, n, ADAPTER)
#define CORE_ROW(n, u, m)                   ROW(MEMORY_PREFIX #n, u, m, memory, core.n, MEMORY)
#define MEMORY_ROW(n, u, m)                 ROW(MEMORY_PREFIX #n, u, m, memory, n, MEMORY)
#define PROCESS_ROW(n, u, m)                ROW(MEMORY_PREFIX #n, u, m, memory, n, PROCESS)

static const struct counter {
    const char *name, *unit, *meaning;
    size_t offset;
    enum owner owner;
} counters[] = {
    /* clang-format off */
    DIWARP_COUNTERS(RD_ROW)
    DIWARP_RC_COUNTERS(RC_ROW)
    MCA_BTL_DIWARP_COUNTERS(ADAPTER_ROW)
    DIWARP_MEMORY(CORE_ROW)
    ADAPTER_MEMORY(MEMORY_ROW)
    PROCESS_MEMORY(PROCESS_ROW)
    /* clang-format on */
};

#define COUNTERS (sizeof counters / sizeof counters[0])

_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "pvars are registered as unsigned long");

static const struct mca_btl_diwarp_module *shown;

static bool is_level(const struct counter *counter)
{
    return counter->owner >= MEMORY || strcmp(counter->name, "peers_active") == 0 ||
           strcmp(counter->name, "rc_connections") == 0;
}

/* The owner's struct, `memory` where that has to be filled. NULL: the transport has none. */
static const void *look(const struct mca_btl_diwarp_module *module, enum owner owner,
                        struct memory *memory)
{
    if (owner == RD_QP)
        return module->qp ? diwarp_query_counters(module->qp) : NULL;
    if (owner == RC_QPS)
        return module->cq ? diwarp_query_rc_counters(module->cq) : NULL;
    if (owner == ADAPTER)
        return &module->counters;
    if (owner == MEMORY)
        memory_query(module, memory);
    else
        memory_query_process(memory);
    return memory;
}

static unsigned long value_in(const void *owner, const struct counter *counter)
{
    unsigned long value = 0;
    if (owner)
        memcpy(&value, (const char *)owner + counter->offset, sizeof value);
    return value;
}

static int pvar_read(const struct mca_base_pvar_t *pvar, void *value, void *obj)
{
    const struct counter *counter = pvar->ctx;
    struct memory memory;
    (void)obj;
    *(unsigned long *)value = value_in(look(shown, counter->owner, &memory), counter);
    return OPAL_SUCCESS;
}

int mca_btl_diwarp_pvars_register(const struct mca_btl_diwarp_module *module)
{
    shown = module;
    for (const struct counter *counter = counters; counter < counters + COUNTERS; counter++) {
        char description[256];
        snprintf(description, sizeof description, "%s (%s)", counter->meaning, counter->unit);
        const int rc = mca_base_component_pvar_register(
            &module->super.btl_component->btl_version, counter->name, description, OPAL_INFO_LVL_4,
            is_level(counter) ? MCA_BASE_PVAR_CLASS_LEVEL : MCA_BASE_PVAR_CLASS_COUNTER,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, pvar_read, NULL, NULL,
            (void *)(uintptr_t)counter);
        if (rc < 0)
            return rc;
    }
    return OPAL_SUCCESS;
}

void mca_btl_diwarp_counters_dump(const struct mca_btl_diwarp_module *module)
{
    for (size_t i = 0; i < COUNTERS && counters[i].owner < MEMORY; i++) {
        const void *owner = look(module, counters[i].owner, NULL);
        if (owner)
            opal_output(0, "diwarp stats: job %u rank %u: %s %lu %s", OPAL_PROC_MY_NAME.jobid,
                        OPAL_PROC_MY_NAME.vpid, counters[i].name, value_in(owner, &counters[i]),
                        counters[i].unit);
    }
}

void mca_btl_diwarp_memory_note(const struct mca_btl_diwarp_module *module)
{
    if (mca_btl_diwarp_params.memory_report && module->endpoints >= noted.endpoints) {
        memory_query(module, &noted);
        memory_query_process(&noted);
    }
}

void mca_btl_diwarp_memory_report(const struct mca_btl_diwarp_module *module)
{
    static const char *const transports[] = {"rd", "rc", "rc-srq"}; /* by their enum */
    static char line[4096]; /* too large for a stack that may be small */
    if (!module->cq || !mca_btl_diwarp_params.memory_report)
        return;
    if (!noted.endpoints)
        mca_btl_diwarp_memory_note(module);
    int used = snprintf(line, sizeof line, "diwarp_memory: rank=%u transport=%s",
                        OPAL_PROC_MY_NAME.vpid, transports[mca_btl_diwarp_params.transport]);
    for (size_t i = 0; i < COUNTERS; i++)
        if (counters[i].owner >= MEMORY)
            used += snprintf(line + used, sizeof line - (size_t)used, " %s=%lu",
                             counters[i].name + sizeof MEMORY_PREFIX - 1,
                             value_in(&noted, &counters[i]));
    opal_output(0, "%s", line);
}
