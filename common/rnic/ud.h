/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the UD service share: ud.c (sources, Sends that come), ud_send.c, ud_record.c.
 */
#ifndef DW_UD_H
#define DW_UD_H

#include "common/rnic/qp.h"

/* What has been seen of a source. */
struct dw_ud_source {
    struct dw_list link; /* in dw_ud.sources */
    struct diwarp_name name;
    uint32_t incarnation;
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
    struct dw_map source_by_name;
    struct dw_list sources, assemblies, records;
    struct dw_list recvs, free_recvs;
    uint32_t recv_count, record_count;
    uint32_t next_msn, next_record;
};

/* ---- ud_record.c ---- */
void dw_ud_on_record_segment(struct diwarp_qp *qp, struct dw_ud_source *source,
                             const struct dw_segment *segment, uint64_t now_ns);
void dw_ud_record_destroy(struct diwarp_record *record);

#endif
