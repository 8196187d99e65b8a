/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: binding, and where a destination is reached from. There is one port space, TCP's. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs_diwarp/cm_device.h"
#include "verbs_diwarp/cm_id.h"
#include "verbs_diwarp/cm_mcast.h"

static bool is_ipv4(const struct sockaddr *address)
{
    return address && address->sa_family == AF_INET;
}

/* The TCP socket by which the id will listen or call. 0 or a positive errno. */
static int bind_socket(struct dv_cm_id *id, const struct sockaddr_in *address)
{
    struct sockaddr_in *bound = &id->id.route.addr.src_sin;
    socklen_t bytes = sizeof *bound;
    const int on = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(fd, (const struct sockaddr *)address, sizeof *address) ||
        getsockname(fd, (struct sockaddr *)bound, &bytes)) {
        const int rc = errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    id->fd = fd;
    return 0;
}

/* Neither names a device, as the kernel's CM has it: libfabric looks for one by itself then, and
 * tells the other host its address. */
static bool is_any(struct in_addr address)
{
    const uint32_t ip = ntohl(address.s_addr);
    return ip == INADDR_ANY || ip >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

static int bind_id(struct dv_cm_id *id, const struct sockaddr *address)
{
    struct sockaddr_in ipv4;
    if (!is_ipv4(address))
        return EAFNOSUPPORT;
    memcpy(&ipv4, address, sizeof ipv4);
    if (!dv_cm_may(id, DV_CM_BOUND))
        return EINVAL;
    int rc = is_any(ipv4.sin_addr) ? 0 : dv_cm_use_address(id, ipv4.sin_addr);
    if (!rc)
        rc = bind_socket(id, &ipv4);
    if (!rc)
        dv_cm_set_state(id, DV_CM_BOUND);
    return rc;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    dv_cm_lock();
    const int rc = bind_id(dv_cm_id_of(id), address);
    dv_cm_unlock();
    return rc ? dv_cm_fail(rc) : 0;
}

/* ---- resolving ---- */

/* What the routing tables say: the source, which may be given, of datagrams to there. */
static int find_source(const struct sockaddr_in *to, struct sockaddr_in *source)
{
    socklen_t bytes = sizeof *source;
    struct sockaddr_in from = *source;
    from.sin_port = 0;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    const int rc = bind(fd, (const struct sockaddr *)&from, sizeof from) ||
                           connect(fd, (const struct sockaddr *)to, sizeof *to) ||
                           getsockname(fd, (struct sockaddr *)&from, &bytes)
                       ? errno
                       : 0;
    close(fd);
    source->sin_addr = from.sin_addr;
    return rc;
}

static int resolve(struct dv_cm_id *id, const struct sockaddr *from, const struct sockaddr *to)
{
    struct rdma_addr *addr = &id->id.route.addr;
    struct sockaddr_in destination;
    int rc = 0;
    if (!is_ipv4(to) || (from && from->sa_family != AF_INET))
        return EAFNOSUPPORT;
    memcpy(&destination, to, sizeof destination);
    if (!dv_cm_may(id, DV_CM_ADDR_RESOLVED))
        return EINVAL;
    if (from && id->state == DV_CM_IDLE)
        rc = bind_id(id, from);
    addr->src_sin.sin_family = AF_INET;
    if (!destination.sin_port) /* else connect(2) makes of it one that is refused */
        destination.sin_port = htons(1);
    if (!rc)
        rc = find_source(&destination, &addr->src_sin);
    if (rc == ENETUNREACH && dv_cm_mcast_source(destination.sin_addr, &addr->src_sin.sin_addr))
        rc = 0;
    if (!rc)
        rc = dv_cm_use_address(id, addr->src_sin.sin_addr);
    if (rc)
        return rc;
    memcpy(&addr->dst_sin, to, sizeof addr->dst_sin);
    memcpy(&addr->addr.ibaddr.sgid, id->own.gid, sizeof addr->addr.ibaddr.sgid);
    addr->addr.ibaddr.pkey = htons(0xffff);
    dv_cm_set_state(id, DV_CM_ADDR_RESOLVED);
    dv_cm_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                      int timeout_ms)
{
    (void)timeout_ms;
    dv_cm_lock();
    const int rc = resolve(dv_cm_id_of(id), from, to);
    dv_cm_unlock();
    return rc ? dv_cm_fail(rc) : dv_cm_complete(dv_cm_id_of(id));
}

int rdma_resolve_route(struct rdma_cm_id *ibv_id, int timeout_ms)
{
    struct dv_cm_id *id = dv_cm_id_of(ibv_id);
    (void)timeout_ms;
    dv_cm_lock();
    const bool may = dv_cm_may(id, DV_CM_ROUTE_RESOLVED);
    if (may) {
        dv_cm_set_state(id, DV_CM_ROUTE_RESOLVED);
        dv_cm_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    }
    dv_cm_unlock();
    return may ? dv_cm_complete(id) : dv_cm_fail(EINVAL);
}
