/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Accumulate, MPI_Get_accumulate and MPI_Fetch_and_op: every predefined integer type, every
 * operation that is defined for it, 1 to 100 elements, contiguous and derived types at the origin,
 * in the result and at the target. Each rank has a part of every rank's window to itself, and so
 * can compute what must be fetched and what must lie there. Then a long MPI_Accumulate, which must
 * not be made of many small reads.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

#define MOST 100 /* elements of one call */
/* Elements that a call may span: the derived types leave up to two gaps after each element. */
#define SPAN (3 * MOST)

/* ---- types and operations ----------------------------------------------------------------- */

struct number {
    MPI_Datatype type;
    const char *name;
    size_t bytes;
    bool is_bits; /* MPI_BYTE: no arithmetic, no logic */
};

#define NUMBER(mpi, c)                    \
    {                                     \
        MPI_##mpi, #mpi, sizeof(c), false \
    }

enum kind { MAX, MIN, SUM, PROD, LAND, LOR, LXOR, BAND, BOR, BXOR, REPLACE, NO_OP, KINDS };

struct op {
    MPI_Op op;
    const char *name;
};

static const struct op ops[KINDS] = {[MAX] = {MPI_MAX, "MAX"},
                                     [MIN] = {MPI_MIN, "MIN"},
                                     [SUM] = {MPI_SUM, "SUM"},
                                     [PROD] = {MPI_PROD, "PROD"},
                                     [LAND] = {MPI_LAND, "LAND"},
                                     [LOR] = {MPI_LOR, "LOR"},
                                     [LXOR] = {MPI_LXOR, "LXOR"},
                                     [BAND] = {MPI_BAND, "BAND"},
                                     [BOR] = {MPI_BOR, "BOR"},
                                     [BXOR] = {MPI_BXOR, "BXOR"},
                                     [REPLACE] = {MPI_REPLACE, "REPLACE"},
                                     [NO_OP] = {MPI_NO_OP, "NO_OP"}};

/* Element `i` of `data`; the hosts that the tests run on are little-endian. */
static uint64_t element(const struct number *number, const unsigned char *data, size_t i)
{
    uint64_t value = 0;

    memcpy(&value, data + i * number->bytes, number->bytes);
    return value;
}

static uint64_t combine(enum kind kind, uint64_t mine, uint64_t there)
{
    switch (kind) {
    case MAX:
        return mine > there ? mine : there;
    case MIN:
        return mine < there ? mine : there;
    case SUM:
        return mine + there;
    case PROD:
        return mine * there;
    case LAND:
        return mine && there;
    case LOR:
        return mine || there;
    case LXOR:
        return !mine != !there;
    case BAND:
        return mine & there;
    case BOR:
        return mine | there;
    case BXOR:
        return mine ^ there;
    case REPLACE:
        return mine;
    default:
        return there;
    }
}

static bool is_defined(const struct number *number, enum kind kind)
{
    return !number->is_bits || kind >= BAND;
}

/* ---- layouts ------------------------------------------------------------------------------ */

enum form { CONTIGUOUS, VECTOR, INDEXED, FORMS };

static const char *const form_names[FORMS] = {"contiguous", "vector", "indexed"};

/* `elements` of a number in some order of gaps: what to hand to MPI, and where each lies. */
struct layout {
    MPI_Datatype type;
    int count;
    size_t at[MOST];
    bool derived;
};

