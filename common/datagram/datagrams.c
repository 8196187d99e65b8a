/* SPDX-License-Identifier: BSD-3-Clause */
/* The entrance checks, in this order (WIRE.md section 7): length, version, header, token, seal,
 * intro. A failed check is a counted drop, nothing else. */
#include "common/datagram/datagrams.h"

#include <errno.h>

#include "common/base/slab.h"

#define PAGE_BYTES 4096u
_Static_assert(DW_ARENA_BYTES % PAGE_BYTES == 0 && DW_ARENA_BYTES >= 2 * DW_LLP_SLOT_BYTES,
               "whole pages, room for one receive call and what is held of another");

int dw_datagrams_init(struct dw_datagrams *datagrams, uint32_t pool_bytes)
{
    datagrams->stage = dw_pages_map(DW_LLP_SLOT_BYTES);
    datagrams->arena.base = dw_pages_map(DW_ARENA_BYTES);
    if (!datagrams->stage || !datagrams->arena.base)
        return -ENOMEM;
    return dw_slab_init(&datagrams->pool, pool_bytes);
}

void dw_datagrams_fini(struct dw_datagrams *datagrams)
{
    if (datagrams->llp)
        datagrams->llp->ops->close(datagrams->llp);
    dw_auth_destroy(datagrams->seal.auth);
    dw_pages_unmap(datagrams->stage, DW_LLP_SLOT_BYTES);
    dw_pages_unmap(datagrams->arena.base, DW_ARENA_BYTES);
    dw_slab_fini(&datagrams->pool);
}

uint8_t *dw_arena_next(struct dw_arena *arena)
{
    if (arena->held) {
        /* Copies out of it are faster where a receive call begins at a cache line. */
        uint32_t used = (arena->used + arena->last + 63) & ~63u;
        if (used + DW_LLP_SLOT_BYTES > DW_ARENA_BYTES)
            return NULL;
        arena->used = used;
        arena->held = false;
    }
    return arena->base + arena->used;
}

static void arena_on_received(struct dw_arena *arena, uint32_t bytes)
{
    const uint32_t end = arena->used + bytes;
    arena->last = bytes;
    if (arena->most < end)
        arena->most = end;
    if (arena->touched < end)
        arena->touched = end;
}

