/* SPDX-License-Identifier: BSD-3-Clause */
/* Local network interfaces: the list that passes the user's filters, the pair that reaches a peer,
 * and what tells whether a peer shares them.
 *
 * Choosing a pair is pure. Nothing here opens a connection or sends a probe. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/llp/interface.h"
#include "common/llp/socket.h"

/* ---- addresses ---- */

static unsigned family_bits(uint8_t family)
{
    return family == AF_INET ? 32 : 128;
}

static bool same_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    const unsigned bytes = bits / 8;
    return memcmp(a, b, bytes) == 0 &&
           (bits % 8 == 0 || ((a[bytes] ^ b[bytes]) >> (8 - bits % 8)) == 0);
}

static bool is_link_local(uint8_t family, const uint8_t *ip)
{
    return family == AF_INET ? ip[0] == 169 && ip[1] == 254
                             : ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

/* The address, or mask, of that family. */
static void copy_ip(uint8_t ip[16], uint8_t family, const struct sockaddr *from)
{
    const union dw_sockaddr *name = (const union dw_sockaddr *)(const void *)from;
    if (family == AF_INET)
        memcpy(ip, &name->v4.sin_addr, 4);
    else
        memcpy(ip, &name->v6.sin6_addr, 16);
}

static unsigned mask_bits(const struct sockaddr *mask, uint8_t family)
{
    uint8_t bytes[16] = {0};
    unsigned bits = 0;
    if (!mask)
        return family_bits(family);
    copy_ip(bytes, family, mask);
    while (bits < family_bits(family) && (bytes[bits / 8] & (0x80 >> bits % 8)))
        bits++;
    return bits;
}

/* ---- filters ---- */

/* An entry of a filter, with room for the longest: an IPv6 address and its prefix. */
struct entry {
    char text[64];
};

struct cidr {
    uint8_t family;
    uint8_t prefix_bits;
    uint8_t ip[16];
};

/* "10.1.0.0/16", "fd00::/8", or an address alone. */
static bool cidr_parse(struct entry entry, struct cidr *cidr)
{
    char *slash = strchr(entry.text, '/'), *end;
    if (slash)
        *slash = '\0';
    *cidr = (struct cidr){.family = strchr(entry.text, ':') ? AF_INET6 : AF_INET};
    if (inet_pton(cidr->family, entry.text, cidr->ip) != 1)
        return false;
    unsigned long bits = family_bits(cidr->family);
    if (slash) {
        bits = strtoul(slash + 1, &end, 10);
        if (!isdigit((unsigned char)slash[1]) || *end || bits > family_bits(cidr->family))
            return false;
    }
    cidr->prefix_bits = (uint8_t)bits;
    return true;
}

/* Cuts the next entry, without blanks around it, out of a comma-separated list; false at its end.
 * An entry too long for what it could name comes cut short and matches nothing. */
static bool next_entry(const char **list, struct entry *entry)
{
    static const char blanks[] = " \t\r\n";
    while (*list && **list) {
        const char *start = *list + strspn(*list, blanks);
        size_t len = strcspn(start, ",");
        *list = start + len + (start[len] == ',');
        while (len > 0 && strchr(blanks, start[len - 1]))
            len--;
        if (len >= sizeof entry->text)
            len = sizeof entry->text - 1;
        snprintf(entry->text, sizeof entry->text, "%.*s", (int)len, start);
        if (len > 0)
            return true;
    }
    return false;
}

static bool filter_matches(const char *list, const struct diwarp_interface *interface)
{
    struct entry entry;
    struct cidr cidr;
    while (next_entry(&list, &entry))
        if (strcmp(entry.text, interface->name) == 0 ||
            (cidr_parse(entry, &cidr) && cidr.family == interface->family &&
             same_prefix(cidr.ip, interface->ip, cidr.prefix_bits)))
            return true;
    return false;
}

/* ---- this host's interfaces ---- */

static uint32_t mtu_bytes(int fd, const char *name)
{
    struct ifreq request = {.ifr_mtu = 0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, SIOCGIFMTU, &request) < 0 || request.ifr_mtu <= 0)
        return 1500;
    return (uint32_t)request.ifr_mtu;
}

