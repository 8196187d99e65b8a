/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes the decoder of DDP segment headers; what it takes must encode back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/ddp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_DDP_UNTAGGED_BYTES];
    struct dw_ddp_header header;
    int len = dw_ddp_get(&header, data, size);

    if (len < 0) {
        return 0;
    }
    require(len == (header.tagged ? DW_DDP_TAGGED_BYTES : DW_DDP_UNTAGGED_BYTES));
    require((size_t)len <= size);
    require(header.tagged || header.qn < DW_QN_COUNT);
    require(dw_ddp_put(buf, &header) == (size_t)len);
    require(memcmp(buf, data, (size_t)len) == 0);
    return 0;
}
