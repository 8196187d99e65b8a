/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts of peers; the timer that acknowledges late and probes the silent. */
#include "common/rd/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rnic/device.h"

/* Doublings of the interval between probes: from 3 us to the longest there is. */
#define BACKOFF_MAX 15
/* ICMP says "port unreachable" often, and probes get no answer for so long: the process died.
 * Of another host a firewall says so, too, while its rules are loaded anew. Our own host's refusal
 * to send to a peer is borne as long as another's. */
#define UNREACHABLE_REMOTE_NS 10000000000ull
/* Awake peers that a QP is forgotten by before others have the lock, 0.1 ms; with half of them the
 * pauses take as long. */
#define SWEEP_LOOKS 1024

/* ---- the timer ---- */

/* How long it may be silent. To what has been heard, or may have got something, a route may come
 * back. */
static uint64_t patience_ns(const struct dw_peer *peer, enum diwarp_gone *why)
{
    const struct diwarp_device *device = dw_rd_of(peer)->port->device;
    const bool never = peer->send_error && !peer->sent && !dw_handle_of(peer)->heard;
    const bool unreachable = peer->unreachables == DW_OFTEN;
    const struct dw_llp_addr *host = &dw_handle_of(peer)->ah.path->host;
    uint64_t limit_ns = UNREACHABLE_REMOTE_NS;
    *why = peer->send_error ? DIWARP_GONE_NOT_SENT
           : unreachable    ? DIWARP_GONE_UNREACHABLE
                            : DIWARP_GONE_SILENT;
    if (!device->attr.peer_timeout_ns)
        return UINT64_MAX;
    if (unreachable && dw_llp_is_of(host, device->interfaces, device->interface_count))
        limit_ns = DW_ASK_NS;
    const bool soon = (never || unreachable) && limit_ns < device->attr.peer_timeout_ns;
    return soon ? limit_ns : device->attr.peer_timeout_ns;
}

static void ask_silent(struct dw_peer *peer, uint64_t now_ns)
{
    enum diwarp_gone why;
    if (dw_timers_silent_for(peer, patience_ns(peer, &why), now_ns)) {
        /* The application need not hear that a peer of which it wants nothing is silent. */
        peer->confirming = false;
        peer->data_acked = true;
        if (dw_timers_peer_owes(peer))
            dw_peer_doom(peer, why);
        else
            dw_port_trim_later(dw_rd_of(peer)->port, now_ns);
        return;
    }
    if (now_ns >= dw_timers_probe_due_ns(peer)) {
        if (peer->backoff < BACKOFF_MAX)
            peer->backoff++;
        dw_probe(peer, now_ns);
    } else if (dw_probe_pair_is_due(peer, now_ns)) {
        dw_probe(peer, now_ns); /* though it is heard: it asks for parts of records */
    }
    dw_timers_watch(peer);
    if (dw_probe_stuck_bytes(peer))
        dw_timers_wake(peer, now_ns + DW_ASK_NS);
}

static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct dw_peer *peer = dw_container(timer, struct dw_peer, timer);
    if (!dw_peer_is_live(peer))
        return;
    if (peer->ack_owed)
        (void)dw_control_ack(peer);
    if (dw_probe_is_too_narrow(peer)) {
        dw_peer_doom(peer, DIWARP_GONE_TOO_LARGE);
        return;
    }
    if (dw_timers_peer_owes(peer))
        ask_silent(peer, now_ns);
    else
        peer->confirming = false; /* what comes later is another question */
    dw_probe_path(peer, now_ns);
}

/* ---- taking and giving back ---- */

static struct dw_rd *rd_of(const struct dw_handle *handle)
{
    return dw_container(dw_handles_of(handle), struct dw_rd, handles);
}

static int meet(struct dw_handle *handle)
{
    struct diwarp_device *device = dw_ah_port(&handle->ah)->device;
    if (dw_handle_meet(handle))
        return -ENOMEM;
    struct dw_met *met = dw_handle_met(handle);
    const bool forgot = rd_of(handle)->forgot;
    const uint32_t first = device->env.first_serial;
    /* A process that has forgotten others may have forgotten this peer, which takes numbers far
     * from those that it remembers for what they are: a new beginning. */
    *met = (struct dw_met){
        .next_psn = forgot ? (uint32_t)dw_device_random(device) : first,
        .ack = forgot ? (uint32_t)dw_device_random(device) : first,
        .send_msn = forgot ? (uint32_t)dw_device_random(device) : first,
        .credit_kib = DW_FIRST_BYTES >> 10,
        .ssthresh_datagrams = (uint16_t)device->attr.send_window_datagrams,
        .goes_on = forgot,
        .confirmed = true,
    };
    rd_of(handle)->refused_write = 0; /* it may have the keys of one before it */
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
    peer->records.win = met->recordwin;
    peer->number = rd->port->datagrams.number;
    peer->timer.fire = on_timer;
    peer->data_acked = met->confirmed;
    peer->swept = rd->sweep;
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
    struct dw_rd *rd = rd_of(handle);
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
    dw_list_append(&handle->ah.path->awake, &peer->path_link);
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
    struct dw_rd *rd = dw_rd_of(peer);
    if (rd->awake.prev == &peer->awake_link)
        return;
    dw_list_remove(&peer->awake_link);
    dw_list_append(&rd->awake, &peer->awake_link);
}

