/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read over UD, at the reader. Each read has a record id and an STag of its own, by which its
 * answer is placed, and a place in a bounded list, which is in order of deadlines: so a walk looks
 * at those that have expired, and one more. Nothing is asked for again. */
#include <errno.h>
#include <stdlib.h>

#include "common/ud/ud.h"

/* ---- the lists ---- */

static void destroy(struct dw_ud_read *read)
{
    dw_list_remove(&read->link);
    dw_ranges_fini(&read->map);
    free(read->into);
    free(read);
}

/* No further segment is taken. */
static void leave_active(struct dw_ud_qp *ud, struct dw_ud_read *read)
{
    dw_map_remove(&ud->reads.by_id, read->id);
    dw_list_remove(&read->link);
    if (dw_list_empty(&ud->reads.active))
        dw_list_remove(&ud->reads.link);
    if (dw_list_empty(&dw_ud_port_of(ud)->readers))
        dw_ud_port_of(ud)->due_ns = DW_NEVER;
}

/* Behind those that are due no later: at the end, unless the time was made shorter meanwhile. */
static void join_active(struct dw_ud_qp *ud, struct dw_ud_read *read)
{
    struct dw_ud_port *port = dw_ud_port_of(ud);
    struct dw_list *before = ud->reads.active.prev;
    while (before != &ud->reads.active &&
           dw_container(before, struct dw_ud_read, link)->deadline_ns > read->deadline_ns)
        before = before->prev;
    dw_list_prepend(before, &read->link);
    if (!dw_list_linked(&ud->reads.link))
        dw_list_append(&port->readers, &ud->reads.link);
    if (read->deadline_ns < port->due_ns)
        port->due_ns = read->deadline_ns;
}

static void complete(struct dw_ud_qp *ud, const struct dw_ud_read *read, enum ibv_wc_status status)
{
    dw_qp_complete(&ud->qp, read->wr_id, read->signaled, IBV_WC_RDMA_READ, status,
                   (uint32_t)read->map.bytes);
}

/* Its map is kept, and of the others the newest. */
static void expire(struct dw_ud_qp *ud, struct dw_ud_read *read)
{
    struct dw_ud_reads *reads = &ud->reads;
    leave_active(ud, read);
    free(read->into);
    read->into = NULL;
    dw_ud_counters(ud)->reads_expired++;
    dw_list_append(&reads->expired, &read->link);
    if (++reads->expired_count > ud->qp.attr.max_reads) {
        destroy(dw_container(reads->expired.next, struct dw_ud_read, link));
        reads->expired_count--;
    }
    complete(ud, read, IBV_WC_RESP_TIMEOUT_ERR);
}

/* Returns the first deadline of those that are left. */
static uint64_t walk(struct dw_ud_qp *ud, uint64_t now_ns)
{
    dw_foreach (read, struct dw_ud_read, link, &ud->reads.active) {
        dw_ud_counters(ud)->read_walks++;
        if (read->deadline_ns > now_ns)
            return read->deadline_ns;
        expire(ud, read);
    }
    return DW_NEVER;
}

void dw_ud_reads_expire(struct dw_ud_port *port, uint64_t now_ns)
{
    if (now_ns < port->due_ns)
        return;
    port->due_ns = DW_NEVER;
    dw_foreach (reads, struct dw_ud_reads, link, &port->readers) {
        const uint64_t due_ns = walk(dw_container(reads, struct dw_ud_qp, reads), now_ns);
        if (due_ns < port->due_ns)
            port->due_ns = due_ns;
    }
}

void dw_ud_reads_fini(struct dw_ud_qp *ud)
{
    dw_foreach (read, struct dw_ud_read, link, &ud->reads.active)
        destroy(read);
    dw_foreach (read, struct dw_ud_read, link, &ud->reads.expired)
        destroy(read);
    dw_list_remove(&ud->reads.link);
    dw_map_fini(&ud->reads.by_id);
}

