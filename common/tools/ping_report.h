/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of what was found: for people, for machines, and what to change. */
#pragma once

#include "common/tools/ping_measure.h"

#define PING_ADVICE_MAX 32

struct ping_report {
    const struct ping_options *options;
    const char *peer; /* of the control connection */
    const struct ping_host *here, *there;
    const struct ping_result *results;
    unsigned count;
};

/* Whether diwarp may come to use this pair, so that its failure is one. */
bool ping_counts(const struct ping_result *result);
/* Each pair that may be used works, and there is one. */
bool ping_all_good(const struct ping_report *report);

void ping_print_result(const struct ping_result *result);
void ping_print_advice(const struct ping_report *report);
void ping_print_json(const struct ping_report *report);
