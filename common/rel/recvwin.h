/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive window of one peer: which PSNs have come, what to acknowledge. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/serial.h"

/* PSNs from `ack` on that are taken. */
#define DW_WINDOW_DATAGRAMS 256
/* Of those, the ones that an acknowledgement tells of: ack, and the SACK's 64. */
#define DW_SACK_DATAGRAMS 65

enum { DW_RECVWIN_WORDS = DW_WINDOW_DATAGRAMS / 32 };
enum dw_recvwin_verdict { DW_RECVWIN_NEW, DW_RECVWIN_DUPLICATE, DW_RECVWIN_BEYOND };

struct dw_recvwin {
    uint32_t ack;                    /* next PSN expected in order; at first, the only one set */
    uint32_t came[DW_RECVWIN_WORDS]; /* beyond it, by PSN modulo DW_WINDOW_DATAGRAMS */
};

static inline bool dw_recvwin_has_gap(const struct dw_recvwin *win)
{
    uint32_t any = 0;
    for (unsigned i = 0; i < DW_RECVWIN_WORDS; i++)
        any |= win->came[i];
    return any != 0;
}

/* What a header tells beside `ack`. */
static inline uint64_t dw_recvwin_sack(const struct dw_recvwin *win)
{
    const uint32_t first = win->ack + 1, word = first / 32, bit = first % 32;
    const uint64_t low = win->came[word % DW_RECVWIN_WORDS];
    const uint64_t middle = win->came[(word + 1) % DW_RECVWIN_WORDS];
    const uint64_t high = win->came[(word + 2) % DW_RECVWIN_WORDS];
    return (low | middle << 32) >> bit | (bit ? high << (64 - bit) : 0);
}

static inline bool dw_recvwin_has(const struct dw_recvwin *win, uint32_t psn)
{
    return win->came[psn / 32 % DW_RECVWIN_WORDS] >> psn % 32 & 1;
}

/* What a datagram is, without taking it: it may still lack a buffer. */
static inline enum dw_recvwin_verdict dw_recvwin_check(const struct dw_recvwin *win, uint32_t psn)
{
    const int32_t ahead = dw_serial_diff(psn, win->ack);
    if (ahead >= DW_WINDOW_DATAGRAMS)
        return DW_RECVWIN_BEYOND;
    return ahead < 0 || dw_recvwin_has(win, psn) ? DW_RECVWIN_DUPLICATE : DW_RECVWIN_NEW;
}

/* Takes a PSN whose check said NEW. */
static inline void dw_recvwin_on_received(struct dw_recvwin *win, uint32_t psn)
{
    win->came[psn / 32 % DW_RECVWIN_WORDS] |= 1u << psn % 32;
    for (; dw_recvwin_has(win, win->ack); win->ack++)
        win->came[win->ack / 32 % DW_RECVWIN_WORDS] &= ~(1u << win->ack % 32);
}
