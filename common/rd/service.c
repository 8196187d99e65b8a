/* SPDX-License-Identifier: BSD-3-Clause */
/* RD's tables, and what it does when it is run. */
#include "common/rd/parts.h"

#include <errno.h>
#include <stdlib.h>

#include "common/llp/interface.h"

/* Between two runs no more counts as silence, which is of those who could have been heard: it is
 * longer than anybody sleeps who waits for us. The process was stopped, maybe all others, too. */
#define STOPPED_NS (4 * DW_ASK_NS)
/* Until what waits for a full socket, or for a buffer, is tried again. Half: a sleeper wakes more
 * often in vain; twice: a grant stands still for longer. */
#define RETRY_NS 400000

/* ---- a run ---- */

static void flush_all(struct dw_rd *rd, uint64_t now_ns)
{
    /* A peer that comes back to the list meanwhile has to wait for the next run. */
    for (struct dw_list *last = rd->flush.prev, *it = NULL; last != &rd->flush && it != last;) {
        it = rd->flush.next;
        dw_list_remove(it);
        dw_send_flush(dw_container(it, struct dw_peer, flush_link), now_ns);
    }
}

/* A peer to which any datagram went in this run has its acknowledgement and is off the list; one
 * whose ACK the socket refuses goes to the list's end. */
static void acknowledge(struct dw_rd *rd)
{
    unsigned refusals = 0;
    for (struct dw_list *last = rd->ack.prev, *it = NULL;
         last != &rd->ack && it != last && refusals < DW_REFUSALS_PER_RUN;) {
        it = rd->ack.next;
        refusals += !dw_control_ack(dw_container(it, struct dw_peer, ack_link));
    }
}

static uint64_t next_deadline_ns(const void *state, uint64_t ran_ns)
{
    const struct dw_rd *rd = state;
    const bool at_once = !dw_list_empty(&rd->records.ready) || !dw_list_empty(&rd->doomed) ||
                         dw_grant_is_due(&rd->records) ||
                         (!dw_list_empty(&rd->flush) && !rd->starved);
    const bool later =
        !dw_list_empty(&rd->flush) || !dw_list_empty(&rd->ack) || rd->records.refused;
    return at_once ? 0 : later ? ran_ns + RETRY_NS : DW_NEVER;
}

static bool run(void *state, uint64_t now_ns)
{
    struct dw_rd *rd = state;
    const uint64_t away_ns = now_ns - rd->ran_ns;
    rd->silence_ns += away_ns < STOPPED_NS ? away_ns : STOPPED_NS;
    rd->ran_ns = now_ns;
    rd->tried = rd->sent = false;
    dw_peers_fail_doomed(rd);
    flush_all(rd, now_ns);
    dw_grant_run(&rd->records, now_ns);
    dw_sources_run(&rd->records, now_ns);
    acknowledge(rd);
    rd->starved = !rd->tried;
    /* What a full socket or pool holds up does not go sooner for being tried again. */
    return rd->sent && next_deadline_ns(rd, 0) != DW_NEVER;
}

static void on_route(struct diwarp_ah *ah)
{
    struct dw_peer *peer = dw_handle_peer(dw_container(ah, struct dw_handle, ah));
    if (!peer)
        return;
    dw_list_remove(&peer->path_link);
    dw_list_append(&dw_ah_path(ah)->awake, &peer->path_link);
    dw_probe_on_path(dw_rd_of(peer), dw_ah_path(ah));
}

/* The first of the refused send again: soon there is something to take. */
static void tell_of_room(struct dw_rd *rd, uint32_t most)
{
    for (; most && !dw_list_empty(&rd->full); most--) {
        dw_peer_ack_soon(dw_container(rd->full.next, struct dw_peer, ack_link));
        rd->port->device->served++;
    }
}

static void on_room(void *state)
{
    tell_of_room(state, UINT32_MAX);
}

