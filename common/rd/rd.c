/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of a peer, and the lists of the service that it is in. */
#include "common/rd/rd.h"

#include <assert.h>

void dw_handle_set_state(struct dw_handle *handle, enum dw_peer_state state)
{
    static const bool may_follow[DW_PEER_STATES][DW_PEER_STATES] = {
        [DW_PEER_UNMET] = {[DW_PEER_AWAKE] = true},
        [DW_PEER_AWAKE] = {[DW_PEER_RESTING] = true, [DW_PEER_DOOMED] = true},
        [DW_PEER_RESTING] = {[DW_PEER_AWAKE] = true},
        [DW_PEER_DOOMED] = {[DW_PEER_GONE] = true},
        [DW_PEER_GONE] = {[DW_PEER_UNMET] = true}, /* another process has its name */
    };
    assert(may_follow[handle->state][state]);
    handle->state = (uint8_t)state;
}

void dw_peer_doom(struct dw_peer *peer, enum diwarp_gone why)
{
    if (!dw_peer_is_live(peer))
        return;
    dw_handle_set_state(peer->handle, DW_PEER_DOOMED);
    peer->doom = (uint8_t)why;
    dw_list_append(&peer->rd->doomed, &peer->doomed_link);
}

uint64_t dw_peer_rto_ns(const struct dw_peer *peer, unsigned backoff)
{
    return dw_rtt_rto_ns(&peer->handle->rtt, peer->rd->port->device->attr.rto_min_ns, backoff);
}

void dw_peer_look_again(struct dw_peer *peer)
{
    peer->rd->starved = false;
    if (!dw_list_linked(&peer->flush_link))
        dw_list_append(&peer->rd->flush, &peer->flush_link);
}

void dw_peer_ack_soon(struct dw_peer *peer)
{
    if (!dw_list_linked(&peer->ack_link))
        dw_list_append(&peer->rd->ack, &peer->ack_link);
}
