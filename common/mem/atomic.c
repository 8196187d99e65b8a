/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/mem/atomic.h"

/* Masked add, and compare and swap, as RFC 7306 5.2 has them. false: the comparison failed. */
static bool execute_masked(const struct dw_atomic_request *request, uint64_t old, uint64_t *new)
{
    uint64_t mask = request->add_swap_mask, data = request->add_swap;
    if (request->opcode == DW_ATOMIC_FETCH_ADD) {
        /* The top bits of the fields are added without carry, so that none leaves its field. */
        *new = ((old & ~mask) + (data & ~mask)) ^ ((old ^ data) & mask);
        return true;
    }
    *new = (old & ~mask) | (data & mask);
    return !((old ^ request->compare) & request->compare_mask);
}

uint64_t dw_atomic_execute(const struct dw_atomic_request *request, uint64_t *target)
{
    uint64_t new, old = __atomic_load_n(target, __ATOMIC_SEQ_CST);
    while (execute_masked(request, old, &new) &&
           !__atomic_compare_exchange_n(target, &old, new, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
        /* another thread has changed it meanwhile */
    }
    return old;
}
