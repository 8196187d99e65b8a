/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that open libibverbs or librdmacm themselves and look names up there, as MVAPICH2 does,
 * find ours first, too. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "verbs_diwarp/front.h"

static void *(*next_dlopen)(const char *file, int mode);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_next(void)
{
    void *const found = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&next_dlopen, &found, sizeof next_dlopen); /* no cast from an object to a function */
}

/* "libibverbs.so.1", in any folder. */
static bool is_of_verbs(const char *file)
{
    static const char verbs[] = "libibverbs.so", cm[] = "librdmacm.so";
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    return !strncmp(name, verbs, sizeof verbs - 1) || !strncmp(name, cm, sizeof cm - 1);
}

void *dv_open_real(const char *file)
{
    pthread_once(&once, find_next);
    return next_dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

/* The library is opened for all, and what is returned finds names as a program that is linked with
 * it does. Other files are opened by a call at the end, which compilers make a jump: the loader
 * looks where the caller's own library says. */
void *dlopen(const char *file, int mode)
{
    pthread_once(&once, find_next);
    if (file && is_of_verbs(file))
        return next_dlopen(file, mode | RTLD_GLOBAL) ? next_dlopen(NULL, RTLD_LAZY) : NULL;
    return next_dlopen(file, mode);
}
