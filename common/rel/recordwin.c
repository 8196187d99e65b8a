/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of a peer's records: judged by rounds. */
#include "common/rel/recordwin.h"

void dw_recordwin_on_datagrams(struct dw_recordwin *win, struct dw_record_round *round,
                               unsigned came, unsigned lost, uint32_t payload)
{
    const uint32_t now = dw_recordwin_datagrams(*win, payload);
    uint32_t next = win->cut ? now + 8 : now * 2;
    round->came = (uint16_t)(round->came + came);
    round->lost = (uint16_t)(round->lost + lost);
    const uint32_t seen = (uint32_t)round->came + round->lost;
    if (seen < now)
        return;
    if (round->lost > seen / 8) {
        next = now / 2 > DW_RECORDWIN_LEAST ? now / 2 : DW_RECORDWIN_LEAST;
        win->cut = true;
    }
    win->datagrams = (next < DW_RECORDWIN_MOST ? next : DW_RECORDWIN_MOST) & DW_RECORDWIN_MOST;
    *round = (struct dw_record_round){0};
}
