/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/tools/ping_control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/wire/bytes.h"
#include "common/wire/llp_header.h"

/* 'd' 'w' 'p', version, type, 0, length of the body (16). */
#define HEAD_BYTES 8
#define VERSION    1
#define BODY_MAX   1024
#define NAME_BYTES 64
/* name, family, prefix, loopback, 0, MTU, address */
#define INTERFACE_BYTES 40
#define HOST_BYTES      (16 + NAME_BYTES)
#define ADDRESS_BYTES   (2 + DIWARP_ADDRESS_MAX_BYTES)
#define TRY_BYTES       (8 + 2 * ADDRESS_BYTES)
#define ERROR_BYTES     200
#define READY_BYTES     (ERROR_BYTES + 12 + 2 * ADDRESS_BYTES)
#define COUNTS_WORDS    (PING_PHASES + 5)
_Static_assert(HOST_BYTES + PING_INTERFACES_MAX * INTERFACE_BYTES <= BODY_MAX, "it fits");
_Static_assert(READY_BYTES <= BODY_MAX && TRY_BYTES <= BODY_MAX, "they fit");
_Static_assert(sizeof(struct ping_counts) == 4 * COUNTS_WORDS, "words alone");

uint64_t ping_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* Text of a peer goes to terminals and into JSON. */
static void get_name(char *name, const uint8_t *from, size_t len)
{
    size_t i = 0;
    for (; i + 1 < len && from[i]; i++) {
        const unsigned char c = from[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || (c && strchr("._-:", c));
        name[i] = plain ? (char)c : '?';
    }
    name[i] = '\0';
}

static void put_interface(uint8_t *buf, const struct diwarp_interface *h)
{
    memset(buf, 0, INTERFACE_BYTES);
    snprintf((char *)buf, 16, "%s", h->name);
    buf[16] = h->family == AF_INET6 ? 6 : 4;
    buf[17] = h->prefix_bits;
    buf[18] = h->loopback;
    dw_put_be32(buf + 20, h->mtu_bytes);
    memcpy(buf + 24, h->ip, sizeof h->ip);
}

static bool get_interface(struct diwarp_interface *h, const uint8_t *buf)
{
    get_name(h->name, buf, sizeof h->name);
    h->family = buf[16] == 6 ? AF_INET6 : AF_INET;
    h->prefix_bits = buf[17];
    h->loopback = buf[18] != 0;
    h->mtu_bytes = dw_get_be32(buf + 20);
    memcpy(h->ip, buf + 24, sizeof h->ip);
    return (buf[16] == 4 || buf[16] == 6) && h->prefix_bits <= (buf[16] == 6 ? 128 : 32) &&
           h->mtu_bytes >= DW_MTU_MIN_BYTES;
}

static size_t put_host(uint8_t *buf, const struct ping_host *h)
{
    dw_put_be32(buf, h->wire_version);
    dw_put_be32(buf + 4, h->rmem_max_bytes);
    dw_put_be32(buf + 8, h->wmem_max_bytes);
    dw_put_be32(buf + 12, h->interface_count);
    memset(buf + 16, 0, NAME_BYTES);
    snprintf((char *)buf + 16, NAME_BYTES, "%s", h->name);
    for (unsigned i = 0; i < h->interface_count; i++)
        put_interface(buf + HOST_BYTES + i * INTERFACE_BYTES, &h->interfaces[i]);
    return HOST_BYTES + h->interface_count * INTERFACE_BYTES;
}

static bool get_host(struct ping_host *h, const uint8_t *buf, size_t len)
{
    if (len < HOST_BYTES)
        return false;
    h->wire_version = dw_get_be32(buf);
    h->rmem_max_bytes = dw_get_be32(buf + 4);
    h->wmem_max_bytes = dw_get_be32(buf + 8);
    h->interface_count = dw_get_be32(buf + 12);
    get_name(h->name, buf + 16, NAME_BYTES);
    if (h->interface_count > PING_INTERFACES_MAX ||
        len != HOST_BYTES + h->interface_count * INTERFACE_BYTES)
        return false;
    for (unsigned i = 0; i < h->interface_count; i++)
        if (!get_interface(&h->interfaces[i], buf + HOST_BYTES + i * INTERFACE_BYTES))
            return false;
    return true;
}

static void put_addresses(uint8_t *buf, const struct diwarp_address addresses[2])
{
    memset(buf, 0, 2 * ADDRESS_BYTES);
    for (unsigned i = 0; i < 2; i++, buf += ADDRESS_BYTES)
        dw_put_be16(
            buf, (uint16_t)diwarp_address_pack(&addresses[i], buf + 2, DIWARP_ADDRESS_MAX_BYTES));
}

static bool get_addresses(struct diwarp_address addresses[2], const uint8_t *buf)
{
    for (unsigned i = 0; i < 2; i++, buf += ADDRESS_BYTES) {
        const size_t len = dw_get_be16(buf);
        if (len > DIWARP_ADDRESS_MAX_BYTES || diwarp_address_unpack(&addresses[i], buf + 2, len))
            return false;
    }
    return true;
}

static size_t put_ready(uint8_t *buf, const struct ping_ready *h)
{
    memset(buf, 0, READY_BYTES);
    snprintf((char *)buf, ERROR_BYTES, "%s", h->error);
    dw_put_be32(buf + ERROR_BYTES, h->stag);
    dw_put_be64(buf + ERROR_BYTES + 4, h->to);
    if (!h->error[0])
        put_addresses(buf + ERROR_BYTES + 12, h->addresses);
    return READY_BYTES;
}

static bool get_ready(struct ping_ready *h, const uint8_t *buf, size_t len)
{
    if (len != READY_BYTES)
        return false;
    memcpy(h->error, buf, sizeof h->error);
    h->error[sizeof h->error - 1] = '\0';
    for (char *c = h->error; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '?';
    h->stag = dw_get_be32(buf + ERROR_BYTES);
    h->to = dw_get_be64(buf + ERROR_BYTES + 4);
    return h->error[0] || get_addresses(h->addresses, buf + ERROR_BYTES + 12);
}

static size_t put_body(uint8_t *buf, enum ping_frame type, const void *body)
{
    const struct ping_try *try = body;
    uint32_t words[COUNTS_WORDS];
    switch (type) {
    case PING_HOST:
        return put_host(buf, body);
    case PING_TRY:
        dw_put_be32(buf, try->interface);
        dw_put_be32(buf + 4, try->datagram_max_bytes);
        put_addresses(buf + 8, try->addresses);
        return TRY_BYTES;
    case PING_READY:
        return put_ready(buf, body);
    case PING_COUNTS:
        memcpy(words, body, sizeof words);
        for (unsigned i = 0; i < COUNTS_WORDS; i++)
            dw_put_be32(buf + 4 * i, words[i]);
        return sizeof words;
    default:
        return 0;
    }
}

static bool get_body(void *body, enum ping_frame type, const uint8_t *buf, size_t len)
{
    struct ping_try *try = body;
    uint32_t words[COUNTS_WORDS];
    switch (type) {
    case PING_HOST:
        return get_host(body, buf, len);
    case PING_TRY:
        if (len != TRY_BYTES)
            return false;
        try->interface = dw_get_be32(buf);
        try->datagram_max_bytes = dw_get_be32(buf + 4);
        return get_addresses(try->addresses, buf + 8);
    case PING_READY:
        return get_ready(body, buf, len);
    case PING_COUNTS:
        if (len != sizeof words)
            return false;
        for (unsigned i = 0; i < COUNTS_WORDS; i++)
            words[i] = dw_get_be32(buf + 4 * i);
        memcpy(body, words, sizeof words);
        return true;
    default:
        return len == 0;
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Until something can be read or written; 0, or negative errno. */
static int await(int fd, short events, uint64_t deadline_ns)
{
    const uint64_t now_ns = ping_now_ns();
    if (now_ns >= deadline_ns)
        return -ETIMEDOUT;
    struct pollfd entry = {.fd = fd, .events = events};
    const int n = poll(&entry, 1, (int)((deadline_ns - now_ns) / 1000000 + 1));
    return n < 0 && errno != EINTR ? -errno : 0;
}

static int move_bytes(int fd, uint8_t *buf, size_t len, bool out, uint64_t deadline_ns)
{
    for (size_t at = 0; at < len;) {
        const ssize_t n =
            out ? send(fd, buf + at, len - at, MSG_NOSIGNAL) : recv(fd, buf + at, len - at, 0);
        int rc = 0;
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno == ECONNRESET)
            return -EPIPE;
        else if (errno == EAGAIN)
            rc = await(fd, out ? POLLOUT : POLLIN, deadline_ns);
        else if (errno != EINTR)
            rc = -errno;
        if (rc)
            return rc;
    }
    return 0;
}

int ping_send(int fd, enum ping_frame type, const void *body)
{
    uint8_t buf[HEAD_BYTES + BODY_MAX] = {'d', 'w', 'p', VERSION, (uint8_t)type};
    const size_t len = put_body(buf + HEAD_BYTES, type, body);
    dw_put_be16(buf + 6, (uint16_t)len);
    return move_bytes(fd, buf, HEAD_BYTES + len, true, ping_now_ns() + PING_ANSWER_NS);
}

/* The whole frame has to come within the limit, however slowly it drips. */
static int receive(int fd, uint8_t body[BODY_MAX], size_t *len, uint64_t limit_ns)
{
    const uint64_t deadline_ns = ping_now_ns() + limit_ns;
    uint8_t head[HEAD_BYTES];
    int rc = move_bytes(fd, head, sizeof head, false, deadline_ns);
    if (rc)
        return rc;
    *len = dw_get_be16(head + 6);
    if (memcmp(head, "dwp", 3) != 0 || head[3] != VERSION || head[5] || *len > BODY_MAX)
        return -EPROTO;
    rc = move_bytes(fd, body, *len, false, deadline_ns);
    return rc ? rc : head[4];
}

int ping_receive(int fd, enum ping_frame type, void *body, uint64_t limit_ns)
{
    uint8_t buf[BODY_MAX];
    size_t len = 0;
    const int got = receive(fd, buf, &len, limit_ns);
    if (got < 0)
        return got;
    return got == (int)type && get_body(body, type, buf, len) ? 0 : -EPROTO;
}

int ping_receive_any(int fd, struct ping_try *body, uint64_t limit_ns)
{
    uint8_t buf[BODY_MAX];
    size_t len = 0;
    const int got = receive(fd, buf, &len, limit_ns);
    if (got < 0)
        return got;
    return (got == PING_TRY || got == PING_ASK) && get_body(body, (enum ping_frame)got, buf, len)
               ? got
               : -EPROTO;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void format_peer(const struct sockaddr *name, socklen_t name_len, char *buf, size_t len)
{
    char ip[INET6_ADDRSTRLEN + 16], port[8];
    if (getnameinfo(name, name_len, ip, sizeof ip, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(buf, len, "?");
    else if (strncmp(ip, "::ffff:", 7) == 0 && strchr(ip, '.')) /* IPv4 */
        snprintf(buf, len, "%s:%s", ip + 7, port);
    else
        snprintf(buf, len, strchr(ip, ':') ? "[%s]:%s" : "%s:%s", ip, port);
}

static int set_up(int fd)
{
    const int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : fd;
}

/* IPv6, which takes IPv4 as well; IPv4 where there is no IPv6. */
int ping_listen(const char *port)
{
    const int one = 1, zero = 0;
    for (int family = AF_INET6;; family = AF_INET) {
        const struct addrinfo hints = {
            .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
        struct addrinfo *at = NULL;
        int error = getaddrinfo(NULL, port, &hints, &at) ? EAFNOSUPPORT : 0;
        const int fd = at ? socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
        if (fd >= 0) {
            (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
            if (family == AF_INET6)
                (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
        }
        if (!error && (fd < 0 || bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 8)))
            error = errno;
        if (at)
            freeaddrinfo(at);
        if (!error)
            return fd;
        if (fd >= 0)
            close(fd);
        if (family == AF_INET || error == EADDRINUSE || error == EACCES)
            return -error;
    }
}

int ping_accept(int listener, char *who, size_t len)
{
    struct sockaddr_storage name;
    socklen_t name_len = sizeof name;
    const int fd = accept4(listener, (struct sockaddr *)&name, &name_len, SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    format_peer((struct sockaddr *)&name, name_len, who, len);
    return set_up(fd);
}

static int connect_to(const struct addrinfo *at)
{
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -errno : set_up(fd), error = 0;
    socklen_t len = sizeof error;
    if (rc >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0)
        return fd;
    if (rc >= 0)
        rc = errno == EINPROGRESS ? await(fd, POLLOUT, ping_now_ns() + PING_ANSWER_NS) : -errno;
    /* Not connected though the wait was not in error: its time is over. */
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    if (rc == 0 && poll(&entry, 1, 0) != 1)
        rc = -ETIMEDOUT;
    if (rc == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && !error)
        return fd;
    if (fd >= 0)
        close(fd);
    return rc < 0 ? rc : -error;
}

int ping_connect(const char *host, const char *port, char *who, size_t who_len, char *why,
                 size_t why_len)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    int rc = getaddrinfo(host, port, &hints, &all);
    if (rc) {
        snprintf(why, why_len, "cannot find host %s: %s", host, gai_strerror(rc));
        return -1;
    }
    int fd = -1;
    size_t used = 0;
    *why = '\0';
    for (const struct addrinfo *at = all; at && fd < 0; at = at->ai_next) {
        format_peer(at->ai_addr, at->ai_addrlen, who, who_len);
        fd = connect_to(at);
        if (fd < 0 && used < why_len) {
            used += (size_t)snprintf(why + used, why_len - used, "%s%s: %s", used ? "; " : "", who,
                                     strerror(-fd));
        }
    }
    freeaddrinfo(all);
    return fd < 0 ? -1 : fd;
}
