/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends that arrive on an RD QP: whole ones are handed over where they lie in the receive slot,
 * those of several segments are put together first (DDP untagged: MSN and MO, RFC 5041
 * section 5.2).
 */
#include "common/rd/parts.h"

#include <errno.h>

#include "common/base/copy.h"
#include "common/base/slab.h"
#include "common/base/serial.h"

/* What has come of the messages that are being put together, over all peers, and a page for each.
 * At the bound their datagrams are refused, and come again. Of a peer's, half count once more: so
 * it has two thirds at most, two peers two fifths each, and the next finds room. A datagram that
 * came before an earlier one may begin messages in half of the bound only: the earlier one needs
 * room, too, or neither ends. A message that has begun goes on, in order, up to twice the bound,
 * for all other datagrams of its peer wait for it; beyond that one message at a time does, whatever
 * its length, until it is whole. Whole messages that the application has not taken count, and
 * nothing is received beyond them. With the send pool (1.5 MiB unless asked otherwise), the receive
 * arena (1 MiB) and the spares below, transport takes less than 4 MiB of a process, or 5 while so
 * many have begun. */
#define ASSEMBLIES_MAX_BYTES (1u << 20)
#define PAGE_BYTES           4096u

static void complete(struct dw_peer *peer, const struct dw_ends *ends,
                     const struct dw_ddp_header *ddp, const uint8_t *data, uint32_t bytes)
{
    struct diwarp_qp *qp = ends->qp;
    if (qp->draining)
        return;
    bool imm = ddp->opcode == DW_RDMAP_SEND_IMM;
    const struct diwarp_wc wc = {
        .wc = {.status = IBV_WC_SUCCESS,
               .opcode = IBV_WC_RECV,
               .byte_len = bytes,
               .qp_num = qp->num,
               .src_qp = ends->qpns.there,
               .imm_data = imm ? ddp->ulp : 0,
               .wc_flags = imm ? IBV_WC_WITH_IMM : 0},
        .src = dw_handle_of(peer)->ah.name,
        .data = data,
    };
    dw_rd_of(peer)->counters->rx_send_msgs++;
    dw_qp_push_held(qp, &wc);
}

static size_t assembly_bytes(const struct dw_rd *rd)
{
    return sizeof(struct dw_assembly) + rd->message_max_bytes;
}

static struct dw_assembly *find(const struct dw_peer *peer, uint32_t msn)
{
    dw_foreach (assembly, struct dw_assembly, link, &peer->assemblies)
        if (assembly->msn == msn)
            return assembly;
    return NULL;
}

static uint64_t cost(const struct dw_assembly *assembly)
{
    return PAGE_BYTES + assembly->map.bytes;
}

/* For the next segment of one that is begun, or of a new one (NULL). */
static bool has_room(const struct dw_peer *peer, uint32_t msn, const struct dw_assembly *assembly,
                     bool in_order)
{
    const struct dw_rd *rd = dw_rd_of(peer);
    const unsigned share = assembly || in_order ? 1 : 2;
    uint64_t bytes = 0; /* of the peer's */
    bool left_one_open = false;
    dw_foreach (other, const struct dw_assembly, link, &peer->assemblies) {
        bytes += cost(other);
        left_one_open |= dw_serial_before(other->msn, msn);
    }
    /* What came before message msn, whose turn it is, has come, and yet some of that is not whole.
     * An honest peer ends a message before it begins the next. */
    if (in_order && left_one_open && rd->assembly_bytes >= ASSEMBLIES_MAX_BYTES / 2)
        return false;
    if (assembly && in_order && rd->assembly_bytes < 2 * ASSEMBLIES_MAX_BYTES)
        return true;
    return (in_order && (!rd->oversize || rd->oversize == assembly)) ||
           rd->assembly_bytes + bytes / 2 < ASSEMBLIES_MAX_BYTES / share;
}

/* Without memory for another, one message that is in turn can still be received at a time, in the
 * last that is free; while its sender does not go on with it, none of another. */
