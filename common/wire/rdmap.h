/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows the DDP header of each RDMAP message that is not plain payload, all big-endian. get
 * functions: 0, -EBADMSG (short), -EPROTO (a field out of its domain). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/ddp.h"

/* Leads the payload of each Write-Record segment: record id, offset in the message, total length,
 * each 32 bits. -EPROTO when offset > total. */
#define DW_WRITE_RECORD_BYTES 12
struct dw_write_record {
    uint32_t id;
    uint32_t offset;
    uint32_t total;
};
void dw_write_record_put(uint8_t *buf, const struct dw_write_record *wr);
int dw_write_record_get(struct dw_write_record *wr, const uint8_t *buf, size_t len);

/* RDMA Read Request, RFC 5040 4.4 (28 bytes: sink STag 32, sink TO 64, size 32, source STag 32,
 * source TO 64), then ours: record id 32, granted bytes 32. */
#define DW_READ_REQUEST_BYTES 36
struct dw_read_request {
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t size;
    uint32_t source_stag;
    uint64_t source_to;
    uint32_t record_id;
    uint32_t granted; /* over UD: the Q_Key of the sink */
};
void dw_read_request_put(uint8_t *buf, const struct dw_read_request *rr);
int dw_read_request_get(struct dw_read_request *rr, const uint8_t *buf, size_t len);

/* The same on an RC stream: RFC 5040's 28 bytes and no more (record_id and granted are 0).
 * -EBADMSG: shorter, -EPROTO: longer. */
#define DW_READ_REQUEST_STREAM_BYTES 28
void dw_read_request_put_stream(uint8_t *buf, const struct dw_read_request *rr);
int dw_read_request_get_stream(struct dw_read_request *rr, const uint8_t *buf, size_t len);

/* Atomic Request, RFC 7306 5.2: reserved 28 + AOpcode 4, request id 32, STag 32, TO 64, add or swap
 * data 64, its mask 64, compare data 64, its mask 64 (52 bytes). -EPROTO: another AOpcode. */
enum dw_atomic_opcode { DW_ATOMIC_FETCH_ADD = 0, DW_ATOMIC_CMP_SWAP = 2 };
#define DW_ATOMIC_REQUEST_BYTES 52
struct dw_atomic_request {
    uint8_t opcode;
    uint32_t request_id;
    uint32_t stag;
    uint64_t to;
    uint64_t add_swap, add_swap_mask;
    uint64_t compare, compare_mask;
};
void dw_atomic_request_put(uint8_t *buf, const struct dw_atomic_request *ar);
int dw_atomic_request_get(struct dw_atomic_request *ar, const uint8_t *buf, size_t len);

/* Atomic Response: request id 32, original value 64, then ours: status 32 (enum dw_status). */
#define DW_ATOMIC_RESPONSE_BYTES 16
struct dw_atomic_response {
    uint32_t request_id;
    uint64_t original;
    uint32_t status;
};
void dw_atomic_response_put(uint8_t *buf, const struct dw_atomic_response *ar);
int dw_atomic_response_get(struct dw_atomic_response *ar, const uint8_t *buf, size_t len);

/* The same on an RC stream: RFC 7306's 12 bytes and no more (status is 0). -EBADMSG: shorter,
 * -EPROTO: longer. */
#define DW_ATOMIC_RESPONSE_STREAM_BYTES 12
void dw_atomic_response_put_stream(uint8_t *buf, const struct dw_atomic_response *ar);
int dw_atomic_response_get_stream(struct dw_atomic_response *ar, const uint8_t *buf, size_t len);

/* Immediate Data, RFC 7306 6.2: 8 bytes, of which verbs use 32 bits, the first. The others are 0 on
 * an RC stream; over RD they are the length of the write that it tells of. */
#define DW_IMMEDIATE_BYTES 8

