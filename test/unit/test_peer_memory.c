/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a peer costs: every byte the core has from malloc() is counted, over an LLP that answers for
 * any number of peers. Linked with --wrap for malloc() and its kin.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/open.h"
#include "common/rd/parts.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

#define ACTIVE_MAX_BYTES 512
/* All are on one host: the path to it, and the first table of paths. */
#define HOST_MAX_BYTES 384
/* Never met, with what finding it by name takes, in chunks that may be partly used. */
#define KNOWN_MAX_BYTES   64
#define CHUNKS_MAX_BYTES  (2 * 2048 + 1024)
#define RESTING_MAX_BYTES 128
#define MANY_PEERS        100000
#define PEERS_MAX         4000
#define JOB               5

/* ---- the bytes malloc() gave, and what it needs itself ---- */

static size_t held_bytes;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
int __real_posix_memalign(void **block, size_t align, size_t bytes);
void __real_free(void *old);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
int __wrap_posix_memalign(void **block, size_t align, size_t bytes);
void __wrap_free(void *old);

static size_t cost_of(void *block)
{
    return block ? malloc_usable_size(block) + sizeof(size_t) : 0;
}

static void *taken(void *block)
{
    held_bytes += cost_of(block);
    return block;
}

void *__wrap_malloc(size_t bytes)
{
    return taken(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return taken(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *old, size_t bytes)
{
    held_bytes -= cost_of(old);
    return taken(__real_realloc(old, bytes));
}

int __wrap_posix_memalign(void **block, size_t align, size_t bytes)
{
    int rc = __real_posix_memalign(block, align, bytes);
    if (!rc)
        taken(*block);
    return rc;
}

void __wrap_free(void *old)
{
    held_bytes -= cost_of(old);
    __real_free(old);
}

static unsigned lock_count;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    lock_count++;
    return __real_pthread_mutex_lock(lock);
}

/* ---- an LLP behind which all peers acknowledge all that is sent ---- */

struct answering {
    struct dw_llp llp;
    struct diwarp_qp *qp;
    uint64_t now_ns;
    uint32_t psns[PEERS_MAX];
    unsigned waiting[PEERS_MAX]; /* ranks whose answer has not been received */
    unsigned first, count;
};

static int answering_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    struct answering *net = dw_container(llp, struct answering, llp);
    struct dw_llp_header header;
    assert_int_equal(dw_llp_header_get(&header, train->iov[0].iov_base, train->total_bytes), 0);
    unsigned rank = train->to->port;
    if (header.type != DW_LLP_DATA)
        return 0;
    net->psns[rank] = header.psn;
    assert_true(net->count < PEERS_MAX);
    net->waiting[(net->first + net->count++) % PEERS_MAX] = rank;
    return 0;
}

static int answering_recv(struct dw_llp *llp, uint8_t *buf, uint32_t *segment_bytes)
{
    struct answering *net = dw_container(llp, struct answering, llp);
    if (!net->count)
        return -1;
    unsigned rank = net->waiting[net->first];
    net->first = (net->first + 1) % PEERS_MAX;
    net->count--;
    struct dw_llp_header header = {
        .type = DW_LLP_ACK,
        .credit_kib = 64,
        .incarnation = rank,
        .token = net->qp->port->datagrams.token,
        .job = JOB,
        .rank = rank,
        .ack = net->psns[rank] + 1,
    };
    dw_llp_header_put(buf, &header);
    dw_put_be32(buf + DW_LLP_HEADER_BYTES, dw_crc32c(0, buf, DW_LLP_HEADER_BYTES));
    *segment_bytes = DW_LLP_HEADER_BYTES + DW_CRC_BYTES;
    return DW_LLP_HEADER_BYTES + DW_CRC_BYTES;
}

static int answering_icmp(struct dw_llp *llp, struct dw_llp_addr *to)
{
    (void)llp;
    (void)to;
    return -1;
}

static void answering_close(struct dw_llp *llp)
{
    (void)llp;
}

static const struct dw_llp_ops answering_ops = {.send = answering_send,
                                                .recv = answering_recv,
                                                .icmp = answering_icmp,
                                                .close = answering_close};

