/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the front for librdmacm begin with: who listens, and two ids that are
 * connected. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>

#include <rdma/rdma_cma.h>

#include "test/verbs/end.h"

struct listener {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct sockaddr_in address;
};

/* The two ids of one, both of this process, each with its own channel. */
struct connection {
    struct listener listener, caller; /* caller.address: whom it calls */
    struct rdma_cm_id *called;
};

struct listener start_listening_at(struct in_addr address, enum rdma_port_space ps, int backlog);
void stop_listening(struct listener *listener);
union ibv_gid own_gid(void);
struct in_addr own_address(void);
bool is_readable(int fd, int wait_ms);

/* The next one, which comes within five seconds and is of that type; acknowledged or not. */
struct rdma_cm_event *take_event(const struct listener *listener, enum rdma_cm_event_type type);
void ack(const struct listener *end, enum rdma_cm_event_type type);

/* Who calls, acknowledged. */
struct rdma_cm_id *take_caller(const struct listener *listener);

/* An id that has a route to there, and no queue pair. */
struct listener route_to(struct sockaddr_in address, enum rdma_port_space ps);
void make_qp(struct rdma_cm_id *id);
struct connection connect_ids(void);
void destroy_ids(struct connection *c);
