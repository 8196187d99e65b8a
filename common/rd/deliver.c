/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends that arrive on an RD QP: whole ones are handed over where they lie in the receive slot,
 * those of several segments are put together first (DDP untagged: MSN and MO, RFC 5041
 * section 5.2).
 */
#include <errno.h>

#include "common/base/copy.h"
#include "common/base/pages.h"
#include "common/base/serial.h"
#include "common/rd/deliver.h"
#include "common/rd/receive.h"

/* Messages being put together at a time, over all peers, and what has come of them. At the bound
 * their datagrams are refused, and come again. What begins out of turn may have to wait for what
 * was before it, so it takes half at most, lest all wait for room. What has begun goes on in turn
 * up to twice the bound, for all else of its peer waits for it; beyond, one message at a time does,
 * whatever its length, until it is whole. While some that are whole have not been taken, these have
 * part in the bound, and nothing is received beyond it. With the send pool (1.5 MiB unless asked
 * otherwise), the receive arena (1 MiB) and the spares below, transport takes less than 4 MiB of a
 * process, or 5 while so many have begun. */
#define ASSEMBLIES_MAX       256
#define ASSEMBLIES_MAX_BYTES (1u << 20)
/* Messages that are whole take pages, however short they are. */
#define DONE_MIN_BYTES 4096

static void complete(struct dw_peer *peer, const struct dw_ddp_header *ddp, const uint8_t *data,
                     uint32_t bytes)
{
    struct diwarp_qp *qp = peer->qp;
    if (qp->draining)
        return;
    bool imm = ddp->opcode == DW_RDMAP_SEND_IMM;
    struct diwarp_wc wc = {
        .wc = {.status = IBV_WC_SUCCESS,
               .opcode = IBV_WC_RECV,
               .byte_len = bytes,
               .qp_num = qp->num,
               .imm_data = imm ? ddp->ulp : 0,
               .wc_flags = imm ? IBV_WC_WITH_IMM : 0},
        .src = peer->ah->name,
        .data = data,
    };
    qp->counters.rx_send_msgs++;
    qp->arena_held = true;
    dw_cq_push(qp->cq, &wc);
}

/* Kept for the next messages from one run to the next, for a receive may end so many; and bytes of
 * those kept from one trim to the next, one of them in any case. */
#define ASSEMBLIES_SPARE       16
#define ASSEMBLIES_SPARE_BYTES (384u << 10)

static size_t assembly_bytes(const struct diwarp_qp *qp)
{
    return sizeof(struct dw_assembly) + qp->attr.max_msg_bytes;
}

static struct dw_assembly *find(struct dw_peer *peer, uint32_t msn)
{
    dw_list_foreach (it, &peer->assemblies) {
        struct dw_assembly *assembly = dw_container(it, struct dw_assembly, link);
        if (assembly->msn == msn)
            return assembly;
    }
    return NULL;
}

/* What came before message msn, whose turn it is, has come, and yet some of that is not whole. An
 * honest peer ends a message before it begins the next. */
static bool left_one_open(const struct dw_peer *peer, uint32_t msn)
{
    dw_list_foreach (it, &peer->assemblies)
        if (dw_serial_before(dw_container(it, struct dw_assembly, link)->msn, msn))
            return true;
    return false;
}

static bool half_full(const struct diwarp_qp *qp)
{
    return qp->assembly_count >= ASSEMBLIES_MAX / 2 ||
           qp->assembly_bytes >= ASSEMBLIES_MAX_BYTES / 2;
}

/* For the next segment of one that is begun, or of a new one (NULL). */
static bool has_room(const struct dw_peer *peer, uint32_t msn, const struct dw_assembly *assembly,
                     bool in_order)
{
    const struct diwarp_qp *qp = peer->qp;
    if (in_order && half_full(qp) && left_one_open(peer, msn))
        return false;
    if (assembly && in_order)
        return qp->assembly_bytes < 2 * ASSEMBLIES_MAX_BYTES || !qp->oversize ||
               qp->oversize == assembly;
    unsigned share = assembly || in_order ? 1 : 2;
    if (!assembly && qp->assembly_count >= ASSEMBLIES_MAX / share)
        return false;
    return qp->assembly_bytes < ASSEMBLIES_MAX_BYTES / share || (in_order && !qp->oversize);
}

/* Without memory for another, one message that is in turn can still be received at a time; while
 * its sender does not go on with it, none of another. */
static struct dw_assembly *take(struct diwarp_qp *qp, bool in_order)
{
    struct dw_assembly *assembly;
    if (!dw_list_empty(&qp->free_assemblies)) {
        assembly = dw_container(qp->free_assemblies.next, struct dw_assembly, link);
        dw_list_remove(&assembly->link);
        qp->free_assembly_count--;
        return assembly;
    }
    assembly = dw_pages_map(assembly_bytes(qp), 4096);
    if (!assembly && in_order) {
        assembly = qp->last_assembly;
        qp->last_assembly = NULL;
    }
    return assembly;
}

static struct dw_assembly *begin(struct dw_peer *peer, uint32_t msn, bool in_order)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_assembly *assembly = take(qp, in_order);
    if (!assembly)
        return NULL;
    if (++qp->assembly_count > qp->assembly_most)
        qp->assembly_most = qp->assembly_count;
    assembly->msn = msn;
    assembly->total = 0;
    dw_ranges_init(&assembly->map);
    dw_list_append(&peer->assemblies, &assembly->link);
    dw_peer_watch(peer); /* should it never send the rest */
    return assembly;
}

