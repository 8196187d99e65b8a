/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive window of one peer: which PSNs have come, what to acknowledge. Pure. */
#ifndef DW_RECVWIN_H
#define DW_RECVWIN_H

#include <stdint.h>

#include "common/base/serial.h"

/* PSNs from `ack` on that are taken: ack itself and 63 of the SACK's 64. */
#define DW_WINDOW_DATAGRAMS 64

struct dw_recvwin {
    uint32_t ack;  /* next PSN expected in order */
    uint64_t sack; /* bit i: ack + 1 + i has come */
};

enum dw_recvwin_verdict { DW_RECVWIN_NEW, DW_RECVWIN_DUPLICATE, DW_RECVWIN_BEYOND };

static inline void dw_recvwin_init(struct dw_recvwin *win, uint32_t first_psn)
{
    *win = (struct dw_recvwin){.ack = first_psn};
}

/* What a datagram is, without taking it: it may still lack a buffer. */
static inline enum dw_recvwin_verdict dw_recvwin_check(const struct dw_recvwin *win, uint32_t psn)
{
    int32_t ahead = dw_serial_diff(psn, win->ack);
    if (ahead < 0)
        return DW_RECVWIN_DUPLICATE;
    if (ahead >= DW_WINDOW_DATAGRAMS)
        return DW_RECVWIN_BEYOND;
    if (ahead > 0 && (win->sack >> (ahead - 1) & 1))
        return DW_RECVWIN_DUPLICATE;
    return DW_RECVWIN_NEW;
}

/* Takes a PSN whose check said NEW. */
static inline void dw_recvwin_on_received(struct dw_recvwin *win, uint32_t psn)
{
    int32_t ahead = dw_serial_diff(psn, win->ack);
    if (ahead > 0) {
        win->sack |= 1ull << (ahead - 1);
        return;
    }
    unsigned run = win->sack == UINT64_MAX ? 64 : (unsigned)__builtin_ctzll(~win->sack);
    win->ack += 1 + run;
    win->sack = run >= 63 ? 0 : win->sack >> (run + 1);
}

static inline int dw_recvwin_has_gap(const struct dw_recvwin *win)
{
    return win->sack != 0;
}

#endif
