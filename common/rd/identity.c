/* SPDX-License-Identifier: BSD-3-Clause */
/* RESET and PROOF: cookies that need no memory, and who takes whose place; learnt handles. */
#include "common/rd/parts.h"

#include <string.h>

#include "common/base/siphash.h"
#include "common/wire/bytes.h"

/* Handles learnt from datagrams whose sources nobody has vouched for: their address may be forged.
 * Once there are so many, a further source waits a round trip longer for its first message. */
#define UNPROVEN_MAX 1024
/* RESETs in an epoch: each is shorter than what it answers, but takes a send call. */
#define RESETS_MAX 32
/* A cookie is good for 8.6 to 17 s. */
#define COOKIE_PERIOD_SHIFT 33
/* Numbers that are further apart are not of one sequence; nor does a RESET answer a datagram that
 * is older. */
#define STEP_MAX 65536u

/* Looks at a handle in the time after which it is forgotten; one of a source that has only proved
 * to be there is after one: with twice as many, more who lose what they say first prove it again.
 */
#define LOOKS_PER_LIFE 8u
/* Handles that a round looks at before it pauses: more hold the lock for longer, fewer wake a
 * sleeping process more often. */
#define LOOKS_AT_ONCE 1024
#define PAUSE_NS      10000000

/* ---- handles that were made of datagrams ---- */

static void look(struct dw_rd *rd, struct dw_handle *handle, uint64_t now_ns)
{
    const struct diwarp_device *device = rd->port->device;
    const struct dw_met *met = dw_handle_met(handle);
    const bool gone = handle->state == DW_PEER_GONE;
    uint64_t limit_ns = device->env.forget_ns / (met->spoken ? 1 : LOOKS_PER_LIFE);
    if (gone) /* a peer that took us for gone, as we took it, would send again what has arrived */
        limit_ns = device->attr.peer_timeout_ns ? device->attr.peer_timeout_ns : UINT64_MAX;
    rd->strangers = true;
    if (met->peer || dw_silence_ns(rd, met->rested) < limit_ns)
        return;
    if (gone || met->confirmed) {
        rd->forgot = true;
        dw_handle_forget(handle);
        return;
    }
    /* A peer that waits to learn that we have all it sent would send it again to one that has
     * forgotten it: it is asked first. */
    struct dw_peer *peer = dw_peer_wake(handle);
    if (!peer)
        return;
    peer->confirming = true;
    dw_probe(peer, now_ns);
    dw_timers_watch(peer);
}

uint64_t dw_forget(struct dw_rd *rd, uint64_t now_ns)
{
    for (unsigned looks = 0; rd->strangers || rd->looked_at; looks++) {
        if (!rd->looked_at && now_ns < rd->look_ns)
            return rd->look_ns;
        if (looks == LOOKS_AT_ONCE)
            return now_ns + PAUSE_NS;
        if (!rd->looked_at) {
            rd->strangers = false;
            rd->look_ns = now_ns + rd->port->device->env.forget_ns / LOOKS_PER_LIFE;
        }
        struct dw_handle *handle = dw_cells_next(&rd->handles.ahs.cells, &rd->looked_at);
        if (handle && handle->met && !handle->given)
            look(rd, handle, now_ns);
    }
    return DW_NEVER;
}

/* ---- cookies ---- */

static struct diwarp_name name_of(const struct dw_arrival *arrival)
{
    return (struct diwarp_name){.job = arrival->header.job, .rank = arrival->header.rank};
}

/* What a PROOF would change of what is known: who has the name, and which DATA is next. So one that
 * comes late or again, when that has changed already, is none; nor are two that cross, after which
 * each end would have the numbers that the other had. */
static uint64_t replaced(const struct dw_handle *handle, uint32_t incarnation)
{
    if (!handle)
        return 0;
    const uint64_t other = handle->ah.incarnation != incarnation ? handle->ah.incarnation : 0;
    const struct dw_met *met = handle->met ? dw_handle_met(handle) : NULL;
    if (!met)
        return other << 32;
    const uint64_t proofs = met->peer ? met->peer->proofs : 0;
    return (other << 32 | (met->peer ? met->peer->recvwin.ack : met->ack)) ^ proofs << 56;
}

/* Of what a datagram and its intro say of the source. Nobody can tell it who has not received it:
 * see dw_device_random(). */
static uint64_t cookie_of(const struct dw_rd *rd, const struct dw_handle *handle,
                          const struct dw_arrival *arrival, uint64_t period)
{
    const uint8_t *intro = arrival->buf + DW_LLP_HEADER_BYTES;
    const uint64_t *key = rd->port->device->random_key;
    uint64_t cookie = rd->port->datagrams.token ^ dw_name_key(name_of(arrival));
    cookie = dw_siphash(key, cookie);
    cookie = dw_siphash(key, cookie ^ arrival->header.incarnation ^ (period << 32));
    cookie = dw_siphash(key, cookie ^ replaced(handle, arrival->header.incarnation));
    for (unsigned at = 0; at < DW_INTRO_BYTES; at += 8)
        cookie = dw_siphash(key, cookie ^ dw_get_be64(intro + at));
    return cookie;
}