static void layout_init(struct layout *layout, const struct number *number, enum form form,
                        int elements)
{
    int lengths[MOST], places[MOST], blocks = 0, at = 0;

    *layout = (struct layout){.type = number->type, .count = elements, .derived = false};
    for (int i = 0; i < elements; blocks++) {
        /* Single elements two apart, or blocks of one to four with gaps of one and two. */
        int length = form == INDEXED ? 1 + blocks % 4 : form == VECTOR ? 1 : elements;
        int gap = form == INDEXED ? 1 + blocks % 2 : 1;

        lengths[blocks] = length < elements - i ? length : elements - i;
        places[blocks] = at;
        for (int j = 0; j < lengths[blocks]; j++)
            layout->at[i++] = (size_t)at++;
        at += gap;
    }
    if (form == CONTIGUOUS)
        return;
    if (form == VECTOR)
        MPI_Type_vector(elements, 1, 2, number->type, &layout->type);
    else
        MPI_Type_indexed(blocks, lengths, places, number->type, &layout->type);
    MPI_Type_commit(&layout->type);
    layout->count = 1;
    layout->derived = true;
}

static void layout_fini(struct layout *layout)
{
    if (layout->derived)
        MPI_Type_free(&layout->type);
}

/* ---- calls -------------------------------------------------------------------------------- */

#define PART_BYTES (SPAN * sizeof(uint64_t))

enum call { ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP };

static const char *const call_names[] = {"accumulate", "get_accumulate", "fetch_and_op"};

struct task {
    enum call call;
    const struct number *number;
    enum kind kind;
    int elements, target;
    enum form origin, result, there;
};

static struct {
    MPI_Win win;
    unsigned char *mem; /* part r belongs to rank r */
    uint64_t random;
    unsigned long calls;
    unsigned char origin[PART_BYTES], result[PART_BYTES];
    unsigned char fetched[PART_BYTES]; /* what the result must be */
    unsigned char left[PART_BYTES];    /* what must lie at the target in the end */
    unsigned char found[PART_BYTES];
} w;

/* Arithmetic is of positive numbers of less than half the width: some of Open MPI's functions
 * saturate, and some take MPI_UNSIGNED_LONG for signed and MPI_OFFSET for unsigned. The other
 * operations meet zeros and ones, too. */
static void fill(unsigned char *data, const struct task *task)
{
    const struct number *number = task->number;
    const unsigned few = (unsigned)(8 * sizeof(uint64_t) - 4 * number->bytes + 1);

    for (size_t i = 0; i < SPAN; i++) {
        uint64_t value = mt_random(&w.random);

        if (task->kind <= PROD)
            value >>= few;
        else if (value % 4 == 0)
            value = value >> 2 & 1;
        memcpy(data + i * number->bytes, &value, number->bytes);
    }
}

/* What is left and what is fetched, from what lies at the target before. */
static void compute(const struct task *task, const struct layout *origin,
                    const struct layout *result, const struct layout *there)
{
    const struct number *number = task->number;

    for (int i = 0; i < task->elements; i++) {
        uint64_t old = element(number, w.left, there->at[i]);
        uint64_t mine = element(number, w.origin, origin->at[i]);
        uint64_t new = combine(task->kind, mine, old);

        if (task->call != ACCUMULATE)
            memcpy(w.fetched + result->at[i] * number->bytes, &old, number->bytes);
        memcpy(w.left + there->at[i] * number->bytes, &new, number->bytes);
    }
}

static void compare(const struct number *number, const unsigned char *data,
                    const unsigned char *expected, const char *what)
{
    for (size_t i = 0; i < SPAN; i++) {
        uint64_t is = element(number, data, i), must = element(number, expected, i);

        MT_CHECK(is == must, "element %zu %s is %#llx, not %#llx", i, what, (unsigned long long)is,
                 (unsigned long long)must);
    }
}

static void start_call(const struct task *task, MPI_Aint at, const struct layout *origin,
                       const struct layout *result, const struct layout *there)
{
    const int target = task->target;
    const MPI_Op op = ops[task->kind].op;

    if (task->call == ACCUMULATE)
        MPI_Accumulate(w.origin, origin->count, origin->type, target, at, there->count, there->type,
                       op, w.win);
    else if (task->call == GET_ACCUMULATE)
        MPI_Get_accumulate(w.origin, origin->count, origin->type, w.result, result->count,
                           result->type, target, at, there->count, there->type, op, w.win);
    else
        MPI_Fetch_and_op(w.origin, w.result, origin->type, target, at, op, w.win);
}

