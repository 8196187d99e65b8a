/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every size class around each threshold of a transport, in pairs and in rings, blocking,
 * nonblocking and by MPI_Sendrecv, at changing alignments, between guard bytes.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

#define MAX_SIZES      256
#define RING_MAX_BYTES (1024 * 1024 + 1)

enum mode { BLOCKING, NONBLOCKING, SENDRECV, MODE_COUNT };
static const char *const mode_names[] = {"blocking", "nonblocking", "sendrecv"};

static size_t sizes[MAX_SIZES];
static int size_count;
static struct mt_buf send_buf, recv_buf;
static uint64_t exchanges;

/* ---- the sizes ---------------------------------------------------------------------------- */

static void add_size(size_t size)
{
    for (int i = 0; i < size_count; i++) {
        if (sizes[i] == size)
            return;
    }
    MT_CHECK(size_count < MAX_SIZES, "more than %d sizes", MAX_SIZES);
    sizes[size_count++] = size;
}

static void add_around(size_t centre, size_t reach)
{
    for (size_t size = centre > reach ? centre - reach : 0; size <= centre + reach; size++)
        add_size(size);
}

/* The limits of the BTLs in use; ob1 takes 56 bytes of the eager limit for its header. */
static void add_btl_limits(const char *btl)
{
    static const char *const limits[] = {"eager_limit", "max_send_size", "rndv_eager_limit"};
    char name[128];

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        size_t limit;

        snprintf(name, sizeof(name), "btl_%s_%s", btl, limits[i]);
        limit = mt_cvar_number(name);
        if (limit < 64 || limit > 4 * 1024 * 1024)
            continue;
        add_around(limit - 56, 1);
        add_around(limit, 1);
    }
}

static void add_auto_sizes(void)
{
    static const size_t plain[] = {0,
                                   1,
                                   2,
                                   7,
                                   8,
                                   63,
                                   64,
                                   65,
                                   255,
                                   1000,
                                   1400,
                                   1420,
                                   1430,
                                   1440,
                                   1448,
                                   1452,
                                   1456,
                                   1460,
                                   1464,
                                   1465,
                                   1470,
                                   1471,
                                   1472,
                                   1473,
                                   1480,
                                   1490,
                                   1499,
                                   1500,
                                   1501,
                                   2944,
                                   12345,
                                   200000,
                                   3 * 1024 * 1024 + 7,
                                   16 * 1024 * 1024 + 1};
    static const size_t edges[] = {4096, 8192, 8952, 16384, 32768, 65536, 131072, 1048576};
    char btls[256];

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        add_size(plain[i]);
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
        add_around(edges[i], 1);
    add_around(32768 - 56, 3);
    add_around(65000, 2);
    add_around(65507, 1);
    if (!mt_cvar_string("btl", btls, sizeof(btls)))
        btls[0] = '\0';
    if (strstr(btls, "diwarp"))
        add_btl_limits("diwarp");
    if (strstr(btls, "tcp"))
        add_btl_limits("tcp");
    if (strstr(btls, "vader"))
        add_btl_limits("vader");
    if (mt.large)
        add_size(64 * 1024 * 1024);
}

static void choose_sizes(void)
{
    const char *p = mt.sizes;

    if (!p) {
        add_auto_sizes();
        return;
    }
    while (*p) {
        char *end;

        add_size(strtoull(p, &end, 0));
        MT_CHECK(end != p && (*end == ',' || *end == '\0'), "--sizes: '%s' is no number", p);
        p = *end ? end + 1 : end;
    }
}

/* ---- one exchange ------------------------------------------------------------------------- */

/* The lowest rank of each ring receives first, so that no circle of blocking sends can close. */
static void exchange_blocking(size_t size, int dst, int src, int tag, MPI_Status *status)
{
    int len = mt_count(size);

    if (src > mt.rank) {
        MPI_Recv(recv_buf.data, len, MPI_BYTE, src, tag, MPI_COMM_WORLD, status);
        MPI_Send(send_buf.data, len, MPI_BYTE, dst, tag, MPI_COMM_WORLD);
    } else {
        MPI_Send(send_buf.data, len, MPI_BYTE, dst, tag, MPI_COMM_WORLD);
        MPI_Recv(recv_buf.data, len, MPI_BYTE, src, tag, MPI_COMM_WORLD, status);
    }
}

