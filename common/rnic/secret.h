/* SPDX-License-Identifier: BSD-3-Clause */
/* The secrets of authentication: a file that all processes share, and random ones. */
#pragma once

#include "common/base/crypto.h"
#include "common/include/diwarp.h"

/* What authentication needs: libcrypto and, where a file is named, its key and an id that tells it
 * from others; without, both are 0. As diwarp_open_device(). */
int dw_secret_get(const struct diwarp_device_attr *attr, uint8_t file_key[DW_HMAC_BYTES],
                  uint32_t *id, struct diwarp_diagnosis *why);
/* From the kernel. -EIO. */
int dw_secret_draw(void *secret, size_t bytes, struct diwarp_diagnosis *why);
