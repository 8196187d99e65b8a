/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMAP's payloads: any bytes of any length up to the bound are read inside their buffer; what is
 * got, and put again, is the bytes it was got from. */
#include "common/include/diwarp.h"
#include "common/wire/rdmap.h"
#include "test/cbmc/any.h"

#ifndef CONTROL_MAX_BYTES
#define CONTROL_MAX_BYTES (DW_RECORD_STATUS_BYTES(3) + 1)
#endif

void requests_get(void);
void control_get(void);

void requests_get(void)
{
    const size_t len = any_length(DW_ATOMIC_REQUEST_BYTES + 1);
    uint8_t again[DW_ATOMIC_REQUEST_BYTES];
    uint8_t *buf = any_bytes(len);
    struct dw_write_record wr;
    struct dw_read_request rr;
    struct dw_atomic_request ar;
    struct dw_atomic_response response;
    if (!dw_write_record_get(&wr, buf, len)) {
        require(wr.offset <= wr.total, "domain");
        dw_write_record_put(again, &wr);
        require_same(again, buf, DW_WRITE_RECORD_BYTES);
    }
    if (!dw_read_request_get(&rr, buf, len)) {
        dw_read_request_put(again, &rr);
        require_same(again, buf, DW_READ_REQUEST_BYTES);
    }
    if (!dw_read_request_get_stream(&rr, buf, len)) {
        dw_read_request_put_stream(again, &rr);
        require_same(again, buf, DW_READ_REQUEST_STREAM_BYTES);
    }
    if (!dw_atomic_request_get(&ar, buf, len)) {
        dw_atomic_request_put(again, &ar);
        require_same(again, buf, DW_ATOMIC_REQUEST_BYTES);
    }
    if (!dw_atomic_response_get(&response, buf, len)) {
        dw_atomic_response_put(again, &response);
        require_same(again, buf, DW_ATOMIC_RESPONSE_BYTES);
    }
}

void control_get(void)
{
    const size_t len = any_length(CONTROL_MAX_BYTES);
    uint8_t again[CONTROL_MAX_BYTES];
    uint8_t *buf = any_bytes(len);
    struct dw_record_control control;
    if (dw_record_control_get(&control, buf, len))
        return;
    require(control.range_count <= DW_RECORD_MAX_RANGES, "count");
    require(control.release_bytes <= DIWARP_RELEASE_MAX_BYTES, "release");
    for (unsigned i = 0; i < control.range_count; i++) {
        require(control.ranges[i].start < control.ranges[i].end, "not empty");
        require(!i || control.ranges[i - 1].end <= control.ranges[i].start, "rising");
    }
    require(dw_record_control_put(again, &control) == len, "length");
    require_same(again, buf, len);
}