static void look_again(struct dw_list *peers)
{
    dw_foreach (peer, struct dw_peer, ack_link, peers) {
        peer->qp_full = false;
        dw_peer_ack_soon(peer);
        dw_rd_of(peer)->port->device->served++;
    }
}

/* Tells as many of the refused peers as there is room for: more would be refused again. A peer that
 * sends nothing then leaves the room to the next that asks. Where several queue pairs count their
 * receives it is not kept which one refused whom: so all refused peers are told, once, when one of
 * these queue pairs has room again, or when their number changes. */
static void on_recv_room(struct diwarp_qp *qp, uint32_t sends)
{
    struct dw_rd *rd = qp->state;
    if (qp->counts_recvs && qp->port->counting_qps == 1) {
        tell_of_room(rd, sends);
        return;
    }
    if (qp->counts_recvs && qp->recv_room > sends)
        return;
    look_again(&rd->full);
    look_again(&rd->ack);
    if (!qp->counts_recvs)
        rd->refuser = NULL;
}

static uint64_t trim(void *state, uint64_t now_ns)
{
    struct dw_rd *rd = state;
    /* In this order: who is to be forgotten may be woken, to rest again. */
    const uint64_t forget_ns = dw_forget(rd, now_ns), rest_ns = dw_peers_rest(rd, now_ns);
    const uint64_t next_ns = rest_ns < forget_ns ? rest_ns : forget_ns;
    const uint64_t soon_ns = now_ns + rd->port->device->env.rest_ns / 2;
    return dw_deliver_trim(rd) && soon_ns < next_ns ? soon_ns : next_ns;
}

/* ---- what it holds ---- */

static uint64_t ranges_bytes(const struct dw_ranges *set)
{
    return set->list == set->in_place ? 0 : set->capacity * sizeof *set->list;
}

/* What a record holds beside itself. */
static uint64_t record_bytes(const struct dw_record *record)
{
    const struct dw_record_sink *in = &record->in;
    const struct dw_record_source *out = &record->out;
    return record->is_sink ? ranges_bytes(&in->map) + (in->stripes ? sizeof *in->stripes : 0)
                           : ranges_bytes(&out->again) + (out->pieces ? sizeof *out->pieces : 0);
}

static void add_memory(const void *state, struct diwarp_memory *memory)
{
    const struct dw_rd *rd = state;
    const struct dw_handles *handles = &rd->handles;
    memory->base_bytes += sizeof *rd;
    memory->addresses += handles->ahs.cells.count;
    memory->address_bytes += dw_cells_bytes(&handles->ahs.cells) + dw_cells_bytes(&handles->met) +
                             dw_cells_bytes(&handles->further_ahs.cells) +
                             handles->bucket_count * sizeof *handles->buckets;
    memory->work_bytes += rd->work_count * sizeof(struct dw_work);
    memory->peers += rd->awake_count;
    memory->peer_bytes += rd->awake_count * sizeof(struct dw_peer);
    dw_foreach (peer, const struct dw_peer, awake_link, &rd->awake) {
        dw_foreach (assembly, const struct dw_assembly, link, &peer->assemblies)
            memory->assembly_bytes += ranges_bytes(&assembly->map);
        dw_foreach (record, const struct dw_record, link, &peer->records.ends)
            memory->record_bytes += record_bytes(record);
    }
    dw_deliver_add_memory(rd, memory);
    memory->record_bytes +=
        rd->records.ends.count * sizeof(struct dw_record) + dw_map_bytes(&rd->records.ends) +
        rd->records.ways.count * dw_record_ways_count(&rd->records) * sizeof(struct dw_record_way) +
        dw_map_bytes(&rd->records.ways);
}

/* ---- a port's part, and queue pairs ---- */

static int send_answer(struct dw_record_peer *peer, struct dw_qpns qpns,
                       const struct dw_record_control *answer, bool awaited, uint64_t now_ns)
{
    return dw_rdma_answer(dw_peer_of_records(peer), qpns, answer,
                          awaited ? DW_ANSWER_AWAITED : DW_ANSWER_NEXT_RUN, now_ns);
}

