/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams between processes that share a port. Names are abstract, so that nothing has to be
 * removed, and of one network namespace, as ports are. */
#include "common/llp/siblings.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/filter.h>

#include "common/base/siphash.h"
#include "common/llp/socket.h"

/* Of a port that is not known to be shared, so many empty reads of it for one of the Unix socket:
 * half costs a twentieth of an empty poll more; twice delays the first datagrams longer. */
#define READS_PASSED 64
/* On a shared port each read of this number takes the Unix socket first: else what siblings send on
 * would wait for as long as the port's own socket is never empty. Half: a fourth of the reads of a
 * busy port are for nothing; twice: what is sent on comes at a sixteenth of the pace. */
#define READS_FULL 8

/* Longest wait for a datagram to the own host. */
#define SELF_TEST_MS 20

/* Every user of the host can read the names of abstract sockets (/proc/net/unix), and the key is a
 * secret: the name has a hash of it. */
static socklen_t name_of(uint16_t port, uint64_t key, struct sockaddr_un *name)
{
    const uint64_t hidden = dw_siphash((const uint64_t[]){key, ~key}, port);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int len = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "diwarp-%u-%016llx",
                             (unsigned)port, (unsigned long long)hidden);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int bind_to(void *fd, const union dw_sockaddr *name, socklen_t len)
{
    return bind(*(const int *)fd, &name->any, len) < 0 ? -errno : 0;
}

static int bind_if_free(void *fd, const union dw_sockaddr *name, socklen_t len)
{
    int probe = socket(name->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return -errno;
    int rc = name->any.sa_family == AF_INET6 ? dw_set_int(probe, IPPROTO_IPV6, IPV6_V6ONLY, 0) : 0;
    rc = rc ? rc : bind_to(&probe, name, len);
    close(probe);
    return rc ? rc : bind_to(fd, name, len);
}

int dw_siblings_bind(int fd, const struct dw_llp_addr *at, uint16_t port_min, uint16_t port_max,
                     uint32_t rank)
{
    int rc = dw_set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    rc = rc ? rc : dw_take_port(at, port_min, port_max, bind_if_free, &fd);
    if (rc != -EADDRINUSE)
        return rc;
    /* Ranks of a host, mostly in a row, begin with different ones. */
    const unsigned count = port_max > port_min ? port_max - port_min + 1u : 1;
    const uint16_t first = (uint16_t)(port_min + rank % count);
    rc = dw_take_port(at, first, port_max, bind_to, &fd);
    return rc == -EADDRINUSE ? dw_take_port(at, port_min, first, bind_to, &fd) : rc;
}

void dw_siblings_init(struct dw_siblings *siblings)
{
    *siblings = (struct dw_siblings){.fd = -1};
}

/* Any of the sockets may set the program of all, and each sets the same one. */
static int steer(int fd, unsigned byte_at)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, byte_at),
                                 BPF_STMT(BPF_RET | BPF_A, 0)};
    const struct sock_fprog program = {.len = 2, .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}

/* One of datagrams that bear all numbers in turn arrives: its number. -1: none, the way to the own
 * port is closed. The other sockets' owners drop them, for they are short. */
static int number_of(int fd, uint64_t nonce, unsigned byte_at)
{
    union dw_sockaddr name;
    socklen_t len = sizeof name;
    uint8_t test[32] = {0}, came[32];
    if (byte_at < sizeof nonce || byte_at >= sizeof test || getsockname(fd, &name.any, &len) < 0)
        return -1;
    struct dw_llp_addr at = dw_sockaddr_get(&name);
    if (at.family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED((const struct in6_addr *)at.ip))
        at.ip[15] = 1;
    else if (at.family == AF_INET && !at.ip[0])
        memcpy(at.ip, (const uint8_t[]){127, 0, 0, 1}, 4);
    len = dw_sockaddr_set((uint8_t)name.any.sa_family, &at, &name);
    const int tx = socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int number = -1;
    memcpy(test, &nonce, sizeof nonce);
    for (unsigned i = 0; i <= UINT8_MAX && number < 0; i++) {
        test[byte_at] = (uint8_t)i;
        (void)sendto(tx, test, sizeof test, 0, &name.any, len);
        struct pollfd in = {.fd = fd, .events = POLLIN};
        const bool last = i == UINT8_MAX;
        while (number < 0 && poll(&in, 1, last ? SELF_TEST_MS : 0) == 1)
            if (recv(fd, came, sizeof came, 0) == sizeof came &&
                !memcmp(came, &nonce, sizeof nonce))
                number = came[byte_at];
    }
    close(tx);
    return number;
}

int dw_siblings_open(struct dw_siblings *siblings, int udp_fd, uint64_t *key, unsigned key_at)
{
    struct sockaddr_un name;
    const unsigned byte_at = key_at + (unsigned)sizeof *key - 1;
    const int number = steer(udp_fd, byte_at) ? -1 : number_of(udp_fd, *key, byte_at);
    if (number >= 0)
        *key = (*key & ~UINT64_C(0xff)) | (unsigned)number;
    siblings->port = (uint16_t)dw_port_of(udp_fd);
    const socklen_t len = name_of(siblings->port, *key, &name);
    siblings->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (siblings->fd >= 0 && !bind(siblings->fd, (const struct sockaddr *)&name, len))
        return 0;
    const int rc = -errno;
    dw_siblings_close(siblings);
    return rc;
}

void dw_siblings_close(struct dw_siblings *siblings)
{
    if (siblings->fd >= 0)
        close(siblings->fd);
    dw_siblings_init(siblings);
}

bool dw_siblings_forward(struct dw_siblings *siblings, uint64_t key, const uint8_t *buf,
                         uint32_t bytes)
{
    struct sockaddr_un name;
    if (siblings->fd < 0)
        return false;
    const socklen_t len = name_of(siblings->port, key, &name);
    const bool sent =
        sendto(siblings->fd, buf, bytes, MSG_NOSIGNAL, (const struct sockaddr *)&name, len) >= 0;
    const bool known = sent || errno == EAGAIN || errno == ENOBUFS || errno == EMSGSIZE;
    siblings->seen |= known;
    return known;
}

bool dw_siblings_due(struct dw_siblings *siblings)
{
    return siblings->seen && ++siblings->passed % READS_FULL == 0;
}

int dw_siblings_recv(struct dw_siblings *siblings, uint8_t *buf, uint32_t bytes)
{
    if (siblings->fd < 0 || (!siblings->seen && ++siblings->passed % READS_PASSED))
        return -1;
    const ssize_t got = recv(siblings->fd, buf, bytes, MSG_TRUNC);
    siblings->seen |= got >= 0;
    return (int)got;
}

void dw_siblings_add_memory(const struct dw_siblings *siblings, struct diwarp_memory *memory)
{
    if (siblings->fd >= 0)
        dw_llp_add_socket(siblings->fd, memory);
}
