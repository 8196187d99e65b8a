/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces: filters against whatever this host has (there is always a loopback), pairs as a pure
 * table. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/llp/interface.h"

#define NOWHERE "no-such-if0"

/* ---- list --------------------------------------------------------------------------------- */

static struct diwarp_interface list[DW_INTERFACES_LISTED];
static struct diwarp_diagnosis why;

static int list_with(const char *include, const char *exclude)
{
    memset(list, 0, sizeof(list));
    why.text[0] = '\0';
    return dw_interface_list(include, exclude, list, &why);
}

/* Whether this host has 127.0.0.1 on "lo", as all usual ones have. */
static bool lo_is_usual(void)
{
    int count = list_with("lo", NULL);
    for (int i = 0; i < count; i++) {
        if (list[i].family == AF_INET && list[i].prefix_bits == 8 && list[i].ip[0] == 127) {
            return true;
        }
    }
    print_message("no lo with 127.0.0.1/8 here: skipped\n");
    return false;
}

static void interface_list__finds_loopback_first(void **state)
{
    (void)state;
    int count = list_with(NULL, NULL);
    bool after_loopback = false;
    assert_true(count >= 1 && count <= DW_INTERFACES_LISTED);
    for (int i = 0; i < count; i++) {
        assert_true(list[i].family == AF_INET || list[i].family == AF_INET6);
        assert_true(list[i].prefix_bits <= (list[i].family == AF_INET ? 32 : 128));
        assert_true(list[i].mtu_bytes >= 576);
        assert_true(if_nametoindex(list[i].name) > 0);
        assert_false(list[i].family == AF_INET6 && list[i].ip[0] == 0xfe &&
                     (list[i].ip[1] & 0xc0) == 0x80);
        assert_false(after_loopback && list[i].loopback);
        after_loopback = !list[i].loopback;
    }
}

static void interface_list__lo_is_complete(void **state)
{
    (void)state;
    if (!lo_is_usual()) {
        skip();
    }
    assert_string_equal(list[0].name, "lo");
    assert_true(list[0].loopback);
    assert_int_equal(list[0].family, AF_INET);
    assert_int_equal(list[0].prefix_bits, 8);
    assert_memory_equal(list[0].ip, ((uint8_t[]){127, 0, 0, 1}), 4);
}

/* What passes is exactly what the same filter, as the other kind, holds back. */
static void interface_list__filters(void **state)
{
    (void)state;
    static const struct {
        const char *include, *exclude;
        int rc; /* 1: lo only; 2: all; 3: all without lo's IPv4 */
    } cases[] = {
        {"lo", NULL, 1},
        {" lo ", NULL, 1},
        {"\tlo ,, lo,", NULL, 1},
        {"lo", "lo", 1},
        {"lo,203.0.113.0/24", NULL, 1},
        {"127.0.0.0/8", NULL, 1},
        {"127.0.0.1", NULL, 1},
        {"127.0.0.1/32", NULL, 1},
        {"126.0.0.0/7", NULL, 1},
        {"127.0.0.0/9, 2001:db8::/32", NULL, 1},
        {NULL, NULL, 2},
        {"", "", 2},
        {" , ", NULL, 2},
        {"0.0.0.0/0,::/0", NULL, 2},
        {NULL, NOWHERE, 2},
        {NULL, "203.0.113.0/24", 2},
        {NULL, "127.128.0.0/9", 2},
        {NULL, "127.0.0.0/8, " NOWHERE, 3},
        {"203.0.113.0/24", NULL, -ENODEV},
        {"127.0.0.2", NULL, -ENODEV},
        {"127.128.0.0/9", NULL, -ENODEV},
        {NULL, "0.0.0.0/0,::/0", -ENODEV},
        {NOWHERE, NULL, -EINVAL},
        {"lo," NOWHERE, NULL, -EINVAL},
        {"lo eth0", NULL, -EINVAL},
        {"127.0.0.0/33", NULL, -EINVAL},
        {"127.0.0.0/", NULL, -EINVAL},
        {"127.0.0.0/ 8", NULL, -EINVAL},
        {"127.0.0.0/-1", NULL, -EINVAL},
        {"127.0.0/8", NULL, -EINVAL},
        {"::1/129", NULL, -EINVAL},
        {NULL, "10.0.0.0/64", -EINVAL},
        {"a-name-longer-than-any-interface-or-address-may-ever-be-on-a-host-of-this-world", NULL,
         -EINVAL},
    };
    if (!lo_is_usual()) {
        skip();
    }
    int all = list_with(NULL, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int rc = list_with(cases[i].include, cases[i].exclude);
        bool lo_v4 = rc > 0 && list[0].family == AF_INET && list[0].loopback;
        bool ok = cases[i].rc < 0    ? rc == cases[i].rc && strlen(why.text) > 0
                  : cases[i].rc == 1 ? lo_v4 && list[rc - 1].loopback
                  : cases[i].rc == 2
                      ? rc == all && lo_v4
                      : !lo_v4 && (rc == all - 1 || rc == -ENODEV || all == DW_INTERFACES_LISTED);
        if (!ok) {
            fail_msg("include '%s' exclude '%s': %d %s", cases[i].include, cases[i].exclude, rc,
                     why.text);
        }
    }
}

