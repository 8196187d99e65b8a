/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks at each learnt handle when it may have been at rest for long enough, and again later. */
#include "common/rd/forget.h"

#include <stdlib.h>

#include "common/rd/peer.h"
#include "common/rd/probe.h"
#include "common/rd/timers.h"

/* Who has proved to be there, and has said nothing in this part of the time after which others are
 * forgotten, hardly will; with half of it, more who lose what they say first prove it again. */
#define SILENT_PART 8
/* Handles that one call looks at. */
#define LOOKS_MAX 64

/* One that waits to learn that we have all it sent would send it again to one that has forgotten
 * it: it is asked first. */
static void ask(struct dw_handle *handle, uint64_t now_ns)
{
    struct dw_peer *peer = dw_peer_wake(handle);
    if (!peer)
        return;
    peer->confirming = true;
    dw_probe(peer, now_ns);
    dw_timers_watch(peer);
}

/* A peer that took us for gone, as we took it, would send again what has arrived, too. */
static bool is_long_gone(const struct dw_rd *rd, struct dw_learnt *learnt,
                         const struct dw_handle *handle, uint64_t now_ns)
{
    const uint64_t limit_ns = rd->port->device->attr.peer_timeout_ns;
    if (!learnt->gone_ns)
        learnt->gone_ns = now_ns;
    return limit_ns && !dw_handle_peer(handle) && now_ns - learnt->gone_ns >= limit_ns;
}

/* False: there is nothing to look at any more. */
static bool look(struct dw_rd *rd, struct dw_learnt *learnt, uint64_t now_ns)
{
    struct dw_handle *handle = dw_handle_find(&rd->handles, learnt->name);
    if (!handle || handle->given)
        return false;
    struct dw_met *met = handle->met ? dw_handle_met(handle) : NULL;
    if (!learnt->looked) {
        learnt->looked = true;
        if (handle->state != DW_PEER_RESTING || met->spoken)
            return true;
        met->used = false;
    }
    const bool used = met && met->used;
    if (met)
        met->used = false;
    if (handle->state != DW_PEER_GONE)
        learnt->gone_ns = 0;
    bool forget = false;
    if (handle->state == DW_PEER_RESTING && !used && !met->confirmed)
        ask(handle, now_ns);
    else if (handle->state == DW_PEER_RESTING || handle->state == DW_PEER_UNMET)
        forget = !used;
    else if (handle->state == DW_PEER_GONE)
        forget = is_long_gone(rd, learnt, handle, now_ns);
    if (forget) {
        rd->forgot = true;
        dw_handle_forget(handle);
    }
    return !forget;
}

/* To be looked at; NULL: there is none. */
static struct dw_learnt *first(const struct dw_rd *rd)
{
    const struct dw_list *lists[] = {&rd->newly_learnt, &rd->learnt};
    struct dw_learnt *found = NULL;
    for (unsigned i = 0; i < 2; i++) {
        struct dw_learnt *it = dw_container(lists[i]->next, struct dw_learnt, link);
        if (!dw_list_empty(lists[i]) && (!found || it->due_ns < found->due_ns))
            found = it;
    }
    return found;
}

static void schedule(struct dw_rd *rd)
{
    const struct dw_learnt *learnt = first(rd);
    dw_heap_set(&rd->port->timers, &rd->forget_timer, learnt ? learnt->due_ns : DW_NEVER);
}

static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct dw_rd *rd = dw_container(timer, struct dw_rd, forget_timer);
    struct dw_learnt *learnt;
    for (unsigned looks = 0; looks < LOOKS_MAX && (learnt = first(rd)) && learnt->due_ns <= now_ns;
         looks++) {
        dw_list_remove(&learnt->link);
        if (look(rd, learnt, now_ns)) {
            learnt->due_ns = now_ns + rd->port->device->env.forget_ns;
            dw_list_append(&rd->learnt, &learnt->link);
        } else {
            free(learnt);
        }
    }
    schedule(rd);
}

void dw_forget_init(struct dw_rd *rd)
{
    dw_list_init(&rd->learnt);
    dw_list_init(&rd->newly_learnt);
    rd->forget_timer.fire = on_timer;
}

void dw_forget_fini(struct dw_rd *rd)
{
    for (struct dw_learnt *learnt; (learnt = first(rd)); free(learnt))
        dw_list_remove(&learnt->link);
    schedule(rd);
    dw_heap_unreserve(&rd->port->timers);
}

bool dw_forget_later(struct dw_rd *rd, struct diwarp_name name, uint64_t now_ns)
{
    struct dw_learnt *learnt = calloc(1, sizeof *learnt);
    if (!learnt)
        return false;
    learnt->name = name;
    learnt->due_ns = now_ns + rd->port->device->env.forget_ns / SILENT_PART;
    dw_list_append(&rd->newly_learnt, &learnt->link);
    schedule(rd);
    return true;
}
