/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests whose bytes are known only later: receives, whose status tells the length, and
 * persistent ones, which move data when they are started. Any thread may call any of it.
 */
#ifndef MPI_TIME_REQUESTS_H
#define MPI_TIME_REQUESTS_H

#include <mpi.h>
#include <stdint.h>

/* Sizes beyond int, by the names of MPI 3 and of MPI 4. */
#if MPI_VERSION < 4
#define MPI_TIME_TYPE_SIZE    PMPI_Type_size_x
#define MPI_TIME_GET_ELEMENTS PMPI_Get_elements_x
#else
#define MPI_TIME_TYPE_SIZE    PMPI_Type_size_c
#define MPI_TIME_GET_ELEMENTS PMPI_Get_elements_c
#endif

enum mpi_time_request {
    NONE, /* not to be tracked */
    RECEIVE,
    PERSISTENT_RECEIVE,
    COUNTED_RECEIVE, /* a persistent one whose bytes were told, until it is started again */
    PERSISTENT_SEND,
};

/* What was known of a request before a call that may complete it: afterwards another thread may
 * have been given the same handle. */
struct mpi_time_waited {
    MPI_Request request;
    enum mpi_time_request kind;
    uint64_t serial; /* of the entry */
};

/* `bytes` are those that each start of a persistent send sends. Without memory for it, what it
 * moves is not counted. */
void mpi_time_track(MPI_Request request, enum mpi_time_request kind, uint64_t bytes);
void mpi_time_note(const MPI_Request *requests, int n, struct mpi_time_waited *waited);
/* A persistent request was started; what that sends. */
uint64_t mpi_time_started_bytes(MPI_Request request);
/* What a request has received that is complete, as `status` says; 0 when it is no receive. Forgets
 * it unless it is persistent. */
uint64_t mpi_time_completed_bytes(const struct mpi_time_waited *waited, const MPI_Status *status);
/* The same of one that stays a request: what it has received is told once. */
uint64_t mpi_time_seen_bytes(const struct mpi_time_waited *waited, const MPI_Status *status);
/* The request was freed. */
void mpi_time_forget(const struct mpi_time_waited *waited);
/* The length of the message that `status` is of. */
uint64_t mpi_time_status_bytes(const MPI_Status *status);

#endif
