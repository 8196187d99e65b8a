/* SPDX-License-Identifier: BSD-3-Clause */
/* What the device does not have; for others, libibverbs'. */
#include <errno.h>

#include "verbs_diwarp/front.h"

/* Not in the headers of rdma-core 39 (Ubuntu 22.04), nor the others in those of 56 (Debian 13). */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_qp_attach_comp_cntr_attr;
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
                              size_t caps_size);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
                                           struct ibv_comp_cntr_init_attr *cc_attr);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
                            struct ibv_qp_attach_comp_cntr_attr *attr);
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* NOT_HERE(type of result, result, name, whose context, parameters, arguments) */
#define NOT_HERE(type, failure, name, context, parameters, arguments) \
    type name parameters                                              \
    {                                                                 \
        if (!dv_is_ours(context))                                     \
            return DV_REAL(name) arguments;                           \
        errno = EOPNOTSUPP;                                           \
        return failure;                                               \
    }

NOT_HERE(struct ibv_mr *, NULL, ibv_reg_dmabuf_mr, pd->context,
         (struct ibv_pd * pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
         (pd, offset, length, iova, fd, access))
NOT_HERE(int, EOPNOTSUPP, ibv_query_ece, qp->context, (struct ibv_qp * qp, struct ibv_ece *ece),
         (qp, ece))
NOT_HERE(int, EOPNOTSUPP, ibv_set_ece, qp->context, (struct ibv_qp * qp, struct ibv_ece *ece),
         (qp, ece))
NOT_HERE(int, 0, ibv_query_qp_data_in_order, qp->context,
         (struct ibv_qp * qp, enum ibv_wr_opcode op, uint32_t flags), (qp, op, flags))
NOT_HERE(struct ibv_pd *, NULL, ibv_import_pd, context,
         (struct ibv_context * context, uint32_t handle), (context, handle))
NOT_HERE(struct ibv_mr *, NULL, ibv_import_mr, pd->context, (struct ibv_pd * pd, uint32_t handle),
         (pd, handle))
NOT_HERE(struct ibv_dm *, NULL, ibv_import_dm, context,
         (struct ibv_context * context, uint32_t handle), (context, handle))
NOT_HERE(int, EOPNOTSUPP, _ibv_query_comp_cntr_caps, context,
         (struct ibv_context * context, struct ibv_comp_cntr_caps *caps, size_t caps_size),
         (context, caps, caps_size))
NOT_HERE(struct ibv_comp_cntr *, NULL, ibv_create_comp_cntr, context,
         (struct ibv_context * context, struct ibv_comp_cntr_init_attr *cc_attr),
         (context, cc_attr))
NOT_HERE(int, EOPNOTSUPP, ibv_qp_attach_comp_cntr, qp->context,
         (struct ibv_qp * qp, struct ibv_comp_cntr *comp_cntr,
          struct ibv_qp_attach_comp_cntr_attr *attr),
         (qp, comp_cntr, attr))
NOT_HERE(struct ibv_dmah *, NULL, ibv_alloc_dmah, context,
         (struct ibv_context * context, struct ibv_dmah_init_attr *attr), (context, attr))
NOT_HERE(int, -1, ibv_dm_export_dmabuf_fd, dm->context, (struct ibv_dm * dm), (dm))

/* Of ours, none was ever imported. */
#define NOT_IMPORTED(name, type)          \
    void name(type *object)               \
    {                                     \
        if (!dv_is_ours(object->context)) \
            DV_REAL(name)(object);        \
    }

NOT_IMPORTED(ibv_unimport_pd, struct ibv_pd)
NOT_IMPORTED(ibv_unimport_mr, struct ibv_mr)
NOT_IMPORTED(ibv_unimport_dm, struct ibv_dm)
