/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts of struct diwarp_diagnosis. */
#include "common/llp/explain.h"

#include <stdarg.h>
#include <stdio.h>

void dw_explain(struct diwarp_diagnosis *why, const char *format, ...)
{
    if (!why) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
}
