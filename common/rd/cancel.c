/* SPDX-License-Identifier: BSD-3-Clause */
/* Records that end before they are done: their region, or their QP, goes. */
#include "common/rd/cancel.h"

#include "common/rd/rdma.h"
#include "common/record/sink.h"
#include "common/record/source.h"

void dw_cancel_asked(struct dw_peer *peer, const struct dw_region *region,
                     const struct diwarp_qp *qp, uint64_t now_ns)
{
    dw_list_foreach (a, &peer->records.sinks) {
        struct dw_sink *sink = dw_container(a, struct dw_sink, peer_link);
        const struct dw_qpns qpns = sink->qpns;
        const uint32_t id = sink->id;
        if (!sink->region || (region ? sink->region != region : sink->qp != qp))
            continue;
        dw_sink_destroy(sink);
        dw_rdma_abort(peer, qpns, id, DW_STATUS_CANCELLED, now_ns);
    }
    dw_list_foreach (b, &peer->records.sources) {
        struct dw_source *source = dw_container(b, struct dw_source, peer_link);
        const struct dw_qpns qpns = source->qpns;
        const uint32_t id = source->id;
        if (!source->region || (region ? source->region != region : source->qp != qp))
            continue;
        dw_source_destroy(source);
        dw_rdma_abort(peer, qpns, id, DW_STATUS_CANCELLED, now_ns);
    }
}

void dw_cancel_own(struct dw_peer *peer, const struct diwarp_qp *qp, uint64_t now_ns)
{
    dw_list_foreach (a, &peer->records.sinks) {
        struct dw_sink *sink = dw_container(a, struct dw_sink, peer_link);
        if (!sink->region && sink->qp == qp)
            dw_sink_abandon(sink, now_ns);
    }
    dw_list_foreach (b, &peer->records.sources) {
        struct dw_source *source = dw_container(b, struct dw_source, peer_link);
        if (!source->region && source->qp == qp)
            dw_source_abandon(source, now_ns);
    }
}
