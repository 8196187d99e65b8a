/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths: their table, and the search for the longest datagram that passes. */
#include "common/path/path.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/siphash.h"
#include "common/wire/bytes.h"
#include "common/wire/llp_header.h"

/* RFC 8899, MAX_PROBES: so many in a row are not lost by chance. */
#define FAILURES_MAX 3
/* Probes without any answer, each waited for twice as long, after which the next goes with what is
 * sent next, no sooner. */
#define UNANSWERED_MAX (2 * FAILURES_MAX)
/* Lengths are multiples of this. */
#define STEP_BYTES 8u

/* ---- the table ---- */

/* Nobody can choose an address that has the key of another. */
static uint64_t key_of(const struct dw_paths *paths, const struct dw_llp_addr *host)
{
    const bool v4 = host->family == AF_INET;
    const uint64_t high = v4 ? dw_get_be32(host->ip) : dw_get_be64(host->ip);
    const uint64_t low = v4 ? 0 : dw_get_be64(host->ip + 8);
    return dw_siphash(paths->key, dw_siphash(paths->key, high) ^ low);
}

void dw_paths_init(struct dw_paths *paths, const uint64_t *key)
{
    *paths = (struct dw_paths){.key = key};
    dw_map_init(&paths->buckets, key[0]);
}

void dw_paths_fini(struct dw_paths *paths)
{
    struct dw_path *path;
    for (size_t slot = 0; (path = dw_map_next(&paths->buckets, &slot));)
        for (struct dw_path *next; path; path = next) {
            next = path->next;
            free(path);
        }
    dw_map_fini(&paths->buckets);
}

struct dw_path *dw_paths_find(const struct dw_paths *paths, const struct dw_llp_addr *host)
{
    return dw_map_get(&paths->buckets, key_of(paths, host));
}

struct dw_path *dw_path_get(struct dw_paths *paths, const struct dw_llp_addr *host,
                            uint8_t local_interface, uint8_t flow, uint32_t limit_bytes)
{
    struct dw_path *const first = dw_paths_find(paths, host), *path = first;
    _Static_assert(DW_LLP_TRAIN_BYTES + STEP_BYTES <= UINT16_MAX, "lengths fit");
    while (path && (path->local_interface != local_interface || path->flow != flow ||
                    path->limit_bytes != limit_bytes || path->host.hops != host->hops))
        path = path->next;
    if (path) {
        path->users++;
        return path;
    }
    path = malloc(sizeof *path);
    if (!path || (!first && dw_map_put(&paths->buckets, key_of(paths, host), path))) {
        free(path);
        return NULL;
    }
    *path = (struct dw_path){
        .host = *host,
        .local_interface = local_interface,
        .flow = flow,
        .limit_bytes = (uint16_t)limit_bytes,
        .datagram_max_bytes = (uint16_t)limit_bytes,
        .due_ns = UINT64_MAX,
        .users = 1,
    };
    path->host.port = 0;
    dw_list_init(&path->awake);
    if (first) {
        path->next = first->next;
        first->next = path;
    }
    paths->count++;
    return path;
}

void dw_path_put(struct dw_paths *paths, struct dw_path *path)
{
    if (--path->users)
        return;
    const uint64_t key = key_of(paths, &path->host);
    struct dw_path *first = dw_map_remove(&paths->buckets, key), **link = &first;
    while (*link != path)
        link = &(*link)->next;
    *link = path->next;
    if (first) /* needs no memory: a slot has just become free */
        (void)dw_map_put(&paths->buckets, key, first);
    paths->count--;
    assert(dw_list_empty(&path->awake) && !path->ways);
    free(path);
}

/* A search begins anew where less passes than it had found. */
static void set_state(struct dw_path *path, enum dw_path_state state)
{
    static const bool may_follow[DW_PATH_STATES][DW_PATH_STATES] = {
        [DW_PATH_WHOLE] = {[DW_PATH_SEARCHING] = true},
        [DW_PATH_SEARCHING] =
            {[DW_PATH_SEARCHING] = true, [DW_PATH_WHOLE] = true, [DW_PATH_NARROW] = true},
        [DW_PATH_NARROW] = {[DW_PATH_SEARCHING] = true, [DW_PATH_WHOLE] = true},
    };
    assert(may_follow[path->state][state]);
    path->state = (uint8_t)state;
    path->probe_bytes = 0;
    path->failures = path->unanswered = 0;
    if (state == DW_PATH_WHOLE)
        path->due_ns = UINT64_MAX;
}

static uint32_t base_bytes(const struct dw_path *path)
{
    const uint32_t base = dw_path_bytes_of_mtu(path->host.family, DW_MTU_MIN_BYTES);
    return base < path->limit_bytes ? base : path->limit_bytes;
}

