/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All others send to rank 0 in long rounds. If ranks share cores it must give its own away at
 * times, though none of its polls is empty; with a core to itself it must not. How even the shares
 * of the senders are is for benchmarks/incast to measure.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_tool.h"

#define MESSAGES  8192 /* in a round, of all senders */
#define BYTES     1024
#define LONGEST_S 20
#define UNSHARED  20 /* rounds */

static struct mt_key key_of(int src, int message)
{
    return (struct mt_key){src, 0, message, 91};
}

static void receive_round(unsigned char (*data)[BYTES], MPI_Request *requests, int of_each)
{
    int total = (mt.size - 1) * of_each;

    for (int i = 0; i < total; i++)
        MPI_Irecv(data[i], BYTES, MPI_BYTE, 1 + i / of_each, i % of_each, MPI_COMM_WORLD,
                  &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(total, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < total; i++)
        mt_verify(data[i], BYTES, key_of(1 + i / of_each, i % of_each), "long busy");
}

static void send_round(unsigned char (*data)[BYTES], MPI_Request *requests, int count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        MPI_Isend(data[i], BYTES, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    int rounds, of_each, places, more = 1;
    unsigned char(*data)[BYTES];
    MPI_Request *requests;
    struct mt_pvar_set set;
    uint64_t yields = 0;

    mt_start(argc, argv, "long_busy", MPI_THREAD_SINGLE);
    mt_tool_init();
    mt_pvar_set_init(&set, "btl_diwarp_busy_yields");
    of_each = MESSAGES / (mt.size - 1);
    places = (mt.rank == 0 ? mt.size - 1 : 1) * of_each;
    data = mt_alloc((size_t)places * sizeof(*data));
    requests = mt_alloc((size_t)places * sizeof(*requests));
    for (int i = 0; mt.rank != 0 && i < of_each; i++)
        mt_fill(data[i], BYTES, key_of(mt.rank, i));
    for (rounds = 0; more; rounds++) {
        mt_phase("round %d", rounds);
        if (mt.rank == 0)
            receive_round(data, requests, of_each);
        else
            send_round(data, requests, of_each);
        yields = mt_pvar_value(&set, "btl_diwarp_busy_yields");
        if (mt.cores_shared)
            more = yields == 0 && MPI_Wtime() - mt.started_s < LONGEST_S;
        else
            more = rounds < UNSHARED;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (mt.rank == 0)
        MT_CHECK((yields > 0) == mt.cores_shared, "%llu yields in %d rounds, cores %s shared",
                 (unsigned long long)yields, rounds, mt.cores_shared ? "are" : "are not");
    mt_pvar_set_fini(&set);
    MPI_T_finalize();
    free(data);
    free(requests);
    mt_finish("%d rounds", rounds);
    return 0;
}
