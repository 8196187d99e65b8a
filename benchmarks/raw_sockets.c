/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What UDP and TCP sockets themselves can do, as the yardstick for the transports above them: two
 * pinned processes that spin on connected sockets, on one host or in two network namespaces. Half
 * round trip by size, and streaming: in one direction UDP in segments of one MTU (GSO and GRO) and
 * in single large datagrams, TCP in large writes; in both directions UDP in large datagrams.
 *
 * Each datagram and each message of a round trip is led by headers that do not count as payload. A
 * credit window keeps every byte within the receiver's socket buffer. Streams go from and into one
 * hot buffer, or as much memory as asked for; round trips and streams in messages (-n) take as much
 * as those of an MPI program. Nothing is copied further, unless messages are to be sealed (-c), and
 * nothing is repeated: when the network loses a datagram, both processes give up after a silence.
 *
 * The client decides what is measured, and tells the server over a control connection. Both must be
 * the same program on the same architecture.
 */
#include "benchmarks/options.h"
#include "benchmarks/raw_client.h"
#include "benchmarks/raw_link.h"
#include "benchmarks/raw_server.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ACCEPT_SECONDS 60.0

struct options {
    struct raw_plan plan;
    struct raw_address own, listen, connect;
    bool listens, connects;
};

/* Whether the kernel lists a CPU as the first hardware thread of its core that may be used; where
 * it lists nothing, it is alone. */
static bool leads_its_core(size_t cpu, const cpu_set_t *allowed)
{
    char path[96];
    size_t first, last;
    char sign;
    bool leads = true;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
             cpu);
    FILE *list = fopen(path, "r");
    if (!list)
        return true;
    /* "0-1,4": ranges, parted by commas. */
    for (int got; leads && (got = fscanf(list, "%zu%c", &first, &sign)) >= 1;) {
        last = first;
        if (got == 2 && sign == '-' && fscanf(list, "%zu%c", &last, &sign) < 1)
            break;
        for (; leads && first <= last && first < cpu; first++)
            leads = !CPU_ISSET(first, allowed);
    }
    fclose(list);
    return leads;
}

/* Each process on its own core, when there are two. */
static void pin(int which)
{
    cpu_set_t allowed, one;
    int before = which;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || !leads_its_core(cpu, &allowed) || before-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one);
        return;
    }
    fprintf(stderr, "raw_sockets: one core for two spinning processes: no limit of the sockets is "
                    "measured\n");
}

/* ---- the two processes --------------------------------------------------------------------- */

static void run_server(int listener)
{
    int control = raw_accept(listener, ACCEPT_SECONDS);
    struct turns turns;
    close(listener);
    pin(1);
    turns_open(&turns, false);
    turns_end(&turns);
    raw_serve(control, &turns);
    close(control);
}

static void run_client(const struct raw_plan *plan, const struct raw_address *server)
{
    int control = raw_dial(server, 0, RAW_DIAL_SECONDS);
    struct turns turns;

    pin(0);
    turns_open(&turns, true);
    turns_end(&turns);
    raw_measure(control, plan, &turns);
    close(control);
}

