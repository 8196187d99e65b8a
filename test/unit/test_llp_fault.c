/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault injector, around an LLP that only writes down what it is given, with a clock that the
 * test moves; and once around real sockets, as test builds open it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/fault/llp_fault.h"

#define DATAGRAMS 20000
#define LEN       32

/* ---- the LLP inside ----------------------------------------------------------------------- */

struct note {
    uint32_t number;
    bool intact;
    uint8_t bytes[LEN];
};

static struct {
    struct dw_llp llp;
    struct note notes[3 * DATAGRAMS];
    unsigned count;
    unsigned refuse_from; /* sends after so many give -EAGAIN; 0: none do */
    unsigned recv_calls, close_calls;
    uint32_t last_bytes, last_port;
} inner;

static uint64_t clock_ns;

static uint64_t test_clock(void)
{
    return clock_ns;
}

/* Datagram `number` carries its number, then bytes that follow from it. */
static void fill(uint8_t *bytes, uint32_t number)
{
    memcpy(bytes, &number, sizeof(number));
    for (unsigned i = sizeof(number); i < LEN; i++) {
        bytes[i] = (uint8_t)(number * 7 + i);
    }
}

static int inner_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    uint8_t expected[LEN];
    (void)llp;
    if (inner.refuse_from > 0 && inner.count + 1 >= inner.refuse_from) {
        return -EAGAIN;
    }
    assert_int_equal(train->total_bytes, train->segment_bytes);
    assert_int_equal(train->iov_count, 1);
    struct note *note = &inner.notes[inner.count++];
    inner.last_bytes = train->total_bytes;
    inner.last_port = train->to->port;
    if (train->total_bytes >= LEN) {
        memcpy(note->bytes, train->iov->iov_base, LEN);
        memcpy(&note->number, note->bytes, sizeof(note->number));
        fill(expected, note->number);
        note->intact = memcmp(expected, note->bytes, LEN) == 0;
    }
    return 0;
}

static int inner_recv(struct dw_llp *llp, uint8_t *buf, uint32_t *segment_bytes)
{
    (void)llp;
    (void)buf, (void)segment_bytes;
    inner.recv_calls++;
    return -1;
}

static int inner_icmp(struct dw_llp *llp, struct dw_llp_addr *to)
{
    (void)llp;
    to->port = 4711;
    return 1400;
}

static void inner_close(struct dw_llp *llp)
{
    (void)llp;
    inner.close_calls++;
}

static const struct dw_llp_ops inner_ops = {
    .send = inner_send,
    .recv = inner_recv,
    .icmp = inner_icmp,
    .close = inner_close,
};

static struct dw_llp *wrap(const char *text)
{
    struct dw_fault_plan plan;
    struct dw_llp *llp;
    memset(&inner, 0, sizeof(inner));
    inner.llp = (struct dw_llp){.ops = &inner_ops, .fd = 5, .port = 99, .gso = true};
    clock_ns = 1000;
    assert_int_equal(dw_fault_parse(text, &plan, NULL), 0);
    assert_int_equal(dw_fault_wrap(&inner.llp, &plan, test_clock, &llp), 0);
    assert_int_equal(llp->fd, 5);
    assert_int_equal(llp->port, 99);
    assert_true(llp->gso);
    return llp;
}

static int send_one(struct dw_llp *llp, uint32_t number)
{
    static const struct dw_llp_addr to = {.port = 7};
    uint8_t bytes[LEN];
    fill(bytes, number);
    struct iovec iov = {.iov_base = bytes, .iov_len = LEN};
    struct dw_llp_train train = {
        .to = &to, .iov = &iov, .iov_count = 1, .total_bytes = LEN, .segment_bytes = LEN};
    return llp->ops->send(llp, &train);
}

static void send_many(struct dw_llp *llp, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(send_one(llp, i), 0);
    }
}

static void recv_after(struct dw_llp *llp, uint64_t ns)
{
    clock_ns += ns;
    assert_int_equal(llp->ops->recv(llp, NULL, NULL), -1);
}

static void assert_about(uint64_t count, double probability)
{
    double expected = DATAGRAMS * probability;
    if ((double)count < 0.8 * expected || (double)count > 1.2 * expected) {
        fail_msg("%llu where about %.0f were expected", (unsigned long long)count, expected);
    }
}

