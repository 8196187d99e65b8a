/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening end of diwarp_ping: answers what clients ask. */
#pragma once

#include "common/tools/ping_host.h"

/* Serves clients, each in a process of its own: what one of them does harms no other. Returns the
 * exit status. */
int ping_serve(const struct ping_options *options);
