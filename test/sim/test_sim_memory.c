/* SPDX-License-Identifier: BSD-3-Clause */
/* Without memory: requests end in one completion or are refused. Linked with --wrap for malloc(),
 * realloc() and dw_pages_map(). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define RECORD_BYTES 100000u
#define READS        20

static size_t no_malloc_of_bytes; /* 0: there is memory */
static bool no_realloc, no_pages;

void *__real_malloc(size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__real_dw_pages_map(size_t bytes);
void *__wrap_dw_pages_map(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return bytes == no_malloc_of_bytes ? NULL : __real_malloc(bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return no_realloc ? NULL : __real_realloc(old, bytes);
}

void *__wrap_dw_pages_map(size_t bytes)
{
    return no_pages ? NULL : __real_dw_pages_map(bytes);
}

/* As verbs have it: what it cannot tell is lost, and the CQ with it, not the process. */
static void poll_cq__overrun_when_it_cannot_grow(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    const struct diwarp_wc wc = {.wc = {.opcode = IBV_WC_SEND}};
    struct diwarp_wc polled;
    fixture_open(f);
    struct diwarp_cq *cq = f->world.nodes[0].cq;
    dw_cq_push(cq, &wc);
    const uint32_t capacity = cq->ring.capacity;
    no_malloc_of_bytes = 2 * capacity * sizeof wc;
    for (uint32_t i = 1; i < capacity; i++)
        dw_cq_push(cq, &wc);
    assert_false(cq->overrun);
    dw_cq_push(cq, &wc);
    no_malloc_of_bytes = 0;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(diwarp_poll_cq(cq, 1, &polled), -ENOMEM);
        assert_int_equal(diwarp_wait_cq(cq, 1, &polled, SECOND), -ENOMEM);
    }
    cq->overrun = false; /* for what closes the fixture */
    cq->ring.count = 0;
    fixture_close(f);
}

/* A request of node 0 for memory of node 1. */
static void post_record(struct fixture *f, enum ibv_wr_opcode opcode, uint8_t *local,
                        uint8_t *remote)
{
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    assert_int_equal(fixture_post(f, 0, 1, 1, opcode, 0, local, RECORD_BYTES, mr), 0);
}

/* The data is there, but the source cannot be told: a success, and a peer that is gone. */
static void read__complete__cannot_tell_the_source(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    f->config.device.peer_timeout_ns = SECOND;
    fixture_open(f);
    post_record(f, IBV_WR_RDMA_READ, local, remote);
    no_malloc_of_bytes = sizeof(struct dw_work);
    for (unsigned i = 0; i < 1000 && !fixture_count(f, 0, DIWARP_WC_PEER_GONE); i++)
        (void)sim_world_step(&f->world);
    no_malloc_of_bytes = 0;
    fixture_assert_status(f, 0, 1, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 1);
    assert_memory_equal(local, remote, RECORD_BYTES);
    fixture_run(f, 8 * SECOND);
    fixture_close(f);
    free(local);
    free(remote);
}

static enum sim_verdict no_more_works(void *world, const struct sim_endpoint *from,
                                      const uint8_t *buf, uint32_t bytes)
{
    (void)world;
    if (fixture_parse(from, buf, bytes).control.kind == DW_RECORD_COMPLETE)
        no_malloc_of_bytes = sizeof(struct dw_work);
    return SIM_PASS;
}

/* The data is there, but the target cannot be told: an error. */
static void write_imm__complete__cannot_tell_the_target(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    f->world.net.filter = no_more_works;
    post_record(f, IBV_WR_RDMA_WRITE_WITH_IMM, local, remote);
    fixture_run(f, 2 * SECOND);
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_RDMA_WRITE_WITH_IMM, 0, NULL, 0, NULL),
                     -ENOMEM);
    no_malloc_of_bytes = 0;
    fixture_run(f, 2 * SECOND);
    fixture_assert_status(f, 0, 1, IBV_WC_RDMA_WRITE, IBV_WC_GENERAL_ERR);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV_RDMA_WITH_IMM), 0);
    assert_memory_equal(local, remote, RECORD_BYTES);
    fixture_close(f);
    free(local);
    free(remote);
}