uint64_t dw_ud_reads_bytes(const struct dw_ud_qp *ud)
{
    uint64_t bytes = dw_map_bytes(&ud->reads.by_id);
    bytes += (ud->reads.by_id.count + ud->reads.expired_count) * sizeof(struct dw_ud_read);
    dw_foreach (read, const struct dw_ud_read, link, &ud->reads.active)
        bytes += dw_recv_bytes(read->into->sge_count);
    return bytes;
}

/* ---- asking ---- */

static int send_request(struct dw_ud_qp *ud, const struct diwarp_ah *ah,
                        const struct dw_ud_read *read, const struct ibv_send_wr *wr, uint32_t qkey,
                        uint64_t now_ns)
{
    uint8_t buf[DW_READ_REQUEST_BYTES];
    const struct dw_read_request request = {.sink_stag = read->stag,
                                            .size = read->total,
                                            .source_stag = wr->wr.rdma.rkey,
                                            .source_to = wr->wr.rdma.remote_addr,
                                            .record_id = read->id,
                                            .granted = ud->qp.attr.qkey};
    struct dw_ud_target *target = dw_ud_target_of(ud, ah);
    if (!target)
        return -ENOMEM;
    struct dw_ud_outgoing out = {.ud = ud,
                                 .ah = ah,
                                 .ddp = {.opcode = DW_RDMAP_READ_REQUEST,
                                         .qn = DW_QN_REQUEST,
                                         .msn = target->last[DW_UD_REQUEST] + 1},
                                 .record = {.total = sizeof buf},
                                 .qkey = qkey,
                                 .intro = true,
                                 .iov = {{.iov_base = buf, .iov_len = sizeof buf}}};
    dw_read_request_put(buf, &request);
    const int rc = dw_ud_send_train(&out, now_ns);
    target->last[DW_UD_REQUEST] += !rc;
    return rc;
}

/* Of the sink's half of the ids, never 0; after 2^31 reads it begins anew. */
static uint32_t next_id(struct dw_ud_reads *reads)
{
    do
        reads->last_id = (reads->last_id + 1) & ~DW_RECORD_ID_FROM_SOURCE;
    while (!reads->last_id || dw_map_get(&reads->by_id, reads->last_id));
    return reads->last_id;
}

/* NULL: no memory. */
static struct dw_ud_read *create(struct dw_ud_qp *ud, const struct ibv_send_wr *wr,
                                 const struct iovec *iov, uint32_t total)
{
    const uint32_t sge_count = (uint32_t)wr->num_sge;
    struct dw_ud_read *read = calloc(1, sizeof *read);
    struct dw_recv *into = malloc(dw_recv_bytes(sge_count));
    if (!read || !into) {
        free(read);
        free(into);
        return NULL;
    }
    dw_recv_set(into, ud->qp.pd, wr->wr_id, wr->sg_list, iov, sge_count, total);
    dw_list_init(&read->link);
    read->into = into;
    read->wr_id = wr->wr_id;
    read->total = total;
    read->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    read->id = next_id(&ud->reads);
    read->stag = (uint32_t)dw_device_random(ud->qp.port->device);
    return read;
}

int dw_ud_post_read(struct dw_ud_qp *ud, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint32_t qkey, uint64_t now_ns)
{
    struct iovec iov[DW_UD_MAX_SGE];
    const int64_t total = dw_pd_gather(ud->qp.pd, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE,
                                       UINT32_MAX >> 1, iov, DW_UD_MAX_SGE);
    if (total <= 0)
        return total ? (int)total : -EINVAL;
    if (ud->reads.by_id.count >= ud->qp.attr.max_reads)
        return -ENOMEM;
    struct dw_ud_read *read = create(ud, wr, iov, (uint32_t)total);
    if (!read)
        return -ENOMEM;
    read->source = ah->name;
    read->source_qpn = ah->qpn;
    read->deadline_ns = dw_deadline_ns(now_ns, ud->qp.attr.read_time_ns);
    int rc = dw_map_put(&ud->reads.by_id, read->id, read);
    if (!rc && (rc = send_request(ud, ah, read, wr, qkey, now_ns)))
        dw_map_remove(&ud->reads.by_id, read->id);
    if (rc) {
        destroy(read);
        return rc;
    }
    join_active(ud, read);
    dw_ud_counters(ud)->tx_read_msgs++;
    return 0;
}

