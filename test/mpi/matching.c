/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching: wildcards, unexpected messages, truncation, order, probes, cancelled receives,
 * communicators that must not mix.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define MAX_BYTES (1024 * 1024 + 1)

/* Below and above every eager limit in use, so that protocols mix within one order. */
static const size_t mixed_sizes[] = {8, 300000, 0, 1, 70000, 1500, 40000, 4097, 64, 131072, 20000};
#define MIXED_COUNT (sizeof(mixed_sizes) / sizeof(mixed_sizes[0]))

static const size_t class_sizes[] = {0,     1,     64,    1447,   1448,     1472,
                                     4040,  4096,  8192,  16384,  32712,    32713,
                                     65480, 65536, 65537, 131072, MAX_BYTES};
#define CLASS_COUNT (sizeof(class_sizes) / sizeof(class_sizes[0]))

static int next_rank, previous_rank;

/* A payload of its own for each message that may be pending at once. */
static unsigned char *payload_new(size_t len, struct mt_key key)
{
    unsigned char *p = mt_alloc(len);

    mt_fill(p, len, key);
    return p;
}

/* ---- wildcards ---------------------------------------------------------------------------- */

static void wildcard_receive_all(int per_rank)
{
    struct mt_buf buf;
    int *seen = mt_alloc(sizeof(int) * (size_t)mt.size);

    memset(seen, 0, sizeof(int) * (size_t)mt.size);
    mt_buf_init(&buf, MAX_BYTES);
    for (int i = 0; i < per_rank * (mt.size - 1); i++) {
        size_t size;
        int src, seq;
        MPI_Status status;

        mt_buf_arm(&buf, MAX_BYTES, (size_t)i % 8);
        MPI_Recv(buf.data, MAX_BYTES, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                 &status);
        src = status.MPI_SOURCE;
        MT_CHECK(src > 0 && src < mt.size, "wildcard receive: source %d", src);
        seq = seen[src]++;
        size = mixed_sizes[(size_t)(seq + src) % MIXED_COUNT];
        mt_check_status(&status, src, 100 + seq, size, "wildcard receive");
        mt_verify(buf.data, size, (struct mt_key){src, 0, 100 + seq, (uint64_t)seq}, "wildcard");
        mt_buf_check_guards(&buf, "wildcard");
    }
    mt_buf_fini(&buf);
    free(seen);
}

/* Everyone to rank 0, which takes what comes; per source the order must hold. */
static void test_wildcards(void)
{
    int per_rank = mt_scaled(66, 11);

    mt_phase("wildcards");
    if (mt.rank == 0) {
        wildcard_receive_all(per_rank);
        return;
    }
    for (int seq = 0; seq < per_rank; seq++) {
        size_t size = mixed_sizes[(size_t)(seq + mt.rank) % MIXED_COUNT];
        struct mt_key key = {mt.rank, 0, 100 + seq, (uint64_t)seq};
        unsigned char *p = payload_new(size, key);

        MPI_Send(p, mt_count(size), MPI_BYTE, 0, 100 + seq, MPI_COMM_WORLD);
        free(p);
    }
}

