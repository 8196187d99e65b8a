/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of a peer's records: judged by rounds. */
#include "common/rel/recordwin.h"

static void set(struct dw_recordwin *win, uint32_t datagrams)
{
    if (datagrams < DW_RECORDWIN_LEAST)
        datagrams = DW_RECORDWIN_LEAST;
    win->datagrams = (datagrams < DW_RECORDWIN_MOST ? datagrams : DW_RECORDWIN_MOST) &
                     DW_RECORDWIN_MOST;
}

/* As it is now; where nothing tells, as it was. */
static bool queued(const struct dw_recordwin *win)
{
    uint64_t queued_ns;
    return dw_delay_queued(&win->delay, &queued_ns) ? queued_ns >= DW_RECORDWIN_QUEUE_NS
                                                    : win->queue;
}

static void begin_round(struct dw_recordwin *win)
{
    win->queue = queued(win);
    win->delay.round = 0;
    win->came = win->lost = 0;
    win->used = win->cut_now = false;
}

static void end_round(struct dw_recordwin *win, uint32_t now)
{
    win->cut |= queued(win);
    if (!win->cut_now && win->lost > (win->came + win->lost) / 8) {
        win->cut = true;
        set(win, now / 2);
    } else if (!win->cut_now && win->used) {
        set(win, !win->cut ? 2 * now : now + (queued(win) ? 1 : 1 + now / 16));
    }
    begin_round(win);
}

void dw_recordwin_on_came(struct dw_recordwin *win, unsigned datagrams, uint32_t payload)
{
    const uint32_t now = dw_recordwin_datagrams(win, payload);
    win->came = (uint16_t)(win->came + datagrams);
    if ((uint32_t)win->came + win->lost >= now)
        end_round(win, now);
}

void dw_recordwin_on_lost(struct dw_recordwin *win, unsigned datagrams, uint32_t payload)
{
    const uint32_t now = dw_recordwin_datagrams(win, payload);
    if (!win->cut_now && queued(win)) {
        begin_round(win);
        win->cut = win->cut_now = true;
        set(win, now * 7 / 10);
        return;
    }
    const uint32_t lost = win->lost + datagrams;
    win->lost = (lost < now ? lost : now) & DW_RECORDWIN_MOST;
    if ((uint32_t)win->came + win->lost >= now)
        end_round(win, now);
}
