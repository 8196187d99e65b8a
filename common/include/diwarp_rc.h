/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diwarp, reliable connections: RC queue pairs that speak iWARP (RFC 5040, 5041, 5044, 6581) over
 * TCP, one stream per pair of processes. Device, PD, MR, CQ, threads and errors: as in diwarp.h. A
 * CQ may serve datagram QPs and RC QPs together, and all RC QPs run inside its poll calls. No call
 * here blocks, but for diwarp_drain_rc_qps().
 */
#pragma once

#include "diwarp.h"

/* X(name, unit, meaning), of all RC QPs of a CQ. */
#define DIWARP_RC_COUNTERS(X)                                                                  \
    X(rc_connections, "connections", "RC QPs that hold a TCP socket now")                      \
    X(rc_lingering, "connections", "of destroyed QPs: the other side may still read")          \
    X(rc_connects, "connections", "connections set up, by either side")                        \
    X(rc_rejects, "connections", "connection requests rejected or given up, by either side")   \
    X(rc_no_descriptor, "times", "a call waited: no file descriptor or memory for it")         \
    X(rc_tx_fpdus, "FPDUs", "MPA FPDUs sent")                                                  \
    X(rc_tx_bytes, "bytes", "bytes handed to TCP")                                             \
    X(rc_tx_syscalls, "calls", "send calls")                                                   \
    X(rc_tx_eagain, "calls", "send calls that TCP took less of than offered")                  \
    X(rc_tx_send_msgs, "messages", "Send messages posted")                                     \
    X(rc_tx_write_msgs, "messages", "RDMA writes posted")                                      \
    X(rc_tx_read_msgs, "messages", "RDMA reads and atomics posted")                            \
    X(rc_rx_fpdus, "FPDUs", "MPA FPDUs received and found good")                               \
    X(rc_rx_bytes, "bytes", "bytes received from TCP")                                         \
    X(rc_rx_syscalls, "calls", "receive calls that found data")                                \
    X(rc_rx_empty_syscalls, "calls", "receive and epoll calls that found nothing")             \
    X(rc_rx_send_msgs, "messages", "Send messages delivered")                                  \
    X(rc_rx_waits, "times", "a stream stood still because no receive was posted")              \
    X(rc_tx_terminates, "messages", "Terminate messages sent")                                 \
    X(rc_rx_terminates, "messages", "Terminate messages received")                             \
    X(rc_bad_startup, "connections", "closed: what came was no MPA request or reply of ours")  \
    X(rc_bad_crc, "connections", "closed: CRC32C or markers of an FPDU wrong")                 \
    X(rc_bad_header, "connections", "closed: malformed DDP or RDMAP header")                   \
    X(rc_bad_stag, "connections", "closed: STag unknown, without the right, or out of bounds") \
    X(rc_bad_message, "connections", "closed: message out of sequence, or larger than its buffer")

struct diwarp_rc_counters {
    DIWARP_RC_COUNTERS(DIWARP_FIELD)
};

/* In wc.opcode, beside IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP,
 * IBV_WC_FETCH_ADD, IBV_WC_RECV and IBV_WC_RECV_RDMA_WITH_IMM. */
