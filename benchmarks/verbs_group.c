/* SPDX-License-Identifier: BSD-3-Clause */
/* The group part of the verbs benchmark; see verbs_group.h: options, and opening. */
#include "benchmarks/verbs_group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define ACCEPT_SECONDS 20.0
#define DIAL_SECONDS   20.0
/* Setting up and taking down; and what a measure may take beyond its own time. */
#define START_SECONDS 40.0
#define LATE_SECONDS  10.0
#define GROUP_TOKEN   0x767267726f7570u
#define GROUP_PORT    20479
#define JOB           0x76726772u

void group_must(int rc, const char *what)
{
    if (!rc)
        return;
    fprintf(stderr, "verbs_group: %s%s%s\n", what, rc < 0 ? ": " : "", rc < 0 ? strerror(-rc) : "");
    fflush(stdout);
    _exit(1);
}

bool group_hear_now(int control, struct verbs_message *message)
{
    const ssize_t there = recv(control, message, sizeof *message, MSG_PEEK | MSG_DONTWAIT);
    group_must(there == 0, "another process has ended");
    if (there < (ssize_t)sizeof *message)
        return false;
    raw_hear(control, message, sizeof *message);
    return true;
}

/* ---- options ------------------------------------------------------------------------------- */

static bool parse_way(const char *text, struct group_plan *plan)
{
    static const char *const ways[] = {"multicast", "broadcast", "unicast"};
    for (int i = 0; i < 3; i++) {
        plan->way = (enum group_way)i;
        if (!strcmp(text, ways[i]))
            return true;
    }
    return false;
}

static bool parse_option(int c, const char *value, struct group_plan *plan)
{
    switch (c) {
    case 'w':
        return parse_way(value, plan);
    case 's':
        plan->write = !strcmp(value, "write");
        return plan->write || !strcmp(value, "send");
    case 'n':
        return options_sizes(value, 1, &plan->sizes) &&
               options_largest(&plan->sizes) <= VERBS_BYTES_MAX;
    case 't':
        return options_seconds(value, &plan->seconds);
    case 'r':
        return options_number(value, 1, GROUP_RECEIVERS_MAX, &plan->receivers);
    case 'g':
        return inet_pton(AF_INET, value, plan->group.ip) == 1;
    case 'a':
        plan->ip = value;
        return true;
    case 'c':
        return raw_parse_address(value, true, &plan->at);
    default:
        return false;
    }
}

static bool parse_options(int argc, char **argv, struct group_plan *plan)
{
    bool ok = true;
    int c;
    *plan = (struct group_plan){
        .seconds = 0.1, .group = {.token = GROUP_TOKEN, .family = AF_INET, .port = GROUP_PORT}};
    opterr = 0;
    while (ok && (c = getopt(argc, argv, "w:s:n:t:r:g:a:c:")) != -1)
        ok = parse_option(c, optarg, plan);
    return ok && optind == argc && plan->ip && plan->at.length && plan->sizes.count &&
           (plan->way == GROUP_UNICAST || plan->group.ip[0]);
}

static int usage(const char *name)
{
    fprintf(stderr,
            "usage: %s -w multicast|broadcast|unicast -s send|write -n SIZES -a OWN_IP\n"
            "       -c SENDER_IP:PORT [-g GROUP_IP] [-r RECEIVERS] [-t SECONDS]\n"
            "  -r: sends to so many receivers, 1 to %d, and measures; without it, is one of them\n"
            "  -t: of each measure\n",
            name, GROUP_RECEIVERS_MAX);
    return 2;
}

/* ---- both roles ---------------------------------------------------------------------------- */

static void open_end(struct group_end *end, const struct group_plan *plan)
{
    struct diwarp_diagnosis why = {""};
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;
    struct in_addr own;
    diwarp_device_attr_init(&attr);
    group_must(inet_pton(AF_INET, plan->ip, &own) != 1, "-a is no IPv4 address");
    attr.name = (struct diwarp_name){.job = JOB, .rank = ntohl(own.s_addr)};
    attr.if_include = plan->ip;
    *end = (struct group_end){.plan = plan, .memory = calloc(1, VERBS_MEMORY_BYTES)};
    int rc = diwarp_open_device(&attr, &end->device, &why);
    group_must(rc, why.text);
    end->pd = diwarp_alloc_pd(end->device);
    end->cq = diwarp_create_cq(end->device, 4 * VERBS_RECEIVES);
    group_must(end->memory && end->pd && end->cq ? 0 : -ENOMEM, "opening");
    diwarp_qp_attr_init(&qp_attr);
    qp_attr.type = DIWARP_QPT_UD;
    qp_attr.cq = end->cq;
    qp_attr.max_recv_wr = 2 * VERBS_RECEIVES; /* of records, too */
    qp_attr.max_msg_bytes = VERBS_BYTES_MAX;
    qp_attr.record_time_ns = VERBS_RECORD_NS;
    qp_attr.qkey = GROUP_QKEY;
    rc = diwarp_create_qp(end->pd, &qp_attr, &end->qp, &why);
    group_must(rc, why.text);
}

static void close_end(struct group_end *end)
{
    diwarp_destroy_qp(end->qp);
    diwarp_destroy_cq(end->cq);
    diwarp_dealloc_pd(end->pd);
    diwarp_close_device(end->device);
    free(end->memory);
}

static void call_sender(struct group_end *end)
{
    const int control = raw_dial(&end->plan->at, 0, DIAL_SECONDS);
    group_receive_all(end, control);
    close(control);
}

static void call_receivers(struct group_end *end)
{
    const int listener = raw_listen(&end->plan->at, 0);
    int controls[GROUP_RECEIVERS_MAX];
    for (int i = 0; i < end->plan->receivers; i++)
        controls[i] = raw_accept(listener, ACCEPT_SECONDS);
    close(listener);
    group_send_all(end, controls);
    for (int i = 0; i < end->plan->receivers; i++)
        close(controls[i]);
}

int main(int argc, char **argv)
{
    static struct group_plan plan;
    struct group_end end;
    if (!parse_options(argc, argv, &plan))
        return usage(argv[0]);
    /* Whatever is lost, and wherever: the process ends. */
    (void)alarm((unsigned)(START_SECONDS + plan.sizes.count * (plan.seconds + LATE_SECONDS)));
    open_end(&end, &plan);
    if (plan.receivers)
        call_receivers(&end);
    else
        call_sender(&end);
    close_end(&end);
    return 0;
}
