/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that come later: MPI_Comm_spawn of this program, and halves of the job that meet through
 * MPI_Open_port, MPI_Comm_accept and MPI_Comm_connect; traffic of all protocols with each.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define CHILDREN 2
#define LARGEST  ((size_t)5 * 1024 * 1024 + 3)

/* Ranks of the two sides of an intercommunicator must differ in the payload's key. */
#define FIRST_SIDE  0
#define SECOND_SIDE 10000

static const size_t sizes[] = {0, 1, 1000, 1472, 32713, 70000, 1048576, LARGEST};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

/* Exchanges every size with every rank of the other side. */
static void traffic(MPI_Comm inter, int my_base, int their_base, const char *what)
{
    struct mt_buf out, in;
    int rank, theirs;

    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &theirs);
    mt_buf_init(&out, LARGEST);
    mt_buf_init(&in, LARGEST);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        for (int peer = 0; peer < theirs; peer++) {
            struct mt_key out_key = {my_base + rank, their_base + peer, 4, i};
            struct mt_key in_key = {their_base + peer, my_base + rank, 4, i};
            int n = mt_count(sizes[i]);
            MPI_Request requests[2];
            MPI_Status statuses[2];

            if (sizes[i] == LARGEST && rank > 1 && peer > 1)
                continue;
            mt_phase("%s, %d bytes with rank %d", what, n, peer);
            mt_buf_arm(&out, sizes[i], 0);
            mt_buf_arm(&in, sizes[i], 1);
            mt_fill(out.data, sizes[i], out_key);
            MPI_Irecv(in.data, n, MPI_BYTE, peer, 4, inter, &requests[0]);
            MPI_Isend(out.data, n, MPI_BYTE, peer, 4, inter, &requests[1]);
            MPI_Waitall(2, requests, statuses);
            mt_check_status(&statuses[0], peer, 4, sizes[i], what);
            mt_buf_verify(&in, in_key, what);
        }
    }
    mt_buf_fini(&out);
    mt_buf_fini(&in);
}

/* Old and new peers in one communicator. */
static void merged_traffic(MPI_Comm inter, bool high, const char *what)
{
    enum { ELEMENTS = 20000 };
    MPI_Comm all;
    int rank, size;
    long *in = mt_alloc(ELEMENTS * sizeof(long)), *out = mt_alloc(ELEMENTS * sizeof(long));

    mt_phase("%s, merged", what);
    MPI_Intercomm_merge(inter, high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    for (int i = 0; i < ELEMENTS; i++)
        in[i] = (long)rank + i;
    MPI_Allreduce(in, out, ELEMENTS, MPI_LONG, MPI_SUM, all);
    for (int i = 0; i < ELEMENTS; i++)
        MT_CHECK(out[i] == (long)size * (size - 1) / 2 + (long)size * i, "Allreduce: %ld at %d",
                 out[i], i);
    MPI_Comm_free(&all);
    free(in);
    free(out);
}

/* ---- spawn -------------------------------------------------------------------------------- */

static void be_child(void)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    MT_CHECK(parent != MPI_COMM_NULL, "a child without parent");
    traffic(parent, SECOND_SIDE, FIRST_SIDE, "child to parents");
    merged_traffic(parent, true, "child to parents");
    mt_phase("child disconnects");
    MPI_Comm_disconnect(&parent);
}

static void spawn_children(char *program)
{
    char limit[16], *args[] = {"--child", "--time-limit", limit, NULL};
    int codes[CHILDREN];
    MPI_Comm children;

    mt_phase("Comm_spawn");
    snprintf(limit, sizeof(limit), "%u", mt.time_limit_s);
    MPI_Comm_spawn(program, args, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
    for (int i = 0; mt.rank == 0 && i < CHILDREN; i++)
        MT_CHECK(codes[i] == MPI_SUCCESS, "child %d was not started: %d", i, codes[i]);
    traffic(children, FIRST_SIDE, SECOND_SIDE, "parents to children");
    merged_traffic(children, false, "parents to children");
    mt_phase("parents disconnect");
    MPI_Comm_disconnect(&children);
}

/* ---- connect and accept ------------------------------------------------------------------- */

/* The lower half accepts, the upper half connects; both are known to each other already, yet the
 * path through a port name must work too. */
static void connect_halves(void)
{
    char port[MPI_MAX_PORT_NAME] = {0};
    int first_upper = mt.size / 2;
    bool upper = mt.rank >= first_upper;
    MPI_Comm half, other;

    mt_phase("connect and accept");
    MPI_Comm_split(MPI_COMM_WORLD, upper, mt.rank, &half);
    if (mt.rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, first_upper, 1, MPI_COMM_WORLD);
    } else if (mt.rank == first_upper) {
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (upper)
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &other);
    else
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &other);
    traffic(other, upper ? SECOND_SIDE : FIRST_SIDE, upper ? FIRST_SIDE : SECOND_SIDE, "halves");
    merged_traffic(other, upper, "halves");
    mt_phase("halves disconnect");
    MPI_Comm_disconnect(&other);
    if (mt.rank == 0)
        MPI_Close_port(port);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    mt_start(argc, argv, "spawn", MPI_THREAD_SINGLE);
    if (mt.child) {
        be_child();
    } else {
        spawn_children(argv[0]);
        connect_halves();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    mt_finish("%d children, two halves by connect and accept", CHILDREN);
    return 0;
}