/* ---- the answer ---- */

uint64_t *dw_ud_on_answer(struct dw_ud_qp *ud, const struct dw_ud_source *source,
                          const struct dw_segment *segment, const struct dw_write_record *wr)
{
    struct diwarp_counters *counters = dw_ud_counters(ud);
    const uint32_t length = segment->bytes - DW_WRITE_RECORD_BYTES;
    struct dw_ud_read *read = dw_map_get(&ud->reads.by_id, wr->id);
    if (!read || dw_name_key(read->source) != dw_name_key(source->name) ||
        read->source_qpn != source->qpn)
        return &counters->drop_stale_record;
    if (segment->ddp.stag != read->stag || segment->ddp.to != wr->offset ||
        wr->total != read->total)
        return &counters->drop_stag;
    const int64_t new_bytes = dw_ranges_add(&read->map, wr->offset, wr->offset + length);
    if (new_bytes < 0)
        return &counters->drop_no_buffer;
    const enum ibv_wc_status placed =
        new_bytes ? dw_recv_place(ud->qp.pd, read->into, wr->offset,
                                  segment->payload + DW_WRITE_RECORD_BYTES, length)
                  : IBV_WC_SUCCESS;
    counters->rx_record_segments++;
    counters->rx_record_bytes += (uint64_t)new_bytes;
    counters->rx_dup_record_bytes += length - (uint64_t)new_bytes;
    if (!placed && read->map.bytes < read->total)
        return NULL;
    leave_active(ud, read);
    complete(ud, read, placed);
    destroy(read);
    return NULL;
}

/* ---- the application's view ---- */

void diwarp_set_read_time(struct diwarp_qp *qp, uint64_t read_time_ns)
{
    dw_lock(qp->port->device);
    qp->attr.read_time_ns = read_time_ns;
    dw_unlock(qp->port->device);
}

/* The one posted last, whichever list it is in: NULL: none. */
static const struct dw_ud_read *find(const struct diwarp_qp *qp, uint64_t wr_id)
{
    const struct dw_ud_qp *ud = dw_container(qp, struct dw_ud_qp, qp);
    const struct dw_ud_read *found = NULL;
    const struct dw_list *lists[] = {&ud->reads.active, &ud->reads.expired};
    for (unsigned i = 0; qp->attr.type == DIWARP_QPT_UD && i < 2; i++)
        dw_foreach (read, const struct dw_ud_read, link, lists[i])
            if (read->wr_id == wr_id && (!found || (int32_t)((read->id - found->id) << 1) > 0))
                found = read;
    return found;
}

int diwarp_query_read(struct diwarp_qp *qp, uint64_t wr_id, struct diwarp_read_info *info)
{
    dw_lock(qp->port->device);
    const struct dw_ud_read *read = find(qp, wr_id);
    if (read)
        *info = (struct diwarp_read_info){
            .length = read->total, .valid_bytes = read->map.bytes, .active = read->into};
    dw_unlock(qp->port->device);
    return read ? 0 : -ENOENT;
}

unsigned diwarp_read_ranges(struct diwarp_qp *qp, uint64_t wr_id, struct diwarp_range *ranges,
                            unsigned n)
{
    dw_lock(qp->port->device);
    const struct dw_ud_read *read = find(qp, wr_id);
    const unsigned count = read ? read->map.count : 0;
    for (unsigned i = 0; i < count && i < n; i++)
        ranges[i] = (struct diwarp_range){read->map.list[i].start, read->map.list[i].end};
    dw_unlock(qp->port->device);
    return count;
}
