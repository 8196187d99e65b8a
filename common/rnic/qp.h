/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the RNIC share: the QP, its peers, and the things that wait in their queues.
 *
 * One message's path:  send.c, segment.c (segments into datagrams) -> transmit.c (header, CRC, LLP)
 *                  ->  receive.c (checks, by type) -> deliver.c | rdma.c | atomic.c -> cq.c
 * Bulk: transmit_record.c -> receive.c -> place.c -> rdma_record.c; UD: ud.h
 * Every function here runs with the device's lock held, unless it says otherwise.
 */
#ifndef DW_QP_H
#define DW_QP_H

#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/slab.h"
#include "common/include/diwarp.h"
#include "common/mem/mr.h"
#include "common/rel/record.h"
#include "common/rel/recvwin.h"
#include "common/rel/rtt.h"
#include "common/rel/seen.h"
#include "common/rel/sendwin.h"
#include "common/rnic/copy_way.h"
#include "common/rnic/cq.h"
#include "common/rnic/device.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"
#include "common/wire/rdmap.h"

#define DW_MAX_SGE 4

/* Of the receive arena. */
#define DW_ARENA_BYTES (1u << 20)

/* Writes up to this go in the sequenced stream, exactly once by PSN; larger ones are records. */
#define DW_INLINE_WRITE_BYTES 16384

/* Bytes of a Write-Record segment before its payload, its length field included. */
#define DW_RECORD_SEGMENT_BYTES (DW_SEGMENT_LEN_BYTES + DW_DDP_TAGGED_BYTES + DW_WRITE_RECORD_BYTES)
#define DW_SEND_SEGMENT_BYTES   (DW_SEGMENT_LEN_BYTES + DW_DDP_UNTAGGED_BYTES)

struct diwarp_pd {
    struct diwarp_device *device;
    struct dw_mr_table mrs;
    struct dw_list qps;
};

/* A sequenced datagram. Kept, as it went out, until it is acknowledged. */
struct dw_datagram {
    struct dw_tx tx;
    struct dw_train *train; /* whose buffer it lies in; NULL: it has its own, buf follows */
    uint8_t *buf;
    uint32_t bytes;   /* so far, without the CRC trailer */
    uint32_t room;    /* most that `bytes` may become */
    bool intro;       /* leads with an intro block */
    bool urgent;      /* not to wait for others to join */
    bool ack_request; /* a request completes with its acknowledgement */
};

/* Datagrams of one message, their bytes behind them one after the other, as they leave. */
struct dw_train {
    unsigned kept; /* not yet acknowledged */
    struct dw_datagram datagrams[];
};

/* A work request, or a message of our own, on its way into sequenced datagrams. */
struct dw_work {
    struct dw_list link; /* in peer.pending, then peer.awaiting */
    uint64_t wr_id;
    enum ibv_wc_opcode opcode;
    bool signaled;
    bool buffered;            /* complete when copied */
    bool own_message;         /* not the application's: no completion, even in error */
    struct dw_ddp_header ddp; /* of its first segment */
    uint32_t record_id;       /* tagged: of its Write-Record header */
    uint32_t total, copied;
    uint32_t last_psn; /* once all is copied */
    unsigned sge_count;
    struct iovec sge[DW_MAX_SGE];
    uint8_t own[DW_RECORD_CONTROL_BYTES + DIWARP_RELEASE_MAX_BYTES]; /* our own messages' bytes */
};

#define DW_CWND_BITS 9
_Static_assert(DW_WINDOW_DATAGRAMS < 1u << DW_CWND_BITS, "the congestion window fits");

/*
 * What is known of another QP: where it is and, over RD, all that must outlast its protocol state
 * (struct dw_peer) for each message to come exactly once. That state is taken when something is
 * first sent or received, and given back when the peer has owed and been owed nothing for a while:
 * it is at rest. Nothing of this shows on the wire; either end rests and wakes when it likes.
 *
 * It belongs to the QP from the first datagram on (`met`) and goes with it; until then, and over
 * UD, to its owner, who may have it more than once.
 */