static void run_task(const struct task *task)
{
    const int target = task->target, bytes = (int)(SPAN * task->number->bytes);
    const MPI_Aint at = (MPI_Aint)(PART_BYTES * (size_t)mt.rank);
    struct layout origin, result, there;

    mt_phase("%s of %d %s, %s, at rank %d; origin %s, result %s, target %s", call_names[task->call],
             task->elements, task->number->name, ops[task->kind].name, target,
             form_names[task->origin], form_names[task->result], form_names[task->there]);
    layout_init(&origin, task->number, task->origin, task->elements);
    layout_init(&result, task->number, task->result, task->elements);
    layout_init(&there, task->number, task->there, task->elements);
    fill(w.origin, task);
    fill(w.left, task);
    memset(w.result, MT_POISON, PART_BYTES);
    memset(w.fetched, MT_POISON, PART_BYTES);
    MPI_Put(w.left, bytes, MPI_BYTE, target, at, bytes, MPI_BYTE, w.win);
    MPI_Win_flush(target, w.win);
    compute(task, &origin, &result, &there);
    start_call(task, at, &origin, &result, &there);
    MPI_Win_flush(target, w.win);
    compare(task->number, w.result, w.fetched, "of the result");
    MPI_Get(w.found, bytes, MPI_BYTE, target, at, bytes, MPI_BYTE, w.win);
    MPI_Win_flush(target, w.win);
    compare(task->number, w.found, w.left, "at the target");
    layout_fini(&origin);
    layout_fini(&result);
    layout_fini(&there);
    w.calls++;
}

/* One operation, with every form at the target and the other two in turn. */
static void run_op(const struct number *number, enum kind kind, int elements)
{
    struct task task = {.number = number, .kind = kind};
    int turn = elements + (int)kind;

    for (int there = 0; there < FORMS; there++) {
        task.elements = elements;
        task.there = (enum form)there;
        task.origin = (enum form)((there + turn) % FORMS);
        task.result = (enum form)((there + turn / FORMS) % FORMS);
        task.target = (mt.rank + 1 + (int)(w.calls % (unsigned)mt.size)) % mt.size;
        task.call = GET_ACCUMULATE;
        run_task(&task);
        if (kind == NO_OP)
            continue;
        task.call = ACCUMULATE;
        run_task(&task);
    }
    task = (struct task){.call = FETCH_AND_OP,
                         .number = number,
                         .kind = kind,
                         .elements = 1,
                         .target = (mt.rank + elements) % mt.size};
    run_task(&task);
}

/* Counts around the 32 up to which osc/rdma would use atomics of the network, some for each. */
static void run_number(const struct number *number)
{
    static const int elements[] = {1, 2, 7, 31, 32, 33, MOST};
    enum { COUNTS = sizeof(elements) / sizeof(elements[0]) };
    const int each = mt.quick ? 1 : 3;
    int next = (int)number->bytes;

    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; is_defined(number, (enum kind)kind) && i < each; i++)
            run_op(number, (enum kind)kind, elements[next++ % COUNTS]);
    }
}

/* Sums of 8-byte integers are what osc/rdma leaves to the network: each count, few and many. */
static void run_every_count(const struct number *number)
{
    for (int elements = 1; elements <= MOST; elements += elements < 34 && !mt.quick ? 1 : 11)
        run_op(number, SUM, elements);
}

/* ---- long ones ---------------------------------------------------------------------------- */

#define LONG_ELEMENTS (128 * 1024)