/* It has been handed out, or will never be: its bytes stay until the next run. */
static void retire(struct diwarp_qp *qp, struct dw_assembly *assembly)
{
    if (qp->oversize == assembly)
        qp->oversize = NULL;
    qp->assembly_bytes -= assembly->map.bytes;
    qp->done_bytes += assembly->map.bytes > DONE_MIN_BYTES ? assembly->map.bytes : DONE_MIN_BYTES;
    dw_ranges_fini(&assembly->map);
    dw_list_remove(&assembly->link);
    dw_list_append(&qp->done_assemblies, &assembly->link);
    qp->assembly_count--;
}

static bool fits(const struct dw_peer *peer, const struct dw_segment *segment)
{
    uint64_t end = (uint64_t)segment->ddp.mo + segment->bytes;
    return segment->bytes && end <= peer->qp->attr.max_msg_bytes;
}

uint8_t *dw_deliver_place(struct dw_peer *peer, const struct dw_segment *segment)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    struct dw_assembly *assembly = find(peer, ddp->msn);
    struct dw_range hole;
    if (!assembly || (ddp->last && !ddp->mo) || !fits(peer, segment))
        return NULL;
    uint32_t end = ddp->mo + segment->bytes;
    if (dw_ranges_missing(&assembly->map, ddp->mo, end, &hole, 1) != 1 || hole.start != ddp->mo ||
        hole.end != end)
        return NULL;
    return assembly->buf + ddp->mo;
}

bool dw_deliver_send(struct dw_peer *peer, const struct dw_segment *segment, bool in_order)
{
    struct diwarp_qp *qp = peer->qp;
    const struct dw_ddp_header *ddp = &segment->ddp;
    if (ddp->last && !ddp->mo) {
        complete(peer, ddp, segment->payload, segment->bytes);
        return true;
    }
    if (!fits(peer, segment)) {
        qp->counters.drop_header++;
        return true;
    }
    uint32_t end = ddp->mo + segment->bytes;
    struct dw_assembly *assembly = find(peer, ddp->msn);
    if (!has_room(peer, ddp->msn, assembly, in_order))
        return false;
    if (!assembly)
        assembly = begin(peer, ddp->msn, in_order);
    int64_t added = assembly ? dw_ranges_add(&assembly->map, ddp->mo, end) : -ENOMEM;
    if (added < 0)
        return false;
    qp->assembly_bytes += (uint64_t)added;
    if (in_order && qp->assembly_bytes > ASSEMBLIES_MAX_BYTES && !qp->oversize)
        qp->oversize = assembly;
    if (segment->payload != assembly->buf + ddp->mo)
        dw_copy(assembly->buf + ddp->mo, segment->payload, segment->bytes);
    if (ddp->last)
        assembly->total = end;
    if (assembly->total && assembly->map.bytes >= assembly->total) {
        complete(peer, ddp, assembly->buf, assembly->total);
        retire(qp, assembly);
    }
    return true;
}

static void trim(struct diwarp_qp *qp, unsigned keep)
{
    for (; qp->free_assembly_count > keep; qp->free_assembly_count--) {
        struct dw_list *last = qp->free_assemblies.prev;
        dw_list_remove(last);
        dw_pages_unmap(dw_container(last, struct dw_assembly, link), assembly_bytes(qp));
    }
}

bool dw_deliver_is_full(const struct diwarp_qp *qp)
{
    return qp->done_bytes && qp->done_bytes + qp->assembly_bytes > ASSEMBLIES_MAX_BYTES;
}

void dw_deliver_recycle(struct diwarp_qp *qp)
{
    qp->done_bytes = 0;
    dw_list_foreach (it, &qp->done_assemblies) {
        dw_list_remove(it);
        if (!qp->last_assembly) {
            qp->last_assembly = dw_container(it, struct dw_assembly, link);
            dw_pages_drop(qp->last_assembly, assembly_bytes(qp));
            continue;
        }
        dw_list_prepend(&qp->free_assemblies, it);
        qp->free_assembly_count++;
    }
    trim(qp, ASSEMBLIES_SPARE);
}

bool dw_deliver_trim(struct diwarp_qp *qp)
{
    unsigned spares = (unsigned)(ASSEMBLIES_SPARE_BYTES / assembly_bytes(qp));
    spares = spares ? spares : 1;
    trim(qp, qp->assembly_most < spares ? qp->assembly_most : spares);
    qp->assembly_most = qp->assembly_count;
    return qp->free_assembly_count > 0 || !dw_list_empty(&qp->done_assemblies);
}

int dw_deliver_init(struct diwarp_qp *qp)
{
    qp->last_assembly = dw_pages_map(assembly_bytes(qp), 4096);
    return qp->last_assembly ? 0 : -ENOMEM;
}

void dw_deliver_fini(struct diwarp_qp *qp)
{
    dw_deliver_recycle(qp);
    trim(qp, 0);
    dw_pages_unmap(qp->last_assembly, assembly_bytes(qp));
}

void dw_deliver_forget(struct dw_peer *peer)
{
    dw_list_foreach (it, &peer->assemblies)
        retire(peer->qp, dw_container(it, struct dw_assembly, link));
}
