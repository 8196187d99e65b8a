/* SPDX-License-Identifier: BSD-3-Clause */
/* What ids do not have: ECE, SRQs that are not RC's, and sockets over RDMA, which are
 * made of librdmacm's own ids, that there are none of here. */
#include <errno.h>
#include <rdma/rdma_cma.h>

int rsocket(int domain, int type, int protocol);

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
NOT_HERE(rsocket, (int domain, int type, int protocol))
