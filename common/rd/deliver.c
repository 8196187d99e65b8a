/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends that come: whole ones are handed up where they lie in the arena, those of several segments
 * are put together first (by MSN and MO, RFC 5041 section 5.2). */
#include "common/rd/parts.h"

#include <errno.h>

#include "common/base/copy.h"
#include "common/base/slab.h"
#include "common/base/serial.h"
#include "common/wire/bytes.h"

/* Bound of the bytes that have come of messages being put together, of all peers, and a page for
 * each message. At the bound their datagrams are refused, and come again. A peer may add bytes
 * while those of all peers and half of its own are below the bound: one peer alone gets two thirds,
 * two get two fifths each, and the next finds room. What comes out of order may begin messages in
 * half of the bound only: without room for an earlier one neither ends. A message that has begun
 * goes on, in order, up to twice the bound; beyond that one message at a time does, until it is
 * whole, or while its peer is silent another one (is_oversize_free()). Whole messages that the
 * application has not taken count, and nothing is received beyond them. With the send pool (1.5 MiB
 * unless asked otherwise), the receive arena (1 MiB) and the spares, transport takes less than 4
 * MiB of a process, or 5 while many have begun; where messages may be longer than the bound, two
 * spares of the longest that have come besides. */
#define ASSEMBLIES_MAX_BYTES (1u << 20)
#define PAGE_BYTES           4096u

void dw_deliver(const struct dw_peer *peer, const struct dw_ends *ends, const struct ibv_wc *told,
                const void *data)
{
    struct diwarp_wc *wc = ends->qp->draining ? NULL : dw_qp_slot_held(ends->qp);
    if (!wc)
        return;
    *wc = (struct diwarp_wc){.wc = *told, .src = dw_handle_of(peer)->ah.name, .data = data};
    wc->wc.qp_num = ends->qp->num;
    wc->wc.src_qp = ends->qpns.there;
}

/* A message that takes a receive. */
static void complete(const struct dw_incoming *in, struct ibv_wc wc, const uint8_t *data)
{
    in->ends.qp->recv_room--;
    if (dw_rdmap_is_solicited(in->segment.ddp.opcode))
        wc.wc_flags |= DIWARP_WC_SOLICITED;
    dw_deliver(in->peer, &in->ends, &wc, data);
}

/* An STag that its sender has no right to stays as it is. */
static bool invalidate(const struct dw_incoming *in)
{
    const struct diwarp_name *name = &dw_handle_of(in->peer)->ah.name;
    const bool done = dw_pd_invalidate(in->ends.qp->pd, name, NULL, in->segment.ddp.ulp);
    dw_rd_of(in->peer)->counters->drop_stag += !done;
    return done;
}

static void complete_send(const struct dw_incoming *in, const uint8_t *data, uint32_t bytes)
{
    const struct dw_ddp_header *ddp = &in->segment.ddp;
    struct ibv_wc wc = {.opcode = IBV_WC_RECV, .byte_len = bytes};
    if (dw_rdmap_has_immediate(ddp->opcode)) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = ddp->ulp;
    } else if (dw_rdmap_invalidates(ddp->opcode) && invalidate(in)) {
        wc.wc_flags = IBV_WC_WITH_INV;
        wc.invalidated_rkey = ddp->ulp;
    }
    dw_rd_of(in->peer)->counters->rx_send_msgs += !in->ends.qp->draining;
    complete(in, wc, data);
}

bool dw_deliver_immediate(const struct dw_incoming *in)
{
    if (in->segment.bytes != DW_IMMEDIATE_BYTES)
        return false;
    const struct ibv_wc wc = {
        .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
        .wc_flags = IBV_WC_WITH_IMM,
        .imm_data = dw_get_be32(in->segment.payload),
        .byte_len = dw_get_be32(in->segment.payload + sizeof(uint32_t)),
    };
    if (wc.byte_len > DW_REQUEST_MAX_BYTES)
        return false;
    if (in->ends.qp)
        complete(in, wc, NULL);
    else
        dw_rd_of(in->peer)->counters->drop_qpn++;
    return true;
}

static size_t assembly_bytes(const struct dw_rd *rd)
{
    return sizeof(struct dw_assembly) + rd->message_max_bytes;
}

static uint64_t cost(const struct dw_assembly *assembly)
{
    return PAGE_BYTES + assembly->map.bytes;
}

/* The place beyond the bound passes to another message while the peer of the one that has it leaves
 * DW_OFTEN probes unanswered, for it may be silent for minutes; to few in all, as each keeps what
 * has come. */
