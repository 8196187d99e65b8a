/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the preloadable tools write their lines. */
#ifndef TOOL_OUTPUT_H
#define TOOL_OUTPUT_H

#include <stdbool.h>

/* Writes whole lines in one piece: to stderr, or to the file that environment variable `variable`
 * names, %r in it replaced by the rank. A file of the rank's own is begun anew when `first`; others
 * are appended to. What cannot be written there goes to stderr. */
void tool_output_write(const char *variable, int rank, const char *lines, bool first);

#endif
