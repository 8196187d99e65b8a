/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of a peer's records may be under way to us: a congestion window that the sink keeps, in
 * datagrams. It is judged each time that as many have come or have been asked for again as it has.
 * One in eight lost is taken for a bad link; more is taken for a queue on the way that is too
 * short, and halves it. Else it doubles, and once it has been cut it grows by eight datagrams a
 * round, as those of others do who share that queue. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* At first: what the ports of plain switches hold. */
#define DW_RECORDWIN_FIRST_BYTES (256u << 10)
#define DW_RECORDWIN_LEAST       16u
#define DW_RECORDWIN_MOST        ((1u << 14) - 1)

struct dw_recordwin {
    uint16_t datagrams : 14; /* 0: as at first */
    bool cut : 1;            /* once; from then on it grows slowly */
};

/* Since it was judged last. */
struct dw_record_round {
    uint16_t came, lost;
};

/* payload: bytes of a record that a datagram carries. */
static inline uint32_t dw_recordwin_datagrams(struct dw_recordwin win, uint32_t payload)
{
    const uint32_t first = DW_RECORDWIN_FIRST_BYTES / payload;
    return win.datagrams ? win.datagrams : first > DW_RECORDWIN_LEAST ? first : DW_RECORDWIN_LEAST;
}

static inline uint64_t dw_recordwin_bytes(struct dw_recordwin win, uint32_t payload)
{
    return (uint64_t)dw_recordwin_datagrams(win, payload) * payload;
}

static inline void dw_recordwin_judge(struct dw_recordwin *win, struct dw_record_round *round,
                                      uint32_t payload)
{
    const uint32_t now = dw_recordwin_datagrams(*win, payload);
    const uint32_t seen = (uint32_t)round->came + round->lost;
    uint32_t next = win->cut ? now + 8 : now * 2;
    if (seen < now && seen < DW_RECORDWIN_MOST)
        return;
    if (round->lost > seen / 8) {
        next = now / 2 > DW_RECORDWIN_LEAST ? now / 2 : DW_RECORDWIN_LEAST;
        win->cut = true;
    }
    win->datagrams = (next < DW_RECORDWIN_MOST ? next : DW_RECORDWIN_MOST) & DW_RECORDWIN_MOST;
    *round = (struct dw_record_round){0};
}

static inline void dw_recordwin_on_came(struct dw_recordwin *win, struct dw_record_round *round,
                                        uint32_t payload)
{
    round->came++;
    dw_recordwin_judge(win, round, payload);
}

static inline void dw_recordwin_on_lost(struct dw_recordwin *win, struct dw_record_round *round,
                                        uint32_t bytes, uint32_t payload)
{
    const uint32_t lost = round->lost + (bytes - 1) / payload + 1;
    round->lost = (uint16_t)(lost < UINT16_MAX ? lost : UINT16_MAX);
    dw_recordwin_judge(win, round, payload);
}
