/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects that were destroyed, kept for a while: a program that uses one again, or destroys it
 * twice, gets EINVAL, and a thread that is about to take an event from a channel or a context finds
 * none. What was destroyed before the last DV_GRAVES is freed, and cannot be told: 35 MB at most,
 * of contexts. */
#pragma once

#include "verbs_diwarp/front.h"

#define DV_GRAVES 256

/* The context of all that are gone; its operations fail. */
extern struct dv_context dv_gone;

static inline bool dv_is_gone(const struct ibv_context *context)
{
    return context == &dv_gone.verbs.context;
}

/* Instead of free(3), of an object whose member `context` that is (NULL: it has none). From any
 * thread. */
void dv_bury(void *object, struct ibv_context **context);
