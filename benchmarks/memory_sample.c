/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/memory_sample.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/llp/socket.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

/* Bytes read, 0 when it cannot be. */
static size_t read_file(const char *path, char *buf, size_t room)
{
    size_t used = 0;
    ssize_t n;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while (used + 1 < room && (n = read(fd, buf + used, room - 1 - used)) > 0)
        used += (size_t)n;
    buf[used] = '\0';
    (void)close(fd);
    return used;
}

/* Bytes of a line "KEY:   123 kB"; 0 when there is none. */
static uint64_t kib_line(const char *text, const char *key)
{
    const size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == ':')
            return strtoull(line + length + 1, NULL, 10) << 10;
    }
    return 0;
}

void memory_sample_take_pages(struct memory_sample *sample)
{
    char text[4096];
    const struct mallinfo2 heap = mallinfo2();
    sample->heap_bytes = heap.uordblks + heap.hblkhd;
    if (read_file("/proc/self/smaps_rollup", text, sizeof text)) {
        sample->private_bytes = kib_line(text, "Private_Clean") + kib_line(text, "Private_Dirty");
        sample->pss_bytes = kib_line(text, "Pss");
        sample->rss_bytes = kib_line(text, "Rss");
        sample->anonymous_bytes = kib_line(text, "Anonymous");
    }
    if (read_file("/proc/self/status", text, sizeof text))
        sample->peak_rss_bytes = kib_line(text, "VmHWM");
}

/* ---- sockets ---- */

/* What is queued in a socket. TCP counts a segment under wmem_queued as long as it may have to be
 * sent again, and its clone on the way down under wmem_alloc, too. */
static void add_queues(int fd, struct memory_sample *sample)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof info;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length) < 0)
        return;
    const uint32_t sent = info[SK_MEMINFO_WMEM_ALLOC], queued = info[SK_MEMINFO_WMEM_QUEUED];
    sample->socket_queue_bytes += (uint64_t)(sent > queued ? sent : queued) +
                                  info[SK_MEMINFO_RMEM_ALLOC] + info[SK_MEMINFO_FWD_ALLOC] +
                                  info[SK_MEMINFO_OPTMEM] + info[SK_MEMINFO_BACKLOG];
    sample->socket_limit_bytes +=
        (uint64_t)info[SK_MEMINFO_RCVBUF] + (uint64_t)info[SK_MEMINFO_SNDBUF];
}

static int option(int fd, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &length) < 0 ? -1 : value;
}

static void add_socket(int fd, struct memory_sample *sample)
{
    const int domain = option(fd, SO_DOMAIN), type = option(fd, SO_TYPE);
    const bool ip = domain == AF_INET || domain == AF_INET6;
    if (ip && type == SOCK_STREAM)
        sample->tcp_sockets++;
    else if (ip && type == SOCK_DGRAM)
        sample->udp_sockets++;
    else if (domain == AF_UNIX)
        sample->unix_sockets++;
    else
        sample->other_sockets++;
    sample->socket_slab_bytes += dw_socket_slab_bytes(domain, type);
    add_queues(fd, sample);
}

/* fdinfo has one line "tfd: ..." for each descriptor registered. Read piece by piece: there may be
 * thousands. */
static uint64_t epoll_items(int fd)
{
    char path[64], buf[4096];
    uint64_t items = 0;
    ssize_t n;
    char last = '\n';
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    const int info = open(path, O_RDONLY | O_CLOEXEC);
    if (info < 0)
        return 0;
    while ((n = read(info, buf, sizeof buf)) > 0)
        for (ssize_t i = 0; i < n; last = buf[i++])
            items += last == '\n' && buf[i] == 't';
    (void)close(info);
    return items;
}

static void add_descriptor(int fd, struct memory_sample *sample)
{
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return;
    target[n] = '\0';
    if (strncmp(target, "socket:", 7) == 0) {
        add_socket(fd, sample);
    } else if (strcmp(target, "anon_inode:[eventpoll]") == 0) {
        const uint64_t items = epoll_items(fd);
        sample->epoll_fds++;
        sample->epoll_items += items;
        sample->socket_slab_bytes += items * DW_EPOLL_ITEM_BYTES;
    }
}

/* Of a line "TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 3": pages that all sockets of the machine have
 * reserved. */
static uint64_t sockstat_bytes(const char *text, const char *protocol)
{
    const char *line = strstr(text, protocol);
    const char *mem = line ? strstr(line, " mem ") : NULL;
    const char *end = line ? strchr(line, '\n') : NULL;
    if (!mem || !end || mem > end)
        return 0;
    return strtoull(mem + strlen(" mem "), NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void take_sockstat(struct memory_sample *sample)
{
    char text[1024];
    if (!read_file("/proc/net/sockstat", text, sizeof text))
        return;
    sample->sockstat_tcp_bytes = sockstat_bytes(text, "TCP:");
    sample->sockstat_udp_bytes = sockstat_bytes(text, "UDP:");
}

void memory_sample_take(struct memory_sample *sample)
{
    *sample = (struct memory_sample){0};
    memory_sample_take_pages(sample);
    take_sockstat(sample);
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            add_descriptor(atoi(entry->d_name), sample);
    (void)closedir(folder);
}
