/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/mapped.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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

/* Lines are in order of addresses. */
bool dv_is_mapped(const void *addr, size_t bytes, bool to_be_written)
{
    uint64_t at = (uintptr_t)addr;
    const uint64_t end = at + bytes;
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    if (!maps)
        return true;
    while (at < end && getline(&line, &room, maps) > 0) {
        struct mapping mapping;
        if (!parse(line, &mapping) || mapping.end <= at)
            continue;
        if (mapping.start > at || !(to_be_written ? mapping.writable : mapping.readable))
            break;
        at = mapping.end;
    }
    fclose(maps);
    free(line);
    return at >= end;
}
