/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window that a peer's records share: a congestion window that the sink keeps, in datagrams.
 * Pure: what has come, what is lost and how long an answer took in; how much may be under way out.
 *
 * A round ends when a window of datagrams has come or has been asked for again. A queue is on the
 * way while the fastest answer of a round took DW_RECORDWIN_QUEUE_NS longer than the fastest of
 * late. A loss behind a queue is taken for its overflow: the window shrinks as CUBIC's (RFC 9438),
 * at most once a round. A loss without one is taken for a bad link, up to one in eight; more is
 * taken for a queue too short to be seen, and halves the window. It grows only in rounds that used
 * it: it doubles at first, until there is a queue or a loss that counts; from then on quickly where
 * there is no queue, else by one datagram a round, as TCP's that share the queue.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/rel/rtt.h"

/* At first: what the ports of plain switches hold. */
#define DW_RECORDWIN_FIRST_BYTES (256u << 10)
#define DW_RECORDWIN_LEAST       16u
#define DW_RECORDWIN_MOST        ((1u << 14) - 1)
/* Half: hosts that compute for a moment look like a queue; twice: a port that holds less than 100 kB
 * at 1 Gb/s is never seen as one, and who shares it gets what one loss in eight leaves. */
#define DW_RECORDWIN_QUEUE_NS 400000u

/* What is kept of it while the peer rests. */
struct dw_recordwin_past {
    uint16_t datagrams : 14; /* 0: as at first */
    bool cut : 1;            /* there was a queue, or a loss that counts: it grows slowly */
};

struct dw_recordwin {
    uint16_t datagrams : 14;
    bool cut : 1;
    bool used : 1; /* all of it, in this round */
    uint16_t came; /* in this round */
    uint16_t lost : 14;
    bool cut_now : 1; /* in this round: further losses are of the same event */
    bool queue : 1;   /* in the last round that tells */
    struct dw_delay delay;
};

static inline struct dw_recordwin dw_recordwin_from(struct dw_recordwin_past past)
{
    return (struct dw_recordwin){.datagrams = past.datagrams, .cut = past.cut};
}

static inline struct dw_recordwin_past dw_recordwin_past(const struct dw_recordwin *win)
{
    return (struct dw_recordwin_past){.datagrams = win->datagrams, .cut = win->cut};
}

/* payload: bytes of a record that a datagram carries. */
static inline uint32_t dw_recordwin_datagrams(const struct dw_recordwin *win, uint32_t payload)
{
    const uint32_t first = DW_RECORDWIN_FIRST_BYTES / payload;
    return win->datagrams ? win->datagrams : first > DW_RECORDWIN_LEAST ? first : DW_RECORDWIN_LEAST;
}

/* It left no room for what there was to grant. */
static inline void dw_recordwin_on_full(struct dw_recordwin *win)
{
    win->used = true;
}

/* A datagram of a record came so long after the peer's latest datagram before it was sent. */
static inline void dw_recordwin_on_answer(struct dw_recordwin *win, uint64_t took_ns,
                                          uint64_t now_ns)
{
    dw_delay_on_sample(&win->delay, took_ns, now_ns);
}

/* So many more have come; so many are asked for again, at most what the window has. */
void dw_recordwin_on_came(struct dw_recordwin *win, unsigned datagrams, uint32_t payload);
void dw_recordwin_on_lost(struct dw_recordwin *win, unsigned datagrams, uint32_t payload);
