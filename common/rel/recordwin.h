/* SPDX-License-Identifier: BSD-3-Clause */
/* The window that a peer's records share. Pure: what has come and what is lost in, how much may be
 * under way out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How much of a peer's records may be under way to us: a congestion window that the sink keeps, in
 * datagrams. It is judged each time that as many have come or have been asked for again. One in
 * eight lost is taken for a bad link; more for a queue on the way that is too short, and halves it.
 * Else it doubles; once cut it grows by eight datagrams a round, as those of others who share that
 * queue. */
struct dw_recordwin {
    uint16_t datagrams : 14; /* 0: as at first */
    bool cut : 1;            /* once; from then on it grows slowly */
};

/* At first: what the ports of plain switches hold. */
#define DW_RECORDWIN_FIRST_BYTES (256u << 10)
#define DW_RECORDWIN_LEAST       16u
#define DW_RECORDWIN_MOST        ((1u << 14) - 1)

/* Datagrams since it was judged last. */
struct dw_record_round {
    uint16_t came, lost;
};

/* payload: bytes of a record that a datagram carries. */
static inline uint32_t dw_recordwin_datagrams(struct dw_recordwin win, uint32_t payload)
{
    const uint32_t first = DW_RECORDWIN_FIRST_BYTES / payload;
    return win.datagrams ? win.datagrams : first > DW_RECORDWIN_LEAST ? first : DW_RECORDWIN_LEAST;
}

/* So many more have come, and so many are asked for again: at most what the window has. */
void dw_recordwin_on_datagrams(struct dw_recordwin *win, struct dw_record_round *round,
                               unsigned came, unsigned lost, uint32_t payload);
