/* SPDX-License-Identifier: BSD-3-Clause */
/* Values on the command lines of the micro benchmarks. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX_SIZES 32
#define OPTIONS_MAX_BYTES (1 << 28)

struct size_list {
    int bytes[OPTIONS_MAX_SIZES];
    int count;
};

/* Comma separated sizes of at least `low` bytes; "none" is the empty list. */
static inline bool options_sizes(const char *text, int low, struct size_list *list)
{
    list->count = 0;
    if (!strcmp(text, "none"))
        return true;
    while (list->count < OPTIONS_MAX_SIZES) {
        char *end;
        long v = strtol(text, &end, 10);
        if (end == text || v < low || v > OPTIONS_MAX_BYTES || (*end && *end != ','))
            return false;
        list->bytes[list->count++] = (int)v;
        if (!*end)
            return true;
        text = end + 1;
    }
    return false;
}

static inline bool options_number(const char *text, int low, int high, int *out)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (end == text || *end || v < low || v > high)
        return false;
    *out = (int)v;
    return true;
}

static inline bool options_seconds(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && *out > 0 && *out <= 3600;
}

static inline size_t options_largest(const struct size_list *list)
{
    int most = 0;
    for (int i = 0; i < list->count; i++)
        most = list->bytes[i] > most ? list->bytes[i] : most;
    return (size_t)most;
}

/* The messages of a window have a place of their own each. Large ones get a smaller window, so that
 * these places stay within this many bytes. */
#define OPTIONS_WINDOW_BYTES (1 << 26)

static inline int options_window(int window, int bytes)
{
    int most = bytes > 0 ? OPTIONS_WINDOW_BYTES / bytes : window;
    return window < most ? window : most;
}

/* Bytes of all places of the window, at the worst of these sizes. */
static inline size_t options_window_bytes(int window, const struct size_list *list)
{
    size_t most = 0;
    for (int i = 0; i < list->count; i++) {
        size_t all = (size_t)options_window(window, list->bytes[i]) * (size_t)list->bytes[i];
        most = all > most ? all : most;
    }
    return most;
}

#endif
