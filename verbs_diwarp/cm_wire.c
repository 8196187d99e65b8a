/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cm_wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const uint8_t magic[4] = {'d', 'w', 'C', 'M'};

#define AT_VERSION 4
#define AT_TYPE    5
#define AT_LENGTH  6
#define AT_QP_TYPE 8
#define AT_PRIVATE 15
#define AT_GID     16
#define AT_NUMBERS 32 /* QPN, PSN, Q_Key, status */
#define QPN_MAX    0xffffffu

static void put_be32(uint8_t *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t get_be32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

/* InfiniBand 12.6 and 12.11: REQ, REP, REJ, RTU, DREQ; SIDR_REQ, SIDR_REP. */
uint8_t dv_cm_private_max(enum dv_cm_type type, uint8_t qp_type)
{
    static const uint8_t rc[DV_CM_TYPES] = {
        [DV_CM_REQUEST] = 56, [DV_CM_ACCEPT] = 196, [DV_CM_REJECT] = 148};
    static const uint8_t ud[DV_CM_TYPES] = {
        [DV_CM_REQUEST] = 180, [DV_CM_ACCEPT] = 136, [DV_CM_REJECT] = 136};
    return (qp_type == DV_CM_UD ? ud : rc)[type];
}

size_t dv_cm_encode(const struct dv_cm_message *message, uint8_t *to)
{
    const size_t bytes = DV_CM_HEADER_BYTES + (size_t)message->private_bytes;
    memcpy(to, magic, sizeof magic);
    to[AT_VERSION] = DV_CM_VERSION;
    to[AT_TYPE] = (uint8_t)message->type;
    to[AT_LENGTH] = (uint8_t)(bytes >> 8);
    to[AT_LENGTH + 1] = (uint8_t)bytes;
    to[AT_QP_TYPE] = message->qp_type;
    to[9] = message->responder_resources;
    to[10] = message->initiator_depth;
    to[11] = message->retry_count;
    to[12] = message->rnr_retry_count;
    to[13] = message->flow_control;
    to[14] = message->srq;
    to[AT_PRIVATE] = message->private_bytes;
    memcpy(to + AT_GID, message->gid, sizeof message->gid);
    put_be32(to + AT_NUMBERS, message->qpn);
    put_be32(to + AT_NUMBERS + 4, message->psn);
    put_be32(to + AT_NUMBERS + 8, message->qkey);
    put_be32(to + AT_NUMBERS + 12, message->status);
    memcpy(to + DV_CM_HEADER_BYTES, message->private_data, message->private_bytes);
    return bytes;
}

/* Whether what has come so far of a header is that of a message. */
static bool begins_message(const uint8_t *from, size_t bytes)
{
    const size_t length = bytes >= AT_QP_TYPE ? (size_t)from[AT_LENGTH] << 8 | from[AT_LENGTH + 1]
                                              : DV_CM_HEADER_BYTES;
    if (memcmp(from, magic, bytes < sizeof magic ? bytes : sizeof magic) != 0 ||
        (bytes > AT_VERSION && from[AT_VERSION] != DV_CM_VERSION) ||
        (bytes > AT_TYPE && (from[AT_TYPE] < DV_CM_REQUEST || from[AT_TYPE] >= DV_CM_TYPES)) ||
        length < DV_CM_HEADER_BYTES || length > DV_CM_MESSAGE_BYTES)
        return false;
    if (bytes > AT_QP_TYPE && from[AT_QP_TYPE] != DV_CM_RC && from[AT_QP_TYPE] != DV_CM_UD)
        return false;
    return bytes <= AT_PRIVATE ||
           (length == DV_CM_HEADER_BYTES + (size_t)from[AT_PRIVATE] &&
            from[AT_PRIVATE] <= dv_cm_private_max(from[AT_TYPE], from[AT_QP_TYPE]));
}

int dv_cm_decode(const uint8_t *from, size_t bytes, struct dv_cm_message *message)
{
    if (!begins_message(from, bytes))
        return -EPROTO;
    if (bytes < DV_CM_HEADER_BYTES || bytes < DV_CM_HEADER_BYTES + (size_t)from[AT_PRIVATE])
        return 0;
    *message = (struct dv_cm_message){.type = (enum dv_cm_type)from[AT_TYPE],
                                      .qp_type = from[AT_QP_TYPE],
                                      .responder_resources = from[9],
                                      .initiator_depth = from[10],
                                      .retry_count = from[11],
                                      .rnr_retry_count = from[12],
                                      .flow_control = from[13],
                                      .srq = from[14],
                                      .qpn = get_be32(from + AT_NUMBERS),
                                      .psn = get_be32(from + AT_NUMBERS + 4),
                                      .qkey = get_be32(from + AT_NUMBERS + 8),
                                      .status = get_be32(from + AT_NUMBERS + 12),
                                      .private_bytes = from[AT_PRIVATE]};
    if (message->qpn > QPN_MAX || message->psn > QPN_MAX)
        return -EPROTO;
    memcpy(message->gid, from + AT_GID, sizeof message->gid);
    memcpy(message->private_data, from + DV_CM_HEADER_BYTES, message->private_bytes);
    return DV_CM_HEADER_BYTES + message->private_bytes;
}
