/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters for people: MPI_T performance variables and the dump at finalize, from the same lists.
 */
#include "btl_diwarp/btl_diwarp.h"

#include "opal/mca/base/mca_base_pvar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Whose struct it is in. */
enum owner { RD_QP, RC_QPS, ADAPTER, PROCESS };

struct counter {
    const char *name, *unit, *meaning;
    size_t offset;
    enum owner owner;
};

static const struct counter counters[] = {
#define X(name, unit, meaning) \
    {#name, unit, meaning, offsetof(struct diwarp_counters, name), RD_QP},
    DIWARP_COUNTERS(X)
#undef X
#define X(name, unit, meaning) \
    {#name, unit, meaning, offsetof(struct diwarp_rc_counters, name), RC_QPS},
        DIWARP_RC_COUNTERS(X)
#undef X
#define X(name, unit, meaning) \
    {#name, unit, meaning, offsetof(struct mca_btl_diwarp_counters, name), ADAPTER},
            MCA_BTL_DIWARP_COUNTERS(X)
#undef X
};

/* Gauges, named memory_... */
static const struct counter memory_gauges[] = {
#define X(name, unit, meaning) \
    {"memory_" #name, unit, meaning, offsetof(struct mca_btl_diwarp_memory, core.name), ADAPTER},
    DIWARP_MEMORY(X)
#undef X
#define X(name, unit, meaning) \
    {"memory_" #name, unit, meaning, offsetof(struct mca_btl_diwarp_memory, name), ADAPTER},
        MCA_BTL_DIWARP_MEMORY(X)
#undef X
#define X(name, unit, meaning) \
    {"memory_" #name, unit, meaning, offsetof(struct mca_btl_diwarp_memory, name), PROCESS},
            MCA_BTL_DIWARP_PROCESS_MEMORY(X)
#undef X
};

#define COUNTERS (sizeof(counters) / sizeof(counters[0]))
#define GAUGES   (sizeof(memory_gauges) / sizeof(memory_gauges[0]))

_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "pvars are registered as unsigned long");

static const struct mca_btl_diwarp_module *shown;

/* NULL: the transport has none of these. */
static const char *counters_of(const struct mca_btl_diwarp_module *module, enum owner owner)
{
    switch (owner) {
    case RD_QP:
        return NULL != module->qp ? (const char *)diwarp_query_counters(module->qp) : NULL;
    case RC_QPS:
        return NULL != module->cq ? (const char *)diwarp_query_rc_counters(module->cq) : NULL;
    default:
        return (const char *)&module->counters;
    }
}

static uint64_t counter_value(const struct mca_btl_diwarp_module *module,
                              const struct counter *counter)
{
    const char *base = counters_of(module, counter->owner);
    uint64_t value = 0;

    if (NULL != base) {
        memcpy(&value, base + counter->offset, sizeof(value));
    }
    return value;
}

static int pvar_read(const struct mca_base_pvar_t *pvar, void *value, void *obj)
{
    (void)obj;
    *(unsigned long *)value = counter_value(shown, pvar->ctx);
    return OPAL_SUCCESS;
}

static int gauge_read(const struct mca_base_pvar_t *pvar, void *value, void *obj)
{
    const struct counter *gauge = pvar->ctx;
    struct mca_btl_diwarp_memory memory;

    (void)obj;
    if (PROCESS == gauge->owner) {
        mca_btl_diwarp_memory_query_process(&memory);
    } else {
        mca_btl_diwarp_memory_query(shown, &memory);
    }
    memcpy(value, (const char *)&memory + gauge->offset, sizeof(uint64_t));
    return OPAL_SUCCESS;
}

static int pvar_notify(struct mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *obj,
                       int *count)
{
    (void)pvar;
    (void)obj;
    if (MCA_BASE_PVAR_HANDLE_BIND == event) {
        *count = 1;
    }
    return OPAL_SUCCESS;
}

static int register_pvar(const struct counter *counter, int class, mca_base_get_value_fn_t read)
{
    char description[256];

    snprintf(description, sizeof(description), "%s (%s)", counter->meaning, counter->unit);
    return mca_base_component_pvar_register(
        &shown->super.btl_component->btl_version, counter->name, description, OPAL_INFO_LVL_4,
        class, MCA_BASE_VAR_TYPE_UNSIGNED_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read, NULL, pvar_notify,
        (void *)(uintptr_t)counter);
}

int mca_btl_diwarp_pvars_register(const struct mca_btl_diwarp_module *module)
{
    int rc = OPAL_SUCCESS;

    shown = module;
    for (size_t i = 0; i < COUNTERS && rc >= 0; i++) {
        const bool gauge = 0 == strcmp(counters[i].name, "peers_active") ||
                           0 == strcmp(counters[i].name, "rc_connections");

        rc = register_pvar(&counters[i],
                           gauge ? MCA_BASE_PVAR_CLASS_LEVEL : MCA_BASE_PVAR_CLASS_COUNTER,
                           pvar_read);
    }
    for (size_t i = 0; i < GAUGES && rc >= 0; i++) {
        rc = register_pvar(&memory_gauges[i], MCA_BASE_PVAR_CLASS_LEVEL, gauge_read);
    }
    return rc < 0 ? rc : OPAL_SUCCESS;
}

void mca_btl_diwarp_counters_dump(const struct mca_btl_diwarp_module *module)
{
    for (size_t i = 0; i < COUNTERS; i++) {
        if (NULL == counters_of(module, counters[i].owner)) {
            continue;
        }
        opal_output(0, "diwarp stats: job %u rank %u: %s %" PRIu64 " %s", OPAL_PROC_MY_NAME.jobid,
                    OPAL_PROC_MY_NAME.vpid, counters[i].name, counter_value(module, &counters[i]),
                    counters[i].unit);
    }
}
