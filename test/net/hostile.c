/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stranger on the network of a job, run by test/net/faults:
 *
 * hostile flood IP PORT RATE SECONDS: garbage, RATE datagrams a second.
 *
 * hostile guess IP PORT RATE SECONDS: right but for the token, which is guessed.
 *
 * hostile replay IFACE FILE SECONDS: by one on the way; what crosses the interface is sent again to
 * where it went, and kept in FILE.
 *
 * hostile alter IFACE FILE SECONDS: likewise, each time with another bit of it turned over.
 *
 * hostile again IP PORT RATE SECONDS FILE: what FILE has, an earlier job's.
 *
 * hostile scan IP udp|tcp: all ports, nothing sent and what is usual.
 *
 * Each says at the end how much it has sent; what has a rate also ends at SIGTERM.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"
#include "test/net/clock.h"
#include "test/unit/random.h"

#define NS_PER_S     1000000000ull
#define DATAGRAM_MAX 1472
#define SEEN_MAX     4096
/* Sends of one turn: a rate of 100,000 in turns of a third of a millisecond. */
#define TURN_MOST 32
/* Connections that a scan has begun at once. */
#define CALLS 256

struct datagram {
    struct sockaddr_in to;
    uint16_t bytes;
    uint8_t buf[DATAGRAM_MAX];
};

static uint64_t rng;
static unsigned long sent;
static volatile sig_atomic_t ended;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...);

static void die(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, ": %s\n", strerror(errno));
    exit(2);
}

static long number(const char *text)
{
    char *end;
    const long value = strtol(text, &end, 10);

    if (*end || value < 0)
        die("no number: %s", text);
    return value;
}

static struct sockaddr_in address(const char *ip, long port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    if (inet_pton(AF_INET, ip, &to.sin_addr) != 1)
        die("no address: %s", ip);
    return to;
}

static int udp_socket(void)
{
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (fd < 0)
        die("socket");
    return fd;
}

static void put_random(uint8_t *buf, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof rng) {
        const uint64_t word = random_next(&rng);
        memcpy(buf + i, &word, bytes - i < sizeof word ? bytes - i : sizeof word);
    }
}

/* ---- at a rate ---- */

typedef void make_datagram(struct datagram *datagram);

static void on_signal(int signal_number)
{
    (void)signal_number;
    ended = 1;
}

