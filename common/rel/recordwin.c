/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of a peer's records: judged by rounds. */
#include "common/rel/recordwin.h"

/* A round, with a queue. TCP's grows by one half (RFC 9438 4.3). Twice: beside a flow of CUBIC we
 * have 0.70 of a link of 300 Mb/s with tail drop and 0.63 with CoDel; as it is 0.66 and 0.54. */
#define GROWTH_DATAGRAMS 1
/* Of the window, without one: what a cut took is back after three rounds. */
#define GROWTH_DEN 8

/* Of the base: how long it takes to believe that the way has become 64 us longer. Half: a queue
 * that stands for a minute is taken for a longer way; twice: a longer way for a queue, for minutes.
 */
#define PERIOD_SHIFT 33
#define UNITS_MOST   1023u
#define LOST_MOST    1023u

static void set(struct dw_recordwin *win, uint32_t datagrams)
{
    if (datagrams < DW_RECORDWIN_LEAST)
        datagrams = DW_RECORDWIN_LEAST;
    win->datagrams =
        (datagrams < DW_RECORDWIN_MOST ? datagrams : DW_RECORDWIN_MOST) & DW_RECORDWIN_MOST;
}

void dw_recordwin_on_answer(struct dw_recordwin *win, uint64_t took_ns, uint64_t now_ns)
{
    const uint64_t units = (took_ns >> DW_RECORDWIN_UNIT_SHIFT) + 1;
    const uint32_t sample = units < UNITS_MOST ? (uint32_t)units : UNITS_MOST;
    const uint32_t period = now_ns >> PERIOD_SHIFT & 7, passed = (period - win->period) & 7;
    uint32_t base = win->base ? win->base + passed : sample;
    base = base < sample ? base : sample;
    win->period = period & 7;
    win->base = base & UNITS_MOST;
    if (!win->least || sample < win->least)
        win->least = sample & UNITS_MOST;
}

/* As it is now; where nothing tells, as it was. */
static bool has_queue(const struct dw_recordwin *win)
{
    const uint32_t queued = DW_RECORDWIN_QUEUE_NS >> DW_RECORDWIN_UNIT_SHIFT;
    const uint32_t least = win->least, base = win->base;
    return least ? least >= base + queued : win->queue;
}

static void begin_round(struct dw_recordwin *win)
{
    win->queue = has_queue(win);
    win->overflowed &= win->queue;
    win->least = 0;
    win->seen = win->lost = 0;
    win->used = win->cut_now = false;
}

static void end_round(struct dw_recordwin *win, uint32_t now, uint32_t seen, uint32_t lost)
{
    const bool queue = has_queue(win);
    win->cut |= queue;
    if (!win->cut_now && lost > seen / 8) {
        win->cut = true;
        set(win, now / 2);
    } else if (!win->cut_now && win->used) {
        set(win, !win->cut ? 2 * now : now + (queue ? GROWTH_DATAGRAMS : 1 + now / GROWTH_DEN));
    }
    begin_round(win);
}

/* More have come or are lost. */
static void go_on(struct dw_recordwin *win, uint32_t came, uint32_t lost, uint32_t payload)
{
    const uint32_t now = dw_recordwin_datagrams(win, payload);
    const uint32_t seen = win->seen + came + lost;
    lost += win->lost;
    if (seen >= now) {
        end_round(win, now, seen, lost);
        return;
    }
    win->seen = seen & DW_RECORDWIN_MOST;
    win->lost = (lost < LOST_MOST ? lost : LOST_MOST) & LOST_MOST;
}

void dw_recordwin_on_came(struct dw_recordwin *win, unsigned datagrams, uint32_t payload)
{
    go_on(win, datagrams, 0, payload);
}

static void shrink(struct dw_recordwin *win, uint32_t payload)
{
    begin_round(win);
    win->cut = win->cut_now = win->overflowed = true;
    set(win, dw_recordwin_datagrams(win, payload) * 7 / 10);
}

void dw_recordwin_on_lost(struct dw_recordwin *win, unsigned datagrams, uint32_t payload)
{
    /* In two rounds in a row: a host that is busy for a moment delays answers, too. */
    if (win->cut_now || !win->queue || !has_queue(win))
        go_on(win, 0, datagrams, payload);
    else
        shrink(win, payload);
}

void dw_recordwin_on_marked(struct dw_recordwin *win, uint32_t payload)
{
    if (!win->cut_now)
        shrink(win, payload);
}
