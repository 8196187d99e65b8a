/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service, and what its files share: ud.c (sources, Sends that come), ud_send.c,
 * ud_record.c. */
#ifndef DW_UD_H
#define DW_UD_H

#include "common/rel/record.h"
#include "common/rel/seen.h"
#include "common/rd/receive.h"
#include "common/wire/llp_header.h"

/* What has been seen of a source: of a process, not of all that have had its name. */
struct dw_ud_source {
    struct dw_list link; /* in dw_ud.sources */
    struct diwarp_name name;
    uint32_t incarnation;
    uint32_t users; /* records, and Sends of several segments */
    uint64_t heard_ns;
    struct dw_seen msns;
    struct dw_seen records; /* that have ended */
};

struct diwarp_record {
    struct dw_list link; /* in dw_ud.records, oldest first */
    struct diwarp_qp *qp;
    struct dw_ud_source *source;
    struct dw_timer timer;
    struct dw_ranges map;
    uint32_t id, total, stag;
    uint64_t to; /* of offset 0 */
    bool handed_over;
};

struct dw_ud {
    struct dw_map source_by_key;
    struct dw_list sources; /* the one that was heard last is the last */
    struct dw_list assemblies, records;
    struct dw_list recvs, free_recvs;
    uint32_t recv_count, record_count;
    uint32_t next_msn, next_record;
};

/* ---- ud.c ---- */
int dw_ud_create(struct diwarp_qp *qp);
void dw_ud_destroy(struct diwarp_qp *qp);
int dw_ud_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns);
int dw_ud_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr);
/* Adds its own memory to that of the QP. */
void dw_ud_query_memory(const struct diwarp_qp *qp, struct diwarp_memory *memory);
void dw_ud_on_datagram(struct diwarp_qp *qp, const struct dw_llp_header *header,
                       const uint8_t *segments, uint32_t len, uint64_t now_ns);

/* ---- ud_record.c ---- */
void dw_ud_on_record_segment(struct diwarp_qp *qp, struct dw_ud_source *source,
                             const struct dw_segment *segment, uint64_t now_ns);
void dw_ud_record_destroy(struct diwarp_record *record);

#endif