static int answering_open(void *arg, const struct diwarp_device_attr *attr,
                          const struct dw_llp_addr *at, struct diwarp_counters *counters,
                          struct dw_llp **llp, struct diwarp_diagnosis *why)
{
    struct answering *net = arg;
    (void)at, (void)why;
    net->llp = (struct dw_llp){.ops = &answering_ops,
                               .counters = counters,
                               .fd = -1,
                               .port = 1,
                               .rcvbuf_bytes = attr->rcvbuf_bytes,
                               .sndbuf_bytes = attr->sndbuf_bytes};
    *llp = &net->llp;
    return 0;
}

static uint64_t answering_now_ns(void *arg)
{
    return ((struct answering *)arg)->now_ns;
}

/* ---- the case ---- */

struct world {
    struct answering net;
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp;
    struct diwarp_ah *ahs[PEERS_MAX];
};

static const struct diwarp_interface interface = {
    .name = "fake0", .family = AF_INET, .prefix_bits = 8, .mtu_bytes = 1500, .ip = {10, 0, 0, 1}};

static void open_world(struct world *w)
{
    struct dw_env env = {.now_ns = answering_now_ns,
                         .open_llp = answering_open,
                         .arg = &w->net,
                         .seed = 1,
                         .interfaces = &interface,
                         .interface_count = 1};
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;
    diwarp_device_attr_init(&attr);
    attr.name = (struct diwarp_name){.job = JOB, .rank = PEERS_MAX};
    assert_int_equal(dw_device_open(&attr, &env, &w->device, NULL), 0);
    assert_non_null(w->pd = diwarp_alloc_pd(w->device));
    assert_non_null(w->cq = diwarp_create_cq(w->device, 4096));
    diwarp_qp_attr_init(&qp_attr);
    qp_attr.cq = w->cq;
    assert_int_equal(diwarp_create_qp(w->pd, &qp_attr, &w->qp, NULL), 0);
    w->net.qp = w->qp;
}

static void close_world(struct world *w)
{
    diwarp_destroy_qp(w->qp);
    diwarp_destroy_cq(w->cq);
    diwarp_dealloc_pd(w->pd);
    diwarp_close_device(w->device);
    __real_free(w);
}

static void know(struct world *w, unsigned rank)
{
    struct diwarp_address address = {.name = {.job = JOB, .rank = rank},
                                     .qpn = 1,
                                     .token = rank,
                                     .incarnation = rank,
                                     .port = (uint16_t)rank,
                                     .interface_count = 1,
                                     .interfaces = {interface}};
    address.interfaces[0].ip[3] = 2;
    assert_int_equal(diwarp_create_ah(w->qp, &address, &w->ahs[rank]), 0);
}

static void poll_world(struct world *w, uint64_t ns)
{
    struct diwarp_wc wc[16];
    w->net.now_ns += ns;
    (void)diwarp_poll_cq(w->cq, 16, wc);
}

/* A message to each of ranks 1 to n, all of which answer. */
static void talk_to_all(struct world *w, unsigned n)
{
    uint8_t data[64] = {0};
    struct ibv_sge sge = {.addr = (uintptr_t)data, .length = sizeof data};
    for (unsigned rank = 1; rank <= n; rank++) {
        struct diwarp_send_wr wr = {.wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                                    .ah = w->ahs[rank]};
        assert_int_equal(diwarp_post_send(w->qp, &wr), 0);
        poll_world(w, 100);
    }
    while (w->net.count)
        poll_world(w, 100);
    assert_int_equal(w->qp->port->datagrams.counters.peers_active, n);
    assert_int_equal(w->qp->port->datagrams.pool.used, 0);
}

static void rest_all(struct world *w)
{
    for (unsigned i = 0; i < 1000 && w->qp->port->timers.count; i++)
        poll_world(w, 10000000);
    assert_int_equal(w->qp->port->datagrams.counters.peers_active, 0);
    assert_int_equal(w->qp->port->timers.count, 0);
}

