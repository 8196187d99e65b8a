/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the time spent inside MPI, and the bytes moved. One source for two uses: preloaded
 * (mpi_time_report.c prints), and linked into a program that asks for the sums itself.
 *
 * Preloaded (MPI_TIME_PRELOADED), it stands in for the MPI_ and the PMPI_ name of each call and
 * goes on to the next definition of the PMPI_ name. Open MPI's Fortran bindings call the PMPI_
 * functions of the C library, so that this takes the calls of C, of Fortran (mpif.h, mpi, mpi_f08),
 * and of shared libraries alike; and two such tools can be preloaded at once.
 *
 * Linked into a program, it comes before whatever is preloaded, most of which stands in for the
 * MPI_ names only and calls the PMPI_ ones. So it takes the MPI_ names, and goes on to the next.
 *
 * Each thread counts for itself. A call made inside another is part of that one.
 */
#include "benchmarks/mpi_time.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "benchmarks/mpi_time_calls.h"
#include "benchmarks/mpi_time_requests.h"

enum {
#define X(call, class, parameters, arguments, before, after) CALL_##call,
    TIMED_CALLS(X)
#undef X
        CALLS
};

#ifdef MPI_TIME_PRELOADED
#define NEXT_NAME(call)      "P" #call
#define ALSO_PROFILING(call) extern __typeof__(call) P##call __attribute__((alias(#call)));
#else
#define NEXT_NAME(call) #call
#define ALSO_PROFILING(call)
#endif

static const struct {
    const char *name, *next_name;
    enum mpi_time_class class;
} calls[CALLS] = {
#define X(call, class, parameters, arguments, before, after) {#call, NEXT_NAME(call), class},
    TIMED_CALLS(X)
#undef X
};

/* Of the library, or of a tool before it; NULL when it has no such function, which then nobody can
 * have been linked to. */
static void *library_call[CALLS];

/* One a thread, never freed: what an ended thread did counts. The arrays are for the call it is in.
 */
struct thread {
    struct thread *next;
    unsigned depth;
    struct mpi_time_sum sums[CALLS];
    struct mpi_time_waited *waited;
    MPI_Status *statuses;
    int waited_room, statuses_room;
};

static struct thread *_Atomic threads;
static _Thread_local struct thread *this_thread;

__attribute__((constructor)) static void find_library_calls(void)
{
    for (unsigned i = 0; i < CALLS; i++)
        library_call[i] = dlsym(RTLD_NEXT, calls[i].next_name);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* NULL when there is no memory: then nothing is counted. */
static struct thread *get_thread(void)
{
    if (!this_thread) {
        this_thread = calloc(1, sizeof *this_thread);
        if (this_thread) {
            this_thread->next = atomic_load(&threads);
            while (!atomic_compare_exchange_weak(&threads, &this_thread->next, this_thread)) {
            }
        }
    }
    return this_thread;
}

/* NULL: not to be counted. */
static struct thread *enter(void)
{
    struct thread *thread = get_thread();
    if (!thread || thread->depth)
        return NULL;
    thread->depth = 1;
    return thread;
}

static void leave(struct thread *thread, struct mpi_time_sum *sum, uint64_t begin_ns)
{
    sum->ns += now_ns() - begin_ns;
    sum->calls++;
    thread->depth = 0;
}

void mpi_time_pause(void)
{
    if (get_thread())
        this_thread->depth++;
}

void mpi_time_resume(void)
{
    if (this_thread)
        this_thread->depth--;
}

/* ---- bytes of the arguments ---- */

static uint64_t bytes(int n, MPI_Datatype type)
{
    MPI_Count size = 0;
    (void)MPI_TIME_TYPE_SIZE(type, &size);
    return n > 0 && size > 0 ? (uint64_t)n * (uint64_t)size : 0;
}

static uint64_t message_bytes(int n, MPI_Datatype type, int peer)
{
    return peer == MPI_PROC_NULL ? 0 : bytes(n, type);
}

static uint64_t sum_bytes(const int counts[], MPI_Datatype type, unsigned n)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += bytes(counts[i], type);
    return sum;
}

static uint64_t typed_bytes(const int counts[], const MPI_Datatype types[], unsigned n)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += bytes(counts[i], types[i]);
    return sum;
}

static int rank_in(MPI_Comm comm)
{
    int rank = 0;
    (void)PMPI_Comm_rank(comm, &rank);
    return rank;
}

static unsigned local_size(MPI_Comm comm)
{
    int size = 0;
    (void)PMPI_Comm_size(comm, &size);
    return (unsigned)size;
}