/* Half-open wildcards: any source of one tag, any tag of one source, posted before the sends. */
static void test_partial_wildcards(void)
{
    struct mt_key out_a = {mt.rank, next_rank, 7, 1}, out_b = {mt.rank, next_rank, 8, 2};
    struct mt_key in_a = {previous_rank, mt.rank, 7, 1}, in_b = {previous_rank, mt.rank, 8, 2};
    const size_t size = 50000;
    unsigned char *a = payload_new(size, out_a), *b = payload_new(size, out_b);
    struct mt_buf buf[2];
    MPI_Request requests[4];
    MPI_Status statuses[4];

    mt_phase("partial wildcards");
    for (int i = 0; i < 2; i++) {
        mt_buf_init(&buf[i], size);
        mt_buf_arm(&buf[i], size, 0);
    }
    MPI_Irecv(buf[1].data, mt_count(size), MPI_BYTE, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD,
              &requests[0]);
    MPI_Irecv(buf[0].data, mt_count(size), MPI_BYTE, previous_rank, MPI_ANY_TAG, MPI_COMM_WORLD,
              &requests[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(a, mt_count(size), MPI_BYTE, next_rank, 7, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(b, mt_count(size), MPI_BYTE, next_rank, 8, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, statuses);
    mt_check_status(&statuses[0], previous_rank, 8, size, "any source");
    mt_check_status(&statuses[1], previous_rank, 7, size, "any tag");
    mt_buf_verify(&buf[0], in_a, "any tag");
    mt_buf_verify(&buf[1], in_b, "any source");
    for (int i = 0; i < 2; i++)
        mt_buf_fini(&buf[i]);
    free(a);
    free(b);
}

/* ---- unexpected --------------------------------------------------------------------------- */

/* All sends start long before any receive is posted, then receives come in the opposite order. */
static void test_unexpected(void)
{
    MPI_Request requests[CLASS_COUNT];
    unsigned char *payloads[CLASS_COUNT];
    struct mt_buf buf;

    mt_phase("unexpected");
    for (size_t i = 0; i < CLASS_COUNT; i++) {
        struct mt_key key = {mt.rank, next_rank, (int)i, 3};

        payloads[i] = payload_new(class_sizes[i], key);
        MPI_Isend(payloads[i], mt_count(class_sizes[i]), MPI_BYTE, next_rank, (int)i,
                  MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    mt_sleep_ms(50);
    mt_buf_init(&buf, MAX_BYTES);
    for (size_t i = CLASS_COUNT; i-- > 0;) {
        struct mt_key key = {previous_rank, mt.rank, (int)i, 3};
        MPI_Status status;

        mt_buf_arm(&buf, class_sizes[i], i % 8);
        MPI_Recv(buf.data, mt_count(class_sizes[i]), MPI_BYTE, previous_rank, (int)i,
                 MPI_COMM_WORLD, &status);
        mt_check_status(&status, previous_rank, (int)i, class_sizes[i], "unexpected");
        mt_buf_verify(&buf, key, "unexpected");
    }
    MPI_Waitall((int)CLASS_COUNT, requests, MPI_STATUSES_IGNORE);
    for (size_t i = 0; i < CLASS_COUNT; i++)
        free(payloads[i]);
    mt_buf_fini(&buf);
}

/* ---- truncation --------------------------------------------------------------------------- */

/* Eager sizes only: Open MPI 4.1 itself overruns the buffer when a truncated receive meets RDMA. */
static void truncate_one(MPI_Comm comm, size_t sent, size_t room, bool expected)
{
    struct mt_key key = {mt.rank, next_rank, 9, sent};
    unsigned char *p = payload_new(sent, key);
    MPI_Request receive, send;
    MPI_Status status;
    struct mt_buf buf;
    int rc, class = MPI_SUCCESS;

    mt_phase("truncate %zu to %zu, %s", sent, room, expected ? "expected" : "unexpected");
    mt_buf_init(&buf, room);
    mt_buf_arm(&buf, room, 0);
    if (expected)
        MPI_Irecv(buf.data, mt_count(room), MPI_BYTE, previous_rank, 9, comm, &receive);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(p, mt_count(sent), MPI_BYTE, next_rank, 9, comm, &send);
    if (!expected) {
        MPI_Barrier(MPI_COMM_WORLD);
        mt_sleep_ms(5);
        MPI_Irecv(buf.data, mt_count(room), MPI_BYTE, previous_rank, 9, comm, &receive);
    }
    rc = MPI_Wait(&receive, &status);
    MPI_Error_class(rc, &class);
    MT_CHECK(class == MPI_ERR_TRUNCATE, "error class %d instead of MPI_ERR_TRUNCATE", class);
    mt_buf_check_guards(&buf, "truncated receive");
    MT_CHECK(MPI_Wait(&send, MPI_STATUS_IGNORE) == MPI_SUCCESS, "the send failed");
    mt_buf_fini(&buf);
    free(p);
}

static void test_truncation(void)
{
    static const struct {
        size_t sent, room;
    } cases[] = {{1000, 999}, {3000, 1}, {2000, 0}, {1, 0}, {3900, 2000}};
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        truncate_one(comm, cases[i].sent, cases[i].room, true);
        truncate_one(comm, cases[i].sent, cases[i].room, false);
    }
    MPI_Comm_free(&comm);
}

/* ---- order -------------------------------------------------------------------------------- */

/* One tag, sizes across all protocols: the n-th receive must get the n-th send. */
static void test_order(bool post_first)
{
    enum { COUNT = 44 };
    MPI_Request sends[COUNT], receives[COUNT];
    unsigned char *payloads[COUNT];
    struct mt_buf bufs[COUNT];

    mt_phase("order, receives posted %s", post_first ? "first" : "last");
    if (!post_first)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) {
        mt_buf_init(&bufs[i], 300000);
        mt_buf_arm(&bufs[i], 300000, 0);
    }
    for (int pass = 0; pass < 2; pass++) {
        bool receiving = (pass == 0) == post_first;

        for (int i = 0; i < COUNT; i++) {
            size_t size = mixed_sizes[(size_t)i % MIXED_COUNT];
            struct mt_key key = {mt.rank, next_rank, 5, (uint64_t)i};

            if (receiving) {
                MPI_Irecv(bufs[i].data, 300000, MPI_BYTE, previous_rank, 5, MPI_COMM_WORLD,
                          &receives[i]);
                continue;
            }
            payloads[i] = payload_new(size, key);
            MPI_Isend(payloads[i], mt_count(size), MPI_BYTE, next_rank, 5, MPI_COMM_WORLD,
                      &sends[i]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < COUNT; i++) {
        size_t size = mixed_sizes[(size_t)i % MIXED_COUNT];
        struct mt_key key = {previous_rank, mt.rank, 5, (uint64_t)i};
        MPI_Status status;

        MPI_Wait(&receives[i], &status);
        mt_check_status(&status, previous_rank, 5, size, "order");
        mt_verify(bufs[i].data, size, key, "order");
        mt_buf_check_guards(&bufs[i], "order");
    }
    MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; i++) {
        free(payloads[i]);
        mt_buf_fini(&bufs[i]);
    }
}

/* ---- probes ------------------------------------------------------------------------------- */

enum probe_kind { PROBE, IPROBE, MPROBE, IMPROBE, PROBE_COUNT };

/* Receives the next message of previous_rank the way `kind` says; its size is learnt by probing. */
static void probe_receive(struct mt_buf *buf, enum probe_kind kind, int tag, MPI_Status *status)
{
    int source = kind % 2 ? MPI_ANY_SOURCE : previous_rank;
    MPI_Message message = MPI_MESSAGE_NULL;
    int flag = 0, len = -1;

    if (kind == PROBE)
        MPI_Probe(source, tag, MPI_COMM_WORLD, status);
    while (kind == IPROBE && !flag)
        MPI_Iprobe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, status);
    if (kind == MPROBE)
        MPI_Mprobe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &message, status);
    while (kind == IMPROBE && !flag)
        MPI_Improbe(source, tag, MPI_COMM_WORLD, &flag, &message, status);
    MPI_Get_count(status, MPI_BYTE, &len);
    MT_CHECK(len >= 0, "probe: no count");
    mt_buf_arm(buf, (size_t)len, 1);
    if (kind == MPROBE) {
        MPI_Mrecv(buf->data, len, MPI_BYTE, &message, status);
    } else if (kind == IMPROBE) {
        MPI_Request request;

        MPI_Imrecv(buf->data, len, MPI_BYTE, &message, &request);
        MPI_Wait(&request, status);
    } else {
        MPI_Recv(buf->data, len, MPI_BYTE, status->MPI_SOURCE, status->MPI_TAG, MPI_COMM_WORLD,
                 status);
    }
}

static void test_probes(void)
{
    struct mt_buf buf;

    mt_buf_init(&buf, MAX_BYTES);
    for (int kind = 0; kind < PROBE_COUNT; kind++) {
        for (size_t i = 0; i < MIXED_COUNT; i++) {
            int tag = 200 + (int)i;
            struct mt_key out = {mt.rank, next_rank, tag, (uint64_t)kind};
            struct mt_key in = {previous_rank, mt.rank, tag, (uint64_t)kind};
            unsigned char *p = payload_new(mixed_sizes[i], out);
            MPI_Request send;
            MPI_Status status;

            mt_phase("probe kind %d, %zu bytes", kind, mixed_sizes[i]);
            MPI_Isend(p, mt_count(mixed_sizes[i]), MPI_BYTE, next_rank, tag, MPI_COMM_WORLD, &send);
            probe_receive(&buf, (enum probe_kind)kind, tag, &status);
            mt_check_status(&status, previous_rank, tag, mixed_sizes[i], "probe");
            mt_buf_verify(&buf, in, "probe");
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            free(p);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    mt_buf_fini(&buf);
}

/* ---- cancel ------------------------------------------------------------------------------- */

/* A cancelled receive must not take the message that comes later. */
static void test_cancel(size_t size)
{
    struct mt_key out = {mt.rank, next_rank, 11, size}, in = {previous_rank, mt.rank, 11, size};
    unsigned char *p = payload_new(size, out);
    struct mt_buf dead, alive;
    MPI_Request cancelled, receive, send;
    MPI_Status status;
    int flag = 0;

    mt_phase("cancel, then %zu bytes", size);
    mt_buf_init(&dead, size);
    mt_buf_init(&alive, size);
    mt_buf_arm(&dead, size, 0);
    mt_buf_arm(&alive, size, 0);
    MPI_Irecv(dead.data, mt_count(size), MPI_BYTE, previous_rank, 11, MPI_COMM_WORLD, &cancelled);
    MPI_Irecv(alive.data, mt_count(size), MPI_BYTE, previous_rank, 11, MPI_COMM_WORLD, &receive);
    MPI_Cancel(&cancelled);
    MPI_Wait(&cancelled, &status);
    MPI_Test_cancelled(&status, &flag);
    MT_CHECK(flag, "a receive that nothing matched was not cancelled");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(p, mt_count(size), MPI_BYTE, next_rank, 11, MPI_COMM_WORLD, &send);
    MPI_Wait(&receive, &status);
    mt_check_status(&status, previous_rank, 11, size, "after cancel");
    mt_buf_verify(&alive, in, "after cancel");
    for (size_t i = 0; i < size; i++)
        MT_CHECK(dead.data[i] == MT_POISON, "a cancelled receive was written at offset %zu", i);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    mt_buf_fini(&dead);
    mt_buf_fini(&alive);
    free(p);
}

/* ---- communicators ------------------------------------------------------------------------ */

/* Same peer, same tag, several communicators (one with other rank numbers), received in reverse. */
static void test_communicators(void)
{
    enum { COMMS = 4 };
    MPI_Comm comms[COMMS];
    MPI_Request sends[COMMS];
    unsigned char *payloads[COMMS];
    struct mt_buf buf;
    MPI_Status status;

    mt_phase("communicators");
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_dup(comms[0], &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, mt.size - mt.rank, &comms[3]);
    for (int i = 0; i < COMMS; i++) {
        size_t size = mixed_sizes[i];
        int peer = i == 3 ? mt.size - 1 - next_rank : next_rank;

        payloads[i] = payload_new(size, (struct mt_key){mt.rank, next_rank, 1, (uint64_t)i});
        MPI_Isend(payloads[i], mt_count(size), MPI_BYTE, peer, 1, comms[i], &sends[i]);
    }
    mt_buf_init(&buf, MAX_BYTES);
    for (int i = COMMS - 1; i >= 0; i--) {
        size_t size = mixed_sizes[i];
        struct mt_key in = {previous_rank, mt.rank, 1, (uint64_t)i};

        mt_buf_arm(&buf, size, 0);
        MPI_Recv(buf.data, mt_count(size), MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i],
                 &status);
        mt_check_status(&status, i == 3 ? mt.size - 1 - previous_rank : previous_rank, 1, size,
                        "communicators");
        mt_buf_verify(&buf, in, "communicators");
    }
    MPI_Waitall(COMMS, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COMMS; i++) {
        free(payloads[i]);
        MPI_Comm_free(&comms[i]);
    }
    mt_buf_fini(&buf);
}

int main(int argc, char **argv)
{
    mt_start(argc, argv, "matching", MPI_THREAD_SINGLE);
    next_rank = (mt.rank + 1) % mt.size;
    previous_rank = (mt.rank - 1 + mt.size) % mt.size;
    test_wildcards();
    MPI_Barrier(MPI_COMM_WORLD);
    test_partial_wildcards();
    test_unexpected();
    test_truncation();
    test_order(true);
    test_order(false);
    test_probes();
    test_cancel(100);
    test_cancel(200000);
    test_communicators();
    mt_finish("wildcards, unexpected, truncated, order, probes, cancel, communicators");
    return 0;
}