/* ---- faults ------------------------------------------------------------------------------- */

static void fault_send__empty_plan_changes_nothing(void **state)
{
    (void)state;
    struct dw_llp_addr told;
    struct dw_llp *llp = wrap("seed=1");
    send_many(llp, 1000);
    assert_int_equal(inner.count, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(inner.notes[i].intact && inner.notes[i].number == i);
    }
    recv_after(llp, 0);
    assert_int_equal(inner.recv_calls, 1);
    assert_int_equal(llp->ops->icmp(llp, &told), 1400);
    assert_int_equal(told.port, 4711);
    llp->ops->close(llp);
    assert_int_equal(inner.close_calls, 1);
}

static void fault_send__each_kind_strikes_as_often_as_asked(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        double drop, dup, reorder, corrupt, delay;
    } cases[] = {
        {"exact,seed=1,drop=0.05", 0.05, 0, 0, 0, 0},
        {"exact,seed=2,dup=0.05", 0, 0.05, 0, 0, 0},
        {"exact,seed=3,reorder=0.05", 0, 0, 0.05, 0, 0},
        {"exact,seed=4,corrupt=0.05", 0, 0, 0, 0.05, 0},
        {"exact,seed=5,delay=0.05", 0, 0, 0, 0, 0.05},
        {"exact,seed=6,drop=1", 1, 0, 0, 0, 0},
        {"exact,seed=7,drop=0.1,dup=0.1,reorder=0.1,corrupt=0.1", 0.1, 0.09, 0.09, 0.09, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dw_llp *llp = wrap(cases[i].plan);
        for (uint32_t n = 0; n < DATAGRAMS; n++) {
            clock_ns += 10000;
            assert_int_equal(send_one(llp, n), 0);
        }
        recv_after(llp, 1000000);
        const struct dw_fault_counts *counts = dw_fault_query_counts(llp);
        assert_int_equal(counts->datagrams, DATAGRAMS);
        assert_about(counts->dropped, cases[i].drop);
        assert_about(counts->duplicated, cases[i].dup);
        assert_about(counts->reordered, cases[i].reorder);
        assert_about(counts->corrupted, cases[i].corrupt);
        assert_about(counts->delayed, cases[i].delay);
        assert_int_equal(inner.count, DATAGRAMS - counts->dropped + counts->duplicated);
        llp->ops->close(llp);
    }
}

static void fault_send__corrupts_one_bit(void **state)
{
    (void)state;
    struct dw_llp *llp = wrap("corrupt=1,exact");
    uint8_t sent[LEN];
    send_many(llp, 1000);
    assert_int_equal(inner.count, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        int flipped = 0;
        fill(sent, i);
        for (unsigned at = 0; at < LEN; at++) {
            flipped += __builtin_popcount(sent[at] ^ inner.notes[i].bytes[at]);
        }
        assert_int_equal(flipped, 1);
    }
    llp->ops->close(llp);
}

static void fault_send__reordered_passes_at_most_eight(void **state)
{
    (void)state;
    static bool seen[DATAGRAMS];
    struct dw_llp *llp = wrap("reorder=0.2,exact,seed=11");
    uint32_t highest = 0, late = 0;
    send_many(llp, DATAGRAMS);
    recv_after(llp, 1000000);
    assert_int_equal(inner.count, DATAGRAMS);
    memset(seen, 0, sizeof(seen));
    for (unsigned i = 0; i < inner.count; i++) {
        uint32_t number = inner.notes[i].number;
        assert_true(inner.notes[i].intact && !seen[number]);
        seen[number] = true;
        highest = number > highest ? number : highest;
        late += number < highest;
        /* eight go by, and as many as are held at the same time */
        assert_true(highest - number <= 8 + 64);
    }
    assert_about(late, 0.2);
    llp->ops->close(llp);
}

