/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives, blocking and nonblocking, on the world and on a part of it, 1 B to 1 MiB, with
 * results computed independently.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

static MPI_Comm comm;
static int rank, size;

/* Bytes per rank of the collectives whose buffers grow with the ranks, to keep memory bounded. */
static size_t per_rank(size_t bytes)
{
    size_t most = (size_t)4 * 1024 * 1024 / (size_t)size;

    return bytes < most ? bytes : most;
}

static struct mt_key key(int src, int dst, size_t bytes)
{
    return (struct mt_key){src, dst, 0, bytes};
}

/* ---- barrier and broadcast ---------------------------------------------------------------- */

/* No one may leave before the last, who is late, has come; only ranks of one host can compare
 * clocks. */
static void test_barrier(void)
{
    double came, left, last;
    MPI_Comm host;
    int on_host;

    mt_phase("Barrier");
    for (int i = 0; i < mt_scaled(100, 20); i++)
        MPI_Barrier(comm);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &on_host);
    MPI_Comm_free(&host);
    if (rank == size - 1)
        mt_sleep_ms(30);
    came = mt_host_clock_s();
    MPI_Barrier(comm);
    left = mt_host_clock_s();
    MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, comm);
    MT_CHECK(on_host < size || left >= last, "left a Barrier %.6f s before another rank came",
             last - left);
}

