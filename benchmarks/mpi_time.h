/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process has spent inside MPI calls, and how many bytes it moved there; see mpi_time.c.
 * Sums over all threads: exact once no other thread is inside MPI.
 */
#ifndef MPI_TIME_H
#define MPI_TIME_H

#include <stdint.h>

enum mpi_time_class { PT2PT, COLLECTIVE, WAIT, ONESIDED, OTHER, MPI_TIME_CLASSES };

struct mpi_time_sum {
    uint64_t calls;
    uint64_t ns;
    uint64_t sent_bytes;
    uint64_t received_bytes;
};

double mpi_time_seconds(void);
uint64_t mpi_time_calls(void);
void mpi_time_class_sum(enum mpi_time_class class, struct mpi_time_sum *sum);
unsigned mpi_time_threads(void);
/* The sum of function i, counted from 0, and its name; NULL beyond the last. */
const char *mpi_time_call_sum(unsigned i, struct mpi_time_sum *sum);

/* Between the two, what this thread calls is not counted. */
void mpi_time_pause(void);
void mpi_time_resume(void);

#endif
