/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/wire/mpa.h"
