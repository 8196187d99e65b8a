/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways to the processes that have told the same interfaces: pairs of one of ours and one of
 * theirs, best first, and these once more for each further flow. All of them are reached by the
 * current one, until that fails and another is found to work; large records also by those beside it
 * that work. Who speaks with them finds that out, nothing here sends. Where there are several
 * flows, processes of one host do not share their ways: networks tell flows apart by both ports.
 */
#pragma once

#include "common/path/path.h"

/* No more, and so many interfaces can a process tell. */
#define DW_WAYS_MAX    DIWARP_MAX_INTERFACES
#define DW_WAYS_NO_NIC UINT8_MAX

struct dw_ways {
    struct dw_ways *next; /* with the same first path */
    uint32_t users;       /* handles */
    uint16_t udp_port;    /* of theirs, whose flows take other links than another's; 0: of any */
    uint8_t count, current;
    bool answered;   /* a process there has answered what took the current one */
    uint8_t apart;   /* bit i: way i stands for its NIC and flow, as the current way or as the first
                      * in the list */
    uint8_t working; /* of these, those on which long datagrams were answered */
    uint8_t left;    /* how often one of them was found not to work any more, of late */
    uint8_t there[DW_WAYS_MAX]; /* interfaces of theirs, as they number them */
    uint8_t nics[DW_WAYS_MAX];  /* ours: each may have several addresses; or DW_WAYS_NO_NIC */
    uint64_t look_ns;           /* no sooner those that do not work are looked at */
    struct dw_path *paths[];
};
_Static_assert(DW_WAYS_MAX <= 8, "a bit for each");

/* What ways are made of. */
struct dw_ways_list {
    struct dw_path *paths[DW_WAYS_MAX];
    uint8_t there[DW_WAYS_MAX];
    uint8_t nics[DW_WAYS_MAX]; /* DW_WAYS_NO_NIC: within a host, where several gain nothing */
    uint8_t count;
    uint16_t udp_port;
};

static inline struct dw_path *dw_ways_path(const struct dw_ways *ways)
{
    return ways->paths[ways->current];
}

/* One more user of those that lead by exactly these paths, of whose users the ways take over one
 * each; made if there are none. NULL: no memory; the paths are put. */
struct dw_ways *dw_ways_get(struct dw_paths *paths, const struct dw_ways_list *list);
void dw_ways_put(struct dw_paths *paths, struct dw_ways *ways);
/* Frees those that there are, before dw_paths_fini(). */
void dw_ways_fini(struct dw_paths *paths);

/* How datagrams number a way, never 0: by its flow, and by the place of something in a list, which
 * depends on the datagram: of an interface, or of the way itself among those of who asks. */
static inline uint8_t dw_way_number(unsigned flow, unsigned place)
{
    return (uint8_t)(1 + flow * DW_WAYS_MAX + place);
}

static inline unsigned dw_way_flow(uint8_t number)
{
    return (number - 1u) / DW_WAYS_MAX;
}

static inline unsigned dw_way_place(uint8_t number)
{
    return (number - 1u) % DW_WAYS_MAX;
}

/* By our interface. */
static inline uint8_t dw_path_number(const struct dw_path *path)
{
    return dw_way_number(path->flow, path->local_interface);
}

/* Index of the way to that host by that flow; or the count: none leads there. */
unsigned dw_ways_find(const struct dw_ways *ways, const struct dw_llp_addr *host, unsigned flow);
/* Index of the one, of those apart, that has that number by our interface; of the first that has it
 * by theirs; or the count: there is none. */
unsigned dw_ways_from(const struct dw_ways *ways, uint8_t number);
unsigned dw_ways_to(const struct dw_ways *ways, uint8_t number);
/* Bit i: way i may be used together with the others, for it takes the datagrams of the current one,
 * which is one of them. 0: there are no others. */
unsigned dw_ways_together(const struct dw_ways *ways);
/* Those apart that are not known to work; 0: none, or it is not time to look at them. Then the next
 * time is after interval_ns, and twice as long for each time that one was left, up to 64 times; one
 * of these is forgotten for each such time that all work. */
unsigned dw_ways_to_look_at(struct dw_ways *ways, uint64_t interval_ns, uint64_t now_ns);
/* What was sent by it did not come. */
void dw_ways_leave(struct dw_ways *ways, unsigned way);
/* That one is the current one, of which nothing is known; others are looked at soon. */
void dw_ways_change(struct dw_ways *ways, unsigned way);
