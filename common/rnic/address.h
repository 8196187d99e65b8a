/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: what is known of other QPs, over RD and UD. */
#ifndef DW_ADDRESS_H
#define DW_ADDRESS_H

#include "common/include/diwarp.h"
#include "common/llp/llp.h"
#include "common/rel/recordwin.h"
#include "common/rel/recvwin.h"
#include "common/rel/rtt.h"
#include "common/wire/llp_header.h"

#define DW_CWND_BITS 9
_Static_assert(DW_WINDOW_DATAGRAMS < 1u << DW_CWND_BITS, "the congestion window fits");

struct dw_peer; /* peer.h */

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
    uint16_t datagram_max_bytes;
    struct dw_recordwin recordwin; /* of its records to us */
    uint32_t incarnation;          /* of the process that is meant; told with its address */
    union {
        struct {               /* at rest */
            uint32_t next_psn; /* the first that has not been sent */
            uint32_t ack;      /* the first that has not come; none after it has, either */
        };
        struct {                        /* awake */
            uint32_t records_due_bytes; /* granted, not yet here, but for those set aside */
            struct dw_record_round record_round;
        };
    };
    uint32_t send_msn;
    struct dw_rtt rtt;
    uint32_t owners : 28;     /* handles given out */
    uint32_t given : 1;       /* its address is the application's word, not a datagram's */
    uint32_t unproven : 1;    /* its address is the word of one that may not be there */
    uint32_t loops_back : 1;                    /* its address is of this host */
    uint32_t partial_crc : 1;                   /* the CRC need not cover bulk to it */
    uint16_t credit_kib;                        /* at rest: what it granted last */
    uint16_t ssthresh_datagrams : DW_CWND_BITS; /* at rest */
    uint16_t local_interface : 4;
    bool met : 1;
    bool heard : 1; /* it knows our address: no intro needed */
    bool gone : 1;
};

static inline uint64_t dw_name_key(struct diwarp_name name)
{
    return (uint64_t)name.job << 32 | name.rank;
}

uint32_t dw_datagram_max_bytes(const struct diwarp_device *device, uint8_t family,
                               uint32_t mtu_bytes);
/* What peers are told of an interface's MTU, and what we count on ourselves: see mtu_max_bytes. */
uint32_t dw_told_mtu_bytes(const struct diwarp_qp *qp, const struct diwarp_interface *interface);
struct diwarp_ah *dw_ah_find(const struct diwarp_qp *qp, struct diwarp_name name);
/* What an RD QP learns from the intro of a datagram: a handle that nobody else owns, or the way of
 * the one there is. NULL: no memory. */
struct diwarp_ah *dw_ah_from_intro(struct diwarp_qp *qp, struct diwarp_name name,
                                   uint32_t incarnation, const struct dw_intro *intro);
/* Nobody has said, or shown, that the peer is where it says; somebody has. */
void dw_ah_doubt(struct diwarp_ah *ah);
void dw_ah_vouch(struct diwarp_ah *ah);
/* The QP goes: ends what nobody else owns. */
void dw_ah_forget_all(struct diwarp_qp *qp);

#endif