static void fault_recv__releases_what_nothing_follows(void **state)
{
    (void)state;
    static const char *const plans[] = {"reorder=1,exact", "delay=1,exact,delay_us=1000"};
    for (unsigned i = 0; i < 2; i++) {
        struct dw_llp *llp = wrap(plans[i]);
        send_many(llp, 10);
        assert_int_equal(inner.count, 0);
        recv_after(llp, 999999);
        assert_int_equal(inner.count, 0);
        recv_after(llp, 1);
        assert_int_equal(inner.count, 10);
        for (uint32_t n = 0; n < 10; n++) {
            assert_int_equal(inner.notes[n].number, n);
        }
        llp->ops->close(llp);
    }
}

static void fault_send__releases_what_is_due(void **state)
{
    (void)state;
    struct dw_llp *llp = wrap("delay=0.5,exact,seed=5,delay_us=50");
    send_many(llp, 20);
    unsigned before = inner.count;
    assert_true(before < 20);
    clock_ns += 50000;
    assert_int_equal(send_one(llp, 20), 0);
    assert_true(inner.count >= 20);
    recv_after(llp, 50000);
    assert_int_equal(inner.count, 21);
    llp->ops->close(llp);
}

static void fault_send__holds_a_bounded_number(void **state)
{
    (void)state;
    struct dw_llp *llp = wrap("delay=1,exact");
    send_many(llp, 100);
    assert_int_equal(inner.count, 100 - 64);
    assert_int_equal(dw_fault_query_counts(llp)->delayed, 64);
    llp->ops->close(llp);
    assert_int_equal(inner.count, 100);
}

static void fault_close__frees_what_cannot_leave(void **state)
{
    (void)state;
    struct dw_llp *llp = wrap("delay=1,exact");
    send_many(llp, 3);
    inner.refuse_from = 1;
    recv_after(llp, 2000000);
    llp->ops->close(llp);
    assert_int_equal(inner.count, 0);
    assert_int_equal(inner.close_calls, 1);
}

static void fault_recv__keeps_what_the_socket_refuses(void **state)
{
    (void)state;
    struct dw_llp *llp = wrap("delay=1,exact");
    send_many(llp, 5);
    inner.refuse_from = 3;
    recv_after(llp, 1000000);
    assert_int_equal(inner.count, 2);
    inner.refuse_from = 0;
    recv_after(llp, 0);
    assert_int_equal(inner.count, 5);
    llp->ops->close(llp);
}

static void fault_send__takes_trains_apart(void **state)
{
    (void)state;
    uint8_t bytes[3 * LEN + 5];
    struct dw_llp_addr to = {.port = 1234};
    struct iovec iov[] = {{bytes, 10}, {bytes + 10, 0}, {bytes + 10, LEN}, {bytes + 42, 59}};
    struct dw_llp_train train = {
        .to = &to, .iov = iov, .iov_count = 4, .total_bytes = sizeof(bytes), .segment_bytes = LEN};
    struct dw_llp *llp = wrap("exact,seed=1");
    memset(bytes, 0, sizeof(bytes));
    for (uint32_t i = 0; i < 3; i++) {
        fill(bytes + (size_t)i * LEN, i);
    }
    assert_int_equal(llp->ops->send(llp, &train), 0);
    assert_int_equal(inner.count, 4);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(inner.notes[i].intact && inner.notes[i].number == i);
    }
    assert_int_equal(inner.last_bytes, 5);
    assert_int_equal(inner.last_port, 1234);
    /* as the contract says: refused at once, or the rest is lost */
    inner.refuse_from = inner.count + 1;
    assert_int_equal(llp->ops->send(llp, &train), -EAGAIN);
    inner.refuse_from = inner.count + 3;
    assert_int_equal(llp->ops->send(llp, &train), 0);
    assert_int_equal(inner.count, 6);
    llp->ops->close(llp);
}

static void fault_wrap__exact_seed_repeats(void **state)
{
    (void)state;
    static struct note first[3 * DATAGRAMS];
    static const char plan[] = "exact,seed=42,drop=0.1,dup=0.1,reorder=0.1,corrupt=0.1,delay=0.01";
    unsigned count = 0;
    for (unsigned round = 0; round < 2; round++) {
        struct dw_llp *llp = wrap(plan);
        send_many(llp, 5000);
        recv_after(llp, 1000000);
        llp->ops->close(llp);
        if (round == 0) {
            count = inner.count;
            memcpy(first, inner.notes, sizeof(first));
        }
    }
    assert_int_equal(inner.count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(inner.notes[i].intact, first[i].intact);
        assert_int_equal(inner.notes[i].number, first[i].number);
    }
}

