/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read over UD: what a queue pair keeps of its own reads, and of those that it answers. */
#pragma once

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/include/diwarp.h"
#include "common/rel/ranges.h"
#include "common/wire/llp_header.h"
#include "common/wire/rdmap.h"

struct diwarp_ah;
struct dw_recv;
struct dw_ud_qp;
struct dw_ud_source;

struct dw_ud_read {
    struct dw_list link; /* in `active` or `expired` of dw_ud_reads */
    struct dw_ranges map;
    struct dw_recv *into; /* NULL: expired */
    uint64_t wr_id;
    struct diwarp_name source; /* who was asked, and its QPN */
    uint32_t source_qpn;
    uint64_t deadline_ns;
    uint32_t id, stag; /* of its record; the STag is random, made for this one read */
    uint32_t total;
    bool signaled;
};

struct dw_ud_reads {
    struct dw_list link;    /* in dw_ud_port.readers, while there are active ones */
    struct dw_list active;  /* by deadline, the earliest first */
    struct dw_list expired; /* kept to be asked about; attr.max_reads, the oldest first */
    struct dw_map by_id;    /* the active ones */
    uint32_t expired_count;
    uint32_t last_id;
};

/* A source that reads from us: one train for each in turn. */
struct dw_ud_asker {
    struct dw_list link; /* in dw_ud_port.askers, while there are answers */
    struct dw_ud_qp *ud;
    struct dw_ud_source *source;
    struct diwarp_ah *ah;  /* where `intro` leads */
    struct dw_intro intro; /* the last */
    struct dw_list answers;
};

struct dw_ud_answer {
    struct dw_list link; /* in dw_ud_asker.answers, in the order of the requests */
    struct dw_read_request request;
    uint32_t sent;
};
