/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pseudo-random numbers of the NAS Parallel Benchmarks (RNR-94-007, section 2.2):
 * x' = a x mod 2^46, as a fraction of 2^46. In integers, which give the same bits as the double
 * precision arithmetic of the report.
 */
#ifndef NPB_RANDOM_H
#define NPB_RANDOM_H

#include <stdint.h>

#define NPB_RANDOM_BITS 46
#define NPB_RANDOM_MASK ((UINT64_C(1) << NPB_RANDOM_BITS) - 1)
#define NPB_RANDOM_SEED UINT64_C(314159265)
#define NPB_RANDOM_A    UINT64_C(1220703125) /* 5^13 */

/* The next number in (0, 1); `x` is the state, of which the seed is the first. */
static inline double npb_random_next(uint64_t *x, uint64_t a)
{
    *x = (*x * a) & NPB_RANDOM_MASK;
    return (double)*x * 0x1p-46;
}

/* a^n mod 2^46: a multiplier that goes n numbers further at once. */
static inline uint64_t npb_random_power(uint64_t a, uint64_t n)
{
    uint64_t power = 1;
    for (; n; n >>= 1) {
        if (n & 1)
            power = (power * a) & NPB_RANDOM_MASK;
        a = (a * a) & NPB_RANDOM_MASK;
    }
    return power;
}

/* The state after n numbers of the sequence that begins at `seed`. */
static inline uint64_t npb_random_skip(uint64_t seed, uint64_t n)
{
    return (seed * npb_random_power(NPB_RANDOM_A, n)) & NPB_RANDOM_MASK;
}

#endif
