/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What peers cost that are known and never met: a process that knows N of them exchanges 8 B with
 * one, in turns with a process that knows 1000, so that both see the same machine. Prints CSV:
 * peers, bytes of each by diwarp_query_memory(), by the resident set, ns of a datagram, and that ÷
 * what it is with 1000 (medians over the rounds). usage: known_peers [ROUNDS]
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/include/diwarp.h"

#define FEW       1000u
#define TRIPS     200u
#define ROUNDS    201u
#define JOB_OTHER 2u

struct node {
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp;
    struct diwarp_address address;
};

static void must(int failed, const char *what)
{
    if (!failed)
        return;
    fprintf(stderr, "known_peers: %s failed\n", what);
    exit(1);
}

static void open_node(struct node *node, uint32_t job, uint32_t rank)
{
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;
    diwarp_device_attr_init(&attr);
    attr.name = (struct diwarp_name){.job = job, .rank = rank};
    attr.if_include = "lo";
    must(diwarp_open_device(&attr, &node->device, NULL), "diwarp_open_device");
    must(!(node->pd = diwarp_alloc_pd(node->device)), "diwarp_alloc_pd");
    must(!(node->cq = diwarp_create_cq(node->device, 64)), "diwarp_create_cq");
    diwarp_qp_attr_init(&qp_attr);
    qp_attr.cq = node->cq;
    must(diwarp_create_qp(node->pd, &qp_attr, &node->qp, NULL), "diwarp_create_qp");
    diwarp_query_address(node->qp, &node->address);
}

static struct diwarp_ah *know(struct node *node, const struct diwarp_address *address)
{
    struct diwarp_ah *ah;
    must(diwarp_create_ah(node->qp, address, &ah), "diwarp_create_ah");
    return ah;
}

static void send_8(struct node *node, struct diwarp_ah *ah)
{
    uint64_t data = 0;
    struct ibv_sge sge = {.addr = (uintptr_t)&data, .length = sizeof data};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE},
        .ah = ah};
    must(diwarp_post_send(node->qp, &wr), "diwarp_post_send");
}

static void await(struct node *node)
{
    struct diwarp_wc wc;
    int n;
    while (!(n = diwarp_poll_cq(node->cq, 1, &wc)))
        ;
    must(n < 0 || wc.wc.status != IBV_WC_SUCCESS, "a message");
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    must(!file || fscanf(file, "%*u %lu", &pages) != 1, "/proc/self/statm");
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double address_bytes(const struct node *node)
{
    struct diwarp_memory memory;
    diwarp_query_memory(node->cq, node->pd, &memory);
    return (double)memory.address_bytes;
}

struct pair {
    struct node here, there;
    struct diwarp_ah *to_there, *to_here;
};

static void open_pair(struct pair *pair, uint32_t job)
{
    open_node(&pair->here, job, 0);
    open_node(&pair->there, job, 1);
    pair->to_there = know(&pair->here, &pair->there.address);
    pair->to_here = know(&pair->there, &pair->here.address);
}

/* ns of a datagram. Both nodes run in this thread: a trip is two, and what acknowledges them. */
static double trip_ns(struct pair *pair)
{
    const double begin_ns = now_ns();
    for (unsigned i = 0; i < TRIPS; i++) {
        send_8(&pair->here, pair->to_there);
        await(&pair->there);
        send_8(&pair->there, pair->to_here);
        await(&pair->here);
    }
    return (now_ns() - begin_ns) / (2.0 * TRIPS);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

/* Up to `count`, from those there are on. */
static void know_many(struct pair *pair, uint32_t from, uint32_t count)
{
    struct diwarp_address address = pair->there.address;
    address.name.job = JOB_OTHER;
    for (uint32_t rank = from; rank < count; rank++) {
        address.name.rank = rank;
        (void)know(&pair->here, &address); /* until the port closes */
    }
}

int main(int argc, char **argv)
{
    const int asked = argc > 1 ? atoi(argv[1]) : (int)ROUNDS;
    const unsigned rounds = asked > 0 && asked < (int)ROUNDS ? (unsigned)asked : ROUNDS;
    struct pair few, many;
    uint32_t known = 0;
    open_pair(&few, 3);
    know_many(&few, 0, FEW);
    open_pair(&many, 4);
    const double bytes = address_bytes(&many.here), resident = resident_bytes();
    printf("peers,bytes,resident_bytes,ns,ratio\n");
    for (uint32_t peers = FEW; peers <= 1000000; peers *= 10) {
        double ns[ROUNDS], ratios[ROUNDS];
        know_many(&many, known, peers);
        known = peers;
        for (unsigned i = 0; i < rounds; i++) {
            const double few_ns = trip_ns(&few);
            ns[i] = trip_ns(&many);
            ratios[i] = ns[i] / few_ns;
        }
        printf("%u,%.1f,%.1f,%.0f,%.3f\n", peers, (address_bytes(&many.here) - bytes) / peers,
               (resident_bytes() - resident) / peers, median(ns, rounds), median(ratios, rounds));
        fflush(stdout);
    }
    return 0;
}
