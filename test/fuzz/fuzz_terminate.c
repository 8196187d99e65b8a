/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes what an RC stream reads of a DDP segment: its header, the Read Request or Atomic Response
 * behind it, and the Terminate that would be sent because of it. What is taken encodes back, but
 * for reserved bits.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/terminate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth) {
        abort();
    }
}

/* What leaves for this cause and segment is read back as it was meant. */
static void fuzz_answer(uint16_t cause, const uint8_t *segment, size_t len)
{
    uint8_t buf[DW_TERMINATE_MAX_BYTES];
    struct terminate out;
    size_t bytes = dw_terminate_put(buf, cause, segment, len);

    require(bytes <= sizeof buf);
    require(terminate_get(&out, buf, bytes) == 0);
    require(out.cause == cause && !out.ddp == !out.has_length);
    require(!out.ddp || (out.segment_bytes == len && memcmp(out.ddp, segment, bytes - 6) == 0));
}

static void fuzz_read_request(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_READ_REQUEST_STREAM_BYTES];
    struct dw_read_request rr;

    if (dw_read_request_get_stream(&rr, data, size) == 0) {
        require(size == sizeof buf);
        dw_read_request_put_stream(buf, &rr);
        require(memcmp(buf, data, sizeof buf) == 0);
    }
}

static void fuzz_atomic_response(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_ATOMIC_RESPONSE_STREAM_BYTES];
    struct dw_atomic_response response;

    if (dw_atomic_response_get_stream(&response, data, size) == 0) {
        require(size == sizeof buf && response.status == DW_STATUS_OK);
        dw_atomic_response_put_stream(buf, &response);
        require(memcmp(buf, data, sizeof buf) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_DDP_UNTAGGED_BYTES];
    struct dw_ddp_header header;
    uint16_t cause = 0;
    int len;

    if (size > UINT16_MAX) {
        return 0;
    }
    len = dw_ddp_get_stream(&header, data, size, &cause);
    if (len < 0) {
        require(cause != 0 && (len == -EBADMSG) == (cause == DW_TERM_RDMAP_UNSPECIFIED));
        fuzz_answer(cause, data, size);
        return 0;
    }
    require((size_t)len <= size && cause == 0);
    require(header.opcode <= DW_RDMAP_ATOMIC_RESPONSE || dw_rdmap_has_immediate(header.opcode));
    require(header.tagged || header.qn <= DW_QN_ATOMIC_RESPONSE);
    require(dw_ddp_put(buf, &header) == (size_t)len);
    require(memcmp(buf + 6, data + 6, (size_t)len - 6) == 0);
    fuzz_answer(dw_get_be16(data + len - 2), data, size);
    if (header.opcode == DW_RDMAP_READ_REQUEST) {
        fuzz_read_request(data + len, size - (size_t)len);
    } else if (header.opcode == DW_RDMAP_ATOMIC_RESPONSE) {
        fuzz_atomic_response(data + len, size - (size_t)len);
    }
    return 0;
}
