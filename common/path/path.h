/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way to a host from one of our interfaces, and the longest datagram that it carries (RFC
 * 8899), shared by all that lead there (ways.h). Datagrams become shorter at once when ICMP says
 * so or long ones vanish without a word. Whether that is true, and for how long, is found by
 * probes, which the service sends when dw_path_probe_bytes() asks for them: it has peers that
 * answer, and only while it has something to send.
 *
 * Pure: neither clock nor socket. Lengths are of a datagram, headers of IP and UDP not included.
 */
#pragma once

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/llp/llp.h"

/* For so long nothing longer is tried than what was found to pass (RFC 8899, PMTU_RAISE_TIMER), and
 * our kernel believes what ICMP told it. */
#define DW_PATH_RAISE_NS 600000000000ull

struct dw_ways; /* ways.h */

/* RFC 8899 5.2, without its Base and Error: below DW_MTU_MIN_BYTES a path is not lowered, and who
 * uses it finds that nothing passes. */
enum dw_path_state {
    DW_PATH_WHOLE,     /* takes what the interfaces take, as far as is known */
    DW_PATH_SEARCHING, /* it took less; longer ones are probed */
    DW_PATH_NARROW,    /* Search Complete: it takes so much and no more, for a while */
    DW_PATH_STATES
};

struct dw_path {
    struct dw_path *next;    /* to the same host */
    struct dw_ways *ways;    /* those that begin with it */
    struct dw_llp_addr host; /* its port is 0 */
    uint16_t limit_bytes;    /* what the interfaces at both ends take */
    uint16_t datagram_max_bytes;
    uint16_t ceiling_bytes; /* so long does not pass; more than the limit: nothing is known */
    uint16_t probe_bytes;   /* of the probe under way; 0: there is none */
    uint16_t told_bytes;    /* by ICMP; our kernel believes it until lowered_until_ns. 0: nothing */
    uint8_t local_interface, flow;
    uint8_t state;        /* enum dw_path_state */
    bool asked;           /* our own host, for what it knows of the path's MTU */
    uint8_t failures;     /* of the length probed, in a row */
    uint8_t unanswered;   /* probes, in a row */
    uint32_t users;       /* ways */
    struct dw_list awake; /* the reliable service's contexts there */
    uint32_t probe_id;
    uint64_t due_ns; /* the next probe; UINT64_MAX: none */
    uint64_t lowered_until_ns;
};

/* Of a port. */
struct dw_paths {
    struct dw_map buckets; /* the first struct dw_path to each host, by a hash of it */
    const uint64_t *key;   /* of that hash: sources choose their addresses */
    uint32_t count;
    size_t ways_bytes; /* of all that begin with one of them */
};

/* Longest datagram that a path of that MTU takes; a multiple of 8, so that the next one of a train
 * begins aligned, too. */
static inline uint32_t dw_path_bytes_of_mtu(uint8_t family, uint32_t mtu_bytes)
{
    const uint32_t headers = family == AF_INET6 ? 48 : 28;
    const uint32_t bytes = mtu_bytes > headers ? mtu_bytes - headers : 0;
    return (bytes < DW_LLP_TRAIN_BYTES ? bytes : DW_LLP_TRAIN_BYTES) & ~7u;
}

/* key: two words, which stay where they are. */
void dw_paths_init(struct dw_paths *paths, const uint64_t *key);
/* Frees those that there are: nobody uses them any more. */
void dw_paths_fini(struct dw_paths *paths);
/* The first path to that host, whatever its port; NULL: none. There is one for each interface of
 * ours, flow, and limit that processes of the host have told, linked by `next`. */
struct dw_path *dw_paths_find(const struct dw_paths *paths, const struct dw_llp_addr *host);
/* One more user of it; made if there is none, then `users` is 1. NULL: no memory. */
struct dw_path *dw_path_get(struct dw_paths *paths, const struct dw_llp_addr *host,
                            uint8_t local_interface, uint8_t flow, uint32_t limit_bytes);
void dw_path_put(struct dw_paths *paths, struct dw_path *path);

/* ICMP, or our own host, says that none longer than this passes; not believed where no path can be
 * as narrow. True, also of the next one: datagrams became shorter. */
bool dw_path_on_told(struct dw_path *path, uint32_t bytes, uint64_t now_ns);
/* Datagrams of that length do not pass, shorter ones do. */
bool dw_path_on_black_hole(struct dw_path *path, uint32_t bytes, uint64_t now_ns);

/* Length of the padded probe to send now, which is to leave in one piece whatever our host
 * believes, with a bare one behind it; 0: none. */
uint32_t dw_path_probe_bytes(struct dw_path *path, uint64_t now_ns);
/* Both have left; the answer is due in wait_ns. */
void dw_path_on_probe_sent(struct dw_path *path, uint32_t id, uint64_t wait_ns, uint64_t now_ns);
/* One of the two was answered. True: datagrams may be longer now. */
bool dw_path_on_probe_reply(struct dw_path *path, uint32_t id, bool padded, uint64_t now_ns);
/* When dw_path_probe_bytes() is to be called next though nothing is sent. UINT64_MAX: never. */
uint64_t dw_path_deadline_ns(const struct dw_path *path);
/* Nobody is there to be probed: what is old is not believed any more. */
void dw_path_expire(struct dw_path *path, uint64_t now_ns);

/* It passes in one piece, though our host believes otherwise and would cut it. */
static inline bool dw_path_takes_whole(const struct dw_path *path, uint32_t bytes, uint64_t now_ns)
{
    return path->told_bytes && bytes > path->told_bytes && bytes <= path->datagram_max_bytes &&
           now_ns < path->lowered_until_ns;
}
