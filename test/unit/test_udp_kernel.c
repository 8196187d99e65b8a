/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP as an LLP, over a kernel that refuses, cuts what comes, or has no buffers. */
#include <errno.h>
#include <pthread.h>

#include "test/unit/udp_fixture.h"
#include "test/unit/udp_kernel.h"

/* The least that a thread can be given, and some applications give (PTHREAD_STACK_MIN). */
#define SMALL_STACK_BYTES 16384

static int setup(void **state)
{
    memset(&kernel, 0, sizeof(kernel));
    return setup_payload(state);
}

static void udp_recv__tells_of_truncation(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    for (unsigned way = 0; way < 2; way++) {
        attr.gro = way ? DIWARP_ON : DIWARP_OFF;
        struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
        struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
        uint32_t segment_bytes;
        for (unsigned cut = 0; cut < 2; cut++) {
            kernel.truncate = cut;
            assert_int_equal(send_train(tx, &to, 100, 100), 0);
            int bytes = rx->ops->recv(rx, slot_memory, &segment_bytes);
            assert_int_equal(bytes, cut ? DW_LLP_SLOT_BYTES + 1 : 100);
        }
        kernel.truncate = false;
        close_llp(tx);
        close_llp(rx);
    }
}

static void udp_send__refused_train_goes_apart(void **state)
{
    (void)state;
    static const int errors[] = {EINVAL, EMSGSIZE, EIO};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct diwarp_device_attr attr = attr_plain();
        struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
        if (!tx->gso) {
            print_message("no GSO in this kernel: nothing to refuse\n");
            close_llp(tx);
            close_llp(rx);
            skip();
        }
        kernel.gso_error = errors[i];
        exchange(tx, rx, 10000, 3000);
        assert_int_equal(tx_counters.gso_fallbacks, 1);
        assert_int_equal(tx_counters.tx_datagrams, 4);
        kernel.gso_error = 0;
        kernel.gso_calls = 0;
        exchange(tx, rx, 10000, 3000);
        assert_int_equal(kernel.gso_calls, 1);
        assert_int_equal(tx_counters.gso_fallbacks, 1);
        assert_true(tx->gso);
        close_llp(tx);
        close_llp(rx);
    }
}

static void udp_send__too_large_for_the_path_leaves_in_fragments(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    kernel.too_large_bytes = 1500;
    exchange(tx, rx, 3000, 3000);
    assert_int_equal(tx_counters.tx_syscalls, 2);
    exchange(tx, rx, 1499, 1499); /* with DF again */
    assert_int_equal(tx_counters.tx_syscalls, 3);
    exchange(tx, rx, 1500, 1500);
    assert_int_equal(tx_counters.tx_syscalls, 5);
    struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
    struct dw_llp_train whole = {.to = &to,
                                 .iov = &(struct iovec){payload, 3000},
                                 .iov_count = 1,
                                 .total_bytes = 3000,
                                 .segment_bytes = 3000,
                                 .whole = true};
    assert_int_equal(tx->ops->send(tx, &whole), 0);
    recv_datagrams(rx, 1);
    assert_train(3000, 3000);
    assert_int_equal(tx_counters.tx_syscalls, 6);
    close_llp(tx);
    close_llp(rx);
}

static void udp_send__gso_ends_when_no_way_out_takes_it(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    kernel.gso_error = EIO;
    for (uint8_t host = 1; tx->gso && host < 32; host++) {
        struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
        to.ip[3] = host;
        assert_int_equal(send_train(tx, &to, 5000, 2000), 0);
        recv_datagrams(rx, 3);
        assert_train(5000, 2000);
    }
    assert_false(tx->gso);
    kernel.gso_calls = 0;
    exchange(tx, rx, 5000, 2000);
    assert_int_equal(kernel.gso_calls, 0);
    close_llp(tx);
    close_llp(rx);
}

