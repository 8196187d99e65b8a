/* SPDX-License-Identifier: BSD-3-Clause */
/* UD's table. A port keeps only address handles for it: each QP has all else that is its own. */
#include <errno.h>
#include <stdlib.h>

#include "common/ud/ud.h"

static int open_state(struct dw_port *port, void **state)
{
    struct dw_ud_port *ud_port = malloc(sizeof *ud_port);
    if (!ud_port)
        return -ENOMEM;
    *ud_port =
        (struct dw_ud_port){.ahs = {.port = port, .service = &dw_ud_service}, .due_ns = DW_NEVER};
    dw_cells_init(&ud_port->ahs.cells, sizeof(struct diwarp_ah));
    dw_list_init(&ud_port->readers);
    dw_list_init(&ud_port->askers);
    *state = ud_port;
    return 0;
}

static void close_state(void *state)
{
    struct dw_ud_port *port = state;
    dw_pages_unmap(port->lazy.buf, DW_LLP_SLOT_BYTES);
    dw_cells_fini(&port->ahs.cells);
    free(port);
}

static int create(struct diwarp_qp *qp)
{
    struct dw_ud_qp *ud = dw_ud_qp_of(qp);
    struct dw_map *maps[] = {&ud->source_by_key, &ud->open, &ud->targets, &ud->reads.by_id};
    if (qp->attr.srq && qp->attr.srq->pd->device != qp->pd->device)
        return -EINVAL;
    /* A QP that was here before may have sent with the same MSNs. */
    qp->port->datagrams.number += DW_UD_NUMBERS_ANEW;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        dw_map_init(maps[i], dw_device_random(qp->port->device));
    dw_list_init(&ud->sources);
    dw_list_init(&ud->records);
    dw_list_init(&ud->recvs);
    dw_list_init(&ud->reads.active);
    dw_list_init(&ud->reads.expired);
    dw_list_init(&ud->reads.link);
    ud->reads.last_id = qp->port->device->env.first_serial;
    return 0;
}

static void destroy(struct diwarp_qp *qp)
{
    struct dw_ud_qp *ud = dw_ud_qp_of(qp);
    (void)dw_ud_lazy_flush(dw_ud_port_of(ud));
    dw_foreach (record, struct diwarp_record, link, &ud->records)
        dw_ud_record_destroy(record);
    dw_foreach (recv, struct dw_ud_recv, link, &ud->recvs)
        free(recv);
    dw_foreach (source, struct dw_ud_source, link, &ud->sources)
        dw_ud_source_destroy(ud, source);
    dw_ud_reads_fini(ud);
    free(ud->gone);
    dw_map_fini(&ud->open);
    dw_map_fini(&ud->source_by_key);
    dw_ud_targets_fini(ud);
}

/* Of a peer nothing is kept, so there may be several handles of one name. */
static struct diwarp_ah *get_ah(struct diwarp_qp *qp, const struct diwarp_address *address)
{
    struct diwarp_ah *ah = dw_cells_get(&dw_ud_port_of(dw_ud_qp_of(qp))->ahs.cells);
    if (ah) {
        ah->name = address->name;
        ah->incarnation = address->incarnation;
    }
    return ah;
}

static struct diwarp_ah *get_ah_of_qpn(struct diwarp_ah *ah, uint32_t qpn)
{
    ah->qpn = qpn & 0xffffff;
    return ah;
}

static void put_ah(struct diwarp_ah *ah)
{
    if (dw_ahs_of(ah))
        dw_ah_drop_route(ah);
    dw_cells_put(ah);
}

/* ---- its runs ---- */

/* What a full socket refuses does not go sooner for being tried again at once. */
#define RETRY_NS 400000

static bool run(void *state, uint64_t now_ns)
{
    (void)dw_ud_lazy_flush(state);
    return dw_ud_answers_run(state, now_ns);
}

static void expire(void *state, uint64_t now_ns)
{
    dw_ud_reads_expire(state, now_ns);
}

static uint64_t next_deadline_ns(const void *state, uint64_t ran_ns)
{
    const struct dw_ud_port *port = state;
    if (dw_list_empty(&port->askers) && !port->lazy.count)
        return port->due_ns;
    const uint64_t retry_ns = port->refused || port->lazy.refused ? ran_ns + RETRY_NS : 0;
    return retry_ns < port->due_ns ? retry_ns : port->due_ns;
}

static bool owes(const struct diwarp_qp *qp)
{
    const struct dw_ud_qp *ud = dw_container(qp, struct dw_ud_qp, qp);
    return !dw_list_empty(&ud->reads.active) || ud->held[DW_UD_REQUEST] ||
           dw_ud_port_of(ud)->lazy.count;
}

static void add_memory(const void *state, struct diwarp_memory *memory)
{
    const struct dw_ud_port *port = state;
    const struct dw_ahs *ahs = &port->ahs;
    const uint32_t lazy_bytes = port->lazy.buf ? DW_LLP_SLOT_BYTES : 0;
    memory->base_bytes += sizeof *port;
    memory->send_pool_bytes += lazy_bytes;
    memory->mapped_bytes += lazy_bytes;
    memory->addresses += ahs->cells.count;
    memory->address_bytes += dw_cells_bytes(&ahs->cells);
    dw_foreach (qp, struct diwarp_qp, link, &ahs->port->qps) {
        if (qp->service != &dw_ud_service)
            continue;
        const struct dw_ud_qp *ud = dw_ud_qp_of(qp);
        dw_foreach (recv, const struct dw_ud_recv, link, &ud->recvs)
            memory->receive_bytes += dw_ud_recv_bytes(recv->posted.sge_count);
        memory->assembly_bytes += ud->held[DW_UD_SEND] * sizeof(struct diwarp_record);
        memory->record_bytes +=
            ud->held[DW_UD_RECORD] * sizeof(struct diwarp_record) + dw_map_bytes(&ud->open);
        memory->record_bytes += dw_ud_reads_bytes(ud);
        memory->address_bytes +=
            ud->targets.count * sizeof(struct dw_ud_target) + dw_map_bytes(&ud->targets);
        memory->peers += ud->source_by_key.count;
        memory->peer_bytes += ud->source_by_key.count * sizeof(struct dw_ud_source) +
                              dw_map_bytes(&ud->source_by_key) +
                              (ud->gone ? DW_UD_SOURCES_MAX * sizeof *ud->gone : 0);
    }
}

const struct dw_service dw_ud_service = {
    .qp_bytes = sizeof(struct dw_ud_qp),
    .open = open_state,
    .close = close_state,
    .create = create,
    .destroy = destroy,
    .post_send = dw_ud_post_send,
    .post_recv = dw_ud_post_recv,
    .get_ah = get_ah,
    .get_ah_of_qpn = get_ah_of_qpn,
    .put_ah = put_ah,
    .take = dw_ud_take,
    .owes = owes,
    .run = run,
    .next_deadline_ns = next_deadline_ns,
    .expire = expire,
    .add_memory = add_memory,
};
