/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of btl/diwarp as any tool sees them, through MPI_T: there, moving with the traffic,
 * and proving that rendezvous went by Write-Record without a FIN on the wire; over RC, that it went
 * by RDMA Write, with one.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

#define PREFIX           "btl_diwarp_"
#define MESSAGES         50
#define MESSAGES_LARGE   5
#define RENDEZVOUS_BYTES 1048576
/* Above what RC's receives hold. */
#define RENDEZVOUS_WINDOW_BYTES 16384
#define MEMORY_READS_MAX        100

static void ring(size_t size, int count)
{
    int dst = (mt.rank + 1) % mt.size, src = (mt.rank - 1 + mt.size) % mt.size;
    unsigned char *out = mt_alloc(size);
    struct mt_buf in;

    mt_buf_init(&in, size);
    for (int i = 0; i < count; i++) {
        mt_fill(out, size, (struct mt_key){mt.rank, dst, 1, (uint64_t)i});
        mt_buf_arm(&in, size, 0);
        MPI_Sendrecv(out, mt_count(size), MPI_BYTE, dst, 1, in.data, mt_count(size), MPI_BYTE, src,
                     1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        mt_buf_verify(&in, (struct mt_key){src, mt.rank, 1, (uint64_t)i}, "ring");
    }
    mt_buf_fini(&in);
    free(out);
}

static void print_all(struct mt_pvar_set *set)
{
    for (int i = 0; mt.verbose && mt.rank == 0 && i < set->count; i++)
        fprintf(stderr, "%-40s %12llu\n", set->vars[i].name,
                (unsigned long long)mt_pvar_read(set, &set->vars[i]));
}

static void check_eager(struct mt_pvar_set *set)
{
    uint64_t sent = mt_pvar_value(set, PREFIX "tx_send_msgs");

    MT_CHECK(sent >= MESSAGES, "tx_send_msgs is %llu after %d eager messages",
             (unsigned long long)sent, MESSAGES);
    MT_CHECK(mt_pvar_value(set, PREFIX "rx_send_msgs") >= MESSAGES, "rx_send_msgs did not move");
    MT_CHECK(mt_pvar_value(set, PREFIX "tx_datagrams") > 0, "tx_datagrams did not move");
    MT_CHECK(mt_pvar_value(set, PREFIX "rx_datagrams") > 0, "rx_datagrams did not move");
}

static void check_rendezvous(struct mt_pvar_set *set, uint64_t bytes)
{
    uint64_t tx = mt_pvar_value(set, PREFIX "tx_record_bytes");
    uint64_t rx = mt_pvar_value(set, PREFIX "rx_record_bytes");

    MT_CHECK(tx >= bytes, "tx_record_bytes is %llu after %llu bytes by rendezvous",
             (unsigned long long)tx, (unsigned long long)bytes);
    MT_CHECK(rx >= bytes, "rx_record_bytes is %llu after %llu bytes by rendezvous",
             (unsigned long long)rx, (unsigned long long)bytes);
    MT_CHECK(mt_pvar_value(set, PREFIX "rx_records_complete") >= MESSAGES_LARGE,
             "records did not complete");
    MT_CHECK(mt_pvar_value(set, PREFIX "fin_msgs_on_wire") == 0, "%llu FIN messages on the wire",
             (unsigned long long)mt_pvar_value(set, PREFIX "fin_msgs_on_wire"));
    MT_CHECK(mt_pvar_value(set, PREFIX "fin_in_release") >= MESSAGES_LARGE,
             "%llu FIN messages inside record-complete",
             (unsigned long long)mt_pvar_value(set, PREFIX "fin_in_release"));
}

/* The gauges of memory hold together: read again while the core gives back memory in between. */
static void check_memory(struct mt_pvar_set *set)
{
    uint64_t core, own, all;
    int reads = 0;

    do {
        core = mt_pvar_value(set, PREFIX "memory_total_bytes");
        own = mt_pvar_value(set, PREFIX "memory_btl_bytes");
        all = mt_pvar_value(set, PREFIX "memory_transport_bytes");
    } while (core != mt_pvar_value(set, PREFIX "memory_total_bytes") && ++reads < MEMORY_READS_MAX);
    MT_CHECK(all == core + own && core > 0 && own > 0, "%llu bytes in all, but %llu and %llu",
             (unsigned long long)all, (unsigned long long)core, (unsigned long long)own);
}

/* Of a peer that has just been sent to, several times: this process may stand still meanwhile, and
 * what is at rest holds none. */
static void check_peer_memory(struct mt_pvar_set *set)
{
    enum { TRIES = 10 };
    const int dst = (mt.rank + 1) % mt.size, src = (mt.rank - 1 + mt.size) % mt.size;
    unsigned char out[TRIES] = {0}, in;
    bool holds = false;

    for (int i = 0; i < TRIES; i++) {
        MPI_Send(&out[i], 1, MPI_BYTE, dst, 3, MPI_COMM_WORLD);
        holds |= mt_pvar_value(set, PREFIX "memory_peers") > 0 &&
                 mt_pvar_value(set, PREFIX "memory_peer_bytes") > 0;
    }
    for (int i = 0; i < TRIES; i++)
        MPI_Recv(&in, 1, MPI_BYTE, src, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MT_CHECK(holds, "no peer holds memory");
}

static void check_rc_eager(struct mt_pvar_set *set)
{
    uint64_t sent = mt_pvar_value(set, PREFIX "rc_tx_send_msgs");

    MT_CHECK(sent >= MESSAGES, "rc_tx_send_msgs is %llu after %d eager messages",
             (unsigned long long)sent, MESSAGES);
    MT_CHECK(mt_pvar_value(set, PREFIX "rc_rx_send_msgs") >= MESSAGES,
             "rc_rx_send_msgs did not move");
    MT_CHECK(mt_pvar_value(set, PREFIX "rc_tx_fpdus") >= MESSAGES, "rc_tx_fpdus did not move");
    MT_CHECK(mt_pvar_value(set, PREFIX "rc_rx_fpdus") >= MESSAGES, "rc_rx_fpdus did not move");
    MT_CHECK(mt_pvar_value(set, PREFIX "tx_datagrams") == 0, "datagrams over RC");
}

static void check_rc_rendezvous(struct mt_pvar_set *set, uint64_t bytes)
{
    MT_CHECK(mt_pvar_value(set, PREFIX "rc_tx_bytes") >= bytes, "rc_tx_bytes did not move");
    MT_CHECK(mt_pvar_value(set, PREFIX "rc_rx_bytes") >= bytes, "rc_rx_bytes did not move");
    MT_CHECK(mt_pvar_value(set, PREFIX "rc_tx_write_msgs") >= MESSAGES_LARGE,
             "rc_tx_write_msgs did not move");
    MT_CHECK(mt_pvar_value(set, PREFIX "fin_msgs_on_wire") >= MESSAGES_LARGE,
             "%llu FIN messages on the wire",
             (unsigned long long)mt_pvar_value(set, PREFIX "fin_msgs_on_wire"));
}

/* Windows of messages that take a rendezvous each. */
static void windows(size_t size)
{
    enum { WINDOW = 32, WINDOWS = 20 };
    unsigned char *out = mt_alloc(size), *in = mt_alloc(size * WINDOW);
    int dst = (mt.rank + 1) % mt.size, src = (mt.rank - 1 + mt.size) % mt.size;
    MPI_Request requests[2 * WINDOW];

    memset(out, 1, size);
    for (int w = 0; w < WINDOWS; w++) {
        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv(in + (size_t)i * size, mt_count(size), MPI_BYTE, src, 2, MPI_COMM_WORLD,
                      &requests[i]);
        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(out, mt_count(size), MPI_BYTE, dst, 2, MPI_COMM_WORLD, &requests[WINDOW + i]);
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
    }
    free(out);
    free(in);
}

/* What answers of the peer set off goes out together: without that each message has its call. */
static void check_rc_calls(struct mt_pvar_set *set)
{
    uint64_t fpdus = mt_pvar_value(set, PREFIX "rc_tx_fpdus");
    uint64_t calls = mt_pvar_value(set, PREFIX "rc_tx_syscalls");

    windows(RENDEZVOUS_WINDOW_BYTES);
    fpdus = mt_pvar_value(set, PREFIX "rc_tx_fpdus") - fpdus;
    calls = mt_pvar_value(set, PREFIX "rc_tx_syscalls") - calls;
    MT_CHECK(calls < fpdus / 2, "%llu calls for %llu FPDUs", (unsigned long long)calls,
             (unsigned long long)fpdus);
}

/* Where messages may overtake each other Open MPI 4.1 gives all of them the number 0, which
 * elsewhere begins anew and waits for all before it. Here a burst still shares datagrams. */
static void check_overtaking(struct mt_pvar_set *set)
{
    enum { BURST = 1000 };
    const int dst = (mt.rank + 1) % mt.size, src = (mt.rank - 1 + mt.size) % mt.size;
    MPI_Comm comm;
    MPI_Info info;
    int in;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
    MPI_Barrier(MPI_COMM_WORLD); /* a message without a number is for who expects none */
    const uint64_t before = mt_pvar_value(set, PREFIX "tx_coalesced_msgs");
    for (int i = 0; i < BURST; i++)
        MPI_Send(&i, 1, MPI_INT, dst, 4, comm);
    const uint64_t shared = mt_pvar_value(set, PREFIX "tx_coalesced_msgs") - before;
    for (int i = 0; i < BURST; i++)
        MPI_Recv(&in, 1, MPI_INT, src, 4, comm, MPI_STATUS_IGNORE);
    MT_CHECK(shared > BURST / 4, "%llu of %d messages shared a datagram",
             (unsigned long long)shared, BURST);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    struct mt_pvar_set set;
    bool rc;
    int count;

    mt_start(argc, argv, "pvars", MPI_THREAD_SINGLE);
    mt_tool_init();
    mt_phase("listing");
    mt_pvar_set_init(&set, PREFIX);
    MT_CHECK(set.count > 0, "no such pvars: none begins with " PREFIX);
    count = set.count;
    rc = mt_cvar_number(PREFIX "transport") > 0;
    MPI_Barrier(MPI_COMM_WORLD); /* nobody's messages come before all have their handles */
    mt_phase("eager");
    ring(64, MESSAGES);
    MPI_Barrier(MPI_COMM_WORLD);
    (rc ? check_rc_eager : check_eager)(&set);
    mt_phase("rendezvous");
    ring(RENDEZVOUS_BYTES, MESSAGES_LARGE);
    /* Sendrecv returns only when the peer holds our bytes, so both directions are counted now. */
    MPI_Barrier(MPI_COMM_WORLD);
    (rc ? check_rc_rendezvous : check_rendezvous)(&set,
                                                  (uint64_t)MESSAGES_LARGE * RENDEZVOUS_BYTES);
    if (rc) {
        mt_phase("windows");
        check_rc_calls(&set);
    } else {
        mt_phase("overtaking");
        check_overtaking(&set);
    }
    check_memory(&set);
    check_peer_memory(&set);
    print_all(&set);
    mt_pvar_set_fini(&set);
    MPI_T_finalize();
    mt_finish("%d counters, %s FIN on the wire", count, rc ? "each write with its" : "no");
    return 0;
}