static void interface_list__each_of_this_host_by_name_and_by_address(void **state)
{
    (void)state;
    struct diwarp_interface all[DW_INTERFACES_LISTED];
    char filter[INET6_ADDRSTRLEN + 8], ip[INET6_ADDRSTRLEN];
    int count = list_with(NULL, NULL);
    memcpy(all, list, sizeof(all));
    for (int i = 0; i < count; i++) {
        int got = list_with(all[i].name, NULL);
        assert_true(got >= 1);
        for (int j = 0; j < got; j++) {
            assert_string_equal(list[j].name, all[i].name);
        }
        inet_ntop(all[i].family, all[i].ip, ip, sizeof(ip));
        snprintf(filter, sizeof(filter), "%s/%u", ip, (unsigned)all[i].prefix_bits);
        got = list_with(filter, NULL);
        bool found = false;
        for (int j = 0; j < got; j++) {
            found = found || memcmp(&list[j], &all[i], sizeof(list[j])) == 0;
        }
        assert_true(found);
        list_with(NULL, all[i].name);
        for (int j = 0; j < DW_INTERFACES_LISTED; j++) {
            assert_string_not_equal(list[j].name, all[i].name);
        }
    }
}

static void interface_list__says_what_there_is(void **state)
{
    (void)state;
    if (!lo_is_usual()) {
        skip();
    }
    assert_int_equal(list_with("eth0,lo, " NOWHERE, NULL), -EINVAL);
    assert_int_equal(list_with(" " NOWHERE, NULL), -EINVAL);
    assert_non_null(strstr(why.text, "no interface '" NOWHERE "' here; there are: "));
    assert_non_null(strstr(why.text, "lo (127.0.0.1/8)"));
    assert_int_equal(list_with("127.0.0.0/40", NULL), -EINVAL);
    assert_non_null(strstr(why.text, "'127.0.0.0/40'"));
    assert_int_equal(list_with("203.0.113.0/24", NULL), -ENODEV);
    assert_non_null(strstr(why.text, "203.0.113.0/24"));
    assert_non_null(strstr(why.text, "lo (127.0.0.1/8)"));
    assert_int_equal(dw_interface_list(NOWHERE, NULL, list, NULL), -EINVAL);
}

/* A known name that is down is no mistake of spelling. */
static void interface_list__known_but_down_is_no_device(void **state)
{
    (void)state;
    struct ifaddrs *all;
    char down[IFNAMSIZ] = "";
    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
        if (!(entry->ifa_flags & IFF_UP)) {
            snprintf(down, sizeof(down), "%s", entry->ifa_name);
        }
    }
    freeifaddrs(all);
    if (down[0] == '\0') {
        print_message("every interface is up here: skipped\n");
        skip();
    }
    assert_int_equal(list_with(down, NULL), -ENODEV);
    assert_non_null(strstr(why.text, down));
}

/* ---- pair --------------------------------------------------------------------------------- */