struct diwarp_ah {
    struct diwarp_qp *qp; /* NULL: the QP has been destroyed */
    struct dw_peer *peer; /* NULL: at rest, or never met */
    struct diwarp_name name;
    uint64_t token;
    struct dw_llp_addr addr;
    uint32_t datagram_max_bytes;
    uint32_t incarnation; /* valid once heard */
    uint32_t next_psn;    /* at rest: the first that has not been sent */
    uint32_t ack;         /* at rest: the first that has not come; none after it has, either */
    uint32_t send_msn;
    struct dw_rtt rtt;
    uint32_t owners;                            /* handles given out */
    uint16_t credit_kib;                        /* at rest: what it granted last */
    uint16_t ssthresh_datagrams : DW_CWND_BITS; /* at rest */
    uint16_t local_interface : 4;
    bool met : 1;
    bool heard : 1; /* it knows our address: no intro needed */
    bool gone : 1;
};

struct dw_peer {
    struct diwarp_qp *qp;
    struct diwarp_ah *ah;
    uint32_t index; /* unique in the QP: makes keys of its records */

    uint32_t epoch; /* of its last datagram: counts active senders */
    struct dw_sendwin sendwin;
    struct dw_datagram *open;  /* being filled */
    uint64_t appended_ns;      /* last, to it or to one before, or the end of that one's send call */
    struct dw_list flush_link; /* in qp.flush: open, pending or lost datagrams to look at */
    struct dw_list pending;    /* works not wholly copied */
    struct dw_list awaiting;   /* signaled works, copied, not acknowledged */

    struct dw_recvwin recvwin;
    uint32_t ack_owed_bytes, ack_owed_datagrams;
    uint16_t sinks_aside;
    uint8_t backoff;
    uint8_t refusals : 7; /* ICMP unreachable since it was heard last */
    bool at_once : 1;     /* what is appended now, or was last, is not to wait for others */
    struct dw_list assemblies;
    struct dw_list ack_link; /* in qp.ack: acknowledge at the end of this run */
    uint64_t ack_due_ns;

    struct dw_list sinks, sources, atomics;

    struct dw_timer timer; /* acknowledgement, probe */
    uint64_t heard_ns;
    uint64_t asked_ns; /* last time we gave it something to answer */
    uint64_t probe_sent_ns;
    uint64_t silent_since_ns; /* the first probe since it was heard last */
};

/* Reassembly of a Send of more than one segment. */
struct dw_assembly {
    struct dw_list link;
    uint32_t msn;
    uint32_t total; /* 0: the last segment has not come */
    struct dw_ranges map;
    uint8_t buf[];
};

/* RD record at the sink: of our RDMA read, or of a peer's write. */
struct dw_sink {
    struct dw_list peer_link, want_link; /* want: waits for grant, in turn */
    struct dw_record_sink record;
    struct dw_peer *peer;
    struct dw_timer timer;
    uint64_t asked_ns; /* for missing ranges, by the timer; 0: not yet */
    uint32_t id, stag;
    uint64_t to; /* of offset 0 */
    uint8_t *addr;
    struct dw_region *region; /* of a peer's write; NULL: our read */
    uint64_t wr_id;
    uint32_t request_psn; /* of the datagram that asks for our read, once it is copied there */
    bool requested;       /* request_psn is set */
    bool signaled, hold;
    bool held;    /* complete, waits for diwarp_post_release() */
    bool counted; /* in qp.granted_records */
    bool aside;   /* its peer is silent: others may have been granted what is due of it */
    bool parked;  /* not in want, though not all is granted: its time is not come */
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
    bool signaled;
};

struct dw_atomic {
    struct dw_list link; /* in peer.atomics */
    struct dw_peer *peer;
    uint32_t id;
    uint64_t wr_id;
    enum ibv_wc_opcode opcode;
    bool signaled;
    uint64_t *result; /* may be NULL */
};

