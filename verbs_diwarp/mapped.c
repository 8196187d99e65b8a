/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/mapped.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of Linux 5.14, later than some libc. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

struct mapping {
    uint64_t start, end;
    bool readable, writable;
};

/* The main thread's stack grows down to what is touched, up to its limit. */
static uint64_t stack_start(uint64_t end)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur > end ? 0 : end - limit.rlim_cur;
}

/* A line of proc_pid_maps(5). */
static bool parse(const char *line, struct mapping *mapping)
{
    char may[5];
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &mapping->start, &mapping->end, may) != 3)
        return false;
    mapping->readable = may[0] == 'r';
    mapping->writable = may[1] == 'w';
    if (strstr(line, " [stack]\n")) {
        const uint64_t lowest = stack_start(mapping->end);
        mapping->start = lowest < mapping->start ? lowest : mapping->start;
    }
    return true;
}

/* By all mappings, whose lines are in order of addresses: 2 us for each. */
static bool are_listed(uint64_t at, uint64_t end, bool to_be_written)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    uint64_t before = 0; /* the end of the last one */
    if (!maps)
        return true;
    while (at < end && getline(&line, &room, maps) > 0) {
        struct mapping mapping;
        if (!parse(line, &mapping))
            continue;
        if (mapping.start < before) /* a stack without a limit */
            mapping.start = before;
        before = mapping.end;
        if (mapping.end <= at)
            continue;
        if (mapping.start > at || !(to_be_written ? mapping.writable : mapping.readable))
            break;
        at = mapping.end;
    }
    fclose(maps);
    free(line);
    return at >= end;
}

/* Takes the pages, as a NIC that pins them would; in less time than the list for 1 MiB. */
#define POPULATE_MAX_BYTES (1 << 20)

/* 0 or errno: EFAULT where an access would end in SIGBUS; others tell less than the list. */
static int populate(uint64_t at, uint64_t end, bool to_be_written)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = at / page * page;
    if (end - start > POPULATE_MAX_BYTES)
        return E2BIG;
    return madvise((void *)start, end - start,
                   to_be_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)
               ? errno
               : 0;
}

bool dv_is_mapped(const void *addr, size_t bytes, bool to_be_written)
{
    const uint64_t at = (uintptr_t)addr, end = at + bytes;
    if (end <= at) /* nothing, or refused elsewhere */
        return true;
    const int rc = populate(at, end, to_be_written);
    return !rc || (rc != EFAULT && are_listed(at, end, to_be_written));
}
