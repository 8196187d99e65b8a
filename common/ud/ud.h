/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service, and what its files share. Every function runs with the device's lock held. */
#ifndef DW_UD_H
#define DW_UD_H

#include "common/datagram/segments.h"
#include "common/rel/ranges.h"
#include "common/rel/seen.h"
#include "common/rnic/qp.h"

/* What has been seen of a source: of a QP of a process, not of all that have had its name. */
struct dw_ud_source {
    struct dw_list link; /* in dw_ud_qp.sources */
    struct diwarp_name name;
    uint32_t incarnation, qpn;
    uint32_t users; /* records, and Sends of several segments */
    uint64_t heard_ns;
    struct dw_seen msns;
    struct dw_seen records; /* that have ended */
};

struct diwarp_record {
    struct dw_list link; /* in dw_ud_qp.records, oldest first */
    struct dw_ud_qp *qp;
    struct dw_ud_source *source;
    struct dw_timer timer;
    struct dw_ranges map;
    uint32_t id, total, stag;
    uint64_t to; /* of offset 0 */
    bool handed_over;
};

struct dw_ud_qp {
    struct diwarp_qp qp;
    struct dw_map source_by_key;
    struct dw_list sources, assemblies, records;
    struct dw_list recvs, free_recvs;
    uint32_t recv_count, record_count;
    uint32_t next_msn, next_record;
};

static inline struct dw_ud_qp *dw_ud_qp_of(struct diwarp_qp *qp)
{
    return dw_container(qp, struct dw_ud_qp, qp);
}

static inline struct diwarp_counters *dw_ud_counters(struct dw_ud_qp *ud)
{
    return &ud->qp.port->datagrams.counters;
}

/* ---- receive.c ---- */
int dw_ud_create(struct diwarp_qp *qp);
void dw_ud_destroy(struct diwarp_qp *qp);
int dw_ud_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr);
void dw_ud_take(struct dw_ud_qp *ud, const struct dw_arrival *arrival, uint64_t now_ns);
void dw_ud_add_memory(const struct dw_ud_qp *ud, struct diwarp_memory *memory);

/* ---- send.c ---- */
int dw_ud_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns);

/* ---- record.c ---- */
void dw_ud_on_record_segment(struct dw_ud_qp *ud, struct dw_ud_source *source,
                             const struct dw_segment *segment, uint64_t now_ns);
void dw_ud_record_destroy(struct diwarp_record *record);

#endif
