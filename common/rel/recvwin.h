/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive window of one peer: which PSNs have come, what to acknowledge. Pure. */
#ifndef DW_RECVWIN_H
#define DW_RECVWIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/serial.h"

/* PSNs from `ack` on that are taken. */
#define DW_WINDOW_DATAGRAMS 256
/* Of those, the ones that an acknowledgement tells of: ack, and the SACK's 64. */
#define DW_SACK_DATAGRAMS 65

enum { DW_RECVWIN_WORDS = DW_WINDOW_DATAGRAMS / 32 };
_Static_assert(DW_WINDOW_DATAGRAMS % 32 == 0 && DW_RECVWIN_WORDS >= 2, "two words are the SACK");

struct dw_recvwin {
    uint32_t ack;                    /* next PSN expected in order */
    uint32_t came[DW_RECVWIN_WORDS]; /* bit i: ack + 1 + i has come */
};

enum dw_recvwin_verdict { DW_RECVWIN_NEW, DW_RECVWIN_DUPLICATE, DW_RECVWIN_BEYOND };

static inline void dw_recvwin_init(struct dw_recvwin *win, uint32_t first_psn)
{
    *win = (struct dw_recvwin){.ack = first_psn};
}

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
    return win->came[0] | (uint64_t)win->came[1] << 32;
}

/* What a datagram is, without taking it: it may still lack a buffer. */
static inline enum dw_recvwin_verdict dw_recvwin_check(const struct dw_recvwin *win, uint32_t psn)
{
    int32_t ahead = dw_serial_diff(psn, win->ack);
    if (ahead < 0)
        return DW_RECVWIN_DUPLICATE;
    if (ahead >= DW_WINDOW_DATAGRAMS)
        return DW_RECVWIN_BEYOND;
    unsigned bit = (unsigned)ahead - 1;
    if (ahead > 0 && (win->came[bit / 32] >> bit % 32 & 1))
        return DW_RECVWIN_DUPLICATE;
    return DW_RECVWIN_NEW;
}

static inline void dw_recvwin_shift(struct dw_recvwin *win, unsigned bits)
{
    unsigned words = bits / 32, rest = bits % 32;
    for (unsigned i = 0; i < DW_RECVWIN_WORDS; i++) {
        uint64_t low = i + words < DW_RECVWIN_WORDS ? win->came[i + words] : 0;
        uint64_t high = i + words + 1 < DW_RECVWIN_WORDS ? win->came[i + words + 1] : 0;
        win->came[i] = (uint32_t)((low | high << 32) >> rest);
    }
}

/* Takes a PSN whose check said NEW. */
static inline void dw_recvwin_on_received(struct dw_recvwin *win, uint32_t psn)
{
    int32_t ahead = dw_serial_diff(psn, win->ack);
    if (ahead > 0) {
        unsigned bit = (unsigned)ahead - 1;
        win->came[bit / 32] |= 1u << bit % 32;
        return;
    }
    win->ack++;
    if (!dw_recvwin_has_gap(win))
        return;
    unsigned run = 0;
    while (run < DW_WINDOW_DATAGRAMS && (win->came[run / 32] >> run % 32 & 1))
        run++;
    win->ack += run;
    dw_recvwin_shift(win, run + 1);
}

#endif