/* The interface behind an entry of getifaddrs(), when datagrams can be sent to its address. */
static bool interface_from(const struct ifaddrs *entry, int fd, struct diwarp_interface *interface)
{
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) || !(entry->ifa_flags & IFF_RUNNING))
        return false;
    memset(interface, 0, sizeof *interface);
    interface->family = (uint8_t)entry->ifa_addr->sa_family;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6)
        return false;
    copy_ip(interface->ip, interface->family, entry->ifa_addr);
    if (interface->family == AF_INET6 && is_link_local(AF_INET6, interface->ip))
        return false;
    snprintf(interface->name, sizeof interface->name, "%s", entry->ifa_name);
    interface->prefix_bits = (uint8_t)mask_bits(entry->ifa_netmask, interface->family);
    interface->loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    interface->mtu_bytes = mtu_bytes(fd, interface->name);
    return true;
}

static bool has_entry(const char *name, const char *entry)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, entry);
    return access(path, F_OK) == 0;
}

/* Whether a route to other networks begins there. */
static bool has_gateway(const struct diwarp_interface *interface)
{
    const bool v4 = interface->family == AF_INET;
    bool found = false;
    FILE *routes = fopen(v4 ? "/proc/net/route" : "/proc/net/ipv6_route", "re");
    char line[256], name[IFNAMSIZ];
    unsigned flags;
    while (routes && !found && fgets(line, sizeof line, routes)) {
        int fields = v4 ? sscanf(line, "%15s %*s %*s %x", name, &flags)
                        : sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %x %15s", &flags, name);
        found = fields == 2 && (flags & RTF_GATEWAY) && strcmp(name, interface->name) == 0;
    }
    if (routes)
        fclose(routes);
    return found;
}

/* Lower is listed earlier: loopback, then what is likelier to lead to a peer, IPv4 before IPv6, and
 * second addresses last. Neither bonds, VLANs and tunnels nor bridges have a device behind them;
 * but bridges are mostly those of containers, and no way out of the host. */
static unsigned rank_of(const struct diwarp_interface *interface, bool second_address)
{
    const unsigned rank = (second_address ? 8u : 0u) + (interface->family == AF_INET6);
    if (interface->loopback)
        return rank;
    if (has_entry(interface->name, "device") || has_gateway(interface))
        return rank + 2;
    return rank + (has_entry(interface->name, "bridge") ? 6 : 4);
}

struct ranked_list {
    struct diwarp_interface *list;
    unsigned ranks[DW_INTERFACES_LISTED];
    unsigned count;
};

static void ranked_insert(struct ranked_list *ranked, const struct diwarp_interface *interface)
{
    bool second_address = false;
    for (unsigned i = 0; i < ranked->count; i++)
        second_address |= ranked->list[i].family == interface->family &&
                          strcmp(ranked->list[i].name, interface->name) == 0;
    const unsigned rank = rank_of(interface, second_address);
    unsigned at = ranked->count;
    while (at > 0 && ranked->ranks[at - 1] > rank)
        at--;
    if (at == DW_INTERFACES_LISTED)
        return;
    if (ranked->count < DW_INTERFACES_LISTED)
        ranked->count++;
    const size_t after = ranked->count - 1 - at;
    memmove(&ranked->list[at + 1], &ranked->list[at], after * sizeof *ranked->list);
    memmove(&ranked->ranks[at + 1], &ranked->ranks[at], after * sizeof *ranked->ranks);
    ranked->list[at] = *interface;
    ranked->ranks[at] = rank;
}

/* "lo (127.0.0.1/8), eth0 (10.0.0.2/24)", as far as it fits. */
static void format_all(const struct ifaddrs *all, char *buf, size_t len)
{
    struct diwarp_interface interface;
    char ip[INET6_ADDRSTRLEN];
    size_t used = 0;
    snprintf(buf, len, "none");
    for (const struct ifaddrs *entry = all; entry && used < len; entry = entry->ifa_next) {
        if (!interface_from(entry, -1, &interface))
            continue;
        inet_ntop(interface.family, interface.ip, ip, sizeof ip);
        used += (size_t)snprintf(buf + used, len - used, "%s%s (%s/%u)", used ? ", " : "",
                                 interface.name, ip, (unsigned)interface.prefix_bits);
    }
}

/* An exclude list may name what another host has; but a broken CIDR is broken everywhere. */
static int check_filter(const struct ifaddrs *all, const char *list, bool names_must_exist,
                        struct diwarp_diagnosis *why)
{
    char there_are[192];
    struct entry entry;
    struct cidr cidr;
    while (next_entry(&list, &entry)) {
        const bool broken_cidr = strchr(entry.text, '/') != NULL;
        const struct ifaddrs *it = all;
        while (it && strcmp(it->ifa_name, entry.text) != 0)
            it = it->ifa_next;
        if (cidr_parse(entry, &cidr) || (!names_must_exist && !broken_cidr) || it)
            continue;
        format_all(all, there_are, sizeof there_are);
        dw_explain(why, "%s '%s'%s; there are: %s", broken_cidr ? "not a CIDR:" : "no interface",
                   entry.text, broken_cidr ? "" : " here", there_are);
        return -EINVAL;
    }
    return 0;
}