/* Those whom a collective exchanges data with. */
static unsigned group_size(MPI_Comm comm)
{
    int inter = 0, size = 0;
    (void)PMPI_Comm_test_inter(comm, &inter);
    if (!inter)
        return local_size(comm);
    (void)PMPI_Comm_remote_size(comm, &size);
    return (unsigned)size;
}

static bool is_root(int root, MPI_Comm comm)
{
    int inter = 0;
    if (root == MPI_ROOT || root == MPI_PROC_NULL)
        return root == MPI_ROOT;
    (void)PMPI_Comm_test_inter(comm, &inter);
    return !inter && rank_in(comm) == root;
}

/* The root's own group takes no part in a collective between groups. */
static bool contributes(int root)
{
    return root != MPI_ROOT && root != MPI_PROC_NULL;
}

enum side { SOURCES, SINKS, SIDES };

/* Returns the topology. */
static int count_neighbors(MPI_Comm comm, int counts[SIDES])
{
    int topology = MPI_UNDEFINED, weighted;
    counts[SOURCES] = counts[SINKS] = 0;
    (void)PMPI_Topo_test(comm, &topology);
    if (topology == MPI_DIST_GRAPH) {
        (void)PMPI_Dist_graph_neighbors_count(comm, &counts[SOURCES], &counts[SINKS], &weighted);
        return topology;
    }
    if (topology == MPI_CART) {
        (void)PMPI_Cartdim_get(comm, &counts[SOURCES]);
        counts[SOURCES] *= 2;
    } else if (topology == MPI_GRAPH) {
        (void)PMPI_Graph_neighbors_count(comm, rank_in(comm), &counts[SOURCES]);
    }
    counts[SINKS] = counts[SOURCES];
    return topology;
}

/* A grid that is not periodic has none beyond its ends. Neighbours are in order of dimension, the
 * lower one first. */
static bool is_on_grid(MPI_Comm grid, int neighbor)
{
    int ranks[2] = {MPI_PROC_NULL, MPI_PROC_NULL};
    (void)PMPI_Cart_shift(grid, neighbor / 2, 1, &ranks[0], &ranks[1]);
    return ranks[neighbor % 2] != MPI_PROC_NULL;
}

/* Of one block for or from each neighbour. A step is 0 where one count, or type, is for all. */
static uint64_t neighbor_bytes(MPI_Comm comm, enum side side, const int *counts, int count_step,
                               const MPI_Datatype *types, int type_step)
{
    int neighbors[SIDES];
    const int topology = count_neighbors(comm, neighbors);
    uint64_t sum = 0;
    for (int i = 0; i < neighbors[side]; i++)
        if (topology != MPI_CART || is_on_grid(comm, i))
            sum += bytes(counts[i * count_step], types[i * type_step]);
    return sum;
}

/* ---- bytes of what has been received ---- */

/* Room for n notes in the thread's array; NULL: no memory. */
static struct mpi_time_waited *note_all(struct thread *thread, int n, const MPI_Request *requests)
{
    if (n > thread->waited_room) {
        void *more = realloc(thread->waited, (size_t)n * sizeof *thread->waited);
        if (!more)
            return NULL;
        thread->waited = more;
        thread->waited_room = n;
    }
    mpi_time_note(requests, n, thread->waited);
    return thread->waited;
}

/* The same for statuses; `given` when there is no memory. */
static MPI_Status *own_statuses(struct thread *thread, int n, MPI_Status *given)
{
    if (n > thread->statuses_room) {
        void *more = realloc(thread->statuses, (size_t)n * sizeof *thread->statuses);
        if (!more)
            return given;
        thread->statuses = more;
        thread->statuses_room = n;
    }
    return thread->statuses;
}

/* Whether the request of this status has succeeded, of several that a call returned `rc` for. */
static bool has_succeeded(int rc, const MPI_Status *status)
{
    return rc == MPI_SUCCESS || status->MPI_ERROR == MPI_SUCCESS;
}

static uint64_t all_completed_bytes(int rc, const struct mpi_time_waited *waited, int n,
                                    const MPI_Status *statuses)
{
    uint64_t sum = 0;
    if (!waited || statuses == MPI_STATUSES_IGNORE)
        return 0;
    for (int i = 0; i < n; i++)
        if (has_succeeded(rc, &statuses[i]))
            sum += mpi_time_completed_bytes(&waited[i], &statuses[i]);
    return sum;
}

