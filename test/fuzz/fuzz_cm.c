/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes the messages by which rdma_cm programs find each other: what is taken encodes back to the
 * same bytes, no part of it is taken or refused before. */
#include <string.h>

#include "test/fuzz/input.h"
#include "verbs_diwarp/cm_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint8_t *bytes, size_t count)
{
    static struct dv_cm_message message, part;
    uint8_t again[DV_CM_MESSAGE_BYTES];
    const int used = dv_cm_decode(bytes, count, &message);
    if (used <= 0)
        return;
    require((size_t)used <= count && (size_t)used <= sizeof again);
    require(message.private_bytes <= dv_cm_private_max(message.type, message.qp_type));
    require(dv_cm_encode(&message, again) == (size_t)used);
    require(!memcmp(again, bytes, (size_t)used));
    for (size_t less = 0; less < (size_t)used; less++)
        require(!dv_cm_decode(bytes, less, &part));
}

/* As it is, and behind what every message begins with. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t start[] = {'d', 'w', 'C', 'M', DV_CM_VERSION};
    uint8_t *bytes = malloc(sizeof start + size);
    require(bytes);
    check(data, size);
    memcpy(bytes, start, sizeof start);
    if (size)
        memcpy(bytes + sizeof start, data, size);
    check(bytes, sizeof start + size);
    free(bytes);
    return 0;
}
