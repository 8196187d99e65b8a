/* SPDX-License-Identifier: BSD-3-Clause */
/* RESET and PROOF: cookies that need no memory, and who takes whose place. */
#include "common/rd/identity.h"

#include "common/base/siphash.h"
#include "common/rd/transmit.h"
#include "common/rnic/device.h"
#include "common/wire/bytes.h"

/* Handles learnt from datagrams whose sources nobody has vouched for: their address may be forged.
 * Once there are so many, a further source waits a round trip longer for its first message. */
#define UNPROVEN_MAX 1024
/* RESETs in a millisecond: each is shorter than what it answers, but takes a send call. */
#define RESETS_PER_MS 32
#define RESET_NS      1000000
/* A cookie is good for 8.6 to 17 s. */
#define COOKIE_PERIOD_SHIFT 33
/* A RESET answers one of our last so many datagrams. */
#define RECENT_DATAGRAMS 65536

/* Nobody can tell it who has not received it: see dw_device_random(). */
static uint64_t cookie_of(const struct diwarp_qp *qp, const struct dw_llp_header *header,
                          const struct dw_intro *intro, uint64_t period)
{
    const uint64_t words[] = {
        (uint64_t)header->job << 32 | header->rank,
        (uint64_t)header->incarnation << 32 | (uint32_t)intro->family << 16 | intro->port,
        dw_get_be64(intro->ip),
        dw_get_be64(intro->ip + 8),
        intro->token,
        period,
    };
    uint64_t cookie = qp->token;
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        cookie = dw_siphash(qp->device->random_key, cookie ^ words[i]);
    return cookie;
}

/* Of a name whose address the application gave, only a process of the same host may be another. */
static bool may_be(const struct diwarp_ah *ah, const struct dw_intro *intro)
{
    struct dw_llp_addr addr = {.family = intro->family};
    memcpy(addr.ip, intro->ip, sizeof addr.ip);
    return !ah || !ah->given || dw_llp_same_host(&ah->addr, &addr);
}

static void send_reset(struct diwarp_qp *qp, const struct dw_llp_header *header,
                       const struct dw_intro *intro, uint64_t now_ns)
{
    if (now_ns >= qp->reset_end_ns) {
        qp->reset_end_ns = now_ns + RESET_NS;
        qp->resets = 0;
    }
    if (qp->resets == RESETS_PER_MS)
        return;
    qp->resets++;
    const struct dw_llp_header reset = {
        .type = DW_LLP_RESET,
        .flags = qp->crc ? 0 : DW_LLP_NO_CRC,
        .incarnation = qp->incarnation,
        .token = intro->token,
        .job = qp->device->attr.name.job,
        .rank = qp->device->attr.name.rank,
        .number = ++qp->number,
        .timestamp = dw_timestamp(qp->ran_ns),
        .timestamp_echo = header->timestamp,
    };
    struct dw_llp_addr to = {.family = intro->family, .port = intro->port};
    memcpy(to.ip, intro->ip, sizeof to.ip);
    uint8_t buf[DW_LLP_HEADER_BYTES + DW_RESET_BYTES + DW_CRC_BYTES];
    dw_llp_header_put(buf, &reset);
    dw_put_be64(buf + DW_LLP_HEADER_BYTES, header->number);
    dw_put_be64(buf + DW_LLP_HEADER_BYTES + 8,
                cookie_of(qp, header, intro, now_ns >> COOKIE_PERIOD_SHIFT));
    struct iovec iov = {.iov_base = buf, .iov_len = sizeof buf};
    (void)dw_put_trailer(qp, buf, sizeof buf - DW_CRC_BYTES);
    /* A full socket loses it: the source will ask again. */
    (void)dw_llp_send(qp->llp, &(struct dw_llp_train){.to = &to,
                                                      .iov = &iov,
                                                      .iov_count = 1,
                                                      .total_bytes = sizeof buf,
                                                      .segment_bytes = sizeof buf});
    qp->counters.tx_resets++;
}

struct dw_peer *dw_identity_of(struct diwarp_qp *qp, const struct dw_llp_header *header,
                               const struct dw_intro *intro, uint64_t now_ns)
{
    const struct diwarp_name name = {.job = header->job, .rank = header->rank};
    struct diwarp_ah *ah = dw_ah_find(qp, name);
    if (!ah && intro && qp->unproven < UNPROVEN_MAX) {
        ah = dw_ah_from_intro(qp, name, header->incarnation, intro);
        if (ah)
            dw_ah_doubt(ah);
    }
    const bool same = ah && ah->incarnation == header->incarnation;
    struct dw_peer *peer = same && !ah->gone ? dw_peer_of_ah(ah) : NULL;
    if (!peer)
        qp->counters.drop_source++;
    if (!same && intro && may_be(ah, intro))
        send_reset(qp, header, intro, now_ns);
    return peer;
}

void dw_identity_on_reset(struct diwarp_qp *qp, const struct dw_llp_header *header,
                          const uint8_t *body, uint32_t len, uint64_t now_ns)
{
    const struct diwarp_name name = {.job = header->job, .rank = header->rank};
    struct dw_peer *peer = dw_peer_find(qp, name);
    if (len != DW_RESET_BYTES) {
        qp->counters.drop_short++;
        return;
    }
    /* Who has heard us does not ask: it would be an old one, or forged. */
    if (!peer || peer->ah->gone || peer->ah->heard ||
        peer->ah->incarnation != header->incarnation ||
        peer->number - dw_get_be64(body) >= RECENT_DATAGRAMS) {
        qp->counters.drop_source++;
        return;
    }
    dw_transmit_proof(peer, body + 8);
    /* All that was sent so far was dropped. */
    dw_sendwin_on_room(&peer->sendwin);
    dw_transmit_lost(peer, now_ns);
}

static bool proves(const struct diwarp_qp *qp, const struct dw_llp_header *header,
                   const struct dw_intro *intro, uint64_t cookie, uint64_t now_ns)
{
    const uint64_t period = now_ns >> COOKIE_PERIOD_SHIFT;
    return cookie == cookie_of(qp, header, intro, period) ||
           cookie == cookie_of(qp, header, intro, period - 1);
}

struct dw_peer *dw_identity_on_proof(struct diwarp_qp *qp, const struct dw_llp_header *header,
                                     const struct dw_intro *intro, const uint8_t *body,
                                     uint32_t len, uint64_t now_ns)
{
    const struct diwarp_name name = {.job = header->job, .rank = header->rank};
    struct diwarp_ah *ah = dw_ah_find(qp, name);
    if (!intro || len != DW_PROOF_BYTES) {
        qp->counters.drop_short++;
        return NULL;
    }
    if (!may_be(ah, intro) || !proves(qp, header, intro, dw_get_be64(body), now_ns)) {
        qp->counters.drop_source++;
        return NULL;
    }
    if (!ah || ah->incarnation != header->incarnation) {
        if (ah)
            dw_peer_restart(ah, header->incarnation);
        ah = dw_ah_from_intro(qp, name, header->incarnation, intro);
    }
    if (ah)
        dw_ah_vouch(ah);
    struct dw_peer *peer = ah && !ah->gone ? dw_peer_of_ah(ah) : NULL;
    if (!peer)
        qp->counters.drop_source++;
    return peer;
}
