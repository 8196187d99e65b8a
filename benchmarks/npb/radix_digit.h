/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local steps of a distributed radix sort, without messages. The order of all keys is a line of
 * positions, of which each rank has an equal share: key `total * rank / ranks` and those after it.
 */
#ifndef RADIX_DIGIT_H
#define RADIX_DIGIT_H

#include <stdint.h>

/* Some bits of a key. */
struct radix_digit {
    int shift, bits;
};

static inline int radix_digit_values(struct radix_digit digit)
{
    return 1 << digit.bits;
}

static inline uint32_t radix_digit_of(struct radix_digit digit, uint32_t key)
{
    return (key >> digit.shift) & (uint32_t)(radix_digit_values(digit) - 1);
}

/* The first position of a rank's share. */
static inline int radix_share(int total, int rank, int ranks)
{
    return (int)((int64_t)total * rank / ranks);
}

/* counts[d]: how many keys have the digit d. */
void radix_count(struct radix_digit digit, const uint32_t *keys, int n, int *counts);

/* sums[i] = counts[0] + ... + counts[i - 1]; returns the sum of all. They may be the same. */
int radix_prefix(const int *counts, int n, int *sums);

/* Puts the keys in the order of the digit, equal ones as they came. `counts` are those of the
 * digit, and are overwritten. */
void radix_order(struct radix_digit digit, const uint32_t *keys, int n, int *counts, uint32_t *out);

/* counts[d] keys go to the positions from first[d] on: send[r] becomes how many go to rank r. */
void radix_destinations(const int *counts, const int *first, int values, int total, int ranks,
                        int *send);

#endif
