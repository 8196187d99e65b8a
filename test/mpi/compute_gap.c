/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that computes makes no progress: whatever others sent it meanwhile must be right later,
 * and none of them may take it for dead.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define GAP_S 1.5

static const size_t sizes[] = {1, 100, 1472, 8000, 32712, 32713, 70000, 500000, 2000000};
#define SIZE_COUNT  ((int)(sizeof(sizes) / sizeof(sizes[0])))
#define SMALL_COUNT 200 /* more than any window of unsolicited datagrams */

/* Some receives are posted before the gap, some after. */
static bool posted_before(int index)
{
    return index % 2 == 0;
}

static double compute(void)
{
    double end = MPI_Wtime() + GAP_S, x = 1;

    while (MPI_Wtime() < end) {
        for (int i = 0; i < 100000; i++)
            x = x * 1.0000001 + 1e-9;
    }
    return x;
}

static struct mt_key key_of(int src, int dst, int tag)
{
    return (struct mt_key){src, dst, tag, 77};
}

static void be_busy(int busy)
{
    int senders = mt.size - 1, total = senders * SIZE_COUNT;
    struct mt_buf *bufs = mt_alloc(sizeof(*bufs) * (size_t)total);
    MPI_Request *requests = mt_alloc(sizeof(*requests) * (size_t)total);
    unsigned char small[40];
    double x;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < total; i++) {
            int tag = i % SIZE_COUNT, place = i / SIZE_COUNT, src = place + (place >= busy);

            if (posted_before(i) != (pass == 0))
                continue;
            mt_buf_init(&bufs[i], sizes[tag]);
            mt_buf_arm(&bufs[i], sizes[tag], 0);
            MPI_Irecv(bufs[i].data, mt_count(sizes[tag]), MPI_BYTE, src, tag, MPI_COMM_WORLD,
                      &requests[i]);
        }
        if (pass == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            mt_phase("computing");
            x = compute();
            MT_CHECK(x > 1, "arithmetic");
            mt_phase("receiving");
        }
    }
    MPI_Waitall(total, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < total; i++) {
        int tag = i % SIZE_COUNT, place = i / SIZE_COUNT, src = place + (place >= busy);

        mt_buf_verify(&bufs[i], key_of(src, busy, tag), "after the gap");
        mt_buf_fini(&bufs[i]);
    }
    for (int i = 0; i < senders * SMALL_COUNT; i++) {
        int src = i / SMALL_COUNT + (i / SMALL_COUNT >= busy), tag = 100 + i % SMALL_COUNT;

        MPI_Recv(small, sizeof(small), MPI_BYTE, src, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        mt_verify(small, sizeof(small), key_of(src, busy, tag), "small, after the gap");
    }
    free(bufs);
    free(requests);
}

static void send_to(int busy)
{
    enum { COUNT = (int)(sizeof(sizes) / sizeof(sizes[0])) + SMALL_COUNT };
    static unsigned char small[SMALL_COUNT][40];
    unsigned char *payloads[sizeof(sizes) / sizeof(sizes[0])];
    MPI_Request requests[COUNT];

    MPI_Barrier(MPI_COMM_WORLD);
    mt_phase("sending to rank %d, who computes", busy);
    for (int tag = 0; tag < SIZE_COUNT; tag++) {
        payloads[tag] = mt_alloc(sizes[tag]);
        mt_fill(payloads[tag], sizes[tag], key_of(mt.rank, busy, tag));
        MPI_Isend(payloads[tag], mt_count(sizes[tag]), MPI_BYTE, busy, tag, MPI_COMM_WORLD,
                  &requests[tag]);
    }
    for (int i = 0; i < SMALL_COUNT; i++) {
        mt_fill(small[i], sizeof(small[i]), key_of(mt.rank, busy, 100 + i));
        MPI_Isend(small[i], sizeof(small[i]), MPI_BYTE, busy, 100 + i, MPI_COMM_WORLD,
                  &requests[SIZE_COUNT + i]);
    }
    MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
    for (int tag = 0; tag < SIZE_COUNT; tag++)
        free(payloads[tag]);
}

int main(int argc, char **argv)
{
    mt_start(argc, argv, "compute_gap", MPI_THREAD_SINGLE);
    for (int turn = 0; turn < (mt.quick ? 1 : 2); turn++) {
        int busy = turn == 0 ? mt.size - 1 : 0;

        if (mt.rank == busy)
            be_busy(busy);
        else
            send_to(busy);
        mt_phase("after the gap");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    mt_finish("%.1f s without progress", GAP_S);
    return 0;
}
