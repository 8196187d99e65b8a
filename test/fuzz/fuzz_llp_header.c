/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes the decoders of the LLP header and the intro block; what they take must encode back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/llp_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t buf[DW_LLP_HEADER_BYTES];
    struct dw_llp_header header;
    struct dw_intro intro;

    if (dw_llp_header_get(&header, data, size) == 0) {
        require(size >= DW_LLP_HEADER_BYTES + DW_CRC_BYTES);
        dw_llp_header_put(buf, &header);
        require(memcmp(buf, data, DW_LLP_HEADER_BYTES) == 0);
        data += DW_LLP_HEADER_BYTES;
        size -= DW_LLP_HEADER_BYTES;
    }
    if (dw_intro_get(&intro, data, size) == 0) {
        require(size >= DW_INTRO_BYTES);
        dw_intro_put(buf, &intro);
        require(memcmp(buf, data, DW_INTRO_BYTES) == 0);
    }
    return 0;
}
