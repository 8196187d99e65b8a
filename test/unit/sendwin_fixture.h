/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the send window share. After <cmocka.h>. */
#ifndef SENDWIN_FIXTURE_H
#define SENDWIN_FIXTURE_H

#include "common/rel/sendwin.h"

#define FIRST    0xfffffff0u /* PSNs cross the wrap in each test */
#define CWND_MIN 2
#define SIZE     100 /* truesize of a datagram */

static inline unsigned length(const struct dw_list *list)
{
    unsigned n = 0;

    for (const struct dw_list *it = list->next; it != list; it = it->next)
        n++;
    return n;
}

/* A window with `count` datagrams sent, the i-th at time i + 1. */
static inline void fill(struct dw_sendwin *win, struct dw_tx *txs, unsigned count)
{
    dw_sendwin_init(win, FIRST, DW_WINDOW_DATAGRAMS, UINT32_MAX, DW_WINDOW_DATAGRAMS, 0, 0);
    for (unsigned i = 0; i < count; i++) {
        txs[i] = (struct dw_tx){.truesize_bytes = SIZE};
        dw_sendwin_on_send(win, &txs[i], i + 1);
    }
}

/* Without an echo. */
static inline int on_ack(struct dw_sendwin *win, uint32_t psn, uint64_t sack, uint64_t now_ns,
                         struct dw_list *acked, struct dw_sendwin_result *result)
{
    const struct dw_ack ack = {.psn = psn, .sack = sack};
    return dw_sendwin_on_ack(win, &ack, now_ns, acked, result);
}

#endif
