/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/tools/ping_report.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* As diwarp_info says it. */
#define RMEM_WANTED (4u << 20)
#define WMEM_WANTED (1u << 20)
/* Of messages: more is worth a word. One of 2000 may be chance. */
#define LOSS_PER_MILLE 1u

static const char *const verdicts[] = {
    [PING_WORKS] = "works",           [PING_NARROW] = "narrow",
    [PING_LOST_THERE] = "lost there", [PING_LOST_BACK] = "lost back",
    [PING_NOT_SENT] = "not sent",     [PING_NO_RD] = "no RD",
    [PING_STALLED] = "stalled",       [PING_NOT_OPENED] = "not opened",
    [PING_NO_WAY] = "no way",
};
static const char *const percentiles[] = {"p50", "p90", "p99", "p99.9", "max"};

bool ping_counts(const struct ping_result *result)
{
    return result->same_subnet && result->verdict != PING_NO_WAY;
}

static bool some_pair(const struct ping_report *report, enum ping_verdict verdict)
{
    for (unsigned i = 0; i < report->count; i++)
        if (report->results[i].verdict == verdict)
            return true;
    return false;
}

bool ping_all_good(const struct ping_report *report)
{
    for (unsigned i = 0; i < report->count; i++)
        if (report->results[i].verdict != PING_WORKS && ping_counts(&report->results[i]))
            return false;
    return some_pair(report, PING_WORKS);
}

static double per_cent(uint32_t part, uint32_t of)
{
    return of > part ? 100.0 * (of - part) / of : 0;
}

static uint32_t lost_there(const struct ping_loss *loss)
{
    return loss->sent > loss->arrived ? loss->sent - loss->arrived : 0;
}

static uint32_t lost_back(const struct ping_loss *loss)
{
    return loss->arrived > loss->answered ? loss->arrived - loss->answered : 0;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void print_loss(const char *what, const struct ping_loss *loss)
{
    printf("  %-12s %u of %u lost on the way there (%.2g %%), %u of %u on the way back (%.2g %%)\n",
           what, lost_there(loss), loss->sent, per_cent(loss->arrived, loss->sent), lost_back(loss),
           loss->arrived, per_cent(loss->answered, loss->arrived));
}

static void print_figures(const struct ping_result *result)
{
    printf("  %-12s %u of %u bytes pass (MTU %u here, %u there)\n", "datagram",
           result->datagram_bytes, result->wanted_bytes, result->here->mtu_bytes,
           result->there->mtu_bytes);
    print_loss("loss, small", &result->loss[0]);
    print_loss("loss, full", &result->loss[1]);
    if (!result->trips)
        return;
    printf("  %-12s", "latency");
    for (unsigned i = 0; i < 5; i++)
        if (result->ns[i])
            printf(" %s %.1f", percentiles[i], result->ns[i] / 1e3);
    printf(" us (8 B, half of the round trip, %u of these)\n", result->trips);
    printf("  %-12s 1 MiB %.0f MB/s, 8 KiB %.0f MB/s; %llu datagrams sent again\n", "bandwidth",
           result->mib_mbs, result->kib8_mbs, (unsigned long long)result->resent);
    printf("  %-12s receive %u and send %u bytes here, %u and %u there\n", "buffers",
           result->local.rcvbuf_bytes, result->local.sndbuf_bytes, result->remote.rcvbuf_bytes,
           result->remote.sndbuf_bytes);
    printf("  %-12s GSO %s here, %s there; GRO %s here, %s there\n", "offloads",
           result->local.gso ? "yes" : "no", result->remote.gso ? "yes" : "no",
           result->local.gro ? "yes" : "no", result->remote.gro ? "yes" : "no");
}

void ping_print_result(const struct ping_result *result)
{
    char here[INET6_ADDRSTRLEN], there[INET6_ADDRSTRLEN];
    printf("\n%s %s -> %s %s: %s%s%s\n", result->here->name, ping_format_ip(result->here, here),
           result->there->name, ping_format_ip(result->there, there),
           result->verdict == PING_WORKS ? "works"
           : ping_counts(result)         ? "FAILED"
                                         : "no way",
           result->text[0] ? ": " : "", result->text);
    if (result->datagram_bytes)
        print_figures(result);
    fflush(stdout);
}

/* ---- what to change -------------------------------------------------------------------------- */

struct advice {
    unsigned count;
    char texts[PING_ADVICE_MAX][600];
};

__attribute__((format(printf, 2, 3))) static void advise(struct advice *advice, const char *format,
                                                         ...)
{
    if (advice->count == PING_ADVICE_MAX)
        return;
    char *text = advice->texts[advice->count];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof *advice->texts, format, args);
    va_end(args);
    for (unsigned i = 0; i < advice->count; i++)
        if (strcmp(advice->texts[i], text) == 0)
            return;
    advice->count++;
}

