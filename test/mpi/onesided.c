/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided: created, allocated and dynamic windows; put, get, accumulate, get_accumulate,
 * fetch_and_op and compare_and_swap under every kind of synchronisation.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_tool.h"

#define LARGEST    ((size_t)4 * 1024 * 1024)
#define AREA_BYTES (LARGEST + 64)

/* Every rank's window: counters, then where its predecessor puts, then what its successor gets. */
#define COUNTERS     512
#define PUT_AREA     (COUNTERS * sizeof(uint64_t))
#define GET_AREA     (PUT_AREA + AREA_BYTES)
#define WINDOW_BYTES (GET_AREA + AREA_BYTES)

enum flavor { CREATE, ALLOCATE, DYNAMIC, FLAVOR_COUNT };
static const char *const flavor_names[] = {"created", "allocated", "dynamic"};

struct window {
    MPI_Win win;
    enum flavor flavor;
    unsigned char *mem;
    MPI_Aint *bases; /* displacement of each rank's memory */
};

static const size_t put_sizes[] = {1, 8, 100, 1472, 4097, 32768, 65539, 1048576, LARGEST};
#define PUT_COUNT (sizeof(put_sizes) / sizeof(put_sizes[0]))

static int next_rank, previous_rank;
static uint64_t sequence;

/* ---- windows ------------------------------------------------------------------------------ */

static void window_init(struct window *w, enum flavor flavor)
{
    MPI_Aint own = 0;

    mt_phase("%s window", flavor_names[flavor]);
    w->flavor = flavor;
    w->bases = mt_alloc(sizeof(MPI_Aint) * (size_t)mt.size);
    if (flavor == ALLOCATE) {
        MPI_Win_allocate(WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->mem, &w->win);
    } else {
        w->mem = mt_alloc(WINDOW_BYTES);
        if (flavor == CREATE) {
            MPI_Win_create(w->mem, WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->win);
        } else {
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w->win);
            MPI_Win_attach(w->win, w->mem, WINDOW_BYTES);
            MPI_Get_address(w->mem, &own);
        }
    }
    memset(w->mem, 0, WINDOW_BYTES);
    MPI_Allgather(&own, 1, MPI_AINT, w->bases, 1, MPI_AINT, MPI_COMM_WORLD);
}

