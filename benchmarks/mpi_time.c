/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A PMPI layer that measures the time spent inside MPI. It is linked into a program, where its
 * definitions also take the calls of the program's shared libraries (HYPRE).
 *
 * Covered is each call that can wait for, or move, data. Calls that only read local state cost
 * nothing worth measuring and go straight to the library.
 */
#include "benchmarks/mpi_time.h"

#include <mpi.h>
#include <time.h>

static double total_seconds;
static uint64_t total_calls;

double mpi_time_seconds(void)
{
    return total_seconds;
}

uint64_t mpi_time_calls(void)
{
    return total_calls;
}

static double now_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* X(call, parameters, arguments). Open MPI's own prototypes check each line. */
#define TIMED_CALLS(X)                                                                           \
    X(MPI_Send, (const void *b, int n, MPI_Datatype t, int dst, int tag, MPI_Comm c),            \
      (b, n, t, dst, tag, c))                                                                    \
    X(MPI_Ssend, (const void *b, int n, MPI_Datatype t, int dst, int tag, MPI_Comm c),           \
      (b, n, t, dst, tag, c))                                                                    \
    X(MPI_Rsend, (const void *b, int n, MPI_Datatype t, int dst, int tag, MPI_Comm c),           \
      (b, n, t, dst, tag, c))                                                                    \
    X(MPI_Bsend, (const void *b, int n, MPI_Datatype t, int dst, int tag, MPI_Comm c),           \
      (b, n, t, dst, tag, c))                                                                    \
    X(MPI_Isend,                                                                                 \
      (const void *b, int n, MPI_Datatype t, int dst, int tag, MPI_Comm c, MPI_Request *r),      \
      (b, n, t, dst, tag, c, r))                                                                 \
    X(MPI_Issend,                                                                                \
      (const void *b, int n, MPI_Datatype t, int dst, int tag, MPI_Comm c, MPI_Request *r),      \
      (b, n, t, dst, tag, c, r))                                                                 \
    X(MPI_Irsend,                                                                                \
      (const void *b, int n, MPI_Datatype t, int dst, int tag, MPI_Comm c, MPI_Request *r),      \
      (b, n, t, dst, tag, c, r))                                                                 \
    X(MPI_Recv, (void *b, int n, MPI_Datatype t, int src, int tag, MPI_Comm c, MPI_Status *s),   \
      (b, n, t, src, tag, c, s))                                                                 \
    X(MPI_Irecv, (void *b, int n, MPI_Datatype t, int src, int tag, MPI_Comm c, MPI_Request *r), \
      (b, n, t, src, tag, c, r))                                                                 \
    X(MPI_Sendrecv,                                                                              \
      (const void *sb, int sn, MPI_Datatype st, int dst, int stag, void *rb, int rn,             \
       MPI_Datatype rt, int src, int rtag, MPI_Comm c, MPI_Status *s),                           \
      (sb, sn, st, dst, stag, rb, rn, rt, src, rtag, c, s))                                      \
    X(MPI_Start, (MPI_Request * r), (r))                                                         \
    X(MPI_Startall, (int n, MPI_Request r[]), (n, r))                                            \
    X(MPI_Probe, (int src, int tag, MPI_Comm c, MPI_Status *s), (src, tag, c, s))                \
    X(MPI_Iprobe, (int src, int tag, MPI_Comm c, int *f, MPI_Status *s), (src, tag, c, f, s))    \
    X(MPI_Wait, (MPI_Request * r, MPI_Status * s), (r, s))                                       \
    X(MPI_Waitall, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s))                          \
    X(MPI_Waitany, (int n, MPI_Request r[], int *i, MPI_Status *s), (n, r, i, s))                \
    X(MPI_Waitsome, (int n, MPI_Request r[], int *m, int i[], MPI_Status s[]), (n, r, m, i, s))  \
    X(MPI_Test, (MPI_Request * r, int *f, MPI_Status *s), (r, f, s))                             \
    X(MPI_Testall, (int n, MPI_Request r[], int *f, MPI_Status s[]), (n, r, f, s))               \
    X(MPI_Testany, (int n, MPI_Request r[], int *i, int *f, MPI_Status *s), (n, r, i, f, s))     \
    X(MPI_Testsome, (int n, MPI_Request r[], int *m, int i[], MPI_Status s[]), (n, r, m, i, s))  \
    X(MPI_Barrier, (MPI_Comm c), (c))                                                            \
    X(MPI_Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))     \
    X(MPI_Reduce,                                                                                \
      (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c),          \
      (s, r, n, t, op, root, c))                                                                 \
    X(MPI_Allreduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),     \
      (s, r, n, t, op, c))                                                                       \
    X(MPI_Scan, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),          \
      (s, r, n, t, op, c))                                                                       \
    X(MPI_Gather,                                                                                \
      (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, int root,       \
       MPI_Comm c),                                                                              \
      (s, sn, st, r, rn, rt, root, c))                                                           \
    X(MPI_Gatherv,                                                                               \
      (const void *s, int sn, MPI_Datatype st, void *r, const int rn[], const int displs[],      \
       MPI_Datatype rt, int root, MPI_Comm c),                                                   \
      (s, sn, st, r, rn, displs, rt, root, c))                                                   \
    X(MPI_Scatter,                                                                               \
      (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, int root,       \
       MPI_Comm c),                                                                              \
      (s, sn, st, r, rn, rt, root, c))                                                           \
    X(MPI_Scatterv,                                                                              \
      (const void *s, const int sn[], const int displs[], MPI_Datatype st, void *r, int rn,      \
       MPI_Datatype rt, int root, MPI_Comm c),                                                   \
      (s, sn, displs, st, r, rn, rt, root, c))                                                   \
    X(MPI_Allgather,                                                                             \
      (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, MPI_Comm c),    \
      (s, sn, st, r, rn, rt, c))                                                                 \
    X(MPI_Allgatherv,                                                                            \
      (const void *s, int sn, MPI_Datatype st, void *r, const int rn[], const int displs[],      \
       MPI_Datatype rt, MPI_Comm c),                                                             \
      (s, sn, st, r, rn, displs, rt, c))                                                         \
    X(MPI_Alltoall,                                                                              \
      (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, MPI_Comm c),    \
      (s, sn, st, r, rn, rt, c))                                                                 \
    X(MPI_Comm_dup, (MPI_Comm c, MPI_Comm * n), (c, n))                                          \
    X(MPI_Comm_create, (MPI_Comm c, MPI_Group g, MPI_Comm * n), (c, g, n))                       \
    X(MPI_Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *n), (c, color, key, n))         \
    X(MPI_Comm_free, (MPI_Comm * c), (c))

#define DEFINE(call, parameters, arguments)     \
    int call parameters                         \
    {                                           \
        double begin = now_seconds();           \
        int rc = P##call arguments;             \
        total_seconds += now_seconds() - begin; \
        total_calls++;                          \
        return rc;                              \
    }
TIMED_CALLS(DEFINE)
