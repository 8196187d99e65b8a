/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI calls that mpi_time.c measures: each that moves data or can wait. Calls that only read or
 * build local state cost nothing worth measuring and go straight to the library; MPI-IO is left
 * out, though not the calls that ROMIO makes itself.
 *
 * X(call, class, parameters, arguments, before, after): `before` is compiled ahead of the call and
 * may change the arguments, `after` runs when it has succeeded; of class WAIT, always, for some of
 * the requests may have been completed by a call that fails. Open MPI's own prototypes check each
 * line. The functions used in them are those of mpi_time.c.
 */
#ifndef MPI_TIME_CALLS_H
#define MPI_TIME_CALLS_H

#define OPEN(...) __VA_ARGS__

#define MESSAGE_PARAMETERS const void *b, int n, MPI_Datatype t, int dst, int tag, MPI_Comm c
#define MESSAGE_ARGUMENTS  b, n, t, dst, tag, c

/* A send, its nonblocking and its persistent form. */
#define SENDS(X, blocking, nonblocking, persistent)                                        \
    X(blocking, PT2PT, (MESSAGE_PARAMETERS), (MESSAGE_ARGUMENTS), ,                        \
      SENT(message_bytes(n, t, dst)))                                                      \
    X(nonblocking, PT2PT, (MESSAGE_PARAMETERS, MPI_Request * r), (MESSAGE_ARGUMENTS, r), , \
      SENT(message_bytes(n, t, dst)))                                                      \
    X(persistent, PT2PT, (MESSAGE_PARAMETERS, MPI_Request * r), (MESSAGE_ARGUMENTS, r), ,  \
      mpi_time_track(*r, PERSISTENT_SEND, message_bytes(n, t, dst)))

#define PT2PT_CALLS(X)                                                                           \
    SENDS(X, MPI_Send, MPI_Isend, MPI_Send_init)                                                 \
    SENDS(X, MPI_Ssend, MPI_Issend, MPI_Ssend_init)                                              \
    SENDS(X, MPI_Rsend, MPI_Irsend, MPI_Rsend_init)                                              \
    SENDS(X, MPI_Bsend, MPI_Ibsend, MPI_Bsend_init)                                              \
    X(MPI_Recv, PT2PT,                                                                           \
      (void *b, int n, MPI_Datatype t, int src, int tag, MPI_Comm c, MPI_Status *s),             \
      (b, n, t, src, tag, c, s), OWN_STATUS(s), RECEIVED(mpi_time_status_bytes(s)))              \
    X(MPI_Irecv, PT2PT,                                                                          \
      (void *b, int n, MPI_Datatype t, int src, int tag, MPI_Comm c, MPI_Request *r),            \
      (b, n, t, src, tag, c, r), , mpi_time_track(*r, src == MPI_PROC_NULL ? NONE : RECEIVE, 0)) \
    X(MPI_Recv_init, PT2PT,                                                                      \
      (void *b, int n, MPI_Datatype t, int src, int tag, MPI_Comm c, MPI_Request *r),            \
      (b, n, t, src, tag, c, r), ,                                                               \
      mpi_time_track(*r, src == MPI_PROC_NULL ? NONE : PERSISTENT_RECEIVE, 0))                   \
    X(MPI_Mrecv, PT2PT, (void *b, int n, MPI_Datatype t, MPI_Message *m, MPI_Status *s),         \
      (b, n, t, m, s), OWN_STATUS(s), RECEIVED(mpi_time_status_bytes(s)))                        \
    X(MPI_Imrecv, PT2PT, (void *b, int n, MPI_Datatype t, MPI_Message *m, MPI_Request *r),       \
      (b, n, t, m, r), const bool none = *m == MPI_MESSAGE_NO_PROC,                              \
      mpi_time_track(*r, none ? NONE : RECEIVE, 0))                                              \
    X(MPI_Sendrecv, PT2PT,                                                                       \
      (const void *sb, int sn, MPI_Datatype st, int dst, int stag, void *rb, int rn,             \
       MPI_Datatype rt, int src, int rtag, MPI_Comm c, MPI_Status *s),                           \
      (sb, sn, st, dst, stag, rb, rn, rt, src, rtag, c, s), OWN_STATUS(s),                       \
      SENT(message_bytes(sn, st, dst)) RECEIVED(mpi_time_status_bytes(s)))                       \
    X(MPI_Sendrecv_replace, PT2PT,                                                               \
      (void *b, int n, MPI_Datatype t, int dst, int stag, int src, int rtag, MPI_Comm c,         \
       MPI_Status *s),                                                                           \
      (b, n, t, dst, stag, src, rtag, c, s), OWN_STATUS(s),                                      \
      SENT(message_bytes(n, t, dst)) RECEIVED(mpi_time_status_bytes(s)))                         \
    X(MPI_Start, PT2PT, (MPI_Request * r), (r), , SENT(mpi_time_started_bytes(*r)))              \
    X(MPI_Startall, PT2PT, (int n, MPI_Request r[]), (n, r), ,                                   \
      for (int i = 0; i < n; i++) SENT(mpi_time_started_bytes(r[i])))

