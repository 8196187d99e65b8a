/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts of peers. */
#include "common/rd/parts.h"

#include <errno.h>
#include <stdlib.h>

/* Processes spoken with that a QP is forgotten by before others have the lock, 0.1 ms; with half of
 * them the pauses take as long. */
#define SWEEP_LOOKS 1024

/* ---- taking and giving back ---- */

static int meet(struct dw_handle *handle)
{
    struct dw_rd *rd = dw_rd_of_handle(handle);
    struct diwarp_device *device = rd->port->device;
    struct dw_met *met = dw_cells_get(&rd->handles.met);
    if (!met)
        return -ENOMEM;
    handle->met = dw_cells_index(met) & ((1u << DW_CELLS_INDEX_BITS) - 1);
    /* A process that has forgotten others may have forgotten this peer, which takes numbers far
     * from those that it remembers for what they are: a new beginning. */
    const uint32_t first =
        rd->forgot ? (uint32_t)dw_device_random(device) : device->env.first_serial;
    *met = (struct dw_met){
        .next_psn = first,
        .ack = first,
        .send_msn = first,
        .credit_kib = DW_FIRST_BYTES >> 10,
        .ssthresh_datagrams = (uint16_t)device->attr.send_window_datagrams,
        .goes_on = rd->forgot,
        .confirmed = true,
    };
    rd->refused_write = 0; /* it may have the keys of one before it */
    rd->strangers |= !handle->given;
    handle->ah.fixed = true;
    return 0;
}

static void init(struct dw_peer *peer, struct dw_rd *rd, struct dw_handle *handle)
{
    const struct diwarp_device_attr *attr = &rd->port->device->attr;
    const struct dw_met *met = dw_handle_met(handle);
    peer->records.records = &rd->records;
    peer->records.ah = &handle->ah;
    peer->records.index = handle->met;
    dw_list_init(&peer->records.ends);
    dw_list_init(&peer->records.want);
    dw_list_init(&peer->assemblies);
    peer->records.contact.heard_ns = dw_device_now_ns(rd->port->device);
    peer->records.win = dw_recordwin_from(met->recordwin);
    peer->number = rd->port->datagrams.number;
    peer->timer.fire = dw_probe_on_timer;
    peer->data_acked = met->confirmed;
    dw_sendwin_init(&peer->sendwin, met->next_psn, attr->send_window_datagrams,
                    (uint32_t)met->credit_kib << 10, met->ssthresh_datagrams,
                    dw_probe_cwnd_floor(handle), (uint32_t)attr->queue_delay_ns);
    peer->recvwin = (struct dw_recvwin){.ack = met->ack};
    dw_list_init(&peer->flush_link);
    dw_list_init(&peer->ack_link);
    dw_list_init(&peer->pending);
    dw_list_init(&peer->awaiting);
}

struct dw_peer *dw_peer_wake(struct dw_handle *handle)
{
    if (handle->state == DW_PEER_AWAKE)
        return dw_handle_peer(handle);
    if (handle->state != DW_PEER_UNMET && handle->state != DW_PEER_RESTING)
        return NULL;
    struct dw_rd *rd = dw_rd_of_handle(handle);
    struct dw_port *port = rd->port;
    struct dw_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    if (dw_heap_reserve(&port->timers)) {
        free(peer);
        return NULL;
    }
    if (handle->state == DW_PEER_UNMET && meet(handle)) {
        dw_heap_unreserve(&port->timers);
        free(peer);
        return NULL;
    }
    init(peer, rd, handle);
    dw_list_append(&rd->awake, &peer->awake_link);
    rd->counters->peers_active = ++rd->awake_count;
    dw_port_trim_later(port, peer->records.contact.heard_ns);
    dw_handle_set_state(handle, DW_PEER_AWAKE);
    dw_handle_met(handle)->peer = peer;
    dw_list_append(&dw_ah_path(&handle->ah)->awake, &peer->path_link);
    return peer;
}