static bool is_oversize_free(const struct dw_rd *rd)
{
    const struct dw_peer *peer = rd->oversize_peer;
    const uint64_t most = 2 * (uint64_t)ASSEMBLIES_MAX_BYTES + 2 * (uint64_t)rd->message_max_bytes;
    return !rd->oversize || (rd->assembly_bytes < most && peer->unanswered == DW_OFTEN &&
                             peer->records.contact.probe_sent_ns > peer->records.contact.heard_ns);
}

/* For the next segment of one that is begun, or of a new one (NULL). */
static bool has_room(const struct dw_incoming *in, const struct dw_assembly *assembly)
{
    const struct dw_rd *rd = dw_rd_of(in->peer);
    const unsigned share = assembly || in->in_order ? 1 : 2;
    uint64_t bytes = 0; /* of the peer's */
    bool left_one_open = false;
    dw_foreach (other, const struct dw_assembly, link, &in->peer->assemblies) {
        bytes += cost(other);
        left_one_open |= other != assembly &&
                         (other->in_order || dw_serial_before(other->msn, in->segment.ddp.msn));
    }
    /* What came before this message, whose turn it is, has come, and yet some of that is not whole.
     * An honest peer ends a message before it begins the next. */
    if (in->in_order && left_one_open && rd->assembly_bytes >= ASSEMBLIES_MAX_BYTES / 2)
        return false;
    if (assembly && in->in_order && rd->assembly_bytes < 2 * ASSEMBLIES_MAX_BYTES)
        return true;
    return (in->in_order && (rd->oversize == assembly || is_oversize_free(rd))) ||
           rd->assembly_bytes + bytes / 2 < ASSEMBLIES_MAX_BYTES / share;
}

/* Without memory for another, one message that is in turn can still be received at a time, in the
 * last that is free; while its sender does not go on with it, none of another. */
static struct dw_assembly *begin(const struct dw_incoming *in)
{
    struct dw_rd *rd = dw_rd_of(in->peer);
    struct dw_assembly *assembly = NULL;
    if (rd->free_assembly_count <= 1)
        assembly = dw_pages_map(assembly_bytes(rd));
    if (!assembly && rd->free_assembly_count > !in->in_order) {
        assembly = dw_container(rd->free_assemblies.next, struct dw_assembly, link);
        dw_list_remove(&assembly->link);
        rd->free_assembly_count--;
    }
    if (!assembly)
        return NULL;
    dw_datagrams_on_part(&rd->port->datagrams, in->arrival);
    rd->assembly_count++;
    *assembly = (struct dw_assembly){
        .mapped_bytes = assembly_bytes(rd),
        .qp = in->ends.qp,
        .msn = in->segment.ddp.msn,
        .in_order = in->in_order,
    };
    rd->assembly_bytes += cost(assembly);
    dw_list_append(&in->peer->assemblies, &assembly->link);
    dw_timers_watch(in->peer); /* should it never send the rest */
    return assembly;
}

/* It has been handed out, or will never be: its bytes stay until the next recycling. */
static void retire(struct dw_peer *peer, struct dw_assembly *assembly)
{
    struct dw_rd *rd = dw_rd_of(peer);
    if (rd->oversize == assembly)
        rd->oversize = NULL;
    rd->assembly_bytes -= cost(assembly);
    rd->done_bytes += cost(assembly);
    rd->port->handed_out = true; /* or was to be: it is to be recycled */
    dw_ranges_fini(&assembly->map);
    dw_list_remove(&assembly->link);
    dw_list_append(&rd->done_assemblies, &assembly->link);
    rd->assembly_count--;
}

/* A segment of a message of several. false: no buffer. */
static bool assemble(const struct dw_incoming *in, struct dw_assembly *assembly)
{
    struct dw_rd *rd = dw_rd_of(in->peer);
    const struct dw_ddp_header *ddp = &in->segment.ddp;
    const uint32_t end = ddp->mo + in->segment.bytes;
    if (!assembly)
        assembly = begin(in);
    int64_t added = assembly ? dw_ranges_add(&assembly->map, ddp->mo, end) : -ENOMEM;
    if (added < 0)
        return false;
    rd->assembly_bytes += (uint64_t)added;
    if (in->in_order && rd->assembly_bytes > ASSEMBLIES_MAX_BYTES && is_oversize_free(rd)) {
        rd->oversize = assembly;
        rd->oversize_peer = in->peer;
    }
    dw_copy(assembly->buf + ddp->mo, in->segment.payload, in->segment.bytes);
    if (ddp->last)
        assembly->total = end;
    if (assembly->total && assembly->map.bytes >= assembly->total) {
        complete_send(in, assembly->buf, assembly->total);
        retire(in->peer, assembly);
    }
    return true;
}