#define WAIT_CALLS(X)                                                                              \
    X(MPI_Probe, WAIT, (int src, int tag, MPI_Comm c, MPI_Status *s), (src, tag, c, s), , )        \
    X(MPI_Iprobe, WAIT, (int src, int tag, MPI_Comm c, int *f, MPI_Status *s),                     \
      (src, tag, c, f, s), , )                                                                     \
    X(MPI_Mprobe, WAIT, (int src, int tag, MPI_Comm c, MPI_Message *m, MPI_Status *s),             \
      (src, tag, c, m, s), , )                                                                     \
    X(MPI_Improbe, WAIT, (int src, int tag, MPI_Comm c, int *f, MPI_Message *m, MPI_Status *s),    \
      (src, tag, c, f, m, s), , )                                                                  \
    X(MPI_Wait, WAIT, (MPI_Request * r, MPI_Status * s), (r, s), ONE_NOTED(r) OWN_STATUS(s),       \
      COMPLETED(1, r, mpi_time_completed_bytes(waited, s)))                                        \
    X(MPI_Test, WAIT, (MPI_Request * r, int *f, MPI_Status *s), (r, f, s),                         \
      ONE_NOTED(r) OWN_STATUS(s), COMPLETED(1, r, *f ? mpi_time_completed_bytes(waited, s) : 0))   \
    X(MPI_Waitall, WAIT, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s),                      \
      ALL_NOTED(n, r) OWN_STATUSES(n, s), COMPLETED(n, r, all_completed_bytes(rc, waited, n, s)))  \
    X(MPI_Testall, WAIT, (int n, MPI_Request r[], int *f, MPI_Status s[]), (n, r, f, s),           \
      ALL_NOTED(n, r) OWN_STATUSES(n, s),                                                          \
      COMPLETED(n, r, *f ? all_completed_bytes(rc, waited, n, s) : 0))                             \
    X(MPI_Waitany, WAIT, (int n, MPI_Request r[], int *i, MPI_Status *s), (n, r, i, s),            \
      ALL_NOTED(n, r) OWN_STATUS(s), COMPLETED(n, r, some_completed_bytes(rc, waited, 1, i, s)))   \
    X(MPI_Testany, WAIT, (int n, MPI_Request r[], int *i, int *f, MPI_Status *s), (n, r, i, f, s), \
      ALL_NOTED(n, r) OWN_STATUS(s),                                                               \
      COMPLETED(n, r, *f ? some_completed_bytes(rc, waited, 1, i, s) : 0))                         \
    X(MPI_Waitsome, WAIT, (int n, MPI_Request r[], int *m, int i[], MPI_Status s[]),               \
      (n, r, m, i, s), ALL_NOTED(n, r) OWN_STATUSES(n, s),                                         \
      COMPLETED(n, r, some_completed_bytes(rc, waited, *m, i, s)))                                 \
    X(MPI_Testsome, WAIT, (int n, MPI_Request r[], int *m, int i[], MPI_Status s[]),               \
      (n, r, m, i, s), ALL_NOTED(n, r) OWN_STATUSES(n, s),                                         \
      COMPLETED(n, r, some_completed_bytes(rc, waited, *m, i, s)))                                 \
    X(MPI_Request_get_status, WAIT, (MPI_Request r, int *f, MPI_Status *s), (r, f, s),             \
      ONE_NOTED(&r) OWN_STATUS(s),                                                                 \
      if (rc == MPI_SUCCESS && *f) RECEIVED(mpi_time_seen_bytes(waited, s)))

