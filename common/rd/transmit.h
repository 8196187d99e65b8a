/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams, from their buffers to the LLP: transmit.c; those without a PSN: transmit_control.c;
 * those of records: transmit_record.c. */
#ifndef DW_TRANSMIT_H
#define DW_TRANSMIT_H

#include "common/llp/llp.h"
#include "common/rel/sendwin.h"
#include "common/rd/peer.h"
#include "common/wire/crc32c.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"
#include "common/wire/rdmap.h"

/* Full sockets met in one run, of each kind of datagrams: others may have a socket of their own. */
#define DW_REFUSALS_PER_RUN 2

/* Bytes of a Write-Record segment before its payload, its length field included. */
#define DW_RECORD_SEGMENT_BYTES (DW_SEGMENT_LEN_BYTES + DW_DDP_TAGGED_BYTES + DW_WRITE_RECORD_BYTES)
#define DW_SEND_SEGMENT_BYTES   (DW_SEGMENT_LEN_BYTES + DW_DDP_UNTAGGED_BYTES)

/* A sequenced datagram. Kept, as it went out, until it is acknowledged. */
struct dw_datagram {
    struct dw_tx tx;
    struct dw_train *train; /* whose buffer it lies in; NULL: it has its own, buf follows */
    uint8_t *buf;
    uint32_t bytes;    /* so far, without the CRC trailer */
    uint32_t room;     /* most that `bytes` may become */
    bool intro;        /* leads with an intro block */
    bool urgent;       /* not to wait for others to join */
    bool ack_request;  /* a request completes with its acknowledgement, or it refuses one */
    uint16_t refusals; /* ABORTs of small writes in it */
};

/* Datagrams of one message, their bytes behind them one after the other, as they leave. */
struct dw_train {
    unsigned kept; /* not yet acknowledged */
    struct dw_datagram datagrams[];
};

/* Payload of a full Write-Record datagram to or from the peer, once it knows us. */
static inline uint32_t dw_record_payload_bytes(const struct dw_peer *peer)
{
    return peer->ah->datagram_max_bytes - DW_LLP_HEADER_BYTES - DW_RECORD_SEGMENT_BYTES -
           DW_CRC_BYTES;
}

/* A buffer of the send pool; NULL: its bound, or it is left to peers with nothing under way. */
void *dw_pool_get(const struct dw_peer *peer, uint32_t bytes, uint32_t *room);
struct dw_datagram *dw_datagram_get(struct dw_peer *peer, uint32_t segment_bytes);
/* An empty one, of which buf holds up to `room` bytes and the CRC. */
void dw_datagram_init(const struct dw_peer *peer, struct dw_datagram *datagram, uint8_t *buf,
                      uint32_t room);
void dw_datagram_put(struct diwarp_qp *qp, struct dw_datagram *datagram);
/* Of a header: when the last run began, which spares asking the clock for each datagram. */
static inline uint16_t dw_timestamp(uint64_t ran_ns)
{
    return (uint16_t)(ran_ns >> 10);
}
/* Bytes that lead a datagram to this peer now: LLP header, and the intro while it needs one. */
uint32_t dw_lead_bytes(const struct dw_peer *peer);
/* The two blocks themselves; number, acknowledgement and all that changes are of now. */
void dw_put_intro_lead(struct dw_peer *peer, uint8_t *buf, enum dw_llp_type type, uint8_t flags,
                       uint32_t psn);
/* Writes them: all that is owed to the peer is acknowledged by a datagram that goes. */
void dw_put_lead(struct dw_peer *peer, uint8_t *buf, enum dw_llp_type type, uint8_t flags,
                 uint32_t psn);
/* The CRC of a datagram with this one segment does not cover its payload. */
static inline bool dw_crc_is_partial(const struct dw_peer *peer, const struct dw_ddp_header *ddp)
{
    const bool user_data = ddp->tagged || ddp->qn == DW_QN_SEND;
    return peer->ah->partial_crc && user_data;
}
/* The trailer as far as what leads the payload makes it. */
static inline uint32_t dw_crc_of_head(const struct diwarp_qp *qp, const uint8_t *buf, size_t bytes)
{
    return qp->crc ? dw_crc32c(0, buf, bytes) : 0;
}
/* Appends the CRC over buf[0, bytes); returns the length with it. */
uint32_t dw_put_trailer(const struct diwarp_qp *qp, uint8_t *buf, uint32_t bytes);
/* Gives a new datagram its PSN and sends it; ownership goes to the send window. */
void dw_transmit(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns);
/* Its first half, for who sends by itself: gives a datagram of final length its PSN and writes all
 * that leads the segments. */
void dw_transmit_begin(struct dw_peer *peer, struct dw_datagram *datagram, bool partial_crc,
                       uint64_t now_ns);
/* Not sent for want of socket buffer: as good as lost, and known to be. */
void dw_transmit_refused(struct dw_peer *peer, struct dw_datagram *datagram);
void dw_transmit_lost(struct dw_peer *peer, uint64_t now_ns);
/* A train of datagrams of `segment` bytes each but the last; as dw_llp_send(). */
int dw_transmit_train(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment);
/* A train, without being counted as a service to the peer. */
int dw_transmit_iov(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment);

/* ---- transmit_control.c ---- */
/* A datagram without segments: ACK, PROBE, PROBE_REPLY. As dw_llp_send(). */
int dw_transmit_bare(struct dw_peer *peer, enum dw_llp_type type, uint32_t psn);
/* False: the socket is full, the next run goes on. */
bool dw_transmit_ack(struct dw_peer *peer);
/* Shows the peer that we are where we say: `cookie` is of DW_PROOF_BYTES. */
void dw_transmit_proof(struct dw_peer *peer, const uint8_t *cookie);
/* A PROBE of that length. */
void dw_transmit_padded_probe(struct dw_peer *peer, uint32_t psn, uint32_t bytes);
/* An unsequenced RECORD datagram with one untagged segment; held while the socket is full. */
void dw_transmit_record_control(struct dw_peer *peer, const struct dw_record_control *control);
/* Sends what is held, as far as the socket takes it. */
void dw_transmit_held(struct diwarp_qp *qp);

/* ---- transmit_record.c ---- */
/* Sends what grants allow of the records that are ready, a bounded amount. */
void dw_transmit_records(struct diwarp_qp *qp, uint64_t now_ns);

#endif