void dw_peer_adopt(struct dw_peer *peer, const struct dw_llp_header *header)
{
    struct dw_met *met = dw_met_of(peer);
    peer->recvwin = (struct dw_recvwin){.ack = header->psn};
    const uint32_t more = dw_sendwin_renumber(&peer->sendwin, header->ack);
    met->ack = header->psn;
    met->next_psn = header->ack;
    dw_foreach (work, struct dw_work, link, &peer->awaiting)
        work->last_psn += more;
    peer->data_acked = true;
    /* It may have part of a message of ours that was given up. */
    if (header->flags & DW_LLP_GOES_ON && !peer->sendwin.count)
        met->send_msn = (uint32_t)dw_device_random(dw_rd_of(peer)->port->device);
}

void dw_peer_on_use(struct dw_peer *peer)
{
    dw_list_remove(&peer->awake_link);
    dw_list_append(&dw_rd_of(peer)->awake, &peer->awake_link);
}

/* All is sent, acknowledged and delivered, both ways, and it waits for nothing: its windows are two
 * numbers now. */
static bool may_rest(const struct dw_peer *peer)
{
    return !dw_timers_peer_owes(peer) && !peer->open && dw_list_empty(&peer->pending) &&
           !dw_list_linked(&peer->flush_link) && !dw_recvwin_has_gap(&peer->recvwin) &&
           !peer->ack_owed && !peer->ack_soon && !peer->told_full;
}

static void release(struct dw_peer *peer)
{
    struct dw_rd *rd = dw_rd_of(peer);
    struct dw_met *met = dw_met_of(peer);
    dw_heap_set(&rd->port->timers, &peer->timer, DW_NEVER);
    if (rd->port->datagrams.number < peer->number)
        rd->port->datagrams.number = peer->number; /* none comes twice */
    met->spoken |= met->next_psn != peer->sendwin.next_psn || met->ack != peer->recvwin.ack;
    met->next_psn = peer->sendwin.next_psn;
    met->ack = peer->recvwin.ack;
    met->confirmed = dw_peer_is_confirmed(peer);
    met->rested = dw_silence_clock(rd);
    met->credit_kib = (uint16_t)(peer->sendwin.credit_bytes >> 10);
    if (!met->credit_kib)
        met->credit_kib = DW_FIRST_BYTES >> 10; /* it tells no resting peer of room */
    met->ssthresh_datagrams = peer->sendwin.ssthresh_datagrams;
    met->recordwin = dw_recordwin_past(&peer->records.win);
    met->peer = NULL;
    dw_list_remove(&peer->awake_link);
    dw_list_remove(&peer->path_link);
    dw_list_remove(&peer->flush_link);
    dw_list_remove(&peer->ack_link);
    dw_heap_unreserve(&rd->port->timers);
    rd->counters->peers_active = --rd->awake_count;
    dw_record_ways_free(&peer->records);
    free(peer);
}

uint64_t dw_peers_rest(struct dw_rd *rd, uint64_t now_ns)
{
    const uint32_t awake = rd->awake_count;
    for (uint32_t looks = 0; looks < awake; looks++) {
        struct dw_peer *peer = dw_container(rd->awake.next, struct dw_peer, awake_link);
        const struct dw_contact *contact = &peer->records.contact;
        const uint64_t last_ns =
            contact->asked_ns > contact->heard_ns ? contact->asked_ns : contact->heard_ns;
        if (now_ns < last_ns + rd->port->device->env.rest_ns)
            return last_ns + rd->port->device->env.rest_ns;
        if (looks == DW_LOOKS_MAX)
            return now_ns + DW_EPOCH_NS;
        if (!may_rest(peer)) {
            dw_peer_on_use(peer); /* the others have their turn first */
            continue;
        }
        dw_handle_set_state(dw_handle_of(peer), DW_PEER_RESTING);
        release(peer);
    }
    return rd->awake_count ? now_ns + DW_ASK_NS : DW_NEVER;
}

/* ---- the end of a peer ---- */