static void exchange_nonblocking(size_t size, int dst, int src, int tag, MPI_Status *status)
{
    int len = mt_count(size);
    MPI_Request requests[2];
    MPI_Status statuses[2];

    MPI_Irecv(recv_buf.data, len, MPI_BYTE, src, tag, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(send_buf.data, len, MPI_BYTE, dst, tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    *status = statuses[0];
}

/* Sends to dst while receiving from src; both may be the same rank. */
static void exchange(size_t size, int dst, int src, enum mode mode)
{
    int tag = (int)(exchanges % 1000);
    size_t shift = (size_t)(exchanges % 9);
    struct mt_key out = {mt.rank, dst, tag, exchanges};
    struct mt_key in = {src, mt.rank, tag, exchanges};
    MPI_Status status;

    mt_buf_arm(&send_buf, size, shift);
    mt_buf_arm(&recv_buf, size, 8 - shift);
    mt_fill(send_buf.data, size, out);
    if (mode == BLOCKING)
        exchange_blocking(size, dst, src, tag, &status);
    else if (mode == NONBLOCKING)
        exchange_nonblocking(size, dst, src, tag, &status);
    else
        MPI_Sendrecv(send_buf.data, mt_count(size), MPI_BYTE, dst, tag, recv_buf.data,
                     mt_count(size), MPI_BYTE, src, tag, MPI_COMM_WORLD, &status);
    mt_check_status(&status, src, tag, size, mode_names[mode]);
    mt_buf_verify(&recv_buf, in, mode_names[mode]);
    mt_buf_verify(&send_buf, out, "send buffer");
}

/* ---- patterns of traffic ------------------------------------------------------------------ */

/* Pairs (offset, offset + 1), (offset + 2, offset + 3)...; who has no partner sits out. */
static void pairs(size_t size, int offset, enum mode mode)
{
    int place = mt.rank - offset;
    int peer = place < 0 ? -1 : offset + (place ^ 1);

    mt_phase("pairs from %d, %s, %zu bytes", offset, mode_names[mode], size);
    if (peer >= 0 && peer < mt.size)
        exchange(size, peer, peer, mode);
    exchanges++;
}

static void ring(size_t size, int step, enum mode mode)
{
    mt_phase("ring of step %d, %s, %zu bytes", step, mode_names[mode], size);
    exchange(size, (mt.rank + step) % mt.size, (mt.rank - step + mt.size) % mt.size, mode);
    exchanges++;
}

/* First and last rank only: sizes too large for all at once. */
static void two_ranks(size_t size, enum mode mode)
{
    mt_phase("two ranks, %s, %zu bytes", mode_names[mode], size);
    if (mt.rank == 0 || mt.rank == mt.size - 1)
        exchange(size, mt.size - 1 - mt.rank, mt.size - 1 - mt.rank, mode);
    exchanges++;
}

static void all_patterns(size_t size, enum mode mode)
{
    if (size > RING_MAX_BYTES) {
        two_ranks(size, mode);
        return;
    }
    pairs(size, 0, mode);
    if (mt.size > 2)
        pairs(size, 1, mode);
    ring(size, 1, mode);
    if (mt.size > 3 && !mt.quick)
        ring(size, mt.size / 2, mode);
    if (mt.size > 2 && !mt.quick)
        ring(size, mt.size - 1, mode);
}

int main(int argc, char **argv)
{
    size_t largest = 0;

    mt_start(argc, argv, "pt2pt_sizes", MPI_THREAD_SINGLE);
    mt_tool_init();
    choose_sizes();
    for (int i = 0; i < size_count; i++)
        largest = sizes[i] > largest ? sizes[i] : largest;
    mt_buf_init(&send_buf, largest);
    mt_buf_init(&recv_buf, largest);
    for (int i = 0; i < size_count; i++) {
        for (int mode = 0; mode < MODE_COUNT; mode++)
            all_patterns(sizes[i], (enum mode)mode);
    }
    mt_buf_fini(&send_buf);
    mt_buf_fini(&recv_buf);
    MPI_T_finalize();
    mt_finish("%d sizes up to %zu bytes, %llu exchanges", size_count, largest,
              (unsigned long long)exchanges);
    return 0;
}