/* What a closed port or a full buffer refuses counts as sent. */
static void send_at_rate(make_datagram *make, struct sockaddr_in to, long rate, long seconds)
{
    static struct datagram datagrams[TURN_MOST];
    static struct iovec places[TURN_MOST];
    static struct mmsghdr messages[TURN_MOST];
    const int fd = udp_socket();
    const uint64_t began_ns = clock_ns();

    signal(SIGTERM, on_signal);
    for (uint64_t spent_ns;
         !ended && (spent_ns = clock_ns() - began_ns) < (uint64_t)seconds * NS_PER_S;) {
        const uint64_t due = spent_ns * (uint64_t)rate / NS_PER_S;
        unsigned count = 0, gone = 0;
        for (; count < TURN_MOST && sent < due; count++, sent++) {
            struct datagram *datagram = &datagrams[count];
            datagram->to = to;
            make(datagram);
            places[count] = (struct iovec){datagram->buf, datagram->bytes};
            messages[count].msg_hdr = (struct msghdr){.msg_name = &datagram->to,
                                                      .msg_namelen = sizeof datagram->to,
                                                      .msg_iov = &places[count],
                                                      .msg_iovlen = 1};
        }
        while (gone < count) { /* past one that is refused */
            const int n = sendmmsg(fd, messages + gone, count - gone, 0);
            gone += n > 0 ? (unsigned)n : 1;
        }
        if (sent >= due)
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    close(fd);
}

/* Of any length; half of them begin as ours do. */
static void make_garbage(struct datagram *datagram)
{
    datagram->bytes =
        (uint16_t)random_below(&rng, random_percent(&rng, 10) ? DATAGRAM_MAX + 1 : 200);
    put_random(datagram->buf, datagram->bytes);
    if (random_percent(&rng, 50) && datagram->bytes > 1) {
        datagram->buf[0] = (uint8_t)(DW_WIRE_VERSION << 4 | random_below(&rng, DW_LLP_TYPES));
        datagram->buf[1] &= DW_LLP_FLAGS;
    }
}

/* A Send of a peer that begins: only the token is not known. */
static void make_guess(struct datagram *datagram)
{
    const struct dw_llp_header header = {.type = DW_LLP_DATA,
                                         .flags = DW_LLP_INTRO,
                                         .credit_kib = 1024,
                                         .incarnation = 1,
                                         .token = random_next(&rng),
                                         .job = (uint32_t)random_next(&rng),
                                         .dst_qpn = 1,
                                         .src_qpn = 1};
    const struct dw_intro intro = {
        .token = 1, .family = AF_INET, .port = 9, .mtu_bytes = 1500, .ip = {10, 76, 0, 3}};
    const struct dw_ddp_header ddp = {.last = true, .opcode = 3, .msn = 1};
    uint8_t *at = datagram->buf;

    dw_llp_header_put(at, &header);
    at += DW_LLP_HEADER_BYTES;
    dw_intro_put(at, &intro);
    at += DW_INTRO_BYTES;
    const uint32_t padding = dw_segment_padding((uint32_t)(at - datagram->buf));
    memset(at, 0, padding);
    at += padding;
    const size_t segment_bytes = dw_ddp_put(at + DW_SEGMENT_LEN_BYTES, &ddp);
    dw_put_be16(at, (uint16_t)segment_bytes);
    at += DW_SEGMENT_LEN_BYTES + segment_bytes;
    dw_put_be32(at, dw_crc32c(0, datagram->buf, (size_t)(at - datagram->buf)));
    datagram->bytes = (uint16_t)(at - datagram->buf + DW_CRC_BYTES);
}

/* ---- replay ---- */

static struct datagram *seen;
static unsigned seen_count;

/* From the packet that it came in; false: it is none of ours to send again. */
static bool read_packet(const uint8_t *packet, size_t bytes, uint16_t own_port,
                        struct datagram *datagram)
{
    struct iphdr ip;
    struct udphdr udp;

    if (bytes < sizeof ip)
        return false;
    memcpy(&ip, packet, sizeof ip);
    const size_t head = ip.ihl * 4u, length = ntohs(ip.tot_len);
    if (ip.version != 4 || ip.protocol != IPPROTO_UDP || length > bytes ||
        length < head + sizeof udp)
        return false;
    memcpy(&udp, packet + head, sizeof udp);
    const size_t payload = length - head - sizeof udp;
    if (udp.source == own_port || payload > DATAGRAM_MAX)
        return false;
    *datagram = (struct datagram){
        .to = {.sin_family = AF_INET, .sin_port = udp.dest, .sin_addr.s_addr = ip.daddr},
        .bytes = (uint16_t)payload};
    memcpy(datagram->buf, packet + head + sizeof udp, payload);
    return true;
}

static int packet_socket(const char *interface)
{
    const struct sockaddr_ll name = {.sll_family = AF_PACKET,
                                     .sll_protocol = htons(ETH_P_IP),
                                     .sll_ifindex = (int)if_nametoindex(interface)};
    const int fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));

    if (fd < 0 || !name.sll_ifindex || bind(fd, (const struct sockaddr *)&name, sizeof name))
        die("cannot listen on %s", interface);
    return fd;
}

static uint16_t bind_any(int fd)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof name;

    if (bind(fd, (struct sockaddr *)&name, len) || getsockname(fd, (struct sockaddr *)&name, &len))
        die("bind");
    return name.sin_port;
}

static void keep(const char *path)
{
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(seen, sizeof *seen, seen_count, file) != seen_count || fclose(file))
        die("%s", path);
}

static void send_again(int fd, const struct datagram *datagram, bool alters)
{
    struct datagram out = *datagram;

    if (alters && out.bytes)
        out.buf[random_below(&rng, out.bytes)] ^= (uint8_t)(1u << random_below(&rng, 8));
    sent += sendto(fd, out.buf, out.bytes, 0, (struct sockaddr *)&out.to, sizeof out.to) >= 0;
}

/* What has come goes out again once at once, and for each one that comes an older one, too. */
static void replay(const char *interface, const char *path, long seconds, bool alters)
{
    static uint8_t packet[65536];
    const int in = packet_socket(interface), out = udp_socket();
    const uint16_t own_port = bind_any(out);
    const uint64_t end_ns = clock_ns() + (uint64_t)seconds * NS_PER_S;
    struct pollfd readable = {.fd = in, .events = POLLIN};

    while (clock_ns() < end_ns) {
        struct datagram datagram;
        const ssize_t bytes =
            poll(&readable, 1, 100) == 1 ? recv(in, packet, sizeof packet, 0) : -1;
        if (bytes < 0 || !read_packet(packet, (size_t)bytes, own_port, &datagram))
            continue;
        const unsigned place =
            seen_count < SEEN_MAX ? seen_count++ : (unsigned)random_below(&rng, SEEN_MAX);
        seen[place] = datagram;
        send_again(out, &datagram, alters);
        send_again(out, &seen[random_below(&rng, seen_count)], alters);
    }
    keep(path);
    close(in);
    close(out);
}

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");

    seen_count = file ? (unsigned)fread(seen, sizeof *seen, SEEN_MAX, file) : 0;
    if (!seen_count)
        die("nothing in %s", path);
    fclose(file);
}