/* Ends what is under way for a QP, or all (NULL). */
static void end(struct dw_peer *peer, const struct diwarp_qp *qp, enum dw_ending how)
{
    struct dw_list *lists[] = {&peer->pending, &peer->awaiting};
    for (unsigned i = 0; i < 2; i++) {
        dw_foreach (work, struct dw_work, link, lists[i]) {
            if (qp && (work->qp != qp || (i == 0 && work->copied && dw_work_detach(peer, work))))
                continue;
            if (how == DW_END_IN_ERROR)
                dw_work_end(peer, work, IBV_WC_RETRY_EXC_ERR);
            else
                dw_work_put(peer, work);
        }
    }
    dw_deliver_forget(peer, qp);
    dw_rdma_end(peer, NULL, qp, how, dw_device_now_ns(dw_rd_of(peer)->port->device));
}

static void end_all(struct dw_peer *peer, enum dw_ending how)
{
    if (peer->open)
        dw_list_append(&peer->sendwin.unacked, &peer->open->tx.link);
    dw_foreach (datagram, struct dw_datagram, tx.link, &peer->sendwin.unacked) {
        dw_list_remove(&datagram->tx.link);
        dw_datagram_put(dw_rd_of(peer), datagram);
    }
    end(peer, NULL, how);
    release(peer);
}

void dw_peers_fail_doomed(struct dw_rd *rd)
{
    while (!dw_list_empty(&rd->doomed)) {
        struct dw_peer *peer = dw_container(rd->doomed.next, struct dw_peer, flush_link);
        dw_list_remove(&peer->flush_link);
        rd->counters->peers_gone++;
        dw_peer_tell(peer, DIWARP_WC_PEER_GONE, peer->doom);
        dw_handle_set_state(dw_handle_of(peer), DW_PEER_GONE);
        end_all(peer, DW_END_IN_ERROR);
    }
}

int dw_handle_give_up(struct dw_handle *handle)
{
    struct dw_peer *peer = handle->state == DW_PEER_GONE ? NULL : dw_peer_wake(handle);
    if (peer)
        dw_peer_doom(peer, DIWARP_GONE_GIVEN_UP);
    dw_peers_fail_doomed(dw_rd_of_handle(handle));
    return handle->state == DW_PEER_GONE ? 0 : -ENOMEM;
}

void dw_handle_restart(struct dw_handle *handle, uint32_t incarnation)
{
    struct dw_peer *peer = handle->state == DW_PEER_UNMET ? NULL : dw_peer_wake(handle);
    if (peer)
        dw_peer_doom(peer, DIWARP_GONE_RESTARTED);
    dw_peers_fail_doomed(dw_rd_of_handle(handle));
    if (handle->state == DW_PEER_GONE) {
        dw_handle_set_state(handle, DW_PEER_UNMET);
        dw_handle_unmeet(handle);
    }
    if (handle->state != DW_PEER_UNMET)
        return; /* no memory to tell of it: it stays the one it was */
    handle->ah.incarnation = incarnation;
    handle->heard = handle->ah.fixed = false;
}

void dw_peers_forget_qp(struct diwarp_qp *qp)
{
    struct dw_rd *rd = qp->state;
    const struct dw_met *met;
    unsigned looks = 0;
    if (dw_list_empty(&rd->port->qps))
        return; /* the port goes, and all peers with it */
    for (uint32_t index = 0; (met = dw_cells_next(&rd->handles.met, &index));) {
        struct dw_peer *peer = met->peer;
        if (peer)
            end(peer, qp, dw_peer_is_live(peer) ? DW_END_TELL_PEER : DW_END_QUIETLY);
        if (++looks % SWEEP_LOOKS == 0)
            dw_lock_pause(rd->port->device);
    }
}

void dw_peers_fini(struct dw_rd *rd)
{
    dw_foreach (peer, struct dw_peer, awake_link, &rd->awake)
        end_all(peer, DW_END_QUIETLY);
}

void dw_peers_on_unreachable(void *state, struct dw_path *path, uint16_t udp_port,
                             enum dw_llp_told why, uint64_t now_ns)
{
    (void)state;
    dw_foreach (peer, struct dw_peer, path_link, &path->awake) {
        if (dw_handle_of(peer)->ah.udp_port != udp_port)
            continue;
        if (peer->unreachables < DW_OFTEN)
            peer->unreachables++;
        peer->prohibited = why == DW_LLP_PROHIBITED;
        dw_timers_wake(peer, now_ns);
    }
}
