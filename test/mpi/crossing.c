/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * First messages of all pairs at once. Where a message needs a connection, both sides of a pair ask
 * for one: the transport must settle on one of the two, and lose nothing. A pair has its first
 * messages once, so one run is one draw: the runner makes several.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

#define PREFIX "btl_diwarp_"
/* MPI_Init() ends with all processes in it, so that in this time everybody has left it. */
#define ALL_HERE_MS 300
#define MAX_RANKS   64

static const size_t sizes[] = {8, 1000, 5000, 300000};

#define MESSAGES ((int)(sizeof(sizes) / sizeof(sizes[0])))

struct message {
    struct mt_buf in;
    unsigned char *out;
};

static struct message messages[MAX_RANKS][MESSAGES];
static MPI_Request requests[2 * MAX_RANKS * MESSAGES];

static void prepare(int peer, int tag)
{
    struct message *message = &messages[peer][tag];

    mt_buf_init(&message->in, sizes[tag]);
    mt_buf_arm(&message->in, sizes[tag], 0);
    message->out = mt_alloc(sizes[tag]);
    mt_fill(message->out, sizes[tag], (struct mt_key){mt.rank, peer, tag, mt.seed});
}

/* Appends to `requests`. */
static int start(int peer, int tag, int count)
{
    struct message *message = &messages[peer][tag];

    MPI_Irecv(message->in.data, mt_count(sizes[tag]), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
              &requests[count++]);
    MPI_Isend(message->out, mt_count(sizes[tag]), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
              &requests[count++]);
    return count;
}

static void finish(int peer, int tag)
{
    struct message *message = &messages[peer][tag];

    mt_buf_verify(&message->in, (struct mt_key){peer, mt.rank, tag, mt.seed}, "first messages");
    mt_buf_fini(&message->in);
    free(message->out);
}

static void each(void (*act)(int peer, int tag))
{
    for (int i = 1; i < mt.size; i++) {
        for (int tag = 0; tag < MESSAGES; tag++)
            act((mt.rank + i) % mt.size, tag);
    }
}

/* Nobody enters MPI, where calls are answered, between MPI_Init() and its own calls to all. */
static void exchange(void)
{
    int count = 0;

    each(prepare);
    mt_sleep_ms(ALL_HERE_MS);
    for (int i = 1; i < mt.size; i++) {
        for (int tag = 0; tag < MESSAGES; tag++)
            count = start((mt.rank + i) % mt.size, tag, count);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    each(finish);
}

/* Over all ranks. 0: there is no such counter. */
static uint64_t sum_of(struct mt_pvar_set *set, const char *name)
{
    const struct mt_pvar *var = mt_pvar_find(set, name);
    uint64_t value = var ? mt_pvar_read(set, var) : 0;

    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return value;
}

static void check_counters(struct mt_pvar_set *set, bool rc, uint64_t pairs, uint64_t crossed)
{
    uint64_t connects = sum_of(set, PREFIX "rc_connects");

    MT_CHECK(crossed <= (rc ? pairs : 0), "%llu crossings of %llu pairs",
             (unsigned long long)crossed, (unsigned long long)pairs);
    MT_CHECK(crossed > 0 || !rc, "no two calls have crossed");
    MT_CHECK(connects == (rc ? 2 * pairs : 0), "%llu ends of connections between %llu pairs",
             (unsigned long long)connects, (unsigned long long)pairs);
}

int main(int argc, char **argv)
{
    struct mt_pvar_set set;
    uint64_t pairs, crossed;

    mt_start(argc, argv, "crossing", MPI_THREAD_SINGLE);
    MT_CHECK(mt.size <= MAX_RANKS, "more than %d ranks", MAX_RANKS);
    mt_tool_init();
    mt_pvar_set_init(&set, PREFIX);
    mt_phase("first messages of all pairs");
    exchange();
    mt_phase("counters");
    pairs = (uint64_t)mt.size * (uint64_t)(mt.size - 1) / 2;
    crossed = sum_of(&set, PREFIX "rc_crossed");
    /* Connections of MPI_Init() are older than the set, which counts from its own begin. */
    if (mt_cvar_number(PREFIX "rc_connect") == 0)
        check_counters(&set, mt_cvar_number(PREFIX "transport") > 0, pairs, crossed);
    mt_pvar_set_fini(&set);
    MPI_T_finalize();
    mt_finish("%llu of %llu pairs crossed", (unsigned long long)crossed, (unsigned long long)pairs);
    return 0;
}
