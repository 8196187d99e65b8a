/* SPDX-License-Identifier: BSD-3-Clause */
/* What ids do not have: ECE, SRQs that are not RC's, and sockets over RDMA, which are
 * made of librdmacm's own ids, that there are none of here. */
#include <errno.h>
#include <rdma/rdma_cma.h>

int rsocket(int domain, int type, int protocol);
/* Not in the headers of rdma-core 56 (Debian 13). */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                          const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                        uint64_t arg);

#define NOT_HERE(name, parameters) \
    int name parameters            \
    {                              \
        errno = EOPNOTSUPP;        \
        return -1;                 \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"

NOT_HERE(rdma_notify, (struct rdma_cm_id * id, enum ibv_event_type event))
NOT_HERE(rdma_reject_ece, (struct rdma_cm_id * id, const void *private_data, uint8_t bytes))
NOT_HERE(rdma_set_local_ece, (struct rdma_cm_id * id, struct ibv_ece *ece))
NOT_HERE(rdma_get_remote_ece, (struct rdma_cm_id * id, struct ibv_ece *ece))
NOT_HERE(rdma_resolve_addrinfo, (struct rdma_cm_id * id, const char *node, const char *service,
                                 const struct rdma_addrinfo *hints))
NOT_HERE(rdma_query_addrinfo, (struct rdma_cm_id * id, struct rdma_addrinfo **info))
NOT_HERE(rdma_write_cm_event,
         (struct rdma_cm_id * id, enum rdma_cm_event_type event, int status, uint64_t arg))
NOT_HERE(rsocket, (int domain, int type, int protocol))
