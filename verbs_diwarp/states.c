/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/states.h"

#include <stddef.h>

struct change {
    enum ibv_qp_state from, to;
    int required, optional; /* of enum ibv_qp_attr_mask */
};

static const struct change ud[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

bool dv_states_allow(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
                     int attr_mask)
{
    const int given = attr_mask & ~IBV_QP_STATE;
    if (type != IBV_QPT_UD)
        return false;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) /* from any */
        return !given;
    for (size_t i = 0; i < sizeof ud / sizeof *ud; i++)
        if (ud[i].from == from && ud[i].to == to)
            return !(ud[i].required & ~given) && !(given & ~(ud[i].required | ud[i].optional));
    return false;
}
