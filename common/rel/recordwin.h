/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window that a peer's records share: a congestion window that the sink keeps, in datagrams.
 * Pure: what has come, what is lost and how long an answer took in; how much may be under way out.
 *
 * A round ends when a window of datagrams has come or has been asked for again. There is a queue
 * on the way while the fastest answer of a round takes DW_RECORDWIN_QUEUE_NS longer than the
 * fastest so far, which is forgotten slowly. A loss in the second round of a queue, or a later one,
 * is taken for its overflow: the window shrinks as CUBIC's (RFC 9438), at most once a round. Other
 * losses are taken for a bad link, up to one in eight; more, for a queue too short to be seen, and
 * halve the window. It grows only in rounds that used all of it: it doubles at first, until there
 * is a queue or a loss that counts; from then on it grows fast without a queue, and with one at a
 * pace to share it with TCP.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* At first: what the ports of plain switches hold. */
#define DW_RECORDWIN_FIRST_BYTES (256u << 10)
#define DW_RECORDWIN_LEAST       16u
#define DW_RECORDWIN_MOST        ((1u << 13) - 1)
/* Units of 64 us, as a shift of nanoseconds: all that a timestamp tells is less than 1024. */
#define DW_RECORDWIN_UNIT_SHIFT 16
/* Half: hosts that compute for a moment look like a queue; twice: a port that holds less than
 * 100 kB at 1 Gb/s is never seen as one, and who shares it gets what one loss in eight leaves. */
#define DW_RECORDWIN_QUEUE_NS (6u << DW_RECORDWIN_UNIT_SHIFT)
/* Datagrams granted at a time while a queue overflows: as many leave in a burst. Half: twice the
 * grants, each a datagram; twice: what shares the queue loses less than we do, and gets more. */
#define DW_RECORDWIN_BURST 8u

/* What is kept of it while the peer rests. */
struct dw_recordwin_past {
    uint16_t datagrams : 13; /* 0: as at first */
    bool cut : 1;            /* there was a queue, or a loss that counts: it no longer doubles */
};

struct dw_recordwin {
    uint64_t datagrams : 13;
    uint64_t seen : 13;  /* in this round: have come, or are lost */
    uint64_t lost : 10;  /* of them; or so many and more */
    uint64_t least : 10; /* time to an answer in this round, in units; 0: nothing tells */
    uint64_t base : 10;  /* least so far, and one unit for each of its periods; 0: nothing told */
    uint64_t period : 3;
    bool cut : 1;
    bool used : 1;       /* all of it, in this round */
    bool cut_now : 1;    /* in this round: further losses are of the same event */
    bool queue : 1;      /* in the last round that tells */
    bool overflowed : 1; /* the queue, since there was none */
};
_Static_assert(sizeof(struct dw_recordwin) == 8, "a peer is small");

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
    return win->datagrams               ? win->datagrams
           : first > DW_RECORDWIN_LEAST ? first
                                        : DW_RECORDWIN_LEAST;
}

/* The least that is worth a grant, which costs a datagram. */
static inline uint32_t dw_recordwin_part_datagrams(const struct dw_recordwin *win, uint32_t payload)
{
    const uint32_t part = dw_recordwin_datagrams(win, payload) / 4;
    return win->overflowed && part > DW_RECORDWIN_BURST ? DW_RECORDWIN_BURST : part;
}

/* It left no room for what there was to grant. */
static inline void dw_recordwin_on_full(struct dw_recordwin *win)
{
    win->used = true;
}

/* A datagram of a record came so long after what it answers was sent: the latest that its source
 * had of us. */
void dw_recordwin_on_answer(struct dw_recordwin *win, uint64_t took_ns, uint64_t now_ns);
/* So many more have come; so many are asked for again, at most what the window has. */
void dw_recordwin_on_came(struct dw_recordwin *win, unsigned datagrams, uint32_t payload);
void dw_recordwin_on_lost(struct dw_recordwin *win, unsigned datagrams, uint32_t payload);
/* One that came was marked by a queue: as an overflow (RFC 3168). */
void dw_recordwin_on_marked(struct dw_recordwin *win, uint32_t payload);
