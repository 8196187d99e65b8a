/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diwarp_ping: whether and how well diwarp works between two hosts, without MPI. One listens, the
 * other asks: each pair of their interfaces is tried on its own.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/tools/ping_report.h"
#include "common/tools/ping_serve.h"
#include "common/wire/llp_header.h"

#define PAIRS_MAX (PING_INTERFACES_MAX * PING_INTERFACES_MAX)
/* Ends whatever hangs: more than all pairs of two usual hosts take. */
#define LONGEST_SECONDS 600

static const char usage[] =
    "usage: diwarp_ping --listen [--once] [OPTION...]\n"
    "       diwarp_ping [--json] [OPTION...] HOST\n"
    "Tries each pair of interfaces of this host and HOST, where diwarp_ping --listen runs: "
    "whether\n"
    "datagrams pass, how long they may be, latency, bandwidth, loss; and says what to change.\n"
    "  --port N           TCP port that the two talk over (default " PING_PORT ")\n"
    "  --udp-ports A-B    UDP ports of this end (default: any free one)\n"
    "  --if-include LIST  only these interfaces: names or CIDR, comma-separated\n"
    "  --if-exclude LIST  all but these (default " DIWARP_IF_EXCLUDE_DEFAULT ")\n"
    "  --once             listen for one client only, and for a minute at most\n"
    "  --json             for machines\n"
    "  --help             this text\n"
    "  --version          the version of diwarp and of its wire protocol\n";

/* ---- options --------------------------------------------------------------------------------- */

static bool parse_ports(const char *text, struct ping_options *options)
{
    unsigned low = 0, high = 0;
    char junk;
    const int n = sscanf(text, "%u-%u%c", &low, &high, &junk);
    high = n == 1 ? low : high;
    options->udp_min = (uint16_t)low;
    options->udp_max = (uint16_t)high;
    return (n == 1 || n == 2) && low > 0 && low <= high && high <= UINT16_MAX;
}

static bool is_port(const char *text)
{
    unsigned port;
    char junk;
    return sscanf(text, "%u%c", &port, &junk) == 1 && port > 0 && port <= UINT16_MAX;
}

static bool take_option(int c, struct ping_options *options, bool *listens, bool *excluded)
{
    switch (c) {
    case 'l':
        return *listens = true;
    case 'o':
        return options->once = true;
    case 'j':
        return options->json = true;
    case 'p':
        options->port = optarg;
        return is_port(optarg);
    case 'u':
        return parse_ports(optarg, options);
    case 'i':
        options->if_include = optarg;
        return true;
    case 'x':
        options->if_exclude = optarg;
        return *excluded = true;
    default:
        return false;
    }
}

/* Returns -1 to go on, otherwise the exit status. */
static int parse_options(int argc, char **argv, struct ping_options *options)
{
    static const struct option known[] = {
        {"listen", no_argument, NULL, 'l'},
        {"once", no_argument, NULL, 'o'},
        {"json", no_argument, NULL, 'j'},
        {"port", required_argument, NULL, 'p'},
        {"udp-ports", required_argument, NULL, 'u'},
        {"if-include", required_argument, NULL, 'i'},
        {"if-exclude", required_argument, NULL, 'x'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    bool right = true, listens = false, excluded = false;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c == 'v') {
            printf("diwarp %s, wire version %d\n", DIWARP_VERSION, DW_WIRE_VERSION);
            return 0;
        }
        right = take_option(c, options, &listens, &excluded) && right;
    }
    options->host = optind < argc ? argv[optind] : NULL;
    if (right && argc - optind == !listens && !(options->if_include && excluded) &&
        !(options->once && !listens) && !(options->json && listens))
        return -1;
    fputs(usage, stderr);
    return 2;
}

/* ---- the asking end -------------------------------------------------------------------------- */

static bool same_subnet(const struct diwarp_interface *a, const struct diwarp_interface *b)
{
    const unsigned bits = a->prefix_bits > b->prefix_bits ? a->prefix_bits : b->prefix_bits;
    return memcmp(a->ip, b->ip, bits / 8) == 0 &&
           (bits % 8 == 0 || ((a->ip[bits / 8] ^ b->ip[bits / 8]) >> (8 - bits % 8)) == 0);
}

