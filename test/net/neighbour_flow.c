/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What test/net/neighbour has share a link with diwarp: a TCP flow with a named congestion control,
 * which lasts SECONDS, and echo requests (ICMP, which the other host's kernel answers) one a
 * millisecond, whose round-trip times are printed in the end.
 *
 *     neighbour_flow sink PORT SECONDS
 *     neighbour_flow send ADDRESS PORT SECONDS CONGESTION_CONTROL
 *     neighbour_flow ping ADDRESS SECONDS
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "test/net/clock.h"

#define CHUNK_BYTES (128u << 10)
#define SECOND_NS   1000000000ull
#define PERIOD_NS   1000000ull
#define SECONDS_MAX 600
#define PINGS_MAX   (SECONDS_MAX * 1000)
/* An echo that takes longer counts as one that took so long. */
#define PATIENCE_NS SECOND_NS

static void fail(const char *what)
{
    fprintf(stderr, "neighbour_flow: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void usage(void)
{
    fputs("usage: neighbour_flow sink PORT SECONDS\n"
          "       neighbour_flow send ADDRESS PORT SECONDS CONGESTION_CONTROL\n"
          "       neighbour_flow ping ADDRESS SECONDS\n",
          stderr);
    exit(2);
}

static unsigned number(const char *text, unsigned most)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || !value || value > most)
        usage();
    return (unsigned)value;
}

static struct sockaddr_in address(const char *ip, unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, ip, &addr.sin_addr) != 1)
        usage();
    return addr;
}

/* ---- the TCP flow ---- */

static int sink(unsigned port)
{
    static char chunk[CHUNK_BYTES];
    const struct sockaddr_in addr = address("0.0.0.0", port);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 ||
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
        bind(listener, (const void *)&addr, sizeof addr) < 0 || listen(listener, 1) < 0)
        fail("listen");
    const int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    /* Woken less often: the link is to be the bottleneck, not the core. */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &(int){CHUNK_BYTES / 2}, sizeof(int));
    while (read(fd, chunk, sizeof chunk) > 0)
        ;
    return 0;
}

static int send_flow(const struct sockaddr_in *to, unsigned seconds, const char *control)
{
    static char chunk[CHUNK_BYTES];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)) < 0)
        fail(control);
    if (connect(fd, (const void *)to, sizeof *to) < 0)
        fail("connect");
    const uint64_t end_ns = clock_ns() + seconds * SECOND_NS;
    while (clock_ns() < end_ns)
        if (send(fd, chunk, sizeof chunk, MSG_NOSIGNAL) < 0) /* the sink has been ended */
            return 1;
    return 0;
}

/* ---- the echo requests ---- */

struct echo {
    struct icmphdr icmp;
    uint32_t index;
} __attribute__((packed));

static uint16_t checksum(const struct echo *echo)
{
    uint16_t words[sizeof *echo / 2];
    uint32_t sum = 0;
    memcpy(words, echo, sizeof words);
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        sum += words[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

static void ask(int fd, const struct sockaddr_in *to, uint32_t index)
{
    struct echo echo = {.icmp = {.type = ICMP_ECHO}, .index = index};
    echo.icmp.un.echo.id = (uint16_t)getpid();
    echo.icmp.checksum = checksum(&echo);
    (void)sendto(fd, &echo, sizeof echo, 0, (const void *)to, sizeof *to);
}

/* Index of an answer to one of ours. */
static bool answer(int fd, uint32_t *index)
{
    uint8_t packet[256];
    struct iphdr ip;
    struct echo echo;
    const ssize_t bytes = recv(fd, packet, sizeof packet, MSG_DONTWAIT);
    if (bytes < (ssize_t)(sizeof ip + sizeof echo))
        return false;
    memcpy(&ip, packet, sizeof ip);
    if (ip.ihl != sizeof ip / 4)
        return false;
    memcpy(&echo, packet + sizeof ip, sizeof echo);
    *index = echo.index;
    return echo.icmp.type == ICMP_ECHOREPLY && echo.icmp.un.echo.id == (uint16_t)getpid();
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Before others on its core, where it may: the path is measured, not the scheduler. */
static int ping(const struct sockaddr_in *to, unsigned seconds)
{
    static uint64_t sent_ns[PINGS_MAX], took_ns[PINGS_MAX];
    const uint32_t count = (uint32_t)(seconds * SECOND_NS / PERIOD_NS);
    const int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    if (fd < 0)
        fail("raw socket");
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    (void)sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1});
    prctl(PR_SET_TIMERSLACK, 1ul);
    const uint64_t begin_ns = clock_ns(), end_ns = begin_ns + seconds * SECOND_NS + PATIENCE_NS;
    uint32_t asked = 0, answered = 0, index;
    for (uint64_t now_ns = begin_ns; now_ns < end_ns && answered < count; now_ns = clock_ns()) {
        for (; asked < count && begin_ns + asked * PERIOD_NS <= now_ns; asked++) {
            sent_ns[asked] = clock_ns();
            ask(fd, to, asked);
        }
        const uint64_t next_ns = asked < count ? begin_ns + asked * PERIOD_NS : end_ns;
        const uint64_t wait_ns = next_ns > now_ns ? next_ns - now_ns : 0;
        const struct timespec wait = {.tv_sec = (time_t)(wait_ns / SECOND_NS),
                                      .tv_nsec = (long)(wait_ns % SECOND_NS)};
        if (ppoll(&pollfd, 1, &wait, NULL) <= 0)
            continue;
        if (answer(fd, &index) && index < asked && !took_ns[index]) {
            took_ns[index] = clock_ns() - sent_ns[index];
            answered++;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        if (!took_ns[i])
            took_ns[i] = PATIENCE_NS;
    qsort(took_ns, count, sizeof took_ns[0], by_value);
    printf("ping count=%u lost=%u p50_us=%.1f p99_us=%.1f\n", count, count - answered,
           (double)took_ns[count / 2] / 1e3, (double)took_ns[count * 99 / 100] / 1e3);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "sink")) {
        alarm(number(argv[3], SECONDS_MAX)); /* whatever becomes of the sender */
        return sink(number(argv[2], 65535));
    }
    if (argc == 6 && !strcmp(argv[1], "send")) {
        const struct sockaddr_in to = address(argv[2], number(argv[3], 65535));
        const unsigned seconds = number(argv[4], SECONDS_MAX);
        alarm(seconds + 10);
        return send_flow(&to, seconds, argv[5]);
    }
    if (argc == 4 && !strcmp(argv[1], "ping")) {
        const struct sockaddr_in to = address(argv[2], 0);
        return ping(&to, number(argv[3], SECONDS_MAX));
    }
    usage();
}