struct dw_ud; /* ud.c */

struct diwarp_qp {
    struct diwarp_pd *pd;
    struct diwarp_device *device;
    struct diwarp_cq *cq;
    uint32_t num; /* in the CQ: qp_num of its completions, never 0 */
    struct dw_list pd_link, cq_link;
    struct diwarp_qp_attr attr;
    struct dw_llp *llp;
    struct diwarp_counters counters;
    struct dw_map ahs; /* RD: by name; UD: by address, each being its own */
    uint64_t token;
    uint32_t incarnation;
    uint32_t queued_works; /* against attr.max_send_wr */
    bool crc;
    bool draining;    /* Sends that come are acknowledged, not delivered */
    bool transmitted; /* something, since the last append */

    struct dw_ud *ud; /* UD only; all below but where it receives, stage and timers: RD only */

    struct dw_list flush, ack;
    uint32_t next_peer_index;
    uint32_t epoch, epoch_senders, senders; /* senders: of the last whole epoch */
    uint64_t epoch_end_ns;

    struct dw_slab datagrams;
    struct dw_list free_works;
    unsigned free_work_count;
    uint32_t work_most;                              /* of queued_works since the last trim */
    struct dw_list free_assemblies, done_assemblies; /* done: until the next run */
    unsigned assembly_count, assembly_most;          /* being put together; since the last trim */
    unsigned free_assembly_count;
    uint64_t assembly_bytes;            /* that have come of them */
    const struct dw_assembly *oversize; /* the one that goes on beyond their bound; or NULL */

    struct dw_map sinks, sources, atomics; /* by dw_record_key(); atomics by id */
    struct dw_list want, ready;
    uint32_t next_id;
    uint32_t grant_budget_bytes;
    /* Two datagrams of a record are to be under way to us, one sent while one is received, if our
     * receive buffer takes two at all; so peers take our MTU for no more than this, and we take
     * theirs: a path has one size of datagrams, by which both ends count grants. */
    uint32_t mtu_max_bytes;
    uint32_t granted_records; /* that have a grant and have not ended, but for those set aside */
    uint64_t granted_bytes;   /* given out, not yet here, but for those set aside */
    uint32_t eager_budget_bytes;
    uint32_t reserved_bytes; /* between diwarp_send_reserve and its commit */

    struct dw_heap timers;
    uint64_t timers_ran_ns;
    struct dw_timer trim_timer; /* runs while there is something to give back */
    size_t trim_slot;           /* in ahs, where it goes on */
    unsigned trims_in_vain;     /* in a row */
    bool trimmed;               /* some peer in this walk through ahs */

    /* Receive calls fill the arena from arena_used on; before that lies what completions not handed
     * out point to. */
    uint8_t *arena;
    uint32_t arena_used, arena_last; /* last: bytes the last call brought */
    uint32_t arena_touched;          /* end of what is backed by memory */
    uint32_t arena_most;             /* end of what has been written since the last trim */
    bool arena_held;                 /* a completion points to what the last call brought */
    bool refuses_data;               /* no room for what would have to be handed out */
    uint8_t *stage; /* heads and trains of Write-Record segments; receives that are discarded */
    struct dw_copy_way copy_way;
};

/* Payload of a full Write-Record datagram to or from the peer, once it knows us. */
static inline uint32_t dw_record_payload_bytes(const struct dw_peer *peer)
{
    return peer->ah->datagram_max_bytes - DW_LLP_HEADER_BYTES - DW_RECORD_SEGMENT_BYTES -
           DW_CRC_BYTES;
}

/* The wait before it is asked again. */
static inline uint64_t dw_peer_rto_ns(const struct dw_peer *peer, unsigned backoff)
{
    return dw_rtt_rto_ns(&peer->ah->rtt, peer->qp->device->attr.rto_min_ns, backoff);
}

static inline uint64_t dw_name_key(struct diwarp_name name)
{
    return (uint64_t)name.job << 32 | name.rank;
}