/* All pairs of one family; loopback, with itself only, where both are one host. Negative errno: the
 * control connection has failed. */
static int measure_pairs(int fd, struct ping_report *report, struct ping_result *results)
{
    const struct ping_host *here = report->here, *there = report->there;
    for (unsigned i = 0; i < here->interface_count; i++)
        for (unsigned j = 0; j < there->interface_count; j++) {
            struct ping_result *result = &results[report->count];
            *result =
                (struct ping_result){.here = &here->interfaces[i], .there = &there->interfaces[j]};
            if (result->here->family != result->there->family ||
                result->here->loopback != result->there->loopback)
                continue;
            result->same_subnet = same_subnet(result->here, result->there);
            const int rc = ping_measure(fd, report->options, j, result);
            if (rc)
                return rc;
            if (result->here->loopback && result->verdict == PING_NO_WAY)
                continue;
            if (!report->options->json)
                ping_print_result(result);
            report->count++;
        }
    return 0;
}

static int complain_of_control(const struct ping_options *options, const char *who, int rc)
{
    fprintf(stderr, "diwarp_ping: %s, TCP port %s, %s\n", options->host, options->port,
            rc == -EPROTO      ? "answers, but not as diwarp_ping of this version: is it something "
                                 "else? Choose a port with --port, at both ends"
            : rc == -ETIMEDOUT ? "takes the call, but does not answer within 5 s: is its "
                                 "diwarp_ping stopped, or busy with others?"
            : rc == -EPIPE ? "has ended the connection: see what diwarp_ping --listen says there"
                           : strerror(-rc));
    fprintf(stderr, "diwarp_ping: it is at %s\n", who);
    return 1;
}

static int greet(int fd, struct ping_host *there)
{
    const int rc = ping_send(fd, PING_HELLO, NULL);
    return rc ? rc : ping_receive(fd, PING_HOST, there, PING_ANSWER_NS);
}

static int ask_host(const struct ping_options *options)
{
    static struct ping_result results[PAIRS_MAX];
    struct ping_host here, there;
    struct diwarp_diagnosis diagnosis = {""};
    char who[80] = "", why[512] = "";
    int rc = ping_this_host(options, &here, &diagnosis);
    if (rc) {
        fprintf(stderr, "diwarp_ping: %s\n", diagnosis.text[0] ? diagnosis.text : strerror(-rc));
        return 1;
    }
    const int fd = ping_connect(options->host, options->port, who, sizeof who, why, sizeof why);
    if (fd < 0) {
        fprintf(stderr,
                "diwarp_ping: no connection to %s, TCP port %s: %s\n"
                "Start the other end there (ssh %s diwarp_ping --listen --port %s), and let its "
                "firewall pass that port.\n",
                options->host, options->port, why, options->host, options->port);
        return 1;
    }
    struct ping_report report = {
        .options = options, .peer = who, .here = &here, .there = &there, .results = results};
    rc = greet(fd, &there);
    if (!rc && there.wire_version != here.wire_version) {
        fprintf(stderr,
                "diwarp_ping: %s (%s) speaks wire version %u, this host %u: install the same "
                "version of diwarp on both\n",
                options->host, who, there.wire_version, here.wire_version);
        close(fd);
        return 1;
    }
    if (!rc && !options->json)
        printf("%s to %s (%s)\n", here.name, there.name, who);
    rc = rc ? rc : measure_pairs(fd, &report, results);
    close(fd);
    if (rc)
        return complain_of_control(options, who, rc);
    if (options->json)
        ping_print_json(&report);
    else
        ping_print_advice(&report);
    return !ping_all_good(&report);
}

static void on_alarm(int number)
{
    static const char text[] = "diwarp_ping: not done after 10 minutes: fewer interfaces by "
                               "--if-include\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

int main(int argc, char **argv)
{
    struct ping_options options = {.port = PING_PORT, .if_exclude = DIWARP_IF_EXCLUDE_DEFAULT};
    const int status = parse_options(argc, argv, &options);
    if (status >= 0)
        return status;
    if (!options.host)
        return ping_serve(&options);
    signal(SIGALRM, on_alarm);
    alarm(LONGEST_SECONDS);
    return ask_host(&options);
}
