/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checked messages in both directions, small to large, for --seconds: what test/net/faults
 * disturbs. Says "steady: running" when the first have arrived, and at the end how fast they were,
 * how long the longest exchange took, and by cause what the BTL of all ranks has dropped (over rc:
 * closed).
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

#define PREFIX "btl_diwarp_"
#define SIZES  6

static const size_t sizes[SIZES] = {8, 1000, 4000, 60000, 200000, 1000000};

static uint64_t exchange(int peer, uint64_t round)
{
    static unsigned char *out[SIZES];
    static struct mt_buf in[SIZES];
    MPI_Request requests[2 * SIZES];
    uint64_t bytes = 0;

    for (int i = 0; i < SIZES; i++) {
        if (!out[i]) {
            out[i] = mt_alloc(sizes[i]);
            mt_buf_init(&in[i], sizes[i]);
        }
        mt_buf_arm(&in[i], sizes[i], 0);
        MPI_Irecv(in[i].data, mt_count(sizes[i]), MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < SIZES; i++) {
        mt_fill(out[i], sizes[i], (struct mt_key){mt.rank, peer, i, round});
        MPI_Isend(out[i], mt_count(sizes[i]), MPI_BYTE, peer, i, MPI_COMM_WORLD,
                  &requests[SIZES + i]);
        bytes += 2 * sizes[i];
    }
    MPI_Waitall(2 * SIZES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < SIZES; i++)
        mt_buf_verify(&in[i], (struct mt_key){peer, mt.rank, i, round}, "steady");
    return bytes;
}

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    stopped = number;
}

/* MPI_Wtime() may jump here. */
static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Each rank of the first half with one of the second, whom it tells when to stop. */
static void run(double *rate, double *longest_s)
{
    const int peer = (mt.rank + mt.size / 2) % mt.size;
    const double started_s = seconds();
    int more = 1;

    for (uint64_t round = 0; more; round++) {
        const double began_s = seconds();
        *rate += (double)exchange(peer, round);
        const double now_s = seconds();
        if (now_s - began_s > *longest_s)
            *longest_s = now_s - began_s;
        if (round == 0 && mt.rank == 0) {
            printf("steady: running\n");
            fflush(stdout);
        }
        if (mt.rank < mt.size / 2) {
            more = now_s - started_s < mt.seconds && !stopped;
            MPI_Send(&more, 1, MPI_INT, peer, SIZES, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&more, 1, MPI_INT, peer, SIZES, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    *rate /= seconds() - started_s;
}

static bool is_cause(const char *name)
{
    return !strncmp(name, "drop_", 5) || !strncmp(name, "rc_bad_", 7) ||
           !strcmp(name, "rx_dup_datagrams") || !strcmp(name, "rx_dup_record_bytes");
}

/* " NAME=COUNT" for each counter of something dropped that is not 0. */
static void write_drops(struct mt_pvar_set *set, char *text, size_t len)
{
    text[0] = '\0';
    for (int i = 0; i < set->count; i++) {
        const char *name = set->vars[i].name + strlen(PREFIX);
        if (!is_cause(name))
            continue;
        uint64_t own = mt_pvar_read(set, &set->vars[i]), all = 0;
        MPI_Reduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        const size_t used = strlen(text);
        if (all)
            snprintf(text + used, len - used, " %s=%llu", name, (unsigned long long)all);
    }
}

int main(int argc, char **argv)
{
    double own[2] = {0}, rate = 0, longest_s = 0;
    struct mt_pvar_set set;
    char drops[200];

    mt_tool_init();
    mt_start(argc, argv, "steady", MPI_THREAD_SINGLE);
    MT_CHECK(mt.size % 2 == 0, "an even number of ranks is needed");
    signal(SIGUSR1, on_signal);
    mt_pvar_set_init(&set, PREFIX); /* which counts from here on */
    mt_phase("exchange");
    run(&own[0], &own[1]);
    MPI_Reduce(&own[0], &rate, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&own[1], &longest_s, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    mt_phase("count");
    write_drops(&set, drops, sizeof(drops));
    mt_pvar_set_fini(&set);
    MPI_T_finalize();
    mt_finish("%.1f MB/s, longest %.3f s, dropped:%s", rate / 2e6, longest_s, drops);
    return 0;
}