static void lower(struct dw_path *path, uint32_t bytes, uint32_t ceiling_bytes, uint64_t now_ns)
{
    set_state(path, DW_PATH_SEARCHING);
    path->datagram_max_bytes = (uint16_t)bytes;
    path->ceiling_bytes = (uint16_t)ceiling_bytes;
    path->due_ns = now_ns;
    path->lowered_until_ns = now_ns + DW_PATH_RAISE_NS;
}

/* RFC 8899 4.6.1: a hint. The search begins with what is said not to pass. */
bool dw_path_on_told(struct dw_path *path, uint32_t bytes, uint64_t now_ns)
{
    if (bytes < base_bytes(path) || bytes >= path->limit_bytes)
        return false;
    path->told_bytes = (uint16_t)bytes;
    path->lowered_until_ns = now_ns + DW_PATH_RAISE_NS;
    if (bytes >= path->datagram_max_bytes)
        return false;
    lower(path, bytes, path->limit_bytes + STEP_BYTES, now_ns);
    return true;
}

/* What is longer than the path is thought to take was sent before that was known. */
bool dw_path_on_black_hole(struct dw_path *path, uint32_t bytes, uint64_t now_ns)
{
    const uint32_t base = base_bytes(path);
    if (bytes > path->datagram_max_bytes || bytes <= base)
        return false;
    lower(path, base, bytes, now_ns);
    return true;
}

void dw_path_expire(struct dw_path *path, uint64_t now_ns)
{
    if (path->state == DW_PATH_WHOLE || now_ns < path->lowered_until_ns ||
        !dw_list_empty(&path->awake))
        return;
    path->datagram_max_bytes = path->limit_bytes;
    set_state(path, DW_PATH_WHOLE);
}

/* ---- the search ---- */

/* All of it first, then what ICMP said of that, then half of what may be won. */
static uint32_t next_length(const struct dw_path *path)
{
    const uint32_t least = path->datagram_max_bytes, ceiling = path->ceiling_bytes;
    if (ceiling > path->limit_bytes)
        return path->limit_bytes;
    if (path->told_bytes > least && path->told_bytes < ceiling)
        return path->told_bytes;
    return (least + (ceiling - least) / 2) & ~(STEP_BYTES - 1);
}

uint32_t dw_path_probe_bytes(struct dw_path *path, uint64_t now_ns)
{
    if (now_ns < path->due_ns)
        return 0;
    if (path->state == DW_PATH_NARROW) {
        set_state(path, DW_PATH_SEARCHING);
        path->ceiling_bytes = (uint16_t)(path->limit_bytes + STEP_BYTES);
        path->told_bytes = 0;
    }
    path->probe_bytes = (uint16_t)next_length(path);
    return path->probe_bytes;
}

void dw_path_on_probe_sent(struct dw_path *path, uint32_t id, uint64_t wait_ns, uint64_t now_ns)
{
    assert(path->state == DW_PATH_SEARCHING && path->probe_bytes);
    path->probe_id = id;
    path->due_ns = now_ns + (wait_ns << path->unanswered);
    if (path->unanswered < UNANSWERED_MAX)
        path->unanswered++;
}

/* No more than a 16th is left to be won; or what is longer fails, as ICMP said. */
static bool is_found(const struct dw_path *path)
{
    const uint32_t bytes = path->datagram_max_bytes;
    if (path->ceiling_bytes > path->limit_bytes)
        return bytes == path->limit_bytes;
    return path->ceiling_bytes - bytes <= bytes / 16 || path->told_bytes == bytes;
}

/* The first of the pair that is answered decides: on a path that keeps order it is the padded one,
 * if that passes. */
bool dw_path_on_probe_reply(struct dw_path *path, uint32_t id, bool padded, uint64_t now_ns)
{
    if (!path->probe_bytes || id != path->probe_id)
        return false;
    if (padded)
        path->datagram_max_bytes = path->probe_bytes;
    else if (++path->failures == FAILURES_MAX)
        path->ceiling_bytes = path->probe_bytes;
    if (padded || path->failures == FAILURES_MAX)
        path->failures = 0;
    path->probe_bytes = 0;
    path->unanswered = 0;
    path->due_ns = now_ns;
    if (is_found(path) && path->datagram_max_bytes == path->limit_bytes) {
        set_state(path, DW_PATH_WHOLE);
    } else if (is_found(path)) {
        set_state(path, DW_PATH_NARROW);
        path->due_ns = path->lowered_until_ns = now_ns + DW_PATH_RAISE_NS;
    }
    return padded;
}

uint64_t dw_path_deadline_ns(const struct dw_path *path)
{
    return path->state == DW_PATH_SEARCHING && path->unanswered < UNANSWERED_MAX ? path->due_ns
                                                                                 : UINT64_MAX;
}
