/* SPDX-License-Identifier: BSD-3-Clause */
/* Host ids of children that see another boot id, no /proc, or another network. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/llp/interface.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static bool nothing(void)
{
    return true;
}

static bool own_mounts(void)
{
    int users = geteuid() == 0 ? 0 : CLONE_NEWUSER;
    return unshare(CLONE_NEWNS | users) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static bool another_boot_id(void)
{
    return own_mounts() && mount("/proc/version", BOOT_ID, NULL, MS_BIND, NULL) == 0;
}

static bool no_proc(void)
{
    return own_mounts() && mount("none", "/proc", "tmpfs", 0, NULL) == 0;
}

static bool another_network(void)
{
    int users = geteuid() == 0 ? 0 : CLONE_NEWUSER;
    return unshare(CLONE_NEWNET | users) == 0;
}

/* What a child has once it has changed what it sees; skips if it may not. */
static uint64_t host_id_after(bool (*change)(void))
{
    int ends[2], status;
    uint64_t id = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        if (!change()) {
            _exit(77);
        }
        id = dw_host_id();
        _exit(write(ends[1], &id, sizeof(id)) != sizeof(id));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ends[1]);
    bool got = read(ends[0], &id, sizeof(id)) == sizeof(id);
    close(ends[0]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("not allowed here: skipped\n");
        skip();
    }
    assert_int_equal(status, 0);
    assert_true(got);
    return id;
}

static void host_id__is_that_of_other_processes(void **state)
{
    (void)state;
    assert_int_equal(host_id_after(nothing), dw_host_id());
}

static void host_id__another_boot_id_looks_alike(void **state)
{
    (void)state;
    uint64_t differ = host_id_after(another_boot_id) ^ dw_host_id();
    assert_true(differ != 0);
    assert_true((differ & DW_HOST_ID_LOOKS) == 0);
}

/* Two without /proc are of one host if they look alike. */
static void host_id__no_proc_looks_alike(void **state)
{
    (void)state;
    uint64_t id = host_id_after(no_proc);
    assert_int_equal(id, host_id_after(no_proc));
    assert_true(id != dw_host_id());
    assert_true(((id ^ dw_host_id()) & DW_HOST_ID_LOOKS) == 0);
}

static bool no_proc_in_another_network(void)
{
    return another_network() && no_proc();
}

static bool has_more_than_loopback(void)
{
    static struct diwarp_interface list[DW_INTERFACES_LISTED];
    int count = dw_interface_list(NULL, NULL, list, NULL);
    return count > 0 && !list[count - 1].loopback;
}

static void host_id__another_network(void **state)
{
    (void)state;
    uint64_t differ = host_id_after(another_network) ^ dw_host_id();
    assert_true((differ & ~DW_HOST_ID_LOOKS) != 0);
    if (!has_more_than_loopback()) {
        print_message("nothing but loopback here: skipped\n");
        skip();
    }
    assert_true((differ & DW_HOST_ID_LOOKS) != 0);
    differ = host_id_after(no_proc_in_another_network) ^ host_id_after(no_proc);
    assert_true((differ & ~DW_HOST_ID_LOOKS) != 0);
    assert_true((differ & DW_HOST_ID_LOOKS) != 0);
}

static char hardware; /* the last byte of the bridge's address */

/* As on hosts with containers: the same IP address on each. */
static bool another_network_with_a_bridge(void)
{
    struct ifreq request = {.ifr_name = "docker0"};
    struct sockaddr_in ip = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("172.17.0.1")};
    int tap = another_network() ? open("/dev/net/tun", O_RDWR) : -1;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    if (tap < 0 || ioctl(tap, TUNSETIFF, &request) < 0) {
        return false;
    }
    request.ifr_hwaddr =
        (struct sockaddr){.sa_family = ARPHRD_ETHER, .sa_data = {2, 0x42, [5] = hardware}};
    if (ioctl(fd, SIOCSIFHWADDR, &request) < 0) {
        return false;
    }
    memcpy(&request.ifr_addr, &ip, sizeof(ip));
    if (ioctl(fd, SIOCSIFADDR, &request) < 0) {
        return false;
    }
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

static void host_id__same_ip_on_other_hardware(void **state)
{
    (void)state;
    hardware = 1;
    uint64_t id = host_id_after(another_network_with_a_bridge);
    assert_true(((id ^ host_id_after(another_network_with_a_bridge)) & DW_HOST_ID_LOOKS) == 0);
    hardware = 2;
    assert_true(((id ^ host_id_after(another_network_with_a_bridge)) & DW_HOST_ID_LOOKS) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_id__is_that_of_other_processes),
        cmocka_unit_test(host_id__another_boot_id_looks_alike),
        cmocka_unit_test(host_id__no_proc_looks_alike),
        cmocka_unit_test(host_id__another_network),
        cmocka_unit_test(host_id__same_ip_on_other_hardware),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
