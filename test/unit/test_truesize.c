/* SPDX-License-Identifier: BSD-3-Clause */
/* The estimate of a datagram's cost, against known figures and against the running kernel. */
#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/llp/llp.h"

static const uint32_t sizes[] = {1,     8,     64,    120,   121,   184,   185,   600,
                                 632,   633,   1000,  1416,  1472,  1656,  1657,  3000,
                                 3704,  3705,  4096,  7800,  7801,  8192,  8952,  9000,
                                 15808, 15809, 15992, 16000, 16384, 32768, 60000, 65000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void truesize__known_figures(void **state)
{
    (void)state;
    static const struct {
        uint32_t payload, truesize;
    } known[] = {{0, 832},      {64, 832},      {120, 832},     {121, 1280},    {632, 1280},
                 {633, 2304},   {1472, 2304},   {1656, 2304},   {1657, 4352},   {8192, 16640},
                 {8952, 16640}, {15808, 16640}, {15809, 16641}, {60000, 60832}, {65000, 65832}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        assert_int_equal(dw_llp_truesize(known[i].payload), known[i].truesize);
    }
}

static void truesize__never_falls(void **state)
{
    (void)state;
    for (uint32_t len = 1; len <= 65535; len++) {
        assert_true(dw_llp_truesize(len) >= dw_llp_truesize(len - 1));
        assert_true(dw_llp_truesize(len) > len);
    }
}

/* What the kernel charges a socket for one waiting datagram; 0: it does not tell. */
static uint32_t charged(int family, uint32_t len)
{
    static uint8_t payload[65536];
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *to = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t to_len = family == AF_INET ? sizeof(v4) : sizeof(v6);
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t info_len = sizeof(info);
    int fd = socket(family, SOCK_DGRAM, 0);

    bool told = fd >= 0 && bind(fd, to, to_len) == 0 && getsockname(fd, to, &to_len) == 0 &&
                sendto(fd, payload, len, 0, to, to_len) == (ssize_t)len &&
                getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &info_len) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return told ? info[SK_MEMINFO_RMEM_ALLOC] : 0;
}

/* Exceeding the estimate would lose datagrams that the credits allowed. Kernels before 5.14 keep
 * long datagrams in one allocation of a power of two, hence the factor there. */
static void truesize__covers_what_this_kernel_charges(void **state)
{
    (void)state;
    for (unsigned family = 0; family < 2; family++) {
        for (size_t i = 0; i < SIZES; i++) {
            uint32_t real = charged(family ? AF_INET6 : AF_INET, sizes[i]);
            uint32_t estimate = dw_llp_truesize(sizes[i]);
            if (real == 0) {
                print_message("IPv%u: the kernel does not tell, skipped\n", family ? 6 : 4);
                break;
            }
            if (real > estimate * (sizes[i] > 15808 ? 2 : 1) || estimate > 2 * real) {
                fail_msg("%u bytes: estimate %u, real %u", sizes[i], estimate, real);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truesize__known_figures),
        cmocka_unit_test(truesize__never_falls),
        cmocka_unit_test(truesize__covers_what_this_kernel_charges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