/* A collective and its nonblocking form. */
#define COLLECTIVE(X, blocking, nonblocking, parameters, arguments, after) \
    X(blocking, COLLECTIVE, parameters, arguments, , after)                \
    X(nonblocking, COLLECTIVE, (OPEN parameters, MPI_Request * q), (OPEN arguments, q), , after)

#define BLOCKS_PARAMETERS const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt
#define BLOCKS_ARGUMENTS  s, sn, st, r, rn, rt
#define REDUCE_PARAMETERS const void *s, void *r, int n, MPI_Datatype t, MPI_Op op
#define REDUCE_ARGUMENTS  s, r, n, t, op
#define VECTORS_PARAMETERS                                                                   \
    const void *s, const int sn[], const int sd[], MPI_Datatype st, void *r, const int rn[], \
        const int rd[], MPI_Datatype rt
#define VECTORS_ARGUMENTS s, sn, sd, st, r, rn, rd, rt

#define ROOTED_CALLS(X)                                                                            \
    COLLECTIVE(X, MPI_Bcast, MPI_Ibcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c),   \
               (b, n, t, root, c),                                                                 \
               if (is_root(root, c)) SENT(bytes(n, t)) else RECEIVED(message_bytes(n, t, root)))   \
    COLLECTIVE(X, MPI_Reduce, MPI_Ireduce, (REDUCE_PARAMETERS, int root, MPI_Comm c),              \
               (REDUCE_ARGUMENTS, root, c),                                                        \
               if (contributes(root)) SENT(bytes(n, t)) if (is_root(root, c))                      \
                   RECEIVED(bytes(n, t)))                                                          \
    COLLECTIVE(X, MPI_Gather, MPI_Igather, (BLOCKS_PARAMETERS, int root, MPI_Comm c),              \
               (BLOCKS_ARGUMENTS, root, c),                                                        \
               if (contributes(root))                                                              \
                   SENT(s == MPI_IN_PLACE ? bytes(rn, rt) : bytes(sn, st)) if (is_root(root, c))   \
                       RECEIVED(bytes(rn, rt) * group_size(c)))                                    \
    COLLECTIVE(X, MPI_Gatherv, MPI_Igatherv,                                                       \
               (const void *s, int sn, MPI_Datatype st, void *r, const int rn[], const int rd[],   \
                MPI_Datatype rt, int root, MPI_Comm c),                                            \
               (s, sn, st, r, rn, rd, rt, root, c),                                                \
               if (contributes(root))                                                              \
                   SENT(s == MPI_IN_PLACE ? bytes(rn[rank_in(c)], rt)                              \
                                          : bytes(sn, st)) if (is_root(root, c))                   \
                       RECEIVED(sum_bytes(rn, rt, group_size(c))))                                 \
    COLLECTIVE(X, MPI_Scatter, MPI_Iscatter, (BLOCKS_PARAMETERS, int root, MPI_Comm c),            \
               (BLOCKS_ARGUMENTS, root, c),                                                        \
               if (is_root(root, c)) SENT(bytes(sn, st) * group_size(c)) if (contributes(root))    \
                   RECEIVED(r == MPI_IN_PLACE ? bytes(sn, st) : bytes(rn, rt)))                    \
    COLLECTIVE(X, MPI_Scatterv, MPI_Iscatterv,                                                     \
               (const void *s, const int sn[], const int sd[], MPI_Datatype st, void *r, int rn,   \
                MPI_Datatype rt, int root, MPI_Comm c),                                            \
               (s, sn, sd, st, r, rn, rt, root, c),                                                \
               if (is_root(root, c)) SENT(sum_bytes(sn, st, group_size(c))) if (contributes(root)) \
                   RECEIVED(r == MPI_IN_PLACE ? bytes(sn[rank_in(c)], st) : bytes(rn, rt)))

