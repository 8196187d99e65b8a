/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded: damages one message of each window that a benchmark receives, the last byte of
 * number DAMAGE_MESSAGE, from window DAMAGE_FROM on. What ends with MPI_Waitall is a window.
 */
#include <mpi.h>
#include <stdlib.h>

static int windows, message;
static unsigned char *last_byte; /* of the message of this window */

static int setting(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

int MPI_Irecv(void *buffer, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int size;
    PMPI_Type_size(type, &size);
    if (message++ == setting("DAMAGE_MESSAGE"))
        last_byte = (unsigned char *)buffer + n * size - 1;
    return PMPI_Irecv(buffer, n, type, from, tag, comm, request);
}

int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[])
{
    int status = PMPI_Waitall(n, requests, statuses);
    if (last_byte && windows++ >= setting("DAMAGE_FROM"))
        *last_byte ^= 1;
    message = 0;
    last_byte = NULL;
    return status;
}
