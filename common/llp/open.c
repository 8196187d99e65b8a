/* SPDX-License-Identifier: BSD-3-Clause */
/* The product's choice of LLP. Alone in its file so that a test build can link another choice. */
#include "common/llp/llp.h"

int dw_llp_open(const struct dw_llp_attr *attr, struct diwarp_counters *counters,
                struct dw_llp **llp, struct diwarp_diagnosis *why)
{
    return dw_udp_open(attr, counters, llp, why);
}
