/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA over RD: reads and writes, and the records they are made of (rdma_record.h). */
#ifndef DW_RDMA_H
#define DW_RDMA_H

#include "common/base/heap.h"
#include "common/mem/mr.h"
#include "common/rel/record.h"
#include "common/rd/peer.h"
#include "common/rd/receive.h"
#include "common/wire/rdmap.h"

/* RD record at the sink: of our RDMA read, or of a peer's write. */
struct dw_sink {
    struct dw_list peer_link, want_link; /* want: waits for grant, in turn */
    struct dw_record_sink record;
    struct dw_peer *peer;
    struct dw_timer timer;
    uint64_t asked_ns; /* for missing ranges, by the timer; 0: not yet */
    uint64_t late_ns;  /* the timer found it overdue */
    uint32_t id, stag;
    uint64_t to; /* of offset 0 */
    uint8_t *addr;
    struct dw_region *region; /* of a peer's write; NULL: our read */
    uint64_t wr_id;
    uint32_t request_psn; /* of the datagram that asks for our read, once it is copied there */
    bool requested;       /* request_psn is set */
    bool signaled, hold;
    bool held;           /* complete, waits for diwarp_post_release() */
    bool counted;        /* in qp.granted_records */
    bool aside;          /* nothing comes of it: others may have been granted what is due of it */
    bool parked;         /* not in want, though not all is granted: its time is not come */
    bool long_datagrams; /* brought by those of DW_LLP_LONG_BYTES and more, but for the last */
};

/* RD record at the source: answers a peer's read, or is our own write. */
struct dw_source {
    struct dw_list peer_link, ready_link;
    struct dw_record_source record;
    struct dw_peer *peer;
    uint32_t id, sink_stag;
    uint64_t sink_to;
    const uint8_t *addr;
    struct dw_region *region; /* of a peer's read; NULL: our write */
    uint64_t wr_id;
    uint32_t turn_bytes; /* sent since it was first of those that are ready */
    bool signaled;
};

int dw_rdma_post_read(struct diwarp_qp *qp, struct dw_peer *peer, const struct ibv_send_wr *wr,
                      uint64_t now_ns);
int dw_rdma_post_write(struct diwarp_qp *qp, struct dw_peer *peer, const struct ibv_send_wr *wr,
                       uint64_t now_ns);
/* All that it had sent when it got that probe has come, or is lost. */
void dw_rdma_on_probe_reply(struct dw_peer *peer, uint64_t sent_ns, uint64_t now_ns);
void dw_rdma_on_read_request(struct dw_peer *peer, const struct dw_segment *segment,
                             uint64_t now_ns);
void dw_rdma_on_control(struct dw_peer *peer, const struct dw_segment *segment, bool sequenced,
                        uint64_t now_ns);
/* A Write-Record segment: of an RD record (unsequenced), or a small write (sequenced). */
void dw_rdma_on_record_segment(struct dw_peer *peer, const struct dw_segment *segment,
                               uint64_t now_ns);
void dw_rdma_on_write_segment(struct dw_peer *peer, const struct dw_segment *segment,
                              uint64_t now_ns);
/* Ends a sink or source without a completion. */
void dw_sink_destroy(struct dw_sink *sink);
void dw_source_destroy(struct dw_source *source);
/* ... with one that says why. */
void dw_sink_fail(struct dw_sink *sink, enum ibv_wc_status status);
void dw_source_fail(struct dw_source *source, enum ibv_wc_status status);
void dw_rdma_abort(struct dw_peer *peer, uint32_t id, enum dw_status status, uint64_t now_ns);

#endif
