/* SPDX-License-Identifier: BSD-3-Clause */
/* See rc_hello.h. */
#include "common/wire/rc_hello.h"

#include <errno.h>

#include "common/wire/bytes.h"

/* 'd', 'w', version 1, 0 */
#define MAGIC     0x64770100u
#define FIELDS(X) X(32, 4, name.job) X(32, 8, name.rank) X(64, 12, token) X(16, 20, ird)

void dw_rc_hello_put(uint8_t *buf, const struct dw_rc_hello *h)
{
    dw_put_be32(buf, MAGIC);
    FIELDS(DW_PUT_FIELD)
    dw_put_be16(buf + 22, 0);
}

int dw_rc_hello_get(struct dw_rc_hello *h, const uint8_t *buf, size_t len)
{
    if (len < DW_RC_HELLO_BYTES)
        return -EBADMSG;
    if ((dw_get_be32(buf) ^ MAGIC) >> 8) /* the last byte is reserved */
        return -EPROTO;
    FIELDS(DW_GET_FIELD)
    return 0;
}
