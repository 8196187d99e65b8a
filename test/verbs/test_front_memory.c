/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: memory regions. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/verbs/end.h"

static uint8_t *map(size_t bytes, int protection)
{
    uint8_t *memory =
        mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void assert_refused(struct end *end, void *addr, size_t bytes, unsigned access)
{
    errno = 0;
    assert_null(ibv_reg_mr(end->pd, addr, bytes, access));
    assert_int_equal(errno, EFAULT);
}

static void assert_taken(struct end *end, void *addr, size_t bytes, unsigned access)
{
    struct ibv_mr *mr = ibv_reg_mr(end->pd, addr, bytes, access);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void reg__what_is_not_mapped(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = map(4 * page, PROT_READ | PROT_WRITE);
    assert_int_equal(munmap(memory + 2 * page, page), 0);
    assert_taken(end, memory, 2 * page, IBV_ACCESS_LOCAL_WRITE);
    assert_taken(end, memory + 3 * page, page, IBV_ACCESS_LOCAL_WRITE);
    assert_taken(end, memory + 2 * page - 1, 1, 0);
    for (unsigned access = 0; access <= IBV_ACCESS_LOCAL_WRITE; access++) {
        assert_refused(end, memory + 2 * page - 1, 2, access);
        assert_refused(end, memory + 2 * page, 1, access);
        assert_refused(end, memory, 4 * page, access);
        assert_refused(end, (void *)(UINTPTR_MAX - page), page, access);
        assert_refused(end, NULL, 1, access);
    }
    assert_int_equal(munmap(memory, 4 * page), 0);
    close_end(end);
}

static void reg__what_may_not_be_accessed(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = map(3 * page, PROT_READ | PROT_WRITE);
    memset(memory, 0x5a, 3 * page);
    assert_int_equal(mprotect(memory + page, page, PROT_READ), 0);
    assert_taken(end, memory, 3 * page, 0);
    assert_refused(end, memory, 3 * page, IBV_ACCESS_LOCAL_WRITE);
    assert_taken(end, memory + 2 * page, page, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    assert_refused(end, memory, 3 * page, 0);
    assert_refused(end, memory, 3 * page, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(memory[0], 0x5a);
    assert_int_equal(memory[3 * page - 1], 0x5a);
    assert_int_equal(munmap(memory, 3 * page), 0);
    close_end(end);
}

/* An access beyond the end of a file ends in SIGBUS; only newer kernels tell. */
static void reg__beyond_the_end_of_a_file(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)page), 0);
    uint8_t *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    assert_true(memory != MAP_FAILED);
    const bool told = !madvise(memory, page, 22); /* MADV_POPULATE_READ */
    assert_taken(end, memory, page, IBV_ACCESS_LOCAL_WRITE);
    if (told) {
        assert_refused(end, memory, 2 * page, IBV_ACCESS_LOCAL_WRITE);
        assert_refused(end, memory, page + 1, 0);
    }
    assert_int_equal(munmap(memory, 2 * page), 0);
    fclose(file);
    close_end(end);
}

/* What was never touched stays without pages: of 64 GB there may be fewer than the host has. */
static void reg__huge_takes_no_memory(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    const size_t bytes = (size_t)64 << 30, page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = map(bytes, PROT_READ | PROT_WRITE);
    unsigned char there[1024];
    assert_taken(end, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    assert_taken(end, memory, bytes, 0);
    assert_int_equal(mincore(memory, sizeof there * page, there), 0);
    for (size_t i = 0; i < sizeof there; i++)
        assert_int_equal(there[i] & 1, 0);
    assert_int_equal(munmap(memory + bytes / 2, page), 0);
    assert_refused(end, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(munmap(memory, bytes), 0);
    close_end(end);
}

/* As far down as the limit lets it grow, touched or not. */
static void reg__the_stack(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    uint8_t untouched[1 << 20];
    assert_taken(end, untouched, sizeof untouched, IBV_ACCESS_LOCAL_WRITE);
    close_end(end);
}

/* Neither message nor GRH comes to memory that is no longer registered, in any element. */
static void dereg__while_receives_name_it(void **state)
{
    (void)state;
    for (unsigned element = 0; element < 2; element++) {
        struct end *end = open_end(16);
        make_ready(end);
        struct ibv_mr *gone = ibv_reg_mr(end->pd, end->memory, sizeof end->memory, 1);
        assert_non_null(gone);
        struct ibv_sge sges[] = {{(uintptr_t)end->memory + 1024, 60, end->mr->lkey},
                                 {(uintptr_t)end->memory + 2048, BYTES, end->mr->lkey}};
        sges[element].lkey = gone->lkey;
        struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = sges, .num_sge = 2}, *bad;
        memset(end->memory, 1, sizeof end->memory);
        memset(end->memory + 1024, 0xaa, 3072);
        assert_int_equal(post_recv(end, 0, 3072, 40 + BYTES), 0);
        assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
        assert_int_equal(post_recv(end, 2, 3072, 40 + BYTES), 0);
        assert_int_equal(ibv_dereg_mr(gone), 0);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        const enum ibv_wc_status statuses[] = {IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR,
                                               IBV_WC_WR_FLUSH_ERR};
        for (unsigned i = 0; i < 3; i++) {
            const struct ibv_wc wc = take(end->recv_cq);
            assert_int_equal(wc.status, statuses[i]);
            assert_int_equal(wc.wr_id, i);
        }
        for (unsigned i = 1024; i < 3072; i++)
            assert_int_equal(end->memory[i], 0xaa);
        assert_int_equal(state_of(end->qp), IBV_QPS_ERR);
        assert_empty(end->recv_cq);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
        assert_int_equal(modify(end, IBV_QPS_RESET, 0), 0);
        make_ready(end);
        assert_int_equal(post_recv(end, 4, 3072, 40 + BYTES), 0);
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        assert_int_equal(take(end->recv_cq).wr_id, 4);
        close_end(end);
    }
}

static int advise(struct end *end, enum ibv_advise_mr_advice advice, uint32_t flags,
                  struct ibv_sge sge)
{
    return ibv_advise_mr(end->pd, advice, flags, &sge, 1);
}

static void advise__pages_in_advance(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = map(2 * page, PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = ibv_reg_mr(end->pd, memory, 2 * page, IBV_ACCESS_ON_DEMAND);
    assert_non_null(mr);
    const struct ibv_sge all = {(uintptr_t)memory, 2 * page, mr->lkey};
    const struct ibv_sge beyond = {(uintptr_t)memory + page, 2 * page, mr->lkey};
    const struct ibv_sge keyless = {(uintptr_t)memory, page, mr->lkey ^ 0x5a5a};
    const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH;
    assert_int_equal(advise(end, read, 0, all), 0);
    assert_int_equal(advise(end, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, all), 0);
    assert_int_equal(advise(end, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, all), EFAULT);
    assert_int_equal(advise(end, read, 0, beyond), EFAULT);
    assert_int_equal(advise(end, read, 0, keyless), EFAULT);
    assert_int_equal(advise(end, read, 0x80, all), EINVAL);
    assert_int_equal(advise(end, (enum ibv_advise_mr_advice)77, 0, all), ENOTSUP);
    assert_int_equal(munmap(memory + page, page), 0);
    assert_int_equal(advise(end, read, IBV_ADVISE_MR_FLAG_FLUSH, all), EFAULT);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(munmap(memory, page), 0);
    close_end(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reg__what_is_not_mapped),
        cmocka_unit_test(reg__what_may_not_be_accessed),
        cmocka_unit_test(reg__beyond_the_end_of_a_file),
        cmocka_unit_test(reg__the_stack),
        cmocka_unit_test(reg__huge_takes_no_memory),
        cmocka_unit_test(dereg__while_receives_name_it),
        cmocka_unit_test(advise__pages_in_advance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