/* ---- as test builds open it --------------------------------------------------------------- */

static struct diwarp_counters counters;
static const struct dw_llp_addr any_address = {.family = AF_INET};

static int open_real(struct dw_llp **llp, struct diwarp_diagnosis *why)
{
    const struct diwarp_device_attr attr = {
        .rcvbuf_bytes = 1 << 20, .gso = DIWARP_AUTO, .gro = DIWARP_AUTO};
    return dw_fault_open(NULL, &attr, &any_address, &counters, llp, why);
}

static void fault_open__transparent_without_the_variable(void **state)
{
    (void)state;
    struct dw_llp *llp, *plain;
    const struct diwarp_device_attr attr = {.rcvbuf_bytes = 1 << 20};
    unsetenv(DW_FAULT_VARIABLE);
    assert_int_equal(open_real(&llp, NULL), 0);
    assert_int_equal(dw_udp_open(NULL, &attr, &any_address, &counters, &plain, NULL), 0);
    assert_ptr_equal(llp->ops, plain->ops);
    llp->ops->close(llp);
    plain->ops->close(plain);
}

static void fault_open__malformed_variable_fails(void **state)
{
    (void)state;
    struct diwarp_diagnosis why = {.text = ""};
    struct dw_llp *llp = NULL;
    setenv(DW_FAULT_VARIABLE, "drop=lots", 1);
    assert_int_equal(open_real(&llp, &why), -EINVAL);
    assert_non_null(strstr(why.text, "'drop=lots'"));
    assert_null(llp);
    unsetenv(DW_FAULT_VARIABLE);
}

/* Sent to itself over the loopback interface: each datagram arrives twice, some of them late. */
static void fault_open__real_socket_loses_nothing_held(void **state)
{
    (void)state;
    static uint8_t memory[DW_LLP_SLOT_BYTES];
    struct dw_llp *llp;
    uint32_t segment_bytes;
    uint8_t bytes[LEN];
    unsigned got = 0;
    setenv(DW_FAULT_VARIABLE, "dup=1,reorder=0.5,exact,delay_us=100", 1);
    assert_int_equal(open_real(&llp, NULL), 0);
    unsetenv(DW_FAULT_VARIABLE);
    struct dw_llp_addr to = {.family = AF_INET, .port = llp->port, .ip = {127, 0, 0, 1}};
    for (uint32_t i = 0; i < 100; i++) {
        fill(bytes, i);
        struct iovec iov = {.iov_base = bytes, .iov_len = LEN};
        struct dw_llp_train train = {
            .to = &to, .iov = &iov, .iov_count = 1, .total_bytes = LEN, .segment_bytes = LEN};
        assert_int_equal(llp->ops->send(llp, &train), 0);
    }
    for (unsigned calls = 0; got < 200 && calls < 10000000; calls++) {
        got += llp->ops->recv(llp, memory, &segment_bytes) >= 0;
    }
    assert_int_equal(got, 200);
    assert_int_equal(counters.tx_datagrams, 200);
    llp->ops->close(llp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_send__empty_plan_changes_nothing),
        cmocka_unit_test(fault_send__each_kind_strikes_as_often_as_asked),
        cmocka_unit_test(fault_send__corrupts_one_bit),
        cmocka_unit_test(fault_send__reordered_passes_at_most_eight),
        cmocka_unit_test(fault_recv__releases_what_nothing_follows),
        cmocka_unit_test(fault_send__releases_what_is_due),
        cmocka_unit_test(fault_send__holds_a_bounded_number),
        cmocka_unit_test(fault_close__frees_what_cannot_leave),
        cmocka_unit_test(fault_recv__keeps_what_the_socket_refuses),
        cmocka_unit_test(fault_send__takes_trains_apart),
        cmocka_unit_test(fault_wrap__exact_seed_repeats),
        cmocka_unit_test(fault_open__transparent_without_the_variable),
        cmocka_unit_test(fault_open__malformed_variable_fails),
        cmocka_unit_test(fault_open__real_socket_loses_nothing_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
