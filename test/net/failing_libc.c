/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and descriptors that are refused on demand. A helper thread may ask, too. */
#include <errno.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "test/net/failing_libc.h"

struct failing_libc failing;

static bool refused(const char *call)
{
    if (!failing.armed)
        return false;
    const unsigned number = __atomic_add_fetch(&failing.asked, 1, __ATOMIC_RELAXED);
    const bool hit = failing.at && (failing.forever ? number >= failing.at : number == failing.at);
    if (hit && !failing.refused)
        failing.refused = call;
    if (hit)
        errno = ENOMEM;
    return hit;
}

static void *held(void *block)
{
    __atomic_add_fetch(&failing.held, block != NULL, __ATOMIC_RELAXED);
    return block;
}

static void *returned(void *block)
{
    __atomic_sub_fetch(&failing.held, block != NULL, __ATOMIC_RELAXED);
    return block;
}

/* Declares the function that --wrap leads calls to, and the one that is behind it. */
#define WRAP(type, name, ...)        \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)

WRAP(void *, malloc, size_t bytes)
{
    return refused("malloc") ? NULL : held(__real_malloc(bytes));
}

WRAP(void *, calloc, size_t count, size_t bytes)
{
    return refused("calloc") ? NULL : held(__real_calloc(count, bytes));
}

WRAP(void *, realloc, void *old, size_t bytes)
{
    return refused("realloc") ? NULL : held(__real_realloc(returned(old), bytes));
}

WRAP(int, posix_memalign, void **block, size_t align, size_t bytes)
{
    if (refused("posix_memalign"))
        return ENOMEM;
    const int rc = __real_posix_memalign(block, align, bytes);
    (void)held(rc ? NULL : *block);
    return rc;
}

WRAP(void, free, void *block)
{
    __real_free(returned(block));
}

WRAP(void *, mmap, void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return refused("mmap") ? MAP_FAILED : held(__real_mmap(at, bytes, prot, flags, fd, offset));
}

WRAP(int, munmap, void *pages, size_t bytes)
{
    return __real_munmap(returned(pages), bytes);
}

WRAP(FILE *, fopen, const char *path, const char *mode)
{
    return refused("fopen") ? NULL : __real_fopen(path, mode);
}

WRAP(int, getifaddrs, struct ifaddrs **list)
{
    return refused("getifaddrs") ? -1 : __real_getifaddrs(list);
}

WRAP(int, socket, int family, int type, int protocol)
{
    return refused("socket") ? -1 : __real_socket(family, type, protocol);
}

WRAP(int, eventfd, unsigned value, int flags)
{
    return refused("eventfd") ? -1 : __real_eventfd(value, flags);
}

WRAP(int, epoll_create1, int flags)
{
    return refused("epoll_create1") ? -1 : __real_epoll_create1(flags);
}

WRAP(int, epoll_ctl, int epfd, int op, int fd, struct epoll_event *event)
{
    return op == EPOLL_CTL_ADD && refused("epoll_ctl") ? -1 : __real_epoll_ctl(epfd, op, fd, event);
}

WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
     void *arg)
{
    return refused("pthread_create") ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}
