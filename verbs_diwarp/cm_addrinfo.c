/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and services into addresses of rdma_cm: getaddrinfo(3)'s. */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "verbs_diwarp/cm_device.h"

static const struct rdma_addrinfo usual = {.ai_port_space = RDMA_PS_TCP};

static int copy(const struct sockaddr *from, socklen_t bytes, struct sockaddr **to,
                socklen_t *to_bytes)
{
    *to = malloc(bytes);
    if (!*to)
        return EAI_MEMORY;
    memcpy(*to, from, bytes);
    *to_bytes = bytes;
    return 0;
}

/* The family of our first GID comes first, whatever the host prefers: who listens on all addresses
 * does so by that. */
static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
                   struct addrinfo **found)
{
    const bool passive = hints->ai_flags & RAI_PASSIVE;
    const bool any = hints->ai_family != AF_INET && hints->ai_family != AF_INET6;
    struct addrinfo wanted = {.ai_flags = (passive ? AI_PASSIVE : 0) |
                                          (hints->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
                              .ai_family = any ? dv_cm_first_family() : hints->ai_family,
                              .ai_socktype = SOCK_STREAM};
    int rc = getaddrinfo(node, service, &wanted, found);
    if (rc && any) {
        wanted.ai_family = AF_UNSPEC;
        rc = getaddrinfo(node, service, &wanted, found);
    }
    return rc;
}

/* The first address of the name, into the side of the result that is asked for. */
static int find(const char *node, const char *service, const struct rdma_addrinfo *hints,
                struct rdma_addrinfo *result)
{
    const bool passive = hints->ai_flags & RAI_PASSIVE;
    struct addrinfo *found;
    int rc = look_up(node, service, hints, &found);
    if (rc)
        return rc;
    if (passive)
        rc = copy(found->ai_addr, found->ai_addrlen, &result->ai_src_addr, &result->ai_src_len);
    else
        rc = copy(found->ai_addr, found->ai_addrlen, &result->ai_dst_addr, &result->ai_dst_len);
    result->ai_family = found->ai_family;
    freeaddrinfo(found);
    if (!rc && !passive && hints->ai_src_len)
        rc = copy(hints->ai_src_addr, hints->ai_src_len, &result->ai_src_addr, &result->ai_src_len);
    return rc;
}

static int type_of(const struct rdma_addrinfo *hints)
{
    if (hints->ai_qp_type)
        return hints->ai_qp_type;
    return hints->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                     struct rdma_addrinfo **result)
{
    if (!hints)
        hints = &usual;
    if (!result || (!node && !service && !hints->ai_src_len && !hints->ai_dst_len)) {
        errno = EINVAL;
        return -1;
    }
    if (hints->ai_flags & RAI_FAMILY && hints->ai_family != AF_INET && hints->ai_family != AF_INET6)
        return EAI_FAMILY;
    struct rdma_addrinfo *info = calloc(1, sizeof *info);
    if (!info)
        return EAI_MEMORY;
    info->ai_flags = hints->ai_flags;
    info->ai_family = hints->ai_src_len   ? hints->ai_src_addr->sa_family
                      : hints->ai_dst_len ? hints->ai_dst_addr->sa_family
                                          : AF_INET;
    info->ai_qp_type = type_of(hints);
    info->ai_port_space = hints->ai_port_space             ? hints->ai_port_space
                          : info->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP
                                                           : RDMA_PS_TCP;
    int rc = 0;
    if (node || service)
        rc = find(node, service, hints, info);
    else if (hints->ai_src_len)
        rc = copy(hints->ai_src_addr, hints->ai_src_len, &info->ai_src_addr, &info->ai_src_len);
    if (!rc && !node && !service && hints->ai_dst_len)
        rc = copy(hints->ai_dst_addr, hints->ai_dst_len, &info->ai_dst_addr, &info->ai_dst_len);
    if (rc)
        rdma_freeaddrinfo(info);
    else
        *result = info;
    return rc;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *info)
{
    while (info) {
        struct rdma_addrinfo *next = info->ai_next;
        free(info->ai_src_addr);
        free(info->ai_dst_addr);
        free(info->ai_src_canonname);
        free(info->ai_dst_canonname);
        free(info->ai_route);
        free(info->ai_connect);
        free(info);
        info = next;
    }
}
