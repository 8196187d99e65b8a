/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes the decoders of RDMAP payloads, chosen by the first byte; what they take encodes back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/include/diwarp.h"
#include "common/wire/rdmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LARGEST_BYTES DW_RECORD_STATUS_BYTES(DW_RECORD_MAX_RANGES)

static void require(int truth)
{
    if (!truth) {
        abort();
    }
}

static void require_same(const uint8_t *encoded, size_t len, const uint8_t *data, size_t size)
{
    require(len <= size);
    require(memcmp(encoded, data, len) == 0);
}

static void fuzz_write_record(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_WRITE_RECORD_BYTES];
    struct dw_write_record wr;

    if (dw_write_record_get(&wr, data, size) == 0) {
        require(wr.offset <= wr.total);
        dw_write_record_put(buf, &wr);
        require_same(buf, sizeof buf, data, size);
    }
}

static void fuzz_read_request(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_READ_REQUEST_BYTES];
    struct dw_read_request rr;

    if (dw_read_request_get(&rr, data, size) == 0) {
        dw_read_request_put(buf, &rr);
        require_same(buf, sizeof buf, data, size);
    }
}

static void fuzz_atomic_request(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_ATOMIC_REQUEST_BYTES];
    struct dw_atomic_request ar;

    if (dw_atomic_request_get(&ar, data, size) == 0) {
        dw_atomic_request_put(buf, &ar);
        require_same(buf, sizeof buf, data, size);
    }
}

static void fuzz_atomic_response(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_ATOMIC_RESPONSE_BYTES];
    struct dw_atomic_response ar;

    if (dw_atomic_response_get(&ar, data, size) == 0) {
        require(ar.status < DW_STATUS_COUNT);
        dw_atomic_response_put(buf, &ar);
        require_same(buf, sizeof buf, data, size);
    }
}

static void fuzz_record_control(const uint8_t *data, size_t size)
{
    uint8_t buf[LARGEST_BYTES];
    struct dw_record_control rc;

    if (dw_record_control_get(&rc, data, size) == 0) {
        require(rc.range_count <= DW_RECORD_MAX_RANGES);
        require(rc.release_bytes <= DIWARP_RELEASE_MAX_BYTES);
        require(dw_record_control_put(buf, &rc) == size);
        require_same(buf, size, data, size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const fuzz[])(const uint8_t *, size_t) = {
        fuzz_write_record,    fuzz_read_request,   fuzz_atomic_request,
        fuzz_atomic_response, fuzz_record_control,
    };

    if (size > 0) {
        fuzz[data[0] % (sizeof fuzz / sizeof fuzz[0])](data + 1, size - 1);
    }
    return 0;
}