enum diwarp_rc_wc_opcode {
    /* A listener was called: `request` waits for diwarp_accept() or diwarp_reject(); `src` is the
     * caller, data/byte_len its private data, valid until then. */
    DIWARP_WC_CONNECT_REQUEST = 0x1100,
    /* diwarp_connect() or diwarp_accept() is done: `rc_qp` may be used. `src` is the other side,
     * data/byte_len the private data of its answer to diwarp_connect(), valid as long as the QP. */
    DIWARP_WC_CONNECTED,
    /* It never was, or no longer is, connected. IBV_WC_SUCCESS: closed in order by the other side.
     * IBV_WC_REM_OP_ERR: one side sent Terminate (wc.vendor_err: layer << 12 | type << 8 | code,
     * RFC 5040 4.8; wc.wc_flags: DIWARP_WC_TERMINATED_HERE or 0). IBV_WC_RETRY_EXC_ERR: TCP lost
     * it, or the time is over. IBV_WC_REM_INV_REQ_ERR: rejected, data/byte_len is why.
     * IBV_WC_LOC_PROT_ERR: what was to be sent is no memory of ours (found by TCP; the CRC would
     * crash). IBV_WC_LOC_QP_OP_ERR: no memory to send it. All posted requests have completed, with
     * IBV_WC_WR_FLUSH_ERR, before. The last completion of a QP; destroy it then. wr_id: how many of
     * our messages the other side had taken when it destroyed its QP, modulo 2^32: Sends, Writes
     * (with immediate data one more; of no bytes and STag 0, none), reads, atomics; UINT64_MAX: it
     * has not told. */
    DIWARP_WC_DISCONNECTED,
};

/* In wc.wc_flags of DIWARP_WC_DISCONNECTED: this side has sent Terminate. */
enum { DIWARP_WC_TERMINATED_HERE = 1 << 16 };

/* ---- queue pairs -------------------------------------------------------------------------- */

struct diwarp_rc_qp_attr {
    struct diwarp_cq *cq;
    struct diwarp_srq *srq;  /* receives come from here; NULL: posted to the QP */
    void *context;           /* the application's; see diwarp_rc_qp_context() */
    uint32_t max_send_wr;    /* then posts give -ENOMEM */
    uint32_t max_recv_wr;    /* without srq */
    uint32_t max_sge;        /* of a work request: 1 to 32; its memory is kept for each */
    uint32_t max_rd_atomic;  /* RDMA reads and atomics under way, each way: ORD and IRD. Where one
                              * side has 0, the other's posts give -EINVAL; one posted before that
                              * was known ends the connection (vendor_err 0x2006) */
    int access;              /* enum ibv_access_flags: what the other side may do to regions that
                              * allow it, too */
    bool markers;            /* ask the other side for MPA markers (RFC 5044 4.3) */
    bool crc;                /* ask for CRC32C; in use when either side asks */
    uint8_t mpa_revision;    /* 1, or 2 (RFC 6581); the connecting side's counts */
    uint64_t rnr_timeout_ns; /* how long a Send may wait for a receive, while TCP holds back the
                              * sender; then Terminate (RFC 5041 7.1). UINT64_MAX: for ever */
    uint64_t rnr_timer_ns;   /* instead, once the other side has told how often it tries again
                              * (diwarp_rc_set_rnr()): so long for each time, in all 20 ms at least */
    uint64_t connect_timeout_ns; /* TCP and MPA set-up together; after diwarp_accept() until the
                                  * caller's first FPDU, which leaves when it polls; and again an
                                  * orderly close. UINT64_MAX: for ever */
};

/* Defaults: all access, no markers, CRC, revision 2, 128 sends, 128 receives, 4 elements, 16 reads,
 * 10 s. */
DIWARP_EXPORT void diwarp_rc_qp_attr_init(struct diwarp_rc_qp_attr *attr);

/* Private data of a request, answer or rejection: what MPA has room for, less our own. */
#define DIWARP_PRIVATE_DATA_MAX_BYTES 480
struct diwarp_listener;
/* Waits for calls on a free port of the device's range; they come as completions of `cq`.
 * -EOPNOTSUPP, as of diwarp_connect(): the device authenticates, which RC cannot. Callers
 * that have not shown the token yet may be silent for the device's peer_timeout_ns; where there are
 * 256 of them, the oldest is closed for the next call once it had a second. */
DIWARP_EXPORT int diwarp_listen(struct diwarp_pd *pd, struct diwarp_cq *cq,
                                struct diwarp_listener **listener, struct diwarp_diagnosis *why);
/* Where it is called, for peers: as diwarp_query_address(); the token is in every request of ours,
 * and a call without it is closed and counted (rc_bad_startup). */
DIWARP_EXPORT void diwarp_query_listener(const struct diwarp_listener *listener,
                                         struct diwarp_address *address);
