/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one shared object asks libc for, its memory and descriptors, refused on demand: the n-th
 * time only, or from the n-th time on. For programs that cannot be linked with the object, which is
 * preloaded or loaded by others; they are linked with -export-dynamic. See failing_libc.h for the
 * library itself.
 */
#ifndef TEST_REFUSING_LIBC_H
#define TEST_REFUSING_LIBC_H

#include <stdbool.h>
#include <stdint.h>

struct refusing_libc {
    unsigned at;    /* the one that is refused, counted from 1; 0: none */
    bool forever;   /* and all after it */
    unsigned asked; /* what was asked for so far */
    bool refused;   /* one was */
};

extern struct refusing_libc refusing;

/* The object, by part of its file's name; false: it is not loaded. */
bool refusing_find(const char *name);

#endif
