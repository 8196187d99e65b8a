/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs itself, behind us: this library is linked with it, so that it is there even where a
 * program loads libibverbs late, out of everybody's sight. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "verbs_diwarp/front.h"

void *dv_real(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) {
        fprintf(stderr, "diwarp: libibverbs has no %s()\n", name);
        abort();
    }
    return function;
}
