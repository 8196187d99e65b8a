/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-2-4 (Aumasson, Bernstein 2012) of one 64-bit word: a keyed pseudo-random function. Who
 * has seen any number of outputs can tell neither the key nor another output.
 */
#ifndef DW_SIPHASH_H
#define DW_SIPHASH_H

#include <stdint.h>

uint64_t dw_siphash(const uint64_t key[2], uint64_t word);

#endif
