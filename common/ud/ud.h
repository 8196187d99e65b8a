/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service, and what its files share. Every function runs with the device's lock held. */
#pragma once

#include "common/datagram/segments.h"
#include "common/rel/ranges.h"
#include "common/rnic/groups.h"
#include "common/rnic/srq.h"
#include "common/ud/reads.h"
#include "common/include/diwarp_ud.h"

extern const struct dw_service dw_ud_service;

/* At most once, for as long as a QP lives: a message or record that has ended changes no memory
 * again, however late its datagrams come or come again. But for forged datagrams (nothing is
 * authenticated), and those of a source that was forgotten for others and whose last number, which
 * is kept longer, has been forgotten, too. */

#define DW_UD_MAX_SGE 32
/* Sources remembered. Datagrams of further ones are dropped, unless one can be forgotten. */
#define DW_UD_SOURCES_MAX 65536
/* A jump of the numbers of datagrams after which MSNs and record ids may begin anew. */
#define DW_UD_NUMBERS_ANEW (1ull << 30)

/* What is numbered: Sends and read requests by MSN, records by id. */
enum dw_ud_kind { DW_UD_SEND, DW_UD_RECORD, DW_UD_REQUEST, DW_UD_KINDS };

/* Which serial numbers of a source have been met lately (as the replay window of RFC 4303 3.4.3).
 * The highest of their 32 bits is ignored. */
struct dw_seen {
    uint32_t highest;
    uint64_t below; /* bit i: highest - 1 - i has been met */
    bool any;
};

static inline int32_t dw_seen_ahead(const struct dw_seen *seen, uint32_t serial)
{
    return (int32_t)((serial - seen->highest) << 1) / 2;
}

/* Met before, or too old to tell. */
static inline bool dw_seen_check(const struct dw_seen *seen, uint32_t serial)
{
    const int32_t ahead = dw_seen_ahead(seen, serial);
    return seen->any &&
           (ahead == 0 || ahead < -64 || (ahead < 0 && seen->below >> (-ahead - 1) & 1));
}

static inline void dw_seen_add(struct dw_seen *seen, uint32_t serial)
{
    const int32_t ahead = dw_seen_ahead(seen, serial);
    if (!seen->any || ahead > 0) {
        const bool near = seen->any && ahead <= 64;
        const uint64_t below = near ? (seen->below << 1 | 1) << (ahead - 1) : 0;
        *seen = (struct dw_seen){.highest = serial, .below = below, .any = true};
    } else if (ahead < 0 && ahead >= -64) {
        seen->below |= 1ull << (-ahead - 1);
    }
}

/* What has been seen of a queue pair of one incarnation of a process, as a sender to this one, or
 * to a group. */
struct dw_ud_source {
    struct dw_list link; /* in dw_ud_qp.sources */
    uint64_t key;        /* in dw_ud_qp.source_by_key */
    struct diwarp_name name;
    uint8_t ip[16]; /* IPv6, of the intro in the last datagram; zeros: it had none of IPv6 */
    uint32_t incarnation, qpn;
    uint64_t group;             /* token of the one that it sends to, with numbers of its own; 0:
                                 * to the QP alone */
    uint32_t held[DW_UD_KINDS]; /* of neither more than it leaves to others */
    uint64_t heard_ns;
    uint64_t newest, late; /* numbers of datagrams: the highest; the highest that is too late */
    struct dw_seen begun[DW_UD_KINDS];
    struct dw_ud_asker *asker; /* NULL: it has read nothing */
};

/* What has been sent to a destination. */
struct dw_ud_target {
    uint32_t last[DW_UD_KINDS];
};

struct dw_ud_recv {
    struct dw_list link; /* in dw_ud_qp.recvs */
    struct dw_recv posted;
};

static inline size_t dw_ud_recv_bytes(uint32_t sge_count)
{
    return offsetof(struct dw_ud_recv, posted) + dw_recv_bytes(sge_count);
}

/* A record, until the application releases it; or a Send of several segments, amid them. */
struct diwarp_record {
    struct dw_list link; /* in dw_ud_qp.records, oldest first */
    struct dw_ud_qp *qp;
    struct dw_ud_source *source;
    struct dw_timer timer;
    struct dw_ranges map;
    enum dw_ud_kind kind;
    uint32_t serial, total;  /* total: of a Send, 0 until its last segment has come */
    struct dw_ud_recv *recv; /* of a Send: where it goes */
    void *addr;              /* of a record: of offset 0 */
    uint32_t stag;
    bool handed_over;
};

/* What is left of a source that was forgotten, until another one needs its place. */
struct dw_ud_gone {
    uint64_t key, newest;
};

