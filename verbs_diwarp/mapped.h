/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory the process has: diwarp pins none, and would fault where there is none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* All of it may be read, or, to be written, written. Its contents stay. In more than 1 MiB, and
 * before Linux 5.14, a file that is shorter than its mapping is not noticed; without /proc, all is
 * taken to be there. */
bool dv_is_mapped(const void *addr, size_t bytes, bool to_be_written);