static struct dw_assembly *take(struct dw_rd *rd, bool in_order)
{
    struct dw_assembly *assembly = NULL;
    if (rd->free_assembly_count <= 1)
        assembly = dw_pages_map(assembly_bytes(rd));
    if (assembly) {
        assembly->mapped_bytes = assembly_bytes(rd);
    } else if (rd->free_assembly_count > !in_order) {
        assembly = dw_container(rd->free_assemblies.next, struct dw_assembly, link);
        dw_list_remove(&assembly->link);
        rd->free_assembly_count--;
    }
    return assembly;
}

static struct dw_assembly *begin(struct dw_peer *peer, struct diwarp_qp *qp, uint32_t msn,
                                 bool in_order)
{
    struct dw_rd *rd = dw_rd_of(peer);
    struct dw_assembly *assembly = take(rd, in_order);
    if (!assembly)
        return NULL;
    rd->assembly_count++;
    assembly->qp = qp;
    assembly->msn = msn;
    assembly->total = 0;
    rd->assembly_bytes += cost(assembly);
    dw_list_append(&peer->assemblies, &assembly->link);
    dw_timers_watch(peer); /* should it never send the rest */
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
    dw_ranges_fini(&assembly->map);
    dw_list_remove(&assembly->link);
    dw_list_append(&rd->done_assemblies, &assembly->link);
    rd->assembly_count--;
}

static bool fits(const struct diwarp_qp *qp, const struct dw_segment *segment)
{
    uint64_t end = (uint64_t)segment->ddp.mo + segment->bytes;
    return segment->bytes && end <= qp->attr.max_msg_bytes;
}

/* A segment of a message of several. false: no buffer. */
static bool assemble(struct dw_peer *peer, const struct dw_ends *ends,
                     const struct dw_segment *segment, struct dw_assembly *assembly, bool in_order)
{
    struct dw_rd *rd = dw_rd_of(peer);
    const struct dw_ddp_header *ddp = &segment->ddp;
    const uint32_t end = ddp->mo + segment->bytes;
    if (!assembly)
        assembly = begin(peer, ends->qp, ddp->msn, in_order);
    int64_t added = assembly ? dw_ranges_add(&assembly->map, ddp->mo, end) : -ENOMEM;
    if (added < 0)
        return false;
    rd->assembly_bytes += (uint64_t)added;
    if (in_order && rd->assembly_bytes > ASSEMBLIES_MAX_BYTES && !rd->oversize)
        rd->oversize = assembly;
    dw_copy(assembly->buf + ddp->mo, segment->payload, segment->bytes);
    if (ddp->last)
        assembly->total = end;
    if (assembly->total && assembly->map.bytes >= assembly->total) {
        complete(peer, ends, ddp, assembly->buf, assembly->total);
        retire(peer, assembly);
    }
    return true;
}

bool dw_deliver_send(struct dw_peer *peer, const struct dw_ends *ends,
                     const struct dw_segment *segment, bool in_order)
{
    const struct diwarp_qp *qp = ends->qp;
    const struct dw_ddp_header *ddp = &segment->ddp;
    if (!qp) {
        dw_rd_of(peer)->counters->drop_qpn++;
        return true;
    }
    if (ddp->last && !ddp->mo) {
        complete(peer, ends, ddp, segment->payload, segment->bytes);
        return true;
    }
    struct dw_assembly *assembly = find(peer, ddp->msn);
    if (!fits(qp, segment) ||
        (assembly && (assembly->qp != qp || !dw_segment_agrees(segment, ddp->mo + segment->bytes,
                                                               &assembly->map, assembly->total)))) {
        dw_rd_of(peer)->counters->drop_header++;
        return true;
    }
    return has_room(peer, ddp->msn, assembly, in_order) &&
           assemble(peer, ends, segment, assembly, in_order);
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
    /* As many as a receive may end at once. */
    trim(rd, 1 + ASSEMBLIES_MAX_BYTES / assembly_bytes(rd));
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