static uint64_t idle_at_ns(const struct dw_peer *peer)
{
    const struct dw_contact *contact = &peer->records.contact;
    const uint64_t last_ns =
        contact->asked_ns > contact->heard_ns ? contact->asked_ns : contact->heard_ns;
    return last_ns + dw_rd_of(peer)->port->device->env.rest_ns;
}

/* All is sent, acknowledged and delivered, both ways, and it waits for nothing: its windows are two
 * numbers now. */
static bool may_rest(const struct dw_peer *peer)
{
    bool holds = dw_timers_peer_owes(peer) || peer->open || !dw_list_empty(&peer->pending) ||
                 peer->ack_soon || dw_list_linked(&peer->flush_link);
    return !holds && (!dw_peer_is_live(peer) ||
                      (!dw_recvwin_has_gap(&peer->recvwin) && !peer->ack_owed && !peer->told_full));
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
    met->used = true;
    met->credit_kib = (uint16_t)(peer->sendwin.credit_bytes >> 10);
    if (!met->credit_kib)
        met->credit_kib = DW_FIRST_BYTES >> 10; /* it tells no resting peer of room */
    met->ssthresh_datagrams = peer->sendwin.ssthresh_datagrams;
    met->recordwin = peer->records.win;
    met->peer = NULL;
    dw_list_remove(&peer->awake_link);
    dw_list_remove(&peer->path_link);
    dw_list_remove(&peer->flush_link);
    dw_list_remove(&peer->ack_link);
    dw_heap_unreserve(&rd->port->timers);
    rd->counters->peers_active = --rd->awake_count;
    rd->unswept -= peer->swept != rd->sweep;
    free(peer);
}

uint64_t dw_peers_rest(struct dw_rd *rd, uint64_t now_ns)
{
    const struct dw_peer *waited_for = NULL; /* the first of those that may not rest */
    unsigned looks = DW_LOOKS_MAX;
    dw_foreach (peer, struct dw_peer, awake_link, &rd->awake) {
        if (peer == waited_for)
            break; /* none may rest before it is used again */
        if (now_ns < idle_at_ns(peer))
            return idle_at_ns(peer);
        if (!looks--)
            return now_ns + DW_EPOCH_NS;
        if (!may_rest(peer)) {
            waited_for = waited_for ? waited_for : peer;
            dw_list_remove(&peer->awake_link); /* the others have their turn first */
            dw_list_append(&rd->awake, &peer->awake_link);
            continue;
        }
        if (dw_peer_is_live(peer))
            dw_handle_set_state(dw_handle_of(peer), DW_PEER_RESTING);
        release(peer);
    }
    return DW_NEVER;
}

/* ---- the end of a peer ---- */

/* Of a QP, or all (NULL); tell: with completions. */
static void drop_works(struct dw_peer *peer, struct dw_list *list, const struct diwarp_qp *qp,
                       bool tell)
{
    dw_foreach (work, struct dw_work, link, list) {
        if (qp && work->qp != qp)
            continue;
        if (qp && list == &peer->pending && work->copied && dw_work_detach(peer, work))
            continue;
        dw_list_remove(&work->link);
        peer->answers = (uint16_t)(peer->answers - (work->answer && list == &peer->pending));
        if (tell && work->qp)
            dw_qp_complete(work->qp, work->wr_id, true, work->opcode, IBV_WC_RETRY_EXC_ERR, 0);
        dw_work_put(peer, work);
    }
}

static void drop_datagrams(struct dw_peer *peer)
{
    dw_foreach (datagram, struct dw_datagram, tx.link, &peer->sendwin.unacked) {
        dw_list_remove(&datagram->tx.link);
        dw_datagram_put(dw_rd_of(peer), datagram);
    }
    peer->sendwin.count = 0;
    peer->sendwin.bytes = 0;
    if (peer->open)
        dw_datagram_put(dw_rd_of(peer), peer->open);
    peer->open = NULL;
}

