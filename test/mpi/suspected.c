/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that is taken for lost and is not (Open MPI 5.0, mpirun --with-ft ulfm with its failure
 * detector): the last rank is stopped amid a large message to rank 0, whose receive ends in an
 * error, and goes on when rank 0 has freed the memory of that receive. Nothing may be placed there.
 */
#include "test/mpi/ulfm.h"

#include <sys/mman.h>

#define BYTES        (256 << 20)
#define STOP_AFTER_S 5e-3
#define GOES_ON_MS   1000

/* Its helper goes on by itself: in MPI it would end once Open MPI hears that it is lost. */
static void send_and_stop(const char *from)
{
    const double until = MPI_Wtime() + STOP_AFTER_S;
    MPI_Request request;
    int done = 0;

    MPI_Isend(from, BYTES, MPI_CHAR, 0, 7, MPI_COMM_WORLD, &request);
    while (MPI_Wtime() < until && !done)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    MT_CHECK(!done, "sent before it is stopped");
    (void)raise(SIGSTOP);
    mt_sleep_ms(GOES_ON_MS);
    (void)raise(SIGKILL);
}

static void receive_and_free(char *into, int sender)
{
    int class, arrived;

    MPI_Error_class(
        MPI_Recv(into, BYTES, MPI_CHAR, mt.size - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &class);
    MT_CHECK(class == MPIX_ERR_PROC_FAILED, "an error of class %d", class);
    MT_CHECK(!munmap(into, BYTES), "munmap");
    mt_phase("its data come");
    MT_CHECK(!kill(sender, SIGCONT), "kill");
    for (const double until = MPI_Wtime() + 1e-3 * GOES_ON_MS; MPI_Wtime() < until;)
        MPI_Iprobe(0, 9, MPI_COMM_SELF, &arrived, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int sender = getpid();

    mt_start(argc, argv, "suspected", MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char *data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    MT_CHECK(data != MAP_FAILED, "no memory");
    MPI_Bcast(&sender, 1, MPI_INT, mt.size - 1, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    mt_phase("a message");
    if (mt.rank == mt.size - 1)
        send_and_stop(data);
    if (mt.rank == 0) {
        receive_and_free(data, sender);
        printf("PASS suspected %d ranks\n", mt.size);
        fflush(stdout);
    }
    ulfm_finalize();
    return 0;
}