#define ALL_CALLS(X)                                                                               \
    COLLECTIVE(X, MPI_Barrier, MPI_Ibarrier, (MPI_Comm c), (c), )                                  \
    COLLECTIVE(X, MPI_Allreduce, MPI_Iallreduce, (REDUCE_PARAMETERS, MPI_Comm c),                  \
               (REDUCE_ARGUMENTS, c), SENT(bytes(n, t)) RECEIVED(bytes(n, t)))                     \
    COLLECTIVE(X, MPI_Scan, MPI_Iscan, (REDUCE_PARAMETERS, MPI_Comm c), (REDUCE_ARGUMENTS, c),     \
               SENT(bytes(n, t)) RECEIVED(bytes(n, t)))                                            \
    COLLECTIVE(X, MPI_Exscan, MPI_Iexscan, (REDUCE_PARAMETERS, MPI_Comm c), (REDUCE_ARGUMENTS, c), \
               SENT(bytes(n, t)) RECEIVED(bytes(n, t)))                                            \
    COLLECTIVE(X, MPI_Reduce_scatter, MPI_Ireduce_scatter,                                         \
               (const void *s, void *r, const int rn[], MPI_Datatype t, MPI_Op op, MPI_Comm c),    \
               (s, r, rn, t, op, c),                                                               \
               SENT(sum_bytes(rn, t, local_size(c))) RECEIVED(bytes(rn[rank_in(c)], t)))           \
    COLLECTIVE(X, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block,                             \
               (REDUCE_PARAMETERS, MPI_Comm c), (REDUCE_ARGUMENTS, c),                             \
               SENT(bytes(n, t) * local_size(c)) RECEIVED(bytes(n, t)))                            \
    COLLECTIVE(X, MPI_Allgather, MPI_Iallgather, (BLOCKS_PARAMETERS, MPI_Comm c),                  \
               (BLOCKS_ARGUMENTS, c),                                                              \
               SENT(s == MPI_IN_PLACE ? bytes(rn, rt) : bytes(sn, st))                             \
                   RECEIVED(bytes(rn, rt) * group_size(c)))                                        \
    COLLECTIVE(X, MPI_Allgatherv, MPI_Iallgatherv,                                                 \
               (const void *s, int sn, MPI_Datatype st, void *r, const int rn[], const int rd[],   \
                MPI_Datatype rt, MPI_Comm c),                                                      \
               (s, sn, st, r, rn, rd, rt, c),                                                      \
               SENT(s == MPI_IN_PLACE ? bytes(rn[rank_in(c)], rt) : bytes(sn, st))                 \
                   RECEIVED(sum_bytes(rn, rt, group_size(c))))                                     \
    COLLECTIVE(X, MPI_Alltoall, MPI_Ialltoall, (BLOCKS_PARAMETERS, MPI_Comm c),                    \
               (BLOCKS_ARGUMENTS, c),                                                              \
               SENT((s == MPI_IN_PLACE ? bytes(rn, rt) : bytes(sn, st)) * group_size(c))           \
                   RECEIVED(bytes(rn, rt) * group_size(c)))                                        \
    COLLECTIVE(X, MPI_Alltoallv, MPI_Ialltoallv, (VECTORS_PARAMETERS, MPI_Comm c),                 \
               (VECTORS_ARGUMENTS, c),                                                             \
               SENT(s == MPI_IN_PLACE ? sum_bytes(rn, rt, group_size(c))                           \
                                      : sum_bytes(sn, st, group_size(c)))                          \
                   RECEIVED(sum_bytes(rn, rt, group_size(c))))                                     \
    COLLECTIVE(X, MPI_Alltoallw, MPI_Ialltoallw,                                                   \
               (const void *s, const int sn[], const int sd[], const MPI_Datatype st[], void *r,   \
                const int rn[], const int rd[], const MPI_Datatype rt[], MPI_Comm c),              \
               (s, sn, sd, st, r, rn, rd, rt, c),                                                  \
               SENT(s == MPI_IN_PLACE ? typed_bytes(rn, rt, group_size(c))                         \
                                      : typed_bytes(sn, st, group_size(c)))                        \
                   RECEIVED(typed_bytes(rn, rt, group_size(c))))

