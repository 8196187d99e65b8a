/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What RDMA reads over UD cost their reader that wait for an answer which does not come: the length
 * of its list, and the walk. Two ends in one thread, on the loopback interface, 8 reads of 64 bytes
 * asked for at a time; each twentieth, at random, bears a key that the other end does not have,
 * which to the reader is what the loss of its one datagram, or of the answer's, is. Prints CSV, a
 * line for each time-out: the list's mean and greatest length, reads looked at by walks for each
 * that ended, what a read takes ÷ without loss in the same turn, and an idle poll with the list at
 * its longest ÷ one with an empty list (medians over the rounds). usage: read_list [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>

#include "benchmarks/loopback_node.h"
#include "benchmarks/samples.h"
#include "common/include/diwarp_ud.h"

#define AT_ONCE   8u
#define READS     20000u /* of a round */
#define BYTES     64u
#define LOSS      20u /* one of so many */
#define IDLE_RUNS 50u
#define POLLS     50u
#define ROUNDS    11
#define MOST      101

struct round {
    double mean, most, looked_at, ns, idle_ns;
};

static uint8_t memory[2][BYTES];

static void open_end(struct loopback_node *end, uint32_t rank)
{
    struct diwarp_qp_attr attr;
    diwarp_qp_attr_init(&attr);
    attr.type = DIWARP_QPT_UD;
    attr.max_reads = DIWARP_MAX_READS;
    loopback_open(end, (struct diwarp_name){.job = 1, .rank = rank}, attr);
}

/* False: the list is full. */
static int post(const struct loopback_node *end, struct diwarp_ah *ah, const struct diwarp_mr *mr,
                int lost)
{
    struct ibv_sge sge = {.addr = (uintptr_t)memory[0], .length = BYTES};
    const struct diwarp_send_wr wr = {
        .wr = {.wr_id = (uint64_t)lost,
               .sg_list = &sge,
               .num_sge = 1,
               .opcode = IBV_WR_RDMA_READ,
               .send_flags = IBV_SEND_SIGNALED,
               .wr.rdma = {(uintptr_t)memory[1], mr->stag + (uint32_t)lost}},
        .ah = ah};
    return diwarp_post_send(end->qp, &wr);
}

/* Of a poll that mostly brings nothing: the best of many short runs. */
static double idle_ns(const struct loopback_node *end, unsigned *active)
{
    struct diwarp_wc wc;
    double best_ns = 1e18;
    for (unsigned run = 0; run < IDLE_RUNS; run++) {
        const double start_ns = 1e9 * samples_now();
        for (unsigned i = 0; i < POLLS; i++) {
            const int n = diwarp_poll_cq(end->cq, 1, &wc);
            must(n < 0, "diwarp_poll_cq");
            *active -= (unsigned)n;
        }
        const double ns = (1e9 * samples_now() - start_ns) / POLLS;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    return best_ns;
}

static struct round run(struct loopback_node ends[2], struct diwarp_ah *ah,
                        const struct diwarp_mr *mr, uint64_t time_ns, unsigned loss)
{
    const struct diwarp_counters *counters = diwarp_query_counters(ends[0].qp);
    const uint64_t walks = counters->read_walks;
    struct round round = {0};
    struct diwarp_wc wc[32];
    unsigned posted = 0, good = 0, ended = 0, active = 0, samples = 0;
    diwarp_set_read_time(ends[0].qp, time_ns);
    const double start_ns = 1e9 * samples_now();
    while (posted < READS || good) {
        for (; posted < READS && good < AT_ONCE; posted++, active++) {
            const int lost = loss && rand() % (int)loss == 0;
            if (post(&ends[0], ah, mr, lost))
                break;
            good += !lost;
        }
        must(diwarp_poll_cq(ends[1].cq, 32, wc) < 0, "diwarp_poll_cq");
        const int n = diwarp_poll_cq(ends[0].cq, 32, wc);
        must(n < 0, "diwarp_poll_cq");
        for (int i = 0; i < n; i++)
            good -= !wc[i].wc.wr_id; /* one that really was lost, too, once it has expired */
        ended += (unsigned)n;
        active -= (unsigned)n;
        round.mean += active;
        round.most = active > round.most ? active : round.most;
        samples++;
    }
    round.ns = (1e9 * samples_now() - start_ns) / READS;
    round.mean /= samples;
    round.looked_at = (double)(counters->read_walks - walks) / ended;
    round.idle_ns = idle_ns(&ends[0], &active);
    while (active) {
        const int n = diwarp_wait_cq(ends[0].cq, 32, wc, UINT64_MAX / 2);
        must(n < 0, "diwarp_wait_cq");
        active -= (unsigned)n;
    }
    return round;
}

int main(int argc, char **argv)
{
    static const uint64_t times_ms[] = {1, 10, 100, 1000};
    const int asked = argc > 1 ? atoi(argv[1]) : ROUNDS;
    const int rounds = asked > 0 && asked < MOST ? asked : ROUNDS;
    struct loopback_node ends[2];
    for (unsigned i = 0; i < 2; i++)
        open_end(&ends[i], i);
    struct diwarp_ah *ah = loopback_ah(&ends[0], &ends[1].address);
    struct diwarp_mr *mr = diwarp_reg_mr(ends[1].pd, memory[1], BYTES, IBV_ACCESS_REMOTE_READ);
    must(!mr, "diwarp_reg_mr");
    puts("time_ms,list_mean,list_most,looked_at_per_read,time_ratio,idle_poll_ratio");
    for (unsigned t = 0; t < sizeof times_ms / sizeof *times_ms; t++) {
        double mean[MOST], most[MOST], looked_at[MOST], ratio[MOST], idle[MOST];
        for (int i = 0; i < rounds; i++) {
            const struct round none = run(ends, ah, mr, times_ms[t] * 1000000, 0);
            const struct round lossy = run(ends, ah, mr, times_ms[t] * 1000000, LOSS);
            mean[i] = lossy.mean;
            most[i] = lossy.most;
            looked_at[i] = lossy.looked_at;
            ratio[i] = lossy.ns / none.ns;
            idle[i] = lossy.idle_ns / none.idle_ns;
        }
        printf("%llu,%.0f,%.0f,%.3f,%.2f,%.2f\n", (unsigned long long)times_ms[t],
               samples_median(mean, rounds), samples_median(most, rounds),
               samples_median(looked_at, rounds), samples_median(ratio, rounds),
               samples_median(idle, rounds));
        fflush(stdout);
    }
    diwarp_dereg_mr(mr);
    diwarp_destroy_ah(ah);
    for (unsigned i = 0; i < 2; i++)
        loopback_close(&ends[i]);
    return 0;
}
