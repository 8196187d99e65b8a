/* SPDX-License-Identifier: BSD-3-Clause */
/* Which datagrams of a source have come, by their numbers: a ring of bits (RFC 6479), so that one
 * that is sent a second time by somebody else is known, while several paths may reorder. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the ring and how late a datagram may be: with half of it a path that is 3 MB of
 * datagrams of 1500 bytes slower than another would lose them. */
#define DW_REPLAY_WORDS 64u
/* So far behind the highest number a datagram is too late to tell. */
#define DW_REPLAY_NUMBERS ((DW_REPLAY_WORDS - 1) * 64)

struct dw_replay {
    uint64_t highest;
    bool any; /* else none has come, and `highest` means nothing */
    uint64_t came[DW_REPLAY_WORDS];
};

/* As if every number up to `highest` had come. */
static inline void dw_replay_init_behind(struct dw_replay *replay, uint64_t highest)
{
    *replay = (struct dw_replay){.highest = highest, .any = true};
    for (unsigned i = 0; i < DW_REPLAY_WORDS; i++)
        replay->came[i] = UINT64_MAX;
    replay->came[highest / 64 % DW_REPLAY_WORDS] >>= 63 - highest % 64;
}

/* It has come, or is too late to tell. */
static inline bool dw_replay_check(const struct dw_replay *replay, uint64_t number)
{
    const int64_t behind = (int64_t)(replay->highest - number);
    if (!replay->any || behind < 0)
        return false;
    return behind >= (int64_t)DW_REPLAY_NUMBERS ||
           (replay->came[number / 64 % DW_REPLAY_WORDS] >> number % 64 & 1);
}

/* Notes one whose check said no. */
static inline void dw_replay_add(struct dw_replay *replay, uint64_t number)
{
    if (!replay->any || (int64_t)(number - replay->highest) > 0) {
        const uint64_t words = (number / 64 - replay->highest / 64) & UINT64_MAX / 64;
        const bool all = !replay->any || words >= DW_REPLAY_WORDS;
        for (unsigned i = 0; i < (all ? DW_REPLAY_WORDS : words); i++)
            replay->came[(number / 64 - i) % DW_REPLAY_WORDS] = 0;
        replay->highest = number;
        replay->any = true;
    }
    replay->came[number / 64 % DW_REPLAY_WORDS] |= UINT64_C(1) << number % 64;
}
