/* SPDX-License-Identifier: BSD-3-Clause */
/* Why something could not be opened, for people. */
#ifndef DW_EXPLAIN_H
#define DW_EXPLAIN_H

#include "common/include/diwarp.h"

/* As snprintf() into why->text; why may be NULL. */
__attribute__((format(printf, 2, 3))) void dw_explain(struct diwarp_diagnosis *why,
                                                      const char *format, ...);

#endif