#define NEIGHBOR_CALLS(X)                                                                         \
    COLLECTIVE(X, MPI_Neighbor_allgather, MPI_Ineighbor_allgather,                                \
               (BLOCKS_PARAMETERS, MPI_Comm c), (BLOCKS_ARGUMENTS, c),                            \
               SENT(bytes(sn, st)) RECEIVED(neighbor_bytes(c, SOURCES, &rn, 0, &rt, 0)))          \
    COLLECTIVE(X, MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv,                              \
               (const void *s, int sn, MPI_Datatype st, void *r, const int rn[], const int rd[],  \
                MPI_Datatype rt, MPI_Comm c),                                                     \
               (s, sn, st, r, rn, rd, rt, c),                                                     \
               SENT(bytes(sn, st)) RECEIVED(neighbor_bytes(c, SOURCES, rn, 1, &rt, 0)))           \
    COLLECTIVE(X, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, (BLOCKS_PARAMETERS, MPI_Comm c), \
               (BLOCKS_ARGUMENTS, c),                                                             \
               SENT(neighbor_bytes(c, SINKS, &sn, 0, &st, 0))                                     \
                   RECEIVED(neighbor_bytes(c, SOURCES, &rn, 0, &rt, 0)))                          \
    COLLECTIVE(X, MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv,                                \
               (VECTORS_PARAMETERS, MPI_Comm c), (VECTORS_ARGUMENTS, c),                          \
               SENT(neighbor_bytes(c, SINKS, sn, 1, &st, 0))                                      \
                   RECEIVED(neighbor_bytes(c, SOURCES, rn, 1, &rt, 0)))                           \
    COLLECTIVE(X, MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw,                                \
               (const void *s, const int sn[], const MPI_Aint sd[], const MPI_Datatype st[],      \
                void *r, const int rn[], const MPI_Aint rd[], const MPI_Datatype rt[],            \
                MPI_Comm c),                                                                      \
               (s, sn, sd, st, r, rn, rd, rt, c),                                                 \
               SENT(neighbor_bytes(c, SINKS, sn, 1, st, 1))                                       \
                   RECEIVED(neighbor_bytes(c, SOURCES, rn, 1, rt, 1)))

/* An RMA operation and its form with a request. */
#define RMA(X, plain, with_request, parameters, arguments, after)                  \
    X(plain, ONESIDED, (OPEN parameters, MPI_Win w), (OPEN arguments, w), , after) \
    X(with_request, ONESIDED, (OPEN parameters, MPI_Win w, MPI_Request * q),       \
      (OPEN arguments, w, q), , after)

#define TARGET_PARAMETERS int target, MPI_Aint td, int tn, MPI_Datatype tt
#define TARGET_ARGUMENTS  target, td, tn, tt

