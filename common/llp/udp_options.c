/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the UDP LLP's sockets. */
#include <errno.h>
#include <limits.h>

#include "common/llp/udp_options.h"

int dw_udp_set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

uint32_t dw_udp_set_buffer(int fd, int name, int force_name, uint32_t bytes)
{
    int value = bytes > INT_MAX / 2 ? INT_MAX / 2 : (int)bytes;
    socklen_t len = sizeof(value);
    if (bytes > 0 && dw_udp_set_int(fd, SOL_SOCKET, force_name, value) < 0) {
        dw_udp_set_int(fd, SOL_SOCKET, name, value);
    }
    if (getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 || value < 0) {
        return 0;
    }
    return (uint32_t)value;
}

/* PMTUDISC_WANT: a datagram above the path's MTU leaves in fragments, all others with DF. An IPv6
 * socket carries IPv4 too, so it has both sets of options. */
int dw_udp_set_options(int fd, uint8_t family)
{
    int rc = 0;
    if (family == AF_INET6) {
        rc = dw_udp_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        rc = rc ? rc : dw_udp_set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_WANT);
        rc = rc ? rc : dw_udp_set_int(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
    }
    rc = rc ? rc : dw_udp_set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT);
    return rc ? rc : dw_udp_set_int(fd, IPPROTO_IP, IP_RECVERR, 1);
}