static inline uint64_t dw_record_key(const struct dw_peer *peer, uint32_t id)
{
    return (uint64_t)peer->index << 32 | id;
}

/* ---- qp.c ---- */
/* No completion is left in the CQ: what those handed out before pointed to is free again. */
void dw_qp_recycle(struct diwarp_qp *qp);
/* One run of the RNIC; returns how many receive calls brought something. */
int dw_qp_progress(struct diwarp_qp *qp, uint64_t now_ns);
/* Something waits for the next run to be sent. */
bool dw_qp_has_more(const struct diwarp_qp *qp);
/* When it wants to run next at the latest, DW_NEVER: not before a datagram or a post. */
uint64_t dw_qp_next_deadline_ns(const struct diwarp_qp *qp);
/* Sees that what is taken now will be given back. */
void dw_qp_trim_later(struct diwarp_qp *qp, uint64_t now_ns);
/* The region is about to be freed: ends the records that use it. */
void dw_qp_on_deregister(struct diwarp_qp *qp, const struct dw_region *region);

/* ---- address.c ---- */
uint32_t dw_datagram_max_bytes(const struct diwarp_device *device, uint8_t family,
                               uint32_t mtu_bytes);
/* What peers are told of an interface's MTU, and what we count on ourselves: see mtu_max_bytes. */
uint32_t dw_told_mtu_bytes(const struct diwarp_qp *qp, const struct diwarp_interface *interface);
struct diwarp_ah *dw_ah_find(const struct diwarp_qp *qp, struct diwarp_name name);
/* What an RD QP learns from the intro of a datagram; nobody else owns it. NULL: no memory. */
struct diwarp_ah *dw_ah_from_intro(struct diwarp_qp *qp, struct diwarp_name name,
                                   const struct dw_intro *intro);
/* The QP goes: ends what nobody else owns. */
void dw_ah_forget_all(struct diwarp_qp *qp);

/* ---- peer.c ---- */
/* NULL: not known, or at rest. */
struct dw_peer *dw_peer_find(const struct diwarp_qp *qp, struct diwarp_name name);
/* The next peer that is not at rest, at or after *slot of qp.ahs, which moves behind it; NULL: no
 * more. */
struct dw_peer *dw_peer_next(const struct diwarp_qp *qp, size_t *slot);
/* The protocol state, taken now if it has to be; NULL: no memory. */
struct dw_peer *dw_peer_of_ah(struct diwarp_ah *ah);
void dw_peer_destroy(struct dw_peer *peer);
/* Puts those to rest that may, of a bounded number in turn; *more: some may yet. False: there are
 * others to look at before all have had their turn. */
bool dw_peer_rest_some(struct diwarp_qp *qp, uint64_t now_ns, bool *more);
/* Ends all it owes and is owed with errors, tells the application once. */
void dw_peer_fail(struct dw_peer *peer);
/* Makes the timer run at deadline_ns or before. */
void dw_peer_wake(struct dw_peer *peer, uint64_t deadline_ns);
/* We gave it something to answer: sees that it is probed. */
void dw_peer_on_asked(struct dw_peer *peer, uint64_t now_ns);
/* The same for a record, but while data is unacknowledged: many records do not put off its probe. */
void dw_peer_on_record(struct dw_peer *peer, uint64_t now_ns);
/* When the probe was sent whose reply has that PSN; 0: it cannot be one of ours. */
uint64_t dw_peer_probe_sent_ns(uint32_t psn, uint64_t now_ns);
/* It began something that it has to go on with, unasked: sees that it is probed when silent. */
void dw_peer_watch(struct dw_peer *peer);
/* Not heard since we asked: it computes, or what we asked was lost. A probe finds out and costs
 * less than asking again would, once it reads all that waits for it. False: it was heard. */
bool dw_peer_probe_silent(struct dw_peer *peer, uint64_t asked_ns, uint64_t now_ns);
void dw_peer_on_unreachable(struct diwarp_qp *qp, const struct dw_llp_addr *addr, uint64_t now_ns);
/* Something is to come from it: an answer, or the rest of what it began. */
bool dw_peer_owes(const struct dw_peer *peer);