static const struct {
    int error, result;
    unsigned calls;
} send_errors[] = {
    {EAGAIN, -EAGAIN, 1}, {ENOBUFS, -EAGAIN, 1},          {ENOMEM, -EAGAIN, 1},
    {EPERM, -EPERM, 1},   {ENETUNREACH, -ENETUNREACH, 3}, {EHOSTUNREACH, -EHOSTUNREACH, 3},
};

static void udp_send__errors(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
    struct dw_llp_addr v6 = to_loopback(AF_INET6, rx->port);
    for (size_t i = 0; i < sizeof(send_errors) / sizeof(send_errors[0]); i++) {
        memset(&tx_counters, 0, sizeof(tx_counters));
        kernel.error = kernel.gso_error = send_errors[i].error;
        assert_int_equal(send_train(tx, &to, 50, 50), send_errors[i].result);
        assert_int_equal(tx_counters.tx_syscalls, send_errors[i].calls);
        assert_int_equal(tx_counters.tx_eagain, send_errors[i].result == -EAGAIN);
        assert_int_equal(send_train(tx, &to, 100, 50), send_errors[i].result);
        assert_int_equal(tx_counters.tx_datagrams, 0);
        assert_int_equal(tx_counters.gso_fallbacks, 0);
    }
    kernel.error = kernel.gso_error = 0;
    assert_int_equal(send_train(tx, &v6, 50, 50), -EAFNOSUPPORT);
    exchange(tx, rx, 50, 50);
    close_llp(tx);
    close_llp(rx);
}

static void udp_send__full_buffer_inside_a_train_loses_the_rest(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = attr_plain();
    attr.gso = DIWARP_OFF;
    struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
    struct dw_llp_addr to = to_loopback(AF_INET, rx->port);
    kernel.error = EAGAIN;
    kernel.error_from = 2;
    assert_int_equal(send_train(tx, &to, 5000, 1000), 0);
    recv_datagrams(rx, 2);
    assert_int_equal(tx_counters.tx_datagrams, 2);
    assert_int_equal(tx_counters.tx_eagain, 1);
    close_llp(tx);
    close_llp(rx);
}

struct small_thread {
    struct dw_llp *llp;
    struct dw_llp_addr to;
    int rc;
};

static void *send_from_small_stack(void *arg)
{
    struct small_thread *thread = arg;
    thread->rc = send_train(thread->llp, &thread->to, 5000, 1000);
    return NULL;
}

static void udp_send__apart_fits_a_small_stack(void **state)
{
    (void)state;
    pthread_attr_t small;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, SMALL_STACK_BYTES), 0);
    for (unsigned refused = 0; refused < 2; refused++) {
        struct diwarp_device_attr attr = attr_plain();
        attr.gso = refused ? DIWARP_AUTO : DIWARP_OFF;
        kernel.gso_error = EIO;
        struct dw_llp *tx = open_llp(&attr, &tx_counters), *rx = open_llp(&attr, &rx_counters);
        struct small_thread thread = {.llp = tx, .to = to_loopback(AF_INET, rx->port), .rc = -1};
        pthread_t id;
        assert_int_equal(pthread_create(&id, &small, send_from_small_stack, &thread), 0);
        assert_int_equal(pthread_join(id, NULL), 0);
        assert_int_equal(thread.rc, 0);
        recv_datagrams(rx, 5);
        assert_train(5000, 1000);
        close_llp(tx);
        close_llp(rx);
    }
    pthread_attr_destroy(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(udp_recv__tells_of_truncation, setup),
        cmocka_unit_test_setup(udp_send__refused_train_goes_apart, setup),
        cmocka_unit_test_setup(udp_send__too_large_for_the_path_leaves_in_fragments, setup),
        cmocka_unit_test_setup(udp_send__gso_ends_when_no_way_out_takes_it, setup),
        cmocka_unit_test_setup(udp_send__errors, setup),
        cmocka_unit_test_setup(udp_send__full_buffer_inside_a_train_loses_the_rest, setup),
        cmocka_unit_test_setup(udp_send__apart_fits_a_small_stack, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
