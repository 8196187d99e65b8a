/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Send modes and ways to complete: synchronous, ready, buffered and persistent sends, windows of
 * up to a thousand outstanding requests, every Wait and Test.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

static const size_t sizes[] = {0, 1, 1000, 1472, 4040, 16384, 32712, 65536, 300000};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))
#define LARGEST    300000

static int dst_rank, src_rank;

static struct mt_key out_key(int tag, uint64_t seq)
{
    return (struct mt_key){mt.rank, dst_rank, tag, seq};
}

static struct mt_key in_key(int tag, uint64_t seq)
{
    return (struct mt_key){src_rank, mt.rank, tag, seq};
}

/* ---- synchronous -------------------------------------------------------------------------- */

/* The token says that the receive is about to be posted; Issend may not be complete before. */
static void test_synchronous(struct mt_buf *out, struct mt_buf *in, size_t size)
{
    MPI_Request send;
    MPI_Status status;
    int done = 0;

    mt_phase("Issend, %zu bytes", size);
    mt_buf_arm(out, size, 0);
    mt_buf_arm(in, size, 3);
    mt_fill(out->data, size, out_key(1, size));
    MPI_Issend(out->data, mt_count(size), MPI_BYTE, dst_rank, 1, MPI_COMM_WORLD, &send);
    for (int i = 0; i < 20; i++) {
        MPI_Test(&send, &done, MPI_STATUS_IGNORE);
        MT_CHECK(!done, "Issend completed before its receive was posted");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(in->data, mt_count(size), MPI_BYTE, src_rank, 1, MPI_COMM_WORLD, &status);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    mt_check_status(&status, src_rank, 1, size, "Issend");
    mt_buf_verify(in, in_key(1, size), "Issend");
}

/* One even-odd step of blocking Ssend; the lowest rank of the ring receives first. */
static void test_ssend(struct mt_buf *out, struct mt_buf *in, size_t size)
{
    mt_phase("Ssend, %zu bytes", size);
    mt_buf_arm(out, size, 0);
    mt_buf_arm(in, size, 0);
    mt_fill(out->data, size, out_key(2, size));
    if (mt.rank != 0)
        MPI_Ssend(out->data, mt_count(size), MPI_BYTE, dst_rank, 2, MPI_COMM_WORLD);
    MPI_Recv(in->data, mt_count(size), MPI_BYTE, src_rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (mt.rank == 0)
        MPI_Ssend(out->data, mt_count(size), MPI_BYTE, dst_rank, 2, MPI_COMM_WORLD);
    mt_buf_verify(in, in_key(2, size), "Ssend");
}

/* ---- ready and buffered ------------------------------------------------------------------- */

static void test_ready(struct mt_buf *out, struct mt_buf *in, size_t size)
{
    MPI_Request requests[2];

    mt_phase("Rsend, %zu bytes", size);
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        int tag = 3 + nonblocking;

        mt_buf_arm(out, size, 5);
        mt_buf_arm(in, size, 0);
        mt_fill(out->data, size, out_key(tag, size));
        requests[1] = MPI_REQUEST_NULL;
        MPI_Irecv(in->data, mt_count(size), MPI_BYTE, src_rank, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        if (nonblocking)
            MPI_Irsend(out->data, mt_count(size), MPI_BYTE, dst_rank, tag, MPI_COMM_WORLD,
                       &requests[1]);
        else
            MPI_Rsend(out->data, mt_count(size), MPI_BYTE, dst_rank, tag, MPI_COMM_WORLD);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        mt_buf_verify(in, in_key(tag, size), "Rsend");
    }
}

/* The user's buffer is overwritten as soon as Bsend returns. */
static void test_buffered(struct mt_buf *out, struct mt_buf *in)
{
    int room = (int)(SIZE_COUNT * (LARGEST + MPI_BSEND_OVERHEAD));
    void *attached = mt_alloc((size_t)room);

    mt_phase("Bsend");
    MPI_Buffer_attach(attached, room);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        mt_buf_arm(out, sizes[i], 0);
        mt_fill(out->data, sizes[i], out_key(5, i));
        MPI_Bsend(out->data, mt_count(sizes[i]), MPI_BYTE, dst_rank, 5, MPI_COMM_WORLD);
        mt_buf_arm(out, sizes[i], 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        mt_buf_arm(in, sizes[i], 0);
        MPI_Recv(in->data, mt_count(sizes[i]), MPI_BYTE, src_rank, 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        mt_buf_verify(in, in_key(5, i), "Bsend");
    }
    MPI_Buffer_detach(&attached, &room);
    free(attached);
}

/* ---- persistent --------------------------------------------------------------------------- */

static void test_persistent(void)
{
    enum { SLOTS = (int)SIZE_COUNT };
    struct mt_buf out[SLOTS], in[SLOTS];
    MPI_Request requests[2 * SLOTS];
    int rounds = mt_scaled(20, 4);

    for (int i = 0; i < SLOTS; i++) {
        int len = mt_count(sizes[i]);

        mt_buf_init(&out[i], sizes[i]);
        mt_buf_init(&in[i], sizes[i]);
        mt_buf_arm(&out[i], sizes[i], 0);
        mt_buf_arm(&in[i], sizes[i], 0);
        MPI_Recv_init(in[i].data, len, MPI_BYTE, src_rank, i, MPI_COMM_WORLD, &requests[i]);
        if (i % 3 == 2)
            MPI_Ssend_init(out[i].data, len, MPI_BYTE, dst_rank, i, MPI_COMM_WORLD,
                           &requests[SLOTS + i]);
        else
            MPI_Send_init(out[i].data, len, MPI_BYTE, dst_rank, i, MPI_COMM_WORLD,
                          &requests[SLOTS + i]);
    }
    for (int round = 0; round < rounds; round++) {
        mt_phase("persistent, round %d", round);
        for (int i = 0; i < SLOTS; i++) {
            mt_fill(out[i].data, sizes[i], out_key(i, (uint64_t)round));
            mt_buf_arm(&in[i], sizes[i], 0);
        }
        MPI_Startall(2 * SLOTS, requests);
        MPI_Waitall(2 * SLOTS, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < SLOTS; i++)
            mt_buf_verify(&in[i], in_key(i, (uint64_t)round), "persistent");
    }
    for (int i = 0; i < SLOTS; i++) {
        MPI_Request_free(&requests[i]);
        MPI_Request_free(&requests[SLOTS + i]);
        mt_buf_fini(&out[i]);
        mt_buf_fini(&in[i]);
    }
}

/* ---- windows of requests ------------------------------------------------------------------ */

enum completion { WAITALL, WAITANY, WAITSOME, TESTALL, TESTANY, TESTSOME, COMPLETION_COUNT };
static const char *const completion_names[] = {"Waitall", "Waitany", "Waitsome",
                                               "Testall", "Testany", "Testsome"};

/* Returns when all are done; each completion must be reported exactly once. */
static void complete(int count, MPI_Request *requests, enum completion how)
{
    int *indices = mt_alloc(sizeof(int) * (size_t)count), left = count, flag = 0;

    while (left > 0) {
        int done = 0;

        if (how == WAITALL) {
            MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
            done = left;
        } else if (how == WAITANY) {
            MPI_Waitany(count, requests, indices, MPI_STATUS_IGNORE);
            done = 1;
        } else if (how == WAITSOME) {
            MPI_Waitsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
        } else if (how == TESTALL) {
            MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE);
            done = flag ? left : 0;
        } else if (how == TESTANY) {
            MPI_Testany(count, requests, indices, &flag, MPI_STATUS_IGNORE);
            done = flag ? 1 : 0;
        } else {
            MPI_Testsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
        }
        MT_CHECK(done >= 0 && done <= left, "%s: %d done of %d", completion_names[how], done, left);
        left -= done;
    }
    for (int i = 0; i < count; i++)
        MT_CHECK(requests[i] == MPI_REQUEST_NULL, "%s left request %d", completion_names[how], i);
    free(indices);
}

/* `count` sends and as many receives in flight at once, all of one tag. */
static void test_window(int count, size_t size, enum completion how)
{
    size_t stride = size + 8;
    unsigned char *out = mt_alloc(stride * (size_t)count), *in = mt_alloc(stride * (size_t)count);
    MPI_Request *requests = mt_alloc(sizeof(*requests) * 2 * (size_t)count);

    mt_phase("window of %d, %zu bytes, %s", count, size, completion_names[how]);
    memset(in, MT_POISON, stride * (size_t)count);
    for (int i = 0; i < count; i++) {
        size_t at = stride * (size_t)i;

        mt_fill(out + at, size, out_key(6, (uint64_t)i));
        MPI_Isend(out + at, mt_count(size), MPI_BYTE, dst_rank, 6, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < count; i++)
        MPI_Irecv(in + stride * (size_t)i, mt_count(size), MPI_BYTE, src_rank, 6, MPI_COMM_WORLD,
                  &requests[count + i]);
    complete(2 * count, requests, how);
    for (int i = 0; i < count; i++) {
        size_t at = stride * (size_t)i;

        mt_verify(in + at, size, in_key(6, (uint64_t)i), "window");
        for (size_t k = size; k < stride; k++)
            MT_CHECK(in[at + k] == MT_POISON, "window: message %d overran by %zu", i, k - size + 1);
    }
    free(out);
    free(in);
    free(requests);
}

static void test_windows(void)
{
    static const struct {
        int count;
        size_t size;
    } windows[] = {{1, 8},       {2, 70000},  {16, 0},    {64, 1472},   {100, 40},
                   {100, 20000}, {64, 70000}, {1000, 64}, {1000, 3000}, {10, 1048576}};

    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        for (int how = 0; how < COMPLETION_COUNT; how++) {
            if (windows[i].count <= 100 && windows[i].size < 100000)
                test_window(windows[i].count, windows[i].size, (enum completion)how);
            else if (how == WAITALL || (!mt.quick && how == TESTSOME))
                test_window(mt_scaled(windows[i].count, windows[i].count / 4), windows[i].size,
                            (enum completion)how);
        }
    }
    /* The full thousand whatever the rank count: it is the queue bound that is under test. */
    test_window(1000, 16, WAITSOME);
}

int main(int argc, char **argv)
{
    struct mt_buf out, in;

    mt_start(argc, argv, "modes", MPI_THREAD_SINGLE);
    dst_rank = (mt.rank + 1) % mt.size;
    src_rank = (mt.rank - 1 + mt.size) % mt.size;
    mt_buf_init(&out, LARGEST);
    mt_buf_init(&in, LARGEST);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        test_synchronous(&out, &in, sizes[i]);
        test_ssend(&out, &in, sizes[i]);
        test_ready(&out, &in, sizes[i]);
    }
    test_buffered(&out, &in);
    test_persistent();
    test_windows();
    mt_buf_fini(&out);
    mt_buf_fini(&in);
    mt_finish("Ssend, Rsend, Bsend, persistent, windows to 1000");
    return 0;
}
