/* SPDX-License-Identifier: BSD-3-Clause */
/* The entrance checks, in this order (WIRE.md section 7): length, version, header, token, seal,
 * intro. A failed check is a counted drop, nothing else. */
#include "common/datagram/datagrams.h"

#include <errno.h>

#include "common/base/buffers.h"

#define PAGE_BYTES 4096u
_Static_assert(DW_ARENA_BYTES % PAGE_BYTES == 0 && DW_ARENA_BYTES >= 2 * DW_LLP_SLOT_BYTES,
               "whole pages, room for one receive call and what is held of another");

int dw_datagrams_init(struct dw_datagrams *datagrams, uint32_t pool_bytes)
{
    datagrams->pool.max_bytes = pool_bytes;
    datagrams->stage = dw_pages_map(DW_LLP_SLOT_BYTES);
    datagrams->arena.base = dw_pages_map(DW_ARENA_BYTES);
    return datagrams->stage && datagrams->arena.base ? 0 : -ENOMEM;
}

void dw_datagrams_fini(struct dw_datagrams *datagrams)
{
    if (datagrams->llp)
        datagrams->llp->ops->close(datagrams->llp);
    dw_pages_unmap(datagrams->stage, DW_LLP_SLOT_BYTES);
    dw_pages_unmap(datagrams->arena.base, DW_ARENA_BYTES);
    dw_buffers_fini(&datagrams->pool);
}

/* ---- the arena ---- */

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
    bool more = dw_buffers_trim(&datagrams->pool);
    return arena_trim(&datagrams->arena) || more;
}

/* ---- the entrance and the exit ---- */

static void count_malformed(struct diwarp_counters *counters, int error)
{
    error == -EPROTONOSUPPORT ? counters->drop_version++
    : error == -EBADMSG       ? counters->drop_short++
                              : counters->drop_header++;
}

/* What lies between header and trailer; false: malformed, counted. */
static bool split(struct diwarp_counters *counters, struct dw_arrival *arrival,
                  struct dw_intro *intro)
{
    uint32_t lead = DW_LLP_HEADER_BYTES;
    const uint32_t end = arrival->len - DW_TRAILER_BYTES;
    if (arrival->header.flags & DW_LLP_INTRO) {
        int rc = dw_intro_get(intro, arrival->buf + lead, end - lead);
        if (rc) {
            count_malformed(counters, rc);
            return false;
        }
        arrival->intro = intro;
        lead += DW_INTRO_BYTES;
    }
    arrival->segments = arrival->buf + lead;
    arrival->segments_len = end - lead;
    if (end != lead &&
        (arrival->header.type == DW_LLP_ACK || arrival->header.type == DW_LLP_PROBE_REPLY)) {
        counters->drop_short++;
        return false;
    }
    return true;
}

static void on_datagram(struct dw_datagrams *datagrams, const uint8_t *buf, uint32_t len,
                        uint16_t train, uint64_t now_ns)
{
    struct diwarp_counters *counters = &datagrams->counters;
    struct dw_arrival arrival = {.buf = buf, .len = len, .train = train};
    struct dw_intro intro;
    counters->rx_datagrams++;
    counters->rx_bytes += len;
    int rc = dw_llp_header_get(&arrival.header, buf, len);
    if (rc) {
        count_malformed(counters, rc);
        return;
    }
    if (arrival.header.token != datagrams->token) {
        counters->drop_token++;
        return;
    }
    if (dw_open_may_copy(&datagrams->seal, &arrival.header) &&
        datagrams->taker->place(datagrams->taker_arg, &arrival, now_ns))
        return;
    if (!dw_open(&datagrams->seal, &arrival.header, buf, len)) {
        counters->drop_crc++;
        return;
    }
    if (split(counters, &arrival, &intro))
        datagrams->taker->take(datagrams->taker_arg, &arrival, now_ns);
}

bool dw_datagrams_receive(struct dw_datagrams *datagrams, uint8_t *place, uint64_t now_ns)
{
    struct dw_llp_slot slot = {.buf = place};
    if (!dw_llp_recv(datagrams->llp, &slot))
        return false;
    if (slot.truncated) {
        datagrams->counters.drop_truncated++;
        return true;
    }
    if (place != datagrams->stage)
        arena_on_received(&datagrams->arena, slot.bytes);
    const uint32_t each = slot.segment_bytes ? slot.segment_bytes : 1;
    uint16_t train = (uint16_t)(slot.bytes ? (slot.bytes + each - 1) / each : 1);
    uint32_t at = 0;
    do { /* an empty datagram is one, too */
        uint32_t left = slot.bytes - at;
        on_datagram(datagrams, slot.buf + at, left < slot.segment_bytes ? left : slot.segment_bytes,
                    train, now_ns);
        train = 0;
        at += slot.segment_bytes;
    } while (at < slot.bytes);
    return true;
}

int dw_datagrams_send(struct dw_datagrams *datagrams, const struct dw_llp_addr *to,
                      const struct iovec *iov, unsigned n, uint32_t segment, bool whole)
{
    struct dw_llp_train train = {
        .to = to, .iov = iov, .iov_count = n, .segment_bytes = segment, .whole = whole};
    for (unsigned i = 0; i < n; i++)
        train.total_bytes += (uint32_t)iov[i].iov_len;
    return dw_llp_send(datagrams->llp, &train);
}