/* "lo 127.0.0.1/8 65536; eth0 10.0.0.1/24 1500" */
static struct diwarp_address address_of(uint64_t host_id, const char *text)
{
    struct diwarp_address address = {.host_id = host_id};
    char copy[256], name[16], ip[64], *save = NULL;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *part = strtok_r(copy, ";", &save); part; part = strtok_r(NULL, ";", &save)) {
        struct diwarp_interface *interface = &address.interfaces[address.interface_count++];
        unsigned prefix_bits, mtu;
        assert_int_equal(sscanf(part, " %15s %63[^/]/%u %u", name, ip, &prefix_bits, &mtu), 4);
        memcpy(interface->name, name, sizeof(interface->name));
        interface->family = strchr(ip, ':') ? AF_INET6 : AF_INET;
        interface->loopback = strcmp(name, "lo") == 0;
        interface->prefix_bits = (uint8_t)prefix_bits;
        interface->mtu_bytes = mtu;
        assert_int_equal(inet_pton(interface->family, ip, interface->ip), 1);
    }
    return address;
}

#define LO  "lo 127.0.0.1/8 65536;"
#define LO6 "lo ::1/128 65536;"

static const struct {
    const char *what;
    bool same_host;
    const char *local, *peer;
    int local_index, peer_index; /* -1: unreachable */
} pairs[] = {
    {"same host: loopback", true, LO "e 10.0.0.1/24 9000", LO "e 10.0.0.1/24 9000", 0, 0},
    {"same host: IPv6 loopback", true, LO6, LO6, 0, 0},
    {"same host: IPv4 loopback listed first", true, LO LO6, LO LO6, 0, 0},
    {"same host: the loopback family both have", true, LO LO6, LO6 LO, 0, 1},
    {"same host, one filtered loopback out", true, LO "e 10.0.0.1/24 1500", "e 10.0.0.1/24 1500", 1,
     0},
    {"same host, both filtered it out", true, "e 10.0.0.1/24 1500", "e 10.0.0.1/24 1500", 0, 0},
    {"same host, disjoint filters", true, "e 10.0.0.1/24 1500", "f 10.9.0.1/24 1500", 0, 0},
    {"other host: not loopback", false, LO, LO, -1, -1},
    {"other host: same subnet", false, LO "e 10.0.0.1/24 1500", LO "e 10.0.0.2/24 1500", 1, 1},
    {"same subnet before another", false, "d 10.5.0.1/24 9000; e 10.0.0.1/24 1500",
     "d 10.6.0.1/24 9000; e 10.0.0.2/24 1500", 1, 1},
    {"larger MTU first", false, "e 10.0.0.1/24 1500; i 10.1.0.1/24 9000",
     "e 10.0.0.2/24 1500; i 10.1.0.2/24 9000", 1, 1},
    {"the smaller MTU of a pair counts", false, "e 10.0.0.1/24 4000; i 10.1.0.1/24 9000",
     "e 10.0.0.2/24 4000; i 10.1.0.2/24 1500", 0, 0},
    {"both prefixes must agree", false, "e 10.0.0.1/16 1500; f 10.1.0.1/24 1500",
     "e 10.0.9.2/24 1500; f 10.1.0.2/24 1500", 1, 1},
    {"odd prefix", false, "e 10.0.0.1/24 1500; f 10.1.4.1/22 1500",
     "d 10.1.8.9/22 1500; e 10.1.7.9/22 1500", 1, 1},
    {"same IPv6 subnet before other IPv4 subnet", false, "e 10.0.0.1/24 1500; e fd00::1/64 1500",
     "e 10.9.0.1/24 1500; e fd00::2/64 1500", 1, 1},
    {"any two of one family", false, LO "e 10.0.0.1/24 1500", LO "e 192.168.7.1/24 1500", 1, 1},
    {"first listed when routed", false, "e 10.0.0.1/24 1500; f 10.1.0.1/24 9000",
     "e 10.8.0.1/24 1500; f 10.9.0.1/24 9000", 0, 0},
    {"no common family", false, LO "e 10.0.0.1/24 1500", LO6 "e fd00::1/64 1500", -1, -1},
    {"link-local reaches its own subnet", false, "e 169.254.1.1/16 1500", "e 169.254.2.2/16 1500",
     0, 0},
    {"link-local is not routed", false, "e 169.254.1.1/16 1500", "e 10.0.0.2/24 1500", -1, -1},
    {"link-local is passed over", false, "e 169.254.1.1/16 1500; f 10.0.0.1/24 1500",
     "e 10.8.0.2/24 1500", 1, 0},
    {"a private bridge on both hosts is no network", false,
     "docker0 172.17.0.1/16 9000; e 10.0.0.1/24 1500",
     "docker0 172.17.0.1/16 9000; e 10.0.0.2/24 1500", 1, 1},
    {"bridges with each other's addresses, routed uplink", false,
     "br-1 172.17.0.1/16 1500; br-2 172.18.0.1/16 1500; e 10.1.0.1/32 1500",
     "br-1 172.17.0.1/16 1500; br-2 172.18.0.1/16 1500; e 10.2.0.2/32 1500", 2, 2},
    {"our address is one of theirs, that of another bridge", false,
     "br-2 172.18.0.1/16 1500; e 10.1.0.1/24 1500",
     "br-3 172.19.0.1/16 1500; br-2 172.18.0.1/16 1500; e 10.2.0.2/24 1500", 1, 0},
    {"bridges with each other's addresses, and nothing else", false,
     "br-1 172.17.0.1/16 1500; br-2 172.18.0.1/16 1500",
     "br-2 172.18.0.1/16 1500; br-1 172.17.0.1/16 1500", -1, -1},
    {"same host: its bridges are no matter", true,
     "br-1 172.17.0.1/16 1500; br-2 172.18.0.1/16 1500",
     "br-1 172.17.0.1/16 1500; br-2 172.18.0.1/16 1500", 0, 0},
    {"prefix 0 is no subnet", false, "t 10.0.0.1/0 9000; e 10.1.0.1/24 1500",
     "t 10.2.0.1/0 9000; e 10.1.0.2/24 1500", 1, 1},
    {"nothing there", false, "", LO "e 10.0.0.1/24 1500", -1, -1},
};