static void make_old(struct datagram *datagram)
{
    const struct sockaddr_in to = datagram->to;

    *datagram = seen[random_below(&rng, seen_count)];
    datagram->to = to;
}

/* ---- scan ---- */

/* As port scanners send them: nothing; DNS, SNMP, SIP, portmapper; a wrong MPA request. */
static const struct {
    const char *data;
    size_t bytes;
} probes[] = {
    {"", 0},
    {"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07version\x04"
     "bind\x00\x00\x10\x00\x03",
     30},
    {"\x30\x26\x02\x01\x01\x04\x06public\xa1\x19\x02\x04\xdc\x63\xc2\x9a\x02\x01\x00\x02\x01\x00"
     "\x30\x0b\x30\x09\x06\x05\x2b\x06\x01\x02\x01\x05\x00",
     40},
    {"OPTIONS sip:nm SIP/2.0\r\nVia: SIP/2.0/UDP nm\r\nContent-Length: 0\r\n\r\n", 64},
    {"\x72\xfe\x1d\x13\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01\x86\xa0\x00\x01\x97\x7c\x00\x00\x00"
     "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
     40},
    {"GET / HTTP/1.0\r\n\r\n", 18},
    {"\x16\x03\x01\x00\x4a\x01\x00\x00\x46\x03\x03", 11},
    {"MPA ID Req Frame\x40\x02\x00\x14 not the right token!", 40},
};
#define PROBES (sizeof probes / sizeof *probes)

/* Each port is sent nothing, and one of the others. */
static void scan_udp(const char *ip)
{
    const int fd = udp_socket();

    for (unsigned port = 1; port <= UINT16_MAX; port++) {
        const struct sockaddr_in to = address(ip, (long)port);
        const size_t probe = 1 + port % (PROBES - 1);
        (void)sendto(fd, NULL, 0, 0, (const struct sockaddr *)&to, sizeof to);
        (void)sendto(fd, probes[probe].data, probes[probe].bytes, 0, (const struct sockaddr *)&to,
                     sizeof to);
        sent += 2;
        if (port % 64 == 0) /* what is sent in a burst is lost on the way */
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    close(fd);
}

/* Begins a connection. */
static int call(const char *ip, unsigned port)
{
    const struct sockaddr_in to = address(ip, (long)port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (fd < 0)
        die("socket");
    (void)connect(fd, (const struct sockaddr *)&to, sizeof to);
    return fd;
}

/* Whether it comes to be, within a while. */
static bool is_connected(int fd)
{
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t len = sizeof error;

    return poll(&writable, 1, 1000) == 1 && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) &&
           !error;
}

/* Each probe, over a connection of its own; every second one ends with RST. */
static void send_probes(const char *ip, unsigned port)
{
    const struct linger reset = {.l_onoff = 1};

    for (size_t i = 0; i < PROBES; i++) {
        const int fd = call(ip, port);
        if (is_connected(fd))
            sent += send(fd, probes[i].data, probes[i].bytes, MSG_NOSIGNAL) >= 0;
        if (i % 2)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
}

static void scan_tcp(const char *ip)
{
    int fds[CALLS];
    unsigned open = 0;

    for (unsigned first = 1; first <= UINT16_MAX; first += CALLS) {
        const unsigned left = UINT16_MAX + 1 - first, count = left < CALLS ? left : CALLS;
        for (unsigned i = 0; i < count; i++)
            fds[i] = call(ip, first + i);
        for (unsigned i = 0; i < count; i++) {
            const bool is_open = is_connected(fds[i]);
            close(fds[i]);
            open += is_open;
            if (is_open)
                send_probes(ip, first + i);
        }
    }
    printf("hostile: %u TCP ports are open\n", open);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    make_datagram *make = !strcmp(what, "flood")   ? make_garbage
                          : !strcmp(what, "guess") ? make_guess
                                                   : make_old;

    seen = calloc(SEEN_MAX, sizeof *seen);
    if (!seen || getrandom(&rng, sizeof rng, 0) != sizeof rng)
        die("no memory or random numbers");
    if (argc == 7 && !strcmp(what, "again"))
        load(argv[6]);
    if ((argc == 6 && make != make_old) || (argc == 7 && !strcmp(what, "again"))) {
        send_at_rate(make, address(argv[2], number(argv[3])), number(argv[4]), number(argv[5]));
    } else if (argc == 5 && (!strcmp(what, "replay") || !strcmp(what, "alter"))) {
        replay(argv[2], argv[3], number(argv[4]), !strcmp(what, "alter"));
    } else if (argc == 4 && !strcmp(what, "scan")) {
        (!strcmp(argv[3], "udp") ? scan_udp : scan_tcp)(argv[2]);
    } else {
        fprintf(stderr, "usage: hostile flood|guess|replay|alter|again|scan ..., see hostile.c\n");
        return 2;
    }
    printf("hostile: %lu sent\n", sent);
    free(seen);
    return 0;
}