/* ---- send.c ---- */
struct dw_work *dw_work_get(struct diwarp_qp *qp);
/* Gives back what was not needed since the last time; true: there may be more. */
bool dw_work_trim(struct diwarp_qp *qp);
void dw_work_put(struct diwarp_qp *qp, struct dw_work *work);
/* Queues a work, then copies what the window allows. Takes ownership. */
void dw_send_work(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);
/* Copies it now or not at all: -EAGAIN, or -EMSGSIZE when it is too long for that. */
int dw_send_work_now(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);
/* Copies pending works into datagrams and sends what is full, or all that is open. */
void dw_send_flush(struct dw_peer *peer, uint64_t now_ns);
/* Queues a message of our own: `bytes` <= sizeof work.own. record_id: of a read request. -ENOMEM.
 */
int dw_send_control(struct dw_peer *peer, enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn,
                    uint32_t record_id, const uint8_t *payload, uint32_t bytes, uint64_t now_ns);
/* A small write was refused; false: no such one waits any more. */
bool dw_send_fail(struct dw_peer *peer, uint32_t record_id, enum ibv_wc_status status);
/* Acknowledged up to `ack`: completes the works that waited for it. */
void dw_send_on_acked(struct dw_peer *peer, uint32_t ack);
int dw_send_post(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                 uint64_t now_ns);
/* The gather list of a request, checked; returns its bytes, -EINVAL, -EACCES or -EMSGSIZE. */
int64_t dw_send_gather(struct diwarp_qp *qp, const struct ibv_send_wr *wr, int access,
                       uint32_t max_bytes, struct iovec *iov);

/* ---- transmit.c ---- */
/* A buffer of the send pool; NULL: its bound, or it is left to peers with nothing under way. */
void *dw_pool_get(const struct dw_peer *peer, uint32_t bytes, uint32_t *room);
struct dw_datagram *dw_datagram_get(struct dw_peer *peer, uint32_t segment_bytes);
/* An empty one, of which buf holds up to `room` bytes and the CRC. */
void dw_datagram_init(const struct dw_peer *peer, struct dw_datagram *datagram, uint8_t *buf,
                      uint32_t room);
void dw_datagram_put(struct diwarp_qp *qp, struct dw_datagram *datagram);
/* Bytes that lead a datagram to this peer now: LLP header, and the intro while it needs one. */
uint32_t dw_lead_bytes(const struct dw_peer *peer);
/* Writes them; takes note that what is owed to the peer is acknowledged by it. */
void dw_put_lead(struct dw_peer *peer, uint8_t *buf, enum dw_llp_type type, uint8_t flags,
                 uint32_t psn);
/* Appends the CRC over buf[0, bytes); returns the length with it. */
uint32_t dw_put_trailer(const struct diwarp_qp *qp, uint8_t *buf, uint32_t bytes);
/* Gives a new datagram its PSN and sends it; ownership goes to the send window. */
void dw_transmit(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns);
/* Its first half, for who sends by itself: gives a datagram of final length its PSN and writes all
 * that leads the segments. */
void dw_transmit_begin(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns);
/* Not sent for want of socket buffer: as good as lost, and known to be. */
void dw_transmit_refused(struct dw_peer *peer, struct dw_datagram *datagram);
void dw_transmit_lost(struct dw_peer *peer, uint64_t now_ns);
/* A datagram without segments: ACK, PROBE, PROBE_REPLY. */
void dw_transmit_bare(struct dw_peer *peer, enum dw_llp_type type, uint32_t psn);
/* An unsequenced RECORD datagram with one untagged segment. */
void dw_transmit_record_control(struct dw_peer *peer, const struct dw_record_control *control);
/* A train of datagrams of `segment` bytes each but the last; as dw_llp_send(). */
int dw_transmit_train(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment);

