/* SPDX-License-Identifier: BSD-3-Clause */
/* Two nodes that talk to each other, and a forger who bothers the second. After <cmocka.h>. */
#pragma once

#include "test/net/forge.h"
#include "test/net/rd_pair.h"

#define FORGER_RANK 9

static struct pair pair;
static struct forger forger;

static inline void forged_pair_open(void)
{
    pair.attr = loopback_attr(0);
    pair_open(&pair);
    forger_open(&forger, &pair.b->address, DW_LLP_DATA, FORGER_RANK);
    forger.header.flags = DW_LLP_INTRO;
}

static inline void forged_pair_close(void)
{
    forger_close(&forger);
    pair_close(&pair);
}

static inline int forged_pair_teardown(void **state)
{
    (void)state;
    forged_pair_close();
    return 0;
}

static inline void forge_hello(void)
{
    forge_begin(&forger);
    forge_message(&forger, 1, "hello", 5);
}

/* b gets to know the forger. */
static inline void forge_introduction(void)
{
    forge_hello();
    forge_send(&forger);
    RUN_UNTIL(pair.b->recvs == 1, pair.b);
    forger.header.psn++;
}
