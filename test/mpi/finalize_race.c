/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Last messages followed at once by MPI_Finalize: the sender's last datagrams, their repeats and
 * the acknowledgements it owes must still be served. One run is one draw: the runner makes several.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define LAST_MESSAGES 8

static const size_t sizes[] = {0, 16, 1000, 1472, 4000, 8, 30000, 200};

/* Ranks of the other parity; every rank is a receiver of late messages or a hasty sender. */
static bool hasty(int rank, uint64_t seed)
{
    return ((uint64_t)rank + seed) % 2 == 0;
}

static void send_last(void)
{
    static unsigned char payload[LAST_MESSAGES][30000];

    for (int dst = 0; dst < mt.size; dst++) {
        for (int i = 0; i < LAST_MESSAGES; i++) {
            if (hasty(dst, mt.seed))
                continue;
            mt_fill(payload[i], sizes[i], (struct mt_key){mt.rank, dst, i, mt.seed});
            MPI_Send(payload[i], mt_count(sizes[i]), MPI_BYTE, dst, i, MPI_COMM_WORLD);
        }
    }
}

static void receive_last(void)
{
    struct mt_buf buf;

    mt_buf_init(&buf, 30000);
    mt_sleep_ms(mt.rank % 4 * 10L);
    for (int src = 0; src < mt.size; src++) {
        for (int i = 0; i < LAST_MESSAGES; i++) {
            if (!hasty(src, mt.seed))
                continue;
            mt_buf_arm(&buf, sizes[i], 0);
            MPI_Recv(buf.data, mt_count(sizes[i]), MPI_BYTE, src, i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            mt_buf_verify(&buf, (struct mt_key){src, mt.rank, i, mt.seed}, "last message");
        }
    }
    mt_buf_fini(&buf);
}

int main(int argc, char **argv)
{
    mt_start(argc, argv, "finalize_race", MPI_THREAD_SINGLE);
    mt_phase("last messages");
    if (hasty(mt.rank, mt.seed))
        send_last();
    else
        receive_last();
    mt_finish("seed %llu", (unsigned long long)mt.seed);
    return 0;
}
