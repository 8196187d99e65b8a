/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of the service that a peer is in. */
#include "common/rd/rd.h"

void dw_peer_doom(struct dw_peer *peer, enum diwarp_gone why)
{
    if (!dw_peer_is_live(peer))
        return;
    dw_handle_set_state(dw_handle_of(peer), DW_PEER_DOOMED);
    peer->doom = why & 15u;
    dw_list_remove(&peer->flush_link);
    dw_list_append(&dw_rd_of(peer)->doomed, &peer->flush_link);
}

uint64_t dw_peer_rto_ns(const struct dw_peer *peer, unsigned backoff)
{
    return dw_rtt_rto_ns(&dw_met_of(peer)->rtt, dw_rd_of(peer)->port->device->attr.rto_min_ns,
                         backoff);
}

void dw_peer_look_again(struct dw_peer *peer)
{
    dw_rd_of(peer)->starved = false;
    if (!dw_list_linked(&peer->flush_link))
        dw_list_append(&dw_rd_of(peer)->flush, &peer->flush_link);
}

static void list_for_ack(struct dw_peer *peer, bool ack_soon, bool told_full)
{
    struct dw_rd *rd = dw_rd_of(peer);
    peer->ack_soon = ack_soon;
    peer->told_full = told_full;
    dw_list_remove(&peer->ack_link);
    if (ack_soon || told_full)
        dw_list_append(ack_soon ? &rd->ack : &rd->full, &peer->ack_link);
}

void dw_peer_ack_soon(struct dw_peer *peer)
{
    if (!peer->ack_soon)
        dw_peer_ack_last(peer);
}

void dw_peer_ack_last(struct dw_peer *peer)
{
    list_for_ack(peer, true, peer->told_full);
}

void dw_peer_on_told(struct dw_peer *peer, bool full)
{
    list_for_ack(peer, false, full);
    peer->ack_owed = 0;
    peer->ack_owed_bytes = 0;
    dw_port_trim_later(dw_rd_of(peer)->port, dw_rd_of(peer)->port->ran_ns);
}

void dw_peer_tell_of_room(struct dw_peer *peer)
{
    if (!peer->told_full)
        list_for_ack(peer, peer->ack_soon, true);
}

void dw_peer_join_path(struct dw_peer *peer, struct dw_path *path)
{
    peer->next_on_path = path->awake;
    path->awake = dw_handle_of(peer)->met;
}

void dw_peer_leave_path(struct dw_peer *peer, struct dw_path *path)
{
    uint32_t *link = &path->awake;
    for (struct dw_peer *it; (it = dw_peer_on_path(dw_rd_of(peer), *link)) != peer;)
        link = &it->next_on_path;
    *link = peer->next_on_path;
}
