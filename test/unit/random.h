/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for the tests that compare a module with a naive model, and a check that names the seed.
 * After the includes that cmocka.h wants. */
#ifndef DW_TEST_RANDOM_H
#define DW_TEST_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

/* SplitMix64: any state will do, so a seed is one. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* In [0, limit), limit > 0. */
static inline uint32_t random_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)(random_next(state) % limit);
}

static inline bool random_percent(uint64_t *state, uint32_t percent)
{
    return random_below(state, 100) < percent;
}

#define assert_for_seed(seed, truth)                                       \
    do {                                                                   \
        if (!(truth))                                                      \
            fail_msg("seed %llu: %s", (unsigned long long)(seed), #truth); \
    } while (0)

#endif
