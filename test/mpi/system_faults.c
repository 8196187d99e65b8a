/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linked into an MPI program, with -export-dynamic, in place of two functions of libc, for diwarp,
 * too. By environment:
 *
 * DIWARP_TEST_SEND_ERRORS=ERRNO,...: of 20 sends of datagrams one fails, with each of these in
 * turn. DIWARP_TEST_CLOCK_JUMP=SECONDS: the monotonic clock jumps forward by so much every second,
 * as after a suspend, of each process at another moment.
 *
 * At the end a process says how often each has happened.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SENDS_PER_ERROR 20

#define ERRORS_MAX 16

static int send_errors[ERRORS_MAX];
static unsigned send_errors_count;
static atomic_uint sends, refused;
static long jump_s;
static int64_t began_ns;
static atomic_uint jumps;

static long number_of(const char *name)
{
    const char *value = getenv(name);

    return value ? strtol(value, NULL, 10) : 0;
}

/* By the number of the process, so that no two jump together. */
static int64_t offset_ns(void)
{
    return getpid() % 10 * INT64_C(100000000);
}

static int real_clock_gettime(clockid_t id, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    return real(id, time);
}

static int64_t boot_ns(void)
{
    struct timespec now = {0};

    (void)real_clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("DIWARP_TEST_SEND_ERRORS");
    while (at && *at && send_errors_count < ERRORS_MAX) {
        char *end;
        send_errors[send_errors_count++] = (int)strtol(at, &end, 10);
        at = *end ? end + 1 : end;
    }
    jump_s = number_of("DIWARP_TEST_CLOCK_JUMP");
    began_ns = boot_ns() - offset_ns();
}

__attribute__((destructor)) static void end(void)
{
    if (refused || jumps)
        fprintf(stderr, "system faults: %u sends refused, %u clock jumps\n", refused, jumps);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *time)
{
    const int rc = real_clock_gettime(id, time);

    if (rc || !jump_s || id != CLOCK_MONOTONIC)
        return rc;
    jumps = (unsigned)((boot_ns() - began_ns) / 1000000000);
    time->tv_sec += (time_t)jumps * jump_s;
    return 0;
}

/* The calls of diwarp's UDP do not go through libc's wrappers. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long args[6];
    va_list list;

    va_start(list, number);
    for (unsigned i = 0; i < 6; i++)
        args[i] = va_arg(list, long);
    va_end(list);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    const bool sending = number == SYS_sendto || number == SYS_sendmsg;
    if (!sending || !send_errors_count || ++sends % SENDS_PER_ERROR)
        return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    errno = send_errors[refused++ % send_errors_count];
    return -1;
}