/* The first pair; 99 where there is none. */
static int first_pair(const struct diwarp_address *local, const struct diwarp_address *peer,
                      enum diwarp_switch same_host, unsigned *l, unsigned *p)
{
    struct dw_interface_pair all[DIWARP_MAX_INTERFACES] = {{99, 99}};
    const int rc = dw_interface_pairs(local, peer, same_host, all);
    *l = all[0].here;
    *p = all[0].there;
    return rc;
}

static void interface_pair__cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct diwarp_address local = address_of(0x70007, pairs[i].local);
        struct diwarp_address peer =
            address_of(pairs[i].same_host ? 0x70007 : 0x80008, pairs[i].peer);
        unsigned l = 99, p = 99;
        int rc = first_pair(&local, &peer, DIWARP_AUTO, &l, &p);
        bool ok = pairs[i].local_index < 0 ? rc == -ENETUNREACH && l == 99 && p == 99
                                           : rc >= 1 && l == (unsigned)pairs[i].local_index &&
                                                 p == (unsigned)pairs[i].peer_index;
        if (!ok) {
            fail_msg("%s: rc %d, pair %u %u", pairs[i].what, rc, l, p);
        }
    }
}

static void interface_pairs__one_for_each_of_the_peers__best_first(void **state)
{
    (void)state;
    static const struct dw_interface_pair wanted[] = {{1, 3}, {2, 1}, {1, 2}, {3, 4}};
    struct diwarp_address local = address_of(
        0x70007,
        LO "e 10.0.0.1/24 1500; i 10.1.0.1/24 9000; s fd00::1/64 1500; b 172.17.0.1/16 1500");
    struct diwarp_address peer = address_of(
        2, LO "i 10.1.0.2/24 1400; r 192.168.0.2/24 9000; e 10.0.0.2/24 1500; s fd01::2/64 1500;"
              "b 172.17.0.1/16 1500");
    struct dw_interface_pair all[DIWARP_MAX_INTERFACES];
    const int count = dw_interface_pairs(&local, &peer, DIWARP_AUTO, all);
    assert_int_equal(count, sizeof wanted / sizeof *wanted);
    for (int i = 0; i < count; i++) {
        assert_int_equal(all[i].here, wanted[i].here);
        assert_int_equal(all[i].there, wanted[i].there);
    }
    /* One that is told twice is one. */
    peer = address_of(0x80008, "e 10.0.0.2/24 1500; f 10.0.0.2/16 9000; i 10.1.0.2/24 1400");
    assert_int_equal(dw_interface_pairs(&local, &peer, DIWARP_AUTO, all), 2);
    /* Loopback never fails. */
    assert_int_equal(dw_interface_pairs(&local, &local, DIWARP_AUTO, all), 1);
}