static void advise_limits(struct advice *advice, const struct ping_host *host)
{
    const struct {
        const char *name, *why;
        uint32_t now, wanted;
    } limits[] = {{"rmem_max", "receive", host->rmem_max_bytes, RMEM_WANTED},
                  {"wmem_max", "send", host->wmem_max_bytes, WMEM_WANTED}};
    for (unsigned i = 0; i < 2; i++)
        if (limits[i].now < limits[i].wanted)
            advise(advice,
                   "on %s: net.core.%s is %u, which keeps %s buffers small: "
                   "sudo sysctl -w net.core.%s=%u",
                   host->name, limits[i].name, limits[i].now, limits[i].why, limits[i].name,
                   limits[i].wanted);
}

/* A firewall where no pair of these hosts works; else this network is none between them. */
static void advise_dead(struct advice *advice, const struct ping_report *report,
                        const struct ping_result *result, bool there)
{
    const struct ping_host *host = there ? report->there : report->here;
    const struct diwarp_interface *to = there ? result->there : result->here;
    char ip[INET6_ADDRSTRLEN];
    ping_format_ip(to, ip);
    if (some_pair(report, PING_WORKS) || some_pair(report, PING_NARROW))
        advise(advice,
               "%s (here) and %s (%s) do not lead to each other, though their addresses are of "
               "one network: leave them out: --mca btl_diwarp_if_exclude %s,%s%s%s",
               result->here->name, result->there->name, report->there->name,
               DIWARP_IF_EXCLUDE_DEFAULT, result->here->name,
               strcmp(result->here->name, result->there->name) ? "," : "",
               strcmp(result->here->name, result->there->name) ? result->there->name : "");
    else
        advise(advice,
               "UDP to %s (%s) is dropped on the way, though TCP is not: open its UDP ports in the "
               "firewalls of %s and between, say 40000-40099 (sudo firewall-cmd "
               "--add-port=40000-40099/udp; or sudo ufw allow 40000:40099/udp), and have jobs use "
               "these: --mca btl_diwarp_port_min 40000 --mca btl_diwarp_port_max 40099",
               ip, to->name, host->name);
}

static void advise_narrow(struct advice *advice, const struct ping_result *result)
{
    const uint32_t headers = result->here->family == AF_INET6 ? 48 : 28;
    const char *name = result->here->name;
    if (!result->datagram_bytes)
        advise(advice,
               "no datagram of the least MTU passes from %s: look for a firewall that "
               "drops by length",
               name);
    else
        advise(advice,
               "between %s and %s packets of more than %u bytes vanish: set the MTU of both "
               "(sudo ip link set dev %s mtu %u), or of what is between to %u, or let ICMP "
               "\"fragmentation needed\" pass; else each job has to find out",
               name, result->there->name, result->datagram_bytes + headers, name,
               result->datagram_bytes + headers, result->here->mtu_bytes);
}

static void advise_working(struct advice *advice, const struct ping_report *report,
                           const struct ping_result *result)
{
    const char *name = result->here->name;
    for (unsigned i = 0; i < 2; i++) {
        const struct ping_loss *loss = &result->loss[i];
        if ((uint64_t)(lost_there(loss) + lost_back(loss)) * 1000 >
            (uint64_t)LOSS_PER_MILLE * 2 * loss->sent)
            advise(advice,
                   "between %s and %s datagrams are lost: look at cables, switches and queues on "
                   "the way (ethtool -S %s; nstat -az 'Udp*Errors')",
                   name, result->there->name, name);
    }
    if (result->trips && (!result->local.gso || !result->remote.gso))
        advise(advice,
               "on %s: no UDP GSO (Linux 4.18, checksum offload of %s): each datagram "
               "costs a system call",
               result->local.gso ? report->there->name : report->here->name,
               result->local.gso ? result->there->name : name);
}

static void collect(struct advice *advice, const struct ping_report *report)
{
    advice->count = 0;
    advise_limits(advice, report->here);
    advise_limits(advice, report->there);
    for (unsigned i = 0; i < report->count; i++) {
        const struct ping_result *result = &report->results[i];
        const bool matters = ping_counts(result) ||
                             !(some_pair(report, PING_WORKS) || some_pair(report, PING_NARROW));
        if (result->datagram_bytes)
            advise_working(advice, report, result);
        if (!matters)
            continue;
        if (result->verdict == PING_LOST_THERE || result->verdict == PING_LOST_BACK)
            advise_dead(advice, report, result, result->verdict == PING_LOST_THERE);
        else if (result->verdict == PING_NARROW)
            advise_narrow(advice, result);
        else if (result->verdict == PING_NOT_SENT)
            advise(advice,
                   "this host's own firewall or routes keep UDP from %s: "
                   "sudo nft list ruleset; ip route",
                   result->here->name);
    }
    if (!report->count)
        advise(advice, "no interface here is of the same family as one there: give both IPv4, or "
                       "both IPv6, addresses, or change --if-include and --if-exclude");
}

