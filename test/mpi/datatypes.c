/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Derived datatypes: each layout is built twice, as an MPI type and as our own list of segments, so
 * that what arrives is checked without trusting MPI's packing. Every pair of sender's and
 * receiver's layout, small to multi-megabyte; the gaps of the receiver must stay untouched.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

/* Ints per message are multiples of this, so that every layout divides them. */
#define UNIT_INTS 48

/* Where the type's bytes lie, in the order in which MPI sends them. */
struct layout {
    const char *name;
    MPI_Datatype type;
    int count;
    size_t (*segment)(size_t ints, size_t index, size_t *len); /* offset of the index-th segment */
    size_t segments;
    size_t extent; /* bytes the whole message spans */
};

#define INT_BYTES sizeof(int)

static MPI_Datatype committed(MPI_Datatype type)
{
    MPI_Type_commit(&type);
    return type;
}

/* ---- the layouts -------------------------------------------------------------------------- */

static size_t contiguous_segment(size_t ints, size_t index, size_t *len)
{
    (void)index;
    *len = ints * INT_BYTES;
    return 0;
}

static void build_contiguous(struct layout *l, size_t ints)
{
    MPI_Type_contiguous(mt_count(ints), MPI_INT, &l->type);
    l->type = committed(l->type);
    l->count = 1;
    l->segments = 1;
    l->extent = ints * INT_BYTES;
}

/* Blocks of 3 ints, 5 apart. */
static size_t vector_segment(size_t ints, size_t index, size_t *len)
{
    (void)ints;
    *len = 3 * INT_BYTES;
    return index * 5 * INT_BYTES;
}

static void build_vector(struct layout *l, size_t ints)
{
    MPI_Type_vector(mt_count(ints / 3), 3, 5, MPI_INT, &l->type);
    l->type = committed(l->type);
    l->count = 1;
    l->segments = ints / 3;
    l->extent = ints / 3 * 5 * INT_BYTES;
}

/* Groups of blocks of 1, 2 and 3 ints at 1, 4 and 8 within 13; the groups lie in reverse order, so
 * that the message walks memory backwards. */
static size_t indexed_segment(size_t ints, size_t index, size_t *len)
{
    static const size_t at[] = {1, 4, 8};
    size_t groups = ints / 6, group = index / 3, block = index % 3;

    *len = (block + 1) * INT_BYTES;
    return ((groups - 1 - group) * 13 + at[block]) * INT_BYTES;
}

static void build_indexed(struct layout *l, size_t ints)
{
    size_t blocks = ints / 6 * 3;
    int *lengths = mt_alloc(blocks * sizeof(int)), *places = mt_alloc(blocks * sizeof(int));

    for (size_t i = 0; i < blocks; i++) {
        size_t len, at = indexed_segment(ints, i, &len);

        lengths[i] = mt_count(len / INT_BYTES);
        places[i] = mt_count(at / INT_BYTES);
    }
    MPI_Type_indexed(mt_count(blocks), lengths, places, MPI_INT, &l->type);
    l->type = committed(l->type);
    l->count = 1;
    l->segments = blocks;
    l->extent = ints / 6 * 13 * INT_BYTES;
    free(lengths);
    free(places);
}

/* Struct of 2 ints at 4, 3 ints at 20, 1 int at 36 bytes, spanning 44. */
static size_t struct_segment(size_t ints, size_t index, size_t *len)
{
    static const size_t at[] = {4, 20, 36}, lengths[] = {2, 3, 1};

    (void)ints;
    *len = lengths[index % 3] * INT_BYTES;
    return index / 3 * 44 + at[index % 3];
}

static void build_struct(struct layout *l, size_t ints)
{
    int lengths[] = {2, 3, 1};
    MPI_Aint places[] = {4, 20, 36};
    MPI_Datatype types[] = {MPI_INT, MPI_INT, MPI_INT}, inner;

    MPI_Type_create_struct(3, lengths, places, types, &inner);
    MPI_Type_create_resized(inner, 0, 44, &l->type);
    MPI_Type_free(&inner);
    l->type = committed(l->type);
    l->count = mt_count(ints / 6);
    l->segments = ints / 6 * 3;
    l->extent = ints / 6 * 44;
}

/* Columns 2..9 of a matrix of 12 columns, from row 1 on. */
static size_t subarray_segment(size_t ints, size_t index, size_t *len)
{
    (void)ints;
    *len = 8 * INT_BYTES;
    return ((index + 1) * 12 + 2) * INT_BYTES;
}

static void build_subarray(struct layout *l, size_t ints)
{
    int rows = mt_count(ints / 8);
    int whole[] = {rows + 2, 12}, part[] = {rows, 8}, start[] = {1, 2};

    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, &l->type);
    l->type = committed(l->type);
    l->count = 1;
    l->segments = ints / 8;
    l->extent = (ints / 8 + 2) * 12 * INT_BYTES;
}