#define ONESIDED_CALLS(X)                                                                      \
    RMA(X, MPI_Put, MPI_Rput, (const void *b, int n, MPI_Datatype t, TARGET_PARAMETERS),       \
        (b, n, t, TARGET_ARGUMENTS), SENT(message_bytes(n, t, target)))                        \
    RMA(X, MPI_Get, MPI_Rget, (void *b, int n, MPI_Datatype t, TARGET_PARAMETERS),             \
        (b, n, t, TARGET_ARGUMENTS), RECEIVED(message_bytes(n, t, target)))                    \
    RMA(X, MPI_Accumulate, MPI_Raccumulate,                                                    \
        (const void *b, int n, MPI_Datatype t, TARGET_PARAMETERS, MPI_Op op),                  \
        (b, n, t, TARGET_ARGUMENTS, op), SENT(message_bytes(n, t, target)))                    \
    RMA(X, MPI_Get_accumulate, MPI_Rget_accumulate,                                            \
        (const void *b, int n, MPI_Datatype t, void *r, int rn, MPI_Datatype rt,               \
         TARGET_PARAMETERS, MPI_Op op),                                                        \
        (b, n, t, r, rn, rt, TARGET_ARGUMENTS, op),                                            \
        if (op != MPI_NO_OP) SENT(message_bytes(n, t, target))                                 \
            RECEIVED(message_bytes(rn, rt, target)))                                           \
    X(MPI_Fetch_and_op, ONESIDED,                                                              \
      (const void *b, void *r, MPI_Datatype t, int target, MPI_Aint td, MPI_Op op, MPI_Win w), \
      (b, r, t, target, td, op, w), ,                                                          \
      if (op != MPI_NO_OP) SENT(message_bytes(1, t, target))                                   \
          RECEIVED(message_bytes(1, t, target)))                                               \
    X(MPI_Compare_and_swap, ONESIDED,                                                          \
      (const void *b, const void *compare, void *r, MPI_Datatype t, int target, MPI_Aint td,   \
       MPI_Win w),                                                                             \
      (b, compare, r, t, target, td, w), ,                                                     \
      SENT(2 * message_bytes(1, t, target)) RECEIVED(message_bytes(1, t, target)))             \
    X(MPI_Win_fence, ONESIDED, (int assert, MPI_Win w), (assert, w), , )                       \
    X(MPI_Win_start, ONESIDED, (MPI_Group g, int assert, MPI_Win w), (g, assert, w), , )       \
    X(MPI_Win_complete, ONESIDED, (MPI_Win w), (w), , )                                        \
    X(MPI_Win_post, ONESIDED, (MPI_Group g, int assert, MPI_Win w), (g, assert, w), , )        \
    X(MPI_Win_wait, ONESIDED, (MPI_Win w), (w), , )                                            \
    X(MPI_Win_test, ONESIDED, (MPI_Win w, int *f), (w, f), , )                                 \
    X(MPI_Win_lock, ONESIDED, (int type, int target, int assert, MPI_Win w),                   \
      (type, target, assert, w), , )                                                           \
    X(MPI_Win_unlock, ONESIDED, (int target, MPI_Win w), (target, w), , )                      \
    X(MPI_Win_lock_all, ONESIDED, (int assert, MPI_Win w), (assert, w), , )                    \
    X(MPI_Win_unlock_all, ONESIDED, (MPI_Win w), (w), , )                                      \
    X(MPI_Win_flush, ONESIDED, (int target, MPI_Win w), (target, w), , )                       \
    X(MPI_Win_flush_all, ONESIDED, (MPI_Win w), (w), , )                                       \
    X(MPI_Win_flush_local, ONESIDED, (int target, MPI_Win w), (target, w), , )                 \
    X(MPI_Win_flush_local_all, ONESIDED, (MPI_Win w), (w), , )                                 \
    X(MPI_Win_sync, ONESIDED, (MPI_Win w), (w), , )

