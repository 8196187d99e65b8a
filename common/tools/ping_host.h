/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user of diwarp_ping asks for, and what diwarp would use of this host. */
#pragma once

#include "common/tools/ping_control.h"

struct ping_options {
    const char *host; /* NULL: listen */
    const char *port;
    const char *if_include, *if_exclude;
    uint16_t udp_min, udp_max;
    bool once, json;
};

/* 0, or negative errno, explained. */
int ping_this_host(const struct ping_options *options, struct ping_host *host,
                   struct diwarp_diagnosis *why);
