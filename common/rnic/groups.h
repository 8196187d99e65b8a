/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups that queue pairs of a port are attached to: a socket for each, all behind one
 * descriptor, so that a run costs one system call however many there are. */
#pragma once

#include "common/include/diwarp_group.h"
#include "common/rnic/qp.h"
#include "common/wire/ddp.h"

/* The region of a member that stands for the STag on which a group has agreed. */
struct dw_window {
    uint32_t stag, own_stag; /* agreed; the region's, 0: there is none */
    uint64_t iova, length;   /* of the region */
};

struct dw_groups {
    struct dw_runner runner;
    struct dw_port *port;
    struct dw_list list; /* struct group (groups.c) */
    unsigned count;
};

/* Whether a segment to a group may come to a member: a Send, or of a Write-Record that names its
 * window, as the member's region then. */
static inline bool dw_window_admits(const struct dw_window *window, struct dw_ddp_header *ddp)
{
    if (!ddp->tagged)
        return dw_rdmap_is_send(ddp->opcode);
    if (ddp->opcode != DW_RDMAP_WRITE_RECORD || !window->own_stag || ddp->stag != window->stag ||
        ddp->to > window->length)
        return false;
    ddp->stag = window->own_stag;
    ddp->to += window->iova;
    return true;
}

/* Opens a datagram that came to a group, and hands it to each member. */
void dw_groups_take(struct dw_port *port, struct dw_arrival *arrival, uint64_t now_ns);
/* The QP is about to be destroyed. */
void dw_groups_leave(struct diwarp_qp *qp);
/* The port is about to be closed, and has no QP. */
void dw_groups_close(struct dw_port *port);