#define COMMUNICATOR_CALLS(X)                                                                     \
    X(MPI_Comm_dup, OTHER, (MPI_Comm c, MPI_Comm * n), (c, n), , )                                \
    X(MPI_Comm_dup_with_info, OTHER, (MPI_Comm c, MPI_Info i, MPI_Comm * n), (c, i, n), , )       \
    X(MPI_Comm_idup, OTHER, (MPI_Comm c, MPI_Comm * n, MPI_Request * r), (c, n, r), , )           \
    X(MPI_Comm_create, OTHER, (MPI_Comm c, MPI_Group g, MPI_Comm * n), (c, g, n), , )             \
    X(MPI_Comm_create_group, OTHER, (MPI_Comm c, MPI_Group g, int tag, MPI_Comm *n),              \
      (c, g, tag, n), , )                                                                         \
    X(MPI_Comm_split, OTHER, (MPI_Comm c, int color, int key, MPI_Comm *n), (c, color, key, n),   \
      , )                                                                                         \
    X(MPI_Comm_split_type, OTHER, (MPI_Comm c, int type, int key, MPI_Info i, MPI_Comm *n),       \
      (c, type, key, i, n), , )                                                                   \
    X(MPI_Comm_free, OTHER, (MPI_Comm * c), (c), , )                                              \
    X(MPI_Comm_disconnect, OTHER, (MPI_Comm * c), (c), , )                                        \
    X(MPI_Intercomm_create, OTHER,                                                                \
      (MPI_Comm c, int leader, MPI_Comm bridge, int remote, int tag, MPI_Comm *n),                \
      (c, leader, bridge, remote, tag, n), , )                                                    \
    X(MPI_Intercomm_merge, OTHER, (MPI_Comm c, int high, MPI_Comm *n), (c, high, n), , )          \
    X(MPI_Cart_create, OTHER,                                                                     \
      (MPI_Comm c, int d, const int dims[], const int periods[], int reorder, MPI_Comm *n),       \
      (c, d, dims, periods, reorder, n), , )                                                      \
    X(MPI_Cart_sub, OTHER, (MPI_Comm c, const int remain[], MPI_Comm *n), (c, remain, n), , )     \
    X(MPI_Graph_create, OTHER,                                                                    \
      (MPI_Comm c, int nodes, const int index[], const int edges[], int reorder, MPI_Comm *n),    \
      (c, nodes, index, edges, reorder, n), , )                                                   \
    X(MPI_Dist_graph_create, OTHER,                                                               \
      (MPI_Comm c, int k, const int nodes[], const int degrees[], const int targets[],            \
       const int weights[], MPI_Info i, int reorder, MPI_Comm *n),                                \
      (c, k, nodes, degrees, targets, weights, i, reorder, n), , )                                \
    X(MPI_Dist_graph_create_adjacent, OTHER,                                                      \
      (MPI_Comm c, int in, const int sources[], const int in_weights[], int out,                  \
       const int targets[], const int out_weights[], MPI_Info i, int reorder, MPI_Comm *n),       \
      (c, in, sources, in_weights, out, targets, out_weights, i, reorder, n), , )                 \
    X(MPI_Comm_spawn, OTHER,                                                                      \
      (const char *command, char *argv[], int k, MPI_Info i, int root, MPI_Comm c, MPI_Comm *n,   \
       int errors[]),                                                                             \
      (command, argv, k, i, root, c, n, errors), , )                                              \
    X(MPI_Comm_spawn_multiple, OTHER,                                                             \
      (int count, char *commands[], char **argvs[], const int k[], const MPI_Info i[], int root,  \
       MPI_Comm c, MPI_Comm *n, int errors[]),                                                    \
      (count, commands, argvs, k, i, root, c, n, errors), , )                                     \
    X(MPI_Comm_accept, OTHER, (const char *port, MPI_Info i, int root, MPI_Comm c, MPI_Comm *n),  \
      (port, i, root, c, n), , )                                                                  \
    X(MPI_Comm_connect, OTHER, (const char *port, MPI_Info i, int root, MPI_Comm c, MPI_Comm *n), \
      (port, i, root, c, n), , )                                                                  \
    X(MPI_Comm_join, OTHER, (int fd, MPI_Comm *n), (fd, n), , )                                   \
    X(MPI_Win_create, OTHER,                                                                      \
      (void *base, MPI_Aint size, int unit, MPI_Info i, MPI_Comm c, MPI_Win *w),                  \
      (base, size, unit, i, c, w), , )                                                            \
    X(MPI_Win_allocate, OTHER,                                                                    \
      (MPI_Aint size, int unit, MPI_Info i, MPI_Comm c, void *base, MPI_Win *w),                  \
      (size, unit, i, c, base, w), , )                                                            \
    X(MPI_Win_allocate_shared, OTHER,                                                             \
      (MPI_Aint size, int unit, MPI_Info i, MPI_Comm c, void *base, MPI_Win *w),                  \
      (size, unit, i, c, base, w), , )                                                            \
    X(MPI_Win_create_dynamic, OTHER, (MPI_Info i, MPI_Comm c, MPI_Win * w), (i, c, w), , )        \
    X(MPI_Win_free, OTHER, (MPI_Win * w), (w), , )                                                \
    X(MPI_Buffer_detach, OTHER, (void *b, int *n), (b, n), , )                                    \
    X(MPI_Request_free, OTHER, (MPI_Request * r), (r), ONE_NOTED(r), mpi_time_forget(waited))

#define TIMED_CALLS(X) \
    PT2PT_CALLS(X)     \
    WAIT_CALLS(X)      \
    ROOTED_CALLS(X)    \
    ALL_CALLS(X)       \
    NEIGHBOR_CALLS(X)  \
    ONESIDED_CALLS(X)  \
    COMMUNICATOR_CALLS(X)

#endif
