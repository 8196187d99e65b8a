/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs itself, behind us. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "verbs_diwarp/front.h"

#define SONAME "libibverbs.so.1"

static void *library;

static void load(void)
{
    library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
}

/* Not RTLD_NEXT: a program that loads libibverbs late does so out of everybody's sight. */
void *dv_real(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        fprintf(stderr, "diwarp: %s\n", dlerror());
        abort();
    }
    return function;
}