static void clear(struct dw_peer *peer, bool tell)
{
    dw_list_remove(&peer->flush_link);
    dw_peer_on_told(peer, false);
    drop_datagrams(peer);
    drop_works(peer, &peer->pending, NULL, tell);
    drop_works(peer, &peer->awaiting, NULL, tell);
    dw_rdma_end(peer, NULL, NULL, tell ? DW_END_IN_ERROR : DW_END_QUIETLY, 0);
    dw_deliver_forget(peer, NULL);
    dw_heap_set(&dw_rd_of(peer)->port->timers, &peer->timer, DW_NEVER);
}

/* Each QP of the service is told: any may wait for the peer. */
static void tell_gone(const struct dw_peer *peer)
{
    const struct dw_ahs *ahs = &dw_rd_of(peer)->handles.ahs;
    const uint32_t detail = peer->doom == DIWARP_GONE_NOT_SENT    ? peer->send_error
                            : peer->doom == DIWARP_GONE_TOO_LARGE ? dw_probe_stuck_bytes(peer)
                                                                  : 0;
    dw_foreach (qp, struct diwarp_qp, link, &ahs->port->qps) {
        const struct diwarp_wc wc = {
            .wc = {.status = IBV_WC_RETRY_EXC_ERR,
                   .opcode = (enum ibv_wc_opcode)DIWARP_WC_PEER_GONE,
                   .vendor_err = peer->doom,
                   .byte_len = detail,
                   .qp_num = qp->num},
            .src = dw_handle_of(peer)->ah.name,
        };
        if (qp->service == ahs->service)
            dw_cq_push(qp->cq, &wc);
    }
}

void dw_peers_fail_doomed(struct dw_rd *rd)
{
    while (!dw_list_empty(&rd->doomed)) {
        struct dw_peer *peer = dw_container(rd->doomed.next, struct dw_peer, flush_link);
        dw_list_remove(&peer->flush_link);
        rd->counters->peers_gone++;
        tell_gone(peer);
        dw_handle_set_state(dw_handle_of(peer), DW_PEER_GONE);
        clear(peer, true);
        dw_port_trim_later(rd->port, rd->port->ran_ns);
    }
}

void dw_handle_restart(struct dw_handle *handle, uint32_t incarnation)
{
    struct dw_peer *peer = handle->state == DW_PEER_UNMET ? NULL : dw_peer_wake(handle);
    if (peer)
        dw_peer_doom(peer, DIWARP_GONE_RESTARTED);
    dw_peers_fail_doomed(rd_of(handle));
    peer = dw_handle_peer(handle);
    if (peer)
        release(peer);
    if (handle->state == DW_PEER_GONE) {
        dw_handle_set_state(handle, DW_PEER_UNMET);
        dw_handle_unmeet(handle);
    }
    if (handle->state != DW_PEER_UNMET)
        return; /* no memory to tell of it: it stays the one it was */
    handle->ah.incarnation = incarnation;
    handle->heard = handle->ah.fixed = false;
}

static void forget_qp(struct dw_peer *peer, const struct diwarp_qp *qp)
{
    struct dw_rd *rd = dw_rd_of(peer);
    peer->swept = rd->sweep;
    rd->unswept--;
    drop_works(peer, &peer->pending, qp, false);
    drop_works(peer, &peer->awaiting, qp, false);
    dw_deliver_forget(peer, qp);
    dw_rdma_end(peer, NULL, qp, dw_peer_is_live(peer) ? DW_END_TELL_PEER : DW_END_QUIETLY,
                dw_device_now_ns(rd->port->device));
}

void dw_peers_forget_qp(struct diwarp_qp *qp)
{
    struct dw_rd *rd = qp->state;
    if (dw_list_empty(&rd->port->qps))
        return; /* the port goes, and all peers with it */
    rd->sweep = !rd->sweep;
    rd->unswept = rd->awake_count;
    for (unsigned looks = 1; rd->unswept; looks++) {
        struct dw_peer *peer = dw_container(rd->awake.next, struct dw_peer, awake_link);
        dw_peer_on_use(peer); /* is the last one now */
        if (peer->swept != rd->sweep)
            forget_qp(peer, qp);
        if (looks % SWEEP_LOOKS == 0)
            dw_lock_pause(rd->port->device);
    }
    if (!dw_list_empty(&rd->awake))
        dw_port_trim_later(rd->port, rd->port->ran_ns); /* some may rest now */
}

void dw_peers_fini(struct dw_rd *rd)
{
    dw_foreach (peer, struct dw_peer, awake_link, &rd->awake) {
        clear(peer, false);
        release(peer);
    }
}

void dw_peers_on_unreachable(void *state, struct dw_path *path, uint16_t udp_port, uint64_t now_ns)
{
    (void)state;
    dw_foreach (peer, struct dw_peer, path_link, &path->awake) {
        if (dw_handle_of(peer)->ah.udp_port != udp_port)
            continue;
        if (peer->unreachables < DW_OFTEN)
            peer->unreachables++;
        dw_timers_wake(peer, now_ns);
    }
}