static void test_bcast(size_t bytes, bool nonblocking)
{
    struct mt_buf buf;

    mt_phase("Bcast, %zu bytes", bytes);
    mt_buf_init(&buf, bytes);
    for (int root = 0; root<size; root += size> 4 ? size - 1 : 1) {
        MPI_Request request = MPI_REQUEST_NULL;

        mt_buf_arm(&buf, bytes, 0);
        if (rank == root)
            mt_fill(buf.data, bytes, key(root, 0, bytes));
        if (nonblocking)
            MPI_Ibcast(buf.data, mt_count(bytes), MPI_BYTE, root, comm, &request);
        else
            MPI_Bcast(buf.data, mt_count(bytes), MPI_BYTE, root, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        mt_buf_verify(&buf, key(root, 0, bytes), "Bcast");
    }
    mt_buf_fini(&buf);
}

/* ---- reductions --------------------------------------------------------------------------- */

/* Integers held in doubles, so that any order of summation gives the same. */
static double term(int r, size_t i)
{
    return (double)((i * 31 + (size_t)r * 17) % 1009);
}

static double expected_sum(size_t i)
{
    double sum = 0;

    for (int r = 0; r < size; r++)
        sum += term(r, i);
    return sum;
}

static void test_allreduce(size_t bytes, bool nonblocking)
{
    size_t n = bytes / sizeof(double) + 1;
    double *in = mt_alloc(n * sizeof(double)), *out = mt_alloc(n * sizeof(double));
    MPI_Request request = MPI_REQUEST_NULL;

    mt_phase("Allreduce, %zu doubles", n);
    for (size_t i = 0; i < n; i++)
        in[i] = term(rank, i);
    if (nonblocking)
        MPI_Iallreduce(in, out, mt_count(n), MPI_DOUBLE, MPI_SUM, comm, &request);
    else
        MPI_Allreduce(in, out, mt_count(n), MPI_DOUBLE, MPI_SUM, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < n; i++)
        MT_CHECK(out[i] == expected_sum(i), "Allreduce of %zu: element %zu is %g, not %g", n, i,
                 out[i], expected_sum(i));
    free(in);
    free(out);
}

static void test_allreduce_maxloc(void)
{
    struct {
        double value;
        int where;
    } in = {rank == size / 2 ? 2.5 : 1.0, rank}, out;

    mt_phase("Allreduce MAXLOC");
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    MT_CHECK(out.value == 2.5 && out.where == size / 2, "MAXLOC gave %g at %d", out.value,
             out.where);
}

/* Rank r gets r + 1 times the share: blocks of different sizes. */
static void test_reduce_scatter(size_t bytes)
{
    size_t share = per_rank(bytes) / (size_t)size / sizeof(double) + 1, total = 0, before = 0;
    int *counts = mt_alloc(sizeof(int) * (size_t)size);
    double *in, *out;

    mt_phase("Reduce_scatter, share of %zu doubles", share);
    for (int r = 0; r < size; r++) {
        counts[r] = mt_count(share * (size_t)(r + 1));
        before += r < rank ? (size_t)counts[r] : 0;
        total += (size_t)counts[r];
    }
    in = mt_alloc(total * sizeof(double));
    out = mt_alloc((size_t)counts[rank] * sizeof(double));
    for (size_t i = 0; i < total; i++)
        in[i] = term(rank, i);
    MPI_Reduce_scatter(in, out, counts, MPI_DOUBLE, MPI_SUM, comm);
    for (size_t i = 0; i < (size_t)counts[rank]; i++)
        MT_CHECK(out[i] == expected_sum(before + i), "Reduce_scatter: element %zu is %g, not %g", i,
                 out[i], expected_sum(before + i));
    free(counts);
    free(in);
    free(out);
}

/* ---- gathers ------------------------------------------------------------------------------ */

static void verify_from_all(const unsigned char *all, size_t bytes, const char *what)
{
    for (int r = 0; r < size; r++)
        mt_verify(all + bytes * (size_t)r, bytes, key(r, 1, bytes), what);
}

static void test_gathers(size_t bytes, bool nonblocking)
{
    size_t total = bytes * (size_t)size;
    unsigned char *own = mt_alloc(bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    struct mt_buf all;
    int n = mt_count(bytes), root = size - 1;

    mt_buf_init(&all, total);
    mt_fill(own, bytes, key(rank, 1, bytes));
    mt_phase("Allgather, %zu bytes", bytes);
    mt_buf_arm(&all, total, 0);
    if (nonblocking)
        MPI_Iallgather(own, n, MPI_BYTE, all.data, n, MPI_BYTE, comm, &request);
    else
        MPI_Allgather(own, n, MPI_BYTE, all.data, n, MPI_BYTE, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    verify_from_all(all.data, bytes, "Allgather");
    mt_buf_check_guards(&all, "Allgather");

    mt_phase("Gather, %zu bytes", bytes);
    mt_buf_arm(&all, total, 0);
    if (nonblocking)
        MPI_Igather(own, n, MPI_BYTE, all.data, n, MPI_BYTE, root, comm, &request);
    else
        MPI_Gather(own, n, MPI_BYTE, all.data, n, MPI_BYTE, root, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == root)
        verify_from_all(all.data, bytes, "Gather");
    mt_buf_check_guards(&all, "Gather");

    mt_phase("Scatter, %zu bytes", bytes);
    for (int r = 0; rank == root && r < size; r++)
        mt_fill(all.data + bytes * (size_t)r, bytes, key(r, 2, bytes));
    MPI_Scatter(all.data, n, MPI_BYTE, own, n, MPI_BYTE, root, comm);
    mt_verify(own, bytes, key(rank, 2, bytes), "Scatter");
    mt_buf_fini(&all);
    free(own);
}

/* ---- all to all --------------------------------------------------------------------------- */

static void test_alltoall(size_t bytes, bool nonblocking)
{
    size_t total = bytes * (size_t)size;
    struct mt_buf out, in;
    MPI_Request request = MPI_REQUEST_NULL;
    int n = mt_count(bytes);

    mt_phase("Alltoall, %zu bytes", bytes);
    mt_buf_init(&out, total);
    mt_buf_init(&in, total);
    mt_buf_arm(&out, total, 0);
    mt_buf_arm(&in, total, 0);
    for (int r = 0; r < size; r++)
        mt_fill(out.data + bytes * (size_t)r, bytes, key(rank, r, bytes));
    if (nonblocking)
        MPI_Ialltoall(out.data, n, MPI_BYTE, in.data, n, MPI_BYTE, comm, &request);
    else
        MPI_Alltoall(out.data, n, MPI_BYTE, in.data, n, MPI_BYTE, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; r++)
        mt_verify(in.data + bytes * (size_t)r, bytes, key(r, rank, bytes), "Alltoall");
    mt_buf_check_guards(&in, "Alltoall");
    mt_buf_fini(&out);
    mt_buf_fini(&in);
}

/* Bytes from r to s: some none, some one, some many. */
static size_t uneven(int r, int s, size_t bytes)
{
    size_t draw = (size_t)(r * 7 + s * 3) % 5;

    return draw < 2 ? draw : bytes * draw / 4;
}

/* One side's counts and places; returns the total. */
static size_t uneven_layout(int *counts, int *places, size_t bytes, bool sending)
{
    size_t total = 0;

    for (int r = 0; r < size; r++) {
        counts[r] = mt_count(sending ? uneven(rank, r, bytes) : uneven(r, rank, bytes));
        places[r] = mt_count(total);
        total += (size_t)counts[r];
    }
    return total;
}

static void test_alltoallv(size_t bytes, bool nonblocking)
{
    int *n = mt_alloc(sizeof(int) * 4 * (size_t)size);
    int *out_n = n, *out_at = n + size, *in_n = n + 2 * size, *in_at = n + 3 * size;
    size_t out_total = uneven_layout(out_n, out_at, bytes, true);
    size_t in_total = uneven_layout(in_n, in_at, bytes, false);
    MPI_Request request = MPI_REQUEST_NULL;
    struct mt_buf out, in;

    mt_phase("Alltoallv, about %zu bytes", bytes);
    mt_buf_init(&out, out_total);
    mt_buf_init(&in, in_total);
    mt_buf_arm(&out, out_total, 0);
    mt_buf_arm(&in, in_total, 0);
    for (int r = 0; r < size; r++)
        mt_fill(out.data + out_at[r], (size_t)out_n[r], key(rank, r, bytes));
    if (nonblocking)
        MPI_Ialltoallv(out.data, out_n, out_at, MPI_BYTE, in.data, in_n, in_at, MPI_BYTE, comm,
                       &request);
    else
        MPI_Alltoallv(out.data, out_n, out_at, MPI_BYTE, in.data, in_n, in_at, MPI_BYTE, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; r++)
        mt_verify(in.data + in_at[r], (size_t)in_n[r], key(r, rank, bytes), "Alltoallv");
    mt_buf_check_guards(&in, "Alltoallv");
    mt_buf_fini(&out);
    mt_buf_fini(&in);
    free(n);
}

/* ---- many at once ------------------------------------------------------------------------- */

static void test_overlapping(void)
{
    enum { AT_ONCE = 12 };
    MPI_Request requests[AT_ONCE + 1];
    struct mt_buf bufs[AT_ONCE];
    const size_t bytes = 40000;

    mt_phase("%d broadcasts at once", AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++) {
        mt_buf_init(&bufs[i], bytes);
        mt_buf_arm(&bufs[i], bytes, 0);
        if (rank == i % size)
            mt_fill(bufs[i].data, bytes, key(i, 3, bytes));
        MPI_Ibcast(bufs[i].data, mt_count(bytes), MPI_BYTE, i % size, comm, &requests[i]);
    }
    MPI_Ibarrier(comm, &requests[AT_ONCE]);
    MPI_Waitall(AT_ONCE + 1, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < AT_ONCE; i++) {
        mt_buf_verify(&bufs[i], key(i, 3, bytes), "broadcasts at once");
        mt_buf_fini(&bufs[i]);
    }
}

static void test_all(MPI_Comm on)
{
    static const size_t sizes[] = {1, 100, 1472, 5000, 32768, 66000, 262144, 1048576};

    comm = on;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    test_barrier();
    test_allreduce_maxloc();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
            test_bcast(sizes[i], nonblocking);
            test_allreduce(sizes[i], nonblocking);
            test_gathers(per_rank(sizes[i]), nonblocking);
            test_alltoall(per_rank(sizes[i]), nonblocking);
            test_alltoallv(per_rank(sizes[i]), nonblocking);
        }
        test_reduce_scatter(sizes[i]);
    }
    test_overlapping();
}

int main(int argc, char **argv)
{
    MPI_Comm part;

    mt_start(argc, argv, "collectives", MPI_THREAD_SINGLE);
    test_all(MPI_COMM_WORLD);
    /* Two halves at once: the traffic of one must not disturb the other's. */
    MPI_Comm_split(MPI_COMM_WORLD, mt.rank % 2, -mt.rank, &part);
    test_all(part);
    MPI_Comm_free(&part);
    mt_finish("blocking and nonblocking, world and halves");
    return 0;
}
