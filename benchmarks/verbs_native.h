/* SPDX-License-Identifier: BSD-3-Clause */
/* An end of diwarp's own API; RC is in verbs_native_rc.c. */
#ifndef VERBS_NATIVE_H
#define VERBS_NATIVE_H

#include "benchmarks/verbs_end.h"
#include "common/include/diwarp_rc.h"

struct native_end {
    struct verbs_end end;
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_mr *mr; /* of end.to */
    struct diwarp_qp *qp; /* UD, RD */
    struct diwarp_ah *ah;
    struct diwarp_listener *listener; /* RC: of the end that does not call */
    struct diwarp_connect_request *request;
    struct diwarp_rc_qp *rc_qp;
    bool connected;
    uint64_t remote_addr;
    uint32_t remote_stag;
};

struct ibv_recv_wr native_receive(const struct native_end *native, uint64_t slot,
                                  struct ibv_sge *sge);
bool native_poll(struct verbs_end *end);

void native_rc_listen(struct native_end *native);
void native_rc_connect(struct native_end *native, const struct diwarp_address *address);
void native_rc_close(struct native_end *native);

#endif
