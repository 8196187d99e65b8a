/* SPDX-License-Identifier: BSD-3-Clause */
/* The path to a peer: its MTU, and probes in pairs, one as large as what does not get through. */
#include "common/rd/path.h"

#include "common/record/rdma.h"
#include "common/rd/transmit.h"

/* In a probe's PSN, beside its time: it is one of a pair. */
#define PADDED 0x40000000u
#define BARE   0x80000000u
/* What was sent again, or asked for again, so often is doubtful. */
#define STUCK_RESENDS 3
#define STUCK_ASKED   3
#define ASKED_MAX     7
/* Loss alone does not take the larger one of so many pairs in a row. */
#define PAIRS_LOST_MIN 16
/* What every path lets through, in a packet of IPv4. */
#define ALWAYS_PASSES_BYTES (DW_MTU_MIN_BYTES - 28)

/* Never longer again: the kernel forgets what it was told, and tries, after ten minutes. */
static void narrow(struct diwarp_ah *ah, uint32_t datagram_max_bytes)
{
    if (ah->datagram_max_bytes <= datagram_max_bytes)
        return;
    ah->datagram_max_bytes = (uint16_t)datagram_max_bytes;
    ah->qp->counters.paths_narrowed++;
    if (ah->peer)
        dw_peer_on_narrowed(ah->peer);
}

void dw_path_on_mtu(struct diwarp_qp *qp, const struct dw_llp_addr *to, uint32_t mtu_bytes)
{
    if (mtu_bytes < DW_MTU_MIN_BYTES)
        mtu_bytes = DW_MTU_MIN_BYTES;
    const uint32_t bytes = dw_datagram_max_bytes(qp->device, to->family, mtu_bytes);
    struct diwarp_ah *ah;
    for (size_t slot = 0; (ah = dw_map_next(&qp->ahs, &slot));) {
        if (dw_llp_same_host(&ah->addr, to))
            narrow(ah, bytes);
    }
}

void dw_path_on_first_segment(struct dw_peer *peer, uint32_t payload_bytes)
{
    const uint32_t least = DW_MTU_MIN_BYTES - 48;
    const uint32_t bytes =
        payload_bytes + peer->ah->datagram_max_bytes - dw_record_payload_bytes(peer);
    narrow(peer->ah, bytes > least ? bytes : least);
}

static uint32_t largest_of_data(const struct dw_peer *peer)
{
    if (!peer->sendwin.count)
        return 0;
    const struct dw_datagram *oldest =
        dw_container(peer->sendwin.unacked.next, struct dw_datagram, tx.link);
    return oldest->tx.resends >= STUCK_RESENDS ? oldest->bytes + DW_CRC_BYTES : 0;
}

static uint32_t largest_of_records(const struct dw_peer *peer)
{
    const uint32_t full = dw_record_payload_bytes(peer);
    uint32_t most = 0;
    if (peer->asked_again < STUCK_ASKED)
        return 0;
    dw_list_foreach (it, &peer->sources) {
        const struct dw_source *source = dw_container(it, struct dw_source, peer_link);
        if (source->record.total > most)
            most = source->record.total;
        if (most >= full)
            break;
    }
    if (!most)
        return 0;
    return (most < full ? most : full) + DW_LLP_HEADER_BYTES + DW_RECORD_SEGMENT_BYTES +
           DW_CRC_BYTES;
}

uint32_t dw_path_stuck_bytes(const struct dw_peer *peer)
{
    const uint32_t data = largest_of_data(peer), records = largest_of_records(peer);
    const uint32_t bytes = data > records ? data : records;
    return bytes > ALWAYS_PASSES_BYTES ? bytes : 0;
}

bool dw_path_pair_is_due(const struct dw_peer *peer, uint64_t now_ns)
{
    /* One that is silent says nothing of the path, and has to read them all one day. */
    return now_ns / DW_PATH_PAIR_NS != peer->probe_sent_ns / DW_PATH_PAIR_NS &&
           peer->heard_ns >= peer->probe_sent_ns && dw_path_stuck_bytes(peer);
}

/* The padded one first: on a path that keeps order its answer comes before the other's. A full
 * socket takes neither; where only the padded one is refused, the path is narrow in this host. */
void dw_path_send_pair(struct dw_peer *peer, uint32_t clock)
{
    dw_transmit_padded_probe(peer, clock | PADDED, dw_path_stuck_bytes(peer));
    (void)dw_transmit_bare(peer, DW_LLP_PROBE, clock | BARE);
    if (peer->asked_again)
        peer->asked_again--;
}

void dw_path_on_probe_reply(struct dw_peer *peer, uint32_t psn)
{
    if (psn & PADDED)
        peer->pairs_lost = 0;
    else if ((psn & BARE) && peer->pairs_lost < UINT16_MAX)
        peer->pairs_lost++;
}

void dw_path_on_acked(struct dw_peer *peer, const struct dw_list *acked)
{
    if (!peer->pairs_lost)
        return;
    dw_list_foreach (it, acked)
        if (dw_container(it, struct dw_datagram, tx.link)->bytes > ALWAYS_PASSES_BYTES)
            peer->pairs_lost = 0;
}

void dw_path_on_record_progress(struct dw_peer *peer)
{
    peer->pairs_lost = 0;
}

void dw_path_on_asked_again(struct dw_peer *peer)
{
    if (peer->asked_again < ASKED_MAX)
        peer->asked_again++;
    if (peer->asked_again >= STUCK_ASKED)
        dw_peer_wake(peer, peer->heard_ns + DW_PATH_PAIR_NS);
}

bool dw_path_is_too_narrow(struct dw_peer *peer)
{
    const uint64_t limit_ns = peer->qp->device->attr.peer_timeout_ns;
    if (!dw_path_stuck_bytes(peer))
        peer->pairs_lost = 0;
    return limit_ns && peer->pairs_lost >= PAIRS_LOST_MIN &&
           (peer->pairs_lost * DW_PATH_PAIR_NS > limit_ns || peer->pairs_lost == UINT16_MAX);
}