/* Both ends on this host; true when the server ended well, too. */
static bool run_both(const struct options *opt)
{
    int listener = raw_listen(&opt->own, 0), status;
    struct raw_address at = raw_local(listener);
    pid_t child = fork();

    if (child < 0)
        raw_die("fork");
    if (child == 0) {
        run_server(listener);
        _exit(0);
    }
    close(listener);
    run_client(&opt->plan, &at);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool parse_protocol(const char *text, struct raw_plan *plan)
{
    bool both = !strcmp(text, "both");
    plan->protocol[RAW_UDP] = both || !strcmp(text, "udp");
    plan->protocol[RAW_TCP] = both || !strcmp(text, "tcp");
    return plan->protocol[RAW_UDP] || plan->protocol[RAW_TCP];
}

static bool parse_option(int c, const char *value, struct options *opt)
{
    struct raw_plan *plan = &opt->plan;

    switch (c) {
    case 'p':
        return parse_protocol(value, plan);
    case 'l':
        return options_sizes(value, 0, &plan->latency);
    case 'n':
        return options_sizes(value, 1, &plan->messages);
    case 't':
        return options_number(value, 1, 100000, &plan->trips);
    case 'h':
        return options_number(value, 0, 1024, &plan->header);
    case 'w':
        return options_number(value, 64, RAW_SOCKET_BYTES >> 12, &plan->window);
    case 'm':
        return options_number(value, 1, RAW_DATAGRAM_BYTES, &plan->segment);
    case 'r':
        return options_number(value, 1, 100000, &plan->samples);
    case 's':
        return options_number(value, 0, 1024, &plan->sample_bytes);
    case 'b':
        return options_number(value, 0, RAW_MEMORY_MAX >> 20, &plan->memory_bytes);
    case 'd':
        plan->uni = strcmp(value, "bi") != 0;
        plan->bi = strcmp(value, "uni") != 0;
        return !(plan->uni && plan->bi) || !strcmp(value, "both");
    case 'g':
        plan->gso = !strcmp(value, "on");
        plan->large = !strcmp(value, "off");
        return plan->gso || plan->large;
    case 'c':
        plan->sealed = !strcmp(value, "on");
        return plan->sealed || !strcmp(value, "off");
    case 'a':
        return raw_parse_address(value, false, &opt->own);
    case 'L':
        opt->listens = true;
        return raw_parse_address(value, true, &opt->listen);
    case 'C':
        opt->connects = true;
        return raw_parse_address(value, true, &opt->connect);
    default:
        return false;
    }
}

static bool parse_options(int argc, char **argv, struct options *opt)
{
    struct raw_plan *plan = &opt->plan;
    bool ok = true;
    int c;

    *plan = (struct raw_plan){.protocol = {true, true},
                              .latency = {.bytes = {8}, .count = 1},
                              .header = 64,
                              .window = 256,
                              .segment = 1472,
                              .samples = 51,
                              .sample_bytes = 64,
                              .uni = true,
                              .gso = true,
                              .large = true};
    (void)raw_parse_address("127.0.0.1", false, &opt->own);
    opterr = 0;
    while (ok && (c = getopt(argc, argv, "p:l:n:t:h:w:m:r:s:b:d:g:c:a:L:C:")) != -1)
        ok = parse_option(c, optarg, opt);
    plan->window <<= 10;
    plan->sample_bytes <<= 20;
    plan->memory_bytes <<= 20;
    for (int i = 0; i < plan->latency.count; i++)
        ok = ok && plan->latency.bytes[i] + plan->header > 0;
    return ok && optind == argc && plan->segment > plan->header &&
           (!plan->sealed || plan->header > RAW_CRC_BYTES) && !(opt->listens && opt->connects);
}

static void usage(const char *name)
{
    fprintf(stderr,
            "usage: %s [-p udp|tcp|both] [-l LATENCY_SIZES] [-t TRIPS] [-n MESSAGE_SIZES]\n"
            "       [-h HEADER_BYTES] [-w WINDOW_KIB (64..1024)] [-m SEGMENT_BYTES]\n"
            "       [-r SAMPLES] [-s SAMPLE_MIB] [-b MEMORY_MIB] [-d uni|bi|both] [-g on|off]\n"
            "       [-c on|off] [-a ADDRESS | -L ADDRESS:PORT | -C ADDRESS:PORT]\n"
            "  sizes: comma separated, in bytes, or none; -s 0 leaves the streams out\n"
            "  -t: times so many round trips of a sample each, and prints their quantiles\n"
            "  -n: streams in messages of these sizes, and no others\n"
            "  -d: streams in one direction (the default), UDP's in both directions, or all\n"
            "  -g: UDP as GSO trains only (round trips, too), or as single datagrams only\n"
            "  -b: UDP's streams take and fill so much memory in turn, as a program's do,\n"
            "      and not one hot buffer\n"
            "  -m: UDP payload of a segment of a GSO train, the MTU less 28 (IPv6: 48)\n"
            "  -c: UDP's messages are sealed: copied with a CRC32C, the last 4 header bytes, on\n"
            "      their way out, and checked and copied to their place on their way in\n"
            "  -a: both processes here, on this address (default 127.0.0.1)\n"
            "  -L, -C: serve one client; measure against such a server\n",
            name);
}

int main(int argc, char **argv)
{
    static struct options opt;

    if (!parse_options(argc, argv, &opt)) {
        usage(argv[0]);
        return 2;
    }
    if (opt.listens)
        run_server(raw_listen(&opt.listen, 0));
    else if (opt.connects)
        run_client(&opt.plan, &opt.connect);
    else if (!run_both(&opt))
        return 1;
    return 0;
}
