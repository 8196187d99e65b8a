/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the send window share. After <cmocka.h>. */
#ifndef SENDWIN_FIXTURE_H
#define SENDWIN_FIXTURE_H

#include "common/rel/sendwin.h"

#define FIRST    0xfffffff0u /* PSNs cross the wrap in each test */
#define CWND_MIN 2

static unsigned length(const struct dw_list *list)
{
    unsigned n = 0;

    for (const struct dw_list *it = list->next; it != list; it = it->next)
        n++;
    return n;
}

#endif