/* What one receive call fills is used all the time. */
static bool arena_trim(struct dw_arena *arena)
{
    uint32_t keep = arena->most < DW_LLP_SLOT_BYTES ? DW_LLP_SLOT_BYTES : arena->most;
    keep = (keep + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    if (arena->touched > keep) {
        dw_pages_drop(arena->base + keep, arena->touched - keep);
        arena->touched = keep;
    }
    arena->most = arena->used + arena->last;
    return arena->touched > DW_LLP_SLOT_BYTES;
}

bool dw_datagrams_trim(struct dw_datagrams *datagrams)
{
    bool more = dw_slab_trim(&datagrams->pool);
    if (datagrams->seal.auth)
        more |= dw_auth_trim(datagrams->seal.auth);
    return arena_trim(&datagrams->arena) || more;
}

/* ---- the entrance and the exit ---- */

/* A STATUS is shorter, data mostly longer. */
#define ECN_MIN_BYTES 512

/* Whether a codec has found no error; if it has, it is counted. */
static bool is_well_formed(struct diwarp_counters *counters, int error)
{
    if (error)
        *(error == -EPROTONOSUPPORT ? &counters->drop_version
          : error == -EBADMSG       ? &counters->drop_short
                                    : &counters->drop_header) += 1;
    return !error;
}

bool dw_datagrams_open(struct dw_datagrams *datagrams, struct dw_arrival *arrival)
{
    struct diwarp_counters *counters = &datagrams->counters;
    const struct dw_seal *seal = &datagrams->seal;
    uint64_t *wrong = NULL;
    if (seal->auth)
        wrong = dw_auth_open(seal->auth, counters, &arrival->header, arrival->buf, arrival->len);
    else if (!dw_open(seal, arrival->buf, arrival->len, NULL, 0, false))
        wrong = &counters->drop_crc;
    if (wrong) {
        ++*wrong;
        return false;
    }
    const uint8_t type = arrival->header.type;
    arrival->segments = arrival->buf + DW_LLP_HEADER_BYTES;
    arrival->segments_len = arrival->len - DW_LLP_HEADER_BYTES - seal->trailer_bytes;
    int rc = 0;
    if (arrival->header.flags & DW_LLP_INTRO) {
        rc = dw_intro_get(&arrival->intro_read, arrival->segments, arrival->segments_len);
        arrival->intro = &arrival->intro_read;
        arrival->segments += DW_INTRO_BYTES;
        arrival->segments_len -= DW_INTRO_BYTES;
    }
    if (!rc && arrival->segments_len && (type == DW_LLP_ACK || type == DW_LLP_PROBE_REPLY))
        rc = -EBADMSG;
    return is_well_formed(counters, rc);
}

static void on_other_token(struct dw_datagrams *datagrams, uint64_t token, const uint8_t *buf,
                           uint32_t len)
{
    struct dw_llp *llp = datagrams->llp;
    if (llp->ops->forward && llp->ops->forward(llp, token, buf, len))
        datagrams->counters.forwarded++;
    else
        datagrams->counters.drop_token++;
}

/* Of a group only what is meant for all its members: a message of UD. */
static uint64_t *check_of_group(struct diwarp_counters *counters, const struct dw_arrival *arrival)
{
    const struct dw_llp_header *header = &arrival->header;
    if (header->token != arrival->group->token)
        return &counters->drop_token;
    return header->type == DW_LLP_UD && header->dst_qpn == DW_QPN_GROUP ? NULL
                                                                        : &counters->drop_header;
}

static void on_datagram(struct dw_datagrams *datagrams, struct dw_arrival *arrival, uint64_t now_ns)
{
    struct diwarp_counters *counters = &datagrams->counters;
    counters->rx_datagrams++;
    counters->rx_bytes += arrival->len;
    counters->rx_marked += arrival->marked;
    if (!is_well_formed(counters, dw_llp_header_get(&arrival->header, arrival->buf, arrival->len)))
        return;
    const uint8_t seal = arrival->header.flags & (DW_LLP_NO_CRC | DW_LLP_SEALED);
    uint64_t *wrong = arrival->group ? check_of_group(counters, arrival) : NULL;
    if (wrong)
        ++*wrong;
    else if (!arrival->group && arrival->header.token != datagrams->token)
        on_other_token(datagrams, arrival->header.token, arrival->buf, arrival->len);
    else if (seal != datagrams->seal.flags) /* one flipped bit must not switch the check off */
        *((seal ^ datagrams->seal.flags) & DW_LLP_SEALED ? &counters->drop_auth
                                                         : &counters->drop_crc) += 1;
    else
        datagrams->take(datagrams, arrival, now_ns);
}

/* One receive call. */
static bool receive(struct dw_datagrams *datagrams, struct dw_llp *llp,
                    const struct dw_group_socket *group, uint8_t *place, uint64_t now_ns)
{
    uint32_t each;
    const int got = llp->ops->recv(llp, place, &each);
    if (got < 0)
        return false;
    const uint32_t bytes = (uint32_t)got;
    if (bytes > DW_LLP_SLOT_BYTES) {
        datagrams->counters.drop_truncated++;
        return true;
    }
    if (place != datagrams->stage)
        arena_on_received(&datagrams->arena, bytes);
    uint16_t train = (uint16_t)(bytes ? (bytes + each - 1) / each : 1);
    uint32_t at = 0;
    do { /* an empty datagram is one, too */
        struct dw_arrival arrival = {.buf = place + at,
                                     .len = bytes - at < each ? bytes - at : each,
                                     .train = train,
                                     .marked = llp->marked,
                                     .group = group};
        on_datagram(datagrams, &arrival, now_ns);
        train = 0;
        at += each;
    } while (at < bytes);
    return true;
}

bool dw_datagrams_receive(struct dw_datagrams *datagrams, uint8_t *place, uint64_t now_ns)
{
    return receive(datagrams, datagrams->llp, NULL, place, now_ns);
}

bool dw_datagrams_receive_group(struct dw_datagrams *datagrams, const struct dw_group_socket *group,
                                uint64_t now_ns)
{
    return receive(datagrams, group->llp, group, datagrams->stage, now_ns);
}

int dw_datagrams_send(struct dw_datagrams *datagrams, struct dw_llp_train *train)
{
    train->total_bytes = 0;
    for (unsigned i = 0; i < train->iov_count; i++)
        train->total_bytes += (uint32_t)train->iov[i].iov_len;
    /* Data of records, not a STATUS: their sink shrinks its window for a mark. */
    const uint8_t type = *(const uint8_t *)train->iov[0].iov_base & 15;
    train->ecn = type == DW_LLP_RECORD && train->total_bytes >= ECN_MIN_BYTES;
    return datagrams->llp->ops->send(datagrams->llp, train);
}