/* n may be MPI_UNDEFINED, as may the one index of MPI_Waitany: nothing was active. */
static uint64_t some_completed_bytes(int rc, const struct mpi_time_waited *waited, int n,
                                     const int indices[], const MPI_Status *statuses)
{
    uint64_t sum = 0;
    if (!waited || statuses == MPI_STATUSES_IGNORE)
        return 0;
    for (int i = 0; i < n; i++)
        if (indices[i] != MPI_UNDEFINED && has_succeeded(rc, &statuses[i]))
            sum += mpi_time_completed_bytes(&waited[indices[i]], &statuses[i]);
    return sum;
}

/* After a call that has failed: it has freed the requests that are complete, the failed ones too.
 */
static void forget_freed(const struct mpi_time_waited *waited, int n, const MPI_Request *requests)
{
    for (int i = 0; waited && i < n; i++)
        if (requests[i] == MPI_REQUEST_NULL)
            mpi_time_forget(&waited[i]);
}

/* ---- the calls ---- */

/* For the `before` and `after` of the list. */
#define SENT(bytes)     sum->sent_bytes += (bytes);
#define RECEIVED(bytes) sum->received_bytes += (bytes);
#define OWN_STATUS(s)             \
    MPI_Status own_status;        \
    if ((s) == MPI_STATUS_IGNORE) \
        (s) = &own_status;
#define OWN_STATUSES(n, s)          \
    if ((s) == MPI_STATUSES_IGNORE) \
        (s) = own_statuses(thread, n, s);
#define ONE_NOTED(r)                  \
    struct mpi_time_waited waited[1]; \
    mpi_time_note(r, 1, waited);
#define ALL_NOTED(n, r) const struct mpi_time_waited *waited = note_all(thread, n, r);
/* Of the n requests r that were noted, those that have succeeded have received `bytes`. */
#define COMPLETED(n, r, bytes)                        \
    if (rc == MPI_SUCCESS || rc == MPI_ERR_IN_STATUS) \
        RECEIVED(bytes)                               \
    if (rc != MPI_SUCCESS)                            \
        forget_freed(waited, n, r);

#define DEFINE(call, class, parameters, arguments, before, after)    \
    int call parameters                                              \
    {                                                                \
        __typeof__(call) *const library = library_call[CALL_##call]; \
        struct thread *const thread = enter();                       \
        if (!thread)                                                 \
            return library arguments;                                \
        struct mpi_time_sum *const sum = &thread->sums[CALL_##call]; \
        before;                                                      \
        const uint64_t begin_ns = now_ns();                          \
        const int rc = library arguments;                            \
        leave(thread, sum, begin_ns);                                \
        if (rc == MPI_SUCCESS || (class) == WAIT) {                  \
            after;                                                   \
        }                                                            \
        return rc;                                                   \
    }                                                                \
    ALSO_PROFILING(call)

TIMED_CALLS(DEFINE)

/* ---- sums ---- */

static void add_call(struct mpi_time_sum *sum, unsigned i)
{
    for (const struct thread *t = atomic_load(&threads); t; t = t->next) {
        sum->calls += t->sums[i].calls;
        sum->ns += t->sums[i].ns;
        sum->sent_bytes += t->sums[i].sent_bytes;
        sum->received_bytes += t->sums[i].received_bytes;
    }
}

const char *mpi_time_call_sum(unsigned i, struct mpi_time_sum *sum)
{
    *sum = (struct mpi_time_sum){0};
    if (i >= CALLS)
        return NULL;
    add_call(sum, i);
    return calls[i].name;
}

void mpi_time_class_sum(enum mpi_time_class class, struct mpi_time_sum *sum)
{
    *sum = (struct mpi_time_sum){0};
    for (unsigned i = 0; i < CALLS; i++)
        if (calls[i].class == class)
            add_call(sum, i);
}

static struct mpi_time_sum total(void)
{
    struct mpi_time_sum sum = {0};
    for (unsigned i = 0; i < CALLS; i++)
        add_call(&sum, i);
    return sum;
}

double mpi_time_seconds(void)
{
    return 1e-9 * (double)total().ns;
}

uint64_t mpi_time_calls(void)
{
    return total().calls;
}

unsigned mpi_time_threads(void)
{
    unsigned count = 0;
    for (const struct thread *t = atomic_load(&threads); t; t = t->next) {
        bool any = false;
        for (unsigned i = 0; i < CALLS && !any; i++)
            any = t->sums[i].calls > 0;
        count += any;
    }
    return count;
}
