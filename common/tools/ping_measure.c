/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/tools/ping_measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/wire/bytes.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"

#define MS_NS 1000000ull
#define S_NS  1000000000ull
/* Bytes of a datagram beside the Send that is alone in it. */
#define OVERHEAD_BYTES \
    (DW_LLP_HEADER_BYTES + DW_SEGMENT_LEN_BYTES + DW_DDP_UNTAGGED_BYTES + DW_CRC_BYTES)
/* Tries of a small datagram, each of which waits twice as long, up to the longest. */
#define SMALL_TRIES   8
#define SMALL_WAIT_NS (20 * MS_NS)
#define LONGEST_NS    (250 * MS_NS)
/* So many of one length in a row are not lost by chance. */
#define TRIES      3
#define STEP_BYTES 8u
/* Round trips are timed for so long, and longer, up to the latter, while they are few. */
#define LATENCY_NS         S_NS
#define LATENCY_LONGEST_NS (4 * S_NS)
#define TRIPS_WANTED       1000u
#define WARM_UP_TRIPS      200
#define WARM_UP_NS         (S_NS / 4)
#define STREAM_NS          (S_NS / 2)
#define WRITES_AHEAD       4u
#define SENDS_AHEAD        32u
/* What is under way may take so long after the last post. */
#define STREAM_END_NS   (6 * S_NS)
#define LOSS_MESSAGES   2000u
#define LOSS_AHEAD      32u
#define LOSS_LONGEST_NS (3 * S_NS)

enum phase { SMALL, SEARCH, RELIABLE, LATENCY, STREAM, LOSS_SMALL, LOSS_FULL, PHASES };
_Static_assert(PHASES <= PING_PHASES, "each has a counter");

struct run {
    int fd;
    const struct ping_options *options;
    unsigned there_index;
    struct ping_result *result;
    struct ping_link link;
    struct ping_ready ready; /* the peer's addresses and memory */
    uint64_t trip_ns;        /* of a small datagram */
    uint32_t cut_bytes;      /* least length that diwarp itself cuts, whatever the path; 0: none */
    uint32_t echoes[PHASES];
    uint32_t last_serial[PHASES];
    uint8_t message[UINT16_MAX + 1];
};

static void on_message(void *arg, enum diwarp_qp_type service, const uint8_t *data, uint32_t bytes)
{
    struct run *run = arg;
    (void)service;
    (void)bytes;
    if (data[1] < PHASES) {
        run->echoes[data[1]]++;
        run->last_serial[data[1]] = dw_get_be32(data + 4);
    }
}

__attribute__((format(printf, 3, 4))) static int fail(struct run *run, enum ping_verdict verdict,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(run->result->text, sizeof run->result->text, format, args);
    va_end(args);
    run->result->verdict = verdict;
    return 0;
}

static int send_message(struct run *run, enum diwarp_qp_type service, enum ping_kind kind,
                        enum phase phase, uint32_t serial, uint32_t bytes)
{
    run->message[0] = (uint8_t)kind;
    run->message[1] = (uint8_t)phase;
    dw_put_be32(run->message + 4, serial);
    return ping_link_send(&run->link, service, run->message, bytes);
}

/* Until the answer with that serial has come. */
static bool await_echo(struct run *run, enum phase phase, uint32_t serial, uint64_t limit_ns)
{
    const uint64_t deadline_ns = ping_now_ns() + limit_ns;
    for (unsigned polls = 0;; polls++) {
        (void)ping_link_poll(&run->link);
        if (run->echoes[phase] && run->last_serial[phase] == serial)
            return true;
        if (run->link.failed || (polls % 16 == 0 && ping_now_ns() >= deadline_ns))
            return false;
    }
}

/* ---- opening both ends ----------------------------------------------------------------------- */

static struct diwarp_name random_name(void)
{
    struct diwarp_name name = {.rank = 1};
    (void)!getrandom(&name.job, sizeof name.job, 0);
    return name;
}

