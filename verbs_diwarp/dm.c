/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/dm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/memory.h"

/* The manual does not say so, but cards copy words, and rdma-core's tests want others refused. */
#define WORD_BYTES        4u
#define LEAST_ALIGN_BYTES 8u /* for atomics */
#define MAX_LOG_ALIGN     12

static struct dv_dm *dm_of(struct ibv_dm *dm)
{
    return (struct dv_dm *)dm;
}

static bool holds(const struct dv_dm *dm, uint64_t offset, size_t length)
{
    return offset <= dm->length && length <= dm->length - offset;
}

static bool may_copy(const struct dv_dm *dm, uint64_t offset, size_t length)
{
    return holds(dm, offset, length) && offset % WORD_BYTES == 0 && length % WORD_BYTES == 0;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
    if (!may_copy(dm_of(dm), offset, length))
        return EINVAL;
    if (length)
        memcpy(dm_of(dm)->memory + offset, from, length);
    return 0;
}

static int copy_from(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
    if (!may_copy(dm_of(dm), offset, length))
        return EINVAL;
    if (length)
        memcpy(to, dm_of(dm)->memory + offset, length);
    return 0;
}

/* False: there is not so much left of the context's. */
static bool take(struct dv_context *context, size_t bytes)
{
    dv_lock(context);
    const bool left = bytes <= DV_DM_BYTES - context->dm_bytes;
    if (left) {
        context->dm_bytes += bytes;
        context->users++;
    }
    dv_unlock(context);
    return left;
}

struct ibv_dm *dv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
    if (attr->comp_mask || !attr->length || attr->length > DV_DM_BYTES ||
        attr->log_align_req > MAX_LOG_ALIGN)
        return dv_fail(EINVAL);
    const size_t wanted = (size_t)1 << attr->log_align_req;
    const size_t align = wanted > LEAST_ALIGN_BYTES ? wanted : LEAST_ALIGN_BYTES;
    struct dv_dm *dm = calloc(1, sizeof *dm);
    void *memory = NULL;
    if (!dm || posix_memalign(&memory, align, attr->length) ||
        !take(dv_context_of(context), attr->length)) {
        free(memory);
        free(dm);
        return dv_fail(ENOMEM);
    }
    memset(memory, 0, attr->length); /* peers may read it: nothing of what was there before */
    dm->dm =
        (struct ibv_dm){.context = context, .memcpy_to_dm = copy_to, .memcpy_from_dm = copy_from};
    dm->memory = memory;
    dm->length = attr->length;
    return &dm->dm;
}

int dv_free_dm(struct ibv_dm *ibv_dm)
{
    struct dv_dm *dm = dm_of(ibv_dm);
    struct dv_context *context = dv_context_of(ibv_dm->context);
    dv_lock(context);
    const bool busy = dm->users;
    if (!busy) {
        context->dm_bytes -= dm->length;
        context->users--;
    }
    dv_unlock(context);
    if (busy)
        return EBUSY;
    free(dm->memory);
    dm->memory = NULL;
    dm->length = 0; /* later copies are refused */
    dv_bury(dm, &ibv_dm->context);
    return 0;
}

struct ibv_mr *dv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
                            unsigned access)
{
    if (dm->context != pd->context || !(access & IBV_ACCESS_ZERO_BASED) ||
        !holds(dm_of(dm), offset, length))
        return dv_fail(EINVAL);
    return dv_reg_dm(pd, dm_of(dm), offset, length, access);
}
