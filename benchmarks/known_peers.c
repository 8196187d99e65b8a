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
#include <unistd.h>

#include "benchmarks/loopback_node.h"
#include "benchmarks/samples.h"

#define FEW       1000u
#define TRIPS     200u
#define ROUNDS    201
#define JOB_OTHER 2u

static void open_node(struct loopback_node *node, uint32_t job, uint32_t rank)
{
    struct diwarp_qp_attr attr;
    diwarp_qp_attr_init(&attr);
    loopback_open(node, (struct diwarp_name){.job = job, .rank = rank}, attr);
}

static void send_8(struct loopback_node *node, struct diwarp_ah *ah)
{
    uint64_t data = 0;
    struct ibv_sge sge = {.addr = (uintptr_t)&data, .length = sizeof data};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE},
        .ah = ah};
    must(diwarp_post_send(node->qp, &wr), "diwarp_post_send");
}

static void await(struct loopback_node *node)
{
    struct diwarp_wc wc;
    int n;
    while (!(n = diwarp_poll_cq(node->cq, 1, &wc)))
        ;
    must(n < 0 || wc.wc.status != IBV_WC_SUCCESS, "a message");
}

static double resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    must(!file || fscanf(file, "%*u %lu", &pages) != 1, "/proc/self/statm");
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double address_bytes(const struct loopback_node *node)
{
    struct diwarp_memory memory;
    diwarp_query_memory(node->cq, node->pd, &memory);
    return (double)memory.address_bytes;
}

struct pair {
    struct loopback_node here, there;
    struct diwarp_ah *to_there, *to_here;
};

static void open_pair(struct pair *pair, uint32_t job)
{
    open_node(&pair->here, job, 0);
    open_node(&pair->there, job, 1);
    pair->to_there = loopback_ah(&pair->here, &pair->there.address);
    pair->to_here = loopback_ah(&pair->there, &pair->here.address);
}

/* ns of a datagram. Both nodes run in this thread: a trip is two, and what acknowledges them. */
static double trip_ns(struct pair *pair)
{
    const double begin = samples_now();
    for (unsigned i = 0; i < TRIPS; i++) {
        send_8(&pair->here, pair->to_there);
        await(&pair->there);
        send_8(&pair->there, pair->to_here);
        await(&pair->here);
    }
    return 1e9 * (samples_now() - begin) / (2.0 * TRIPS);
}

/* Up to `count`, from those there are on. */
static void know_many(struct pair *pair, uint32_t from, uint32_t count)
{
    struct diwarp_address address = pair->there.address;
    address.name.job = JOB_OTHER;
    for (uint32_t rank = from; rank < count; rank++) {
        address.name.rank = rank;
        (void)loopback_ah(&pair->here, &address); /* until the port closes */
    }
}

int main(int argc, char **argv)
{
    const int asked = argc > 1 ? atoi(argv[1]) : ROUNDS;
    const int rounds = asked > 0 && asked < ROUNDS ? asked : ROUNDS;
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
        for (int i = 0; i < rounds; i++) {
            const double few_ns = trip_ns(&few);
            ns[i] = trip_ns(&many);
            ratios[i] = ns[i] / few_ns;
        }
        printf("%u,%.1f,%.1f,%.0f,%.3f\n", peers, (address_bytes(&many.here) - bytes) / peers,
               (resident_bytes() - resident) / peers, samples_median(ns, rounds),
               samples_median(ratios, rounds));
        fflush(stdout);
    }
    return 0;
}