void ping_print_advice(const struct ping_report *report)
{
    static struct advice advice;
    collect(&advice, report);
    printf("\nwhat to change:%s\n", advice.count ? "" : " nothing");
    for (unsigned i = 0; i < advice.count; i++)
        printf("- %s\n", advice.texts[i]);
}

/* ---- for machines ---------------------------------------------------------------------------- */

/* What is printed holds no control characters: names come filtered, texts are our own. */
static void print_string(const char *key, const char *text, const char *after)
{
    printf("\"%s\": \"", key);
    for (; *text; text++)
        printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    printf("\"%s", after);
}

static void print_end(const char *key, const struct diwarp_interface *interface)
{
    char ip[INET6_ADDRSTRLEN];
    printf("\"%s\": {", key);
    print_string("interface", interface->name, ", ");
    print_string("address", ping_format_ip(interface, ip), ", ");
    printf("\"mtu\": %u}", interface->mtu_bytes);
}

static void print_json_figures(const struct ping_result *result)
{
    static const char *const kinds[] = {"small", "full"};
    printf(", \"datagram_bytes\": %u, \"datagram_wanted_bytes\": %u", result->datagram_bytes,
           result->wanted_bytes);
    for (unsigned i = 0; i < 2; i++)
        printf(", \"loss_%s\": {\"sent\": %u, \"arrived\": %u, \"answered\": %u}", kinds[i],
               result->loss[i].sent, result->loss[i].arrived, result->loss[i].answered);
    if (!result->trips)
        return;
    printf(", \"round_trips\": %u, \"half_round_trip_us\": {", result->trips);
    for (unsigned i = 0; i < 5; i++) {
        printf("%s\"%s\": ", i ? ", " : "", percentiles[i]);
        printf(result->ns[i] ? "%.3f" : "null", result->ns[i] / 1e3);
    }
    printf("}, \"stream_1mib_mb_s\": %.1f, \"stream_8kib_mb_s\": %.1f, \"resent_datagrams\": %llu",
           result->mib_mbs, result->kib8_mbs, (unsigned long long)result->resent);
    printf(", \"rcvbuf_bytes\": [%u, %u], \"sndbuf_bytes\": [%u, %u]", result->local.rcvbuf_bytes,
           result->remote.rcvbuf_bytes, result->local.sndbuf_bytes, result->remote.sndbuf_bytes);
    printf(", \"gso\": [%s, %s], \"gro\": [%s, %s]", result->local.gso ? "true" : "false",
           result->remote.gso ? "true" : "false", result->local.gro ? "true" : "false",
           result->remote.gro ? "true" : "false");
}

static void print_json_host(const char *key, const struct ping_host *host)
{
    printf("\"%s\": {", key);
    print_string("name", host->name, ", ");
    printf("\"rmem_max_bytes\": %u, \"wmem_max_bytes\": %u}, ", host->rmem_max_bytes,
           host->wmem_max_bytes);
}

void ping_print_json(const struct ping_report *report)
{
    static struct advice advice;
    collect(&advice, report);
    printf("{\"good\": %s, ", ping_all_good(report) ? "true" : "false");
    print_string("peer", report->peer, ", ");
    print_json_host("here", report->here);
    print_json_host("there", report->there);
    fputs("\"pairs\": [", stdout);
    for (unsigned i = 0; i < report->count; i++) {
        const struct ping_result *result = &report->results[i];
        fputs(i ? ",\n  {" : "\n  {", stdout);
        print_end("here", result->here);
        fputs(", ", stdout);
        print_end("there", result->there);
        printf(", \"may_be_used\": %s, ", ping_counts(result) ? "true" : "false");
        print_string("verdict", verdicts[result->verdict], ", ");
        print_string("text", result->text, "");
        if (result->datagram_bytes)
            print_json_figures(result);
        fputs("}", stdout);
    }
    fputs("],\n\"advice\": [", stdout);
    for (unsigned i = 0; i < advice.count; i++) {
        fputs(i ? ",\n  {" : "\n  {", stdout);
        print_string("text", advice.texts[i], "}");
    }
    puts("]}");
}