struct dw_ud_qp {
    struct diwarp_qp qp;
    struct dw_map source_by_key;
    struct dw_list sources;  /* the one that has been silent for longest first */
    struct dw_ud_gone *gone; /* NULL: none has been forgotten yet */
    struct dw_list records;
    struct dw_map open; /* those of them whose segments are taken */
    uint32_t held[DW_UD_KINDS];
    struct dw_list recvs; /* posted, and not taken by a Send */
    uint32_t recv_count;  /* posted, or taken from the SRQ, and not completed */
    struct dw_ud_reads reads;
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

/* A train that waits: for more, or for room in the socket. */
struct dw_ud_lazy {
    uint8_t *buf; /* of DW_LLP_SLOT_BYTES; NULL until there is a first */
    struct dw_llp_addr to;
    uint32_t bytes, count;  /* datagrams; 0: none waits */
    uint32_t segment_bytes; /* of each but the last */
    uint8_t flow;
    bool whole;   /* as dw_llp_train says */
    bool full;    /* it takes no further one */
    bool refused; /* by the socket, for now */
};

/* What UD keeps of a port. */
struct dw_ud_port {
    struct dw_ahs ahs;
    struct dw_list readers; /* dw_ud_reads with active reads */
    uint64_t due_ns;        /* of none of these reads is the deadline before this */
    struct dw_list askers;  /* with answers under way; the next one's turn first */
    bool refused;           /* the socket takes no more of these for now */
    struct dw_ud_lazy lazy;
};

static inline struct dw_ud_port *dw_ud_port_of(const struct dw_ud_qp *ud)
{
    return ud->qp.state;
}

/* ---- source.c ---- */
/* What it holds must have ended, but for answers. */
void dw_ud_source_destroy(struct dw_ud_qp *ud, struct dw_ud_source *source);
/* The source of a datagram. NULL, counted: it is too late, there are too many, or no memory. */
struct dw_ud_source *dw_ud_source_of(struct dw_ud_qp *ud, const struct dw_llp_header *header,
                                     uint64_t now_ns);

/* ---- record.c ---- */
/* The one under way, or a new one, which the caller fills. NULL, counted: it has ended, or there is
 * no room. */
struct diwarp_record *dw_ud_record_of(struct dw_ud_qp *ud, struct dw_ud_source *source,
                                      enum dw_ud_kind kind, uint32_t serial, uint64_t now_ns);
/* Ends what a source has under way, as if its time were over: it numbers its messages anew. */
void dw_ud_records_expire(struct dw_ud_qp *ud, const struct dw_ud_source *source);
/* With its receive, if it has one still. */
void dw_ud_record_destroy(struct diwarp_record *record);
/* Returns the counter of what is wrong with a segment, or NULL. */
uint64_t *dw_ud_on_record_segment(struct dw_ud_qp *ud, struct dw_ud_source *source,
                                  const struct dw_segment *segment, uint64_t now_ns);

/* ---- read.c: the reader ---- */
int dw_ud_post_read(struct dw_ud_qp *ud, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint32_t qkey, uint64_t now_ns);
/* A segment of a record that the sink chose, whose header is `wr`. As dw_ud_on_record_segment(). */
uint64_t *dw_ud_on_answer(struct dw_ud_qp *ud, const struct dw_ud_source *source,
                          const struct dw_segment *segment, const struct dw_write_record *wr);
void dw_ud_reads_expire(struct dw_ud_port *port, uint64_t now_ns);
void dw_ud_reads_fini(struct dw_ud_qp *ud);
uint64_t dw_ud_reads_bytes(const struct dw_ud_qp *ud);

/* ---- answer.c: the responder ---- */
/* As dw_ud_on_record_segment(). */
uint64_t *dw_ud_on_read_request(struct dw_ud_qp *ud, struct dw_ud_source *source,
                                const struct dw_arrival *arrival, const struct dw_segment *segment);
/* True: there is more to send, and room for it. */
bool dw_ud_answers_run(struct dw_ud_port *port, uint64_t now_ns);
/* With its answers. */
void dw_ud_asker_destroy(struct dw_ud_asker *asker);

/* ---- receive.c ---- */
int dw_ud_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr);
void dw_ud_take(void *state, struct diwarp_qp *qp, const struct dw_arrival *arrival,
                uint64_t now_ns);

/* ---- train.c ---- */
/* One message on its way out. */
struct dw_ud_outgoing {
    struct dw_ud_qp *ud;
    const struct diwarp_ah *ah;
    struct dw_ddp_header ddp;      /* of what is left */
    struct dw_write_record record; /* likewise; of a Send, too: how far it is */
    uint32_t qkey;
    bool intro; /* an answer is wanted, or who receives it is to know the address */
    struct iovec iov[DW_UD_MAX_SGE];
};

/* The length of its next datagram, if that has so many bytes of it. */
uint32_t dw_ud_datagram_bytes(const struct dw_ud_outgoing *out, uint32_t payload);
/* Builds it at buf; returns its length. */
uint32_t dw_ud_build(struct dw_ud_outgoing *out, uint8_t *buf, uint32_t payload);
/* A train of what is left. As send() of the LLP; `record` tells how far it is then. */
int dw_ud_send_train(struct dw_ud_outgoing *out, uint64_t now_ns);
/* The last numbers that were used for that QP of a process. NULL: no memory. */
struct dw_ud_target *dw_ud_target_of(struct dw_ud_qp *ud, const struct diwarp_ah *ah);
void dw_ud_targets_fini(struct dw_ud_qp *ud);

/* ---- lazy.c ---- */
/* A Send that one datagram has room for. 0: it has been copied, and leaves with others; -EAGAIN:
 * others wait for room in the socket; -ENOMEM. */
int dw_ud_lazy_add(struct dw_ud_outgoing *out, uint64_t now_ns);
/* What waits leaves: 0, or -EAGAIN. */
int dw_ud_lazy_flush(struct dw_ud_port *port);

/* ---- send.c ---- */
int dw_ud_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns);
