/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles that were made of datagrams, and that the application knows nothing of: forgotten when
 * their peers have been at rest, or gone, for long, so that a server does not grow with the clients
 * that it has had. identity.c is for peers that remember us yet. */
#ifndef DW_FORGET_H
#define DW_FORGET_H

#include "common/rd/rd.h"

/* A handle, by its name; in rd.newly_learnt, then rd.learnt, those first that are looked at first.
 */
struct dw_learnt {
    struct dw_list link;
    struct diwarp_name name;
    uint64_t due_ns;
    bool looked;      /* at it, once */
    uint64_t gone_ns; /* when it was seen to be gone; 0: it is not */
};

/* `rd` has a place in the port's timers. */
void dw_forget_init(struct dw_rd *rd);
void dw_forget_fini(struct dw_rd *rd);
/* A handle of that name is about to be made; false: no memory. */
bool dw_forget_later(struct dw_rd *rd, struct diwarp_name name, uint64_t now_ns);

#endif
