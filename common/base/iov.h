/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of pieces of memory, walked by a position: a place in the list, and an offset in bytes from
 * its start, which may lie in a later piece. */
#pragma once

#include <stdint.h>
#include <sys/uio.h>

/* The piece, of at most `bytes`, at the position, which moves on to its end. The list has at least
 * one byte there. */
static inline struct iovec dw_iov_next(const struct iovec **list, size_t *offset, size_t bytes)
{
    for (; *offset >= (*list)->iov_len; (*list)++)
        *offset -= (*list)->iov_len;
    const size_t left = (*list)->iov_len - *offset;
    const struct iovec piece = {(uint8_t *)(*list)->iov_base + *offset,
                                left < bytes ? left : bytes};
    *offset += piece.iov_len;
    return piece;
}

/* The next `bytes`, which the list has. out: room for as many pieces as the list has. Returns how
 * many there are. */
static inline unsigned dw_iov_slice(const struct iovec **list, size_t *offset, size_t bytes,
                                    struct iovec *out)
{
    unsigned count = 0;
    for (; bytes; bytes -= out[count++].iov_len)
        out[count] = dw_iov_next(list, offset, bytes);
    return count;
}