/* Of a name whose address the application gave, only a process of the same host may be another,
 * by whichever of its interfaces. */
static bool may_be(const struct dw_handle *handle, const struct dw_intro *intro)
{
    struct dw_llp_addr addr = {.family = intro->family};
    memcpy(addr.ip, intro->ip, sizeof addr.ip);
    return !handle || !handle->given || !handle->ah.ways ||
           dw_ways_find(handle->ah.ways, &addr, 0) < handle->ah.ways->count;
}

static void send_reset(struct dw_rd *rd, const struct dw_handle *handle,
                       const struct dw_arrival *arrival, uint64_t now_ns)
{
    struct dw_datagrams *datagrams = &rd->port->datagrams;
    dw_rd_begin_epoch(rd, now_ns);
    if (rd->resets == RESETS_MAX)
        return;
    rd->resets++;
    const struct dw_process source = {.name = name_of(arrival),
                                      .incarnation = arrival->header.incarnation};
    const uint32_t bytes = DW_LLP_HEADER_BYTES + DW_RESET_BYTES;
    const struct dw_llp_header reset = {
        .type = DW_LLP_RESET,
        .flags = dw_seal_flags(&datagrams->seal, &source),
        .incarnation = datagrams->incarnation,
        .token = arrival->intro->token,
        .job = datagrams->name.job,
        .rank = datagrams->name.rank,
        .number = ++datagrams->number,
        .timestamp = (uint16_t)(rd->port->ran_ns >> DW_TIMESTAMP_SHIFT),
        .timestamp_echo = arrival->header.timestamp,
    };
    struct dw_llp_addr to = {.family = arrival->intro->family, .port = arrival->intro->port};
    uint8_t buf[DW_LLP_HEADER_BYTES + DW_RESET_BYTES + DW_TAG_BYTES];
    struct iovec iov = {.iov_base = buf, .iov_len = bytes + datagrams->seal.trailer_bytes};
    memcpy(to.ip, arrival->intro->ip, sizeof to.ip);
    dw_llp_header_put(buf, &reset);
    dw_put_be64(buf + DW_LLP_HEADER_BYTES, arrival->header.number);
    dw_put_be64(buf + DW_LLP_HEADER_BYTES + 8,
                cookie_of(rd, handle, arrival, now_ns >> COOKIE_PERIOD_SHIFT));
    dw_seal(&datagrams->seal, &source, buf, bytes, buf);
    /* A full socket loses it: the source will ask again. */
    const uint8_t flow = arrival->intro->flow;
    struct dw_llp_train train = {.to = &to,
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .segment_bytes = (uint32_t)iov.iov_len,
                                 .flow = flow < rd->port->device->attr.flows ? flow : 0};
    (void)dw_datagrams_send(datagrams, &train);
    rd->counters->tx_resets++;
}

/* A handle of what a datagram says of its source, unproven; NULL: no memory. */
static struct dw_handle *learn(struct dw_rd *rd, const struct dw_arrival *arrival)
{
    struct dw_handle *handle = dw_handle_get(&rd->handles, name_of(arrival));
    if (!handle)
        return NULL;
    handle->ah.incarnation = arrival->header.incarnation;
    dw_handle_set_proven(handle, false);
    if (dw_ah_set_route_by_intro(&handle->ah, arrival->intro))
        return handle;
    dw_handle_put(handle);
    return NULL;
}

/* Our numbers to it begin anywhere, and the peer has not said yet that it follows. */
static bool is_new_beginning(const struct dw_handle *handle)
{
    return handle->met && dw_handle_met(handle)->goes_on && !handle->heard;
}

static bool is_less(const struct dw_handle *handle)
{
    return dw_name_key(dw_ah_port(&handle->ah)->datagrams.name) < dw_name_key(handle->ah.name);
}

/* Which of two that do not follow each other tells the other to prove itself: not the one with a
 * new beginning; where both have one, the one whose name is less, once it is clear that the other
 * does not. The other one, once it has proved itself, lets one datagram pass: else both would ask,
 * and prove, in each round trip. */
static bool asks(const struct dw_handle *handle)
{
    struct dw_peer *peer = dw_handle_peer(handle);
    if (peer && peer->yields) {
        peer->yields = false;
        return false;
    }
    return !is_new_beginning(handle) || (peer && peer->backoff >= DW_OFTEN && is_less(handle));
}

/* The numbers of one that goes on are about those that are known here. */
static bool in_step(const struct dw_handle *handle, const struct dw_llp_header *header)
{
    const bool numbered = header->type == DW_LLP_DATA || header->type == DW_LLP_PROOF;
    if (!(header->flags & DW_LLP_GOES_ON) && !is_new_beginning(handle))
        return true;
    if (!handle->met)
        return false;
    const struct dw_met *met = dw_handle_met(handle);
    const struct dw_peer *peer = met->peer;
    const uint32_t next = peer ? peer->sendwin.next_psn : met->next_psn;
    const uint32_t ack = peer ? peer->recvwin.ack : met->ack;
    return next - header->ack < STEP_MAX &&
           (!numbered || header->psn - ack + STEP_MAX < 2 * STEP_MAX);
}

