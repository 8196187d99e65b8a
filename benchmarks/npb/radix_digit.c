/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/npb/radix_digit.h"

#include <string.h>

void radix_count(struct radix_digit digit, const uint32_t *keys, int n, int *counts)
{
    memset(counts, 0, (size_t)radix_digit_values(digit) * sizeof *counts);
    for (int i = 0; i < n; i++)
        counts[radix_digit_of(digit, keys[i])]++;
}

int radix_prefix(const int *counts, int n, int *sums)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        int count = counts[i];
        sums[i] = sum;
        sum += count;
    }
    return sum;
}

void radix_order(struct radix_digit digit, const uint32_t *keys, int n, int *counts, uint32_t *out)
{
    int *place = counts;

    radix_prefix(counts, radix_digit_values(digit), place);
    for (int i = 0; i < n; i++)
        out[place[radix_digit_of(digit, keys[i])]++] = keys[i];
}

void radix_destinations(const int *counts, const int *first, int values, int total, int ranks,
                        int *send)
{
    int rank = 0;

    memset(send, 0, (size_t)ranks * sizeof *send);
    for (int d = 0; d < values; d++) {
        int position = first[d], end = first[d] + counts[d];
        while (position < end) {
            int share_end = radix_share(total, rank + 1, ranks);
            int stop = share_end < end ? share_end : end;
            if (stop > position) {
                send[rank] += stop - position;
                position = stop;
            }
            if (position < end)
                rank++;
        }
    }
}