/* Whether a call from its device could find the way to another listener: 0 or -ENETUNREACH. */
DIWARP_EXPORT int diwarp_listener_reaches(const struct diwarp_listener *listener,
                                          const struct diwarp_address *address);
/* Requests not answered yet are rejected; callers that have not shown the token get no answer. */
DIWARP_EXPORT void diwarp_destroy_listener(struct diwarp_listener *listener);

/* Makes a QP and calls the listener at `address`. -ENETUNREACH: no interface reaches it; -EMFILE:
 * no file descriptor; -EINVAL: malformed. Receives may be posted at once, sends queue up. */
DIWARP_EXPORT int diwarp_connect(struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                                 const struct diwarp_address *address, const void *private_data,
                                 size_t private_bytes, struct diwarp_rc_qp **qp,
                                 struct diwarp_diagnosis *why);
/* Makes a QP of a request and answers. Uses up the request, also in error. */
DIWARP_EXPORT int diwarp_accept(struct diwarp_connect_request *request, struct diwarp_pd *pd,
                                const struct diwarp_rc_qp_attr *attr, const void *private_data,
                                size_t private_bytes, struct diwarp_rc_qp **qp);
DIWARP_EXPORT void diwarp_reject(struct diwarp_connect_request *request, const void *private_data,
                                 size_t private_bytes);
/* Orderly close: what was posted is sent, no more, then comes DIWARP_WC_DISCONNECTED. Reads that
 * the other side has not begun to answer when it closes, too, complete with IBV_WC_WR_FLUSH_ERR. */
DIWARP_EXPORT void diwarp_disconnect(struct diwarp_rc_qp *qp);
/* Sets attr.rnr_timer_ns, from the next Send that waits on. retries, 0 to 6: tells the other side,
 * if it is diwarp's, how often a Send of ours that finds no receive would be tried again; 7: for
 * ever, of which nothing is told. A post, in its turn, without a completion, or in error one whose
 * wr_id is UINT64_MAX. -EINVAL: more; else as diwarp_rc_post_send(). */
DIWARP_EXPORT int diwarp_rc_set_rnr(struct diwarp_rc_qp *qp, unsigned retries,
                                    uint64_t rnr_timer_ns);
/* Sets attr.access, from the next request of the other side's on. */
DIWARP_EXPORT void diwarp_rc_set_access(struct diwarp_rc_qp *qp, int access);
/* At most n of its completions that were not polled yet, ahead of those of others in its CQ; the
 * RNIC does not run. Returns how many: fewer than n, there are no more. Of use before it goes. */
DIWARP_EXPORT unsigned diwarp_rc_take_completions(struct diwarp_rc_qp *qp, unsigned n,
                                                  struct diwarp_wc *wc);
/* Closes at once; no completion of it comes any more, also none that was not polled yet. What TCP
 * has taken arrives: the CQ reads, and drops, what still comes, for five seconds at most
 * (rc_lingering). */
DIWARP_EXPORT void diwarp_destroy_rc_qp(struct diwarp_rc_qp *qp);
DIWARP_EXPORT void *diwarp_rc_qp_context(const struct diwarp_rc_qp *qp);
/* "10.0.0.2:40001" of the other side, for messages. */
DIWARP_EXPORT void diwarp_format_rc_qp(const struct diwarp_rc_qp *qp, char *buf, size_t len);

