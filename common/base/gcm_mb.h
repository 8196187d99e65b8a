/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-128-GCM of libIPSec_MB (Intel's multi-buffer library, Debian's libipsec-mb): a short message
 * takes half of the time that libcrypto takes for it, a third where the caches are cold. */
#pragma once

#include "common/base/gcm.h"

/* NULL: it is not there, or was not when this was built. */
const struct dw_gcm_ops *dw_gcm_mb_load(void);
