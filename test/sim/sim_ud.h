/* SPDX-License-Identifier: BSD-3-Clause */
/* Random traffic over UD queue pairs, compared with what the network handed to the receivers. */
#ifndef SIM_UD_H
#define SIM_UD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs the plan of a seed; false: `failure` says why. */
bool sim_ud_run(uint64_t seed, char *failure, size_t failure_bytes);
/* The same authenticated. */
bool sim_ud_auth_run(uint64_t seed, char *failure, size_t failure_bytes);

#endif
