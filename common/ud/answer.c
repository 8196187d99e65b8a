/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read over UD, at the responder: a request is answered by Write-Record segments of the record
 * that the reader chose, one train for each reader in turn, so that neither a long answer nor one
 * who asks for many keeps others, or the device's lock, for long. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/ud/ud.h"

/* Trains of a run, of up to 64 KiB each: with half as many other threads get the lock sooner, with
 * twice as many fewer runs are needed for what waits. */
#define TRAINS_PER_RUN 8

static struct dw_ud_port *port_of(const struct dw_ud_asker *asker)
{
    return dw_ud_port_of(asker->ud);
}

static void end_answer(struct dw_ud_asker *asker, struct dw_ud_answer *answer)
{
    asker->source->held[DW_UD_REQUEST]--;
    asker->ud->held[DW_UD_REQUEST]--;
    dw_list_remove(&answer->link);
    free(answer);
    if (dw_list_empty(&asker->answers))
        dw_list_remove(&asker->link);
}

static void drop_ah(struct diwarp_ah *ah)
{
    dw_ah_drop_route(ah);
    dw_cells_put(ah);
}

void dw_ud_asker_destroy(struct dw_ud_asker *asker)
{
    dw_foreach (answer, struct dw_ud_answer, link, &asker->answers)
        end_answer(asker, answer);
    asker->source->asker = NULL;
    drop_ah(asker->ah);
    free(asker);
}

/* ---- requests ---- */

/* A handle for where it says that the source is. NULL: no memory. */
static struct diwarp_ah *ah_of_intro(struct dw_ud_qp *ud, const struct dw_ud_source *source,
                                     uint32_t incarnation, const struct dw_intro *intro)
{
    struct diwarp_ah *ah = dw_cells_get(&dw_ud_port_of(ud)->ahs.cells);
    if (!ah)
        return NULL;
    ah->name = source->name;
    ah->incarnation = incarnation;
    ah->qpn = source->qpn & DW_QPN_MAX;
    if (dw_ah_set_route_by_intro(ah, intro))
        return ah;
    dw_cells_put(ah);
    return NULL;
}

static bool is_same(const struct dw_intro *a, const struct dw_intro *b)
{
    return a->token == b->token && a->family == b->family && a->flow == b->flow &&
           a->port == b->port && a->mtu_bytes == b->mtu_bytes &&
           !memcmp(a->ip, b->ip, sizeof a->ip);
}

/* That of the source, led by that intro. NULL: no memory. */
static struct dw_ud_asker *asker_of(struct dw_ud_qp *ud, struct dw_ud_source *source,
                                    const struct dw_arrival *arrival)
{
    const struct dw_intro *intro = arrival->intro;
    struct dw_ud_asker *asker = source->asker;
    if (asker && is_same(&asker->intro, intro))
        return asker;
    struct diwarp_ah *ah = ah_of_intro(ud, source, arrival->header.incarnation, intro);
    if (!ah)
        return NULL;
    if (asker) {
        drop_ah(asker->ah);
    } else if (!(asker = calloc(1, sizeof *asker))) {
        drop_ah(ah);
        return NULL;
    } else {
        asker->ud = ud;
        asker->source = source;
        dw_list_init(&asker->link);
        dw_list_init(&asker->answers);
        source->asker = asker;
    }
    asker->ah = ah;
    asker->intro = *intro;
    return asker;
}

uint64_t *dw_ud_on_read_request(struct dw_ud_qp *ud, struct dw_ud_source *source,
                                const struct dw_arrival *arrival, const struct dw_segment *segment)
{
    struct diwarp_counters *counters = dw_ud_counters(ud);
    const struct dw_ddp_header *ddp = &segment->ddp;
    struct dw_read_request request;
    struct dw_region *region;
    if (!arrival->intro || !ddp->last || ddp->mo || segment->bytes != DW_READ_REQUEST_BYTES ||
        dw_read_request_get(&request, segment->payload, segment->bytes) || !request.record_id ||
        !request.size || request.size > UINT32_MAX >> 1)
        return &counters->drop_header;
    if (dw_seen_check(&source->begun[DW_UD_REQUEST], ddp->msn))
        return &counters->rx_dup_datagrams;
    if (dw_mr_check(&ud->qp.pd->mrs, &source->name, request.source_stag, request.source_to,
                    request.size, IBV_ACCESS_REMOTE_READ, &region))
        return &counters->drop_stag;
    const uint64_t held = (uint64_t)ud->held[DW_UD_REQUEST] + source->held[DW_UD_REQUEST];
    if (held >= ud->qp.attr.max_answers)
        return &counters->drop_read;
    struct dw_ud_asker *asker = asker_of(ud, source, arrival);
    struct dw_ud_answer *answer = asker ? malloc(sizeof *answer) : NULL;
    if (!answer)
        return &counters->drop_no_buffer;
    *answer = (struct dw_ud_answer){.request = request};
    dw_seen_add(&source->begun[DW_UD_REQUEST], ddp->msn);
    dw_list_append(&asker->answers, &answer->link);
    if (!dw_list_linked(&asker->link))
        dw_list_append(&port_of(asker)->askers, &asker->link);
    ud->held[DW_UD_REQUEST]++;
    source->held[DW_UD_REQUEST]++;
    return NULL;
}

/* ---- answers ---- */

/* What is sent is what the reader may read now. False: the socket takes nothing. */
static bool send_train(struct dw_ud_asker *asker, struct dw_ud_answer *answer, uint64_t now_ns)
{
    const struct dw_read_request *request = &answer->request;
    struct dw_ud_qp *ud = asker->ud;
    struct diwarp_counters *counters = dw_ud_counters(ud);
    struct dw_region *region;
    if (dw_mr_check(&ud->qp.pd->mrs, &asker->source->name, request->source_stag, request->source_to,
                    request->size, IBV_ACCESS_REMOTE_READ, &region)) {
        counters->drop_stag++;
        end_answer(asker, answer);
        return true;
    }
    struct dw_ud_outgoing out = {
        .ud = ud,
        .ah = asker->ah,
        .ddp = {.tagged = true,
                .opcode = DW_RDMAP_WRITE_RECORD,
                .stag = request->sink_stag,
                .to = request->sink_to + answer->sent},
        .record = {.id = request->record_id, .offset = answer->sent, .total = request->size},
        .qkey = request->granted,
        .iov = {{.iov_base = dw_region_at(region, request->source_to), .iov_len = request->size}}};
    const int rc = dw_ud_send_train(&out, now_ns);
    if (rc == -EAGAIN)
        return false;
    answer->sent = out.record.offset; /* whatever else has become of it: it is lost */
    if (answer->sent == request->size) {
        counters->tx_answers++;
        end_answer(asker, answer);
    }
    return true;
}

bool dw_ud_answers_run(struct dw_ud_port *port, uint64_t now_ns)
{
    unsigned refusals = 0;
    for (unsigned i = 0;
         i < TRAINS_PER_RUN && refusals < DW_REFUSALS_PER_RUN && !dw_list_empty(&port->askers);
         i++) {
        struct dw_ud_asker *asker = dw_container(port->askers.next, struct dw_ud_asker, link);
        dw_list_remove(&asker->link);
        dw_list_append(&port->askers, &asker->link);
        refusals += !send_train(asker, dw_container(asker->answers.next, struct dw_ud_answer, link),
                                now_ns);
        port->ahs.port->device->served++;
    }
    port->refused = refusals;
    return !refusals && !dw_list_empty(&port->askers);
}