static void window_fini(struct window *w)
{
    unsigned char *mem = w->mem;

    mt_phase("%s window, free", flavor_names[w->flavor]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (w->flavor == DYNAMIC)
        MPI_Win_detach(w->win, mem);
    MPI_Win_free(&w->win);
    if (w->flavor != ALLOCATE)
        free(mem);
    free(w->bases);
}

static MPI_Aint at(const struct window *w, int target, size_t offset)
{
    return w->bases[target] + (MPI_Aint)offset;
}

static MPI_Aint counter(const struct window *w, int target, int index)
{
    return at(w, target, (size_t)index * sizeof(uint64_t));
}

static uint64_t read_counter(const struct window *w, int index)
{
    uint64_t value;

    MPI_Win_lock(MPI_LOCK_SHARED, mt.rank, 0, w->win);
    memcpy(&value, w->mem + (size_t)index * sizeof(uint64_t), sizeof(value));
    MPI_Win_unlock(mt.rank, w->win);
    return value;
}

static void zero_counters(const struct window *w)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mt.rank, 0, w->win);
    memset(w->mem, 0, PUT_AREA);
    MPI_Win_unlock(mt.rank, w->win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- put and get under each synchronisation ----------------------------------------------- */

enum sync { FENCE, LOCK, LOCK_ALL, PSCW, SYNC_COUNT };
static const char *const sync_names[] = {"fence", "lock", "lock_all and flush", "PSCW"};

struct epoch {
    MPI_Group next, previous;
};

static void epoch_open(const struct window *w, enum sync sync, const struct epoch *e)
{
    if (sync == FENCE) {
        MPI_Win_fence(0, w->win);
    } else if (sync == PSCW) {
        MPI_Win_post(e->previous, 0, w->win);
        MPI_Win_start(e->next, 0, w->win);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (sync == LOCK)
            MPI_Win_lock(sequence % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, next_rank, 0, w->win);
        else
            MPI_Win_lock_all(0, w->win);
    }
}

/* Afterwards all of the epoch's operations are complete at both ends, on all ranks. */
static void epoch_close(const struct window *w, enum sync sync)
{
    if (sync == FENCE) {
        MPI_Win_fence(0, w->win);
    } else if (sync == PSCW) {
        MPI_Win_complete(w->win);
        MPI_Win_wait(w->win);
    } else {
        if (sync == LOCK) {
            MPI_Win_unlock(next_rank, w->win);
        } else {
            MPI_Win_flush(next_rank, w->win);
            MPI_Win_unlock_all(w->win);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Puts into the successor and gets from it in one epoch, in `pieces` operations each way. */
static void put_get(struct window *w, enum sync sync, size_t size, size_t pieces,
                    const struct epoch *e)
{
    size_t shift = sequence % 8, piece = size / pieces;
    struct mt_key out = {mt.rank, next_rank, 1, sequence};
    struct mt_key put = {previous_rank, mt.rank, 1, sequence};
    struct mt_key own = {mt.rank, previous_rank, 2, sequence};
    struct mt_key got = {next_rank, mt.rank, 2, sequence};
    unsigned char *source = mt_alloc(size);
    struct mt_buf landed, fetched;

    mt_phase("%s window, %s, %zu bytes in %zu", flavor_names[w->flavor], sync_names[sync], size,
             pieces);
    mt_fill(source, size, out);
    memset(w->mem + PUT_AREA, MT_GUARD, size + 64);
    mt_fill(w->mem + GET_AREA + shift, size, own);
    mt_buf_init(&fetched, size);
    mt_buf_arm(&fetched, size, shift);
    MPI_Barrier(MPI_COMM_WORLD);
    epoch_open(w, sync, e);
    for (size_t i = 0; i < pieces; i++) {
        size_t from = i * piece;
        int n = mt_count(i + 1 == pieces ? size - from : piece);

        MPI_Put(source + from, n, MPI_BYTE, next_rank, at(w, next_rank, PUT_AREA + shift + from), n,
                MPI_BYTE, w->win);
        MPI_Get(fetched.data + from, n, MPI_BYTE, next_rank,
                at(w, next_rank, GET_AREA + shift + from), n, MPI_BYTE, w->win);
    }
    epoch_close(w, sync);
    mt_buf_verify(&fetched, got, "get");
    MPI_Win_lock(MPI_LOCK_SHARED, mt.rank, 0, w->win);
    mt_buf_init(&landed, size + 64);
    mt_buf_arm(&landed, size + 64, 0);
    memcpy(landed.data, w->mem + PUT_AREA, size + 64);
    MPI_Win_unlock(mt.rank, w->win);
    for (size_t i = 0; i < 64; i++) {
        size_t offset = i < shift ? i : size + i;

        MT_CHECK(landed.data[offset] == MT_GUARD, "put overran at offset %zu", offset);
    }
    mt_verify(landed.data + shift, size, put, "put");
    mt_buf_fini(&landed);
    mt_buf_fini(&fetched);
    free(source);
    sequence++;
}

static void test_put_get(struct window *w)
{
    struct epoch e;
    MPI_Group world;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &next_rank, &e.next);
    MPI_Group_incl(world, 1, &previous_rank, &e.previous);
    for (int sync = 0; sync < SYNC_COUNT; sync++) {
        for (size_t i = 0; i < PUT_COUNT; i++) {
            if (put_sizes[i] == LARGEST && mt.quick && sync != FENCE && sync != LOCK_ALL)
                continue;
            put_get(w, (enum sync)sync, put_sizes[i], 1, &e);
        }
        put_get(w, (enum sync)sync, 50000, 40, &e);
    }
    MPI_Group_free(&e.next);
    MPI_Group_free(&e.previous);
    MPI_Group_free(&world);
}

/* ---- accumulate --------------------------------------------------------------------------- */

/* Every rank adds to an array of every rank, then each reads all of its successor's back. */
static void test_accumulate(struct window *w)
{
    enum { ELEMENTS = 300, FIRST = 10 };
    uint64_t mine[ELEMENTS], back[ELEMENTS], ranks = (uint64_t)mt.size;

    mt_phase("%s window, accumulate", flavor_names[w->flavor]);
    zero_counters(w);
    for (int i = 0; i < ELEMENTS; i++)
        mine[i] = (uint64_t)(mt.rank + 1) * (uint64_t)(i + 1);
    MPI_Win_lock_all(0, w->win);
    for (int r = 0; r < mt.size; r++) {
        int target = (mt.rank + r) % mt.size;

        MPI_Accumulate(mine, ELEMENTS, MPI_UINT64_T, target, counter(w, target, FIRST), ELEMENTS,
                       MPI_UINT64_T, MPI_SUM, w->win);
    }
    MPI_Win_flush_all(w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Get_accumulate(NULL, 0, MPI_BYTE, back, ELEMENTS, MPI_UINT64_T, next_rank,
                       counter(w, next_rank, FIRST), ELEMENTS, MPI_UINT64_T, MPI_NO_OP, w->win);
    MPI_Win_flush(next_rank, w->win);
    for (uint64_t i = 0; i < ELEMENTS; i++)
        MT_CHECK(back[i] == (i + 1) * ranks * (ranks + 1) / 2, "element %llu is %llu, not %llu",
                 (unsigned long long)i, (unsigned long long)back[i],
                 (unsigned long long)((i + 1) * ranks * (ranks + 1) / 2));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Get_accumulate(mine, ELEMENTS, MPI_UINT64_T, back, ELEMENTS, MPI_UINT64_T, next_rank,
                       counter(w, next_rank, FIRST), ELEMENTS, MPI_UINT64_T, MPI_REPLACE, w->win);
    MPI_Win_flush(next_rank, w->win);
    /* 8 bytes replaced at once: osc/rdma asks the BTL for a swap. */
    int pair[2] = {mt.rank, 7};
    MPI_Accumulate(pair, 1, MPI_2INT, next_rank, counter(w, next_rank, FIRST), 1, MPI_2INT,
                   MPI_REPLACE, w->win);
    MPI_Win_unlock_all(w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    MT_CHECK(back[1] == ranks * (ranks + 1), "get_accumulate fetched %llu",
             (unsigned long long)back[1]);
    MT_CHECK(read_counter(w, FIRST + 1) == 2 * (uint64_t)(previous_rank + 1),
             "MPI_REPLACE left %llu", (unsigned long long)read_counter(w, FIRST + 1));
    uint64_t left = read_counter(w, FIRST);
    memcpy(pair, &left, sizeof pair);
    MT_CHECK(pair[0] == previous_rank && pair[1] == 7, "a pair replaced is %d, %d", pair[0],
             pair[1]);
}

/* ---- atomics ------------------------------------------------------------------------------ */

/* All increment one counter; every value from 0 to the total must be handed out exactly once. */
static void test_fetch_and_op(struct window *w, int target)
{
    int each = mt_scaled(200, 20), total = each * mt.size;
    uint64_t one = 1, *got = mt_alloc(sizeof(*got) * (size_t)each);
    uint64_t *all = mt_alloc(sizeof(*all) * (size_t)total);
    unsigned char *seen = mt_alloc((size_t)total);

    mt_phase("%s window, fetch_and_op at rank %d", flavor_names[w->flavor], target);
    zero_counters(w);
    MPI_Win_lock_all(0, w->win);
    for (int i = 0; i < each; i++) {
        MPI_Fetch_and_op(&one, &got[i], MPI_UINT64_T, target, counter(w, target, 3), MPI_SUM,
                         w->win);
        MPI_Win_flush(target, w->win);
    }
    MPI_Win_unlock_all(w->win);
    MPI_Gather(got, each, MPI_UINT64_T, all, each, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    memset(seen, 0, (size_t)total);
    for (int i = 0; mt.rank == 0 && i < total; i++) {
        MT_CHECK(all[i] < (uint64_t)total, "fetched %llu of %d", (unsigned long long)all[i], total);
        MT_CHECK(!seen[all[i]]++, "fetched %llu twice", (unsigned long long)all[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (mt.rank == target)
        MT_CHECK(read_counter(w, 3) == (uint64_t)total, "counter is %llu after %d increments",
                 (unsigned long long)read_counter(w, 3), total);
    free(got);
    free(all);
    free(seen);
}

/* A lock built on compare_and_swap guards a counter that is only read and written. */
static void test_compare_and_swap(struct window *w, int target)
{
    int each = mt_scaled(20, 3);
    uint64_t zero = 0, taken = (uint64_t)mt.rank + 1, found, value;

    mt_phase("%s window, compare_and_swap at rank %d", flavor_names[w->flavor], target);
    zero_counters(w);
    MPI_Win_lock_all(0, w->win);
    for (int i = 0; i < each; i++) {
        do {
            MPI_Compare_and_swap(&taken, &zero, &found, MPI_UINT64_T, target, counter(w, target, 5),
                                 w->win);
            MPI_Win_flush(target, w->win);
        } while (found != 0);
        MPI_Get(&value, 1, MPI_UINT64_T, target, counter(w, target, 6), 1, MPI_UINT64_T, w->win);
        MPI_Win_flush(target, w->win);
        value++;
        MPI_Put(&value, 1, MPI_UINT64_T, target, counter(w, target, 6), 1, MPI_UINT64_T, w->win);
        MPI_Win_flush(target, w->win);
        MPI_Compare_and_swap(&zero, &taken, &found, MPI_UINT64_T, target, counter(w, target, 5),
                             w->win);
        MPI_Win_flush(target, w->win);
        MT_CHECK(found == taken, "the lock changed from %llu to %llu while held",
                 (unsigned long long)taken, (unsigned long long)found);
    }
    MPI_Win_unlock_all(w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mt.rank == target)
        MT_CHECK(read_counter(w, 6) == (uint64_t)(each * mt.size), "counter is %llu, not %d",
                 (unsigned long long)read_counter(w, 6), each * mt.size);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Many under way: osc/pt2pt answers each with a blocking send, in which it must not wait. */
static void test_swaps_under_way(struct window *w)
{
    enum { SWAPS = 200, FIRST = 10 };
    uint64_t zero = 0, mine[SWAPS], found[SWAPS];

    mt_phase("%s window, %d compare_and_swap under way", flavor_names[w->flavor], SWAPS);
    zero_counters(w);
    MPI_Win_lock_all(0, w->win);
    for (int i = 0; i < SWAPS; i++) {
        mine[i] = (uint64_t)(mt.rank * SWAPS + i + 1);
        MPI_Compare_and_swap(&mine[i], &zero, &found[i], MPI_UINT64_T, next_rank,
                             counter(w, next_rank, FIRST + i), w->win);
    }
    MPI_Win_flush(next_rank, w->win);
    MPI_Win_unlock_all(w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < SWAPS; i++) {
        uint64_t value = read_counter(w, FIRST + i);

        MT_CHECK(found[i] == 0, "swap %d found %llu", i, (unsigned long long)found[i]);
        MT_CHECK(value == (uint64_t)(previous_rank * SWAPS + i + 1), "swap %d left %llu", i,
                 (unsigned long long)value);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/*
 * Each result takes eight bytes of a buffer that osc/rdma fills from end to end, of the size that
 * its buffer_size had when osc/rdma started; diwarp makes it 1 MiB.
 */
static void test_swaps_fill_buffer(struct window *w)
{
    enum { SWAPS = 140000, EPOCHS = 20, COUNTER = 10 };
    uint64_t zero = 0, mine = 1 + (uint64_t)mt.rank, found[SWAPS / EPOCHS];

    mt_phase("%s window, %d compare_and_swap", flavor_names[w->flavor], SWAPS);
    zero_counters(w);
    MPI_Win_lock_all(0, w->win);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int i = 0; i < SWAPS / EPOCHS; i++)
            MPI_Compare_and_swap(&mine, &zero, &found[i], MPI_UINT64_T, next_rank,
                                 counter(w, next_rank, COUNTER), w->win);
        MPI_Win_flush(next_rank, w->win);
        for (int i = 0; i < SWAPS / EPOCHS; i++)
            MT_CHECK(found[i] == (epoch + i > 0 ? mine : 0), "swap %d of epoch %d found %llu", i,
                     epoch, (unsigned long long)found[i]);
    }
    MPI_Win_unlock_all(w->win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static uint64_t count_sent(struct mt_pvar_set *pvars)
{
    return pvars->count == 0 ? 0
                             : mt_pvar_value(pvars, "btl_diwarp_tx_write_msgs") +
                                   mt_pvar_value(pvars, "btl_diwarp_tx_read_msgs") +
                                   mt_pvar_value(pvars, "btl_diwarp_tx_atomic_msgs");
}

/* A rank that locks its own window over and over, until another has written there, lets that one
 * in. Rank 0 sends nothing to itself; the locks and memory of the others of its host, and a lock of
 * all, lie there. */
static void test_own_window(struct window *w, struct mt_pvar_set *pvars)
{
    enum { ACCESSES = 200, COUNTER = 7 };
    const uint64_t mine = 1 + (uint64_t)mt.rank, wanted = 1 + (uint64_t)previous_rank;

    mt_phase("%s window, accessed by its owner", flavor_names[w->flavor]);
    zero_counters(w);
    const uint64_t sent = count_sent(pvars);
    for (int i = 0; mt.rank == 0 && i < ACCESSES; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
        MPI_Put(&mine, 1, MPI_UINT64_T, 0, counter(w, 0, COUNTER), 1, MPI_UINT64_T, w->win);
        MPI_Win_unlock(0, w->win);
        MT_CHECK(read_counter(w, COUNTER) == mine, "a put to itself is lost");
    }
    MT_CHECK(mt.rank != 0 || count_sent(pvars) == sent, "accesses to its own window are sent");
    zero_counters(w);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next_rank, 0, w->win);
    MPI_Put(&mine, 1, MPI_UINT64_T, next_rank, counter(w, next_rank, COUNTER), 1, MPI_UINT64_T,
            w->win);
    MPI_Win_unlock(next_rank, w->win);
    /* Open MPI 5.0 over tcp lets nobody in but from a call with the lock free. */
    for (int any; read_counter(w, COUNTER) != wanted;)
        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- who does it -------------------------------------------------------------------------- */

/* With osc restricted to rdma, a window that exists is one of osc/rdma. Left alone, osc/sm, by 100,
 * comes first for what it can serve. */
static void check_osc(void)
{
    const size_t priority = mt_cvar_number("osc_rdma_priority");
    char osc[256];

    if (!mt.expect_osc_rdma)
        return;
    MT_CHECK(mt_cvar_string("osc", osc, sizeof(osc)) && !strcmp(osc, "rdma"),
             "osc is not restricted to rdma but '%s'", osc);
    MT_CHECK(priority > 0 && priority < 100, "osc_rdma_priority is %zu", priority);
}

/* Over diwarp the counters tell that the operations went by RDMA. */
static void check_rdma_used(struct mt_pvar_set *pvars)
{
    uint64_t mine = 0, all = 0;
    int least = 0;

    mt_phase("RDMA counters");
    if (mt.expect_osc_rdma)
        mine = count_sent(pvars);
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&pvars->count, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (mt.expect_osc_rdma && least > 0)
        MT_CHECK(all > 0, "osc/rdma, but no RDMA operation was counted");
}

/* Open MPI 4.1's osc/rdma locks itself out of dynamic windows of other hosts, whatever the BTL:
 * find_dynamic_region() takes a lock exclusively, then refresh_dynamic_region() waits to share it.
 */
static bool one_host(void)
{
    MPI_Comm host;
    int size;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &size);
    MPI_Comm_free(&host);
    return size == mt.size;
}

int main(int argc, char **argv)
{
    struct mt_pvar_set pvars;

    mt_start(argc, argv, "onesided", MPI_THREAD_SINGLE);
    mt_tool_init();
    mt_pvar_set_init(&pvars, "btl_diwarp_");
    next_rank = (mt.rank + 1) % mt.size;
    previous_rank = (mt.rank - 1 + mt.size) % mt.size;
    check_osc();
    const int flavors = one_host() ? FLAVOR_COUNT : DYNAMIC;
    for (int flavor = 0; flavor < flavors; flavor++) {
        struct window w;

        window_init(&w, (enum flavor)flavor);
        test_put_get(&w);
        test_accumulate(&w);
        test_fetch_and_op(&w, 0);
        test_fetch_and_op(&w, mt.size - 1);
        test_compare_and_swap(&w, mt.size - 1);
        test_swaps_under_way(&w);
        test_own_window(&w, &pvars);
        if (mt.expect_osc_rdma && flavor == CREATE)
            test_swaps_fill_buffer(&w);
        window_fini(&w);
    }
    check_rdma_used(&pvars);
    mt_pvar_set_fini(&pvars);
    MPI_T_finalize();
    mt_finish("created, allocated%s windows, %llu put/get epochs",
              flavors == FLAVOR_COUNT ? " and dynamic" : "", (unsigned long long)sequence);
    return 0;
}