bool dw_deliver_send(const struct dw_incoming *in)
{
    const struct diwarp_qp *qp = in->ends.qp;
    const struct dw_segment *segment = &in->segment;
    const uint64_t end = (uint64_t)segment->ddp.mo + segment->bytes;
    struct dw_assembly *assembly = NULL;
    if (!qp) {
        dw_rd_of(in->peer)->counters->drop_qpn++;
        return true;
    }
    if (segment->ddp.last && !segment->ddp.mo) {
        complete_send(in, segment->payload, segment->bytes);
        return true;
    }
    dw_foreach (begun, struct dw_assembly, link, &in->peer->assemblies)
        if (begun->msn == segment->ddp.msn)
            assembly = begun;
    if (!segment->bytes || end > qp->attr.max_msg_bytes ||
        (assembly && (assembly->qp != qp || !dw_segment_agrees(segment, (uint32_t)end,
                                                               &assembly->map, assembly->total)))) {
        dw_rd_of(in->peer)->counters->drop_header++;
        return true;
    }
    return has_room(in, assembly) && assemble(in, assembly);
}

/* ---- giving back ---- */

static void trim(struct dw_rd *rd, size_t keep)
{
    for (; rd->free_assembly_count > keep; rd->free_assembly_count--) {
        struct dw_list *last = rd->free_assemblies.prev;
        struct dw_assembly *assembly = dw_container(last, struct dw_assembly, link);
        dw_list_remove(last);
        dw_pages_unmap(assembly, assembly->mapped_bytes);
    }
}

bool dw_deliver_is_full(const void *state)
{
    const struct dw_rd *rd = state;
    return rd->done_bytes && rd->done_bytes + rd->assembly_bytes > ASSEMBLIES_MAX_BYTES;
}

void dw_deliver_recycle(void *state)
{
    struct dw_rd *rd = state;
    if (!rd->done_bytes)
        return;
    rd->done_bytes = 0;
    dw_foreach (assembly, struct dw_assembly, link, &rd->done_assemblies) {
        dw_list_remove(&assembly->link);
        if (assembly->mapped_bytes < assembly_bytes(rd)) { /* a QP takes longer messages since */
            dw_pages_unmap(assembly, assembly->mapped_bytes);
            continue;
        }
        dw_list_prepend(&rd->free_assemblies, &assembly->link);
        rd->free_assembly_count++;
    }
    /* As many as a receive may end at once, and the one that stays. */
    const size_t ended = ASSEMBLIES_MAX_BYTES / assembly_bytes(rd);
    trim(rd, 1 + (ended ? ended : 1));
}

bool dw_deliver_trim(struct dw_rd *rd)
{
    trim(rd, 1);
    if (rd->free_assembly_count == 1 && assembly_bytes(rd) > PAGE_BYTES) {
        uint8_t *last = (uint8_t *)dw_container(rd->free_assemblies.next, struct dw_assembly, link);
        dw_pages_drop(last + PAGE_BYTES, assembly_bytes(rd) - PAGE_BYTES);
    }
    return !dw_list_empty(&rd->done_assemblies);
}

int dw_deliver_make_room(struct dw_rd *rd, uint32_t message_bytes)
{
    if (message_bytes <= rd->message_max_bytes)
        return 0;
    const size_t bytes = sizeof(struct dw_assembly) + message_bytes;
    struct dw_assembly *assembly = dw_pages_map(bytes);
    if (!assembly)
        return -ENOMEM;
    assembly->mapped_bytes = bytes;
    trim(rd, 0);
    dw_list_append(&rd->free_assemblies, &assembly->link);
    rd->free_assembly_count = 1;
    rd->message_max_bytes = message_bytes;
    return 0;
}

void dw_deliver_fini(struct dw_rd *rd)
{
    dw_deliver_recycle(rd);
    trim(rd, 0);
}

void dw_deliver_forget(struct dw_peer *peer, const struct diwarp_qp *qp)
{
    dw_foreach (assembly, struct dw_assembly, link, &peer->assemblies)
        if (!qp || assembly->qp == qp)
            retire(peer, assembly);
}

/* As if all of them had been touched, but for the last that is free. */
void dw_deliver_add_memory(const struct dw_rd *rd, struct diwarp_memory *memory)
{
    const uint64_t free_count = rd->free_assembly_count ? rd->free_assembly_count - 1 : 0;
    const uint64_t bytes = assembly_bytes(rd) * (rd->assembly_count + free_count +
                                                 dw_list_bytes(&rd->done_assemblies, 1));
    memory->assembly_bytes += bytes;
    memory->mapped_bytes += bytes;
}
