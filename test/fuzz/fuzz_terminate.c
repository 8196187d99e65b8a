/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes what an RC stream reads of a DDP segment: its header, the Read Request and Terminate
 * behind it, and the Terminate that would be sent because of it. What is taken encodes back, but
 * for reserved bits.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/bytes.h"
#include "common/wire/ddp.h"
#include "common/wire/rdmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth) {
        abort();
    }
}

static void require_same_terminate(const struct dw_terminate *a, const struct dw_terminate *b)
{
    require(a->cause == b->cause && a->segment_bytes == b->segment_bytes);
    require(a->has_length == b->has_length);
    require(!a->ddp == !b->ddp && !a->rdmap == !b->rdmap);
    if (a->ddp != NULL) {
        require(memcmp(a->ddp, b->ddp, a->ddp[0] & 0x80 ? 14 : 18) == 0);
    }
    if (a->rdmap != NULL) {
        require(memcmp(a->rdmap, b->rdmap, DW_READ_REQUEST_STREAM_BYTES) == 0);
    }
}

/* What leaves for this cause and segment is read back as it was meant. */
static void fuzz_answer(uint16_t cause, const uint8_t *segment, size_t len)
{
    uint8_t buf[DW_TERMINATE_MAX_BYTES];
    struct dw_terminate in, out;
    size_t bytes;

    dw_terminate_fill(&in, cause, segment, len);
    bytes = dw_terminate_put(buf, &in);
    require(bytes <= sizeof buf);
    require(dw_terminate_get(&out, buf, bytes) == 0);
    require_same_terminate(&in, &out);
}

static void fuzz_terminate(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_TERMINATE_MAX_BYTES];
    struct dw_terminate in, out;

    if (dw_terminate_get(&in, data, size) < 0) {
        return;
    }
    require(in.ddp == NULL || (in.ddp >= data && in.ddp + 14 <= data + size));
    require(in.rdmap == NULL || (in.rdmap >= data && in.rdmap + 28 <= data + size));
    if (in.has_length) {
        require(dw_terminate_get(&out, buf, dw_terminate_put(buf, &in)) == 0);
        require_same_terminate(&in, &out);
    }
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
    require((size_t)len <= size && cause == 0 && header.opcode <= DW_RDMAP_TERMINATE);
    require(header.tagged || header.qn <= DW_QN_TERMINATE);
    require(dw_ddp_put(buf, &header) == (size_t)len);
    require(memcmp(buf + 6, data + 6, (size_t)len - 6) == 0);
    fuzz_answer(dw_get_be16(data + len - 2), data, size);
    if (header.opcode == DW_RDMAP_TERMINATE) {
        fuzz_terminate(data + len, size - (size_t)len);
    } else if (header.opcode == DW_RDMAP_READ_REQUEST) {
        fuzz_read_request(data + len, size - (size_t)len);
    }
    return 0;
}