int dw_interface_list(const char *include, const char *exclude,
                      struct diwarp_interface list[DW_INTERFACES_LISTED],
                      struct diwarp_diagnosis *why)
{
    struct ranked_list ranked = {.list = list};
    struct diwarp_interface interface;
    struct entry any;
    struct ifaddrs *all;
    char there_are[160];

    if (getifaddrs(&all) < 0) {
        int rc = -errno;
        dw_explain(why, "cannot list the network interfaces: %s", strerror(-rc));
        return rc;
    }
    const bool including = next_entry(&(const char *){include}, &any);
    const char *filter = including ? include : exclude;
    int rc = check_filter(all, filter, including, why);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* of whatever family */
    for (struct ifaddrs *entry = all; rc == 0 && entry; entry = entry->ifa_next)
        if (interface_from(entry, fd, &interface) &&
            filter_matches(filter, &interface) == including)
            ranked_insert(&ranked, &interface);
    if (rc == 0 && ranked.count == 0) {
        format_all(all, there_are, sizeof there_are);
        dw_explain(why, "no interface that is up passes '%.80s'; there are: %s",
                   filter ? filter : "", there_are);
        rc = -ENODEV;
    }
    if (fd >= 0)
        close(fd);
    freeifaddrs(all);
    return rc ? rc : (int)ranked.count;
}

/* ---- pairs ---- */

/* 0: no pair. Higher is better; the MTU decides only inside one subnet, where it says something of
 * the path. */
enum { ANY_PATH = 1, SAME_SUBNET = 2, LOOPBACK = 3 };

static uint64_t pair_score(const struct diwarp_interface *local,
                           const struct diwarp_interface *peer, bool same_host)
{
    if (local->family != peer->family || (local->family != AF_INET && local->family != AF_INET6))
        return 0;
    if (local->loopback || peer->loopback)
        return same_host && local->loopback && peer->loopback ? (uint64_t)LOOPBACK << 32 : 0;
    const unsigned bits = family_bits(local->family);
    unsigned longer =
        local->prefix_bits > peer->prefix_bits ? local->prefix_bits : peer->prefix_bits;
    longer = longer < bits ? longer : bits;
    if (local->prefix_bits > 0 && peer->prefix_bits > 0 && same_prefix(local->ip, peer->ip, longer))
        return ((uint64_t)SAME_SUBNET << 32) +
               (local->mtu_bytes < peer->mtu_bytes ? local->mtu_bytes : peer->mtu_bytes);
    return is_link_local(local->family, local->ip) || is_link_local(peer->family, peer->ip)
               ? 0
               : (uint64_t)ANY_PATH << 32;
}

static unsigned interface_count(const struct diwarp_address *address)
{
    return address->interface_count < DIWARP_MAX_INTERFACES ? address->interface_count
                                                            : DIWARP_MAX_INTERFACES;
}

bool dw_interfaces_have(const struct diwarp_interface *list, unsigned count, uint8_t family,
                        const uint8_t *ip)
{
    for (unsigned i = 0; i < count && i < DIWARP_MAX_INTERFACES; i++)
        if (list[i].family == family && same_prefix(list[i].ip, ip, family_bits(family)))
            return true;
    return false;
}

static bool has_ip_of(const struct diwarp_address *address, const struct diwarp_interface *other)
{
    return dw_interfaces_have(address->interfaces, address->interface_count, other->family,
                              other->ip);
}

/* Of ours, the best for the peer's interface `there`; the score, 0: none. */
static uint64_t best_for(const struct diwarp_address *local, const struct diwarp_address *peer,
                         unsigned there, bool same_host, uint8_t *here)
{
    const struct diwarp_interface *theirs = &peer->interfaces[there];
    uint64_t best = 0;
    /* An address that both of two hosts have is that of a private bridge (docker0, virbr0): no
     * network between them, and each that sends to it talks to itself. */
    if (!same_host && has_ip_of(local, theirs))
        return 0;
    for (unsigned l = 0; l < interface_count(local); l++) {
        const struct diwarp_interface *mine = &local->interfaces[l];
        const uint64_t score =
            !same_host && has_ip_of(peer, mine) ? 0 : pair_score(mine, theirs, same_host);
        if (score <= best)
            continue;
        best = score;
        *here = (uint8_t)l;
    }
    return best;
}

