/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed addresses from the modex: what unpacks must pack to the same bytes and unpack again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/include/diwarp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diwarp_address address, again;
    uint8_t packed[DIWARP_ADDRESS_MAX_BYTES];
    if (diwarp_address_unpack(&address, data, size))
        return 0;
    int bytes = diwarp_address_pack(&address, packed, sizeof packed);
    if (bytes <= 0 || (size_t)bytes > size)
        abort();
    if (diwarp_address_unpack(&again, packed, (size_t)bytes) ||
        memcmp(&address, &again, sizeof address) != 0)
        abort();
    /* One byte less than needed must be refused, not overrun. */
    if (diwarp_address_pack(&address, packed, (size_t)bytes - 1) >= 0)
        abort();
    return 0;
}