static void peer__costs_what_it_may(void **state)
{
    (void)state;
    /* Tables have just doubled after 97, 769 and 3073. */
    static const unsigned counts[] = {97, 500, 769, 1000, 3073};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        unsigned n = counts[i];
        struct world *w = __real_calloc(1, sizeof *w);
        assert_non_null(w);
        open_world(w);
        size_t base = held_bytes;
        for (unsigned rank = 1; rank <= n; rank++)
            know(w, rank);
        assert_in_range(held_bytes - base, n * sizeof(struct diwarp_ah),
                        n * KNOWN_MAX_BYTES + CHUNKS_MAX_BYTES);
        talk_to_all(w, n);
        assert_in_range(held_bytes - base, n * sizeof(struct dw_peer),
                        n * ACTIVE_MAX_BYTES + HOST_MAX_BYTES);
        rest_all(w);
        size_t resting = held_bytes;
        /* What is left but handles: the timers' table, and it does not come again. */
        assert_in_range(resting - base, n * sizeof(struct diwarp_ah), n * RESTING_MAX_BYTES);
        assert_true(w->qp->port->datagrams.pool.chunk_count <= 1);
        talk_to_all(w, n);
        rest_all(w);
        assert_int_equal(held_bytes, resting);
        for (unsigned rank = 1; rank <= n; rank++)
            diwarp_destroy_ah(w->ahs[rank]);
        close_world(w);
    }
    assert_int_equal(held_bytes, 0);
}

/* Many, of which nobody is ever met. */
static void peer__known_by_the_hundred_thousand(void **state)
{
    (void)state;
    struct world *w = __real_calloc(1, sizeof *w);
    struct diwarp_ah *ah;
    assert_non_null(w);
    open_world(w);
    const size_t base = held_bytes;
    struct diwarp_address address = {
        .qpn = 1, .token = 1, .port = 1, .interface_count = 1, .interfaces = {interface}};
    for (uint32_t rank = 0; rank < MANY_PEERS; rank++) {
        address.name = (struct diwarp_name){.job = JOB + 1, .rank = rank};
        assert_int_equal(diwarp_create_ah(w->qp, &address, &ah), 0);
    }
    assert_true(held_bytes - base <= (size_t)MANY_PEERS * KNOWN_MAX_BYTES);
    know(w, 1);
    talk_to_all(w, 1);
    rest_all(w);
    diwarp_destroy_ah(w->ahs[1]);
    for (uint32_t rank = 0; rank < MANY_PEERS; rank++) {
        address.name.rank = rank;
        assert_int_equal(diwarp_create_ah(w->qp, &address, &ah), 0);
        diwarp_destroy_ah(ah);
        diwarp_destroy_ah(ah);
    }
    assert_true(held_bytes - base <= (size_t)1 << 20);
    close_world(w);
    assert_int_equal(held_bytes, 0);
}

/* A walk over all that are awake lets others in. */
static void peers__4000_awake__a_qp_goes_bit_by_bit(void **state)
{
    (void)state;
    enum { PEERS = 4000, SLICES = 4 };
    struct world *w = __real_calloc(1, sizeof *w);
    struct diwarp_qp_attr attr;
    struct diwarp_qp *qp;
    assert_non_null(w);
    open_world(w);
    diwarp_qp_attr_init(&attr);
    attr.cq = w->cq;
    assert_int_equal(diwarp_create_qp(w->pd, &attr, &qp, NULL), 0);
    for (unsigned rank = 1; rank < PEERS; rank++)
        know(w, rank);
    talk_to_all(w, PEERS - 1);
    w->device->attr.threaded = true;
    lock_count = 0;
    diwarp_destroy_qp(qp);
    assert_in_range(lock_count, SLICES, 10 * SLICES);
    w->device->attr.threaded = false;
    for (unsigned rank = 1; rank < PEERS; rank++)
        diwarp_destroy_ah(w->ahs[rank]);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer__known_by_the_hundred_thousand),
        cmocka_unit_test(peer__costs_what_it_may),
        cmocka_unit_test(peers__4000_awake__a_qp_goes_bit_by_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