static const struct dw_record_ops record_ops = {
    .put_lead = dw_put_record_lead,
    .send_train = dw_transmit_record,
    .send_status = dw_control_record,
    .send_answer = send_answer,
    .rto_ns = dw_peer_rto_ns,
    .on_asked = dw_timers_on_record,
    .on_lost = dw_peer_on_lost,
    .ask = dw_probe_ask,
    .ask_by = dw_probe_ask_by,
    .on_way_left = dw_probe_on_way_left,
    .look_for_ways = dw_probe_look_for_ways,
};

static int open_state(struct dw_port *port, void **state)
{
    struct dw_rd *rd = calloc(1, sizeof *rd);
    if (!rd)
        return -ENOMEM;
    rd->port = port;
    rd->counters = &port->datagrams.counters;
    dw_records_init(&rd->records, port, &record_ops);
    dw_handles_init(&rd->handles, port, &dw_rd_service, dw_device_random(port->device));
    struct dw_list *heads[] = {&rd->awake,          &rd->flush,  &rd->ack,
                               &rd->full,           &rd->doomed, &rd->free_assemblies,
                               &rd->done_assemblies};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        dw_list_init(heads[i]);
    *state = rd;
    return 0;
}

static void close_state(void *state)
{
    struct dw_rd *rd = state;
    dw_peers_fini(rd);
    dw_handles_fini(&rd->handles);
    dw_deliver_fini(rd);
    dw_records_fini(&rd->records);
    free(rd);
}

static int create(struct diwarp_qp *qp)
{
    if (qp->attr.max_send_wr > DW_QUEUED_MAX)
        qp->attr.max_send_wr = DW_QUEUED_MAX;
    return dw_deliver_make_room(qp->state, qp->attr.max_msg_bytes);
}

/* The peers learn that what they asked for ends. */
static void on_deregister(void *state, const struct dw_region *region)
{
    struct dw_rd *rd = state;
    const uint64_t now_ns = dw_device_now_ns(rd->port->device);
    dw_foreach (peer, struct dw_peer, awake_link, &rd->awake) {
        if (!region->records)
            return;
        dw_rdma_end(peer, region, NULL, DW_END_TELL_PEER, now_ns);
    }
}

/* Something that was posted to the QP, or an answer of its, has not reached its end. Records of a
 * region are the peer's own: it has to see them through. */
static bool peer_is_owed(const struct dw_peer *peer, const struct diwarp_qp *qp)
{
    const struct dw_list *works[] = {&peer->pending, &peer->awaiting};
    if (peer->open && peer->open->qpns.here == qp->num)
        return true;
    dw_foreach (datagram, const struct dw_datagram, tx.link, &peer->sendwin.unacked)
        if (datagram->qpns.here == qp->num)
            return true;
    for (unsigned i = 0; i < 2; i++)
        dw_foreach (work, const struct dw_work, link, works[i])
            if (work->qpns.here == qp->num)
                return true;
    dw_foreach (record, const struct dw_record, link, &peer->records.ends)
        if (!record->region && record->qp == qp && record->state != DW_RECORD_HELD)
            return true;
    return false;
}

static bool owes(const struct diwarp_qp *qp)
{
    const struct dw_rd *rd = qp->state;
    const bool alone = dw_qp_is_alone(qp);
    dw_foreach (peer, const struct dw_peer, awake_link, &rd->awake)
        if (dw_peer_is_live(peer) && (peer_is_owed(peer, qp) || (alone && peer->ack_owed)))
            return true;
    return alone && (!dw_list_empty(&rd->ack) || rd->records.refused);
}