/* Addresses come from peers. */
static void interface_pair__survives_wild_addresses(void **state)
{
    (void)state;
    struct diwarp_address local = address_of(1, "e 10.0.0.1/24 1500");
    struct diwarp_address peer;
    unsigned l, p;
    memset(&peer, 0xff, sizeof(peer));
    assert_int_equal(first_pair(&local, &peer, DIWARP_AUTO, &l, &p), -ENETUNREACH);
    for (unsigned i = 0; i < DIWARP_MAX_INTERFACES; i++) {
        peer.interfaces[i].family = AF_INET;
        peer.interfaces[i].loopback = false;
    }
    assert_int_equal(first_pair(&local, &peer, DIWARP_AUTO, &l, &p), 1); /* all alike */
    assert_true(l < 1 && p < DIWARP_MAX_INTERFACES);
}

/* Of processes: in one network namespace as far as /proc tells; in two that look alike; in two. */
static const uint64_t ids[] = {0x10007, 0x20007, 0x30008};

#define DECOYS LO "br-1 172.17.0.1/16 1500; br-2 172.18.0.1/16 1500"
#define ALIKE  LO "e 10.0.0.1/24 1500"
#define NOT_SEEN   \
    {              \
        -1, -1, -1 \
    }

/* The index of the interface of each side that is used, or -1: unreachable. */
static const struct {
    const char *what;
    enum diwarp_switch same_host;
    const char *local, *peer;
    int by_ids[3];
} same_hosts[] = {
    {"auto: looks count for what is shared", DIWARP_AUTO, ALIKE, ALIKE, {0, 0, -1}},
    {"auto: other hosts with bridges only", DIWARP_AUTO, DECOYS, DECOYS, {0, 0, -1}},
    {"auto: loopback alone", DIWARP_AUTO, LO, LO, {0, 0, -1}},
    {"auto: looks do not count where there is a way",
     DIWARP_AUTO,
     LO "br-1 172.17.0.1/16 1500; e 10.0.0.1/24 1500",
     LO "br-1 172.17.0.1/16 1500; e 10.0.0.2/24 1500",
     {0, 2, 2}},
    {"on: what is shared", DIWARP_ON, ALIKE, ALIKE, {0, 0, 0}},
    {"on: loopback alone", DIWARP_ON, LO, LO, {0, 0, 0}},
    {"on: not where there is a way",
     DIWARP_ON,
     LO "br-1 172.17.0.1/16 1500; e 10.0.0.1/24 1500",
     LO "br-1 172.17.0.1/16 1500; e 10.0.0.2/24 1500",
     {0, 2, 2}},
    {"on: nothing is shared", DIWARP_ON, LO, LO6, NOT_SEEN},
    {"off: not what is shared", DIWARP_OFF, ALIKE, ALIKE, NOT_SEEN},
    {"off: not loopback", DIWARP_OFF, ALIKE, LO "e 10.0.0.2/24 1500", {1, 1, 1}},
};

static void interface_pair__same_host(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3 * sizeof(same_hosts) / sizeof(same_hosts[0]); i++) {
        const int want = same_hosts[i / 3].by_ids[i % 3];
        struct diwarp_address local = address_of(ids[0], same_hosts[i / 3].local);
        struct diwarp_address peer = address_of(ids[i % 3], same_hosts[i / 3].peer);
        unsigned l = 99, p = 99;
        int rc = first_pair(&local, &peer, same_hosts[i / 3].same_host, &l, &p);
        bool ok =
            want < 0 ? rc == -ENETUNREACH : rc >= 1 && l == (unsigned)want && p == (unsigned)want;
        if (!ok) {
            fail_msg("%s, ids %zu: rc %d, pair %u %u", same_hosts[i / 3].what, i % 3, rc, l, p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interface_list__finds_loopback_first),
        cmocka_unit_test(interface_list__lo_is_complete),
        cmocka_unit_test(interface_list__filters),
        cmocka_unit_test(interface_list__each_of_this_host_by_name_and_by_address),
        cmocka_unit_test(interface_list__says_what_there_is),
        cmocka_unit_test(interface_list__known_but_down_is_no_device),
        cmocka_unit_test(interface_pair__cases),
        cmocka_unit_test(interface_pairs__one_for_each_of_the_peers__best_first),
        cmocka_unit_test(interface_pair__survives_wild_addresses),
        cmocka_unit_test(interface_pair__same_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
