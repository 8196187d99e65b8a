/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of other processes: a table of handles by name, and beside it, for those that have
 * been met, what outlasts their contexts. There may be millions of handles, few of them met. */
#pragma once

#include "common/rel/recordwin.h"
#include "common/rel/rtt.h"
#include "common/rnic/service.h"

struct dw_peer;

enum dw_peer_state {
    DW_PEER_UNMET,   /* nothing was sent to it or heard of it */
    DW_PEER_AWAKE,   /* it holds a context */
    DW_PEER_RESTING, /* it held one: what must outlast that is in its struct dw_met */
    DW_PEER_DOOMED,  /* awake, and about to be gone */
    DW_PEER_GONE,
    DW_PEER_STATES
};

/* The number of a device's first QP: what a process is told to be reached by, mostly. */
#define DW_QPN_FIRST 1u

/* Another process: where it is. It belongs to the service once the peer is met, and goes with it;
 * until then to its owner. Either end rests and wakes when it likes: nothing on the wire says so.
 */
struct dw_handle {
    struct diwarp_ah ah;
    uint32_t next;                      /* of the same hash, by index; 0: none */
    uint32_t met : DW_CELLS_INDEX_BITS; /* index of its struct dw_met; 0: none, in UNMET */
    uint32_t state : 3;                 /* enum dw_peer_state */
    bool heard : 1;                     /* it knows our address: no intro needed */
    bool given : 1;    /* its address is the application's word; else it is forgotten */
    bool unproven : 1; /* its address is the word of one that may not be there */
};
_Static_assert(sizeof(struct dw_handle) == sizeof(struct diwarp_ah) + 8, "a known peer is small");

/* Of one that has been met: what must outlast its context for each message to come exactly once,
 * and what it would have to learn again. */
struct dw_met {
    struct dw_peer *peer; /* NULL but in AWAKE and DOOMED */
    uint32_t send_msn;
    struct dw_rtt rtt;
    uint8_t lost_at;  /* something was last lost between us (rd.c); 0: never, or long ago */
    bool goes_on : 1; /* it may remember us: our intros say so */
    /* The rest while it rests. */
    bool spoken : 1;                    /* anything of either end had a PSN */
    bool confirmed : 1;                 /* the peer knows of all that came of it that we have it */
    struct dw_recordwin_past recordwin; /* of its records to us */
    uint16_t credit_kib;                /* what it granted last */
    uint16_t ssthresh_datagrams;
    uint32_t next_psn; /* the first that has not been sent */
    uint32_t ack;      /* the first that has not come; none after it has, either */
    uint32_t rested;   /* since when, by the silence clock */
};

/* An address handle for a QP of a process that is not its first. */
struct dw_further_ah {
    struct diwarp_ah ah;
    struct dw_handle *handle;
};

struct dw_handles {
    struct dw_ahs ahs;         /* struct dw_handle */
    struct dw_cells met;       /* struct dw_met */
    struct dw_ahs further_ahs; /* struct dw_further_ah */
    uint32_t *buckets;         /* index of the first handle of each */
    uint32_t bucket_count;     /* a power of two, or 0 before the first handle */
    uint32_t unproven;
    uint64_t seed; /* names come from peers: they must not choose the bucket */
};

void dw_handles_init(struct dw_handles *handles, struct dw_port *port,
                     const struct dw_service *service, uint64_t seed);
/* Handles that have owners stay until these give them back. */
void dw_handles_fini(struct dw_handles *handles);

struct dw_handle *dw_handle_find(const struct dw_handles *handles, struct diwarp_name name);
/* The handle of that name, made if there is none; NULL: no memory. */
struct dw_handle *dw_handle_get(struct dw_handles *handles, struct diwarp_name name);
/* Frees one that nobody owns and that has not been met. */
void dw_handle_put(struct dw_handle *handle);
/* Frees one that nobody owns and that has no context. */
void dw_handle_forget(struct dw_handle *handle);
/* Checks the table of states; an undefined transition is a fault of ours. */
void dw_handle_set_state(struct dw_handle *handle, enum dw_peer_state state);
/* Gives back its struct dw_met: it is to be met again, as if never before. */
void dw_handle_unmeet(struct dw_handle *handle);

static inline struct dw_handle *dw_handle_of_ah(struct diwarp_ah *ah)
{
    return ah->qpn == DW_QPN_FIRST ? dw_container(ah, struct dw_handle, ah)
                                   : dw_container(ah, struct dw_further_ah, ah)->handle;
}

static inline struct dw_handles *dw_handles_of(const struct dw_handle *handle)
{
    return dw_container(dw_ahs_of(&handle->ah), struct dw_handles, ahs);
}

/* Somebody, or nobody, has said or shown that the peer is where it says. */
static inline void dw_handle_set_proven(struct dw_handle *handle, bool proven)
{
    dw_handles_of(handle)->unproven += (uint32_t)!proven - handle->unproven;
    handle->unproven = !proven;
}

/* Of one that has been met. */
static inline struct dw_met *dw_handle_met(const struct dw_handle *handle)
{
    return dw_cells_at(&dw_handles_of(handle)->met, handle->met);
}

/* Its context, or NULL. */
static inline struct dw_peer *dw_handle_peer(const struct dw_handle *handle)
{
    return handle->met ? dw_handle_met(handle)->peer : NULL;
}