static enum sim_verdict lose_first_segments(void *world, const struct sim_endpoint *from,
                                            const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    bool lost = seen.header.type == DW_LLP_RECORD && fixture_of(world)->hits < READS;
    fixture_of(world)->hits += lost;
    return lost ? SIM_DROP : SIM_PASS;
}

/* Each that is taken has a timer, which asks again for what is lost. */
static void reads__more_than_there_is_memory_for_timers(void **state)
{
    (void)state;
    enum { BYTES = 1000 };
    struct fixture *f = fixture_new();
    uint8_t local[READS][BYTES], *remote = fixture_payload(2, BYTES);
    unsigned posted = 0;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
    assert_int_equal(fixture_post(f, 0, 1, 90, IBV_WR_SEND, 0, local, 1, NULL), 0);
    fixture_run(f, SECOND); /* the network has memory */
    f->world.net.filter = lose_first_segments;
    no_realloc = true;
    while (posted < READS &&
           !fixture_post(f, 0, 1, posted, IBV_WR_RDMA_READ, 0, local[posted], BYTES, mr))
        posted++;
    no_realloc = false;
    assert_in_range(posted, 8, READS - 1);
    fixture_run(f, 2 * SECOND);
    for (unsigned i = 0; i < posted; i++)
        fixture_assert_status(f, 0, i, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_int_equal(fixture_post(f, 0, 1, READS, IBV_WR_RDMA_READ, 0, local[0], BYTES, mr), 0);
    fixture_run(f, 2 * SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RDMA_READ), posted + 1);
    fixture_close(f);
    free(remote);
}

static enum sim_verdict lose_every_other(void *world, const struct sim_endpoint *from,
                                         const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    bool of_record = seen.ddp.opcode == DW_RDMAP_WRITE_RECORD;
    return of_record && ++fixture_of(world)->hits % 2 && fixture_of(world)->hits < 100 ? SIM_DROP
                                                                                       : SIM_PASS;
}

/* What cannot be noted in the map is dropped, counted, and asked for again; no byte of it counts as
 * received. The source may be unable to note what is asked of it, too. */
static void read__no_memory_for_the_map(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    f->world.net.filter = lose_every_other;
    post_record(f, IBV_WR_RDMA_READ, local, remote);
    no_malloc_of_bytes = 16 * sizeof(struct dw_range); /* the first list that is not in place */
    sim_world_run_for(&f->world, 10 * MS);
    assert_true(sim_counters(&f->world, 0)->drop_no_buffer > 10);
    no_malloc_of_bytes = 0;
    fixture_run(f, 2 * SECOND);
    fixture_assert_status(f, 0, 1, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, RECORD_BYTES);
    assert_int_equal(sim_counters(&f->world, 0)->rx_record_bytes, RECORD_BYTES);
    fixture_close(f);
    free(local);
    free(remote);
}

/* Nothing can be mapped any more: messages of several datagrams come one at a time, from two peers
 * that send at once, in whatever order their datagrams arrive. */
static void send__several_datagrams__no_pages(void **state)
{
    (void)state;
    enum { BYTES = 5000, SENDS = 50 };
    struct fixture *f = fixture_new();
    uint8_t *data = fixture_payload(1, BYTES);
    f->config.node_count = 3;
    f->config.impairment.reorder_permille = 300;
    f->config.impairment.reorder_ns = MS;
    fixture_open(f);
    no_pages = true;
    for (unsigned i = 0; i < SENDS; i++) {
        assert_int_equal(fixture_post(f, 0, 2, i, IBV_WR_SEND, 0, data, BYTES, NULL), 0);
        assert_int_equal(fixture_post(f, 1, 2, i, IBV_WR_SEND, 0, data, BYTES, NULL), 0);
    }
    fixture_run(f, 10 * SECOND);
    no_pages = false;
    assert_true(sim_counters(&f->world, 2)->drop_no_buffer > SENDS);
    assert_int_equal(fixture_count(f, 2, IBV_WC_RECV), 2 * SENDS);
    fixture_close(f);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poll_cq__overrun_when_it_cannot_grow),
        cmocka_unit_test(read__complete__cannot_tell_the_source),
        cmocka_unit_test(write_imm__complete__cannot_tell_the_target),
        cmocka_unit_test(read__no_memory_for_the_map),
        cmocka_unit_test(reads__more_than_there_is_memory_for_timers),
        cmocka_unit_test(send__several_datagrams__no_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