/* Whether it is the process that is meant: any, where the application did not know which. */
static bool is_meant(const struct dw_handle *handle, uint32_t incarnation)
{
    return handle->ah.incarnation == incarnation || !handle->ah.incarnation;
}

/* The peer of a handle; NULL: no memory, or it is gone. It begins with the numbers of `first` if we
 * are new to it, or if it does not follow those that are known. */
static struct dw_peer *take(struct dw_handle *handle, bool follows,
                            const struct dw_llp_header *first)
{
    const bool met = handle->state != DW_PEER_UNMET;
    struct dw_peer *peer = dw_peer_wake(handle);
    if (!peer)
        dw_handle_put(handle);
    else if (!met || !follows)
        dw_peer_adopt(peer, first);
    return peer;
}

static struct dw_peer *on_datagram(struct dw_rd *rd, struct dw_handle *handle,
                                   const struct dw_arrival *arrival, uint64_t now_ns)
{
    const bool goes_on = arrival->header.flags & DW_LLP_GOES_ON;
    const uint32_t serial = rd->port->device->env.first_serial;
    const struct dw_llp_header first = {.psn = serial, .ack = serial};
    if (!handle && arrival->intro && !goes_on && rd->handles.unproven < UNPROVEN_MAX)
        handle = learn(rd, arrival);
    const uint32_t incarnation = arrival->header.incarnation;
    const bool same = handle && is_meant(handle, incarnation);
    if (same && in_step(handle, &arrival->header)) {
        handle->ah.incarnation = incarnation;
        return take(handle, true, &first);
    }
    if (arrival->intro && (!same || asks(handle)) && may_be(handle, arrival->intro))
        send_reset(rd, handle, arrival, now_ns);
    return NULL;
}

/* What we are asked to prove, if it answers us. */
static bool on_reset(struct dw_handle *handle, const struct dw_arrival *arrival, uint64_t now_ns)
{
    struct dw_peer *peer = handle && handle->state == DW_PEER_AWAKE ? dw_handle_peer(handle) : NULL;
    /* Who has heard us does not ask: it would be an old one, or forged. */
    if (!peer || dw_peer_knows_us(peer) || !is_meant(handle, arrival->header.incarnation) ||
        peer->number - dw_get_be64(arrival->segments) >= STEP_MAX)
        return false;
    handle->ah.incarnation = arrival->header.incarnation;
    /* It may have had what it does not know of any more. */
    if (peer->sendwin.count && dw_peer_is_in_doubt(peer, now_ns)) {
        dw_peer_doom(peer, DIWARP_GONE_RESTARTED);
    } else if (!dw_control_prove(peer, arrival->segments + 8)) {
        /* All that was sent so far was dropped. Where the proof finds the socket full, that waits:
         * it would fill it again for the next one, too. The RESET that answers our next probe finds
         * it empty. */
        peer->proofs++;
        peer->yields = !is_less(handle);
        (void)dw_sendwin_on_probe_reply(&peer->sendwin, UINT64_MAX);
        dw_transmit_lost(peer, now_ns);
    }
    return true;
}

/* One with another incarnation takes the place of the process before it. */
static struct dw_peer *on_proof(struct dw_rd *rd, struct dw_handle *handle,
                                const struct dw_arrival *arrival, uint64_t now_ns)
{
    const uint32_t incarnation = arrival->header.incarnation;
    const uint64_t cookie = dw_get_be64(arrival->segments), period = now_ns >> COOKIE_PERIOD_SHIFT;
    if (!may_be(handle, arrival->intro) || (cookie != cookie_of(rd, handle, arrival, period) &&
                                            cookie != cookie_of(rd, handle, arrival, period - 1)))
        return NULL;
    if (!handle || !is_meant(handle, incarnation)) {
        if (handle)
            dw_handle_restart(handle, incarnation);
        if (handle && handle->state != DW_PEER_UNMET)
            return NULL; /* no memory to end the one before */
        handle = learn(rd, arrival);
    }
    if (!handle)
        return NULL;
    handle->ah.incarnation = incarnation;
    dw_handle_set_proven(handle, true);
    return take(handle, in_step(handle, &arrival->header), &arrival->header);
}

struct dw_peer *dw_identity_of(struct dw_rd *rd, const struct dw_arrival *arrival, uint64_t now_ns)
{
    const bool reset = arrival->header.type == DW_LLP_RESET;
    const bool proof = arrival->header.type == DW_LLP_PROOF;
    struct dw_handle *handle = dw_handle_find(&rd->handles, name_of(arrival));
    struct dw_peer *peer = NULL;
    if ((reset && arrival->segments_len != DW_RESET_BYTES) ||
        (proof && (!arrival->intro || arrival->segments_len != DW_PROOF_BYTES))) {
        rd->counters->drop_short++;
        return NULL;
    }
    if (reset && on_reset(handle, arrival, now_ns))
        return NULL;
    if (!reset)
        peer = (proof ? on_proof : on_datagram)(rd, handle, arrival, now_ns);
    rd->counters->drop_source += !peer;
    return peer;
}