/* Every rank adds to all of its successor's memory, twice. */
static void run_long(void)
{
    const int next = (mt.rank + 1) % mt.size, previous = (mt.rank + mt.size - 1) % mt.size;
    const size_t bytes = LONG_ELEMENTS * sizeof(uint64_t);
    uint64_t *mine = mt_alloc(bytes), *mem = mt_alloc(bytes);
    MPI_Win win;

    mt_phase("accumulate of %zu bytes", bytes);
    for (size_t i = 0; i < LONG_ELEMENTS; i++) {
        mine[i] = (uint64_t)mt.rank + i;
        mem[i] = i;
    }
    MPI_Win_create(mem, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 2; i++)
        MPI_Accumulate(mine, LONG_ELEMENTS, MPI_UINT64_T, next, 0, LONG_ELEMENTS, MPI_UINT64_T,
                       MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (size_t i = 0; i < LONG_ELEMENTS; i++)
        MT_CHECK(mem[i] == 3 * i + 2 * (uint64_t)previous, "element %zu is %llu, not %llu", i,
                 (unsigned long long)mem[i], (unsigned long long)(3 * i + 2 * (uint64_t)previous));
    MPI_Win_free(&win);
    free(mine);
    free(mem);
}

/* osc/rdma waits for each read, so that many small ones take long whatever the network. */
static void test_long(void)
{
    const uint64_t most = 2 * LONG_ELEMENTS * sizeof(uint64_t) / (64 * 1024);
    struct mt_pvar_set pvars;
    uint64_t before, reads;

    mt_tool_init();
    mt_pvar_set_init(&pvars, "btl_diwarp_");
    if (!mt.expect_osc_rdma || pvars.count == 0) {
        run_long();
    } else {
        before = mt_pvar_value(&pvars, "btl_diwarp_tx_read_msgs");
        run_long();
        reads = mt_pvar_value(&pvars, "btl_diwarp_tx_read_msgs") - before;
        MT_CHECK(reads > 0 && reads <= most, "%llu reads, not 1 to %llu", (unsigned long long)reads,
                 (unsigned long long)most);
    }
    mt_pvar_set_fini(&pvars);
    MPI_T_finalize();
}

int main(int argc, char **argv)
{
    const struct number numbers[] = {
        NUMBER(INT64_T, int64_t),
        NUMBER(UINT64_T, uint64_t),
        NUMBER(INT32_T, int32_t),
        NUMBER(UINT32_T, uint32_t),
        NUMBER(INT16_T, int16_t),
        NUMBER(UINT16_T, uint16_t),
        NUMBER(INT8_T, int8_t),
        NUMBER(UINT8_T, uint8_t),
        NUMBER(SIGNED_CHAR, signed char),
        NUMBER(UNSIGNED_CHAR, unsigned char),
        NUMBER(SHORT, short),
        NUMBER(UNSIGNED_SHORT, unsigned short),
        NUMBER(INT, int),
        NUMBER(UNSIGNED, unsigned),
        NUMBER(LONG, long),
        NUMBER(UNSIGNED_LONG, unsigned long),
        NUMBER(LONG_LONG, long long),
        NUMBER(UNSIGNED_LONG_LONG, unsigned long long),
        NUMBER(AINT, MPI_Aint),
        NUMBER(COUNT, MPI_Count),
        NUMBER(OFFSET, MPI_Offset),
        {MPI_BYTE, "BYTE", 1, true},
    };
    enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

    mt_start(argc, argv, "accumulate", MPI_THREAD_SINGLE);
    const size_t bytes = PART_BYTES * (size_t)mt.size;
    w.random = mt.seed + (uint64_t)mt.rank;
    w.mem = mt_alloc(bytes);
    MPI_Win_create(w.mem, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
    MPI_Win_lock_all(0, w.win);
    run_every_count(&numbers[0]);
    for (int i = 0; i < NUMBERS; i++)
        run_number(&numbers[i]);
    MPI_Win_unlock_all(w.win);
    MPI_Win_free(&w.win);
    free(w.mem);
    test_long();
    mt_finish("%d integer types, %lu calls a rank", NUMBERS, w.calls);
    return 0;
}
