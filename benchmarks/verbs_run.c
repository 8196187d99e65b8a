/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the programs of the verbs benchmark, and the control connection between the two. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "benchmarks/raw_link.h"
#include "benchmarks/verbs_measure.h"

#define ACCEPT_SECONDS 30.0
#define DIAL_SECONDS   10.0
/* Setting up and taking down; and what a measure may take beyond its own time when all is lost. */
#define START_SECONDS 40.0
#define LATE_SECONDS  15.0

struct options {
    struct verbs_plan plan;
    struct size_list sizes;
    double seconds;
    bool trips, stream;
    struct raw_address at;
    const char *where;
};

void verbs_die(const char *what, int error)
{
    fprintf(stderr, "verbs: %s%s%s\n", what, error ? ": " : "", error ? strerror(error) : "");
    fflush(stdout);
    _exit(1);
}

double verbs_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool verbs_hear_now(struct verbs_session *s, struct verbs_message *message)
{
    const ssize_t there = recv(s->control, message, sizeof *message, MSG_PEEK | MSG_DONTWAIT);
    if (there == 0)
        verbs_die("the other end is gone", 0);
    if (there < (ssize_t)sizeof *message)
        return false;
    raw_hear(s->control, message, sizeof *message);
    return true;
}

/* ---- options ------------------------------------------------------------------------------- */

/* The place of a word in a list; -1: it is not there. */
static int place_of(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(word, words[i]))
            return i;
    return -1;
}

static bool parse_series(const char *text, struct verbs_plan *plan)
{
    static const char *const services[] = {"ud", "rd", "rc"};
    static const char *const verbs[] = {"send", "write", "read"};
    char word[16];
    const char *comma = strchr(text, ',');
    const size_t length = comma ? (size_t)(comma - text) : 0;
    if (!length || length >= sizeof word)
        return false;
    memcpy(word, text, length);
    word[length] = 0;
    const int service = place_of(word, services, 3), verb = place_of(comma + 1, verbs, 3);
    plan->service = (enum verbs_service)service;
    plan->verb = (enum verbs_verb)verb;
    return service >= 0 && verb >= 0;
}

static bool parse_option(int c, const char *value, struct options *opt)
{
    int number;
    switch (c) {
    case 's':
        return parse_series(value, &opt->plan);
    case 'n':
        return options_sizes(value, 1, &opt->sizes) &&
               options_largest(&opt->sizes) <= VERBS_BYTES_MAX;
    case 't':
        return options_seconds(value, &opt->seconds);
    case 'w':
        opt->trips = strcmp(value, "stream") != 0;
        opt->stream = strcmp(value, "latency") != 0;
        return !(opt->trips && opt->stream) || !strcmp(value, "both");
    case 'm':
        if (!options_number(value, 0, UINT16_MAX, &number))
            return false;
        opt->plan.datagram_max_bytes = (uint32_t)number;
        return true;
    case 'a':
        opt->plan.ip = value;
        return true;
    case 'C':
        opt->plan.caller = true;
        /* fall through */
    case 'L':
        opt->where = value;
        return raw_parse_address(value, true, &opt->at);
    default:
        return false;
    }
}

static bool parse_options(int argc, char **argv, struct options *opt)
{
    bool ok = true;
    int c;
    *opt = (struct options){
        .sizes = {.bytes = {64}, .count = 1}, .seconds = 0.1, .trips = true, .stream = true};
    opterr = 0;
    while (ok && (c = getopt(argc, argv, "s:n:t:w:m:a:L:C:")) != -1)
        ok = parse_option(c, optarg, opt);
    opt->plan.bytes_max = (uint32_t)options_largest(&opt->sizes);
    return ok && optind == argc && opt->where && opt->plan.ip && opt->sizes.count;
}

static int usage(const char *name)
{
    fprintf(stderr,
            "usage: %s -s SERVICE,VERB -a OWN_IP (-L | -C) ADDRESS:PORT [-n SIZES] [-t SECONDS]\n"
            "       [-w latency|stream|both] [-m DATAGRAM_MAX_BYTES]\n"
            "  -s: ud, rd or rc; send, write or read\n"
            "  -L, -C: serves one caller there; or calls that server, and measures\n"
            "  -t: of each measure\n",
            name);
    return 2;
}

/* ---- both roles ---------------------------------------------------------------------------- */

static void say_why(const struct verbs_session *s, const char *what, uint32_t bytes,
                    const char *why)
{
    verbs_print_head(s, what, bytes);
    printf("why=%s\n", why);
}

/* What failed once would fail again: later sizes are not tried. */
static void measure(struct verbs_session *s, const struct options *opt)
{
    for (int i = 0; i < opt->sizes.count; i++) {
        const uint32_t bytes = (uint32_t)opt->sizes.bytes[i];
        const char *lack = s->ops->lack(s->plan, bytes);
        if (lack) {
            say_why(s, "lack", bytes, lack);
            continue;
        }
        if (opt->trips && !s->end->failed)
            verbs_trips(s, bytes, opt->seconds);
        if (opt->stream && !s->end->failed)
            verbs_stream(s, bytes, opt->seconds);
        if (s->end->failed)
            say_why(s, "failed", bytes, s->end->failed);
        fflush(stdout);
    }
    raw_tell(s->control, &(struct verbs_message){.word = VERBS_BYE}, sizeof(struct verbs_message));
}

static void meet(struct verbs_session *s)
{
    uint8_t own[VERBS_ADDRESS_BYTES] = {0}, theirs[VERBS_ADDRESS_BYTES];
    s->ops->address(s->end, own);
    raw_tell(s->control, own, sizeof own);
    raw_hear(s->control, theirs, sizeof theirs);
    s->ops->meet(s->end, theirs);
}

int verbs_run(int argc, char **argv, const struct verbs_ops *ops)
{
    static struct options opt;
    if (!parse_options(argc, argv, &opt))
        return usage(argv[0]);
    /* Whatever is lost, and wherever: the process ends. */
    (void)alarm((unsigned)(START_SECONDS + 2 * opt.sizes.count * (opt.seconds + LATE_SECONDS)));
    struct verbs_session s = {.ops = ops, .plan = &opt.plan};
    if (opt.plan.caller) {
        s.control = raw_dial(&opt.at, 0, DIAL_SECONDS);
    } else {
        const int listener = raw_listen(&opt.at, 0);
        s.control = raw_accept(listener, ACCEPT_SECONDS);
        close(listener);
    }
    s.end = ops->open(&opt.plan);
    meet(&s);
    if (opt.plan.caller)
        measure(&s, &opt);
    else
        verbs_serve(&s);
    ops->close(s.end);
    close(s.control);
    return 0;
}
