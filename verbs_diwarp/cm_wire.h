/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages by which two processes connect queue pairs for rdma_cm programs, over a TCP stream
 * of their own. One layout serves all types; what a type does not need is zero.
 *
 *  0  "dwCM"                                   16  GID of the sender's queue pair (16)
 *  4  version      5  type                     32  QPN
 *  6  bytes of the message (2)                 36  PSN
 *  8  queue pair type       9  responder resources
 * 10  initiator depth      11  retry count     40  Q_Key
 * 12  RNR retry count      13  flow control    44  status
 * 14  SRQ                  15  bytes of private data, which follow at 48
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DV_CM_VERSION       1
#define DV_CM_HEADER_BYTES  48
#define DV_CM_PRIVATE_BYTES 196 /* most of any type: InfiniBand's REP */
#define DV_CM_MESSAGE_BYTES (DV_CM_HEADER_BYTES + DV_CM_PRIVATE_BYTES)

enum dv_cm_type {
    DV_CM_REQUEST = 1,
    DV_CM_ACCEPT,
    DV_CM_REJECT,
    DV_CM_READY, /* the caller's queue pair may send */
    DV_CM_DISCONNECT,
    DV_CM_TYPES
};

/* As on the wire, and as enum ibv_qp_type has them. */
enum dv_cm_qp_type { DV_CM_RC = 2, DV_CM_UD = 4 };

/* InfiniBand's reasons of a rejection. */
#define DV_CM_NO_RESOURCES     3
#define DV_CM_INVALID_SERVICE  8 /* nobody listens, or for other callers */
#define DV_CM_CONSUMER_DEFINED 28

struct dv_cm_message {
    enum dv_cm_type type;
    uint8_t qp_type; /* enum dv_cm_qp_type */
    uint8_t responder_resources, initiator_depth;
    uint8_t retry_count, rnr_retry_count, flow_control, srq;
    uint8_t gid[16];
    uint32_t qpn, psn, qkey;
    uint32_t status; /* of a rejection: InfiniBand's reason */
    uint8_t private_bytes;
    uint8_t private_data[DV_CM_PRIVATE_BYTES];
};

/* As much private data as InfiniBand has room for in that message. */
uint8_t dv_cm_private_max(enum dv_cm_type type, uint8_t qp_type);
/* The bytes written to `to`, which has room for DV_CM_MESSAGE_BYTES. */
size_t dv_cm_encode(const struct dv_cm_message *message, uint8_t *to);
/* The bytes that the first message of `from` takes; 0: there are not all of them yet; -EPROTO:
 * these bytes begin no message. What is wrong is seen with its first byte: a stream that can be no
 * message is not waited for. */
int dv_cm_decode(const uint8_t *from, size_t bytes, struct dv_cm_message *message);
