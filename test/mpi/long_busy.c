/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All others send to rank 0 without end. If they share its cores it must give them away at times,
 * though none of its polls is empty; with a core of its own it must not.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_tool.h"

#include <unistd.h>

#define MESSAGES 256 /* of each sender in a round */
#define BYTES    1024
#define ROUNDS   2000 /* at most */

static struct mt_key key_of(int src, int message)
{
    return (struct mt_key){src, 0, message, 91};
}

static void receive_round(unsigned char (*data)[BYTES], MPI_Request *requests)
{
    int total = (mt.size - 1) * MESSAGES;

    for (int i = 0; i < total; i++)
        MPI_Irecv(data[i], BYTES, MPI_BYTE, 1 + i / MESSAGES, i % MESSAGES, MPI_COMM_WORLD,
                  &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(total, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < total; i++)
        mt_verify(data[i], BYTES, key_of(1 + i / MESSAGES, i % MESSAGES), "long busy");
}

static void send_round(unsigned char (*data)[BYTES], MPI_Request *requests)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Isend(data[i], BYTES, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    bool shared;
    int rounds, places, more = 1;
    unsigned char(*data)[BYTES];
    MPI_Request *requests;
    struct mt_pvar_set set;
    uint64_t yields = 0;

    mt_start(argc, argv, "long_busy", MPI_THREAD_SINGLE);
    mt_tool_init();
    mt_pvar_set_init(&set, "btl_diwarp_busy_yields");
    shared = mt.size > sysconf(_SC_NPROCESSORS_ONLN);
    places = (mt.rank == 0 ? mt.size - 1 : 1) * MESSAGES;
    data = mt_alloc((size_t)places * sizeof(*data));
    requests = mt_alloc((size_t)places * sizeof(*requests));
    for (int i = 0; mt.rank != 0 && i < MESSAGES; i++)
        mt_fill(data[i], BYTES, key_of(mt.rank, i));
    for (rounds = 0; more && rounds < ROUNDS; rounds++) {
        if (mt.rank == 0)
            receive_round(data, requests);
        else
            send_round(data, requests);
        yields = mt_pvar_value(&set, "btl_diwarp_busy_yields");
        more = shared ? yields == 0 : rounds < 20;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (mt.rank == 0)
        MT_CHECK((yields > 0) == shared, "%llu yields in %d rounds, cores %s shared",
                 (unsigned long long)yields, rounds, shared ? "are" : "are not");
    mt_pvar_set_fini(&set);
    MPI_T_finalize();
    free(data);
    free(requests);
    mt_finish("%d rounds", rounds);
    return 0;
}
