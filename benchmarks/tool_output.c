/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/tool_output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* False: too long. */
static bool fill_in(const char *pattern, int rank, char *path, size_t room, bool *own)
{
    size_t used = 0;
    *own = false;
    for (const char *at = pattern; *at; at++) {
        char rank_text[16];
        const char *part = rank_text;
        size_t length = 1;
        if (at[0] == '%' && at[1] == 'r') {
            length = (size_t)snprintf(rank_text, sizeof rank_text, "%d", rank);
            *own = true;
            at++;
        } else {
            part = at;
        }
        if (used + length >= room)
            return false;
        memcpy(path + used, part, length);
        used += length;
    }
    path[used] = '\0';
    return true;
}

static bool write_all(int fd, const char *text)
{
    for (size_t left = strlen(text); left;) {
        const ssize_t n = write(fd, text, left);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            text += n;
            left -= (size_t)n;
        }
    }
    return true;
}

void tool_output_write(const char *variable, int rank, const char *lines, bool first)
{
    const char *pattern = getenv(variable);
    char path[PATH_MAX];
    bool own, written = false;
    if (pattern && *pattern && fill_in(pattern, rank, path, sizeof path, &own)) {
        const int begin = own && first ? O_TRUNC : O_APPEND;
        const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | begin, 0666);
        if (fd >= 0) {
            written = write_all(fd, lines);
            (void)close(fd);
        }
        if (!written)
            fprintf(stderr, "%s: %s: %s\n", variable, path, strerror(errno));
    }
    if (!written)
        (void)write_all(STDERR_FILENO, lines);
}
