/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: binding, and where a destination is reached from. There is one port space, TCP's. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs_diwarp/cm_device.h"
#include "verbs_diwarp/cm_id.h"
#include "verbs_diwarp/cm_link.h"
#include "verbs_diwarp/cm_mcast.h"
#include "verbs_diwarp/cm_route.h"
#include "verbs_diwarp/cm_sockaddr.h"

/* A TCP socket that is bound, or -1 with errno. */
static int bound_socket(const struct sockaddr *address, int ipv6_only, int reuse)
{
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) &&
        (address->sa_family != AF_INET6 ||
         !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &ipv6_only, sizeof ipv6_only)) &&
        !bind(fd, address, dv_cm_sockaddr_bytes(address)))
        return fd;
    const int rc = errno;
    if (fd >= 0)
        close(fd);
    errno = rc;
    return -1;
}

/* The TCP socket by which the id will listen or call. A port that another id is bound to is in use
 * before that listens, unless they share it; a port that has connections alone, of ids that have
 * listened or called, is not: they allow it. 0 or a positive errno. */
static int bind_socket(struct dv_cm_id *id, const struct sockaddr *address)
{
    struct sockaddr_storage *bound = &id->id.route.addr.src_storage;
    socklen_t bytes = sizeof *bound;
    int fd = bound_socket(address, id->is_of_one_family, id->shares);
    if (fd < 0 && errno == EADDRINUSE)
        fd = bound_socket(address, id->is_of_one_family, 1);
    if (fd < 0)
        return errno;
    dv_cm_set_reuse(fd, id->shares);
    if (getsockname(fd, (struct sockaddr *)bound, &bytes)) {
        const int rc = errno;
        close(fd);
        return rc;
    }
    id->fd = fd;
    return 0;
}

/* Neither names a device, as the kernel's CM has it: libfabric looks for one by itself then, and
 * tells the other host its address. */
static bool names_no_device(const struct sockaddr *address)
{
    const union ibv_gid gid = dv_cm_gid_of(address);
    return dv_cm_is_any(&gid) || dv_cm_is_loopback(&gid);
}

static int bind_id(struct dv_cm_id *id, const struct sockaddr *address)
{
    if (!dv_cm_sockaddr_bytes(address))
        return EAFNOSUPPORT;
    if (!dv_cm_may(id, DV_CM_BOUND))
        return EINVAL;
    int rc = names_no_device(address) ? 0 : dv_cm_use_address(id, address);
    if (!rc)
        rc = bind_socket(id, address);
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
static int find_source(const struct sockaddr *to, struct sockaddr_storage *source)
{
    struct sockaddr_storage from = *source;
    struct sockaddr *name = (struct sockaddr *)&from;
    const in_port_t port = dv_cm_port_of(name);
    socklen_t bytes = sizeof from;
    dv_cm_set_port(name, 0);
    const int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    const int rc = bind(fd, name, dv_cm_sockaddr_bytes(name)) ||
                           connect(fd, to, dv_cm_sockaddr_bytes(to)) ||
                           getsockname(fd, name, &bytes)
                       ? errno
                       : 0;
    close(fd);
    if (rc)
        return rc;
    dv_cm_set_port(name, port);
    *source = from;
    return 0;
}

/* Sets src_storage. */
static int find_way(struct dv_cm_id *id, const struct sockaddr *to)
{
    struct rdma_addr *addr = &id->id.route.addr;
    const union ibv_gid gid = dv_cm_gid_of(to);
    struct sockaddr_storage probe =
        dv_cm_sockaddr_of(&gid, dv_cm_port_of(to) ? dv_cm_port_of(to) : htons(1));
    if (!addr->src_addr.sa_family)
        addr->src_addr.sa_family = to->sa_family;
    if (addr->src_addr.sa_family != to->sa_family)
        return EINVAL;
    /* Without a port connect(2) makes of it one that is refused. */
    const int rc = find_source((const struct sockaddr *)&probe, &addr->src_storage);
    /* EINVAL: of a group of each link, of which none is named. */
    if ((!rc || rc == ENETUNREACH || rc == EINVAL) && dv_cm_mcast_source(to, &addr->src_storage))
        return 0;
    return rc;
}

/* By whatever address this host is called, it has the GID that a queue pair of it answers with. */
static void set_destination(struct dv_cm_id *id, const struct sockaddr *to)
{
    union ibv_gid gid = dv_cm_gid_of(to);
    const int own = dv_cm_gid_index(to);
    memcpy(&id->id.route.addr.dst_storage, to, dv_cm_sockaddr_bytes(to));
    if (own >= 0)
        dv_cm_put_gid(gid.raw, (uint32_t)own);
    dv_cm_route_to(id, gid.raw);
}

static int resolve(struct dv_cm_id *id, const struct sockaddr *from, const struct sockaddr *to)
{
    struct rdma_addr *addr = &id->id.route.addr;
    int rc = 0;
    if (!dv_cm_sockaddr_bytes(to) || (from && from->sa_family != to->sa_family))
        return EAFNOSUPPORT;
    if (!dv_cm_may(id, DV_CM_ADDR_RESOLVED))
        return EINVAL;
    if (from && id->state == DV_CM_IDLE)
        rc = bind_id(id, from);
    if (!rc)
        rc = find_way(id, to);
    if (!rc)
        rc = dv_cm_use_address(id, &addr->src_addr);
    if (rc)
        return rc;
    set_destination(id, to);
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
        dv_cm_route_add_path(id);
        dv_cm_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    }
    dv_cm_unlock();
    return may ? dv_cm_complete(id) : dv_cm_fail(EINVAL);
}
