/* SPDX-License-Identifier: BSD-3-Clause */
/* What a datagram service (UD, RD) gives the core: one table. `state` is what it keeps for a port,
 * from its first QP there until the port is closed. Every function runs with the device's lock
 * held. Those marked "may be NULL" have nothing to do then. */
#pragma once

#include "common/base/cells.h"
#include "common/datagram/datagrams.h"
#include "common/path/ways.h"

struct dw_port;   /* qp.h */
struct dw_region; /* likewise */
struct dw_service;

/* Where a queue pair is reached; leads what more a service knows of it. A process may know
 * millions: each byte counts, and what a service's handles have in common is found by their own
 * address. */
struct diwarp_ah {
    struct diwarp_name name;
    uint64_t token;
    struct dw_ways *ways; /* NULL: not routed yet. Goes with the port */
    uint32_t incarnation; /* of the process that is meant; told with its address */
    uint32_t owners;      /* handles given out */
    uint16_t udp_port;
    uint16_t peer_datagram_bytes; /* the longest of its records that have shown; ours may differ */
    bool fixed : 1;               /* it has been spoken with: its route stays */
    uint32_t qpn : 24;            /* of the QP there */
};
_Static_assert(sizeof(struct diwarp_ah) == 40, "a known peer is small");

/* The address handles of a service on a port. */
struct dw_ahs {
    struct dw_cells cells;
    struct dw_port *port;
    const struct dw_service *service;
};

/* NULL: their port has been closed. */
static inline struct dw_ahs *dw_ahs_of(const struct diwarp_ah *ah)
{
    struct dw_cells *cells = dw_cells_of(ah);
    return cells ? dw_container(cells, struct dw_ahs, cells) : NULL;
}

/* While it is open. */
static inline struct dw_port *dw_ah_port(const struct diwarp_ah *ah)
{
    return dw_ahs_of(ah)->port;
}

static inline struct dw_path *dw_ah_path(const struct diwarp_ah *ah)
{
    return dw_ways_path(ah->ways);
}

static inline struct dw_llp_addr dw_ah_addr(const struct diwarp_ah *ah)
{
    struct dw_llp_addr addr = dw_ah_path(ah)->host;
    addr.port = ah->udp_port;
    return addr;
}

/* Of one to it. */
static inline uint32_t dw_ah_datagram_max_bytes(const struct diwarp_ah *ah)
{
    return dw_ah_path(ah)->datagram_max_bytes;
}

static inline uint64_t dw_name_key(struct diwarp_name name)
{
    return (uint64_t)name.job << 32 | name.rank;
}

struct dw_service {
    uint32_t max_inline_bytes; /* diwarp_qp_info.max_inline_bytes */
    size_t qp_bytes;           /* of its QP, which begins with struct diwarp_qp */

    /* ---- a port's part; 0 or -ENOMEM ---- */
    int (*open)(struct dw_port *port, void **state);
    void (*close)(void *state); /* every QP of the port is gone */

    /* ---- queue pairs ---- */
    int (*create)(struct diwarp_qp *qp);
    /* It is no longer one of the port's. Others may have the lock meanwhile, amid a long walk. */
    void (*destroy)(struct diwarp_qp *qp);
    int (*post_send)(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                     uint64_t now_ns);
    int (*post_recv)(struct diwarp_qp *qp, const struct ibv_recv_wr *wr); /* NULL: needs none */
    /* The region is about to be freed: ends what uses it. May be NULL. */
    void (*on_deregister)(void *state, const struct dw_region *region);
    /* Something that was posted to it, an answer, or, where it is alone on the port, an
     * acknowledgement has not reached its end. May be NULL. */
    bool (*owes)(const struct diwarp_qp *qp);

    /* ---- address handles ---- */
    /* The handle for an address of the application's: a new one, not routed yet, or one that there
     * is for that name. NULL: no memory. */
    struct diwarp_ah *(*get_ah)(struct diwarp_qp *qp, const struct diwarp_address *address);
    /* It has another path than before. May be NULL. */
    void (*on_route)(struct diwarp_ah *ah);
    /* Of a routed handle, one for a QP number. NULL: no memory. */
    struct diwarp_ah *(*get_ah_of_qpn)(struct diwarp_ah *ah, uint32_t qpn);
    /* That of a process, NULL: none. May be NULL. */
    struct diwarp_ah *(*find_ah)(void *state, struct diwarp_name name);
    /* Its process is gone, the application says; 0 or -ENOMEM. May be NULL. */
    int (*give_up)(struct diwarp_ah *ah);
    /* Its owner gives one back; none is left when ah->owners is 0. */
    void (*put_ah)(struct diwarp_ah *ah);

    /* ---- what comes ---- */
    /* Before a datagram is opened, where none is authenticated: may open it itself, copying its
     * payload to its place on the way (dw_open()). False: it did not, and has touched nothing. May
     * be NULL. */
    bool (*place)(void *state, const struct dw_arrival *arrival, uint64_t now_ns);
    /* qp: whom it is for; NULL, not of UD: none has that number (any more). */
    void (*take)(void *state, struct diwarp_qp *qp, const struct dw_arrival *arrival,
                 uint64_t now_ns);
    /* ICMP: nobody has that port of the path's host, or gets to it. May be NULL. */
    void (*on_unreachable)(void *state, struct dw_path *path, uint16_t udp_port,
                           enum dw_llp_told why, uint64_t now_ns);
    /* Datagrams on that path have become shorter. May be NULL. */
    void (*on_narrow)(void *state, struct dw_path *path);
    /* What the application has been handed leaves no room for more. May be NULL. */
    bool (*is_full)(const void *state);
    /* There is room again: what was refused meanwhile may come. May be NULL. */
    void (*on_room)(void *state);
    /* A queue pair that counts its receives has room for so many more Sends; or it is about to
     * begin to count, or has just ceased to. NULL: none of the service counts. */
    void (*on_recv_room)(struct diwarp_qp *qp, uint32_t sends);

    /* ---- its runs; all but add_memory may be NULL ---- */
    /* True: the next one would send, or try to. */
    bool (*run)(void *state, uint64_t now_ns);
    /* When it is to run next for that at the latest; 0: at once. */
    uint64_t (*next_deadline_ns)(const void *state, uint64_t ran_ns);
    /* Deadlines that no timer watches: the socket has been read, or could not be read empty for
     * long. */
    void (*expire)(void *state, uint64_t now_ns);
    /* device.attr has changed: what was chosen by it is chosen anew. */
    void (*retune)(void *state);
    /* All completions that were handed out are used; not called where none was. */
    void (*recycle)(void *state);
    /* Gives back what was not needed since the last time. When there may be more; DW_NEVER: not
     * before something is taken. */
    uint64_t (*trim)(void *state, uint64_t now_ns);
    void (*add_memory)(const void *state, struct diwarp_memory *memory);
};
