/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns: a count in shared memory, and a futex to sleep on. */
#define _GNU_SOURCE /* syscall */
#include "benchmarks/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Some programs take long to start and to get ready. */
#define PATIENCE_SECONDS 100

static void die(const char *what)
{
    fprintf(stderr, TURNS_VARIABLE ": %s\n", what);
    exit(3);
}

static uint32_t *map_count(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        die(strerror(errno));
    void *at = mmap(NULL, sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        die(strerror(errno));
    return at;
}

void turns_open(struct turns *turns, bool leads)
{
    const char *text = getenv(TURNS_VARIABLE);
    char path[256], end;

    *turns = (struct turns){.leads = leads};
    if (!text)
        return;
    if (sscanf(text, "%255[^:]:%u:%u%c", path, &turns->next, &turns->count, &end) != 3 ||
        turns->next >= turns->count)
        die("expected FILE:INDEX:COUNT");
    turns->over = map_count(path);
    turns_begin(turns);
}

void turns_begin(const struct turns *turns)
{
    const struct timespec patience = {.tv_sec = PATIENCE_SECONDS};

    if (!turns->over)
        return;
    for (;;) {
        uint32_t over = __atomic_load_n(turns->over, __ATOMIC_ACQUIRE);
        if ((int32_t)(over - turns->next) >= 0)
            return;
        if (syscall(SYS_futex, turns->over, FUTEX_WAIT, over, &patience, NULL, 0) < 0 &&
            errno == ETIMEDOUT)
            die("the turn does not come: another program of the ring has ended or hangs");
    }
}

void turns_end(struct turns *turns)
{
    if (!turns->over)
        return;
    turns->next += turns->count;
    if (!turns->leads)
        return;
    (void)__atomic_add_fetch(turns->over, 1, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, turns->over, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void turns_pass(struct turns *turns, int samples)
{
    /* To get ready, of each sample, and to end. */
    for (int i = 0; i < samples + 2; i++) {
        turns_begin(turns);
        turns_end(turns);
    }
}
