/* SPDX-License-Identifier: BSD-3-Clause */
/* Wall time that this process has spent inside MPI calls; see mpi_time.c. */
#ifndef MPI_TIME_H
#define MPI_TIME_H

#include <stdint.h>

/* Seconds since the program began, and the number of calls. Not for MPI_THREAD_MULTIPLE. */
double mpi_time_seconds(void);
uint64_t mpi_time_calls(void);

#endif
