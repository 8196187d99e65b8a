/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Beside a BTL of shared memory (mpirun --mca btl diwarp,vader,self, on several hosts): what ranks
 * of one host tell each other is not in diwarp's counters, what those of different hosts do is. And
 * a window over both kinds of peers holds what was put into it. Run by test/net/two_hosts.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

#define PREFIX      "btl_diwarp_"
#define SMALL_BYTES 64
#define SMALL       50
#define LARGE_BYTES (1 << 20)
#define LARGE       5
#define RANKS       4
#define ADDS        20

static const char *const sent_names[] = {PREFIX "tx_send_msgs", PREFIX "tx_write_msgs",
                                         PREFIX "tx_read_msgs", PREFIX "tx_record_bytes"};
enum { SENDS, WRITES, READS, RECORD_BYTES, SENT };

struct sent {
    uint64_t count[SENT];
};

static struct sent sent_now(struct mt_pvar_set *set)
{
    struct sent sent;
    for (int i = 0; i < SENT; i++)
        sent.count[i] = mt_pvar_value(set, sent_names[i]);
    return sent;
}

static void exchange(int peer, size_t size, int count)
{
    unsigned char *out = mt_alloc(size);
    struct mt_buf in;
    mt_buf_init(&in, size);
    for (int i = 0; i < count; i++) {
        mt_fill(out, size, (struct mt_key){mt.rank, peer, 1, (uint64_t)i});
        mt_buf_arm(&in, size, 0);
        MPI_Sendrecv(out, mt_count(size), MPI_BYTE, peer, 1, in.data, mt_count(size), MPI_BYTE,
                     peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        mt_buf_verify(&in, (struct mt_key){peer, mt.rank, 1, (uint64_t)i}, "exchange");
    }
    mt_buf_fini(&in);
    free(out);
}

/* Each rank of a pair counts what it sends itself: what others send to it meanwhile is their phase.
 */
static void exchange_with(struct mt_pvar_set *set, int peer, bool local)
{
    mt_phase("exchange with rank %d, %s", peer, local ? "of this host" : "of another host");
    MPI_Barrier(MPI_COMM_WORLD);
    const struct sent before = sent_now(set);
    exchange(peer, SMALL_BYTES, SMALL);
    exchange(peer, LARGE_BYTES, LARGE);
    struct sent sent = sent_now(set);
    for (int i = 0; i < SENT; i++)
        sent.count[i] -= before.count[i];
    for (int i = 0; local && i < SENT; i++)
        MT_CHECK(sent.count[i] == 0, "%s grew by %llu", sent_names[i],
                 (unsigned long long)sent.count[i]);
    MT_CHECK(local || sent.count[SENDS] >= SMALL, "only %llu Sends",
             (unsigned long long)sent.count[SENDS]);
    MT_CHECK(local || sent.count[RECORD_BYTES] >= (uint64_t)LARGE * LARGE_BYTES,
             "only %llu bytes of records", (unsigned long long)sent.count[RECORD_BYTES]);
}

/* Each rank puts its number at each, and adds one there many times, while the others do. */
static void put_and_add(MPI_Win win)
{
    int one = 1, seen;
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ADDS; i++)
        for (int peer = 0; peer < mt.size; peer++) {
            MPI_Put(&mt.rank, 1, MPI_INT, peer, mt.rank, 1, MPI_INT, win);
            MPI_Fetch_and_op(&one, &seen, MPI_INT, peer, mt.size, MPI_SUM, win);
            MPI_Win_flush(peer, win);
            MT_CHECK(seen >= 0 && seen < mt.size * ADDS, "fetched %d", seen);
        }
    MPI_Win_unlock_all(win);
}

static void check_slots(MPI_Win win)
{
    int all[RANKS + 1];
    MPI_Win_lock_all(0, win);
    for (int peer = 0; peer < mt.size; peer++) {
        MPI_Get(all, RANKS + 1, MPI_INT, peer, 0, RANKS + 1, MPI_INT, win);
        MPI_Win_flush(peer, win);
        for (int i = 0; i < mt.size; i++)
            MT_CHECK(all[i] == i, "slot %d of rank %d is %d", i, peer, all[i]);
        MT_CHECK(all[mt.size] == mt.size * ADDS, "the sum of rank %d is %d", peer, all[mt.size]);
    }
    MPI_Win_unlock_all(win);
}

/* In memory that MPI allocates, which ranks of a host may share, or in the program's own. */
static void window(bool allocated)
{
    int own[RANKS + 1], *slots = own;
    const MPI_Aint bytes = sizeof own;
    MPI_Win win;
    mt_phase("window, %s", allocated ? "allocated" : "of the program's memory");
    if (allocated)
        MPI_Win_allocate(bytes, sizeof *slots, MPI_INFO_NULL, MPI_COMM_WORLD, &slots, &win);
    else
        MPI_Win_create(slots, bytes, sizeof *slots, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mt.rank, 0, win);
    memset(slots, 0xff, sizeof own);
    slots[RANKS] = 0;
    MPI_Win_unlock(mt.rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    put_and_add(win);
    MPI_Barrier(MPI_COMM_WORLD);
    check_slots(win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    struct mt_pvar_set set;
    MPI_Comm host;
    int locals, local_rank;
    mt_start(argc, argv, "local_peers", MPI_THREAD_SINGLE);
    mt_tool_init();
    mt_pvar_set_init(&set, PREFIX);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &locals);
    MPI_Comm_rank(host, &local_rank);
    MT_CHECK(locals == RANKS / 2 && mt.size == RANKS, "%d ranks here, %d in all", locals, mt.size);
    int ranks[RANKS / 2];
    MPI_Allgather(&mt.rank, 1, MPI_INT, ranks, 1, MPI_INT, host);
    const int mate = ranks[1 - local_rank], other = (mt.rank + RANKS / 2) % RANKS;
    MT_CHECK(other != mate, "the ranks of a host do not follow each other");
    exchange_with(&set, mate, true);
    exchange_with(&set, other, false);
    exchange_with(&set, mate, true);
    window(true);
    window(false);
    MPI_Comm_free(&host);
    mt_pvar_set_fini(&set);
    MPI_T_finalize();
    mt_finish("2 ranks on each of 2 hosts, %d messages to each peer", SMALL + LARGE);
    return 0;
}