static bool same_address(const struct diwarp_interface *a, const struct diwarp_interface *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

/* A negative errno only if the control connection fails; what else is wrong is the verdict. */
static int open_ends(struct run *run, uint32_t datagram_max_bytes)
{
    struct ping_result *result = run->result;
    struct diwarp_diagnosis why = {""};
    struct ping_try try = {.interface = run->there_index, .datagram_max_bytes = datagram_max_bytes};
    const struct ping_link_attr attr = {.interface = result->here,
                                        .datagram_max_bytes = datagram_max_bytes,
                                        .port_min = run->options->udp_min,
                                        .port_max = run->options->udp_max,
                                        .name = random_name()};
    ping_link_close(&run->link);
    int rc = ping_link_open(&run->link, &attr, &why);
    if (rc)
        return fail(run, PING_NOT_OPENED, "here: %s", why.text[0] ? why.text : strerror(-rc));
    ping_link_addresses(&run->link, try.addresses);
    rc = ping_send(run->fd, PING_TRY, &try);
    rc = rc ? rc : ping_receive(run->fd, PING_READY, &run->ready, PING_ANSWER_NS);
    if (rc)
        return rc;
    if (!run->ready.error[0])
        rc = ping_link_meet(&run->link, run->ready.addresses);
    if (rc == -ENETUNREACH || strcmp(run->ready.error, PING_UNREACHABLE) == 0)
        return fail(run, PING_NO_WAY,
                    same_address(result->here, result->there)
                        ? "both hosts have this address: it leads to no other host"
                        : PING_UNREACHABLE);
    if (rc || run->ready.error[0])
        return fail(run, PING_NOT_OPENED, "there: %s", rc ? strerror(-rc) : run->ready.error);
    return 0;
}

static int ask(struct run *run)
{
    const int rc = ping_send(run->fd, PING_ASK, NULL);
    return rc ? rc : ping_receive(run->fd, PING_COUNTS, &run->result->remote, PING_ANSWER_NS);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static int try_small(struct run *run)
{
    char here[INET6_ADDRSTRLEN], there[INET6_ADDRSTRLEN];
    const struct ping_result *result = run->result;
    uint64_t wait_ns = SMALL_WAIT_NS;
    int refused = 0;
    for (uint32_t i = 0; i < SMALL_TRIES; i++) {
        const uint64_t sent_ns = ping_now_ns();
        const int rc = send_message(run, DIWARP_QPT_UD, PING_ECHO, SMALL, i, PING_MESSAGE_BYTES);
        refused = rc && rc != -EAGAIN ? rc : refused;
        if (await_echo(run, SMALL, i, wait_ns)) {
            run->trip_ns = ping_now_ns() - sent_ns;
            return 0;
        }
        wait_ns = 2 * wait_ns < LONGEST_NS ? 2 * wait_ns : LONGEST_NS;
    }
    const int rc = ask(run);
    if (rc)
        return rc;
    ping_format_ip(result->here, here);
    ping_format_ip(result->there, there);
    const unsigned there_port = run->ready.addresses[0].port;
    if (refused)
        return fail(run, PING_NOT_SENT, "this host cannot send to %s UDP port %u: %s", there,
                    there_port, strerror(-refused));
    if (!result->remote.received[SMALL])
        return fail(run, PING_LOST_THERE, "no datagram from %s arrives at %s UDP port %u", here,
                    there, there_port);
    struct diwarp_address addresses[2];
    ping_link_addresses(&run->link, addresses);
    return fail(run, PING_LOST_BACK,
                "%u datagrams arrived at %s, but no answer comes back to %s UDP port %u%s%s",
                result->remote.received[SMALL], there, here, addresses[0].port,
                result->remote.send_error ? ": " : "",
                result->remote.send_error ? strerror((int)result->remote.send_error) : "");
}

/* Whether a datagram of that length passes as one, both ways. */
static bool passes(struct run *run, uint32_t bytes)
{
    static uint32_t serial;
    for (unsigned i = 0; i < TRIES; i++) {
        const uint64_t before = run->link.counters->tx_datagrams;
        const int rc =
            send_message(run, DIWARP_QPT_UD, PING_ECHO, SEARCH, ++serial, bytes - OVERHEAD_BYTES);
        if (!rc && run->link.counters->tx_datagrams - before > 1) {
            if (!run->link.counters->paths_narrowed) /* else ICMP has said so */
                run->cut_bytes = bytes;
            return false;
        }
        if (await_echo(run, SEARCH, serial, 50 * MS_NS + 4 * run->trip_ns))
            return true;
    }
    return false;
}

static uint32_t datagram_of_mtu(const struct ping_result *result)
{
    const uint32_t ours = result->here->mtu_bytes, theirs = result->there->mtu_bytes;
    const uint32_t mtu = ours < theirs ? ours : theirs;
    const uint32_t bytes = mtu - (result->here->family == AF_INET6 ? 48u : 28u);
    return (bytes < UINT16_MAX - 28u ? bytes : UINT16_MAX - 28u) & ~(STEP_BYTES - 1);
}

/* The longest that passes; 0: not even what every path takes. */
static uint32_t search(struct run *run, uint32_t wanted_bytes)
{
    uint32_t fits = 0, ceiling = wanted_bytes;
    uint32_t next = (DW_MTU_MIN_BYTES - 48) & ~(STEP_BYTES - 1);
    if (passes(run, wanted_bytes))
        return wanted_bytes;
    while (next < ceiling) {
        if (passes(run, next))
            fits = next;
        else
            ceiling = next;
        if (!fits || fits + STEP_BYTES >= ceiling)
            break;
        next = (fits + (ceiling - fits) / 2) & ~(STEP_BYTES - 1);
    }
    return fits;
}

static int try_lengths(struct run *run)
{
    struct ping_result *result = run->result;
    result->wanted_bytes = datagram_of_mtu(result);
    result->datagram_bytes = search(run, result->wanted_bytes);
    if (run->cut_bytes == result->datagram_bytes + STEP_BYTES)
        result->wanted_bytes = result->datagram_bytes;
    if (result->datagram_bytes == result->wanted_bytes)
        return 0;
    fail(run, PING_NARROW, "datagrams of more than %u bytes do not pass, though the MTU allows %u",
         result->datagram_bytes, result->wanted_bytes);
    if (!result->datagram_bytes)
        return 0;
    /* RD would find out by itself, but not within the time that there is. */
    const enum ping_verdict verdict = result->verdict;
    const int rc = open_ends(run, result->datagram_bytes);
    return rc || result->verdict != verdict ? rc : 0;
}

static int measure_loss(struct run *run, enum phase phase, uint32_t bytes, struct ping_loss *loss)
{
    const uint64_t begin_ns = ping_now_ns();
    uint64_t heard_ns = begin_ns, now_ns = begin_ns;
    uint32_t echoes = 0, given_up = 0; /* messages before that are not waited for */
    while (loss->sent < LOSS_MESSAGES && now_ns - begin_ns < LOSS_LONGEST_NS) {
        const uint32_t next = echoes ? run->last_serial[phase] + 1 : 0;
        const uint32_t seen = next > given_up ? next : given_up;
        if (loss->sent - seen < LOSS_AHEAD &&
            !send_message(run, DIWARP_QPT_UD, PING_ECHO, phase, loss->sent, bytes))
            loss->sent++;
        (void)ping_link_poll(&run->link);
        now_ns = ping_now_ns();
        if (run->echoes[phase] != echoes)
            heard_ns = now_ns;
        else if (now_ns - heard_ns > 20 * MS_NS + 4 * run->trip_ns)
            given_up = loss->sent;
        echoes = run->echoes[phase];
    }
    (void)await_echo(run, phase, loss->sent - 1, 50 * MS_NS + 4 * run->trip_ns);
    const int rc = ask(run);
    loss->arrived = run->result->remote.received[phase];
    loss->answered = run->echoes[phase];
    return rc;
}

/* ---- RD -------------------------------------------------------------------------------------- */

static bool trip(struct run *run, enum phase phase, uint32_t serial, uint64_t limit_ns)
{
    const uint64_t deadline_ns = ping_now_ns() + limit_ns;
    int rc;
    while ((rc = send_message(run, DIWARP_QPT_RD, PING_ECHO, phase, serial, PING_MESSAGE_BYTES)) ==
               -EAGAIN &&
           ping_now_ns() < deadline_ns)
        (void)ping_link_poll(&run->link);
    return !rc && await_echo(run, phase, serial, limit_ns);
}

static int compare_ns(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void measure_latency(struct run *run)
{
    static uint32_t ns[PING_TRIPS_MAX];
    static const uint32_t per_mille[] = {500, 900, 990, 999};
    struct ping_result *result = run->result;
    uint32_t trips = 0, serial = 0;
    uint64_t begin_ns = ping_now_ns();
    while (serial < WARM_UP_TRIPS && ping_now_ns() - begin_ns < WARM_UP_NS)
        if (!trip(run, LATENCY, serial++, S_NS))
            return;
    begin_ns = ping_now_ns();
    while (trips < PING_TRIPS_MAX) {
        const uint64_t sent_ns = ping_now_ns(), age_ns = sent_ns - begin_ns;
        if (age_ns > (trips < TRIPS_WANTED ? LATENCY_LONGEST_NS : LATENCY_NS) ||
            !trip(run, LATENCY, serial++, S_NS))
            break;
        ns[trips++] = (uint32_t)((ping_now_ns() - sent_ns) / 2);
    }
    result->trips = trips;
    if (!trips)
        return;
    qsort(ns, trips, sizeof *ns, compare_ns);
    for (unsigned i = 0; i < 4; i++)
        if ((uint64_t)trips * (1000 - per_mille[i]) >= 1000)
            result->ns[i] = ns[(uint64_t)trips * per_mille[i] / 1000];
    result->ns[4] = ns[trips - 1];
}

/* 10^6 bytes in a second; 0: it did not end. */
static double stream(struct run *run, bool write)
{
    struct ping_link *link = &run->link;
    const uint32_t bytes = write ? PING_STREAM_BYTES : PING_SEND_BYTES;
    const uint32_t ahead = write ? WRITES_AHEAD : SENDS_AHEAD;
    struct ibv_sge sge = {.addr = (uintptr_t)(write ? link->memory : run->message),
                          .length = bytes};
    struct diwarp_send_wr wr = {.wr = {.sg_list = &sge,
                                       .num_sge = 1,
                                       .opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
                                       .send_flags = IBV_SEND_SIGNALED},
                                .ah = link->ahs[DIWARP_QPT_RD]};
    wr.wr.wr.rdma.remote_addr = run->ready.to;
    wr.wr.wr.rdma.rkey = run->ready.stag;
    run->message[0] = PING_COUNT;
    run->message[1] = STREAM;
    const uint64_t begin_ns = ping_now_ns(), done = link->completed;
    uint64_t posted = 0, now_ns = begin_ns;
    for (; !link->failed && now_ns - begin_ns < STREAM_NS + STREAM_END_NS; now_ns = ping_now_ns()) {
        const uint64_t under_way = posted - (link->completed - done);
        if (now_ns - begin_ns >= STREAM_NS && !under_way)
            break;
        if (now_ns - begin_ns < STREAM_NS && under_way < ahead &&
            diwarp_post_send(link->qps[DIWARP_QPT_RD], &wr) >= 0)
            posted++;
        (void)ping_link_poll(link);
    }
    if (link->failed || link->completed - done < posted)
        return 0;
    return (double)posted * bytes * 1e3 / (double)(now_ns - begin_ns);
}

static int try_reliable(struct run *run)
{
    struct ping_result *result = run->result;
    const struct diwarp_counters *counters = run->link.counters;
    if (!trip(run, RELIABLE, 0, 3 * S_NS))
        return fail(run, PING_NO_RD, "datagrams pass, but reliable ones get no answer%s%s",
                    run->link.gone ? ": " : "", run->link.gone ? run->link.gone : "");
    measure_latency(run);
    const uint64_t before = counters->tx_resent_datagrams,
                   before_bytes = counters->tx_resent_record_bytes;
    result->mib_mbs = stream(run, true);
    result->kib8_mbs = result->mib_mbs > 0 ? stream(run, false) : 0;
    result->resent = counters->tx_resent_datagrams - before +
                     (counters->tx_resent_record_bytes - before_bytes) / result->datagram_bytes;
    if (result->kib8_mbs <= 0)
        fail(run, PING_STALLED, "a stream of %s does not come to its end%s%s",
             result->mib_mbs > 0 ? "8 KiB messages" : "1 MiB writes", run->link.gone ? ": " : "",
             run->link.gone ? run->link.gone : "");
    diwarp_query_qp(run->link.qps[DIWARP_QPT_RD], &result->local);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- */

static int measure(struct run *run)
{
    struct ping_result *result = run->result;
    int rc = open_ends(run, 0);
    if (!rc && result->verdict == PING_WORKS)
        rc = try_small(run);
    if (!rc && result->verdict == PING_WORKS)
        rc = try_lengths(run);
    const bool passable = result->verdict == PING_WORKS || result->verdict == PING_NARROW;
    if (rc || !passable || !result->datagram_bytes)
        return rc;
    rc = measure_loss(run, LOSS_SMALL, PING_MESSAGE_BYTES, &result->loss[0]);
    if (!rc)
        rc =
            measure_loss(run, LOSS_FULL, result->datagram_bytes - OVERHEAD_BYTES, &result->loss[1]);
    if (!rc)
        rc = try_reliable(run);
    return rc ? rc : ask(run);
}

int ping_measure(int fd, const struct ping_options *options, unsigned there_index,
                 struct ping_result *result)
{
    static struct run run; /* too large for a stack */
    memset(&run, 0, sizeof run);
    run.fd = fd;
    run.options = options;
    run.there_index = there_index;
    run.result = result;
    run.link.on_message = on_message;
    run.link.arg = &run;
    result->verdict = PING_WORKS;
    const int rc = measure(&run);
    ping_link_close(&run.link);
    return rc;
}
