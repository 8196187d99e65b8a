/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of libc that look who calls. */
#define _GNU_SOURCE /* dl_iterate_phdr, RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/net/refusing_libc.h"

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);

struct refusing_libc refusing;

static uintptr_t from, until; /* where the object lies */

static int find(struct dl_phdr_info *info, size_t bytes, void *name)
{
    (void)bytes;
    if (!strstr(info->dlpi_name, name))
        return 0;
    from = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            until = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return 1;
}

bool refusing_find(const char *name)
{
    return dl_iterate_phdr(find, (void *)(uintptr_t)name);
}

static bool is_refused(const void *caller)
{
    if ((uintptr_t)caller < from || (uintptr_t)caller >= until)
        return false;
    const unsigned number = __atomic_add_fetch(&refusing.asked, 1, __ATOMIC_RELAXED);
    const bool hit =
        refusing.at && (refusing.forever ? number >= refusing.at : number == refusing.at);
    if (hit) {
        refusing.refused = true;
        errno = ENOMEM;
    }
    return hit;
}

#define REFUSED is_refused(__builtin_return_address(0))
/* What the object finds instead of libc's. */
#define TAKES      __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

TAKES void *malloc(size_t bytes)
{
    return REFUSED ? NULL : __libc_malloc(bytes);
}

TAKES void *calloc(size_t count, size_t bytes)
{
    return REFUSED ? NULL : __libc_calloc(count, bytes);
}

TAKES void *realloc(void *block, size_t bytes)
{
    return REFUSED ? NULL : __libc_realloc(block, bytes);
}

TAKES void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return REFUSED ? MAP_FAILED : (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}

TAKES int socket(int family, int type, int protocol)
{
    return REFUSED ? -1 : REAL(socket)(family, type, protocol);
}

TAKES int eventfd(unsigned value, int flags)
{
    return REFUSED ? -1 : REAL(eventfd)(value, flags);
}

TAKES int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                         void *arg)
{
    return REFUSED ? EAGAIN : REAL(pthread_create)(thread, attr, run, arg);
}
