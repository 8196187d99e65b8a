/* SPDX-License-Identifier: BSD-3-Clause */
/* See rc_hello.h. */
#include "common/wire/rc_hello.h"

#include <errno.h>

#include "common/wire/bytes.h"

#define VERSION 1

void dw_rc_hello_put(uint8_t *buf, const struct dw_rc_hello *hello)
{
    buf[0] = 'd';
    buf[1] = 'w';
    buf[2] = VERSION;
    buf[3] = 0;
    dw_put_be32(buf + 4, hello->name.job);
    dw_put_be32(buf + 8, hello->name.rank);
    dw_put_be64(buf + 12, hello->token);
    dw_put_be16(buf + 20, hello->ird);
    dw_put_be16(buf + 22, 0);
}

int dw_rc_hello_get(struct dw_rc_hello *hello, const uint8_t *buf, size_t len)
{
    if (len < DW_RC_HELLO_BYTES)
        return -EBADMSG;
    if (buf[0] != 'd' || buf[1] != 'w' || buf[2] != VERSION)
        return -EPROTO;
    *hello = (struct dw_rc_hello){
        .name = {.job = dw_get_be32(buf + 4), .rank = dw_get_be32(buf + 8)},
        .token = dw_get_be64(buf + 12),
        .ird = dw_get_be16(buf + 20),
    };
    return 0;
}