/* Pairs of ints, resized to 3. */
static size_t resized_segment(size_t ints, size_t index, size_t *len)
{
    (void)ints;
    *len = 2 * INT_BYTES;
    return index * 3 * INT_BYTES;
}

static void build_resized(struct layout *l, size_t ints)
{
    MPI_Datatype pair;

    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, 3 * INT_BYTES, &l->type);
    MPI_Type_free(&pair);
    l->type = committed(l->type);
    l->count = mt_count(ints / 2);
    l->segments = ints / 2;
    l->extent = ints / 2 * 3 * INT_BYTES;
}

/* Contiguous of vectors: 4 blocks of 6 ints, 7 apart; an element's extent ends at its last int. */
static size_t nested_segment(size_t ints, size_t index, size_t *len)
{
    (void)ints;
    *len = 6 * INT_BYTES;
    return (index / 4 * 27 + index % 4 * 7) * INT_BYTES;
}

static void build_nested(struct layout *l, size_t ints)
{
    MPI_Datatype vector;

    MPI_Type_vector(4, 6, 7, MPI_INT, &vector);
    MPI_Type_contiguous(2, vector, &l->type);
    MPI_Type_free(&vector);
    l->type = committed(l->type);
    l->count = mt_count(ints / UNIT_INTS);
    l->segments = ints / 6;
    l->extent = ints / 24 * 27 * INT_BYTES;
}

/* Long blocks: halves of the message, apart by a page. */
static size_t halves_segment(size_t ints, size_t index, size_t *len)
{
    *len = ints / 2 * INT_BYTES;
    return index * (ints / 2 * INT_BYTES + 4096);
}

static void build_halves(struct layout *l, size_t ints)
{
    MPI_Type_create_hvector(2, mt_count(ints / 2), (MPI_Aint)(ints / 2 * INT_BYTES + 4096), MPI_INT,
                            &l->type);
    l->type = committed(l->type);
    l->count = 1;
    l->segments = 2;
    l->extent = ints * INT_BYTES + 4096;
}

static const struct {
    const char *name;
    void (*build)(struct layout *, size_t ints);
    size_t (*segment)(size_t ints, size_t index, size_t *len);
} builders[] = {
    {"contiguous", build_contiguous, contiguous_segment},
    {"vector", build_vector, vector_segment},
    {"indexed", build_indexed, indexed_segment},
    {"struct", build_struct, struct_segment},
    {"subarray", build_subarray, subarray_segment},
    {"resized", build_resized, resized_segment},
    {"contiguous of vector", build_nested, nested_segment},
    {"halves", build_halves, halves_segment},
};
#define LAYOUTS ((int)(sizeof(builders) / sizeof(builders[0])))

static void layout_init(struct layout *l, int which, size_t ints)
{
    l->name = builders[which].name;
    l->segment = builders[which].segment;
    builders[which].build(l, ints);
}

/* ---- moving bytes by our own list --------------------------------------------------------- */

static void scatter(const struct layout *l, size_t ints, const unsigned char *stream,
                    unsigned char *spread)
{
    for (size_t i = 0; i < l->segments; i++) {
        size_t len, at = l->segment(ints, i, &len);

        memcpy(spread + at, stream, len);
        stream += len;
    }
}

/* Takes the segments out of `spread` and poisons them, so that only gaps are left to check. */
static void gather(const struct layout *l, size_t ints, unsigned char *spread,
                   unsigned char *stream)
{
    for (size_t i = 0; i < l->segments; i++) {
        size_t len, at = l->segment(ints, i, &len);

        memcpy(stream, spread + at, len);
        memset(spread + at, MT_POISON, len);
        stream += len;
    }
}

static void check_gaps(const struct mt_buf *buf, const char *what)
{
    for (size_t i = 0; i < buf->len; i++)
        MT_CHECK(buf->data[i] == MT_POISON, "%s: a gap was written at offset %zu of %zu", what, i,
                 buf->len);
    mt_buf_check_guards(buf, what);
}

/* ---- traffic ------------------------------------------------------------------------------ */