/* ---- transmit_record.c ---- */
/* Sends what grants allow of the records that are ready, a bounded amount. */
void dw_transmit_records(struct diwarp_qp *qp, uint64_t now_ns);

/* ---- receive.c ---- */
/* One receive call; true when it brought datagrams. */
bool dw_receive(struct diwarp_qp *qp, uint64_t now_ns);
/* All that was handed out is used: the arena is free again. */
void dw_receive_recycle(struct diwarp_qp *qp);
/* Gives back what of it was not used since the last time; true: there may be more. */
bool dw_receive_trim(struct diwarp_qp *qp);
struct dw_segment {
    struct dw_ddp_header ddp;
    const uint8_t *payload;
    uint32_t bytes;
};
/* Next segment at *offset. 1; 0 at the end; negative: malformed, counted. */
int dw_next_segment(struct diwarp_qp *qp, const uint8_t *buf, uint32_t len, uint32_t *offset,
                    struct dw_segment *segment);

/* A segment is verified and in its place at `offset`: all else that its RECORD datagram brings. */
void dw_receive_record(struct dw_sink *sink, const struct dw_llp_header *header, uint32_t offset,
                       uint32_t length, uint64_t now_ns);
/* The same for the one segment of a DATA datagram of `bytes` between header and trailer. */
void dw_receive_send(struct dw_peer *peer, const struct dw_llp_header *header,
                     const struct dw_segment *segment, uint32_t bytes, uint64_t now_ns);

/* ---- place.c ---- */
/* Places what a datagram carries, before it is verified, in one pass with that. false: it is not
 * one that can be, and nothing was touched; else all is done, or the drop is counted. */
bool dw_place(struct diwarp_qp *qp, const struct dw_llp_header *header, const uint8_t *buf,
              uint32_t len, uint64_t now_ns);

/* ---- deliver.c ---- */
/* A Send segment of a sequenced datagram; in_order: all before it have come. false: no buffer, as
 * if it had not come. */
bool dw_deliver_send(struct dw_peer *peer, const struct dw_segment *segment, bool in_order);
/* Where the payload of such a segment will be put together with others that came before, if none of
 * its bytes is there yet; else NULL. Changes nothing: dw_deliver_send() does, with the payload in
 * that place. */
uint8_t *dw_deliver_place(struct dw_peer *peer, const struct dw_segment *segment);
/* Frees what the last run delivered. */
void dw_deliver_recycle(struct diwarp_qp *qp);
/* Gives back what was not needed since the last time; true: there may be more. */
bool dw_deliver_trim(struct diwarp_qp *qp);
void dw_deliver_forget(struct dw_peer *peer);

/* ---- rdma.c ---- */
int dw_rdma_post_read(struct diwarp_qp *qp, struct dw_peer *peer, const struct ibv_send_wr *wr,
                      uint64_t now_ns);
int dw_rdma_post_write(struct diwarp_qp *qp, struct dw_peer *peer, const struct ibv_send_wr *wr,
                       uint64_t now_ns);
/* Hands grant to the sinks that wait, oldest first. */
void dw_rdma_grant(struct diwarp_qp *qp, uint64_t now_ns);
/* The next run would. */
bool dw_rdma_may_grant(const struct diwarp_qp *qp);
/* The request of our read `id` is in the datagram that goes as `psn`. */
void dw_rdma_on_requested(struct dw_peer *peer, uint32_t id, uint32_t psn);
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

/* ---- atomic.c ---- */
int dw_atomic_post(struct diwarp_qp *qp, struct dw_peer *peer, const struct ibv_send_wr *wr,
                   uint64_t now_ns);
void dw_atomic_on_request(struct dw_peer *peer, const struct dw_segment *segment, uint64_t now_ns);
void dw_atomic_on_response(struct dw_peer *peer, const struct dw_segment *segment);
void dw_atomic_end(struct diwarp_qp *qp, struct dw_atomic *atomic, enum ibv_wc_status status);

#endif
