/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI traffic whose calls and bytes are known: does it, and prints what mpi_time.so must report of
 * it, a line "expected: rank=R call=NAME calls=N sent_bytes=B received_bytes=B" for each function.
 * Even number of ranks; the argument "threads" takes MPI_THREAD_MULTIPLE and sends from threads.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CALLS 64
#define ROOM       100000 /* of a receive: more than any message has */
#define THREADS    4
#define MESSAGES   500

struct expected {
    const char *call;
    unsigned long long calls, sent, received;
};

static struct expected expected[MOST_CALLS];
static int rank, ranks, partner;
static char out[ROOM], in[ROOM];

/* One call of that name was made. */
static void did(const char *call, unsigned long long sent, unsigned long long received)
{
    struct expected *at = expected;
    while (at->call && strcmp(at->call, call))
        at++;
    if (at == expected + MOST_CALLS - 1) {
        fprintf(stderr, "more than %d functions\n", MOST_CALLS);
        exit(1);
    }
    at->call = call;
    at->calls++;
    at->sent += sent;
    at->received += received;
}

static void blocking(void)
{
    MPI_Status status;
    if (rank % 2 == 0) {
        MPI_Send(out, 1000, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
        did("MPI_Send", 1000, 0);
        MPI_Ssend(out, 125, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD);
        did("MPI_Ssend", 1000, 0);
        MPI_Send(out, 5000, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
        did("MPI_Send", 0, 0);
    } else {
        MPI_Recv(in, ROOM, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        did("MPI_Recv", 0, 1000);
        MPI_Recv(in, ROOM, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        did("MPI_Recv", 0, 1000);
        MPI_Recv(in, ROOM, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        did("MPI_Recv", 0, 0);
    }
    MPI_Sendrecv(out, 10 * (rank + 1), MPI_BYTE, partner, 2, in, ROOM, MPI_BYTE, partner, 2,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    did("MPI_Sendrecv", 10ull * (unsigned)(rank + 1), 10ull * (unsigned)(partner + 1));
}

static void nonblocking(void)
{
    MPI_Request requests[4];
    int index, flag = 0, count, indices[4];
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(in + i * 1000, 1000, MPI_BYTE, partner, 3 + i, MPI_COMM_WORLD, &requests[i]);
        did("MPI_Irecv", 0, 0);
        MPI_Isend(out, 100 + i, MPI_BYTE, partner, 3 + i, MPI_COMM_WORLD, &requests[2 + i]);
        did("MPI_Isend", 100ull + (unsigned)i, 0);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    did("MPI_Waitall", 0, 201);

    MPI_Irecv(in, ROOM, MPI_BYTE, partner, 5, MPI_COMM_WORLD, &requests[0]);
    did("MPI_Irecv", 0, 0);
    requests[1] = MPI_REQUEST_NULL;
    MPI_Send(out, 77, MPI_BYTE, partner, 5, MPI_COMM_WORLD);
    did("MPI_Send", 77, 0);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    did("MPI_Waitany", 0, 77);

    MPI_Irecv(in, ROOM, MPI_BYTE, partner, 6, MPI_COMM_WORLD, &requests[1]);
    did("MPI_Irecv", 0, 0);
    MPI_Send(out, 33, MPI_BYTE, partner, 6, MPI_COMM_WORLD);
    did("MPI_Send", 33, 0);
    MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
    did("MPI_Waitsome", 0, 33);

    MPI_Irecv(in, ROOM, MPI_BYTE, partner, 7, MPI_COMM_WORLD, &requests[0]);
    did("MPI_Irecv", 0, 0);
    MPI_Send(out, 11, MPI_BYTE, partner, 7, MPI_COMM_WORLD);
    did("MPI_Send", 11, 0);
    while (!flag) {
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        did("MPI_Test", 0, flag ? 11 : 0);
    }
}

/* Two receives, the first of which is too short for its message, both complete. */
static void truncated_and_good(MPI_Request requests[2])
{
    static const int sizes[2] = {10, 1000};
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(in, sizes[i], MPI_BYTE, partner, 10 + i, MPI_COMM_WORLD, &requests[i]);
        did("MPI_Irecv", 0, 0);
    }
    /* Both messages have been taken when one that was sent after them has. */
    for (int i = 0; i < 2; i++) {
        MPI_Sendrecv(out, 100 + i, MPI_BYTE, partner, 10 + i, in, ROOM, MPI_BYTE, MPI_PROC_NULL, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        did("MPI_Sendrecv", 100ull + (unsigned)i, 0);
    }
    MPI_Sendrecv(out, 1, MPI_BYTE, partner, 12, in, ROOM, MPI_BYTE, partner, 12, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    did("MPI_Sendrecv", 1, 1);
}

static void need(int truth, const char *what)
{
    if (!truth) {
        fprintf(stderr, "rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* A receive that fails does not count, those that were waited for with it do. */
static void truncated(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int flag, count, indices[2];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);

    truncated_and_good(requests);
    need(MPI_Waitall(2, requests, statuses) == MPI_ERR_IN_STATUS, "Waitall did not fail");
    did("MPI_Waitall", 0, 101);
    truncated_and_good(requests);
    need(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_ERR_IN_STATUS,
         "Waitall without statuses did not fail");
    did("MPI_Waitall", 0, 101);
    truncated_and_good(requests);
    need(MPI_Testall(2, requests, &flag, statuses) == MPI_ERR_IN_STATUS, "Testall did not fail");
    did("MPI_Testall", 0, 101);
    truncated_and_good(requests);
    need(MPI_Waitsome(2, requests, &count, indices, statuses) == MPI_ERR_IN_STATUS && count == 2,
         "Waitsome did not fail");
    did("MPI_Waitsome", 0, 101);
    truncated_and_good(requests);
    need(MPI_Testsome(2, requests, &count, indices, MPI_STATUSES_IGNORE) == MPI_ERR_IN_STATUS &&
             count == 2,
         "Testsome did not fail");
    did("MPI_Testsome", 0, 101);

    truncated_and_good(requests);
    need(MPI_Waitany(2, requests, indices, statuses) == MPI_ERR_TRUNCATE, "Waitany did not fail");
    did("MPI_Waitany", 0, 0);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    did("MPI_Wait", 0, 101);
    truncated_and_good(requests);
    need(MPI_Test(&requests[0], &flag, statuses) == MPI_ERR_TRUNCATE, "Test did not fail");
    did("MPI_Test", 0, 0);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    did("MPI_Wait", 0, 101);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Looks until the request is complete; the first such look counts the bytes. */
static void look(MPI_Request request, unsigned long long bytes)
{
    for (int flag = 0; !flag;) {
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
        did("MPI_Request_get_status", 0, flag ? bytes : 0);
    }
}

/* Requests whose end is seen before they are waited for or freed. */
static void looked_at(void)
{
    MPI_Request request;
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(in, ROOM, MPI_BYTE, partner, 13, MPI_COMM_WORLD, &request);
        did("MPI_Irecv", 0, 0);
        MPI_Send(out, 90, MPI_BYTE, partner, 13, MPI_COMM_WORLD);
        did("MPI_Send", 90, 0);
        look(request, 90);
        look(request, 0);
        if (i == 0) {
            MPI_Request_free(&request);
            did("MPI_Request_free", 0, 0);
        } else {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            did("MPI_Wait", 0, 0);
        }
    }
    MPI_Recv_init(in, ROOM, MPI_BYTE, partner, 14, MPI_COMM_WORLD, &request);
    did("MPI_Recv_init", 0, 0);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        did("MPI_Start", 0, 0);
        MPI_Send(out, 80, MPI_BYTE, partner, 14, MPI_COMM_WORLD);
        did("MPI_Send", 80, 0);
        if (i < 2) {
            look(request, 80);
            look(request, 0);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        did("MPI_Wait", 0, i < 2 ? 0 : 80);
        look(request, 0);
    }
    MPI_Request_free(&request);
    did("MPI_Request_free", 0, 0);
}

static void persistent(void)
{
    MPI_Request requests[2];
    MPI_Send_init(out, 64, MPI_INT, partner, 8, MPI_COMM_WORLD, &requests[0]);
    did("MPI_Send_init", 0, 0);
    MPI_Recv_init(in, ROOM, MPI_BYTE, partner, 8, MPI_COMM_WORLD, &requests[1]);
    did("MPI_Recv_init", 0, 0);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        did("MPI_Startall", 256, 0);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        did("MPI_Waitall", 0, 256);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Request_free(&requests[i]);
        did("MPI_Request_free", 0, 0);
    }
}

static void matched(void)
{
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    for (int i = 0; i < 2; i++) {
        MPI_Isend(out, 2000, MPI_BYTE, partner, 9, MPI_COMM_WORLD, &request);
        did("MPI_Isend", 2000, 0);
        MPI_Mprobe(partner, 9, MPI_COMM_WORLD, &message, &status);
        did("MPI_Mprobe", 0, 0);
        if (i == 0) {
            MPI_Mrecv(in, ROOM, MPI_BYTE, &message, MPI_STATUS_IGNORE);
            did("MPI_Mrecv", 0, 2000);
        } else {
            MPI_Request received;
            MPI_Imrecv(in, ROOM, MPI_BYTE, &message, &received);
            did("MPI_Imrecv", 0, 0);
            MPI_Wait(&received, MPI_STATUS_IGNORE);
            did("MPI_Wait", 0, 2000);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        did("MPI_Wait", 0, 0);
    }
}

static void collectives(void)
{
    const unsigned long long all = (unsigned)ranks;
    MPI_Request request;
    int counts[64], offsets[64];
    MPI_Barrier(MPI_COMM_WORLD);
    did("MPI_Barrier", 0, 0);
    MPI_Bcast(out, 300, MPI_BYTE, 0, MPI_COMM_WORLD);
    did("MPI_Bcast", rank == 0 ? 300 : 0, rank == 0 ? 0 : 300);
    MPI_Allreduce(MPI_IN_PLACE, in, 10, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    did("MPI_Allreduce", 80, 80);
    MPI_Reduce(out, in, 10, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
    did("MPI_Reduce", 40, rank == 1 ? 40 : 0);
    MPI_Alltoall(out, 20, MPI_BYTE, in, 20, MPI_BYTE, MPI_COMM_WORLD);
    did("MPI_Alltoall", 20 * all, 20 * all);
    MPI_Gather(out, 50, MPI_BYTE, in, 50, MPI_BYTE, 0, MPI_COMM_WORLD);
    did("MPI_Gather", 50, rank == 0 ? 50 * all : 0);
    for (int i = 0; i < ranks; i++) {
        counts[i] = i + 1;
        offsets[i] = i * 100;
    }
    MPI_Allgatherv(out, rank + 1, MPI_BYTE, in, counts, offsets, MPI_BYTE, MPI_COMM_WORLD);
    did("MPI_Allgatherv", (unsigned)rank + 1, all * (all + 1) / 2);
    MPI_Ialltoall(out, 5, MPI_INT, in, 5, MPI_INT, MPI_COMM_WORLD, &request);
    did("MPI_Ialltoall", 20 * all, 20 * all);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    did("MPI_Wait", 0, 0);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    did("MPI_Ibarrier", 0, 0);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    did("MPI_Wait", 0, 0);
}

/* A row of ranks has no neighbour before the first and after the last; a ring has. */
static void neighbors(void)
{
    for (int ring = 0; ring < 2; ring++) {
        const int counts[2] = {3, 5}, offsets[2] = {0, 10};
        const MPI_Aint displacements[2] = {0, 10};
        const MPI_Datatype types[2] = {MPI_BYTE, MPI_INT};
        const unsigned lower = ring || rank > 0, upper = ring || rank < ranks - 1;
        const unsigned both = lower + upper, bytes = 3 * lower + 5 * upper;
        MPI_Comm grid;
        MPI_Request request;
        MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &ring, 0, &grid);
        did("MPI_Cart_create", 0, 0);
        MPI_Neighbor_allgather(out, 100, MPI_BYTE, in, 100, MPI_BYTE, grid);
        did("MPI_Neighbor_allgather", 100, 100 * both);
        MPI_Neighbor_allgatherv(out, 4, MPI_BYTE, in, (int[]){4, 4}, offsets, MPI_BYTE, grid);
        did("MPI_Neighbor_allgatherv", 4, 4 * both);
        MPI_Ineighbor_alltoall(out, 100, MPI_BYTE, in, 100, MPI_BYTE, grid, &request);
        did("MPI_Ineighbor_alltoall", 100 * both, 100 * both);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        did("MPI_Wait", 0, 0);
        /* What goes up is received from below. */
        MPI_Neighbor_alltoallv(out, counts, offsets, MPI_BYTE, in, (int[]){5, 3}, offsets, MPI_BYTE,
                               grid);
        did("MPI_Neighbor_alltoallv", bytes, 5 * lower + 3 * upper);
        MPI_Neighbor_alltoallw(out, (int[]){4, 1}, displacements, types, in, (int[]){4, 1},
                               displacements, types, grid);
        did("MPI_Neighbor_alltoallw", 4 * both, 4 * both);
        MPI_Comm_free(&grid);
        did("MPI_Comm_free", 0, 0);
    }
}

static void one_sided(void)
{
    static long word[4];
    MPI_Win window;
    MPI_Win_create(word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    did("MPI_Win_create", 0, 0);
    MPI_Win_fence(0, window);
    MPI_Put(out, 8, MPI_BYTE, partner, 0, 8, MPI_BYTE, window);
    did("MPI_Put", 8, 0);
    MPI_Get(in, 16, MPI_BYTE, partner, 8, 16, MPI_BYTE, window);
    did("MPI_Get", 0, 16);
    MPI_Put(out, 8, MPI_BYTE, MPI_PROC_NULL, 0, 8, MPI_BYTE, window);
    did("MPI_Put", 0, 0);
    MPI_Win_fence(0, window);
    did("MPI_Win_fence", 0, 0);
    did("MPI_Win_fence", 0, 0);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, partner, 0, window);
    did("MPI_Win_lock", 0, 0);
    MPI_Accumulate(out, 1, MPI_LONG, partner, 24, 1, MPI_LONG, MPI_SUM, window);
    did("MPI_Accumulate", sizeof(long), 0);
    MPI_Win_unlock(partner, window);
    did("MPI_Win_unlock", 0, 0);
    MPI_Win_free(&window);
    did("MPI_Win_free", 0, 0);
}

static void communicators(void)
{
    MPI_Comm split, copy;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &split);
    did("MPI_Comm_split", 0, 0);
    MPI_Comm_dup(split, &copy);
    did("MPI_Comm_dup", 0, 0);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&split);
    did("MPI_Comm_free", 0, 0);
    did("MPI_Comm_free", 0, 0);
}

static void *exchange(void *argument)
{
    const int tag = 100 + (int)(intptr_t)argument;
    char mine[64] = {0}, other[256];
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Request request;
        MPI_Irecv(other, sizeof other, MPI_BYTE, partner, tag, MPI_COMM_WORLD, &request);
        MPI_Send(mine, 1 + i % 64, MPI_BYTE, partner, tag, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, exchange, (void *)i))
            exit(1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS * MESSAGES; i++) {
        const unsigned bytes = 1 + (unsigned)(i % MESSAGES) % 64;
        did("MPI_Irecv", 0, 0);
        did("MPI_Send", bytes, 0);
        did("MPI_Wait", 0, bytes);
    }
}

int main(int argc, char **argv)
{
    const int threaded = argc > 1 && !strcmp(argv[1], "threads");
    int provided = MPI_THREAD_SINGLE;
    if (threaded)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    partner = rank ^ 1;
    if (ranks % 2 || (threaded && provided != MPI_THREAD_MULTIPLE))
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (threaded) {
        threads();
    } else {
        blocking();
        nonblocking();
        truncated();
        looked_at();
        persistent();
        matched();
        collectives();
        neighbors();
        one_sided();
        communicators();
    }
    for (const struct expected *e = expected; e->call; e++)
        printf("expected: rank=%d call=%s calls=%llu sent_bytes=%llu received_bytes=%llu\n", rank,
               e->call, e->calls, e->sent, e->received);
    MPI_Finalize();
    return 0;
}