static struct diwarp_ah *get_ah(struct diwarp_qp *qp, const struct diwarp_address *address)
{
    struct dw_rd *rd = qp->state;
    struct dw_handle *handle = dw_handle_get(&rd->handles, address->name);
    if (!handle)
        return NULL;
    struct diwarp_ah *ah = &handle->ah;
    const bool heard = handle->state != DW_PEER_UNMET && !handle->given;
    /* One that was heard before its address was given, and proved where it is, is there. */
    const bool elsewhere =
        heard && (!dw_interfaces_have(address->interfaces, address->interface_count,
                                      dw_ah_path(ah)->host.family, dw_ah_path(ah)->host.ip) ||
                  ah->udp_port != address->port || ah->token != address->token);
    /* Where that is not told, a new handle is one for whoever has the name after one that is gone.
     */
    const bool other = address->incarnation ? ah->incarnation != address->incarnation
                                            : handle->state == DW_PEER_GONE;
    if (other || elsewhere)
        dw_handle_restart(handle, address->incarnation);
    if (handle->unproven)
        ah->fixed = false; /* where it is, the application knows better */
    handle->given = true;
    dw_handle_set_proven(handle, true);
    return ah;
}

static struct diwarp_ah *find_ah(void *state, struct diwarp_name name)
{
    struct dw_rd *rd = state;
    struct dw_handle *handle = dw_handle_find(&rd->handles, name);
    return handle && handle->ah.ways ? &handle->ah : NULL;
}

static struct diwarp_ah *get_ah_of_qpn(struct diwarp_ah *ah, uint32_t qpn)
{
    struct dw_handle *handle = dw_container(ah, struct dw_handle, ah);
    if (qpn == DW_QPN_FIRST)
        return ah;
    struct dw_further_ah *further = dw_cells_get(&dw_handles_of(handle)->further_ahs.cells);
    if (!further) {
        dw_handle_put(handle);
        return NULL;
    }
    further->ah = handle->ah;
    further->ah.owners = 0;
    further->ah.qpn = qpn & 0xffffff;
    further->ah.ways->users++;
    further->handle = handle;
    handle->ah.owners++;
    return &further->ah;
}

static int give_up(struct diwarp_ah *ah)
{
    return dw_handle_give_up(dw_handle_of_ah(ah));
}

static void put_ah(struct diwarp_ah *ah)
{
    struct dw_handle *handle = dw_handle_of_ah(ah);
    struct dw_rd *rd = dw_rd_of_handle(handle);
    if (ah != &handle->ah) {
        handle->ah.owners--;
        dw_ah_drop_route(ah);
        dw_cells_put(ah);
    }
    if (!handle->ah.owners && handle->met) {
        handle->given = false; /* nobody wants to send to it: it is as one that a datagram made */
        rd->strangers = true;
        dw_port_trim_later(rd->port, rd->port->ran_ns);
    }
    dw_handle_put(handle);
}

static void retune(void *state)
{
    struct dw_rd *rd = state;
    dw_records_size_budgets(&rd->records);
}

const struct dw_service dw_rd_service = {
    .max_inline_bytes = DW_INLINE_WRITE_BYTES,
    .qp_bytes = sizeof(struct diwarp_qp),
    .open = open_state,
    .close = close_state,
    .create = create,
    .destroy = dw_peers_forget_qp,
    .post_send = dw_rd_post_send,
    .on_deregister = on_deregister,
    .owes = owes,
    .get_ah = get_ah,
    .get_ah_of_qpn = get_ah_of_qpn,
    .find_ah = find_ah,
    .on_route = on_route,
    .give_up = give_up,
    .put_ah = put_ah,
    .place = dw_rd_place,
    .take = dw_rd_take,
    .on_unreachable = dw_peers_on_unreachable,
    .on_narrow = dw_probe_on_path,
    .is_full = dw_deliver_is_full,
    .on_room = on_room,
    .on_recv_room = on_recv_room,
    .run = run,
    .next_deadline_ns = next_deadline_ns,
    .retune = retune,
    .recycle = dw_deliver_recycle,
    .trim = trim,
    .add_memory = add_memory,
};
