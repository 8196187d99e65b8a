/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the library asks of the system for its memory and descriptors, refused on demand: the n-th
 * time only, or from the n-th time on. Programs are linked with --wrap for each (FAILING_WRAPS in
 * test/local.mk), so that calls of the library and of the test count, those within libc do not.
 */
#ifndef TEST_FAILING_LIBC_H
#define TEST_FAILING_LIBC_H

#include <stdbool.h>

struct failing_libc {
    bool armed;          /* what is asked for counts */
    bool forever;        /* all from `at` on */
    unsigned at;         /* counted from 1; 0: none */
    unsigned asked;      /* since armed */
    const char *refused; /* the call that was refused first; NULL: none */
    long held;           /* blocks and mappings that were given and have not come back */
};

extern struct failing_libc failing;

#endif