/* SEND (IBV_SEND_SOLICITED: with Solicited Event), SEND_WITH_IMM, SEND_WITH_INV, RDMA_WRITE,
 * RDMA_WRITE_WITH_IMM (counts as two), RDMA_READ, ATOMIC_CMP_AND_SWP, ATOMIC_FETCH_AND_ADD (like
 * reads, of 8 aligned bytes); one work request, not a list; immediate data in host byte order. 0,
 * or 1 as DIWARP_SEND_BUFFERED says (complete once TCP took it all). DIWARP_SEND_LAZY: not before
 * the next poll or diwarp_rc_flush(), but for a long queue or a post without it. IBV_SEND_INLINE:
 * taken by TCP now, or -EAGAIN and nothing of it was sent (always with LAZY, or when longer than
 * 128 KiB or about 60 FPDUs). IBV_SEND_FENCE: not sent before the reads posted before it have
 * ended. -ENOMEM: the send queue is full; a later completion makes room. -ENOTCONN: disconnected.
 * -EINVAL, -EMSGSIZE, -EACCES: as diwarp_post_send(). Unsignaled requests that succeed give no
 * completion. Sends and writes complete, in their order, when TCP has taken them (or we have copied
 * the end of one that it took in part), reads in theirs when the response is placed; the memory of
 * sg_list must stay until then. What is not a Send or a plain write is neither INLINE nor BUFFERED.
 * A local key of 0 names any memory of the process. */
DIWARP_EXPORT int diwarp_rc_post_send(struct diwarp_rc_qp *qp, const struct ibv_send_wr *wr);
/* -ENOMEM: max_recv_wr are posted. Messages fill receives in the order these were posted. Keys are
 * checked again when a message comes: where they are wrong then, the receive ends with
 * IBV_WC_LOC_PROT_ERR and the connection with Terminate (vendor_err 0x1000). */
DIWARP_EXPORT int diwarp_rc_post_recv(struct diwarp_rc_qp *qp, const struct ibv_recv_wr *wr);

/* Receives for RC and UD QPs of its device alike, of its own PD's regions. max_sge: elements of
 * each, 32 at most. NULL: more, or no memory. One that a QP has begun to fill when it goes is
 * posted anew. */
DIWARP_EXPORT struct diwarp_srq *diwarp_create_srq(struct diwarp_pd *pd, unsigned max_wr,
                                                   unsigned max_sge);
/* Its QPs must have been destroyed. */
DIWARP_EXPORT void diwarp_destroy_srq(struct diwarp_srq *srq);
/* Drops the receives that are posted. */
DIWARP_EXPORT void diwarp_clear_srq(struct diwarp_srq *srq);
DIWARP_EXPORT int diwarp_post_srq_recv(struct diwarp_srq *srq, const struct ibv_recv_wr *wr);
/* Takes the oldest receive, as a message does: for who places messages itself, as those of RD.
 * wr->sg_list has room for max_sge elements; where their keys are wrong, nothing says so. -EAGAIN:
 * none is posted. */
DIWARP_EXPORT int diwarp_take_srq_recv(struct diwarp_srq *srq, struct ibv_recv_wr *wr);

/* Readable when RC QPs of the CQ have work, for poll(2) only; -1: there are none. */
DIWARP_EXPORT int diwarp_rc_fd(const struct diwarp_cq *cq);
/* Sends now what was posted with DIWARP_SEND_LAZY. */
DIWARP_EXPORT void diwarp_rc_flush(struct diwarp_cq *cq);
/* Runs until all that was posted on RC QPs of the CQ has been taken by TCP, at most timeout_ns;
 * completions are dropped. -ETIMEDOUT. */
DIWARP_EXPORT int diwarp_drain_rc_qps(struct diwarp_cq *cq, uint64_t timeout_ns);
/* NULL while the CQ never had a listener or RC QP. Valid as long as the CQ. */
DIWARP_EXPORT const struct diwarp_rc_counters *diwarp_query_rc_counters(const struct diwarp_cq *cq);

/* Bytes of memory that diwarp itself holds for RC QPs of the CQ now, kernel memory not counted. */
struct diwarp_rc_memory {
    uint64_t qp_bytes;      /* QPs, their queues */
    uint64_t receive_bytes; /* shared receive stage, FPDUs held in part, receives of SRQs */
    uint64_t send_bytes;    /* FPDUs on their way, or that TCP took in part */
};
DIWARP_EXPORT void diwarp_query_rc_memory(const struct diwarp_cq *cq,
                                          struct diwarp_rc_memory *memory);
