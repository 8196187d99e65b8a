/* SPDX-License-Identifier: BSD-3-Clause */
/* UD's table. A port keeps nothing for it: each QP has all that is its own. */
#include "common/ud/service.h"

#include <errno.h>
#include <stdlib.h>

#include "common/rnic/port.h"
#include "common/ud/ud.h"

/* On a port. */
struct dw_ud {
    struct dw_port *port;
    struct dw_ahs ahs; /* of a peer nothing is kept, so there may be several of one name */
};

static int open_state(struct dw_port *port, void **state)
{
    struct dw_ud *ud = calloc(1, sizeof *ud);
    if (!ud)
        return -ENOMEM;
    ud->port = port;
    dw_ahs_init(&ud->ahs, sizeof(struct dw_ud_ah), port, &dw_ud_service);
    *state = ud;
    return 0;
}

static void close_state(void *state)
{
    struct dw_ud *ud = state;
    dw_cells_fini(&ud->ahs.cells);
    free(ud);
}

static struct diwarp_ah *get_ah(struct diwarp_qp *qp, struct diwarp_name name)
{
    struct dw_ud *ud = qp->state;
    struct diwarp_ah *ah = dw_cells_get(&ud->ahs.cells);
    if (ah)
        ah->name = name;
    return ah;
}

static struct diwarp_ah *get_ah_of_qpn(struct diwarp_ah *ah, uint32_t qpn)
{
    dw_container(ah, struct dw_ud_ah, ah)->qpn = qpn;
    return ah;
}

static void put_ah(struct diwarp_ah *ah)
{
    if (dw_ahs_of(ah))
        dw_ah_drop_route(ah);
    dw_cells_put(ah);
}

static void take(void *state, struct diwarp_qp *qp, const struct dw_arrival *arrival,
                 uint64_t now_ns)
{
    (void)state;
    dw_ud_take(dw_ud_qp_of(qp), arrival, now_ns);
}

static void add_memory(const void *state, struct diwarp_memory *memory)
{
    const struct dw_ud *ud = state;
    memory->base_bytes += sizeof *ud;
    memory->addresses += ud->ahs.cells.count;
    memory->address_bytes += dw_cells_bytes(&ud->ahs.cells);
    dw_list_foreach (it, &ud->port->qps) {
        struct diwarp_qp *qp = dw_container(it, struct diwarp_qp, link);
        if (qp->service == &dw_ud_service)
            dw_ud_add_memory(dw_ud_qp_of(qp), memory);
    }
}

const struct dw_service dw_ud_service = {
    .type = DIWARP_QPT_UD,
    .qp_bytes = sizeof(struct dw_ud_qp),
    .open = open_state,
    .close = close_state,
    .create = dw_ud_create,
    .destroy = dw_ud_destroy,
    .post_send = dw_ud_post_send,
    .post_recv = dw_ud_post_recv,
    .get_ah = get_ah,
    .get_ah_of_qpn = get_ah_of_qpn,
    .put_ah = put_ah,
    .take = take,
    .add_memory = add_memory,
};