static int list_pairs(const struct diwarp_address *local, const struct diwarp_address *peer,
                      bool same_host, struct dw_interface_pair pairs[DIWARP_MAX_INTERFACES])
{
    uint64_t scores[DIWARP_MAX_INTERFACES];
    int count = 0;
    for (unsigned p = 0; p < interface_count(peer); p++) {
        const struct diwarp_interface *theirs = &peer->interfaces[p];
        uint8_t here = 0;
        const uint64_t score = best_for(local, peer, p, same_host, &here);
        int at = count;
        if (!score || dw_interfaces_have(peer->interfaces, p, theirs->family, theirs->ip))
            continue;
        for (; at > 0 &&
               (scores[at - 1] < score || (scores[at - 1] == score && pairs[at - 1].here > here));
             at--) {
            scores[at] = scores[at - 1];
            pairs[at] = pairs[at - 1];
        }
        scores[at] = score;
        pairs[at] = (struct dw_interface_pair){.here = here, .there = (uint8_t)p};
        count++;
    }
    if (!count)
        return -ENETUNREACH;
    return scores[0] >> 32 == LOOPBACK ? 1 : count;
}

/* Sandboxes and containers may show each process a boot id of its own, or no /proc, though they
 * share the network. That two network namespaces look alike is no proof that they are one, so it
 * counts only for peers that nothing else leads to: taking another host for this one then costs no
 * connection that would work. */
int dw_interface_pairs(const struct diwarp_address *local, const struct diwarp_address *peer,
                       enum diwarp_switch same_host,
                       struct dw_interface_pair pairs[DIWARP_MAX_INTERFACES])
{
    const uint64_t differ = local->host_id ^ peer->host_id;
    const bool one_namespace = same_host != DIWARP_OFF && (differ & ~DW_HOST_ID_LOOKS) == 0;
    const bool look_alike = same_host == DIWARP_AUTO && (differ & DW_HOST_ID_LOOKS) == 0;
    int rc = list_pairs(local, peer, one_namespace, pairs);
    if (rc < 0 && (look_alike || same_host == DIWARP_ON))
        rc = list_pairs(local, peer, true, pairs);
    return rc;
}

/* ---- host ids: hashes of what /proc says of this network namespace, and of how it looks ---- */

#define FNV_BASIS UINT64_C(0xcbf29ce484222325)

static uint64_t fnv1a(uint64_t hash, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* 0: /proc does not say. */
static uint64_t namespace_hash(void)
{
    char boot_id[64];
    struct stat netns;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool known =
        file && fgets(boot_id, sizeof boot_id, file) && stat("/proc/self/ns/net", &netns) == 0;
    if (file)
        fclose(file);
    if (!known)
        return 0;
    uint64_t hash = fnv1a(FNV_BASIS, boot_id, strlen(boot_id));
    hash = fnv1a(hash, &netns.st_dev, sizeof netns.st_dev);
    return fnv1a(hash, &netns.st_ino, sizeof netns.st_ino);
}

/* Of all interfaces that are up, whatever is used of them, in any order. The bridges of containers
 * have the same IP address on every host, but each a hardware address of its own. */
static uint64_t looks_hash(void)
{
    uint64_t sum = FNV_BASIS;
    struct diwarp_interface interface;
    struct ifaddrs *all = NULL;
    (void)getifaddrs(&all);
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
        const struct sockaddr_ll *link = (const void *)entry->ifa_addr;
        if (interface_from(entry, -1, &interface) && !interface.loopback)
            sum += fnv1a(FNV_BASIS, interface.ip, sizeof interface.ip);
        else if (link && link->sll_family == AF_PACKET && (entry->ifa_flags & IFF_UP))
            sum += fnv1a(FNV_BASIS, link->sll_addr, sizeof link->sll_addr);
    }
    freeifaddrs(all);
    return sum;
}

uint64_t dw_host_id(void)
{
    uint64_t looks = looks_hash(), namespace = namespace_hash();
    uint64_t host = namespace ? namespace : looks;
    return (host & ~DW_HOST_ID_LOOKS) | looks >> 48;
}

/* A label of an address may follow the name. */
uint32_t dw_interface_index(const struct diwarp_interface *interface)
{
    char name[sizeof interface->name];
    memcpy(name, interface->name, sizeof name);
    name[strcspn(name, ":")] = '\0';
    return if_nametoindex(name);
}
