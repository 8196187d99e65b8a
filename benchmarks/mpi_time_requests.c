/* SPDX-License-Identifier: BSD-3-Clause */
/* An open-addressing map from request to what is to be known of it, under one lock. */
#include "benchmarks/mpi_time_requests.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define FIRST_CAPACITY 256u

struct entry {
    MPI_Request request; /* MPI_REQUEST_NULL: free */
    uint64_t bytes;
    uint64_t serial;
    enum mpi_time_request kind;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static size_t capacity; /* a power of two */
static atomic_size_t used;
static uint64_t last_serial;

static size_t home_of(MPI_Request request)
{
    return (size_t)(((uintptr_t)request * 0x9e3779b97f4a7c15ull) >> 32) & (capacity - 1);
}

/* The entry of a request, or the free one where it belongs. */
static size_t find(MPI_Request request)
{
    size_t i = home_of(request);
    while (entries[i].request != MPI_REQUEST_NULL && entries[i].request != request)
        i = (i + 1) & (capacity - 1);
    return i;
}

static bool grow(void)
{
    struct entry *old = entries;
    const size_t old_capacity = capacity;
    const size_t new_capacity = capacity ? 2 * capacity : FIRST_CAPACITY;
    struct entry *new = malloc(new_capacity * sizeof *new);
    if (!new)
        return false;
    for (size_t i = 0; i < new_capacity; i++)
        new[i].request = MPI_REQUEST_NULL;
    entries = new;
    capacity = new_capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].request != MPI_REQUEST_NULL)
            entries[find(old[i].request)] = old[i];
    free(old);
    return true;
}

/* Closes the gap, so that what was put beyond it is still found. */
static void erase(size_t gap)
{
    for (size_t i = (gap + 1) & (capacity - 1); entries[i].request != MPI_REQUEST_NULL;
         i = (i + 1) & (capacity - 1)) {
        const size_t from_home = (i - home_of(entries[i].request)) & (capacity - 1);
        if (from_home >= ((i - gap) & (capacity - 1))) {
            entries[gap] = entries[i];
            gap = i;
        }
    }
    entries[gap].request = MPI_REQUEST_NULL;
    used--;
}

void mpi_time_track(MPI_Request request, enum mpi_time_request kind, uint64_t bytes)
{
    if (kind == NONE || request == MPI_REQUEST_NULL)
        return;
    pthread_mutex_lock(&lock);
    if (2 * (used + 1) <= capacity || grow()) {
        const size_t i = find(request);
        if (entries[i].request == MPI_REQUEST_NULL)
            used++;
        entries[i] = (struct entry){
            .request = request, .kind = kind, .bytes = bytes, .serial = ++last_serial};
    }
    pthread_mutex_unlock(&lock);
}

static bool is_tracked(MPI_Request request, size_t *at)
{
    if (request == MPI_REQUEST_NULL || !capacity)
        return false;
    *at = find(request);
    return entries[*at].request == request;
}

void mpi_time_note(const MPI_Request *requests, int n, struct mpi_time_waited *waited)
{
    const bool any = atomic_load_explicit(&used, memory_order_relaxed) > 0;
    size_t at;
    for (int i = 0; i < n; i++)
        waited[i] = (struct mpi_time_waited){.request = requests[i], .kind = NONE};
    if (!any)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++)
        if (is_tracked(requests[i], &at)) {
            waited[i].kind = entries[at].kind;
            waited[i].serial = entries[at].serial;
        }
    pthread_mutex_unlock(&lock);
}

uint64_t mpi_time_started_bytes(MPI_Request request)
{
    uint64_t bytes = 0;
    size_t at;
    pthread_mutex_lock(&lock);
    if (is_tracked(request, &at)) {
        if (entries[at].kind == PERSISTENT_SEND)
            bytes = entries[at].bytes;
        else if (entries[at].kind == COUNTED_RECEIVE)
            entries[at].kind = PERSISTENT_RECEIVE;
    }
    pthread_mutex_unlock(&lock);
    return bytes;
}

void mpi_time_forget(const struct mpi_time_waited *waited)
{
    size_t at;
    if (waited->kind == NONE)
        return;
    pthread_mutex_lock(&lock);
    if (is_tracked(waited->request, &at) && entries[at].serial == waited->serial)
        erase(at);
    pthread_mutex_unlock(&lock);
}

uint64_t mpi_time_completed_bytes(const struct mpi_time_waited *waited, const MPI_Status *status)
{
    if (waited->kind == RECEIVE)
        mpi_time_forget(waited);
    else if (waited->kind != PERSISTENT_RECEIVE)
        return 0;
    return mpi_time_status_bytes(status);
}

uint64_t mpi_time_seen_bytes(const struct mpi_time_waited *waited, const MPI_Status *status)
{
    bool first = false;
    size_t at;
    if (waited->kind != RECEIVE && waited->kind != PERSISTENT_RECEIVE)
        return 0;
    pthread_mutex_lock(&lock);
    if (is_tracked(waited->request, &at) && entries[at].serial == waited->serial) {
        first = entries[at].kind != COUNTED_RECEIVE;
        if (waited->kind == RECEIVE)
            erase(at);
        else
            entries[at].kind = COUNTED_RECEIVE;
    }
    pthread_mutex_unlock(&lock);
    return first ? mpi_time_status_bytes(status) : 0;
}

uint64_t mpi_time_status_bytes(const MPI_Status *status)
{
    MPI_Count bytes = 0;
    if (MPI_TIME_GET_ELEMENTS(status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0)
        return 0;
    return (uint64_t)bytes;
}