/* How an operation ended, on the wire. */
enum dw_status {
    DW_STATUS_OK = 0,
    DW_STATUS_BAD_STAG = 1, /* unknown, without the right, or out of bounds: who guesses STags is
                             * not told which of them live */
    DW_STATUS_NO_RESOURCE = 2,
    DW_STATUS_CANCELLED = 3, /* the region was deregistered or invalidated, or the QP is
                              * gone */
    DW_STATUS_WITHDRAWN = 4, /* who asked does not go on with it */
    DW_STATUS_COUNT
};

/*
 * Record control. Byte 0: kind, byte 1: status, 2-3: count of ranges, 4-7: record id, then
 *   OPEN     sink STag 32, sink TO 64, length 32    (a put asks the sink to open a record)
 *   STATUS   granted 32, then count x {start 32, end 32}: missing ranges to be resent
 *   COMPLETE what the sink's application tells the source, 0..128 bytes
 *   ABORT    nothing: the source cannot serve the record, or the sink cannot take it; or, with the
 *            status WITHDRAWN, the source does not go on with its own
 * Record ids with the top bit were chosen by the source of the data, others by the sink.
 */
enum dw_record_kind {
    DW_RECORD_OPEN = 1,
    DW_RECORD_STATUS = 2,
    DW_RECORD_COMPLETE = 3,
    DW_RECORD_ABORT = 4
};
#define DW_RECORD_CONTROL_BYTES   8
#define DW_RECORD_OPEN_BYTES      (DW_RECORD_CONTROL_BYTES + 16)
#define DW_RECORD_MAX_RANGES      32
#define DW_RECORD_ID_FROM_SOURCE  0x80000000u
#define DW_RECORD_STATUS_BYTES(n) (DW_RECORD_CONTROL_BYTES + 4 + 8 * (size_t)(n))

struct dw_range {
    uint32_t start, end; /* [start, end) */
};

struct dw_record_control {
    uint8_t kind;
    uint8_t status;
    uint16_t range_count; /* STATUS: <= DW_RECORD_MAX_RANGES; otherwise 0 */
    uint32_t id;
    uint32_t stag;                                /* OPEN */
    uint64_t to;                                  /* OPEN */
    uint32_t length;                              /* OPEN */
    uint32_t granted;                             /* STATUS */
    struct dw_range ranges[DW_RECORD_MAX_RANGES]; /* STATUS: start < end, rising */
    const uint8_t *release;                       /* COMPLETE: into the buffer that was read */
    uint32_t release_bytes;                       /* COMPLETE: <= DIWARP_RELEASE_MAX_BYTES */
};
/* Returns the bytes written (header, ranges, release). */
size_t dw_record_control_put(uint8_t *buf, const struct dw_record_control *rc);
int dw_record_control_get(struct dw_record_control *rc, const uint8_t *buf, size_t len);

/* ---- Terminate (RFC 5040 4.8): the payload of untagged messages on queue 2 ---- */

/*
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +-------+-------+---------------+-+-+-+-------------------------+
 * | layer | type  |     code      |M|D|R|            0            |
 * +-------+-------+---------------+-+-+-+-------------------------+
 * |  M: DDP segment length (16)   |  D: DDP header (14 or 18 bytes)
 * +-------------------------------+  R: RDMAP header (28 bytes: of a Read Request)
 */
#define DW_TERMINATE_BYTES     4
#define DW_TERMINATE_MAX_BYTES (DW_TERMINATE_BYTES + 2 + 18 + 28)
enum { DW_TERMINATE_LENGTH = 0x80, DW_TERMINATE_DDP = 0x40, DW_TERMINATE_RDMAP = 0x20 };

/* For the cause and the segment (ULPDU) that it was found in; len 0: none. The headers go along
 * where RFC 5040 4.8 wants them: with errors of RDMAP or DDP that are not catastrophic, if the
 * segment is long enough. Writes at most DW_TERMINATE_MAX_BYTES; returns how many. */
size_t dw_terminate_put(uint8_t *buf, uint16_t cause, const uint8_t *segment, size_t len);
