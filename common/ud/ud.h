/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service, and what its files share. Every function runs with the device's lock held. */
#ifndef DW_UD_H
#define DW_UD_H

#include "common/datagram/segments.h"
#include "common/rel/ranges.h"
#include "common/rel/seen.h"
#include "common/rnic/qp.h"

/*
 * At most once, for as long as a QP lives: a message or record that has ended changes no memory
 * again, however late its datagrams come or come again. Two holes are left: a datagram that is not
 * what its sender sealed (nothing is authenticated), and, once a QP has heard of more sources than
 * it remembers (65536), one of a source that has been forgotten and whose last number, which is
 * kept longer, has been forgotten, too.
 */

/* A jump of the numbers of datagrams after which MSNs and record ids may begin anew. */
#define DW_UD_NUMBERS_ANEW (1ull << 30)

/* What has been seen of a source: of a queue pair of a process, not of all that have had its name.
 */
struct dw_ud_source {
    struct dw_list link; /* in dw_ud_qp.sources */
    uint64_t key;        /* in dw_ud_qp.source_by_key */
    struct diwarp_name name;
    uint32_t qpn;
    /* What it holds: of neither more than it leaves to others. */
    uint32_t recvs, open_records;
    uint64_t heard_ns;
    /* Numbers of datagrams: the highest; the highest of those that are too late. */
    uint64_t newest, late;
    struct dw_seen msns, records; /* that have begun */
};

/* An address handle. */
struct dw_ud_ah {
    struct diwarp_ah ah;
    uint32_t qpn;
};

/* What has been sent to a destination. */
struct dw_ud_target {
    uint32_t msn, record; /* the last ones */
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

struct dw_ud_gone;

struct dw_ud_qp {
    struct diwarp_qp qp;
    struct dw_map source_by_key;
    struct dw_list sources;  /* the one that has been silent for longest first */
    struct dw_ud_gone *gone; /* NULL: none has been forgotten yet */
    struct dw_map open_assemblies, open_records; /* by dw_ud_key() */
    struct dw_list assemblies, records;
    struct dw_list recvs, free_recvs;
    uint32_t recv_count, record_count;
    struct dw_map targets; /* by token and QPN: that have been sent to */
};

static inline struct dw_ud_qp *dw_ud_qp_of(struct diwarp_qp *qp)
{
    return dw_container(qp, struct dw_ud_qp, qp);
}

static inline struct diwarp_counters *dw_ud_counters(struct dw_ud_qp *ud)
{
    return &ud->qp.port->datagrams.counters;
}

/* Of a message or record of a source. */
static inline uint64_t dw_ud_key(const struct dw_ud_source *source, uint32_t serial)
{
    return source->key ^ serial;
}

/* ---- source.c ---- */
void dw_ud_sources_init(struct dw_ud_qp *ud);
void dw_ud_sources_fini(struct dw_ud_qp *ud);
void dw_ud_sources_add_memory(const struct dw_ud_qp *ud, struct diwarp_memory *memory);
/* The source of a datagram. NULL, counted: it is too late, there are too many, or no memory. */
struct dw_ud_source *dw_ud_source_of(struct dw_ud_qp *ud, const struct dw_llp_header *header,
                                     uint64_t now_ns);

/* ---- receive.c ---- */
int dw_ud_create(struct diwarp_qp *qp);
void dw_ud_destroy(struct diwarp_qp *qp);
int dw_ud_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr);
void dw_ud_take(struct dw_ud_qp *ud, const struct dw_arrival *arrival, uint64_t now_ns);
void dw_ud_add_memory(const struct dw_ud_qp *ud, struct diwarp_memory *memory);

/* ---- send.c ---- */
void dw_ud_targets_fini(struct dw_ud_qp *ud);
int dw_ud_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns);

/* ---- record.c ---- */
void dw_ud_on_record_segment(struct dw_ud_qp *ud, struct dw_ud_source *source,
                             const struct dw_segment *segment, uint64_t now_ns);
void dw_ud_record_destroy(struct diwarp_record *record);

#endif