static void exchange(struct layout *sender, struct layout *receiver, size_t ints, uint64_t seq)
{
    int dst = (mt.rank + 1) % mt.size, src = (mt.rank - 1 + mt.size) % mt.size;
    size_t bytes = ints * INT_BYTES;
    unsigned char *stream = mt_alloc(bytes);
    struct mt_buf out, in;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    char what[80];
    int received = -1;

    snprintf(what, sizeof(what), "%s to %s", sender->name, receiver->name);
    mt_phase("%s, %zu bytes", what, bytes);
    mt_buf_init(&out, sender->extent);
    mt_buf_init(&in, receiver->extent);
    mt_buf_arm(&out, sender->extent, 0);
    mt_buf_arm(&in, receiver->extent, 0);
    mt_fill(stream, bytes, (struct mt_key){mt.rank, dst, 1, seq});
    scatter(sender, ints, stream, out.data);
    memset(stream, 0, bytes);

    if (seq % 2)
        MPI_Irecv(in.data, receiver->count, receiver->type, src, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out.data, sender->count, sender->type, dst, 1, MPI_COMM_WORLD, &requests[1]);
    if (seq % 2 == 0)
        MPI_Irecv(in.data, receiver->count, receiver->type, src, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Waitall(2, requests, statuses);

    MPI_Get_count(&statuses[0], receiver->type, &received);
    MT_CHECK(received == receiver->count, "%s: %d elements instead of %d", what, received,
             receiver->count);
    gather(receiver, ints, in.data, stream);
    mt_verify(stream, bytes, (struct mt_key){src, mt.rank, 1, seq}, what);
    check_gaps(&in, what);
    mt_buf_fini(&out);
    mt_buf_fini(&in);
    free(stream);
}

/* Large messages: not every pair, but every layout on either side, and both at once. */
static bool worth_it(int a, int b, size_t ints)
{
    if (ints < 500000)
        return true;
    return a == 0 || b == 0 || (!mt.quick && (a == b || (a + 3 * b) % 5 == 0)) || (a + 1 == b);
}

static int all_pairs(size_t ints)
{
    struct layout layouts[LAYOUTS];
    int exchanges = 0;

    for (int i = 0; i < LAYOUTS; i++)
        layout_init(&layouts[i], i, ints);
    for (int a = 0; a < LAYOUTS; a++) {
        for (int b = 0; b < LAYOUTS; b++) {
            if (worth_it(a, b, ints))
                exchange(&layouts[a], &layouts[b], ints, (uint64_t)exchanges++);
        }
    }
    for (int i = 0; i < LAYOUTS; i++)
        MPI_Type_free(&layouts[i].type);
    return exchanges;
}

/* Different basic types with padding between them, as C programs have them. */
struct particle {
    char kind;
    int id;
    double position[3];
    short charge[3];
};

static void test_mixed_struct(int count)
{
    int lengths[] = {1, 1, 3, 3};
    MPI_Aint places[] = {offsetof(struct particle, kind), offsetof(struct particle, id),
                         offsetof(struct particle, position), offsetof(struct particle, charge)};
    MPI_Datatype types[] = {MPI_CHAR, MPI_INT, MPI_DOUBLE, MPI_SHORT}, inner, type;
    int dst = (mt.rank + 1) % mt.size, src = (mt.rank - 1 + mt.size) % mt.size;
    struct particle *out = mt_alloc(sizeof(*out) * (size_t)count);
    struct particle *in = mt_alloc(sizeof(*in) * (size_t)count);

    mt_phase("mixed struct, %d elements", count);
    MPI_Type_create_struct(4, lengths, places, types, &inner);
    MPI_Type_create_resized(inner, 0, sizeof(struct particle), &type);
    MPI_Type_commit(&type);
    memset(in, MT_POISON, sizeof(*in) * (size_t)count);
    for (int i = 0; i < count; i++) {
        int x = i * 7 + mt.rank;

        out[i] = (struct particle){.kind = (char)(x % 100),
                                   .id = x,
                                   .position = {x, x + 1, x + 2},
                                   .charge = {(short)(x % 1000), 1, 2}};
    }
    MPI_Sendrecv(out, count, type, dst, 2, in, count, type, src, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++) {
        int x = i * 7 + src;

        MT_CHECK(in[i].kind == (char)(x % 100) && in[i].id == x && in[i].position[0] == x &&
                     in[i].position[2] == x + 2 && in[i].charge[0] == (short)(x % 1000) &&
                     in[i].charge[2] == 2,
                 "element %d of %d is wrong", i, count);
    }
    MPI_Type_free(&inner);
    MPI_Type_free(&type);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    static const size_t units[] = {1, 25, 180, 900, 16000};
    int exchanges = 0;

    mt_start(argc, argv, "datatypes", MPI_THREAD_SINGLE);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (units[i] < 10000 || mt.size <= 8 || !mt.quick)
            exchanges += all_pairs(units[i] * UNIT_INTS);
    }
    test_mixed_struct(1);
    test_mixed_struct(100);
    test_mixed_struct(60000);
    mt_finish("%d layouts, %d exchanges", LAYOUTS, exchanges + 3);
    return 0;
}
