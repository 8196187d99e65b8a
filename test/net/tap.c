/* SPDX-License-Identifier: BSD-3-Clause */
/* The tap: one connection, both directions kept whole. */
#include "test/net/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/unit/random.h"

#define PIECE_MAX_BYTES 40000

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int open_socket(uint32_t mss)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), value = (int)mss;

    if (fd >= 0 && mss && setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &value, sizeof value)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int unblock(int fd)
{
    int on = 1;

    return fcntl(fd, F_SETFL, O_NONBLOCK) ||
                   setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)
               ? -errno
               : 0;
}

int tap_open(struct tap *tap, uint16_t target_port, uint32_t mss)
{
    struct sockaddr_in addr = loopback(0);
    socklen_t len = sizeof addr;

    *tap = (struct tap){.target_port = target_port,
                        .mss = mss,
                        .ends = {-1, -1},
                        .random = 1,
                        .listener = open_socket(mss)};
    if (tap->listener < 0 || bind(tap->listener, (struct sockaddr *)&addr, sizeof addr) ||
        listen(tap->listener, 1) || getsockname(tap->listener, (struct sockaddr *)&addr, &len))
        return -errno;
    tap->port = ntohs(addr.sin_port);
    return unblock(tap->listener);
}

static int take_caller(struct tap *tap)
{
    struct sockaddr_in target = loopback(tap->target_port);
    int caller = accept(tap->listener, NULL, NULL);

    if (caller < 0)
        return errno == EAGAIN ? 0 : -errno;
    tap->ends[TCP_PCAP_CALLER] = caller;
    tap->ends[TCP_PCAP_LISTENER] = open_socket(tap->mss);
    if (tap->ends[TCP_PCAP_LISTENER] < 0 ||
        connect(tap->ends[TCP_PCAP_LISTENER], (struct sockaddr *)&target, sizeof target))
        return -errno;
    return unblock(caller) || unblock(tap->ends[TCP_PCAP_LISTENER]) ? -errno : 0;
}

/* Room for n more entries of one size; false: no memory. */
static bool grow(void **array, size_t *size, size_t len, size_t n, size_t entry)
{
    size_t wanted = *size ? *size : 65536;
    void *larger;

    if (len + n <= *size)
        return true;
    while (wanted < len + n)
        wanted *= 2;
    larger = realloc(*array, wanted * entry);
    if (!larger)
        return false;
    *array = larger;
    *size = wanted;
    return true;
}

static bool note_run(struct tap *tap, enum tcp_pcap_side from, size_t len)
{
    if (tap->run_count && tap->runs[tap->run_count - 1].from == from) {
        tap->runs[tap->run_count - 1].len += len;
        return true;
    }
    if (!grow((void **)&tap->runs, &tap->run_size, tap->run_count, 1, sizeof *tap->runs))
        return false;
    tap->runs[tap->run_count++] = (struct tap_run){from, len};
    return true;
}

static int receive(struct tap *tap, enum tcp_pcap_side from)
{
    size_t most = 1 + random_below(&tap->random, PIECE_MAX_BYTES);
    ssize_t n;

    if (!grow((void **)&tap->from[from].bytes, &tap->from[from].size, tap->from[from].len, most, 1))
        return -ENOMEM;
    n = recv(tap->ends[from], tap->from[from].bytes + tap->from[from].len, most, 0);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) {
        tap->from[from].ended = true;
        return 0;
    }
    if (n < 0)
        return errno == EAGAIN ? 0 : -errno;
    tap->from[from].len += (size_t)n;
    return note_run(tap, from, (size_t)n) ? 0 : -ENOMEM;
}

static int forward(struct tap *tap, enum tcp_pcap_side from)
{
    size_t left = tap->from[from].len - tap->from[from].forwarded;
    ssize_t n;

    if (!left && tap->from[from].ended && !tap->from[from].end_forwarded) {
        tap->from[from].end_forwarded = true;
        shutdown(tap->ends[!from], SHUT_WR);
    }
    if (!left || tap->from[from].end_forwarded)
        return 0;
    left = left < 2 ? left : 1 + random_below(&tap->random, (uint32_t)left);
    n = send(tap->ends[!from], tap->from[from].bytes + tap->from[from].forwarded, left,
             MSG_NOSIGNAL);
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
        tap->from[from].end_forwarded = true; /* that side closed without reading all */
        return 0;
    }
    if (n < 0)
        return errno == EAGAIN ? 0 : -errno;
    tap->from[from].forwarded += (size_t)n;
    return 0;
}

int tap_run(struct tap *tap)
{
    int rc = 0;

    if (tap->ends[TCP_PCAP_CALLER] < 0)
        return take_caller(tap);
    for (enum tcp_pcap_side from = TCP_PCAP_CALLER; from <= TCP_PCAP_LISTENER && !rc; from++) {
        rc = tap->from[from].ended ? 0 : receive(tap, from);
        if (!rc)
            rc = forward(tap, from);
    }
    return rc;
}

void tap_close(struct tap *tap)
{
    for (int i = 0; i < 2; i++) {
        free(tap->from[i].bytes);
        if (tap->ends[i] >= 0)
            close(tap->ends[i]);
    }
    free(tap->runs);
    if (tap->listener >= 0)
        close(tap->listener);
}
